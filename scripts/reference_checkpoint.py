"""Writes a checkpoint with random weights and what PyTorch computes with it, in the sizes of a public model.

    python3 scripts/reference_checkpoint.py s1 /tmp/s1 --seed 1
    optibfm model import /tmp/s1 --observations /tmp/s1/obs.npz --out /tmp/s1-bundle
    optibfm model check /tmp/s1-bundle /tmp/s1/vectors.npz --tolerance 2e-5

The folder has config.json and model.safetensors in the layout of the model's project (tflite/FORMAT.md), obs.npz
for Cov B and vectors.npz for `optibfm model check`. The reference is computed in float64. The small models are the
test data of tflite/testdata/checkpoints:

    for m in bfmzero-flat mebe jepa-fb jepa-rldp jepa-hilp tdjepa tdjepa-symmetric; do
        python3 scripts/reference_checkpoint.py $m tflite/testdata/checkpoints/$m --observations 120
    done
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
    "m1": {"obs": 358, "action": 69, "d": 256, "hidden": 2048, "layers": 12, "embedding": 2, "b": 256,
           "residual": True},
    "small": {"obs": 17, "action": 6, "d": 50, "hidden": 192, "layers": 5, "embedding": 4, "b": 96, "residual": True},
    "bfmzero": {
        "groups": {"state": 64, "privileged_state": 463, "last_action": 29, "history_actor": 372},
        "action": 29, "d": 256, "hidden": 2048, "layers": 6, "embedding": 6, "b": 256, "residual": True,
    },
}  # fmt: skip
SMALL = {"obs": 11, "action": 3, "d": 8, "hidden": 16, "layers": 1, "embedding": 2, "b": 16}
# With an encoder: its output, hidden width and layers, and whether the actor reads it.
SIZES |= {
    "bfmzero-flat": SMALL | {"layout": "flat", "layers": 2, "residual": True},
    "mebe": SMALL | {"layout": "mebe", "groups": {"policy": 9, "obs": 11, "goal": 5}},
    "jepa-fb": SMALL | {"layout": "FBModel", "encoder": (6, 12, 0, True)},
    "jepa-rldp": SMALL | {"layout": "RLDPModel", "encoder": None},
    "jepa-hilp": SMALL | {"layout": "HilpModel", "b_layers": 2, "norm": False, "encoder": (7, 12, 2, False)},
    "tdjepa": SMALL | {"layout": "TDJEPAModel", "b_layers": 2, "encoder": (6, 12, 0, True)},
    "tdjepa-symmetric": SMALL | {"layout": "TDJEPAModel", "b": 12, "b_layers": 2, "encoder": (8, 12, 2, True)},
}  # fmt: skip
# Our names of networks and normalisers, and those of a layout.
NORMALISERS = {"policy": "_policy_normalizer.", "obs": "_F_normalizer.", "goal": "_B_normalizer."}
NAMES = {
    "HilpModel": {"_forward_map.": "_sf.", "_backward_map.": "_features."},
    "TDJEPAModel": {"_forward_map.": "_phi_predictor.", "_backward_map.": "_psi_mlp_encoder.",
                    "_left_encoder.": "_phi_mlp_encoder."},
}  # fmt: skip
READS = {
    "f": ["state", "privileged_state", "last_action", "history_actor"],
    "b": ["state", "privileged_state"],
    "actor": ["state", "last_action", "history_actor"],
}
EPS = 1e-5
CASES, MEMBERS = 32, 2


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
        """An embedding or a trunk: kind is "embedding" or "trunk"."""
        last = len(widths) - 1
        index = 0
        for i, out in enumerate(widths):
            if self.size.get("residual"):
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
            elif i < last or kind == "embedding":
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

    def features(self, name: str, x: torch.Tensor, widths: list[int], norm: bool) -> torch.Tensor:
        """B or an encoder: a linear layer, LayerNorm, tanh, then linear layers with ReLU between them."""
        for i, out in enumerate(widths):
            x = self.linear(f"{name}.{0 if i == 0 else 1 + 2 * i}", x, out)
            if i == 0 and len(widths) > 1:
                x = torch.tanh(self.norm(f"{name}.1", x))
            elif 0 < i < len(widths) - 1:
                x = torch.relu(x)
        return x.shape[-1] ** 0.5 * functional.normalize(x, dim=-1) if norm else x

    def backward(self, s: torch.Tensor) -> torch.Tensor:
        size = self.size
        widths = [size["b"]] * size.get("b_layers", 1) + [size["d"]]
        return self.features("_backward_map.net", s, widths, size.get("norm", True))

    def encode(self, s: torch.Tensor) -> torch.Tensor:
        """The encoder's output for F."""
        if not self.size.get("encoder"):
            return s
        out, hidden, layers, _ = self.size["encoder"]
        return self.features("_left_encoder.net", s, [hidden] * layers + [out], True)

    def normalised(self, prefix: str, x: torch.Tensor) -> torch.Tensor:
        mean = self.draw(prefix + "running_mean", x.shape[-1])
        if prefix + "running_var" not in self.tensors:
            self.tensors[prefix + "running_var"] = 0.5 + torch.rand(x.shape[-1], generator=self.random)
        return (x - mean) / torch.sqrt(self.tensors[prefix + "running_var"].double() + EPS)


