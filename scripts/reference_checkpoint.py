"""Writes a checkpoint with random weights and what PyTorch computes with it, in the sizes of a public model.

    python3 scripts/reference_checkpoint.py s1 /tmp/s1 --seed 1
    optibfm model import /tmp/s1 --observations /tmp/s1/obs.npz --out /tmp/s1-bundle
    optibfm model check /tmp/s1-bundle /tmp/s1/vectors.npz --tolerance 2e-5

The folder has config.json and model.safetensors in metamotivo's layout (tflite/FORMAT.md), obs.npz for Cov B
and vectors.npz for `optibfm model check`. The reference is computed in float64.
"""

import argparse
import json
import pathlib

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional

# obs (or sizes of the groups), action, d; hidden and number of layers of F and actor; hidden of B.
SIZES = {
    "s1": {"obs": 358, "action": 69, "d": 256, "hidden": 1024, "layers": 2, "embedding": 2, "b": 256},
    "m1": {"obs": 358, "action": 69, "d": 256, "hidden": 2048, "layers": 12, "embedding": 2, "b": 256, "residual": True},
    "small": {"obs": 17, "action": 6, "d": 50, "hidden": 192, "layers": 5, "embedding": 4, "b": 96, "residual": True},
    "bfmzero": {
        "groups": {"state": 64, "privileged_state": 463, "last_action": 29, "history_actor": 372},
        "action": 29, "d": 256, "hidden": 2048, "layers": 6, "embedding": 6, "b": 256, "residual": True,
    },
}  # fmt: skip
READS = {
    "f": ["state", "privileged_state", "last_action", "history_actor"],
    "b": ["state", "privileged_state"],
    "actor": ["state", "last_action", "history_actor"],
}
EPS = 1e-5
CASES, OBSERVATIONS, MEMBERS = 32, 3000, 2


