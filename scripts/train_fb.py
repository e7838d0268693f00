#!/usr/bin/env python3
"""Train a forward-backward model from a file of transitions, and save a bundle.

The file is NumPy's .npz with obs [n, O], action [n, A] in [-1, 1] and next_obs
[n, O], or the folder of collect_rnd.py. "optibfm-lab collect" writes it for any robot,
with its name and channels:

    optibfm-lab collect --config myrobot.yaml --transitions 200000 --out transitions.npz
    python scripts/train_fb.py transitions.npz --out bundle

At the end it prints a report and a verdict: see fb/report.py.

The program saves the bundle and a checkpoint every --save-every updates or
--save-seconds, and at the end. With the same --out it continues from the checkpoint. It prints losses and
signs of a collapse:

    sm     successor-measure loss; falls, first fast, then slowly
    ortho  orthonormality loss; near -d/2 if E[B B^T] = I
    q      mean value of the actor's actions; rises, then becomes constant
    |a|    their mean size; near 1 the actor no longer learns: see --saturation
    bc     mean squared distance of the actor's actions to the data's, with --bc
    rank   effective rank of E[B B^T], at most d; a fall means collapse
    |F|    mean norm of F; endless growth means divergence
"""

import argparse
import contextlib
import copy
import csv
import ctypes
import functools
import json
import math
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import install_hint

try:
    import numpy as np
    import torch
except ImportError as e:
    install_hint.exit_without(e, "install it, small and without CUDA: pip install numpy safetensors && "
                                 "pip install torch --index-url https://download.pytorch.org/whl/cpu")

from fb import bundle, engine, flat, losses, prior, recording, report, rounds
from fb.networks import Architecture, Model, on_sphere

# What --preset sets; options that are given count instead. The settings of the paper (Rupf et al.,
# 2025) are those of its published code, which trains on recorded transitions of random network
# distillation and on nothing else.
PRESETS = {"paper": {
    "steps": 2_000_000, "batch": 1024, "gamma": 0.98, "tau": 0.01,
    "lr": 1e-4, "lr_b": 1e-4, "lr_end": 1.0,
    "latent": 50, "hidden": 1024, "hidden_layers": 1, "embedding_layers": 2, "b_hidden": 256, "b_hidden_layers": 2,
    "num_parallel": 2, "norm_obs": False,
    # Its weight is 1, in a loss that is a mean over the ensemble's two members of squares; ours is
    # the sum of half squares.
    "ortho": 2.0,
    # Its Q penalty: on the members' disagreement about the actor's value. It has no loss on Q
    # itself.
    "pessimism": 0.5, "q_loss": 0.0, "vector_loss": False,
    "actor_std": 0.2, "actor_clip": 0.3, "bc": 0.0, "saturation": 0.0,
    "z_from_data": 0.5, "z_from_rewards": 0.0, "average": 1.0,
}}

FOLLOWED = 3.0  # seconds between looks at the folder of --follow


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = parser(__doc__.split("\n\n")[0])
    p.add_argument("transitions", type=Path, help=".npz with obs, action and next_obs, or a folder of collect_rnd.py")
    p.add_argument("--preset", choices=PRESETS,
                   help="settings to begin with, which other options change; paper: those of Rupf et al. (2025)")
    p.add_argument("--name", help="the model's name (default: the robot's, or the file's)")
    p.add_argument("--observation", type=words, default=[], metavar="A,B,...",
                   help="names of the observation channels (default: the robot's)")
    p.add_argument("--action", type=words, default=[], metavar="A,B,...",
                   help="names of the action channels (default: the robot's)")
    p.add_argument("--unless-worse-than", type=Path, metavar="BUNDLE",
                   help="end with status 3 if the report of this bundle on the same recording is better")
    p.add_argument("--report", action=argparse.BooleanOptionalAction, default=True, help="measure the model at the end")
    p.add_argument(
        "--networks", type=at_least(1), default=1, help=
        "models that are trained together, with consecutive seeds, in OUT/seed-SEED if there are several (%(default)s)")
    p.add_argument("--follow", action="store_true",
                   help="add the rounds that come into the folder of transitions later")
    p.add_argument("--practice", type=Path, metavar="ROBOT.yaml",
                   help="also train on what the model's own policies do in this robot's environment of Gymnasium")
    p.add_argument("--practice-every", type=at_least(1), default=500,
                   help="updates between rounds of practice (%(default)s)")
    p.set_defaults(**PRESETS.get(preset(argv), {}))
    args = checked(p, argv)
    if args.follow and not args.transitions.is_dir():
        p.error(f"--follow: {args.transitions} is not a folder: give the folder of collect_rnd.py")
    if args.practice and (args.follow or args.networks > 1):
        p.error("--practice trains one network and does not combine with --follow; leave --follow and --networks out")
    if not args.practice:
        args.practice_every = None  # not a setting of this training
    return args


