"""Evaluates an ONNX model: MODEL IN.npz OUT.npz."""

import sys

import numpy as np

try:
    import onnxruntime
except ImportError:
    sys.exit(3)

model, given, results = sys.argv[1:]
session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
archive = np.load(given)
feeds = {i.name: archive[i.name] for i in session.get_inputs()}
names = [o.name for o in session.get_outputs()]
np.savez(results, **dict(zip(names, session.run(names, feeds))))
