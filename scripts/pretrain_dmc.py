#!/usr/bin/env python3
"""Pre-train a forward-backward model of a dm_control domain or a maze, without rewards, and save a bundle.

    scripts/collect_dmc.py cheetah --out cheetah.npz
    scripts/pretrain_dmc.py cheetah cheetah.npz --out runs/cheetah --steps 100000

It begins with the file's transitions and, while it trains, adds those of the
model's own policies: pi_z for random tasks z, with noise. With --practice-every 0
the file's are all, and --bc keeps the policies near what is in them.

Rewards are not trained on. They are looked at in the evaluations: every
--eval-every updates each task's z is inferred from 50,000 labelled states and
followed for a few episodes, and the bundle in OUT/best is of the highest mean so far.
"""

import argparse
import copy
import json
import math
from pathlib import Path
import sys
import time

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import bundle, simulation, zeroshot  # noqa: E402
from fb.networks import on_sphere  # noqa: E402
import train_fb  # noqa: E402

EVALUATION_SEED = 12345
TASKS_ROWS, TASKS_REWARDS, TASKS_COMMANDS, TASKS_EVERY = 4096, 1024, 64, 50  # of class Tasks; updates for which one serves


class Replay:
    """Transitions in the order in which they came; the oldest give way when it is full. Samples are on device.

    The column left says how many of the rows after a row are of the same episode:
    none where rows of several episodes take turns.
    """

    COLUMNS = ("obs", "action", "next_obs", "measure", "left")

    def __init__(self, capacity, first, device="cpu"):
        self.columns, self.device = {}, device
        self.capacity, self.size, self.next = capacity, 0, 0
        for name in self.COLUMNS:
            self.columns[name] = torch.zeros(capacity, first[name].shape[1] if name in first else 1)
        self.add(first)

    def add(self, rows):
        n = len(rows["obs"])
        at = (self.next + torch.arange(n)) % self.capacity
        for name, column in self.columns.items():
            column[at] = torch.as_tensor(rows[name], dtype=torch.float32) if name in rows else 0.0
        self.next = (self.next + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def state(self):
        return {"columns": {name: column[: self.size].clone() for name, column in self.columns.items()}, "next": self.next}

    def restore(self, state):
        self.size, self.next = len(state["columns"]["obs"]), state["next"]
        for name, kept in state["columns"].items():
            self.columns[name][: self.size] = kept

    def sample(self, n, *names):
        return self.rows(torch.randint(self.size, (n,)), *names)

    def rows(self, rows, *names):
        return [self.columns[name][rows].to(self.device) for name in names]

    def later(self, rows, gamma):
        """Rows of the same episodes as rows, k steps later with a chance of (1 - gamma) gamma^k, their episodes' last at most."""
        steps = torch.log(torch.rand(len(rows))).div(math.log(gamma)).floor()
        return rows + steps.minimum(self.columns["left"][rows, 0]).long()


def left_in_episode(episode):
    """The column left [n, 1] of rows whose episodes, numbered in episode [n], are whole and follow each other."""
    last = np.append(np.flatnonzero(np.diff(episode)), len(episode) - 1)
    return (last[np.searchsorted(last, np.arange(len(episode)))] - np.arange(len(episode)))[:, None]


def channel_shares(names, base=(), base_share=0.0):
    """How often a random reward is about each channel.

    Every group of channels, such as velocity of velocity.3, is drawn as often as any
    other, but for base_share of the draws, which are of the channels base.
    """
    groups = [name.split(".")[0] for name in names]
    shares = torch.tensor([1 / groups.count(g) for g in groups]) / len(set(groups)) * (1 - base_share)
    for name in base:
        shares[names.index(name)] += base_share / len(base)
    return shares


def random_rewards(obs, shares, count):
    """Rewards of count random tasks for the rows of standardised observations, [n, count].

    Half are weighted sums of up to three elements of the observation, half are
    products of up to three ramps, from 0 to 1, over single elements: what people
    ask of a robot is often to have some quantities above or below a value. They
    have variance 1 and any mean: a constant changes no policy that is optimal, but
    it changes z, and least squares from rewards in [0, 1] give a z with a large one.
    """
    with torch.device(obs.device):
        return _random_rewards(obs, shares, count)


def _random_rewards(obs, shares, count):
    # One row per task while they are made: a channel is then contiguous, which is several times as fast.
    channels, ramps = obs.T.contiguous(), count // 2
    reward = torch.cat([torch.ones(ramps, len(obs)), torch.zeros(count - ramps, len(obs))])
    for k in range(3):
        used = (torch.rand(count, 1) < (1.0, 0.6, 0.3)[k]).float()
        x = channels[torch.multinomial(shares, count, replacement=True)]
        slope = torch.randn(ramps, 1).sign() / (0.2 + 3 * torch.rand(ramps, 1))
        ramp = (0.5 + (x[:ramps] - 1.5 * torch.randn(ramps, 1)) * slope).clamp_(0, 1)
        reward[:ramps] *= ramp * used[:ramps] + (1 - used[:ramps])
        reward[ramps:] += x[ramps:].clamp_(-4, 4) * (torch.randn(count - ramps, 1) * used[ramps:])
    mean, deviation = reward.mean(1, keepdim=True), reward.std(1, keepdim=True)
    offset = 2.5 * torch.rand(count, 1) - 0.5
    return ((reward - mean) / (deviation + 1e-3) + offset).T


def command_rewards(domain, measure, rng, count):
    """Rewards [n, count] of count random commands for states with measure [n, m]: how well they obey (fb/commands.py)."""
    measure = measure.double().cpu().numpy()
    each = [domain.obeyed(measure, np.broadcast_to(c, (len(measure), len(c)))) for c in domain.commands(rng, count)]
    return torch.as_tensor(np.stack(each, 1), dtype=torch.float32)


class Tasks:
    """What z are drawn from for a while: B of some states, and E[B r] of random rewards and of commands over them.

    random and commanded are the rewards r [n, tasks] of the states obs [n, O]; commanded may have no columns.
    """

    @torch.no_grad()
    def __init__(self, model, obs, random, commanded):
        self.states = model.backward_map(obs)
        self.rewards = random.T @ self.states / len(obs)
        self.commands = commanded.T @ self.states / len(obs)
        ridge = 1e-3 * torch.eye(self.states.shape[1], device=obs.device)
        self.inverse = torch.linalg.inv(self.states.T @ self.states / len(obs) + ridge)

    def sample(self, n, from_states, from_rewards, from_commands=0.0):
        device = self.states.device
        kind, anywhere = torch.rand(n, 1, device=device), torch.randn(n, self.states.shape[1], device=device)
        z = torch.where(kind < from_states, self.pick(self.states, n), anywhere)
        z = torch.where(kind > 1 - from_commands - from_rewards, self.pick(self.rewards, n), z)
        if from_commands:
            z = torch.where(kind > 1 - from_commands, self.pick(self.commands, n), z)
        return on_sphere(z)

    @staticmethod
    def pick(rows, n):
        return rows[torch.randint(len(rows), (n,), device=rows.device)]


class Practice:
    """Copies of the domain that follow the model's policies for random tasks."""

    def __init__(self, trainer, copies, seed):
        self.trainer, self.sim = trainer, simulation.Simulation(trainer.domain, copies, seed)
        self.args = args = trainer.args
        self.z = torch.zeros(copies, args.latent, device=args.device)
        self.noise, self.keep = (torch.zeros(copies, 1, device=args.device) for _ in range(2))
        self.wander = torch.zeros(copies, len(args.action), device=args.device)
        self.task_left = np.zeros(copies, int)
        # Their episodes end at different times.
        self.episode_left = self.sim.rng.integers(1, args.practice_steps, copies)

    @torch.no_grad()
    def step(self):
        sim, rng, trainer = self.sim, self.sim.rng, self.trainer
        for i in np.flatnonzero(self.episode_left <= 0):
            sim.reset(i, exploring=rng.random() < self.args.exploring)
            self.episode_left[i] = self.args.practice_steps
            self.task_left[i] = 0
        renew = np.flatnonzero(self.task_left <= 0)
        if len(renew):
            commands = min(self.args.z_from_commands, 0.65)
            self.z[renew] = trainer.tasks.sample(len(renew), 0.25, 0.65 - commands, commands)
            # Noise that is new at each step averages out before it has moved a body.
            for row, values in ((self.noise, [0.05, 0.2, 0.5]), (self.keep, [0, 0.8, 0.95])):
                row[renew] = torch.as_tensor(rng.choice(values, (len(renew), 1))).to(row)
            self.task_left[renew] = rng.integers(50, 300, len(renew))
        obs = sim.obs
        mean = trainer.model.actor(trainer.model.normalize(torch.as_tensor(obs).to(self.z)), self.z)
        self.wander = self.keep * self.wander + torch.sqrt(1 - self.keep**2) * torch.randn_like(mean)
        action = (mean + self.noise * self.wander).clamp(-1, 1).cpu().numpy()
        next_obs = sim.step(action)
        good = np.isfinite(next_obs).all(1)
        rows = {"obs": obs, "action": action, "next_obs": next_obs, "measure": sim.measure()}
        trainer.replay.add({k: v[good] for k, v in rows.items()})
        self.task_left -= 1
        self.episode_left -= 1
        self.episode_left[~good] = 0


class Pretraining(train_fb.Trainer):
    def __init__(self, args, domain, first):
        self.domain, self.replay = domain, Replay(args.capacity, first, args.device)
        tensors = [torch.as_tensor(first[k], dtype=torch.float32, device=args.device) for k in ("obs", "action", "next_obs")]
        super().__init__(args, *tensors)
        self.magnify_base()
        self.practice = Practice(self, args.copies, args.seed + 1)
        self.best, self.tasks = -1.0, None
        self.shares = channel_shares(args.observation, domain.base, args.base_share).to(args.device)
        self.average = copy.deepcopy(self.model).requires_grad_(False)

    def magnify_base(self):
        """Has the maps see more of the base: they begin with all channels alike, of which it may be a few of many."""
        base = [self.args.observation.index(name) for name in self.domain.base]
        self.model.obs_var[base] /= self.args.base_scale**2

    def update_targets(self):
        super().update_targets()
        torch._foreach_lerp_(list(self.average.parameters()), list(self.model.parameters()), self.args.average)

    def draw(self, n):
        rows = torch.randint(self.replay.size, (n,))
        obs, action, next_obs = self.replay.rows(rows, "obs", "action", "next_obs")
        ahead = rows[: int(self.args.z_from_future * n)]
        [self.future] = self.replay.rows(self.replay.later(ahead, self.args.gamma), "next_obs")
        return self.model.normalize(obs), action, self.model.normalize(next_obs)

    def sample_z(self, next_obs):
        if self.step % TASKS_EVERY == 0 or self.tasks is None:
            self.tasks = self.new_tasks()
        args = self.args
        z = self.tasks.sample(len(next_obs), args.z_from_data, args.z_from_rewards, args.z_from_commands)
        if len(self.future):
            with torch.no_grad():
                z[: len(self.future)] = on_sphere(self.model.backward_map(self.model.normalize(self.future)))
        return z

    def new_tasks(self):
        obs, measure = self.replay.sample(TASKS_ROWS, "next_obs", "measure")
        obs = self.model.normalize(obs)
        commanded = obs.new_zeros(len(obs), 0)
        if self.args.z_from_commands:
            commanded = command_rewards(self.domain, measure, self.practice.sim.rng, TASKS_COMMANDS).to(obs)
        return Tasks(self.model, obs, random_rewards(obs, self.shares, TASKS_REWARDS), commanded)

    def inverse_second_moment(self, backward):
        return self.tasks.inverse

    def evaluate(self):
        began = time.monotonic()
        args, domain = self.args, self.domain
        next_obs, measure = self.replay.sample(zeroshot.LABELLED, "next_obs", "measure")
        reward = torch.as_tensor(domain.reward(measure.double().cpu().numpy()), device=args.device)
        z, explained = zeroshot.oracle(self.average, next_obs, reward)
        followed = z.repeat_interleave(args.eval_episodes, 0)
        returns = zeroshot.returns(self.average, domain, followed, args.eval_episodes, EVALUATION_SEED, args.episode_steps).mean(1)
        shown = " ".join(f"{t} {r:.0f} (R2 {e:.2f})" for t, r, e in zip(domain.tasks, returns, explained))
        print(f"update {self.step}, {self.replay.size} transitions: mean {returns.mean():.0f}: {shown}  "
              f"[{time.monotonic() - began:.0f} s]", flush=True)
        if returns.mean() > self.best:
            self.best = float(returns.mean())
            self.save_best(z, dict(zip(domain.tasks, returns.tolist())))

    def save_best(self, z, returns):
        folder = self.args.out / "best"
        [obs] = self.replay.sample(50_000, "next_obs")
        self.write_bundle(folder, self.average, obs)
        oracle = dict(zip(self.domain.tasks, z.tolist()))
        bundle.replace(folder / "oracle.json", (json.dumps({"z": oracle, "returns": returns, "updates": self.step}) + "\n").encode())

    def after_update(self):
        if self.args.practice_every and self.step % self.args.practice_every == 0:
            self.practice.step()
        if self.step % self.args.eval_every == 0:
            self.evaluate()
        super().after_update()

    def save(self):
        self.args.out.mkdir(parents=True, exist_ok=True)
        self.write_checkpoint()

    def provenance(self):
        practised = self.step // self.args.practice_every * self.args.copies if self.args.practice_every else 0
        here = {"trained_by": "scripts/pretrain_dmc.py", "transitions": f"{len(self.obs)} recorded, then its own practice: {practised}"}
        return super().provenance() | here

    def state(self):
        return super().state() | {"replay": self.replay.state(), "best": self.best,
                                "average": self.average.state_dict()}

    def restore(self, content):
        super().restore(content)
        self.replay.restore(content["replay"])
        self.average.load_state_dict(content.get("average", content["model"]))
        self.best = content["best"]


def parse_arguments(argv=None):
    p = train_fb.parser(__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("transitions", type=Path, help="of collect_dmc.py or collect_maze.py")
    p.add_argument("--z-from-future", type=float, default=0.0,
                   help="part of the z that are B of a state that the row's own episode came to later (%(default)s)")
    p.add_argument("--z-from-commands", type=float, default=0.0,
                   help="part of the z that are of commands for the base, as collect_dmc.py --commanded has them (%(default)s)")
    g = p.add_argument_group("practice and evaluation")
    g.add_argument("--copies", type=int, default=16)
    g.add_argument("--practice-every", type=int, default=4, help="updates for one step of all copies; 0: no practice (%(default)s)")
    g.add_argument("--practice-steps", type=int, default=simulation.EPISODE_STEPS, help="of an episode (%(default)s)")
    g.add_argument("--exploring", type=float, default=0.3, help="part of the episodes that begin anywhere (%(default)s)")
    g.add_argument("--base-share", type=float, default=0.0,
                   help="part of the random rewards' terms that are about the robot's base (%(default)s)")
    g.add_argument("--base-scale", type=float, default=1.0, help="of the base's standardised channels (%(default)s)")
    g.add_argument("--average", type=float, default=0.002, help="rate of the averaged weights, which are evaluated and saved (%(default)s)")
    g.add_argument("--capacity", type=int, default=2_000_000)
    g.add_argument("--eval-every", type=int, default=5000)
    g.add_argument("--eval-episodes", type=int, default=4)
    g.add_argument("--episode-steps", type=int, default=simulation.EPISODE_STEPS, help="of an evaluation (%(default)s)")
    return p.parse_args(argv)


def load_transitions(path):
    """The columns of a recording, episode after episode where it tells which rows are of one."""
    with np.load(path) as archive:
        first = {name: archive[name] for name in ("obs", "action", "next_obs", "measure")}
        if "episode" not in archive:
            return first
        order = np.argsort(archive["episode"], kind="stable")
        return {name: column[order] for name, column in first.items()} | {"left": left_in_episode(archive["episode"][order])}


def main(argv=None):
    args = parse_arguments(argv)
    train_fb.keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    first = load_transitions(args.transitions)
    domain = simulation.DOMAINS[args.domain]()
    args.name = args.domain
    args.observation, args.action = domain.channel_names()
    trainer = Pretraining(args, domain, first)
    trainer.resume()
    train_fb.train(trainer)


if __name__ == "__main__":
    main()
