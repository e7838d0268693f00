#!/usr/bin/env python3
"""Time the same step in optibfm and in what one would run instead.

    pip install numpy scipy torch onnx onnxruntime jax matplotlib
    python3 lab/bench/bench_peers.py --optibfm ./optibfm --lab ./optibfm-lab --hidden 256 1024 --threads 1 2 \
        --markdown peers.md --json peers.json --plot peers.png

Every contender is a separate process that reads the same bundle and answers
requests for steps; the requests go round, so that what else happens on the
machine meets all of them alike, and who is not asked is stopped. Before
anything is timed, each contender's phi, action and psi are compared with
optibfm's. A thread count binds everything to as many cores; 0 is all of them.

The steps (the paper's; n candidates, d latent dimensions):

    policy    the action of one z
    thompson  phi(s), a label into V and b, z drawn from N(z_hat, 1/V), the action
    ucb       phi(s), a label into V and b, n candidates from the ellipsoid, the
              best by min over members of psi.z_hat + beta |psi|_1/V, its action
    search    (optibfm only) the evaluation of the candidates within ucb
    tick      (optibfm only) phi(s), a label, the D-gap, the action

optibfm's steps are those of its controller (`optibfm-lab bench --serve`): they include its guards,
label gate and hashes. Only the policy is the network alone.

The peers are written plainly, as the published implementations are: every
candidate is a row with the observation in it, V is factorised again, and the
action of the best candidate is evaluated again. torch-shared,
torch-compile-shared, onnxruntime-shared and jax-shared are what one can make of
that without leaving the framework: what does not depend on the candidate is
evaluated once, the scores and their maximum are part of the graph, and the best
candidate's action is the one that the search has found.

Peers in low precision share in the same way. torch-bfloat16 and
torch-compile-bfloat16 have bfloat16 weights and inputs of the layers,
onnxruntime-float16 the graphs of onnxruntime.transformers.float16,
onnxruntime-int8 those of quantize_dynamic with int8 weights per channel; the belief and,
in ONNX Runtime, phi stay float32. Their error is printed, and in how many of 16
searches they choose the candidate that NumPy chooses in float32. All peers
search the same candidates there.

A share of the roof compares two rates with what the same cores reach in the same
rounds, in PyTorch: the operations of ucb with those of a product of float32 matrices [2048, 2048], the
bytes of the other steps with the sum of 256 MiB. The work of all contenders is that
of the shared way with float32 weights. So who skips a ReLU's zeros, or has smaller
weights, can exceed the roof, and a plain peer does more than is counted.

Models of any size, with residual networks and observation groups too, come from
scripts/reference_checkpoint.py and `optibfm model import`:

    python3 lab/bench/bench_peers.py --bundle s1 --float16 s1-half --peers torch-shared onnxruntime-shared --threads 2

(`model import --weights float32` and `float16`)

To compare without AVX-512, set GODEBUG=cpu.avx512f=off, ATEN_CPU_CAPABILITY=avx2 and
XLA_FLAGS=--xla_cpu_max_isa=AVX2; ONNX Runtime cannot be limited.

The times of the peers are those of a call from Python, which is how one would
call them: some ten microseconds of each are the interpreter's.

Reported are medians over all calls and over the rounds the median of the ratio
to optibfm's median in the same round, each with the 10th and 90th percentile.
"""

import argparse
import copy
import hashlib
import json
import math
import os
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

STEPS = ["policy", "thompson", "ucb"]
LOW = ["torch-bfloat16", "torch-compile-bfloat16", "onnxruntime-float16", "onnxruntime-int8"]  # in low precision
PEERS = [
    "numpy", "torch", "torch-shared", "torch-compile", "torch-compile-shared", "onnxruntime", "onnxruntime-shared",
    "jax", "jax-shared", *LOW
]
CHOICES = 16  # searches whose choices are compared
BETA = 1.0
NORMALIZER_EPS = 1e-5  # of the program and of the scripts that train
AUTOTUNE = "BENCH_PEERS_AUTOTUNE"  # tells the worker of torch-compile


# --- bundles ---------------------------------------------------------------


def random_bundle(folder, hidden, obs, action, latent, seed=1) -> None:
    """A bundle of random weights, of the size that keeps the signal's."""
    rng = np.random.default_rng(seed)
    branch = {"hidden": hidden, "hidden_layers": 1, "embedding_layers": 2}
    arch = {
        "obs": obs, "action": action, "latent": latent, "norm_obs": False, "norm_z": True,
        "f": {**branch, "num_parallel": 2}, "b": {"hidden": hidden, "hidden_layers": 2, "norm": True}, "actor": branch
    }
    tensors = {}

    def linear(name, n_in, n_out, members=1):
        weight = rng.standard_normal((members, n_in, n_out)) / math.sqrt(n_in)
        tensors[name + ".weight"] = weight if members > 1 else weight[0].T
        tensors[name + ".bias"] = 0.1 * rng.standard_normal((members, 1, n_out) if members > 1 else n_out)

    def norm(name, members=1):
        shape = (members, 1, hidden) if members > 1 else (hidden,)
        tensors[name + ".weight"] = 1 + 0.1 * rng.standard_normal(shape)
        tensors[name + ".bias"] = 0.1 * rng.standard_normal(shape)

    def embedding(prefix, n_in, members):
        linear(prefix + ".0", n_in, hidden, members)
        norm(prefix + ".1", members)
        linear(prefix + ".3", hidden, hidden // 2, members)

    def trunk(prefix, n_out, members):
        linear(prefix + ".0", hidden, hidden, members)
        linear(prefix + ".2", hidden, n_out, members)

    linear("_backward_map.net.0", obs, hidden)
    norm("_backward_map.net.1")
    linear("_backward_map.net.3", hidden, hidden)
    linear("_backward_map.net.5", hidden, latent)
    embedding("_forward_map.embed_z", obs + latent, 2)
    embedding("_forward_map.embed_sa", obs + action, 2)
    trunk("_forward_map.Fs", latent, 2)
    embedding("_actor.embed_z", obs + latent, 1)
    embedding("_actor.embed_s", obs, 1)
    trunk("_actor.policy", action, 1)
    root = rng.standard_normal((latent, latent))
    tensors["cov_b"] = np.eye(latent) + root.T @ root / latent
    write_bundle(folder, arch, {name: np.ascontiguousarray(t, dtype="<f4") for name, t in tensors.items()})


def write_bundle(folder, arch, tensors) -> None:
    header, data = {}, b""
    for name, t in tensors.items():
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(data), len(data) + t.nbytes]}
        data += t.tobytes()
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    weights = struct.pack("<Q", len(text)) + text + data
    manifest = {"format": "optibfm-bundle", "version": 2, "name": "random", "architecture": arch, "layernorm_eps": 1e-5,
                "gamma": 0.98, "observation": [], "action": [], "weights_sha256": hashlib.sha256(weights).hexdigest(),
                "provenance": {"source": "random numbers"}}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.safetensors").write_bytes(weights)
    (folder / "bfm.json").write_text(json.dumps(manifest))


