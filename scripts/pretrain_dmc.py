#!/usr/bin/env python3
"""Pre-train a forward-backward model of a dm_control domain or a maze, without its tasks' rewards, and save a bundle.

    scripts/collect_dmc.py cheetah --out cheetah.npz
    scripts/pretrain_dmc.py cheetah cheetah.npz --out runs/cheetah --steps 100000
    scripts/pretrain_dmc.py cheetah cheetah.npz --out runs/cheetah --preset paper --device cuda

It begins with the file's transitions and, while it trains, adds those of the
model's own policies: pi_z for random tasks z, with noise. With --practice-every 0
the file's are all, and --bc keeps the policies near what is in them. With --expert
the policies are an expert's, as well as the actor learns them: what it prints as
"expert" is the mean squared distance to its actions.

The tasks' rewards are not trained on, though with --z-from-commands some of their
kind are. They are looked at in the evaluations: every
--eval-every updates each task's z is inferred from 50,000 labelled states and
followed for a few episodes, and the bundle in OUT/best is of the highest mean so far,
or, with --best-by rewards, of the highest mean over random rewards, which exclude the tasks.
"""

import argparse
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import train_fb
from fb import bundle, flat, prior, recording, simulation, zeroshot
from fb.episodes import Episodes, Noise
from fb.networks import on_sphere

EVALUATION_SEED, PRACTICE_SEED = 12345, 1
PRACTICE_STATES, PRACTICE_REWARDS = 0.25, 0.65  # parts of the z that practice follows; the rest are of the sphere

# What --preset sets; options that are given count instead.
PRESETS = {
    "paper": train_fb.PRESETS["paper"] | {
        "base_scale": 1.0,
        "z_from_future": 0.0,
        "z_from_commands": 0.0,
        "base_share": 0.0,
        "b_of_base": False,
        "expert": 0,
        "practice_every": 0,
    }
}

SCORED_REWARDS = 64  # of --best-by rewards
# Of class Tasks; TASKS_EVERY: updates for which one serves.
TASKS_ROWS, TASKS_REWARDS, TASKS_COMMANDS, TASKS_EVERY = 4096, 1024, 64, 50


class Replay:
    """Transitions in the order in which they came; the oldest give way when it is full. Samples are on device.

    The column left says how many of the rows after a row are of the same episode:
    none if rows of several episodes take turns.
    """

    COLUMNS = ("obs", "action", "next_obs", "measure", "left")

    def __init__(self, capacity: int, first, device="cpu") -> None:
        self.columns, self.device = {}, device
        self.capacity, self.size, self.next = capacity, 0, 0
        for name in self.COLUMNS:
            self.columns[name] = torch.zeros(capacity, first[name].shape[1] if name in first else 1)
        self.add(first)

    def add(self, rows) -> None:
        n = len(rows["obs"])
        at = (self.next + torch.arange(n)) % self.capacity
        for name, column in self.columns.items():
            column[at] = torch.as_tensor(rows[name], dtype=torch.float32) if name in rows else 0.0
        self.next = (self.next + n) % self.capacity
        self.size = min(self.size + n, self.capacity)

    def state(self) -> dict:
        return {
            "columns": {name: column[: self.size].clone() for name, column in self.columns.items()},
            "next": self.next,
        }

    def restore(self, state) -> None:
        columns, place = state["columns"], state["next"]
        self.size = len(columns["obs"])
        if self.size > self.capacity:
            raise SystemExit(
                f"--capacity {self.capacity}: the checkpoint has {self.size} transitions; give as many, or "
                "another --out"
            )
        if place < self.size < self.capacity:  # the buffer was full and is larger now: the newest row becomes the last
            columns, place = {name: column.roll(-place, 0) for name, column in columns.items()}, self.size
        self.next = place % self.capacity
        for name, column in columns.items():
            self.columns[name][: self.size] = column

    def sample(self, n: int, *names):
        return self.rows(torch.randint(self.size, (n,)), *names)

    def rows(self, rows, *names):
        return [self.columns[name][rows].to(self.device) for name in names]

    def later(self, rows, gamma: float):
        """Rows of the same episodes as rows, k steps later with a chance of (1 - gamma) gamma^k, their
        episodes' last at most."""
        steps = torch.log(torch.rand(len(rows))).div(math.log(gamma)).floor()
        return rows + steps.minimum(self.columns["left"][rows, 0]).long()


