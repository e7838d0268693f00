"""The task prior of a bundle, which the program `optibfm model prior` estimates from observations."""

import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np

OBSERVATIONS = 50_000


def add(program: str, bundle: Path, obs: np.ndarray, path: Path) -> None:
    """Saves obs [n, O] as path and lets the program add the prior. Prints the command if that is not possible."""
    np.savez_compressed(path, obs=np.asarray(obs, np.float32))
    found = shutil.which(program)
    command = [found or program, "model", "prior", str(bundle), "--observations", str(path)]
    if found and subprocess.run(command, check=False).returncode == 0:  # the program that the user named
        return
    why = "the program failed" if found else f"{program} was not found (--optibfm)"
    print(f"{bundle} has no task prior: {why}; run: {shlex.join(command)}", file=sys.stderr)
