"""Writes exported, the SavedModel of scripts/export_savedmodel.py, and
exported.npz, what TensorFlow's Python says of it.

    pip install tensorflow-cpu==2.20.0 && python3 make_exported.py
"""

import os
import runpy
from pathlib import Path

import numpy as np

here = Path(__file__).resolve().parent
os.chdir(here)
example = runpy.run_path(str(here.parents[2] / "scripts" / "export_savedmodel.py"))
model, rng = example["model"], np.random.default_rng(2)
obs = rng.standard_normal((5, example["O"])).astype(np.float32)
z = rng.standard_normal((5, example["D"])).astype(np.float32)
action = model.policy(obs, z)["action"]
np.savez(
    here / "exported.npz", obs=obs, z=z, phi=model.phi(obs)["phi"], action=action, psi=model.psi(obs, action, z)["psi"]
)