def left_in_episode(episode):
    """Returns the number of later rows of the same episode, [n, 1]. episode [n]: numbers of contiguous episodes."""
    last = np.append(np.flatnonzero(np.diff(episode)), len(episode) - 1)
    return (last[np.searchsorted(last, np.arange(len(episode)))] - np.arange(len(episode)))[:, None]


def channel_shares(names, base=(), base_share=0.0):
    """Returns how often a random reward depends on each channel.

    Every group of channels, such as velocity of velocity.3, is drawn as often as any
    other, but for base_share of the draws, which are of the channels base.
    """
    groups = [name.split(".")[0] for name in names]
    shares = torch.tensor([1 / groups.count(g) for g in groups]) / len(set(groups)) * (1 - base_share)
    for name in base:
        shares[names.index(name)] += base_share / len(base)
    return shares


def random_rewards(obs, shares, count: int):
    """Returns rewards of count random tasks for the rows of standardised observations, [n, count].

    Half are weighted sums of up to three elements of the observation, half are
    products of up to three ramps, from 0 to 1, over single elements: what people
    ask of a robot is often to have some quantities above or below a value. They
    have variance 1 and any mean: a constant changes no policy that is optimal, but
    it changes z, and least squares from rewards in [0, 1] give a z with a large one.
    """
    with torch.device(obs.device):
        return _random_rewards(obs, shares, count)


def _random_rewards(obs, shares, count):
    # One row per task while they are made: a channel is then contiguous, which is several times as
    # fast.
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


@torch.no_grad()
def score_random_rewards(model, domain, labelled, yardstick, standardise, shares, steps: int) -> float:
    """Returns how far random rewards rise along their policies above states yardstick [n, O], as a mean of
    standard deviations.

    z is inferred from labelled [n, O]. A reward counts at most 3 deviations. The rewards are of states after
    standardise. """
    def rewards(obs):  # the same functions in each evaluation, up to scale and offset
        with torch.random.fork_rng():
            torch.manual_seed(EVALUATION_SEED)
            return random_rewards(standardise(obs), shares, SCORED_REWARDS)

    z, _ = zeroshot.oracle(model, labelled, rewards(labelled).double())
    visited = zeroshot.visited(model, domain, z, EVALUATION_SEED, steps)
    rows, tasks, _ = visited.shape
    reward = rewards(torch.cat([yardstick, visited.flatten(0, 1)]))
    known, got = reward[: len(yardstick)], reward[len(yardstick) :].view(rows, tasks, tasks)
    gain = (got.diagonal(dim1=1, dim2=2).nanmean(0) - known.mean(0)) / (known.std(0) + 1e-3)
    return float(gain.clamp(-3, 3).mean())


def command_rewards(domain, measure, rng: np.random.Generator, count: int):
    """Returns rewards [n, count] of count random commands for states with measure [n, m] (fb/commands.py)."""
    measure = measure.double().cpu().numpy()
    each = [domain.obeyed(measure, np.broadcast_to(c, (len(measure), len(c)))) for c in domain.commands(rng, count)]
    return torch.as_tensor(np.stack(each, 1), dtype=torch.float32)


class Tasks:
    """A distribution of z: B of some states, and E[B r] of random rewards and of commands over them."""

    def __init__(self, states, rewards, commands, inverse) -> None:
        self.states, self.rewards, self.commands, self.inverse = states, rewards, commands, inverse

    @classmethod
    @torch.no_grad()
    def of(cls, model, obs, random, commanded):
        """Of rewards r [n, tasks] of the states obs [n, O], random and commanded; commanded may have no columns."""
        states = model.backward_map(obs)
        ridge = 1e-3 * torch.eye(states.shape[1], device=obs.device)
        return cls(states, random.T @ states / len(obs), commanded.T @ states / len(obs),
                   torch.linalg.inv(states.T @ states / len(obs) + ridge))

    def sample(self, n: int, from_states, from_rewards, from_commands=0.0):
        device = self.states.device
        kind, anywhere = torch.rand(n, 1, device=device), torch.randn(n, self.states.shape[1], device=device)
        z = torch.where(kind < from_states, self.pick(self.states, n), anywhere)
        z = torch.where(kind > 1 - from_commands - from_rewards, self.pick(self.rewards, n), z)
        if from_commands:
            z = torch.where(kind > 1 - from_commands, self.pick(self.commands, n), z)
        return on_sphere(z)

    @staticmethod
    def pick(rows, n: int):
        return rows[torch.randint(len(rows), (n,), device=rows.device)]