def preset(argv: list[str] | None) -> str | None:
    """Returns the name of --preset, whose settings become the defaults of the parser."""
    p = argparse.ArgumentParser(add_help=False, exit_on_error=False)
    p.add_argument("--preset")
    try:
        return p.parse_known_args(argv)[0].preset
    except argparse.ArgumentError:
        return None


def parser(description: str) -> argparse.ArgumentParser:
    """Returns a parser with the arguments of a training, except those of its transitions."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--out", type=Path, required=True, help="folder of the bundle and of the checkpoint")
    p.add_argument("--note", default="", help="text for the bundle's provenance, for example the origin of the data")

    size = p.add_argument_group("model")
    size.add_argument("--latent", type=at_least(1), default=32, help="d (%(default)s)")
    size.add_argument("--hidden", type=at_least(2), default=128, help="of F and of the actor, even (%(default)s)")
    size.add_argument("--hidden-layers", type=at_least(0), default=1, help="of their trunks (%(default)s)")
    size.add_argument("--embedding-layers", type=at_least(2), default=2, help="(%(default)s)")
    size.add_argument("--b-hidden", type=at_least(1), default=128, help="(%(default)s)")
    size.add_argument("--b-hidden-layers", type=at_least(1), default=2, help="(%(default)s)")
    size.add_argument("--num-parallel", type=at_least(1), default=2, help="members of F's ensemble (%(default)s)")
    size.add_argument("--groups", type=groups, default=(), metavar="NAME=SIZE,...",
                      help="names and sizes of the parts of the observation, in its order (default: it has no parts)")
    for part, who in (("f", "F"), ("b", "B"), ("actor", "the actor")):
        size.add_argument(f"--{part}-inputs", type=lambda text: tuple(words(text)), default=(), metavar="NAME,...",
                          help=f"the groups that {who} reads, in this order (default: all)")
    size.add_argument("--norm-obs", action=argparse.BooleanOptionalAction, default=True,
                      help="standardise observations")

    train = p.add_argument_group("training")
    train.add_argument("--steps", type=at_least(1), default=150_000, help="updates in all (%(default)s)")
    train.add_argument("--batch", type=at_least(2), default=512, help="(%(default)s)")
    train.add_argument("--gamma", type=discount, default=0.98, help="discount (%(default)s)")
    train.add_argument("--lr", type=not_negative, default=1e-4, help="of F and of the actor (%(default)s)")
    train.add_argument("--lr-b", type=not_negative, default=1e-5,
                       help="of B, well below that of F: see docs/training.md (%(default)s)")
    train.add_argument("--lr-end", type=not_negative, default=1.0,
                       help="share of the rates at the end of their cosine schedule (%(default)s)")
    train.add_argument("--tau", type=share, default=0.01, help="rate of the target networks (%(default)s)")
    train.add_argument("--ortho", type=not_negative, default=1.0,
                       help="weight of the orthonormality loss (%(default)s)")
    train.add_argument("--q-loss", type=not_negative, default=0.0,
                       help="weight of the residual of the value F^T z (%(default)s)")
    train.add_argument("--vector-loss", action=argparse.BooleanOptionalAction, default=False,
                       help="train F by its own Bellman residual; the successor measure's trains only B")
    train.add_argument("--z-from-data", type=share, default=0.5, help="share of z that are B of a state (%(default)s)")
    train.add_argument("--z-from-rewards", type=share, default=0.0,
                       help="share of z that solve random rewards (%(default)s)")
    train.add_argument(
        "--linear-rewards",
        type=share,
        default=0.0,
        help="part of the terms of random rewards that are elements of the observation; others are also "
             "products (%(default)s)",
    )
    train.add_argument("--pessimism", type=not_negative, default=0.5,
                       help="penalty on disagreement in the actor's value (%(default)s)")
    train.add_argument(
        "--bc", type=not_negative, default=0.0,
        help="weight of the actor's squared distance to the data's action, in units of the mean |value| (%(default)s)")
    train.add_argument(
        "--saturation", type=not_negative, default=0.0,
        help="weight of the mean square of the input of the actor's tanh; keeps actions off their limits")
    train.add_argument("--actor-std", type=not_negative, default=0.2, help="of the exploration noise (%(default)s)")
    train.add_argument("--actor-clip", type=not_negative, default=0.3, help="of that noise (%(default)s)")
    train.add_argument("--average", type=share, default=1.0,
                       help="rate of the averaged weights, which are saved; 1: no average (%(default)s)")

    run = p.add_argument_group("run")
    run.add_argument("--seed", type=at_least(0), default=0)
    run.add_argument("--device", default="cpu", help="of torch (%(default)s)")
    run.add_argument("--threads", type=at_least(1), default=1, help="of torch on the CPU (%(default)s)")
    run.add_argument("--optibfm", default="optibfm",
                     help="program that adds the task prior to the bundle (%(default)s)")
    run.add_argument("--save-every", type=at_least(1), default=10_000, help="updates between checkpoints (%(default)s)")
    run.add_argument("--save-seconds", type=not_negative, default=0.0,
                     help="seconds between checkpoints, instead of --save-every; 0: off (%(default)s)")
    run.add_argument("--time-limit", type=not_negative, default=0.0,
                     help="seconds after which the training stops, with a checkpoint; 0: none (%(default)s)")
    run.add_argument("--keep", action="store_true", help="keep the bundle of each checkpoint in OUT/UPDATES")
    run.add_argument("--half", action="store_true", help="save the bundle's weights as float16")
    run.add_argument("--engine", choices=("auto", *engine.KINDS), default="auto",
                     help="how updates run; auto: a CUDA graph on a GPU, eager on a CPU (%(default)s)")
    run.add_argument("--precision", choices=("float32", "tf32", "bfloat16"), default="float32",
                     help="of matrix products (%(default)s)")
    return p


def checked(p: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Parses the arguments. A contradiction ends the program."""
    args = p.parse_args(argv)
    if args.hidden % 2:
        p.error(f"--hidden is odd ({args.hidden}): half of it is each embedding's: give an even number")
    if args.z_from_data + args.z_from_rewards > 1 + 1e-9:
        p.error(
            f"--z-from-data and --z-from-rewards are more than all z ({args.z_from_data} + "
            f"{args.z_from_rewards}): give parts of 1"
        )
    check_inputs(p, args)
    try:
        torch.empty(1, device=args.device)
    except (RuntimeError, AssertionError) as err:
        p.error(
            f"--device {args.device}: {str(err).splitlines()[0]}: give cpu, or one that this machine and this "
            "PyTorch have"
        )
    return args


