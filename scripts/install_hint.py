"""Ends a script whose imports failed with the command that installs them. Without this the user sees a traceback.

    import install_hint

    try:
        import mujoco
    except ImportError as e:
        install_hint.exit_without(e)
"""

import sys

if sys.version_info < (3, 10):  # noqa: UP036  # before anything that an older one cannot read
    sys.exit(f"optibfm needs Python 3.10 or newer, {sys.executable} is {sys.version_info[0]}.{sys.version_info[1]}; "
             "use another python3")

import os
import shlex
import sysconfig
from typing import NoReturn


def exit_without(error: ImportError, fix: str | None = None) -> NoReturn:
    """Ends a script whose imports failed with one line: what is missing and, after a semicolon, the fix.

    The default fix installs the requirements of the simulators with pip.
    """
    sys.exit(f"{os.path.basename(sys.argv[0])}: {error}; {fix or 'install it: ' + pip_command()}")


def pip_command(managed: bool | None = None, requirements: str = "requirements-simulators.txt") -> str:
    """Returns the shell command that installs the requirements of the simulators for this interpreter.

    requirements: a file beside the script. managed: the interpreter belongs to the operating system, whose pip
    refuses to install (PEP 668). The command then creates and activates a virtual environment, in which python3 is
    its interpreter.
    """
    if managed is None:
        marker = os.path.join(sysconfig.get_path("stdlib"), "EXTERNALLY-MANAGED")
        managed = sys.prefix == sys.base_prefix and os.path.exists(marker)
    install = ["-m", "pip", "install", "-r", os.path.join(os.path.dirname(sys.argv[0]), requirements)]
    if not managed:
        return shlex.join([sys.executable, *install])
    create = shlex.join([sys.executable, "-m", "venv", ".venv"])
    return f"{create} && . .venv/bin/activate && {shlex.join(['python3', *install])}"