class Practice:
    """Copies of the domain that follow the model's policies for random tasks."""

    def __init__(self, trainer, copies: int, seed: int) -> None:
        self.trainer, self.sim = trainer, simulation.Simulation(trainer.domain, copies, seed)
        args = trainer.args
        self.z, self.task_left = torch.zeros(copies, args.latent, device=args.device), np.zeros(copies, int)
        self.episodes = Episodes(self.sim, 0, args.practice_steps, exploring=args.exploring)
        self.noise = Noise(self.sim.rng, copies, len(args.action))
        self.rows = 0  # recorded so far

    @torch.no_grad()
    def step(self) -> None:
        self.task_left[self.episodes.begin()] = 0
        self.renew(np.flatnonzero(self.task_left <= 0))
        model = self.trainer.model
        mean = model.actor(model.normalize(torch.as_tensor(self.sim.obs).to(self.z)), self.z)
        rows, good = self.episodes.step(mean.cpu().numpy() + self.noise.step())
        self.trainer.replay.add(rows)
        self.rows += int(good.sum())
        self.task_left -= 1

    def renew(self, copies: int) -> None:
        """Draws new tasks and noise for these copies."""
        if not len(copies):
            return
        commands = min(self.trainer.args.z_from_commands, PRACTICE_REWARDS)
        self.z[copies] = self.trainer.tasks.sample(len(copies), PRACTICE_STATES, PRACTICE_REWARDS - commands, commands)
        self.noise.redraw(copies)
        self.task_left[copies] = self.sim.rng.integers(50, 300, len(copies))

    def arrays(self):
        episodes, noise = self.episodes, self.noise
        return {"task_left": self.task_left, "episode_left": episodes.left,
                "noise_size": noise.size, "noise_keep": noise.keep, "noise_wander": noise.wander}

    def state(self) -> dict:
        sim = self.sim
        arrays = {"physics": sim.states(), "obs": sim.obs, **self.arrays()}
        return {"rng": sim.rng.bit_generator.state, "rows": self.rows, "z": self.z,
                **{name: torch.as_tensor(array) for name, array in arrays.items()}}

    def restore(self, state) -> None:
        sim = self.sim
        if missing := [name for name in self.arrays() if name not in state]:
            raise SystemExit(
                f"the checkpoint's practice lacks {', '.join(missing)}: it is of an older version; start "
                "again with another --out"
            )
        if len(state["physics"]) != len(sim.data):
            raise SystemExit(
                f"--copies {len(sim.data)}: the checkpoint has {len(state['physics'])}; give as many, or another --out")
        sim.rng.bit_generator.state, self.rows = state["rng"], state["rows"]
        sim.restore(state["physics"].cpu().numpy())
        sim.obs = state["obs"].cpu().numpy().copy()
        self.z.copy_(state["z"])
        for name, array in self.arrays().items():
            array[:] = state[name].cpu().numpy()


