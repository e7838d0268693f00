"""Forward-backward representations: networks, losses and the bundle they are saved in."""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # before anything that an older one cannot read
    sys.exit(f"optibfm needs Python 3.10 or newer, {sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}; "
             "use another python3")