class Bundle:
    """A bundle's networks as lists of layers; weights are [in, out]."""

    def __init__(self, folder) -> None:
        manifest = json.loads((Path(folder) / "bfm.json").read_text())
        raw = (Path(folder) / "model.safetensors").read_bytes()
        size = struct.unpack("<Q", raw[:8])[0]
        self.tensors = {}
        for name, t in json.loads(raw[8:8 + size]).items():
            if name != "__metadata__":
                first, last = t["data_offsets"]
                if t["dtype"] == "F16":
                    raise SystemExit(
                        "bench_peers: the peers have float32 weights: import the model with --weights float32")
                kind = {"F32": "<f4", "F64": "<f8"}[t["dtype"]]
                self.tensors[name] = np.frombuffer(raw[8 + size + first:8 + size + last], kind).reshape(t["shape"])
        arch = manifest["architecture"]
        if not arch["norm_z"] or not arch["b"]["norm"]:
            raise SystemExit("bench_peers: the peers are written for norm_z: true, b.norm: true; use such a bundle")
        self.eps, self.arch = manifest["layernorm_eps"], arch
        self.obs, self.action, self.d = arch["obs"], arch["action"], arch["latent"]
        self.members = arch["f"]["num_parallel"]
        self.b = self.stack("_backward_map.net", 0, 1)
        self.f = [[self.stack(f"_forward_map.{part}", m, self.members) for part in ("embed_sa", "embed_z", "Fs")]
                  for m in range(self.members)]
        self.actor = [self.stack(f"_actor.{part}", 0, 1) for part in ("embed_s", "embed_z", "policy")]
        self.mean = self.scale = None  # of the observation, where the first layers do not standardise it
        self.columns = {network: self.columns_of(arch[network].get("inputs", [])) for network in ("b", "f", "actor")}
        if arch["norm_obs"] and not self.residual:
            self.standardise_within()
        elif arch["norm_obs"]:
            self.standardise(self.moments("_obs_normalizer.", arch["norm_obs"], self.obs))
        elif any(group["norm_obs"] for group in arch.get("groups", [])):
            parts = [
                self.moments(f"_obs_normalizer._normalizers.{g['name']}._normalizer.", g["norm_obs"], g["size"])
                for g in arch["groups"]
            ]
            self.standardise(np.concatenate(parts, axis=1))
        self.inv_cov = np.linalg.inv(self.tensors["cov_b"].astype(np.float64)).astype(np.float32)
        # First layers apart: what the observation, or the left embedding, is multiplied by, the
        # rest, the bias.
        width = {network: self.obs if columns is None else len(columns) for network, columns in self.columns.items()}
        self.f_split = [[split(left[0], width["f"]), split(right[0], width["f"])] for left, right, _ in self.f]
        left, right, trunk = self.actor
        self.actor_split = [split(right[0], width["actor"]), split(trunk[0], left[-1][-2].shape[1])]

    @property
    def residual(self) -> bool:
        return self.arch["actor"].get("residual", False)

    def columns_of(self, groups):
        """The elements of the observation in these groups; None: all of them."""
        if not groups:
            return None
        at, first = 0, {}
        for group in self.arch["groups"]:
            first[group["name"]] = np.arange(at, at + group["size"])
            at += group["size"]
        return np.concatenate([first[name] for name in groups])

    def moments(self, prefix, standardised, size):
        """Mean and variance of a normaliser, or of one that changes nothing."""
        if not standardised:
            return np.array([np.zeros(size), np.full(size, 1 - NORMALIZER_EPS)])
        return np.array([self.tensors[f"{prefix}running_{name}"].astype(np.float64) for name in ("mean", "var")])

    def standardise(self, moments) -> None:
        self.mean = moments[0].astype(np.float32)
        self.scale = (1 / np.sqrt(moments[1] + NORMALIZER_EPS)).astype(np.float32)

    def standardise_within(self) -> None:
        """Has the first layers take raw observations: their weights and biases do what standardising would have
        done, at no cost."""
        mean, variance = (self.tensors[f"_obs_normalizer.running_{name}"].astype(np.float64)
                          for name in ("mean", "var"))
        scale = 1 / np.sqrt(variance + NORMALIZER_EPS)
        for part in [self.b, *(branch for member in self.f for branch in member[:2]), *self.actor[:2]]:
            weight, bias = part[0]
            raw = np.concatenate([weight[:self.obs] * scale[:, None], weight[self.obs:]])
            part[0] = raw.astype(np.float32), (bias - mean @ raw[:self.obs]).astype(np.float32)

    def converted(self, convert):
        """The same bundle with every array passed through convert."""
        other = copy.copy(self)
        each = lambda layers: [tuple(convert(part) for part in layer) for layer in layers]
        other.b, other.actor = each(self.b), [each(part) for part in self.actor]
        other.f = [[each(part) for part in member] for member in self.f]
        other.f_split, other.actor_split = [each(member) for member in self.f_split], each(self.actor_split)
        other.inv_cov = convert(self.inv_cov)
        if self.mean is not None:
            other.mean, other.scale = convert(self.mean), convert(self.scale)
        return other

    def stack(self, prefix, member, members):
        """The layers of a Sequential in order: (weight, bias), or (gain, shift) of a LayerNorm, or both of a
        residual block."""
        if f"{prefix}.0.mlp.0.weight" in self.tensors:
            return self.blocks(prefix, member, members)
        numbers = sorted(
            int(name.split(".")[-2]) for name in self.tensors
            if name.startswith(prefix + ".") and name.endswith(".weight"))
        layers = []
        for n in numbers:
            weight, bias = self.tensors[f"{prefix}.{n}.weight"], self.tensors[f"{prefix}.{n}.bias"]
            if members > 1:
                weight, bias = weight[member], bias[member].reshape(-1)
                weight = weight.reshape(-1) if weight.shape[0] == 1 and n == 1 else weight
            elif weight.ndim == 2:
                weight = weight.T
            layers.append((np.ascontiguousarray(weight, np.float32), np.ascontiguousarray(bias, np.float32)))
        return layers


    def blocks(self, prefix, member, members):
        layers = []
        while f"{prefix}.{len(layers)}.mlp.0.weight" in self.tensors:
            parts = [
                self.tensors[f"{prefix}.{len(layers)}.mlp.{n}.{kind}"] for n in (0, 1) for kind in ("weight", "bias")
            ]
            gain, shift, weight, bias = [part[member] for part in parts] if members > 1 else parts
            weight = weight if members > 1 else weight.T
            layers.append(
                tuple(np.ascontiguousarray(x, np.float32) for x in (gain.ravel(), shift.ravel(), weight, bias.ravel())))
        return layers


def split(layer, at):
    """A layer of concatenated inputs in two: weights of each, bias and, with LayerNorm folded into them, the
    weights' sums."""
    if len(layer) == 2:
        weight, bias = layer
        return np.ascontiguousarray(weight[:at]), np.ascontiguousarray(weight[at:]), bias
    gain, shift, weight, bias = layer
    folded = weight * gain[:, None]
    first, second = np.ascontiguousarray(folded[:at]), np.ascontiguousarray(folded[at:])
    return first, second, bias + shift @ weight, folded.sum(axis=0)


# --- the networks, once for every framework ----------------------------------
# ops has linear, matmul, layer_norm, tanh, relu, mish, add, standardise, columns, concat, unit and
# stack.


def blocks(ops, layers, x, embedding, first=0):
    """Residual blocks from number first on."""
    for i, (gain, shift, weight, bias) in enumerate(layers[first:], first):
        last = i == len(layers) - 1
        y = ops.linear(ops.layer_norm(x, gain, shift), weight, bias)
        if embedding or not last:
            y = ops.mish(y)
        x = y if last or (embedding and i == 0) else ops.add(x, y)
    return x


def sequential(ops, layers, x, embedding):
    """Linear, LayerNorm and tanh if there is one, ReLU between the rest; or residual blocks."""
    if layers and len(layers[0]) == 4:
        return blocks(ops, layers, x, embedding)
    for i, (weight, bias) in enumerate(layers):
        if weight.ndim == 1:
            x = ops.tanh(ops.layer_norm(x, weight, bias))
            continue
        x = ops.linear(x, weight, bias)
        following = layers[i + 1][0].ndim if i + 1 < len(layers) else 0
        if following == 2 or (embedding and following == 0):
            x = ops.relu(x)
    return x


def twin(ops, parts, left, right):
    left_part, right_part, trunk = parts
    h = ops.concat([sequential(ops, left_part, left, True), sequential(ops, right_part, right, True)])
    return sequential(ops, trunk, h, False)


def seen(ops, bundle, network, obs):
    """What a network reads of the observation."""
    if bundle.mean is not None:
        obs = ops.standardise(obs, bundle.mean, bundle.scale)
    columns = bundle.columns[network]
    return obs if columns is None else ops.columns(obs, columns)


def phi_of(ops, bundle, obs):
    """[n, O] -> [n, d]"""
    obs = seen(ops, bundle, "b", obs)
    return ops.matmul(ops.unit(sequential(ops, bundle.b, obs, False), bundle.d), bundle.inv_cov)


