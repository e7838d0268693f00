"""Writes testdata/savedmodel and testdata/savedmodel.json: a small model that
is not of the kind that tflite knows, saved by TensorFlow, and what it answers.

    pip install tensorflow-cpu==2.20.0 && python3 make_savedmodel.py
"""

import json
from pathlib import Path

import numpy as np
import tensorflow as tf

OBS, ACTION, D, MEMBERS, HIDDEN = 5, 2, 4, 3, 8
here = Path(__file__).parent
rng = np.random.default_rng(1)


class Model(tf.Module):
    def __init__(self):
        make = lambda *shape: tf.Variable((rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32))
        self.b, self.a1, self.a2 = make(OBS, D), make(OBS + D, HIDDEN), make(HIDDEN, ACTION)
        self.f1, self.f2 = make(MEMBERS, OBS + ACTION + D, HIDDEN), make(MEMBERS, HIDDEN, D)

    @tf.function(input_signature=[tf.TensorSpec([None, OBS], name="obs")])
    def phi(self, obs):
        return {"phi": tf.nn.l2_normalize(tf.tanh(obs @ self.b), axis=1)}

    @tf.function(input_signature=[tf.TensorSpec([None, OBS], name="obs"), tf.TensorSpec([None, D], name="z")])
    def policy(self, obs, z):
        z = tf.nn.l2_normalize(z, axis=1)
        return {"action": tf.tanh(tf.nn.gelu(tf.concat([obs, z], 1) @ self.a1) @ self.a2)}

    @tf.function(input_signature=[
        tf.TensorSpec([None, OBS], name="obs"),
        tf.TensorSpec([None, ACTION], name="action"),
        tf.TensorSpec([None, D], name="z")
    ])
    def psi(self, obs, action, z):
        z = tf.nn.l2_normalize(z, axis=1)
        return {"psi": tf.nn.gelu(tf.concat([obs, action, z], 1) @ self.f1) @ self.f2}


model = Model()
tf.saved_model.save(model, str(here / "savedmodel"),
                    signatures={"phi": model.phi, "policy": model.policy, "psi": model.psi})

n = 6
obs = rng.standard_normal((1, OBS)).astype(np.float32)
z = rng.standard_normal((n, D)).astype(np.float32)
mean = rng.standard_normal(D).astype(np.float32)
inv_r = np.triu(rng.standard_normal((D, D))).astype(np.float32)
beta = 0.7
states = np.repeat(obs, n, axis=0)
action = model.policy(states, z)["action"].numpy()
psi = model.psi(states, action, z)["psi"].numpy()
score = (psi @ mean + beta * np.linalg.norm(psi @ inv_r, axis=2)).min(axis=0)
answers = {
    "obs": obs[0], "z": z.ravel(), "mean": mean, "inv_r": inv_r.ravel(), "beta": beta,
    "phi": model.phi(obs)["phi"].numpy()[0], "action": action[0], "psi": psi[:, 0].ravel(), "best": int(score.argmax()),
    "score": float(score.max())
}
(here / "savedmodel.json").write_text(
    json.dumps({k: v.tolist() if hasattr(v, "tolist") else v for k, v in answers.items()}, indent=1) + "\n"
)
