"""Recorded transitions, read and checked: one row each, in columns by name.

They are in NumPy's .npz, as the collectors write it, or in the checkpoint.pt of
pretrain_dmc.py, together with what the model's practice recorded. An invalid
file ends the program with an error that names it.
"""

import json
import os
import zipfile
import zlib

import numpy as np

FLOATS = ("obs", "action", "next_obs", "measure")
SOURCES = ("curious", "oscillating", "commanded"
           )  # columns that tell how a row came about; none of them: exploring starts


def read(path: str | os.PathLike, needed: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Reads the needed columns of an .npz, and the optional ones that exist; FLOATS are float32 [n, width]."""
    try:
        archive = np.load(path)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("holds a single array")  # noqa: TRY004  # the file is wrong, not the call
        with archive:
            missing = [name for name in needed if name not in archive]
            if missing:
                raise ValueError(f"has no {', '.join(missing)} (it has {', '.join(archive) or 'nothing'})")
            names = [*needed, *(name for name in optional if name in archive)]
            columns = {name: np.asarray(archive[name], np.float32 if name in FLOATS else None) for name in names}
    except (OSError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as err:
        raise SystemExit(f"{path}: no recording: {err}; give an .npz with {', '.join(needed)}") from err
    check(path, columns)
    return columns


def robot(path: str | os.PathLike) -> dict:
    """Returns the robot of a recording: name, observation and action (lists of {"name", "unit"}); {} if it is
    not recorded."""
    with np.load(path) as archive:
        if "robot" not in archive:
            return {}
        try:
            return json.loads(bytes(archive["robot"].astype(np.uint8)))
        except (ValueError, TypeError) as err:
            raise SystemExit(f"{path}: robot: {err}; give a recording of optibfm-lab collect") from err


def of_checkpoint(path: str | os.PathLike) -> dict[str, np.ndarray]:
    """Reads the training data of pretrain_dmc.py from its checkpoint.pt."""
    import torch  # not needed for an .npz

    content = read_checkpoint(path, "cpu")
    if "replay" not in content:
        raise SystemExit(f"{path}: holds no transitions; give a checkpoint of pretrain_dmc.py")
    columns = {name: column.to(torch.float32).numpy() for name, column in content["replay"]["columns"].items()}
    check(path, columns)
    return columns


def read_checkpoint(path: str | os.PathLike, device: str) -> dict:
    """Reads a checkpoint.pt of a training, with tensors on device."""
    import pickle

    import torch

    try:
        content = torch.load(path, map_location=device, weights_only=True)
        if "step" in content and "model" in content:
            return content
        err = "neither a model nor its updates are in it"
    except (OSError, EOFError, RuntimeError, TypeError, pickle.UnpicklingError) as caught:
        err = caught
    raise SystemExit(f"{path}: no checkpoint of a training: {err}; give another folder, or start again")


def check(path: str | os.PathLike, columns: dict[str, np.ndarray]) -> None:
    """Ends the program if columns do not fit together, are empty or have unusable values."""
    lengths = {len(column) if column.ndim else 0 for column in columns.values()}
    shapes = ", ".join(f"{name} {list(column.shape)}" for name, column in columns.items())
    wide = all(columns[name].ndim == 2 and columns[name].shape[1] for name in FLOATS if name in columns)
    alike = "obs" not in columns or "next_obs" not in columns or columns["obs"].shape == columns["next_obs"].shape
    if not wide or not alike or len(lengths) != 1:
        raise SystemExit(
            f"{path}: columns do not fit together ({shapes}): want obs [n, O], action [n, A], next_obs [n, "
            "O], and n rows of all others"
        )
    if lengths.pop() < 2:
        raise SystemExit(f"{path}: too few transitions ({shapes}): record at least two")
    for name in FLOATS:
        if name in columns and not np.isfinite(columns[name]).all():
            rows = np.flatnonzero(~np.isfinite(columns[name]).all(1))
            raise SystemExit(
                f"{path}: {name} holds numbers that are not finite (in {len(rows)} rows, first in row "
                f"{rows[0]}): remove those rows"
            )
    if "action" in columns and np.abs(columns["action"]).max() > 1:
        raise SystemExit(f"{path}: actions reach {np.abs(columns['action']).max():g}: scale them to [-1, 1]")


def check_domain(path: str | os.PathLike, columns: dict[str, np.ndarray], sim) -> None:
    """Ends the program if the widths of columns differ from those of the simulation sim."""
    observed = sim.obs.shape[1]
    widths = {"obs": observed, "next_obs": observed, "action": sim.domain.model.nu, "measure": sim.measure().shape[1]}
    wrong = [f"{name} {columns[name].shape[1]} instead of {width}" for name, width in widths.items()
             if name in columns and columns[name].shape[1] != width]
    if wrong:
        raise SystemExit(
            f"{path}: is not of this domain (widths: {', '.join(wrong)}); give one that was recorded in it")