def action_of(ops, bundle, obs, z):
    """[n, O], [n, d] -> [n, A]"""
    obs = seen(ops, bundle, "actor", obs)
    return ops.tanh(twin(ops, bundle.actor, obs, ops.concat([obs, ops.unit(z, bundle.d)])))


def psi_of(ops, bundle, obs, action, z):
    """-> [E, n, d]"""
    obs = seen(ops, bundle, "f", obs)
    right = ops.concat([obs, ops.unit(z, bundle.d)])
    left = ops.concat([obs, action])
    return ops.stack([twin(ops, f, left, right) for f in bundle.f])


# The same for the candidates of one observation, obs [1, O].


def shared_embedding(ops, layers, first, obs, varying):
    if len(first) == 4:
        return blocks(ops, layers, ops.mish(shared_block(ops, first, obs, varying)), True, 1)
    observed, rest, bias = first
    start = ops.linear(obs, observed, bias)
    return sequential(ops, layers[1:], ops.linear(varying, rest, start), True)


def shared_block(ops, split, same, varying):
    """LayerNorm and product of [same, varying], where same is one row for all."""
    of_same, rest, bias, sums = split
    product = ops.add(ops.matmul(varying, rest), ops.matmul(same, of_same))
    return ops.finish(product, same, varying, sums, bias, of_same.shape[0] + rest.shape[0])


def shared_action_of(ops, bundle, obs, unit_z):
    (left, right, trunk), (first, join) = bundle.actor, bundle.actor_split
    obs = seen(ops, bundle, "actor", obs)
    if bundle.residual:
        same, varying = blocks(ops, left, obs, True), shared_embedding(ops, right, first, obs, unit_z)
        h = shared_block(ops, join, same, varying)
        if len(trunk) > 1:
            h = blocks(ops, trunk, ops.add(ops.mish(h), ops.beside(same, varying)), False, 1)
        return ops.tanh(h)
    of_left, of_right, bias = join
    start = ops.linear(sequential(ops, left, obs, True), of_left, bias)
    h = ops.linear(shared_embedding(ops, right, first, obs, unit_z), of_right, start)
    if len(trunk) > 1:
        h = sequential(ops, trunk[1:], ops.relu(h), False)
    return ops.tanh(h)


def shared_psi_of(ops, bundle, obs, action, unit_z):
    members, obs = [], seen(ops, bundle, "f", obs)
    for (left, right, trunk), (of_action, of_z) in zip(bundle.f, bundle.f_split):
        h = ops.concat(
            [shared_embedding(ops, left, of_action, obs, action), shared_embedding(ops, right, of_z, obs, unit_z)]
        )
        members.append(sequential(ops, trunk, h, False))
    return ops.stack(members)


def finished(product, same, varying, sums, bias, width, eps):
    """LayerNorm of a product with folded weights, from the moments of its two inputs, in PyTorch or JAX."""
    mean = (same.sum(1)[:, None] + varying.sum(1)[:, None]) / width
    variance = ((same * same).sum(1)[:, None] + (varying * varying).sum(1)[:, None]) / width - mean * mean
    return (product - mean * sums) * (variance + eps) ** -0.5 + bias


# --- contenders ------------------------------------------------------------


class NumPy:
    """The networks in NumPy and the belief in NumPy and SciPy."""

    def __init__(self, bundle, threads, n) -> None:
        from scipy.linalg import solve_triangular
        self.solve = solve_triangular
        self.bundle, self.n = bundle, n
        self.rng = np.random.default_rng(1)
        self.v, self.b = np.eye(bundle.d, dtype=np.float32), np.zeros(bundle.d, np.float32)
        self.z = self.rng.standard_normal((1, bundle.d)).astype(np.float32)

    # ops
    tanh = staticmethod(np.tanh)
    matmul = staticmethod(np.matmul)
    stack = staticmethod(np.stack)
    concat = staticmethod(lambda parts: np.concatenate(parts, axis=1))
    linear = staticmethod(lambda x, w, b: x @ w + b)
    relu = staticmethod(lambda x: np.maximum(x, 0))
    unit = staticmethod(lambda x, d: x * (math.sqrt(d) / np.linalg.norm(x, axis=1, keepdims=True)))
    add = staticmethod(np.add)
    standardise = staticmethod(lambda x, mean, scale: (x - mean) * scale)
    columns = staticmethod(lambda x, numbers: x[:, numbers])
    mish = staticmethod(lambda x: x * np.tanh(np.logaddexp(x, np.float32(0))))

    def layer_norm(self, x, gain, shift):
        x = x - x.mean(axis=1, keepdims=True)
        return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + self.bundle.eps) * gain + shift

    def phi(self, obs):
        return phi_of(self, self.bundle, obs)

    def act(self, obs, z):
        return action_of(self, self.bundle, obs, z)

    def psi(self, obs, action, z):
        return psi_of(self, self.bundle, obs, action, z)

    def action_and_psi(self, obs, z):
        action = self.act(obs, z)
        return action, self.psi(obs, action, z)

    # steps
    def policy(self, obs):
        return self.act(obs, self.z)

    def learn(self, obs):
        phi = self.phi(obs)[0]
        self.v += np.outer(phi, phi)
        self.b += 0.5 * phi
        factor = np.linalg.cholesky(self.v)
        return factor, self.solve(factor.T, self.solve(factor, self.b, lower=True, check_finite=False),
                                  check_finite=False)

    def thompson(self, obs):
        factor, mean = self.learn(obs)
        noise = self.rng.standard_normal(self.bundle.d, np.float32)
        self.z = (mean + self.solve(factor.T, noise, check_finite=False))[None]
        return self.act(obs, self.z)

    def ucb(self, obs):
        factor, mean = self.learn(obs)
        d = self.bundle.d
        ball = self.rng.standard_normal((self.n, d), np.float32)
        ball *= self.rng.random((self.n, 1), np.float32) ** (1 / d) / np.linalg.norm(ball, axis=1, keepdims=True)
        z = mean + 2 * BETA * self.solve(factor.T, ball.T, check_finite=False).T
        _, psi = self.action_and_psi(np.repeat(obs, self.n, axis=0), z)
        rows = psi.reshape(-1, d)
        width = np.linalg.norm(self.solve(factor, rows.T, lower=True, check_finite=False), axis=0)
        score = (rows @ mean + BETA * width).reshape(self.bundle.members, self.n).min(axis=0)
        self.z = z[[score.argmax()]]
        return self.act(obs, self.z)


class OnnxRuntime(NumPy):
    """The networks in ONNX Runtime, the belief in NumPy and SciPy."""

    def __init__(self, bundle, threads, n) -> None:
        super().__init__(bundle, threads, n)
        with tempfile.TemporaryDirectory() as folder:
            models = Path(folder) / "onnx"
            subprocess.run([bundle.optibfm, "model", "export", bundle.folder, "--onnx", models], check=True,
                           stdout=subprocess.DEVNULL)
            # One thread for phi, a single row: a second pool that waits by spinning would take a
            # core from the others.
            files = {"phi": ("phi.onnx", 1), "act": ("policy.onnx", threads), "psi": ("psi.onnx", threads)}
            self.sessions = {
                name: self.session((models / file).read_bytes(), count) for name, (file, count) in files.items()
            }

    def session(self, model, threads):
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

    def phi(self, obs):
        return self.sessions["phi"].run(None, {"obs": obs})[0]

    def act(self, obs, z):
        return self.sessions["act"].run(None, {"obs": obs, "z": z.astype(np.float32, copy=False)})[0]

    def psi(self, obs, action, z):
        return self.sessions["psi"].run(None, {"obs": obs, "action": action, "z": z})[0]