class Pretraining(train_fb.Trainer):
    capturable = False  # the replay is in the CPU's memory

    def __init__(self, args: argparse.Namespace, domain, first) -> None:
        self.domain, self.replay = domain, Replay(args.capacity, first, args.device)
        # Only the sizes, the mean and the variance of these are used: they may stay where they are.
        super().__init__(args, *(torch.as_tensor(first[name]) for name in ("obs", "action", "next_obs")))
        self.magnify_base()
        if args.b_of_base:
            self.have_b_begin_with_the_base()
        # Not a seed that an evaluation may have: its episodes would begin alike.
        self.practice = Practice(self, args.copies, [args.seed, PRACTICE_SEED]) if args.practice_every else None
        self.best, self.tasks, self.yardstick = -math.inf, None, None
        self.expert = domain.expert(args.gamma) if args.expert else None
        self.shares = channel_shares(args.observation, domain.base, args.base_share).to(args.device)
        self.start_average()

    def magnify_base(self) -> None:
        """Has the maps see more of the base: they begin with all channels alike, of which it may be a few of many."""
        self.model.obs_var[self.base_channels()] /= self.args.base_scale**2

    def base_channels(self):
        return [self.args.observation.index(name) for name in self.domain.base]

    def have_b_begin_with_the_base(self) -> None:
        """B of few channels: the first layer's LayerNorm leaves nothing of their sizes unless its biases differ
        as much as they do."""
        args, b = self.args, self.model.backward_map
        with torch.no_grad():
            b.net[0].bias.normal_(0, args.base_scale * (len(self.domain.base) / args.b_hidden) ** 0.5)
        self.hide_all_but_the_base(b)
        self.model.target_backward.load_state_dict(b.state_dict())

    @torch.no_grad()
    def hide_all_but_the_base(self, *maps) -> None:
        hidden = [i for i, name in enumerate(self.args.observation) if name not in self.domain.base]
        for b in maps:
            b.net[0].weight[:, hidden] = 0

    def update_targets(self) -> None:
        if self.args.b_of_base:
            self.hide_all_but_the_base(self.model.backward_map)
        super().update_targets()

    def draw(self, n: int):
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
            rng = np.random.default_rng(int(torch.randint(1 << 62, ())))  # of what a checkpoint has
            commanded = command_rewards(self.domain, measure, rng, TASKS_COMMANDS).to(obs)
        return Tasks.of(self.model, obs, random_rewards(obs, self.shares, TASKS_REWARDS), commanded)

    def inverse_second_moment(self, backward):
        return self.tasks.inverse

    def update_actor(self, obs, z, embedded_task, data_action):
        if not self.expert:
            return super().update_actor(obs, z, embedded_task, data_action)
        features = self.features_of_cells()
        for _ in range(self.args.expert):
            shown = self.learn_from_expert(features)
        return shown

    def learn_from_expert(self, features):
        """Returns the mean squared distance of the actor's actions to the expert's in recorded states (DAgger)."""
        args = self.args
        [obs] = self.replay.sample(args.batch, "obs")
        z = self.tasks.sample(args.batch, args.z_from_data, args.z_from_rewards)
        worth = z @ features.T
        wanted = self.expert.act(obs.cpu().numpy(), worth.cpu().numpy())
        action = self.model.actor(self.model.normalize(obs), z)
        loss = (action - torch.as_tensor(wanted).to(action)).square().mean()
        flat.backward(loss, self.actor_flat)
        self.actor_optimizer.step()
        return {"expert": loss.detach(), "|a|": action.detach().abs().mean()}

    @torch.no_grad()
    def features_of_cells(self):
        """Returns phi = (E[B B^T])^-1 B of the expert's cells, [c, d], as means over places in each cell."""
        places = torch.as_tensor(self.expert.places()).to(self.model.obs_mean)
        obs = self.model.obs_mean.expand(*places.shape[:-1], -1).clone()  # B sees the base alone
        obs[..., self.base_channels()] = places
        return self.model.backward_map(self.model.normalize(obs)).mean(1) @ self.tasks.inverse

    def evaluate(self) -> None:
        self.refuse_divergence()  # MuJoCo takes commands that are not finite for none, which some tasks reward
        began = time.monotonic()
        args, domain = self.args, self.domain
        next_obs, measure = self.replay.sample(zeroshot.LABELLED, "next_obs", "measure")
        reward = torch.as_tensor(domain.reward(measure.double().cpu().numpy()), device=args.device)
        z, explained = zeroshot.oracle(self.average, next_obs, reward)
        followed = z.repeat_interleave(args.eval_episodes, 0)
        returns = zeroshot.returns(self.average, domain, followed, args.eval_episodes, EVALUATION_SEED,
                                   args.episode_steps).mean(1)
        shown = " ".join(f"{t} {r:.0f} (R2 {e:.2f})" for t, r, e in zip(domain.tasks, returns, explained))
        print(f"update {self.step}, {self.replay.size} transitions: mean {returns.mean():.0f}: {shown}  "
              f"[{time.monotonic() - began:.0f} s]", flush=True)
        score = float(returns.mean()) if args.best_by == "tasks" else self.score_random_rewards(next_obs)
        if score > self.best:
            self.best = score
            self.save_best(z, dict(zip(domain.tasks, returns.tolist())))

    def score_random_rewards(self, labelled) -> float:
        """Returns the score of the averaged weights, beside the states of the first evaluation. labelled:
        states [n, O]."""
        if self.yardstick is None:
            self.yardstick = labelled.clone()
        score = score_random_rewards(self.average, self.domain, labelled, self.yardstick, self.average.normalize,
                                     self.shares, self.args.episode_steps)
        print(f"  random rewards: {score:.3f}", flush=True)
        return score

    def save_best(self, z, returns) -> None:
        folder = self.args.out / "best"
        [obs] = self.replay.sample(50_000, "next_obs")
        self.write_bundle(folder, self.average, obs)
        oracle = dict(zip(self.domain.tasks, z.tolist()))
        bundle.replace(folder / "oracle.json",
                       (json.dumps({"z": oracle, "returns": returns, "updates": self.step}) + "\n").encode())

    def after_update(self) -> None:
        if self.practice and self.step % self.args.practice_every == 0:
            self.practice.step()
        if self.step % self.args.eval_every == 0:
            self.evaluate()
        super().after_update()

    def save(self) -> None:
        self.refuse_divergence()
        self.args.out.mkdir(parents=True, exist_ok=True)
        self.write_checkpoint()

    def measure(self) -> None:
        """Does nothing: evaluate has measured the model in the simulation."""

    def add_prior(self) -> None:
        folder = self.args.out / "best"
        if folder.exists():
            [obs] = self.replay.sample(prior.OBSERVATIONS, "next_obs")
            self.add_prior_of(folder, obs)

    def provenance(self) -> dict:
        practised = f"then its own practice: {self.practice.rows}" if self.practice else "no practice"
        return super().provenance() | {"trained_by": "scripts/pretrain_dmc.py", "best_by": self.args.best_by,
                                       "transitions": f"{len(self.obs)} recorded, {practised}"}

    def state(self) -> dict:
        more = {
            "replay": self.replay.state(), "best": self.best, "best_by": self.args.best_by, "yardstick": self.yardstick,
            "average": self.average.state_dict()
        }
        if self.tasks:
            more["tasks"] = vars(self.tasks)
        if self.practice:
            more["practice"] = self.practice.state()
        return super().state() | more

    def restore(self, content) -> None:
        super().restore(content)
        self.replay.restore(content["replay"])
        if self.args.b_of_base:  # the resumed run may not have had it
            self.hide_all_but_the_base(*(b for model in (self.model, self.average)
                                         for b in (model.backward_map, model.target_backward)))
        if content.get("best_by", "tasks") == self.args.best_by:  # scores of the other kind do not compare
            self.best, self.yardstick = content["best"], content.get("yardstick")
        kept = content.get("tasks", {})
        if "commands" in kept and (len(kept["commands"]) or not self.args.z_from_commands):
            self.tasks = Tasks(**kept)
        if self.practice and "practice" in content:
            self.practice.restore(content["practice"])


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = train_fb.parser(__doc__.split("\n\n")[0])
    p.add_argument("--preset", choices=PRESETS,
                   help="settings to begin with, which other options change; paper: those of Rupf et al. (2025)")
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("transitions", type=Path, help="of collect_dmc.py or collect_maze.py")
    p.add_argument("--z-from-future", type=train_fb.share, default=0.0,
                   help="part of the z that are B of a state that the row's own episode came to later (%(default)s)")
    p.add_argument(
        "--z-from-commands", type=train_fb.share, default=0.0,
        help="part of the z that are of commands for the base, as collect_dmc.py --commanded has them (%(default)s)")
    g = p.add_argument_group("practice and evaluation")
    g.add_argument("--copies", type=train_fb.at_least(1), default=16)
    g.add_argument("--practice-every", type=train_fb.at_least(0), default=4,
                   help="updates for one step of all copies; 0: no practice (%(default)s)")
    g.add_argument("--practice-steps", type=train_fb.at_least(1), default=simulation.EPISODE_STEPS,
                   help="of an episode (%(default)s)")
    g.add_argument("--exploring", type=train_fb.share, default=0.3,
                   help="part of the episodes that begin anywhere (%(default)s)")
    g.add_argument("--base-share", type=train_fb.share, default=0.0,
                   help="part of the random rewards' terms that are about the robot's base (%(default)s)")
    g.add_argument("--base-scale", type=train_fb.not_negative, default=1.0,
                   help="of the base's standardised channels (%(default)s)")
    g.add_argument("--b-of-base", action=argparse.BooleanOptionalAction, default=False,
                   help="B sees the robot's base alone, and the model's tasks are about nothing else")
    g.add_argument(
        "--expert",
        type=train_fb.at_least(0),
        default=0,
        metavar="BATCHES",
        help="so many batches an update the actor learns what an expert would do, and nothing else; in "
             "mazes, with --b-of-base (%(default)s)",
    )
    g.add_argument("--capacity", type=train_fb.at_least(2), default=2_000_000)
    g.add_argument("--eval-every", type=train_fb.at_least(1), default=5000)
    g.add_argument("--eval-episodes", type=train_fb.at_least(1), default=4)
    g.add_argument("--best-by", choices=("tasks", "rewards"), default="tasks",
                   help="returns that choose the bundle in OUT/best (%(default)s)")
    g.add_argument("--episode-steps", type=train_fb.at_least(1), default=simulation.EPISODE_STEPS,
                   help="of an evaluation (%(default)s)")
    p.set_defaults(average=0.002)
    p.set_defaults(**PRESETS.get(train_fb.preset(argv), {}))
    args = train_fb.checked(p, argv)
    parts = args.z_from_data, args.z_from_rewards, args.z_from_commands
    if sum(parts) > 1 + 1e-9:
        p.error(f"--z-from-data, --z-from-rewards and --z-from-commands are more than all z {parts}: give parts of 1")
    if args.z_from_commands and not simulation.DOMAINS[args.domain].takes_commands:
        p.error(f"--z-from-commands: the {args.domain} takes no commands: leave it out")
    if args.expert and not (simulation.DOMAINS[args.domain].has_expert and args.b_of_base):
        p.error("--expert needs a maze and --b-of-base: leave it out, or give both")
    if args.expert and (args.bc or args.saturation):
        p.error("--expert: the actor learns from it alone: leave --bc and --saturation out")
    if args.base_scale != 1 and not args.norm_obs:
        p.error("--base-scale is of standardised channels, and they are not: leave it out, or give --norm-obs")
    return args