def networks(size: dict, named: bool = True) -> dict[str, dict]:
    """The keys of F, B, the actor and the encoder."""
    kind = "residual" if size.get("residual") else "simple"
    actor = {"name": "actor", "hidden_dim": size["hidden"], "model": kind, "hidden_layers": size["layers"]}
    actor["embedding_layers"] = size["embedding"]
    f = actor | {"name": "ForwardArchi", "num_parallel": MEMBERS, "ensemble_mode": "batch"}
    b = {
        "name": "BackwardArchi", "hidden_dim": size["b"], "hidden_layers": size.get("b_layers", 1),
        "norm": size.get("norm", True)
    }
    all_networks = {"f": f, "b": b, "actor": actor, "encoder": {"name": "Identity"}}
    if size.get("encoder"):
        _, hidden, layers, _ = size["encoder"]
        all_networks["encoder"] = {"name": "BackwardArchi", "hidden_dim": hidden, "hidden_layers": layers, "norm": True}
    if not named:
        for network in all_networks.values():
            del network["name"]
    return all_networks


def flat_config(size: dict) -> dict:
    """config.json of metamotivo, or of FB-MEBE."""
    n = networks(size, named=False)
    archi = {"z_dim": size["d"], "norm_z": True, "f": n["f"], "b": n["b"], "actor": n["actor"]}
    sizes = {"obs_dim": size["obs"]}
    if "groups" in size:
        sizes = {f"{group}_dim": n for group, n in size["groups"].items()}
        archi |= {"critic": {"enable": False}, "discriminator": {}}
        sizes |= {"critic_dim": 4, "momentum": 0.0005}
    return sizes | {"action_dim": size["action"], "norm_obs": True, "archi": archi, "device": "cpu"}


NORMALISER = {"name": "BatchNormNormalizerConfig", "momentum": 0.01}


def bfmzero_config(size: dict) -> dict:
    """config.json of BFM-Zero, with groups or flat."""
    n = networks(size)
    archi = {"name": "FBcprAuxModelArchiConfig", "z_dim": size["d"], "norm_z": True}
    for name, key in READS.items():
        read = {"name": "DictInputFilterConfig", "key": key}
        archi[name] = n[name] | {"input_filter": read if "groups" in size else {"name": "IdentityInputFilterConfig"}}
    normalisers = dict.fromkeys(size["groups"], NORMALISER) if "groups" in size else NORMALISER
    normaliser = {"name": "ObsNormalizerConfig", "normalizers": normalisers, "allow_mismatching_keys": True}
    return {"name": "FBcprAuxModel", "archi": archi, "obs_normalizer": normaliser}


def jepa_config(size: dict) -> dict:
    """config.json of TD-JEPA's code."""
    n, model = networks(size), size["layout"]
    n["actor"]["name"] = "simple"
    length, actor = (size["encoder"][0], size["encoder"][3]) if size["encoder"] else (size["d"], True)
    archi = {
        "norm_z": True, "rgb_encoder": {"name": "Identity"}, "augmentator": {"name": "Identity"}, "actor": n["actor"]
    }
    top = {"name": model, "device": "cpu", "actor_std": 0.2, "obs_normalizer": NORMALISER}
    if model == "TDJEPAModel":
        archi |= {"phi_dim": length, "psi_dim": size["d"], "phi_predictor": n["f"], "psi_predictor": n["f"]}
        archi |= {"phi_mlp_encoder": n["encoder"], "psi_mlp_encoder": n["b"]}
        return top | {"archi": archi, "actor_use_full_encoder": actor, "symmetric": is_symmetric(size)}
    archi |= {"L_dim": length, "z_dim": size["d"], "left_encoder": n["encoder"]}
    if model == "HilpModel":
        archi |= {"successor_features": n["f"], "features": n["b"]}
        return top | {"archi": archi, "actor_encode_obs": actor, "center_features": True}
    archi |= {"f": n["f"], "b": n["b"]} | ({"predictor": {}} if model == "RLDPModel" else {})
    return top | {
        "archi": archi, "actor_encode_obs": actor, "inference_batch_size": 500000, "seq_length": 1, "amp": False
    }