class OnnxShared(OnnxRuntime):
    """One graph from the candidates to the best one's action."""

    def __init__(self, bundle, threads, n) -> None:
        super().__init__(bundle, threads, n)
        self.identity = np.eye(bundle.d, dtype=np.float32)
        inputs = {"obs": [1, bundle.obs], "z": [n, bundle.d], "mean": [bundle.d, 1], "half": [bundle.d, bundle.d]}
        self.plan = self.build(threads, inputs, self.best)
        single = {"obs": [1, bundle.obs], "z": [1, bundle.d]}
        self.sessions["act"] = self.build(
            threads, single, lambda o, t: {"act": shared_action_of(o, bundle, t["obs"], o.unit(t["z"], bundle.d))})
        self.sessions["psi"] = self.build(threads, {**single, "action": [1, bundle.action]}, lambda o, t: {
            "psi": shared_psi_of(o, bundle, t["obs"], t["action"], o.unit(t["z"], bundle.d))})

    def build(self, threads, inputs, build):
        import onnx
        ops = OnnxOps(self.bundle.eps)
        outputs = build(ops, {name: name for name in inputs})
        nodes = ops.nodes + [onnx.helper.make_node("Identity", [ref], [name]) for name, ref in outputs.items()]
        value = lambda name, shape: onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape)
        graph = onnx.helper.make_graph(nodes, "bfm", [value(k, shape) for k, shape in inputs.items()],
                                       [value(k, None) for k in outputs], ops.constants)
        model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=8)
        return self.session(self.lowered(model).SerializeToString(), threads)

    def lowered(self, model):
        return model

    def best(self, ops, t):
        z = ops.unit(t["z"], self.bundle.d)
        action = shared_action_of(ops, self.bundle, t["obs"], z)
        psi = shared_psi_of(ops, self.bundle, t["obs"], action, z)
        width = ops.node("ReduceL2", [ops.node("MatMul", [psi, t["half"]])], axes=[2], keepdims=1)
        mean = ops.node("MatMul", [psi, t["mean"]])
        score = ops.node("ReduceMin", [ops.node("Add", [mean, ops.times(width, BETA)])], axes=[0, 2], keepdims=0)
        best = ops.node("ArgMax", [score], axis=0, keepdims=1)
        return {"act": ops.node("Gather", [action, best], axis=0), "best": ops.node("Gather", [t["z"], best], axis=0)}

    def ucb(self, obs):
        factor, mean = self.learn(obs)
        d = self.bundle.d
        half = self.solve(factor, self.identity, lower=True, check_finite=False).T  # V = L L', half = 1/L'
        ball = self.rng.standard_normal((self.n, d), np.float32)
        ball *= 2 * BETA * self.rng.random((self.n, 1), np.float32) ** (1 / d)
        ball /= np.linalg.norm(ball, axis=1, keepdims=True)
        feeds = {"obs": obs, "z": mean + ball @ half.T, "mean": mean[:, None], "half": np.ascontiguousarray(half)}
        action, self.z = self.plan.run(None, feeds)
        return action


class OnnxOps:
    """Operations that write an ONNX graph; tensors are names."""

    def __init__(self, eps) -> None:
        self.nodes, self.constants, self.eps, self.known = [], [], eps, {}

    def node(self, op, inputs, **attributes):
        import onnx
        name = f"t{len(self.nodes)}"
        self.nodes.append(onnx.helper.make_node(op, inputs, [name], name=name, **attributes))
        return name

    def constant(self, array):
        import onnx
        if isinstance(array, str):  # the output of a node
            return array
        array = np.ascontiguousarray(array)
        if id(array) not in self.known:
            name = f"c{len(self.constants)}"
            self.constants.append(onnx.numpy_helper.from_array(array, name))
            self.known[id(array)] = name, array
        return self.known[id(array)][0]

    def linear(self, x, w, b):
        return self.node("Gemm", [x, self.constant(w), self.constant(b)])

    def matmul(self, x, w):
        return self.node("MatMul", [x, self.constant(w)])

    def times(self, x, factor):
        return self.node("Mul", [x, self.constant(np.float32(factor))])

    def layer_norm(self, x, gain, shift):
        return self.node("LayerNormalization", [x, self.constant(gain), self.constant(shift)], epsilon=self.eps)

    def add(self, x, y):
        return self.node("Add", [x, y])

    def standardise(self, x, mean, scale):
        return self.node("Mul", [self.node("Sub", [x, self.constant(mean)]), self.constant(scale)])

    def columns(self, x, numbers):
        return self.node("Gather", [x, self.constant(numbers.astype(np.int64))], axis=1)

    def mish(self, x):
        return self.node("Mul", [x, self.tanh(self.node("Softplus", [x]))])

    def finish(self, product, same, varying, sums, bias, width):
        """LayerNorm of a product with folded weights, from the moments of its two inputs."""
        axis = self.constant(np.array([1], np.int64))
        total = self.add(*(self.node("ReduceSum", [x, axis], keepdims=1) for x in (same, varying)))
        squares = self.add(*(self.node("ReduceSumSquare", [x], axes=[1], keepdims=1) for x in (same, varying)))
        mean, square = self.times(total, 1 / width), self.times(squares, 1 / width)
        variance = self.node("Sub", [square, self.node("Mul", [mean, mean])])
        deviation = self.node("Sqrt", [self.node("Add", [variance, self.constant(np.float32(self.eps))])])
        centred = self.node("Sub", [product, self.node("Mul", [mean, self.constant(sums)])])
        return self.node("Add", [self.node("Div", [centred, deviation]), self.constant(bias)])

    def beside(self, same, varying):
        """[same, varying] for each row of varying."""
        rows = self.node("Shape", [varying], end=1)
        shape = self.node("Concat", [rows, self.constant(np.array([1], np.int64))], axis=0)
        return self.concat([self.node("Expand", [same, shape]), varying])

    def tanh(self, x):
        return self.node("Tanh", [x])

    def relu(self, x):
        return self.node("Relu", [x])

    def concat(self, parts):
        return self.node("Concat", parts, axis=1)

    def unit(self, x, d):
        return self.times(self.node("LpNormalization", [x], axis=1, p=2), math.sqrt(d))

    def stack(self, parts):
        axis = self.constant(np.array([0], np.int64))
        return self.node("Concat", [self.node("Unsqueeze", [p, axis]) for p in parts], axis=0)


