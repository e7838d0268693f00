"""Writes a policy and B with random weights as ONNX models, in the layout that UFO publishes, exported by PyTorch.

    pip install onnx onnxscript
    python3 scripts/reference_onnx.py tflite/onnx/testdata/ufo

The policy has one input, actor_obs: state, last_action and history_actor, then z, which it takes as it is. The
encoder B has the inputs state, last_action, which it does not read, and privileged_state. Each part has a
BatchNorm. opset13-* have LayerNorm and Mish in parts, as UFO's exports have.
"""

import argparse
import pathlib

import onnx
import torch
from torch import nn
from torch.nn import functional

SIZES = {"state": 6, "last_action": 3, "history_actor": 8, "privileged_state": 5}
ACTOR, BACKWARD, D, HIDDEN = ("state", "last_action", "history_actor"), ("state", "privileged_state"), 4, 12


def block(n_in: int, n_out: int, activation: bool = True) -> nn.Sequential:
    """LayerNorm, a linear layer and Mish."""
    return nn.Sequential(nn.LayerNorm(n_in), nn.Linear(n_in, n_out), *([nn.Mish()] if activation else []))


class Residual(nn.Module):
    """A block plus its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.block = block(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.block(x)


class Norms(nn.ModuleDict):
    """A BatchNorm of each part."""

    def __init__(self) -> None:
        super().__init__({name: nn.BatchNorm1d(n, affine=False) for name, n in SIZES.items()})


class Policy(nn.Module):
    """[n, O + d] -> [n, A]"""

    def __init__(self, norms: Norms) -> None:
        super().__init__()
        self.norms = norms
        n = sum(SIZES[name] for name in ACTOR)
        embed = lambda n_in: nn.Sequential(block(n_in, HIDDEN), Residual(HIDDEN), block(HIDDEN, HIDDEN // 2))
        self.embed_s, self.embed_z = embed(n), embed(n + D)
        self.trunk = nn.Sequential(Residual(HIDDEN), Residual(HIDDEN), block(HIDDEN, SIZES["last_action"], False))

    def forward(self, actor_obs: torch.Tensor) -> torch.Tensor:
        obs, z = actor_obs[:, :-D], actor_obs[:, -D:]
        parts, at = [], 0
        for name in ACTOR:
            parts.append(self.norms[name](obs[:, at : at + SIZES[name]]))
            at += SIZES[name]
        obs = torch.cat(parts, -1)
        return torch.tanh(self.trunk(torch.cat([self.embed_s(obs), self.embed_z(torch.cat([obs, z], -1))], -1)))


class Encoder(nn.Module):
    """state, last_action, privileged_state -> √d·B/‖B‖"""

    def __init__(self, norms: Norms) -> None:
        super().__init__()
        self.norms = norms
        n = sum(SIZES[name] for name in BACKWARD)
        self.net = nn.Sequential(nn.Linear(n, HIDDEN), nn.LayerNorm(HIDDEN), nn.Tanh(), nn.Linear(HIDDEN, HIDDEN),
                                 nn.ReLU(), nn.Linear(HIDDEN, D))

    def forward(self, state: torch.Tensor, last_action: torch.Tensor, privileged_state: torch.Tensor) -> torch.Tensor:
        b = self.net(torch.cat([self.norms["state"](state), self.norms["privileged_state"](privileged_state)], -1))
        for _ in range(2):  # once of the network, once of the export
            b = D**0.5 * functional.normalize(b, dim=-1)
        return b


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    folder.mkdir(parents=True)
    torch.manual_seed(1)
    norms = Norms()
    models = {"policy": Policy(norms), "backward_encoder": Encoder(norms)}
    for model in models.values():
        for name, x in model.state_dict().items():
            if name.endswith("running_var"):
                x.copy_(0.5 + torch.rand(x.shape))
            elif x.dtype == torch.float32:
                x.add_(0.2 * torch.randn(x.shape))
        model.eval()
    obs = {name: torch.randn(3, SIZES[name]) for name in ("state", "last_action", "privileged_state")}
    cases = {
        "policy": ((torch.randn(3, sum(SIZES[name] for name in ACTOR) + D),), ["actor_obs"], "action"),
        "backward_encoder": (tuple(obs.values()), list(obs), "z"),
    }
    for opset, prefix in ((13, "opset13-"), (18, "opset18-")):
        for name, (inputs, names, output) in cases.items():
            torch.onnx.export(
                models[name], inputs, folder / f"{prefix}{name}.onnx", input_names=names, output_names=[output],
                opset_version=opset, dynamo=opset > 17, external_data=False,
                dynamic_axes=None if opset > 17 else {x: {0: "batch"} for x in [*names, output]},
            )  # fmt: skip
            strip(folder / f"{prefix}{name}.onnx")


def strip(path: pathlib.Path) -> None:
    """Removes the exporter's notes about its source files."""
    model = onnx.load(path)
    for part in (*model.graph.node, *model.graph.input, *model.graph.output, *model.graph.value_info,
                 *model.graph.initializer):
        part.doc_string = ""
        del part.metadata_props[:]
    del model.graph.metadata_props[:]
    external = path.name == "opset18-policy.onnx"  # the weights in another file, as the exporter does by default
    onnx.save(model, path, save_as_external_data=external, location=path.name + ".data", size_threshold=64)


if __name__ == "__main__":
    main()