class Reference:
    """Draws the tensors as they are needed, [out, in] or with an ensemble [E, in, out], and evaluates them."""

    def __init__(self, size: dict, seed: int) -> None:
        self.size, self.random = size, torch.Generator().manual_seed(seed)
        self.tensors: dict[str, torch.Tensor] = {}

    def draw(self, name: str, *shape: int, mean: float = 0.0, deviation: float = 0.1) -> torch.Tensor:
        if name not in self.tensors:
            self.tensors[name] = mean + deviation * torch.randn(*shape, generator=self.random)
        return self.tensors[name].double()

    def linear(self, name: str, x: torch.Tensor, out: int) -> torch.Tensor:
        width = x.shape[-1]
        if x.dim() == 2:
            if name + ".weight" not in self.tensors:  # orthogonal: a square random one makes Cov B ill-conditioned
                w = torch.nn.init.orthogonal_(torch.empty(out, width), generator=self.random)
                self.tensors[name + ".weight"] = w
            w = self.tensors[name + ".weight"].double()
            return functional.linear(x, w, self.draw(name + ".bias", out))
        w = self.draw(name + ".weight", MEMBERS, width, out, deviation=width**-0.5)
        return torch.baddbmm(self.draw(name + ".bias", MEMBERS, 1, out), x, w)

    def norm(self, name: str, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape[-1:] if x.dim() == 2 else (MEMBERS, 1, x.shape[-1])
        gain = self.draw(name + ".weight", *shape, mean=1.0)
        return functional.layer_norm(x, x.shape[-1:], eps=EPS) * gain + self.draw(name + ".bias", *shape)

    def layers(self, name: str, x: torch.Tensor, widths: list[int], kind: str) -> torch.Tensor:
        """An embedding, a trunk or B: kind is "embedding" or "trunk"."""
        last = len(widths) - 1
        index = 0
        for i, out in enumerate(widths):
            if self.size.get("residual") and "_backward" not in name:
                y = self.linear(f"{name}.{i}.mlp.1", self.norm(f"{name}.{i}.mlp.0", x), out)
                if kind == "embedding" or i < last:
                    y = functional.mish(y)
                x = y + x if i < last and (i > 0 or kind == "trunk") else y
                continue
            x = self.linear(f"{name}.{index}", x, out)
            index += 2
            if i == 0 and kind == "embedding":
                x = torch.tanh(self.norm(f"{name}.1", x))
                index = 3
            elif i < last or (kind == "embedding" and "_backward" not in name):
                x = torch.relu(x)
        return x

    def tower(self, prefix: str, names: tuple[str, str, str], inputs: tuple, out: int) -> torch.Tensor:
        h = self.size["hidden"]
        widths = [h] * (self.size["embedding"] - 1) + [h // 2]
        sides = [self.layers(prefix + n, x, widths, "embedding") for n, x in zip(names, inputs)]
        return self.layers(prefix + names[2], torch.cat(sides, -1), [h] * self.size["layers"] + [out], "trunk")

    def actor(self, s: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        inputs = (s, torch.cat([s, z], -1))
        return torch.tanh(self.tower("_actor.", ("embed_s", "embed_z", "policy"), inputs, self.size["action"]))

    def forward(self, s: torch.Tensor, action: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        inputs = tuple(torch.cat([s, x], -1).expand(MEMBERS, -1, -1) for x in (action, z))
        return self.tower("_forward_map.", ("embed_sa", "embed_z", "Fs"), inputs, self.size["d"])

    def backward(self, s: torch.Tensor) -> torch.Tensor:
        x = self.layers("_backward_map.net", s, [self.size["b"], self.size["d"]], "embedding")
        return self.size["d"] ** 0.5 * functional.normalize(x, dim=-1)

    def normalised(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        mean = self.draw(prefix + "running_mean", x.shape[-1])
        if prefix + "running_var" not in self.tensors:
            self.tensors[prefix + "running_var"] = 0.5 + torch.rand(x.shape[-1], generator=self.random)
        return (x - mean) / torch.sqrt(self.tensors[prefix + "running_var"].double() + EPS)


def config(size: dict) -> dict:
    """config.json of the checkpoint."""
    kind = "residual" if size.get("residual") else "simple"
    actor = {"hidden_dim": size["hidden"], "model": kind, "hidden_layers": size["layers"]}
    actor["embedding_layers"] = size["embedding"]
    f = actor | {"num_parallel": MEMBERS, "ensemble_mode": "batch"}
    b = {"hidden_dim": size["b"], "hidden_layers": 1, "norm": True}
    networks = {"f": f, "b": b, "actor": actor}
    archi = {"z_dim": size["d"], "norm_z": True} | networks
    top = {"archi": archi}
    if "groups" not in size:
        return {"obs_dim": size["obs"], "action_dim": size["action"], "norm_obs": True} | top
    for name, network in networks.items():
        network["name"] = {"f": "ForwardArchi", "b": "BackwardArchi", "actor": "actor"}[name]
        network["input_filter"] = {"name": "DictInputFilterConfig", "key": READS[name]}
    normaliser = {"name": "BatchNormNormalizerConfig", "momentum": 0.01}
    archi["name"] = "FBcprAuxModelArchiConfig"
    normalisers = {"name": "ObsNormalizerConfig", "normalizers": dict.fromkeys(size["groups"], normaliser)}
    return top | {"name": "FBcprAuxModel", "obs_normalizer": normalisers | {"allow_mismatching_keys": True}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    size, rng = SIZES[args.model], np.random.default_rng(args.seed)
    reference = Reference(size, args.seed)
    groups = size.get("groups", {"": size.get("obs")})
    raw = {g: rng.standard_normal((OBSERVATIONS, n)).astype(np.float32) for g, n in groups.items()}
    seen = {}
    for group, x in raw.items():
        prefix = f"_obs_normalizer._normalizers.{group}._normalizer." if group else "_obs_normalizer."
        seen[group] = reference.normalised(prefix, torch.from_numpy(x).double())
    reads = {n: torch.cat([seen[g] for g in (READS[n] if groups.keys() != {""} else [""])], -1) for n in READS}

    z = torch.from_numpy(rng.standard_normal((CASES, size["d"])).astype(np.float32))
    unit = size["d"] ** 0.5 * functional.normalize(z.double(), dim=-1)
    back = reference.backward(reads["b"])
    cov = back.T @ back / OBSERVATIONS
    phi = torch.linalg.solve(cov, back[:CASES].T).T
    action = reference.actor(reads["actor"][:CASES], unit).float()
    psi = reference.forward(reads["f"][:CASES], action.double(), unit)

    args.folder.mkdir(parents=True)
    (args.folder / "config.json").write_text(json.dumps(config(size), indent=2))
    if "groups" in size:
        box = {g: {"shape": [n], "dtype": "float32", "type": "Box"} for g, n in groups.items()}
        spaces = {"obs_space": {"type": "Dict", "spaces": box}, "action_dim": size["action"]}
        (args.folder / "init_kwargs.json").write_text(json.dumps(spaces, indent=2))
    save_file(reference.tensors, args.folder / "model.safetensors")
    named = {f"obs/{g}" if g else "obs": x for g, x in raw.items()}
    np.savez(args.folder / "obs.npz", **named)
    cases = {name: x[:CASES] for name, x in named.items()}
    results = {"z": z, "cov_b": cov, "phi": phi, "action": action, "psi": psi.float()}
    np.savez(args.folder / "vectors.npz", **cases, **{name: x.numpy() for name, x in results.items()})


if __name__ == "__main__":
    main()
