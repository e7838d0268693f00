#!/usr/bin/env python3
"""Train a forward-backward model from a file of transitions, and save a bundle.

The file is NumPy's .npz with obs [n, O], action [n, A] in [-1, 1] and next_obs
[n, O]. Any robot will do; "optibfm collect" writes one for the rover:

    optibfm collect --transitions 1000000 --seed 1 --out transitions.npz
    python scripts/train_fb.py transitions.npz --out bundle

It saves the bundle and a checkpoint every --save-every updates and at the end;
started again with the same --out it goes on from the checkpoint. The line that
it prints has the losses and what tells a collapse:

    sm     successor-measure loss, falls and then creeps
    ortho  orthonormality loss, near -d/2 where E[B B^T] = I
    q      mean value of the actor's actions, rises and then levels
    |a|    their mean size; near 1 the actor no longer learns: see --saturation
    rank   effective rank of E[B B^T], at most d; a fall means collapse
    |F|    mean norm of F; growth without end means divergence
"""

import argparse
import ctypes
import math
import os
from pathlib import Path
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import bundle, flat, losses  # noqa: E402
from fb.networks import Architecture, Model, on_sphere  # noqa: E402


def parse_arguments(argv=None):
    p = parser(__doc__.split("\n\n")[0])
    p.add_argument("transitions", type=Path, help=".npz with obs, action and next_obs")
    return p.parse_args(argv)


def parser(description):
    """The arguments of a training, but for where its transitions come from."""
    p = argparse.ArgumentParser(description=description)
    p.add_argument("--out", type=Path, required=True, help="folder of the bundle and of the checkpoint")
    p.add_argument("--name", default="rover", help="the model's name")
    p.add_argument("--observation", type=words, default=[], metavar="A,B,...", help="names of the observation channels")
    p.add_argument("--action", type=words, default=[], metavar="A,B,...", help="names of the action channels")
    p.add_argument("--note", default="", help="kept in the bundle's provenance, such as how the data came about")

    size = p.add_argument_group("model")
    size.add_argument("--latent", type=int, default=32, help="d (%(default)s)")
    size.add_argument("--hidden", type=int, default=128, help="of F and of the actor (%(default)s)")
    size.add_argument("--hidden-layers", type=int, default=1, help="of their trunks (%(default)s)")
    size.add_argument("--embedding-layers", type=int, default=2, help="(%(default)s)")
    size.add_argument("--b-hidden", type=int, default=128, help="(%(default)s)")
    size.add_argument("--b-hidden-layers", type=int, default=2, help="(%(default)s)")
    size.add_argument("--num-parallel", type=int, default=2, help="members of F's ensemble (%(default)s)")
    size.add_argument("--norm-obs", action=argparse.BooleanOptionalAction, default=True, help="standardise observations")

    train = p.add_argument_group("training")
    train.add_argument("--steps", type=int, default=150_000, help="updates in all (%(default)s)")
    train.add_argument("--batch", type=int, default=512, help="(%(default)s)")
    train.add_argument("--gamma", type=float, default=0.98, help="discount (%(default)s)")
    train.add_argument("--lr", type=float, default=1e-4, help="of F and of the actor (%(default)s)")
    train.add_argument("--lr-b", type=float, default=1e-5, help="of B, well below that of F: see README.md (%(default)s)")
    train.add_argument("--lr-end", type=float, default=1.0, help="part of the rates left at the end, by a cosine (%(default)s)")
    train.add_argument("--tau", type=float, default=0.01, help="rate of the target networks (%(default)s)")
    train.add_argument("--ortho", type=float, default=1.0, help="weight of the orthonormality loss (%(default)s)")
    train.add_argument("--q-loss", type=float, default=0.0, help="weight of the residual of the value F^T z (%(default)s)")
    train.add_argument("--vector-loss", action=argparse.BooleanOptionalAction, default=False,
                       help="train F by its own Bellman residual, and only B by the successor measure's")
    train.add_argument("--z-from-data", type=float, default=0.5, help="part of the z that are B of a state (%(default)s)")
    train.add_argument("--z-from-rewards", type=float, default=0.0,
                       help="part of the z that solve random rewards, quadratic in the observation (%(default)s)")
    train.add_argument("--pessimism", type=float, default=0.5, help="on the actor's value (%(default)s)")
    train.add_argument("--actor-std", type=float, default=0.2, help="of the exploration noise (%(default)s)")
    train.add_argument("--actor-clip", type=float, default=0.3, help="of that noise (%(default)s)")

    train.add_argument("--saturation", type=float, default=0.0,
                       help="weight of the mean square of what the actor's tanh is of, against actions that stick to their limits")

    run = p.add_argument_group("run")
    run.add_argument("--seed", type=int, default=0)
    run.add_argument("--device", default="cpu", help="of torch (%(default)s)")
    run.add_argument("--threads", type=int, default=1, help="of torch on the CPU (%(default)s)")
    run.add_argument("--save-every", type=int, default=10_000, help="updates between checkpoints (%(default)s)")
    return p