class Torch:
    """Everything in PyTorch, eager, in inference mode."""

    def __init__(self, bundle, threads, n) -> None:
        import torch
        import torch._inductor.config
        self.torch, self.n = torch, n
        self.weights = torch.nn.ParameterList()
        self.bundle = bundle.converted(self.parameter)
        if threads:
            torch.set_num_threads(threads)
        torch.set_num_interop_threads(1)
        torch.set_grad_enabled(False)
        torch.manual_seed(1)
        self.v, self.b, self.z = torch.eye(bundle.d), torch.zeros(bundle.d), torch.randn(1, bundle.d)
        self.steps = {name: self.prepared(getattr(self, name + "_step")) for name in STEPS}

    def parameter(self, array):
        self.weights.append(self.torch.nn.Parameter(self.torch.tensor(array), requires_grad=False))
        return self.weights[-1]

    def prepared(self, step):
        return self.torch.inference_mode()(step)

    # ops
    def linear(self, x, w, b):
        return self.torch.addmm(b, x, w)

    def matmul(self, x, w):
        return x @ w

    def layer_norm(self, x, gain, shift):
        return self.torch.nn.functional.layer_norm(x, gain.shape, gain, shift, self.bundle.eps)

    def tanh(self, x):
        return self.torch.tanh(x)

    def relu(self, x):
        return self.torch.relu(x)

    def concat(self, parts):
        return self.torch.cat(parts, dim=1)

    def add(self, x, y):
        return x + y

    def standardise(self, x, mean, scale):
        return (x - mean) * scale

    def columns(self, x, numbers):
        return x[:, self.torch.from_numpy(numbers)]

    def mish(self, x):
        return self.torch.nn.functional.mish(x)

    def finish(self, product, same, varying, sums, bias, width):
        return finished(product, same, varying, sums, bias, width, self.bundle.eps)

    def beside(self, same, varying):
        return self.concat([same.expand(len(varying), -1), varying])

    def stack(self, parts):
        return self.torch.stack(parts)

    def unit(self, x, d):
        return math.sqrt(d) * self.torch.nn.functional.normalize(x, dim=1)

    # for the comparison
    def phi(self, obs):
        return phi_of(self, self.bundle, self.torch.tensor(obs)).numpy()

    def act(self, obs, z):
        return action_of(self, self.bundle, self.torch.tensor(obs), self.torch.tensor(z)).numpy()

    def psi(self, obs, action, z):
        return psi_of(self, self.bundle, *(self.torch.tensor(x) for x in (obs, action, z))).numpy()

    # steps
    def policy_step(self, obs, z):
        return action_of(self, self.bundle, obs, z)

    def learn(self, obs, v, b):
        phi = phi_of(self, self.bundle, obs)[0]
        v, b = v + self.torch.outer(phi, phi), b + 0.5 * phi
        factor = self.torch.linalg.cholesky(v)
        return v, b, factor, self.torch.cholesky_solve(b[:, None], factor)[:, 0]

    def thompson_step(self, obs, v, b):
        v, b, factor, mean = self.learn(obs, v, b)
        noise = self.torch.randn(self.bundle.d, 1)
        z = (mean + self.torch.linalg.solve_triangular(factor.T, noise, upper=True)[:, 0])[None]
        return v, b, z, action_of(self, self.bundle, obs, z)

    def ucb_step(self, obs, v, b):
        torch, d, n = self.torch, self.bundle.d, self.n
        v, b, factor, mean = self.learn(obs, v, b)
        ball = torch.nn.functional.normalize(torch.randn(n, d), dim=1) * torch.rand(n, 1) ** (1 / d)
        z = mean + 2 * BETA * torch.linalg.solve_triangular(factor.T, ball.T, upper=True).T
        states = obs.expand(n, -1)
        action = action_of(self, self.bundle, states, z)
        rows = psi_of(self, self.bundle, states, action, z).reshape(-1, d)
        width = torch.linalg.solve_triangular(factor, rows.T, upper=False).norm(dim=0)
        score = (rows @ mean + BETA * width).reshape(self.bundle.members, n).amin(dim=0)
        best = z.index_select(0, score.argmax()[None])
        return v, b, best, action_of(self, self.bundle, obs, best)

    def policy(self, obs):
        return self.steps["policy"](self.torch.from_numpy(obs), self.z).numpy()

    def thompson(self, obs):
        self.v, self.b, self.z, action = self.steps["thompson"](self.torch.from_numpy(obs), self.v, self.b)
        return action.numpy()

    def ucb(self, obs):
        self.v, self.b, self.z, action = self.steps["ucb"](self.torch.from_numpy(obs), self.v, self.b)
        return action.numpy()


class TorchShared(Torch):
    """The candidates share what they can; the action of the best is not evaluated twice."""

    def act(self, obs, z):
        return shared_action_of(self, self.bundle, self.torch.tensor(obs),
                                self.unit(self.torch.tensor(z), self.bundle.d)).numpy()

    def psi(self, obs, action, z):
        obs, action, z = (self.torch.tensor(x) for x in (obs, action, z))
        return shared_psi_of(self, self.bundle, obs, action, self.unit(z, self.bundle.d)).numpy()

    def policy_step(self, obs, z):
        return shared_action_of(self, self.bundle, obs, self.unit(z, self.bundle.d))

    def ucb_step(self, obs, v, b):
        torch, d, n = self.torch, self.bundle.d, self.n
        v, b, factor, mean = self.learn(obs, v, b)
        half = torch.linalg.solve_triangular(factor, torch.eye(d), upper=False)  # 1/L
        ball = torch.nn.functional.normalize(torch.randn(n, d), dim=1) * torch.rand(n, 1) ** (1 / d)
        z = mean + 2 * BETA * ball @ half
        unit = self.unit(z, d)
        action = shared_action_of(self, self.bundle, obs, unit)
        psi = shared_psi_of(self, self.bundle, obs, action, unit)
        best = (psi @ mean + BETA * (psi @ half.T).norm(dim=2)).amin(dim=0).argmax()[None]
        return v, b, z.index_select(0, best), action.index_select(0, best)


class TorchCompile(Torch):
    """Each step compiled by Inductor, the weights frozen; with --autotune the kernels are chosen by trial."""

    def prepared(self, step):
        torch = self.torch
        torch._inductor.config.freezing = True
        weights = self.weights

        class Step(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.weights = weights

            def forward(self, *inputs):
                return step(*inputs)

        return torch.compile(Step().eval(), mode="max-autotune-no-cudagraphs" if os.environ.get(AUTOTUNE) else None)


class TorchCompileShared(TorchShared):
    """TorchShared compiled by Inductor."""

    prepared = TorchCompile.prepared


class TorchBfloat16(TorchShared):
    """Weights and inputs of the layers are bfloat16; outputs, moments, scores and the belief are float32."""

    def __init__(self, bundle, threads, n) -> None:
        super().__init__(bundle, threads, n)
        self.bundle.inv_cov = self.torch.tensor(bundle.inv_cov)

    def parameter(self, array):
        parameter = super().parameter(array)
        if parameter.dim() == 2:
            parameter.data = parameter.data.bfloat16()
        return parameter

    def matmul(self, x, w):
        return (x.to(w.dtype) @ w).float()

    def linear(self, x, w, b):
        return self.matmul(x, w) + b


class TorchCompileBfloat16(TorchBfloat16):
    """TorchBfloat16 compiled by Inductor."""

    prepared = TorchCompile.prepared


class OnnxFloat16(OnnxShared):
    """OnnxShared in float16."""

    def lowered(self, model):
        from onnxruntime.transformers.float16 import convert_float_to_float16
        return convert_float_to_float16(model, keep_io_types=True)


class OnnxInt8(OnnxShared):
    """OnnxShared with int8 weights per channel and inputs of the layers quantised in each call."""

    def lowered(self, model):
        import onnx
        from onnxruntime.quantization import QuantType, quantize_dynamic
        constants = {c.name for c in model.graph.initializer}
        scores = [n.name for n in model.graph.node if n.op_type == "MatMul" and n.input[1] not in constants]
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "int8.onnx")
            quantize_dynamic(model, path, op_types_to_quantize=["MatMul", "Gemm"], per_channel=True,
                             weight_type=QuantType.QInt8, nodes_to_exclude=scores)
            return onnx.load(path)


class Roof:
    """What these cores reach: a product of matrices and a sum, in PyTorch."""

    width, elements = 2048, 1 << 26

    def __init__(self, bundle, threads, n) -> None:
        import torch
        if threads:
            torch.set_num_threads(threads)
        self.a, self.b = torch.randn(2, self.width, self.width)
        self.read_from = torch.ones(self.elements)

    def gemm(self, _obs):
        return self.a @ self.b

    def read(self, _obs):
        return self.read_from.sum()


