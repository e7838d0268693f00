"""The networks of a forward-backward model.

Three maps, all built from the same embedding (Linear, LayerNorm, tanh, then
Linear, ReLU), with the parameter names under which a bundle stores them:

    ForwardMap   F(s, a, z), an ensemble evaluated in one batched product
    BackwardMap  B(s), on the sphere of radius sqrt(d) if it is normalised
    Actor        the mean of pi_z(a | s), in [-1, 1]
"""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as nnf
from torch import nn

LAYERNORM_EPS = 1e-5
NORMALIZER_EPS = 1e-5


@dataclass(frozen=True)
class Architecture:
    """The sizes of a model. All of them are stored in its bundle."""

    obs: int
    action: int
    latent: int = 24
    hidden: int = 128
    hidden_layers: int = 1  # of the trunks of F and of the actor
    embedding_layers: int = 2  # of F and of the actor, at least 2
    b_hidden: int = 128
    b_hidden_layers: int = 2  # at least 1
    num_parallel: int = 2  # members of F's ensemble
    norm_obs: bool = True
    norm_z: bool = True
    norm_b: bool = True
    groups: tuple[tuple[str, int], ...] = ()  # names and sizes of the parts of the observation, in its order
    f_inputs: tuple[str, ...] = ()  # the groups that F reads, in the order of its input; none: the whole observation
    b_inputs: tuple[str, ...] = ()
    actor_inputs: tuple[str, ...] = ()

    def columns(self, inputs: tuple[str, ...]) -> list[int]:
        """Returns the elements of the observation that a map with these inputs reads."""
        if not inputs:
            return list(range(self.obs))
        columns, begin = {}, 0
        for name, size in self.groups:
            columns[name], begin = range(begin, begin + size), begin + size
        return [i for name in inputs for i in columns[name]]


