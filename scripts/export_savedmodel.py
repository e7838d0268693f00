"""Exports a model as a SavedModel for `optibfm model import`: put yours in here.

docs/tensorflow.md, "Your own model as a SavedModel", explains it.

    pip install tensorflow-cpu==2.20.0 && python3 export_savedmodel.py
"""

import numpy as np
import tensorflow as tf

O, A, D, E, H = 6, 2, 8, 2, 32  # observation, action, d, ensemble, hidden
rng = np.random.default_rng(1)


def weights(*shape):  # here comes what you trained
    return tf.Variable((rng.standard_normal(shape) / np.sqrt(shape[-2])).astype(np.float32))


def rows(width, name):  # n is not fixed, the width is
    return tf.TensorSpec([None, width], tf.float32, name)


class Model(tf.Module):
    def __init__(self) -> None:
        self.b = weights(O, D)
        self.a1, self.a2 = weights(O + D, H), weights(H, A)
        self.f1, self.f2 = weights(E, O + A + D, H), weights(E, H, D)

    @tf.function(input_signature=[rows(O, "obs")])
    def phi(self, obs):
        return {"phi": tf.tanh(obs @ self.b)}

    @tf.function(input_signature=[rows(O, "obs"), rows(D, "z")])
    def policy(self, obs, z):
        hidden = tf.nn.gelu(tf.concat([obs, tf.nn.l2_normalize(z, 1)], 1) @ self.a1)
        return {"action": tf.tanh(hidden @ self.a2)}

    @tf.function(input_signature=[rows(O, "obs"), rows(A, "action"), rows(D, "z")])
    def psi(self, obs, action, z):
        hidden = tf.nn.gelu(tf.concat([obs, action, tf.nn.l2_normalize(z, 1)], 1) @ self.f1)
        return {"psi": hidden @ self.f2}  # [E, n, d]: f1 and f2 have E matrices


model = Model()
tf.saved_model.save(model, "exported", {"phi": model.phi, "policy": model.policy, "psi": model.psi})