def check_inputs(p: argparse.ArgumentParser, args: argparse.Namespace) -> None:
    """Ends the program if a map reads a group that there is not, or one twice."""
    names = [name for name, _ in args.groups]
    if len(set(names)) < len(names):
        p.error(f"--groups: a name occurs twice ({', '.join(names)}): rename one")
    for part in ("f", "b", "actor"):
        inputs = getattr(args, f"{part}_inputs")
        unknown = [name for name in inputs if name not in names or inputs.count(name) > 1]
        if unknown:
            p.error(
                f"--{part}-inputs: {unknown[0]!r} is not a group or occurs twice (--groups has "
                f"{', '.join(names) or 'none'})"
            )


def words(text: str) -> list[str]:
    return text.split(",")


def groups(text: str) -> tuple[tuple[str, int], ...]:
    """Returns the type of --groups: names and sizes, at least 1."""
    parts = [part.partition("=") for part in words(text)]
    if not all(name and size.isdigit() and int(size) for name, _, size in parts):
        raise argparse.ArgumentTypeError(f"{text!r} has a part without a name or a size: give NAME=SIZE,...")
    return tuple((name, int(size)) for name, _, size in parts)


def at_least(low: int) -> Callable[[str], int]:
    """Returns the type of an argument: a whole number of at least low."""
    def parse(text):
        value = int(text)
        if value < low:
            raise argparse.ArgumentTypeError(f"{text} is too small: give {low} or more")
        return value

    parse.__name__ = "whole number"  # argparse says "invalid whole number value"
    return parse


def not_negative(text: str) -> float:
    value = float(text)
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"{text} is negative or not finite: give 0 or more")
    return value


def share(text: str) -> float:
    value = float(text)
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text} is not between 0 and 1")
    return value


def discount(text: str) -> float:
    value = float(text)
    if not 0 < value < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a discount: give one between 0 and 1")
    return value