class ParallelLinear(nn.Module):
    """One linear layer per ensemble member; weights [member, in, out]."""

    def __init__(self, members: int, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(members, inputs, outputs))
        self.bias = nn.Parameter(torch.zeros(members, 1, outputs))
        for weight in self.weight:
            nn.init.orthogonal_(weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.baddbmm(self.bias, x, self.weight)


class ParallelLayerNorm(nn.Module):
    """LayerNorm with its own scale and shift for each ensemble member."""

    def __init__(self, members: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(members, 1, size))
        self.bias = nn.Parameter(torch.zeros(members, 1, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normal = nnf.layer_norm(x, x.shape[-1:], eps=LAYERNORM_EPS)
        return torch.addcmul(self.bias, normal, self.weight)


class Tanh(nn.Module):
    """tanh by way of the logistic function, which PyTorch computes three times as fast on a CPU."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(x) if x.is_cuda else _Tanh.apply(x)


class _Tanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.sigmoid(2 * x).mul_(2).sub_(1)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, gradient):
        (y,) = ctx.saved_tensors
        return torch.ops.aten.tanh_backward(gradient, y)


def linear(members: int, inputs: int, outputs: int) -> nn.Module:
    if members:
        return ParallelLinear(members, inputs, outputs)
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


def embedding(inputs: int, hidden: int, layers: int, members: int = 0) -> nn.Sequential:
    """Linear, LayerNorm, tanh, layers - 2 hidden ones, and one of half the size."""
    norm = ParallelLayerNorm(members, hidden) if members else nn.LayerNorm(hidden, eps=LAYERNORM_EPS)
    blocks = [linear(members, inputs, hidden), norm, Tanh()]
    for _ in range(layers - 2):
        blocks += [linear(members, hidden, hidden), nn.ReLU()]
    blocks += [linear(members, hidden, hidden // 2), nn.ReLU()]
    return nn.Sequential(*blocks)


def trunk(hidden: int, layers: int, outputs: int, members: int = 0) -> nn.Sequential:
    blocks = []
    for _ in range(layers):
        blocks += [linear(members, hidden, hidden), nn.ReLU()]
    blocks.append(linear(members, hidden, outputs))
    return nn.Sequential(*blocks)


class Reader(nn.Module):
    """A map that reads some elements of the observation."""

    def __init__(self, arch: Architecture, inputs: tuple[str, ...]) -> None:
        super().__init__()
        columns = arch.columns(inputs)
        self.width, self.whole = len(columns), columns == list(range(arch.obs))
        self.register_buffer("columns", torch.tensor(columns), persistent=False)

    def read(self, obs: torch.Tensor) -> torch.Tensor:
        """Returns the map's input [n, width] of obs [n, O]."""
        return obs if self.whole else obs[:, self.columns]


class ForwardMap(Reader):
    def __init__(self, arch: Architecture) -> None:
        super().__init__(arch, arch.f_inputs)
        m = self.members = arch.num_parallel
        self.embed_z = embedding(self.width + arch.latent, arch.hidden, arch.embedding_layers, m)
        self.embed_sa = embedding(self.width + arch.action, arch.hidden, arch.embedding_layers, m)
        self.Fs = trunk(arch.hidden, arch.hidden_layers, arch.latent, m)

    def forward(self, obs: torch.Tensor, z: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Maps [n, O], [n, d], [n, A] to [member, n, d]."""
        return self.at(obs, self.embed_task(obs, z), action)

    def embed_task(self, obs: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Returns the embedding [member, n, h] that does not depend on the action, for several calls of at."""
        return self.embed_z(torch.cat([self.read(obs), z], -1).expand(self.members, -1, -1))

    def at(self, obs: torch.Tensor, embedded_task: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        sa = torch.cat([self.read(obs), action], -1).expand(self.members, -1, -1)
        return self.Fs(torch.cat([self.embed_sa(sa), embedded_task], -1))


class BackwardMap(Reader):
    def __init__(self, arch: Architecture) -> None:
        super().__init__(arch, arch.b_inputs)
        hidden = arch.b_hidden
        blocks = [linear(0, self.width, hidden), nn.LayerNorm(hidden, eps=LAYERNORM_EPS), Tanh()]
        for _ in range(arch.b_hidden_layers - 1):
            blocks += [linear(0, hidden, hidden), nn.ReLU()]
        blocks.append(linear(0, hidden, arch.latent))
        self.net = nn.Sequential(*blocks)
        self.norm = arch.norm_b

    def forward(self, obs: torch.Tensor) -> torch.Tensor:
        b = self.net(self.read(obs))
        return on_sphere(b) if self.norm else b


class Actor(Reader):
    def __init__(self, arch: Architecture) -> None:
        super().__init__(arch, arch.actor_inputs)
        self.embed_z = embedding(self.width + arch.latent, arch.hidden, arch.embedding_layers)
        self.embed_s = embedding(self.width, arch.hidden, arch.embedding_layers)
        self.policy = trunk(arch.hidden, arch.hidden_layers, arch.action)

    def forward(self, obs: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        """Returns the mean action, [n, A] in [-1, 1]."""
        return torch.tanh(self.before_tanh(obs, z))

    def before_tanh(self, obs: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        obs = self.read(obs)
        inputs = torch.cat([self.embed_s(obs), self.embed_z(torch.cat([obs, z], -1))], -1)
        return self.policy(inputs)


class Model(nn.Module):
    """The three maps, and the targets of those that bootstrap."""

    def __init__(self, arch: Architecture) -> None:
        super().__init__()
        self.arch = arch
        self.forward_map, self.target_forward = ForwardMap(arch), ForwardMap(arch)
        self.backward_map, self.target_backward = BackwardMap(arch), BackwardMap(arch)
        self.actor = Actor(arch)
        self.register_buffer("obs_mean", torch.zeros(arch.obs))
        self.register_buffer("obs_var", torch.ones(arch.obs))
        self.target_forward.load_state_dict(self.forward_map.state_dict())
        self.target_backward.load_state_dict(self.backward_map.state_dict())
        for p in [*self.target_forward.parameters(), *self.target_backward.parameters()]:
            p.requires_grad_(False)

    def normalize(self, obs: torch.Tensor) -> torch.Tensor:
        """Returns the maps' input for raw observations [n, O]."""
        if not self.arch.norm_obs:
            return obs
        return (obs - self.obs_mean) / torch.sqrt(self.obs_var + NORMALIZER_EPS)


def on_sphere(x: torch.Tensor) -> torch.Tensor:
    """Scales x [..., d] to the sphere of radius sqrt(d)."""
    return math.sqrt(x.shape[-1]) * nnf.normalize(x, dim=-1)