def words(text):
    return text.split(",")


def load_transitions(path, device):
    """obs, action and next_obs as float32 tensors; a bad file ends the program."""
    try:
        with np.load(path) as archive:
            arrays = [np.asarray(archive[key], np.float32) for key in ("obs", "action", "next_obs")]
    except (OSError, KeyError, ValueError) as err:
        raise SystemExit(f"train_fb: {path}: {err}: give an .npz with obs, action and next_obs") from err
    obs, action, next_obs = arrays
    if obs.ndim != 2 or action.ndim != 2 or obs.shape != next_obs.shape or len(obs) != len(action):
        shapes = ", ".join(str(a.shape) for a in arrays)
        raise SystemExit(f"train_fb: {path}: obs, action, next_obs have shapes {shapes}: want [n, O], [n, A], [n, O]")
    if not all(np.isfinite(a).all() for a in arrays):
        raise SystemExit(f"train_fb: {path}: holds numbers that are not finite: remove those rows")
    if np.abs(action).max() > 1:
        raise SystemExit(f"train_fb: {path}: actions reach {np.abs(action).max():g}: scale them to [-1, 1]")
    return [torch.from_numpy(a).to(device) for a in arrays]


class Trainer:
    """Model, optimisers and the number of updates made: what a checkpoint holds."""

    def __init__(self, args, obs, action, next_obs):
        self.args = args
        self.obs, self.action = obs, action
        arch = Architecture(
            obs=obs.shape[1], action=action.shape[1], latent=args.latent, hidden=args.hidden,
            hidden_layers=args.hidden_layers, embedding_layers=args.embedding_layers, b_hidden=args.b_hidden,
            b_hidden_layers=args.b_hidden_layers, num_parallel=args.num_parallel, norm_obs=args.norm_obs,
        )
        self.model = Model(arch).to(args.device)
        self.model.obs_mean.copy_(obs.mean(0))
        self.model.obs_var.copy_(obs.var(0))
        self.input, self.next_input = self.model.normalize(obs), self.model.normalize(next_obs)
        m = self.model
        parts = (m.forward_map, m.backward_map, m.actor, m.target_forward, m.target_backward)
        self.forward_flat, self.backward_flat, self.actor_flat, *self.target_flats = (flat.Flat(part) for part in parts)
        self.fb_optimizer = torch.optim.Adam(
            [{"params": [self.forward_flat.vector], "lr": args.lr}, {"params": [self.backward_flat.vector], "lr": args.lr_b}],
            fused=True)
        self.actor_optimizer = torch.optim.Adam([self.actor_flat.vector], lr=args.lr, fused=True)
        self.schedulers = [torch.optim.lr_scheduler.LambdaLR(o, self.rate) for o in (self.fb_optimizer, self.actor_optimizer)]
        self.step = 0

    def rate(self, step):
        progress = min(step / self.args.steps, 1)
        return self.args.lr_end + (1 - self.args.lr_end) * 0.5 * (1 + math.cos(math.pi * progress))

    def update(self):
        """One update of F, B, the actor and the targets; returns the losses."""
        obs, action, next_obs = self.draw(self.args.batch)
        z = self.sample_z(next_obs)
        # The actor takes the embedding as it was before F's update: it serves both.
        embedded_task = self.model.forward_map.embed_task(obs, z)
        fb = self.update_fb(obs, action, next_obs, z, embedded_task)
        q = self.update_actor(obs, z, embedded_task.detach())
        self.update_targets()
        for scheduler in self.schedulers:
            scheduler.step()
        self.step += 1
        return {**fb, **q}

    def draw(self, n):
        """n random transitions: what the maps take of obs, the action, what they take of next_obs."""
        rows = torch.randint(len(self.obs), (n,), device=self.obs.device)
        return self.input[rows], self.action[rows], self.next_input[rows]

    @torch.no_grad()
    def sample_z(self, next_obs):
        """The tasks of a batch: B of states of the data, random rewards, the rest anywhere on the sphere."""
        args, n = self.args, len(next_obs)
        backward = self.model.backward_map(next_obs)
        z = torch.randn(n, args.latent, device=next_obs.device)
        goals, rewards = int(args.z_from_data * n), int(args.z_from_rewards * n)
        z[:goals] = backward[torch.randperm(n, device=z.device)[:goals]]  # rarely a row's own next state
        z[goals : goals + rewards] = random_rewards(next_obs, rewards).T @ backward / n
        return on_sphere(z)

    def noisy(self, mean):
        """The actor's mean with clipped noise; gradients pass through the clipping."""
        noise = (torch.randn_like(mean) * self.args.actor_std).clamp_(-self.args.actor_clip, self.args.actor_clip)
        action = mean + noise
        return action + (action.detach().clamp(-1, 1) - action.detach())

    def update_fb(self, obs, action, next_obs, z, embedded_task):
        args, m = self.args, self.model
        with torch.no_grad():
            next_action = self.noisy(m.actor(next_obs, z))
            target = m.target_forward(next_obs, z, next_action), m.target_backward(next_obs)
        forward, backward = m.forward_map.at(obs, embedded_task, action), m.backward_map(next_obs)
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
    def inverse_second_moment(backward):
        """(E[B B^T])^-1 over the batch: phi = (E[B B^T])^-1 B."""
        moment = backward.detach().T @ backward.detach() / len(backward)
        return torch.linalg.inv(moment + 1e-3 * torch.eye(len(moment), device=moment.device))

    def update_actor(self, obs, z, embedded_task):
        m = self.model
        before_tanh = m.actor.before_tanh(obs, z)
        forward = m.forward_map.at(obs, embedded_task, self.noisy(torch.tanh(before_tanh)))
        value = losses.pessimistic((forward * z).sum(-1), self.args.pessimism)
        loss = -value.mean()
        if self.args.saturation:
            loss = loss + self.args.saturation * losses.saturation_loss(before_tanh, value)
        flat.backward(loss, self.actor_flat)
        self.actor_optimizer.step()
        return {"q": value.detach().mean(), "|a|": torch.tanh(before_tanh.detach()).abs().mean()}

    @torch.no_grad()
    def update_targets(self):
        for target, online in zip(self.target_flats, (self.forward_flat, self.backward_flat)):
            target.vector.lerp_(online.vector, self.args.tau)

    def after_update(self):
        if self.step % self.args.save_every == 0:
            self.save()

    def checkpoint(self):
        return self.args.out / "checkpoint.pt"

    def save(self):
        self.write_bundle(self.args.out, self.model, self.obs)
        self.write_checkpoint()

    def write_bundle(self, folder, model, obs):
        """Save model as a bundle; its E[B B^T] is that of obs."""
        args = self.args
        bundle.write(
            folder, model, obs, name=args.name, gamma=args.gamma,
            observation=args.observation, action=args.action, provenance=self.provenance())

    def write_checkpoint(self):
        partial = self.checkpoint().with_suffix(".partial")
        torch.save(self.state(), partial)
        os.replace(partial, self.checkpoint())

    def state(self):
        parts = {"model": self.model, "fb_optimizer": self.fb_optimizer, "actor_optimizer": self.actor_optimizer}
        content = {name: part.state_dict() for name, part in parts.items()}
        return content | {"step": self.step, "schedulers": [s.state_dict() for s in self.schedulers], "rng": torch.get_rng_state()}

    def provenance(self):
        """Strings by name, for people: enough to make the model again."""
        no_influence = ("threads", "save_every")
        settings = {k: v for k, v in vars(self.args).items() if isinstance(v, (int, float)) and k not in no_influence}
        return {
            "trained_by": "scripts/train_fb.py",
            "updates": str(self.step),
            "transitions": str(len(self.obs)),
            "data": self.args.note,
            "settings": " ".join(f"{name}={value}" for name, value in settings.items()),
            "torch": torch.__version__,
        }

    def resume(self):
        if not self.checkpoint().exists():
            return
        self.restore(torch.load(self.checkpoint(), map_location=self.args.device, weights_only=True))

    def restore(self, content):
        try:
            self.model.load_state_dict(content["model"])
        except RuntimeError as err:
            raise SystemExit(f"train_fb: {self.checkpoint()}: holds another model: give the same sizes, or another --out\n{err}") from err
        self.fb_optimizer.load_state_dict(content["fb_optimizer"])
        self.actor_optimizer.load_state_dict(content["actor_optimizer"])
        rates = [scheduler.base_lrs for scheduler in self.schedulers]
        for scheduler, state, base in zip(self.schedulers, content["schedulers"], rates):
            scheduler.load_state_dict(state)
            scheduler.base_lrs = base  # those asked for now
        torch.set_rng_state(content["rng"].cpu())
        self.step = content["step"]