class Trainer:
    """Model, optimisers and number of updates: the content of a checkpoint."""

    capturable = True  # compute may be captured as a CUDA graph

    def __init__(
            self, args: argparse.Namespace, obs: torch.Tensor, action: torch.Tensor, next_obs: torch.Tensor) -> None:
        self.args, self.device = args, torch.device(args.device)
        self.obs, self.action, self.next_obs = obs, action, next_obs
        for names, tensor, prefix in ((args.observation, obs, "obs"), (args.action, action, "action")):
            bundle.channels(names, tensor.shape[1], prefix)  # before hours of training, not after
        arch = Architecture(
            obs=obs.shape[1], action=action.shape[1], latent=args.latent, hidden=args.hidden,
            hidden_layers=args.hidden_layers, embedding_layers=args.embedding_layers, b_hidden=args.b_hidden,
            b_hidden_layers=args.b_hidden_layers, num_parallel=args.num_parallel, norm_obs=args.norm_obs,
            groups=args.groups, f_inputs=args.f_inputs, b_inputs=args.b_inputs, actor_inputs=args.actor_inputs,
        )
        if args.groups and sum(size for _, size in args.groups) != arch.obs:
            raise SystemExit(f"--groups: their sizes add up to {sum(size for _, size in args.groups)}, "
                             f"the observation has {arch.obs} elements")
        self.model = Model(arch).to(args.device)
        self.model.obs_mean.copy_(obs.mean(0))
        self.model.obs_var.copy_(obs.var(0))
        m = self.model
        parts = (m.forward_map, m.backward_map, m.actor, m.target_forward, m.target_backward)
        self.forward_flat, self.backward_flat, self.actor_flat, *self.target_flats = (flat.Flat(part) for part in parts)
        on_cuda = self.device.type == "cuda"
        changing = on_cuda and args.lr_end != 1  # a captured step reads rates from the device
        adam = functools.partial(torch.optim.Adam, fused=True, capturable=on_cuda)
        self.fb_optimizer, self.actor_optimizer = (adam(
            [{"params": [part.vector], "lr": torch.tensor(rate, device=self.device) if changing else rate}
             for part, rate in parts]) for parts in (((self.forward_flat, args.lr), (self.backward_flat, args.lr_b)),
                                                     ((self.actor_flat, args.lr), )))
        self.start_average()
        self.step = 0
        self.saved = time.monotonic()
        self.report: report.Report | None = None

    def start_average(self) -> None:
        """Begins the averaged weights with the current ones."""
        self.average, self.average_flats = self.model, []
        if self.args.average != 1:
            self.average = copy.deepcopy(self.model).requires_grad_(False)
            self.average_flats = [
                flat.Flat(part) for part in (self.average.forward_map, self.average.backward_map, self.average.actor)
            ]
            for part in self.average_flats:
                part.vector.requires_grad_(False)

    def replace_data(self, obs: torch.Tensor, action: torch.Tensor, next_obs: torch.Tensor) -> None:
        """Trains on these transitions from now on. The scale of the maps' inputs stays."""
        self.obs, self.action, self.next_obs = obs, action, next_obs
        self.__dict__.pop("inputs", None)

    def compiled_maps(self) -> list[tuple[torch.nn.Module, str]]:
        """Returns the modules and the names of their methods that compute evaluates."""
        m = self.model
        return [(m.forward_map, "embed_task"), (m.forward_map, "at"), (m.target_forward, "forward"),
                (m.backward_map, "forward"), (m.target_backward, "forward"), (m.actor, "before_tanh")]

    def compile(self) -> None:
        """Compiles the maps and their gradients, if they are not compiled yet."""
        for part, name in self.compiled_maps():
            if name not in vars(part):
                setattr(part, name, torch.compile(getattr(part, name)))

    def discard_compiled(self) -> None:
        for part, name in self.compiled_maps():
            vars(part).pop(name, None)

    @functools.cached_property
    def inputs(self):
        """Returns the inputs of the maps for all obs and all next_obs."""
        return self.model.normalize(self.obs), self.model.normalize(self.next_obs)

    def rate(self, step: int) -> float:
        progress = min(step / self.args.steps, 1)
        return self.args.lr_end + (1 - self.args.lr_end) * 0.5 * (1 + math.cos(math.pi * progress))

    def maps(self):
        """Returns the context in which the maps are evaluated; the losses are always of float32."""
        if self.args.precision != "bfloat16":
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, torch.bfloat16)

    def update(self):
        """Makes one update of F, B, the actor and the targets. Returns the losses."""
        values = self.compute()
        self.finish()
        return values

    def compute(self):
        """Makes an update on the device (fb/engine.py)."""
        obs, action, next_obs = self.draw(self.args.batch)
        z = self.sample_z(next_obs)
        # The actor takes the embedding as it was before F's update: it serves both.
        with self.maps():
            embedded_task = self.model.forward_map.embed_task(obs, z)
        fb = self.update_fb(obs, action, next_obs, z, embedded_task)
        q = self.update_actor(obs, z, embedded_task.detach(), action)
        self.update_targets()
        return {**fb, **q}

    def finish(self) -> None:
        """Counts an update."""
        self.step += 1
        if self.args.lr_end != 1:
            self.set_rates()

    def set_rates(self) -> None:
        """Sets the rates of the optimisers to those of the next update."""
        progress, args = self.rate(self.step), self.args
        for group, rate in zip((*self.fb_optimizer.param_groups, *self.actor_optimizer.param_groups),
                               (args.lr, args.lr_b, args.lr)):
            if torch.is_tensor(group["lr"]):
                group["lr"].fill_(rate * progress)
            else:
                group["lr"] = rate * progress

    def draw(self, n: int):
        """Draws n transitions: the maps' inputs for obs, the actions, the maps' inputs for next_obs."""
        rows = torch.randint(len(self.obs), (n,), device=self.obs.device)
        obs, next_obs = self.inputs
        return obs[rows], self.action[rows], next_obs[rows]

    @torch.no_grad()
    def sample_z(self, next_obs: torch.Tensor) -> torch.Tensor:
        """Draws the tasks [n, d] of a batch: B of recorded states, random rewards, the rest uniform on the sphere."""
        args, n = self.args, len(next_obs)
        with self.maps():
            backward = self.model.backward_map(next_obs).float()
        z = torch.randn(n, args.latent, device=next_obs.device)
        goals, rewards = int(args.z_from_data * n), int(args.z_from_rewards * n)
        # randperm may not be captured.
        order = torch.rand(n, device=z.device).argsort() if z.is_cuda else torch.randperm(n, device=z.device)
        z[:goals] = backward[order[:goals]]  # rarely a row's own next state
        if rewards:
            seen = self.model.backward_map.read(next_obs)  # B expresses no other reward
            z[goals : goals + rewards] = random_rewards(seen, rewards, args.linear_rewards).T @ backward / n
        return on_sphere(z)

    def noisy(self, mean: torch.Tensor) -> torch.Tensor:
        """Returns the actor's mean [n, A] with clipped noise; gradients pass through the clipping."""
        noise = (torch.randn_like(mean) * self.args.actor_std).clamp_(-self.args.actor_clip, self.args.actor_clip)
        action = mean + noise
        return action + (action.detach().clamp(-1, 1) - action.detach())

    def update_fb(
            self, obs: torch.Tensor, action: torch.Tensor, next_obs: torch.Tensor, z: torch.Tensor,
            embedded_task: torch.Tensor):
        args, m = self.args, self.model
        with torch.no_grad(), self.maps():
            next_action = self.noisy(m.actor(next_obs, z).float())
            target = m.target_forward(next_obs, z, next_action).float(), m.target_backward(next_obs).float()
        with self.maps():
            forward, backward = m.forward_map.at(obs, embedded_task, action).float(), m.backward_map(next_obs).float()
        measured = forward.detach() if args.vector_loss else forward
        measure = losses.successor_measure_loss(measured, backward, *target, args.gamma)
        ortho = losses.orthonormality_loss(backward)
        loss = measure + args.ortho * ortho
        if args.vector_loss or args.q_loss:
            features = backward.detach() @ self.inverse_second_moment(backward)
        if args.vector_loss:
            loss = loss + losses.successor_feature_loss(forward, target[0], features, args.gamma)
        if args.q_loss:
            loss = loss + args.q_loss * losses.value_loss(forward, target[0], z, (features * z).sum(-1), args.gamma)
        flat.backward(loss, self.forward_flat, self.backward_flat)
        self.fb_optimizer.step()
        return {"sm": measure.detach(), "ortho": ortho.detach(), "|F|": forward.detach().norm(dim=-1).mean(),
                "backward": backward.detach()}

    @staticmethod
    def inverse_second_moment(backward: torch.Tensor) -> torch.Tensor:
        """Returns (E[B B^T])^-1 [d, d] over the batch: phi = (E[B B^T])^-1 B."""
        moment = backward.detach().T @ backward.detach() / len(backward)
        return torch.linalg.inv_ex(moment + 1e-3
                                   * torch.eye(len(moment), device=moment.device)).inverse  # inv waits for the device

    def update_actor(
            self, obs: torch.Tensor, z: torch.Tensor, embedded_task: torch.Tensor, data_action: torch.Tensor):
        m = self.model
        with self.maps():
            before_tanh = m.actor.before_tanh(obs, z).float()
            mean = torch.tanh(before_tanh)
            forward = m.forward_map.at(obs, embedded_task, self.noisy(mean)).float()
        value = losses.pessimistic((forward * z).sum(-1), self.args.pessimism)
        loss, shown = -value.mean(), {"q": value.detach().mean(), "|a|": mean.detach().abs().mean()}
        if self.args.saturation:
            loss = loss + self.args.saturation * losses.saturation_loss(before_tanh, value)
        if self.args.bc:
            loss = loss + self.args.bc * losses.cloning_loss(mean, data_action, value)
            shown["bc"] = (mean.detach() - data_action).square().mean()
        flat.backward(loss, self.actor_flat)
        self.actor_optimizer.step()
        return shown

    @torch.no_grad()
    def update_targets(self) -> None:
        for target, online in zip(self.target_flats, (self.forward_flat, self.backward_flat)):
            target.vector.lerp_(online.vector, self.args.tau)
        for average, online in zip(self.average_flats, (self.forward_flat, self.backward_flat, self.actor_flat)):
            average.vector.lerp_(online.vector, self.args.average)

    def after_update(self) -> None:
        if self.args.save_seconds:
            due = time.monotonic() - self.saved >= self.args.save_seconds
        else:
            due = self.step % self.args.save_every == 0
        if due:
            self.save()

    def checkpoint(self):
        return self.args.out / "checkpoint.pt"

    def save(self) -> None:
        self.refuse_divergence()
        self.write_bundle(self.args.out, self.average, self.obs)
        if self.args.keep:
            self.write_bundle(self.args.out / f"{self.step:07d}", self.average, self.obs)
        self.write_checkpoint()
        self.saved = time.monotonic()

    def measure(self) -> None:
        """Prints a report about the model and saves it with the bundle."""
        if not self.args.report:
            return
        print("measuring the model, for about a quarter of a minute", file=sys.stderr)
        names = [c["name"] for c in bundle.channels(self.args.observation, self.obs.shape[1], "obs")]
        self.dynamics = report.Dynamics(self.obs, self.action, self.next_obs)
        self.report = self.measured(self.average, names)
        print(self.report)
        self.write_bundle(self.args.out, self.average, self.obs)

    def measured(self, model: Model, names: list[str]) -> report.Report:
        return report.measure(model, self.dynamics, self.obs, self.next_obs, names, self.args.gamma)

    def refuse_worse(self) -> None:
        """Ends the program if the bundle of --unless-worse-than suits this recording better."""
        former = self.args.unless_worse_than
        if not (self.report and former and (former / "bfm.json").exists()):
            return
        described = json.loads((former / "bfm.json").read_text())
        names = [c["name"] for c in bundle.channels(self.args.observation, self.obs.shape[1], "obs")]
        if [c["name"] for c in described.get("observation", [])] != names:
            return  # of another robot
        other = self.measured(bundle.read(former).to(self.obs), names)
        if other.score() > self.report.score():
            print(f"{former}: is better on this recording: {other.verdict()} The new model stays in {self.args.out}.",
                  file=sys.stderr)
            raise SystemExit(3)

    def add_prior(self) -> None:
        """Adds the task prior to the saved bundle."""
        rows = torch.randperm(len(self.obs))[: prior.OBSERVATIONS]
        self.add_prior_of(self.args.out, self.obs[rows.to(self.obs.device)])

    def add_prior_of(self, folder: Path, obs: torch.Tensor) -> None:
        """Adds a prior of obs [n, O] to the bundle in a folder."""
        prior.add(self.args.optibfm, folder, obs.cpu().numpy(), self.args.out / "observations.npz")

    def refuse_divergence(self) -> None:
        """Ends the program before non-finite numbers replace a good checkpoint."""
        parts = {"F": self.forward_flat, "B": self.backward_flat, "the actor": self.actor_flat}
        broken = [name for name, part in parts.items() if not part.vector.isfinite().all()]
        if broken:
            raise SystemExit(f"\n{self.args.out}: diverged by update {self.step} (not finite: {', '.join(broken)}): "
                             "lower --lr; a checkpoint there is from before")

    def write_bundle(self, folder: Path, model, obs: torch.Tensor) -> None:
        """Saves the model as a bundle with E[B B^T] over obs [n, O]."""
        args = self.args
        bundle.write(
            folder, model, obs, name=args.name, gamma=args.gamma,
            observation=args.observation, action=args.action, provenance=self.provenance(), half=args.half)

    def write_checkpoint(self) -> None:
        partial = self.checkpoint().with_suffix(".partial")
        torch.save(self.state(), partial)
        os.replace(partial, self.checkpoint())

    def state(self) -> dict:
        parts = {"model": self.model, "fb_optimizer": self.fb_optimizer, "actor_optimizer": self.actor_optimizer}
        content = {name: part.state_dict() for name, part in parts.items()}
        cuda = torch.cuda.get_rng_state(self.args.device) if self.args.device.startswith("cuda") else None
        if self.average is not self.model:
            content["average"] = self.average.state_dict()
        return content | {"step": self.step, "rng": torch.get_rng_state(), "cuda_rng": cuda}

    def provenance(self) -> dict:
        """Returns strings by name that suffice to train the model again."""
        no_influence = ("threads", "save_every", "save_seconds", "time_limit", "keep", "half", "networks", "follow",
                        "report")
        args = self.args
        settings = {k: v for k, v in vars(args).items() if isinstance(v, (int, float)) and k not in no_influence}
        return {
            "trained_by": "scripts/train_fb.py",
            "updates": str(self.step),
            "transitions": str(len(self.obs)),
            "data": args.note,
            "settings": " ".join(f"{name}={value}" for name, value in settings.items()),
            "torch": torch.__version__,
            **({
                "device": f"{torch.cuda.get_device_name(self.device)}, {args.precision}"
            } if self.device.type == "cuda" else {}),
            **(self.report.provenance() if self.report else {}),
        }

    def resume(self) -> None:
        if self.checkpoint().exists():
            self.restore(recording.read_checkpoint(self.checkpoint(), self.args.device))

    def restore(self, content) -> None:
        try:
            self.model.load_state_dict(content["model"])
        except RuntimeError as err:
            raise SystemExit(
                f"{self.checkpoint()}: holds another model; give the same sizes, or another --out\n{err}") from err
        self.step = content["step"]
        before = [(o, [(group["lr"], group["capturable"]) for group in o.param_groups])
                  for o in (self.fb_optimizer, self.actor_optimizer)]
        self.fb_optimizer.load_state_dict(content["fb_optimizer"])
        self.actor_optimizer.load_state_dict(content["actor_optimizer"])
        self.average.load_state_dict(content.get("average", content["model"]))
        for optimizer, groups in before:
            for group, (rate, capturable) in zip(optimizer.param_groups, groups):
                group["lr"], group["capturable"] = rate, capturable
        self.set_rates()  # asked for now, which need not be those of the checkpoint
        torch.set_rng_state(content["rng"].cpu())
        if content.get("cuda_rng") is not None and self.args.device.startswith("cuda"):
            torch.cuda.set_rng_state(content["cuda_rng"].cpu(), self.args.device)