class Jax:
    """Each step one jitted function."""

    def __init__(self, bundle, threads, n) -> None:
        import jax
        self.jax, self.np, self.bundle, self.n = jax, jax.numpy, bundle, n
        self.v, self.b = jax.numpy.eye(bundle.d), jax.numpy.zeros(bundle.d)
        self.key = jax.random.PRNGKey(1)
        self.z = jax.random.normal(self.key, (1, bundle.d))
        self.jit = {name: jax.jit(getattr(self, name + "_step")) for name in STEPS}

    # ops
    def linear(self, x, w, b):
        return x @ w + b

    def matmul(self, x, w):
        return x @ w

    def layer_norm(self, x, gain, shift):
        x = x - x.mean(axis=1, keepdims=True)
        return x * self.jax.lax.rsqrt((x * x).mean(axis=1, keepdims=True) + self.bundle.eps) * gain + shift

    def tanh(self, x):
        return self.np.tanh(x)

    def relu(self, x):
        return self.np.maximum(x, 0)

    def concat(self, parts):
        return self.np.concatenate(parts, axis=1)

    def add(self, x, y):
        return x + y

    def standardise(self, x, mean, scale):
        return (x - mean) * scale

    def columns(self, x, numbers):
        return x[:, numbers]

    def mish(self, x):
        return self.jax.nn.mish(x)

    def finish(self, product, same, varying, sums, bias, width):
        return finished(product, same, varying, sums, bias, width, self.bundle.eps)

    def beside(self, same, varying):
        return self.concat([self.np.broadcast_to(same, (len(varying), same.shape[1])), varying])

    def stack(self, parts):
        return self.np.stack(parts)

    def unit(self, x, d):
        return x * (math.sqrt(d) / self.np.linalg.norm(x, axis=1, keepdims=True))

    def phi(self, obs):
        return np.asarray(phi_of(self, self.bundle, self.np.asarray(obs)))

    def act(self, obs, z):
        return np.asarray(action_of(self, self.bundle, self.np.asarray(obs), self.np.asarray(z)))

    def psi(self, obs, action, z):
        return np.asarray(psi_of(self, self.bundle, *(self.np.asarray(x) for x in (obs, action, z))))

    # steps
    def policy_step(self, obs, z):
        return action_of(self, self.bundle, obs, z)

    def learn(self, obs, v, b):
        phi = phi_of(self, self.bundle, obs)[0]
        v, b = v + self.np.outer(phi, phi), b + 0.5 * phi
        factor = self.np.linalg.cholesky(v)
        return v, b, factor, self.jax.scipy.linalg.cho_solve((factor, True), b)

    def thompson_step(self, obs, v, b, key):
        v, b, factor, mean = self.learn(obs, v, b)
        key, draw = self.jax.random.split(key)
        noise = self.jax.random.normal(draw, (self.bundle.d,))
        z = (mean + self.jax.scipy.linalg.solve_triangular(factor.T, noise))[None]
        return v, b, key, z, action_of(self, self.bundle, obs, z)

    def ucb_step(self, obs, v, b, key):
        jnp, d, n = self.np, self.bundle.d, self.n
        triangular = self.jax.scipy.linalg.solve_triangular
        v, b, factor, mean = self.learn(obs, v, b)
        key, first, second = self.jax.random.split(key, 3)
        ball = self.jax.random.normal(first, (n, d))
        ball *= self.jax.random.uniform(second, (n, 1)) ** (1 / d) / jnp.linalg.norm(ball, axis=1, keepdims=True)
        z = mean + 2 * BETA * triangular(factor.T, ball.T).T
        states = jnp.broadcast_to(obs, (n, self.bundle.obs))
        action = action_of(self, self.bundle, states, z)
        rows = psi_of(self, self.bundle, states, action, z).reshape(-1, d)
        width = jnp.linalg.norm(triangular(factor, rows.T, lower=True), axis=0)
        score = (rows @ mean + BETA * width).reshape(self.bundle.members, n).min(axis=0)
        best = z[score.argmax()][None]
        return v, b, key, best, action_of(self, self.bundle, obs, best)

    def policy(self, obs):
        return np.asarray(self.jit["policy"](obs, self.z))

    def thompson(self, obs):
        self.v, self.b, self.key, self.z, action = self.jit["thompson"](obs, self.v, self.b, self.key)
        return np.asarray(action)

    def ucb(self, obs):
        self.v, self.b, self.key, self.z, action = self.jit["ucb"](obs, self.v, self.b, self.key)
        return np.asarray(action)


class JaxShared(Jax):
    """The candidates share what they can; the action of the best is not evaluated twice."""

    def psi(self, obs, action, z):
        jnp = self.np
        return np.asarray(
            shared_psi_of(self, self.bundle, jnp.asarray(obs), jnp.asarray(action),
                          self.unit(jnp.asarray(z), self.bundle.d)))

    def act(self, obs, z):
        return np.asarray(
            shared_action_of(self, self.bundle, self.np.asarray(obs), self.unit(self.np.asarray(z), self.bundle.d)))

    def ucb_step(self, obs, v, b, key):
        jnp, d, n = self.np, self.bundle.d, self.n
        v, b, factor, mean = self.learn(obs, v, b)
        half = self.jax.scipy.linalg.solve_triangular(factor, jnp.eye(d), lower=True)  # 1/L
        key, first, second = self.jax.random.split(key, 3)
        ball = self.jax.random.normal(first, (n, d))
        ball *= 2 * BETA * self.jax.random.uniform(second, (n, 1)) ** (1 / d)
        ball /= jnp.linalg.norm(ball, axis=1, keepdims=True)
        z = mean + ball @ half
        unit = self.unit(z, d)
        action = shared_action_of(self, self.bundle, obs, unit)
        psi = shared_psi_of(self, self.bundle, obs, action, unit)
        best = (psi @ mean + BETA * jnp.linalg.norm(psi @ half.T, axis=2)).min(axis=0).argmax()
        return v, b, key, z[best][None], action[best][None]


CONTENDERS = {
    "numpy": NumPy, "torch": Torch, "torch-shared": TorchShared, "torch-compile": TorchCompile,
    "onnxruntime": OnnxRuntime, "onnxruntime-shared": OnnxShared, "jax": Jax, "jax-shared": JaxShared,
    "torch-compile-shared": TorchCompileShared, "torch-bfloat16": TorchBfloat16,
    "torch-compile-bfloat16": TorchCompileBfloat16, "onnxruntime-float16": OnnxFloat16, "onnxruntime-int8": OnnxInt8,
    "roof": Roof
}


# --- a contender as a process ------------------------------------------------


def work(o) -> None:
    """Answer requests as `optibfm-lab bench --serve` does, after a case to compare."""
    bundle = Bundle(o.bundle)
    bundle.folder, bundle.optibfm = o.bundle, o.optibfm
    peer = CONTENDERS[o.worker](bundle, o.worker_threads, o.candidates)
    case = {k: np.array(v, np.float32) for k, v in json.loads(sys.stdin.readline()).items()}
    answer = {}
    if o.worker != "roof":
        answer = {
            "phi": peer.phi(case["obs"]), "action": peer.act(case["obs"], case["z"]),
            "psi": peer.psi(case["obs"], case["action"], case["z"])
        }
        answer["choices"] = choices(peer, bundle)
    bundle.tensors = None
    print(json.dumps({k: np.asarray(v).ravel().tolist() for k, v in answer.items()}), flush=True)
    states = np.random.default_rng(2).standard_normal((64, 1, bundle.obs)).astype(np.float32)
    i = 0
    for line in sys.stdin:
        step, count = line.split()
        call, times = getattr(peer, step), []
        for _ in range(int(count)):
            start = time.perf_counter_ns()
            call(states[i % 64])
            times.append(time.perf_counter_ns() - start)
            i += 1
        print(json.dumps(times), flush=True)


def choices(peer, bundle):
    """The candidates that a peer's action and psi choose, of 16 in each of CHOICES searches, scored in NumPy."""
    rng, chosen = np.random.default_rng(4), []
    for _ in range(CHOICES):
        obs = rng.standard_normal((1, bundle.obs)).astype(np.float32)
        mean = rng.standard_normal(bundle.d)
        scores = []
        for z in (mean + rng.standard_normal((16, bundle.d))).astype(np.float32):
            psi = np.asarray(peer.psi(obs, peer.act(obs, z[None]), z[None]), np.float64).reshape(-1, bundle.d)
            scores.append((psi @ mean + BETA * np.linalg.norm(psi, axis=1)).min())
        chosen.append(int(np.argmax(scores)))
    return chosen


def work_of(bundle, step, n):
    """Multiply-adds of a step, and the bytes of the float32 weights that it reads once."""
    size = lambda layers: sum(part.size for layer in layers for part in layer if part.ndim == 2)
    actor, b = sum(size(part) for part in bundle.actor), size(bundle.b) + bundle.inv_cov.size
    of_z, join = bundle.actor_split
    once = of_z[0].size + size(bundle.actor[0]) + join[0].size  # of the actor, for all candidates
    members = sum(size(part) for member in bundle.f for part in member)
    same = sum(first[0].size for member in bundle.f_split for first in member)
    return {
        "policy": (actor, 4 * actor),
        "thompson": (actor + b, 4 * (actor + b)),
        "ucb": (once + same + b + n * (actor - once + members - same), 4 * (actor + b + members)),
    }[step]