def load_transitions(path: Path, need_episodes=False) -> dict[str, np.ndarray]:
    """Returns the columns of a recording, sorted by episode if it has episodes."""
    needed, optional = (*recording.FLOATS,), ("episode",)
    if need_episodes:
        needed, optional = needed + optional, ()
    columns = recording.read(path, needed, optional)
    if "episode" not in columns:
        return columns
    episode = columns.pop("episode")
    order = np.argsort(episode, kind="stable")
    return {name: column[order] for name, column in columns.items()} | {"left": left_in_episode(episode[order])}


def check_recording(path: Path, columns: dict[str, np.ndarray], domain, capacity: int) -> None:
    """Ends the program if the recording is of another domain or too long."""
    recording.check_domain(path, columns, simulation.Simulation(domain, 1, seed=0))
    if len(columns["obs"]) > capacity:
        raise SystemExit(f"--capacity {capacity}: {path} has {len(columns['obs'])} transitions; give as many at least")


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    train_fb.keep_freed_memory()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    first = load_transitions(args.transitions, need_episodes=args.z_from_future > 0)
    domain = simulation.DOMAINS[args.domain]()
    check_recording(args.transitions, first, domain, args.capacity)
    args.name = args.domain
    args.observation, args.action = domain.channel_names()
    trainer = Pretraining(args, domain, first)
    trainer.resume()
    train_fb.train(trainer)


if __name__ == "__main__":
    main()