def random_rewards(obs: torch.Tensor, count: int, linear: float = 0.0) -> torch.Tensor:
    """Returns rewards of count random tasks for the rows of obs, [n, count].

    Each task is a sum of one to three of the standardised observation's elements and
    their products, randomly weighted: a prior over simple tasks, for the policy
    to have seen more of them than a sphere of many dimensions shows. linear is the
    probability that a term is a single element; other terms may also be products.
    """
    i, j = torch.triu_indices(obs.shape[1], obs.shape[1], device=obs.device)
    terms = torch.cat([obs, obs[:, i] * obs[:, j]], -1)
    terms = (terms - terms.mean(0)) / (terms.std(0) + 1e-6)
    weights = torch.zeros(terms.shape[1], count, device=obs.device)
    for _ in range(3):
        row = torch.randint(terms.shape[1], (1, count), device=obs.device)
        if linear:
            element = torch.randint(obs.shape[1], (1, count), device=obs.device)
            row = torch.where(torch.rand(1, count, device=obs.device) < linear, element, row)
        weights.scatter_(0, row, torch.randn(1, count, device=obs.device))
    return terms @ weights


def effective_rank(backward: torch.Tensor):
    """Returns exp of the entropy of the spectrum of E[B B^T]: d for the identity."""
    spectrum = torch.linalg.eigvalsh((backward.T @ backward / len(backward)).cpu()).clamp_min(1e-12)
    share = spectrum / spectrum.sum()
    return float(torch.exp(-(share * share.log()).sum()))