class Contender:
    """A process that answers requests, stopped while others are asked."""

    def __init__(self, name, command, threads, only=None, autotune=False) -> None:
        self.name, self.only = name, only
        env = dict(os.environ)
        if threads:
            for key in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "GOMAXPROCS"):
                env[key] = str(threads)
        if autotune:
            env[AUTOTUNE] = "1"
        if name.startswith("onnxruntime"):
            env["OPENBLAS_NUM_THREADS"] = "1"  # of the belief, which is small: the cores are the session's
        self.log = tempfile.TemporaryFile("w+")  # noqa: SIM115  # close() closes it
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log,
                                        text=True, env=env)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            self.log.seek(0)
            raise RuntimeError(f"{self.name}: {self.log.read().strip()[-500:] or 'it ended'}")
        return json.loads(answer)

    def time(self, step, count):
        return self.ask(f"{step} {count}")

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def memory(self) -> float:
        """The memory that the process uses, MB; of a peer with the interpreter and NumPy's copy of the weights."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6

    def close(self) -> None:
        self.wake()
        self.process.kill()
        self.process.wait()


def start(o, bundle, threads):
    """All contenders that work, each checked against optibfm."""
    case, want = reference(o, bundle)
    numpy = Bundle(bundle)
    chosen = choices(NumPy(numpy, threads, o.candidates), numpy)
    contenders = [Contender("optibfm", served(o, bundle), threads)]
    if o.float16:
        for key, value in reference(o, o.float16)[1].items():
            if not np.abs(value - want[key]).max() < 1e-2 * np.abs(want[key]).max():
                raise SystemExit(f"{o.float16} and {bundle} are not the same networks: {key} differs")
        contenders.append(Contender("optibfm-float16", served(o, o.float16), threads))
    if o.tensorflow:
        tensorflow = {
            "model.backend": "tensorflow", "model.tensorflow.device": "/CPU:0",
            "model.tensorflow.library": o.tensorflow, "model.tensorflow.intra_op_threads": threads
        }
        contenders.append(Contender("optibfm-tf", served(o, bundle, **tensorflow), threads, only=("ucb", "search")))
    for peer in [*o.peers, "roof"]:
        c = Contender(peer, [
            sys.executable, __file__, "--worker", peer, "--worker-threads",
            str(threads), "--bundle", bundle, "--candidates",
            str(o.candidates), "--optibfm", o.optibfm
        ], threads, autotune=o.autotune, only=("gemm", "read") if peer == "roof" else None)
        contenders.append(c)
        try:
            got = c.ask(json.dumps(case))
            for key, value in want.items() if got else []:
                error = np.abs(np.array(got[key]) - value).max() / np.abs(value).max()
                if peer in LOW:
                    print(f"{peer}: {key} differs from optibfm's by {error:.1e}", file=sys.stderr)
                if not error < (0.5 if peer in LOW else 1e-3):
                    raise RuntimeError(
                        f"{peer}: {key} differs from optibfm's by {error:.1e}: these are not the same networks")
            if got:
                same = sum(a == b for a, b in zip(got["choices"], chosen))
                print(f"{peer}: {same} of {CHOICES} choices are NumPy's", file=sys.stderr)
        except RuntimeError as e:
            print(f"left out  {e}", file=sys.stderr)
            contenders.remove(c)
            c.close()
    return contenders


def served(o, bundle, **keys):
    """The command of optibfm, with keys of its configuration."""
    keys = {
        "model.bundle": bundle, "controller.preset": "paper", "controller.candidates": o.candidates,
        "controller.beta.value": BETA, **keys
    }
    return [o.lab, "bench", "--serve", *(word for key, value in keys.items() for word in ("--set", f"{key}={value}"))]


def reference(o, bundle):
    """A case and what optibfm says about it."""
    arch = json.loads((Path(bundle) / "bfm.json").read_text())["architecture"]
    rng = np.random.default_rng(3)
    obs, z, action = (rng.standard_normal(arch[k]).round(4) for k in ("obs", "latent", "action"))
    action = np.tanh(action).round(4)

    def evaluate(*more):
        command = [
            o.optibfm, "model", "eval", bundle, "--obs",
            json.dumps(obs.tolist()), "--z",
            json.dumps(z.tolist()), *more
        ]
        return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)

    policy, given = evaluate(), evaluate("--action", json.dumps(action.tolist()))
    case = {"obs": [obs.tolist()], "z": [z.tolist()], "action": [action.tolist()]}
    return case, {
        "phi": np.array(policy["phi"]), "action": np.array(policy["action"]), "psi": np.array(given["psi"]).ravel()
    }


# --- measuring ---------------------------------------------------------------


def measure(o, bundle, threads):
    """{contender: {step: {round: [ns]}}}, the rounds interleaved, {contender: MB of memory} and {step: work_of}."""
    cores = os.sched_getaffinity(0)
    if threads:
        os.sched_setaffinity(0, sorted(cores)[:threads])  # and of the processes that start now
    contenders = []
    try:
        contenders = start(o, bundle, threads)
        work = Bundle(bundle)
        work = {step: work_of(work, step, o.candidates) for step in STEPS}
        return rounds(o, contenders), {c.name: c.memory() for c in contenders if c.process.poll() is None}, work
    finally:
        for c in contenders:
            c.close()
        os.sched_setaffinity(0, cores)


def rounds(o, contenders):
    counts, results = {}, {c.name: {} for c in contenders}
    began = time.monotonic()
    for c in list(contenders):
        for step in c.only or STEPS + (["tick", "search"] if c.name == "optibfm" else []):
            try:
                c.time(step, 1)  # compiles
                each = statistics.median(c.time(step, 3)) / 1e9
            except RuntimeError as e:
                print(f"left out  {e} ({step})", file=sys.stderr)
                break
            counts[c.name, step] = max(3, min(2000, int(o.slice / each)))
            results[c.name][step] = []
        c.pause()
    per_round = o.slice * len(counts)
    print(f"ready after {time.monotonic() - began:.0f} s; {o.rounds} rounds of about {per_round:.0f} s",
          file=sys.stderr, flush=True)
    for r in range(o.rounds):
        for c in contenders[r % len(contenders):] + contenders[:r % len(contenders)]:
            if c.process.poll() is not None:
                continue
            c.wake()
            for step in results[c.name]:
                c.time(step, 2)  # caches
                results[c.name][step].append(c.time(step, counts[c.name, step]))
            c.pause()
    return results


def spread(values):
    """The median and the 10th and 90th percentile."""
    p10, p50, p90 = np.quantile(values, [0.1, 0.5, 0.9])
    return float(p10), float(p50), float(p90)


def summary(results, memory, work):
    """Rows: contender, step, its milliseconds, its ratio to optibfm, its rate and the contender's memory."""
    rows = []
    roof = results.pop("roof")
    peak = {"GFLOP/s": [2 * Roof.width**3 / statistics.median(ns) for ns in roof["gemm"]],
            "GB/s": [4 * Roof.elements / statistics.median(ns) for ns in roof["read"]]}
    for name, steps in results.items():
        for step, per_round in steps.items():
            if not per_round:
                continue
            times = np.concatenate(per_round) / 1e6
            p10, p50, p90 = spread(times)
            row = {
                "contender": name, "step": step, "median_ms": p50, "p10_ms": p10, "p90_ms": p90,
                "p99_ms": float(np.quantile(times, 0.99)), "calls": len(times), "rounds": len(per_round),
                "memory_mb": memory.get(name)
            }
            ours = results["optibfm"].get(step)
            if ours:
                ratios = [statistics.median(theirs) / statistics.median(own) for own, theirs in zip(ours, per_round)]
                row["ratio_p10"], row["ratio"], row["ratio_p90"] = spread(ratios)
            if step in work:
                row["unit"], amount = ("GFLOP/s", 2 * work[step][0]) if step == "ucb" else ("GB/s", work[step][1])
                rates = [amount / statistics.median(ns) for ns in per_round]
                row["rate"], row["roof"] = statistics.median(rates), statistics.median(peak[row["unit"]])
                row["share"] = statistics.median(rate / most for rate, most in zip(rates, peak[row["unit"]]))
            rows.append(row)
    return rows


