"""A model bundle: a folder with bfm.json and model.safetensors.

tflite/FORMAT.md describes the files, the names of the tensors and their shapes. fb.prior adds
prior.safetensors.
"""

import hashlib
import json
import os
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save

from fb.networks import LAYERNORM_EPS, Architecture, Model


def tensors(model: Model, cov_b: torch.Tensor, half: bool = False) -> dict[str, torch.Tensor]:
    """Returns the tensors of a bundle by name. half: networks as float16. cov_b: [d, d]."""
    out = {"cov_b": cov_b}
    for prefix, part in parts(model).items():
        out.update({f"{prefix}.{name}": value.half() if half else value for name, value in part.state_dict().items()})
    if model.arch.norm_obs:
        out.update(normalizer(model))
    return {name: value.detach().cpu().to(torch.float16 if value.dtype == torch.float16 else torch.float32).contiguous()
            for name, value in out.items()}


def normalizer(model: Model) -> dict[str, torch.Tensor]:
    """Returns the observation's mean and variance [O], or those of each group if the model has groups.

    The tensors share the memory of the model: read writes into them.
    """
    if not model.arch.groups:
        return {"_obs_normalizer.running_mean": model.obs_mean, "_obs_normalizer.running_var": model.obs_var}
    names, sizes = zip(*model.arch.groups)
    out = {}
    for kind, whole in (("mean", model.obs_mean), ("var", model.obs_var)):
        for name, part in zip(names, whole.split(sizes)):
            out[f"_obs_normalizer._normalizers.{name}._normalizer.running_{kind}"] = part
    return out


def parts(model: Model) -> dict[str, torch.nn.Module]:
    """Returns the saved maps by the prefix of their tensors."""
    return {"_forward_map": model.forward_map, "_backward_map": model.backward_map, "_actor": model.actor}


def describe(arch: Architecture) -> dict:
    """Returns the architecture in the format of bfm.json."""
    branch = {"hidden": arch.hidden, "hidden_layers": arch.hidden_layers, "embedding_layers": arch.embedding_layers}
    described = {
        "obs": arch.obs,
        "action": arch.action,
        "latent": arch.latent,
        "norm_obs": arch.norm_obs and not arch.groups,
        "norm_z": arch.norm_z,
        "f": {**branch, "num_parallel": arch.num_parallel},
        "b": {"hidden": arch.b_hidden, "hidden_layers": arch.b_hidden_layers, "norm": arch.norm_b},
        "actor": dict(branch),
    }
    if arch.groups:
        described["groups"] = [{"name": name, "size": size, "norm_obs": arch.norm_obs} for name, size in arch.groups]
        every = [name for name, _ in arch.groups]
        for part, inputs in (("f", arch.f_inputs), ("b", arch.b_inputs), ("actor", arch.actor_inputs)):
            described[part]["inputs"] = list(inputs) or every
    return described


def channels(names: list[str | dict] | None, count: int, prefix: str) -> list[dict[str, str]]:
    """Returns the descriptions of count channels.

    names has a name or {"name", "unit"} for each channel. Without names, channels are numbered.
    """
    names = names or [f"{prefix}{i}" for i in range(count)]
    if len(names) != count:
        found = ", ".join(map(str, names))
        raise SystemExit(
            f"{prefix}: found {len(names)} channel names ({found}), want {count}; give one for each channel")
    return [{"name": name, "unit": ""} if isinstance(name, str) else name for name in names]


@torch.no_grad()
def second_moment(model: Model, obs: torch.Tensor, chunk: int = 65536) -> torch.Tensor:
    """Returns E[B B^T] [d, d] over the rows of obs [n, O]."""
    total = torch.zeros(model.arch.latent, model.arch.latent, dtype=torch.float64)
    for rows in obs.split(chunk):
        b = model.backward_map(model.normalize(rows))
        total += (b.T @ b).double().cpu()
    return total / len(obs)


def write(folder: str | Path, model: Model, obs: torch.Tensor, *, name: str, gamma: float,
          observation: list[str | dict] | None, action: list[str | dict] | None, provenance: dict,
          half: bool = False) -> None:
    """Writes the bundle, with cov_b over obs [n, O]. half: float16 weights.

    Each file is replaced atomically.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    weights = save(tensors(model, second_moment(model, obs), half))
    description = {
        "format": "optibfm-bundle",
        "version": 2,
        "name": name,
        "architecture": describe(model.arch),
        "layernorm_eps": LAYERNORM_EPS,
        "gamma": gamma,
        "observation": channels(observation, model.arch.obs, "obs"),
        "action": channels(action, model.arch.action, "action"),
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
        "provenance": provenance,
    }
    replace(folder / "model.safetensors", weights)
    replace(folder / "bfm.json", (json.dumps(description, indent=2) + "\n").encode())


def replace(path: Path, content: bytes) -> None:
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    os.replace(partial, path)


def read(folder: str | Path) -> Model:
    """Reads the model of a bundle that write wrote. A bad bundle raises SystemExit."""
    folder = Path(folder)
    try:
        a = json.loads((folder / "bfm.json").read_text())["architecture"]
        model = Model(
            Architecture(obs=a["obs"], action=a["action"], latent=a["latent"], hidden=a["f"]["hidden"],
                         hidden_layers=a["f"]["hidden_layers"], embedding_layers=a["f"]["embedding_layers"],
                         b_hidden=a["b"]["hidden"], b_hidden_layers=a["b"]["hidden_layers"],
                         num_parallel=a["f"]["num_parallel"], norm_obs=a["norm_obs"]
                         or any(g["norm_obs"]
                                for g in a.get("groups", ())), norm_z=a["norm_z"], norm_b=a["b"]["norm"], groups=tuple(
                                    (g["name"], g["size"]) for g in a.get("groups", ())),
                         **{f"{part}_inputs": tuple(a[part].get("inputs", ()))
                            for part in ("f", "b", "actor")}))
        weights = load_file(folder / "model.safetensors")
        for prefix, part in parts(model).items():
            part.load_state_dict(
                {name[len(prefix) + 1 :]: value for name, value in weights.items() if name.startswith(prefix + ".")}
            )
        if model.arch.norm_obs:
            for name, part in normalizer(model).items():
                part.copy_(weights[name])
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, SafetensorError) as err:
        what = f"{err} is missing" if isinstance(err, KeyError) else err
        raise SystemExit(f"{folder}: no bundle of these scripts: {what}; give the folder of a trained bundle") from err
    return model