class Progress:
    """A progress bar on a terminal, lines at intervals elsewhere, and all values in a CSV file."""

    def __init__(self, total: int, done: int, table: Path) -> None:
        self.total, self.first, self.table = total, done, table
        self.begin = self.last = time.monotonic()
        self.shown, self.each = done, math.nan  # the latest milliseconds of an update
        self.terminal = sys.stderr.isatty()
        self.every = 0.5 if self.terminal else 20.0

    def due(self, step: int) -> bool:
        return step == self.total or time.monotonic() - self.last >= self.every

    def show(self, step: int, values) -> None:
        now = time.monotonic()
        if step > self.shown:
            self.each, self.shown, self.last = 1000 * (now - self.last) / (step - self.shown), step, now
        rate = (step - self.first) / max(now - self.begin, 1e-9)
        left = int((self.total - step) / max(rate, 1e-9))
        self.write(step, values)
        filled = 20 * step // self.total
        text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
        line = (f"[{'#' * filled}{'.' * (20 - filled)}] {step}/{self.total} {rate:.0f}/s {self.each:.3g} ms "
                f"{left // 60}:{left % 60:02d} left  {text}")
        print(f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr,
              flush=True)

    def write(self, step: int, values) -> None:
        """Appends a row: update, then the values by name."""
        new = not self.table.exists()
        self.table.parent.mkdir(parents=True, exist_ok=True)
        with self.table.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(["update", *values])
            writer.writerow([step, *(f"{value:.6g}" for value in values.values())])

    def close(self) -> None:
        if self.terminal:
            print(file=sys.stderr)