def table(title, rows):
    """Markdown: a contender a line, a step a column."""
    steps = [s for s in STEPS + ["tick", "search"] if any(r["step"] == s for r in rows)]
    cell = {(r["contender"], r["step"]): r for r in rows}
    lines = [f"### {title}", "", "Median ms (p10 to p90), times optibfm's.", ""]
    table = [["", *steps]]
    for name in dict.fromkeys(r["contender"] for r in rows):
        table.append([name, *(written(cell.get((name, s))) for s in steps)])
    widths = [max(len(line[i]) for line in table) for i in range(len(steps) + 1)]
    for number, line in enumerate(table):
        lines.append(
            "| " + " | ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(line, widths))) + " |"
        )
        if number == 0:
            lines.append("| " + " | ".join("-" * w if i == 0 else "-" * (w - 1) + ":"
                                           for i, w in enumerate(widths)) + " |")
    return "\n".join([*lines, "", *verdict(cell, steps), ""])


def written(row):
    if row is None:
        return "-"
    number = lambda ms: f"{ms:.3g}" if ms < 100 else f"{ms:.0f}"
    text = f"{number(row['median_ms'])} ({number(row['p10_ms'])} to {number(row['p90_ms'])})"
    return text if row["contender"] == "optibfm" else f"{text}, {row['ratio']:.2f}x"


def verdict(cell, steps):
    """What optibfm takes of each peer's time, and of the fastest policy."""
    memory = {name: r["memory_mb"] for (name, _), r in cell.items() if r["memory_mb"]}
    lines = ["- memory, MB: " + ", ".join(f"{name} {mb:.0f}" for name, mb in memory.items())]
    for step in steps:
        shares = [
            f"{r['contender']} {1 / r['ratio']:.2f}" for (name, s), r in cell.items()
            if s == step and not name.startswith("optibfm")
        ]
        if shares:
            lines.append(f"- {step}: optibfm's time as a share of " + ", ".join(shares))
        half = cell.get(("optibfm-float16", step))
        if half and shares:
            shares = [
                f"{r['contender']} {half['ratio'] / r['ratio']:.2f}" for (name, s), r in cell.items()
                if s == step and not name.startswith("optibfm")
            ]
            lines.append(f"- {step}: with float16 weights " + ", ".join(shares))
        rates = [r for (_, s), r in cell.items() if s == step and "rate" in r]
        if rates:
            lines.append(f"- {step}: {rates[0]['unit']} and share of the roof ({rates[0]['roof']:.3g}): "
                         + ", ".join(f"{r['contender']} {r['rate']:.3g} ({r['share']:.2f})" for r in rates))
    policies = [r for (name, s), r in cell.items() if s == "policy" and not name.startswith("optibfm")]
    tick = cell.get(("optibfm", "tick"))
    if policies and tick:
        least = min(policies, key=lambda r: r["median_ms"])
        lines.append(
            "- a control tick (phi, update, D-gap, policy) takes "
            f"{tick['median_ms'] / least['median_ms']:.2f} of the time of the "
            f"fastest peer's policy alone ({least['contender']})")
    return lines


def plot(path, runs) -> None:
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure, axes = pyplot.subplots(len(runs), len(STEPS), figsize=(4.6 * len(STEPS), 2.9 * len(runs)), squeeze=False,
                                   layout="constrained")
    for line, run in zip(axes, runs):
        for axis, step in zip(line, STEPS):
            bars(axis, [r for r in run["rows"] if r["step"] == step][::-1])
            axis.set_title(f"{step}: {run['title']}", fontsize=9, loc="left")
    for axis in axes[-1]:
        axis.set_xlabel("ms, median; line: 10th to 90th percentile", fontsize=8)
    figure.savefig(path, dpi=120)


def bars(axis, rows) -> None:
    """A bar a contender, with its time and its ratio beside it."""
    names, times = [r["contender"] for r in rows], [r["median_ms"] for r in rows]
    whiskers = [[r["median_ms"] - r["p10_ms"] for r in rows], [r["p90_ms"] - r["median_ms"] for r in rows]]
    ours = ["tab:orange" if name.startswith("optibfm") else "tab:gray" for name in names]
    axis.barh(names, times, xerr=whiskers, color=ours, error_kw={"elinewidth": 0.8, "ecolor": "black"})
    for i, r in enumerate(rows):
        text = f"{r['median_ms']:.3g} ms" + ("" if r["contender"] == "optibfm" else f", {r['ratio']:.1f}x")
        axis.text(1.02, i, text, transform=axis.get_yaxis_transform(), fontsize=7, va="center")
    axis.set_xlim(0, 1.2 * max(times))  # a busy machine's whiskers may leave the picture
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)


def versions():
    found = {"python": sys.version.split()[0]}
    from importlib import metadata
    for name in ("numpy", "scipy", "torch", "onnxruntime", "jax"):
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            pass
    return found


def cpu():
    lines = [
        line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith(("model name", "CPU part"))
    ]
    return f"{lines[0].split(':')[1].strip() if lines else 'unknown CPU'}, {len(os.sched_getaffinity(0))} cores"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--optibfm", default=shutil.which("optibfm"), help="the program of the robot")
    p.add_argument("--lab", default=shutil.which("optibfm-lab"), help="the program of the laboratory")
    p.add_argument(
        "--tensorflow",
        help="the folder of the TensorFlow library: optibfm's other backend takes part (needs -tags tensorflow)")
    p.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS)
    p.add_argument("--bundle", help="a bundle instead of random weights")
    p.add_argument("--float16", help="the same bundle with float16 weights: it takes part as well")
    p.add_argument("--hidden", nargs="*", type=int, default=[256, 1024], help="widths of the random networks")
    p.add_argument("--sizes", nargs=3, type=int, default=[24, 6, 50], metavar=("OBS", "ACTION", "D"))
    p.add_argument("--candidates", type=int, default=128)
    p.add_argument("--threads", nargs="*", type=int, default=[1, 0], help="cores; 0: all")
    p.add_argument("--rounds", type=int, default=20)
    p.add_argument("--slice", type=float, default=0.3, help="seconds of a step in a round")
    p.add_argument("--autotune", action="store_true",
                   help="let torch-compile try kernels: a minute and a half more for each table")
    p.add_argument("--markdown", help="write the tables here")
    p.add_argument("--json", help="write all figures here")
    p.add_argument("--plot", help="write a picture here")
    p.add_argument("--worker", help=argparse.SUPPRESS)
    p.add_argument("--worker-threads", type=int, default=0, help=argparse.SUPPRESS)
    o = p.parse_args()
    if o.worker:
        return work(o)
    if o.float16 and not o.bundle:
        p.error("--float16 needs --bundle, the same networks with float32 weights")
    if not o.optibfm or not o.lab:
        p.error("optibfm or optibfm-lab is not in PATH; give both with --optibfm and --lab")
    print(cpu(), json.dumps(versions()))
    runs = []
    with tempfile.TemporaryDirectory() as folder:
        bundles = [(o.bundle, o.bundle)] if o.bundle else []
        for hidden in [] if o.bundle else o.hidden:
            random_bundle(Path(folder) / str(hidden), hidden, *o.sizes)
            bundles.append((f"hidden {hidden}", str(Path(folder) / str(hidden))))
        for name, bundle in bundles:
            for threads in o.threads:
                cores = "one core" if threads == 1 else f"{threads} threads" if threads else "all cores"
                title = f"{name}, n {o.candidates}, {cores}"
                runs.append({"title": title, "threads": threads, "rows": summary(*measure(o, bundle, threads))})
                print("\n" + table(title, runs[-1]["rows"]), flush=True)
    if o.json:
        Path(o.json).write_text(json.dumps({"cpu": cpu(), "versions": versions(), "runs": runs}, indent=1))
    if o.markdown:
        head = f"{cpu()}; " + ", ".join(f"{name} {version}" for name, version in versions().items())
        Path(o.markdown).write_text("\n\n".join([head, *(table(run["title"], run["rows"]) for run in runs)]))
    if o.plot:
        plot(o.plot, runs)


if __name__ == "__main__":
    main()