def is_symmetric(size: dict) -> bool:
    """The features of a symmetric TD-JEPA model are the encoder's output."""
    return size.get("layout") == "TDJEPAModel" and size["encoder"][0] == size["d"]


def config(size: dict) -> dict:
    """config.json of the checkpoint."""
    if size.get("layout") in ("FBModel", "RLDPModel", "HilpModel", "TDJEPAModel"):
        return jepa_config(size)
    if size.get("layout") == "flat" or ("groups" in size and "layout" not in size):
        return bfmzero_config(size)
    return flat_config(size)


def in_layout(size: dict, tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The tensors with the layout's names, and some that only training uses."""
    layout = size.get("layout")
    names = dict(NAMES.get(layout, {}))
    if layout == "mebe":
        names = {f"_obs_normalizer._normalizers.{g}._normalizer.": to for g, to in NORMALISERS.items()}
    elif layout == "flat":
        names = {"_obs_normalizer.": "_obs_normalizer._normalizers._normalizer."}
    elif layout:
        names["_obs_normalizer."] = "_obs_normalizer._normalizer."
    named = {}
    for name, x in tensors.items():
        prefix = next((p for p in names if name.startswith(p)), "")
        named[names.get(prefix, "") + name[len(prefix):]] = x
    if layout in ("HilpModel", "TDJEPAModel"):
        named["_z_cov"] = torch.eye(size["d"])
    return named


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=SIZES)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--observations", type=int, default=3000)
    args = parser.parse_args()
    size, rng, count = SIZES[args.model], np.random.default_rng(args.seed), args.observations
    reference = Reference(size, args.seed)
    groups = size["groups"] if "groups" in size else {"": size["obs"]}
    raw = {g: rng.standard_normal((count, n)).astype(np.float32) for g, n in groups.items()}
    seen = {}
    for group, x in raw.items():
        prefix = f"_obs_normalizer._normalizers.{group}._normalizer." if group else "_obs_normalizer."
        seen[group] = reference.normalised(prefix, torch.from_numpy(x).double())
    inputs = {"f": ["obs"], "b": ["goal"], "actor": ["policy"]} if size.get("layout") == "mebe" else READS
    reads = {n: torch.cat([seen[g] for g in (inputs[n] if "groups" in size else [""])], -1) for n in READS}
    encoded = reference.encode(reads["f"])
    if size.get("encoder") and size["encoder"][3]:
        reads["actor"] = encoded

    z = torch.from_numpy(rng.standard_normal((CASES, size["d"])).astype(np.float32))
    unit = size["d"] ** 0.5 * functional.normalize(z.double(), dim=-1)
    back = encoded if is_symmetric(size) else reference.backward(reads["b"])
    if size.get("layout") == "HilpModel":
        back = back - reference.draw("features_mean", size["d"])
    cov = back.T @ back / count
    if size.get("layout") in ("HilpModel", "TDJEPAModel"):  # rewards are fitted to the features by least squares
        cov = torch.eye(size["d"], dtype=torch.float64)
    phi = torch.linalg.solve(cov, back[:CASES].T).T
    action = reference.actor(reads["actor"][:CASES], unit).float()
    psi = reference.forward(encoded[:CASES], action.double(), unit)

    args.folder.mkdir(parents=True)
    (args.folder / "config.json").write_text(json.dumps(config(size), indent=1))
    if "name" in config(size):
        box = {g: {"shape": [n], "dtype": "float32", "type": "Box"} for g, n in groups.items()}
        space = {"type": "Dict", "spaces": box} if "groups" in size else box[""]
        spaces = {"obs_space": space, "action_dim": size["action"]}
        (args.folder / "init_kwargs.json").write_text(json.dumps(spaces, indent=1))
    save_file(in_layout(size, reference.tensors), args.folder / "model.safetensors")
    named = {f"obs/{g}" if g else "obs": x for g, x in raw.items()}
    np.savez(args.folder / "obs.npz", **named)
    cases = {name: x[:CASES] for name, x in named.items()}
    results = {"z": z, "cov_b": cov, "phi": phi, "action": action, "psi": psi.float()}
    np.savez(args.folder / "vectors.npz", **cases, **{name: x.numpy() for name, x in results.items()})


if __name__ == "__main__":
    main()