@contextlib.contextmanager
def stop_signals():
    """Returns a list to which SIGINT and SIGTERM add themselves. The second of a kind has its default effect."""
    caught = []

    def catch(number, _):
        caught.append(number)
        signal.signal(number, usual[number])

    usual = {number: signal.signal(number, catch) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)


def train(*trainers: Trainer, feed: Callable[[], bool] | None = None) -> None:
    """Trains until the last update, the time limit or a signal, then saves. feed adds data and returns whether
    it did."""
    first, began = trainers[0], time.monotonic()
    args = first.args
    bars = {trainer: Progress(args.steps, first.step, trainer.args.out / "progress.csv") for trainer in trainers}
    progress = bars[first]
    with stop_signals() as caught:
        updates = engine.Engine(trainers, args.engine) if first.step < args.steps else None
        while (
            first.step < args.steps
            and not caught
            and not (args.time_limit and time.monotonic() - began >= args.time_limit)
        ):
            values = updates.update()
            if progress.due(first.step):
                for trainer, each in zip(trainers, values):
                    backward = each.pop("backward")
                    shown = {name: float(value) for name, value in each.items()}
                    trainer.refuse_divergence()
                    shown["rank"] = effective_rank(backward)
                    bars[trainer].show(trainer.step, shown)
            for trainer in trainers:
                trainer.after_update()
            if feed and feed():
                updates.start()
        progress.close()
        for trainer in trainers:
            trainer.save()
    if caught:
        print(f"{args.out}: stopped at update {first.step}: the same command continues", file=sys.stderr)
        raise SystemExit(128 + caught[0])
    if first.step < args.steps:
        print(f"{args.out}: stopped at update {first.step} by --time-limit: the same command continues",
              file=sys.stderr)
        return
    for trainer in trainers:
        trainer.measure()
        trainer.add_prior()