def random_rewards(obs, count):
    """Rewards of count random tasks for the rows of obs, [n, count].

    Each is a sum of one to three of the standardised observation's elements and
    their products, randomly weighted: a prior over simple tasks, for the policy
    to have seen more of them than a sphere of many dimensions shows.
    """
    i, j = torch.triu_indices(obs.shape[1], obs.shape[1], device=obs.device)
    terms = torch.cat([obs, obs[:, i] * obs[:, j]], -1)
    terms = (terms - terms.mean(0)) / (terms.std(0) + 1e-6)
    weights = torch.zeros(terms.shape[1], count, device=obs.device)
    for _ in range(3):
        row = torch.randint(terms.shape[1], (1, count), device=obs.device)
        weights.scatter_(0, row, torch.randn(1, count, device=obs.device))
    return terms @ weights


def effective_rank(backward):
    """exp of the entropy of the spectrum of E[B B^T]: d where it is the identity."""
    spectrum = torch.linalg.eigvalsh(backward.T @ backward / len(backward)).clamp_min(1e-12)
    share = spectrum / spectrum.sum()
    return float(torch.exp(-(share * share.log()).sum()))


class Progress:
    """A bar that redraws on a terminal, and a line now and then elsewhere."""

    def __init__(self, total, done):
        self.total, self.first = total, done
        self.begin = self.last = time.monotonic()
        self.terminal = sys.stderr.isatty()
        self.every = 0.5 if self.terminal else 20.0

    def due(self, step):
        return step == self.total or time.monotonic() - self.last >= self.every

    def show(self, step, values):
        self.last = time.monotonic()
        rate = (step - self.first) / max(self.last - self.begin, 1e-9)
        left = int((self.total - step) / max(rate, 1e-9))
        filled = 20 * step // self.total
        text = " ".join(f"{name} {value:.4g}" for name, value in values.items())
        line = (f"[{'#' * filled}{'.' * (20 - filled)}] {step}/{self.total} {rate:.0f}/s "
                f"{left // 60}:{left % 60:02d} left  {text}")
        print(f"\r\x1b[K{line}" if self.terminal else line, end="" if self.terminal else "\n", file=sys.stderr, flush=True)

    def close(self):
        if self.terminal:
            print(file=sys.stderr)