def keep_freed_memory() -> None:
    """Makes glibc reuse freed memory; otherwise it maps tensors of this size each time."""
    trim_threshold, mmap_threshold = -1, -3
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, 1 << 30)
    except (OSError, AttributeError):
        pass  # another C library: slower, not wrong


class Feed:
    """The transitions of trainers, and with --follow or --practice those that come later."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args, self.known, self.looked = args, set(), time.monotonic()
        self.trainers: list[Trainer] = []
        if args.transitions.is_dir():
            columns = self.rounds()
            if columns is None:
                raise SystemExit(f"{args.transitions}: has no rounds; give the folder of collect_rnd.py")
            recording.check(args.transitions, columns)
        else:
            columns = recording.read(args.transitions, ("obs", "action", "next_obs"))
        self.data = self.tensors(columns)
        self.practice = self.begin_practice() if args.practice else None

    def begin_practice(self):
        try:
            from fb import practice  # needs gymnasium

            begun = practice.Practice(self.args.out / "practice", self.args.practice, self.args.seed)
            begun.check(*(tensor.shape[1] for tensor in self.data[:2]))
        except ImportError as e:
            install_hint.exit_without(e, "install it: pip install gymnasium pyyaml pillow")
        except ValueError as e:
            raise SystemExit(f"--practice: {e}") from e
        files = begun.recorded()
        if files:  # by an interrupted training
            self.add(rounds.transitions(files))
        return begun

    def practise(self) -> bool:
        """Adds a round of practice if it is due. Returns whether it was."""
        [trainer] = self.trainers
        if trainer.step % self.args.practice_every or trainer.step == self.args.steps:
            return False
        self.add(rounds.transitions([self.practice.record(trainer)]))
        return True

    def add(self, columns: dict[str, np.ndarray]) -> None:
        self.data = [torch.cat(pair) for pair in zip(self.data, self.tensors(columns))]
        for trainer in self.trainers:
            trainer.replace_data(*self.data)

    def tensors(self, columns: dict[str, np.ndarray]) -> list[torch.Tensor]:
        return [torch.from_numpy(columns[name]).to(self.args.device) for name in ("obs", "action", "next_obs")]

    def rounds(self) -> dict[str, np.ndarray] | None:
        """Reads the rounds that are new in the folder."""
        new = [path for path in rounds.paths(self.args.transitions) if path not in self.known]
        self.known.update(new)
        return rounds.transitions(new) if new else None

    def look(self) -> bool:
        """Gives the trainers the rounds that are new in the folder. Returns whether there are any."""
        if time.monotonic() - self.looked < FOLLOWED:
            return False
        columns = self.rounds()
        if columns is not None:
            self.add(columns)
            print(f"{self.args.transitions}: {len(self.data[0])} transitions", file=sys.stderr, flush=True)
        self.looked = time.monotonic()
        return columns is not None


def each_network(args: argparse.Namespace) -> list[argparse.Namespace]:
    """Returns the arguments of each network of a training."""
    if args.networks == 1:
        return [args]
    seeds = range(args.seed, args.seed + args.networks)
    return [argparse.Namespace(**{**vars(args), "seed": seed, "out": args.out / f"seed-{seed}"}) for seed in seeds]


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    if args.precision == "tf32":
        torch.set_float32_matmul_precision("high")
    feed = Feed(args)
    robot = (rounds if args.transitions.is_dir() else recording).robot(args.transitions)
    args.name = args.name or robot.get("name") or args.transitions.stem
    args.observation, args.action = args.observation or robot.get("observation"), args.action or robot.get("action")
    trainers = []
    for each in each_network(args):
        torch.manual_seed(each.seed)
        trainers.append(Trainer(each, *feed.data))
        trainers[-1].resume()
    if trainers[0].step >= args.steps:
        print(f"{trainers[0].checkpoint()}: has {trainers[0].step} updates already: remove it to train again",
              file=sys.stderr)
    feed.trainers = trainers
    train(*trainers, feed=feed.look if args.follow else feed.practise if args.practice else None)
    if args.practice and trainers[0].step >= args.steps and feed.practice.recorded():
        feed.practice.write_states(args.out / "states.npz")
    for trainer in trainers:
        trainer.refuse_worse()


if __name__ == "__main__":
    main()