def train(trainer):
    args = trainer.args
    progress = Progress(args.steps, trainer.step)
    while trainer.step < args.steps:
        values = trainer.update()
        backward = values.pop("backward")
        if progress.due(trainer.step):
            shown = {name: float(value) for name, value in values.items()}
            if not all(np.isfinite(v) for v in shown.values()):
                raise SystemExit(f"\ntrain_fb: diverged at update {trainer.step} ({shown}): lower --lr; the last checkpoint is good")
            progress.show(trainer.step, {**shown, "rank": effective_rank(backward)})
        trainer.after_update()
    progress.close()
    trainer.save()


def keep_freed_memory():
    """Have glibc reuse freed memory: tensors of this size are else mapped anew each time."""
    trim_threshold, mmap_threshold = -1, -3
    try:
        libc = ctypes.CDLL(None)
        libc.mallopt(mmap_threshold, 1 << 30)
        libc.mallopt(trim_threshold, 1 << 30)
    except (OSError, AttributeError):
        pass  # another C library: slower, not wrong


def main():
    args = parse_arguments()
    keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    trainer = Trainer(args, *load_transitions(args.transitions, args.device))
    trainer.resume()
    try:
        train(trainer)
    except KeyboardInterrupt:
        trainer.save()
        print(f"\ntrain_fb: stopped at update {trainer.step}: the same command goes on", file=sys.stderr)


if __name__ == "__main__":
    main()
