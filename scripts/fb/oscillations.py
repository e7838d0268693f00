"""Exploration by oscillation: a search over a few numbers finds gaits in a minute; learning takes hours.

All actuators swing at one frequency, each about its own level, with its own
amplitude and phase; nothing is fed back. Robots of several legs, whose joints
follow positions, walk with the best of it. Its transitions, at all sizes of the
strides and with noise, show an agent or a model what moving is like. Robots that
fell on their backs right themselves first (fb/righting.py).
"""

import numpy as np

from fb import righting, simulation
from fb.episodes import Episodes, Noise

SETTLE = 50  # control periods before a gait is judged
EPISODE_STEPS = 300
EXPLORING = 0.5  # share of the episodes with a random start
NOISE = (0.02, 0.1, 0.3)
LYING = 50  # control periods that a robot rests on its back before it rights itself


class Oscillation:
    """Actions level + swing sin(2 pi frequency t + phase); level, swing and phase are [A]."""

    def __init__(self, frequency, level, swing, phase) -> None:
        self.frequency, self.level, self.swing, self.phase = frequency, level, swing, phase

    def at(self, time, stride=1.0):
        """Actions at time, s, with amplitudes times stride."""
        return np.clip(self.level + stride * self.swing * np.sin(2 * np.pi * self.frequency * time + self.phase), -1, 1)

    @staticmethod
    def random(rng: np.random.Generator, actuators, limbs):
        """Draws gaits whose limbs move alike with a phase shift, half of them like a trot."""
        each = actuators // limbs
        level, swing, phase = rng.uniform(-0.6, 0.6, each), rng.uniform(0, 1.2, each), rng.uniform(-np.pi, np.pi, each)
        delay = rng.uniform(-np.pi, np.pi, (limbs, 1))
        if rng.random() < 0.5:
            delay = np.pi * (np.arange(limbs) % 2)[:, None]
        mirror = np.ones((limbs, each))
        mirror[:, 0] = rng.choice([-1, 1], limbs)  # the joint that moves a limb sideways
        return Oscillation(rng.uniform(0.8, 3.5), np.tile(level, limbs), (mirror * swing).ravel(),
                           (phase + delay).ravel())

    def mutated(self, rng: np.random.Generator, size):
        def moved(x, by):
            return x + size * by * rng.normal(size=x.shape) * (rng.random(x.shape) < 0.4)

        return Oscillation(float(np.clip(self.frequency + size * 0.5 * rng.normal(), 0.5, 4)), moved(self.level, 0.3),
                           moved(self.swing, 0.3), moved(self.phase, 1.5))


def obedience(sim: simulation.Simulation, gaits, command, steps: int) -> np.ndarray:
    """Returns how well each gait follows command, [n], in one episode each."""
    domain, n, total = sim.domain, len(gaits), np.zeros(len(gaits))
    for i in range(n):
        sim.reset(i, standing=True)
    for step in range(SETTLE + steps):
        obs = sim.step(np.stack([g.at(step * domain.period) for g in gaits]))
        if step >= SETTLE:
            total += np.where(np.isfinite(obs).all(1), domain.obeyed(sim.measure(), np.tile(command, (n, 1))), 0)
    return total / steps


def search(
        domain: simulation.Domain, command, seed: int, first: int = 96, rounds: int = 16, kept: int = 3,
        children: int = 7, steps: int = 70):
    """Returns the gaits [kept] that follow command best, the best first, and their scores.

    The best of many random gaits are improved separately: of a parent and its
    children, judged together again, the best survives.
    """
    rng = np.random.default_rng(seed)
    sim = simulation.Simulation(domain, kept * (children + 1), [seed, 1])
    drawn, n = [Oscillation.random(rng, domain.model.nu, domain.limbs) for _ in range(first)], len(sim.data)
    values = np.concatenate([obedience(sim, drawn[i : i + n], command, steps) for i in range(0, first - first % n, n)])
    best = np.argsort(-values)[:kept]
    parents, values, size = [drawn[i] for i in best], values[best], np.full(kept, 0.5)
    for _ in range(rounds):
        tried = [[p, *(p.mutated(rng, s) for _ in range(children))] for p, s in zip(parents, size)]
        judged = obedience(sim, [p for row in tried for p in row], command, steps).reshape(kept, -1)
        best = judged.argmax(1)
        parents, values = [row[i] for row, i in zip(tried, best)], judged.max(1)
        size = np.where(best > 0, np.minimum(1.2 * size, 1), np.maximum(0.8 * size, 0.1))
    order = np.argsort(-values)
    return [parents[i] for i in order], values[order]


class Walkers:
    """Copies with one gait each, with noise and random stride sizes. A copy on its back rights itself."""

    def __init__(self, domain: simulation.Domain, copies: int, seed: int, number: int, gaits, rightings) -> None:
        self.sim = simulation.Simulation(domain, copies, seed)
        self.gaits, self.rightings = gaits, rightings
        self.episodes = Episodes(self.sim, number, EPISODE_STEPS, shortest=EPISODE_STEPS // 2, exploring=EXPLORING)
        self.noise = Noise(self.sim.rng, copies, domain.model.nu, NOISE)
        self.gait, self.stride, self.time = [None] * copies, np.zeros(copies), np.zeros(copies)
        self.poses, self.lying = [None] * copies, np.zeros(copies, int)
        self.choose(np.arange(copies))

    def choose(self, copies: int) -> None:
        """Draws new gaits and new noise for these copies."""
        rng = self.sim.rng
        for i in copies:
            self.gait[i] = self.gaits[rng.integers(len(self.gaits))].mutated(rng, 0.1)
            self.gait[i].frequency *= rng.uniform(0.6, 1.1)
            self.stride[i], self.time[i], self.lying[i] = rng.uniform(0, 1.1), rng.uniform(0, 2), 0
        self.noise.redraw(copies)

    def lie(self) -> None:
        """Counts the control periods for which each copy lies or rights itself: 0 while it walks."""
        if not self.rightings:
            return
        on_back, whole = self.sim.domain.uprightness(self.sim.measure()) < 0, LYING + righting.HOLD * righting.POSES
        for i in np.flatnonzero(on_back | (self.lying > 0)):
            if self.lying[i] == 0:
                self.poses[i] = self.rightings[self.sim.rng.integers(len(self.rightings))]
            # A righting that has begun continues: its intermediate poses are neither up nor down.
            goes_on = on_back[i] or self.lying[i] >= LYING
            self.lying[i] = (self.lying[i] + 1) % whole if goes_on else 0

    def intended(self, i: int):
        """Returns the action of copy i without noise, [A]."""
        if self.lying[i] == 0:
            return self.gait[i].at(self.time[i], self.stride[i])
        if self.lying[i] < LYING:
            return np.zeros(self.sim.domain.model.nu)
        return self.poses[i][(self.lying[i] - LYING) // righting.HOLD]

    def step(self):
        """Simulates one control period. Ended episodes start again. Returns its rows."""
        self.choose(self.episodes.begin())
        self.lie()
        intended = np.stack([self.intended(i) for i in range(len(self.gait))])
        rows, _ = self.episodes.step(intended + self.noise.step())
        self.time += self.sim.domain.period
        return rows


def explore(
        domain: simulation.Domain, first: dict[str, np.ndarray], transitions: int, seed: int,
        copies: int = 32) -> dict[str, np.ndarray]:
    """Transitions of the domain's gaits and of rightings, in whole episodes numbered on after first's."""
    gaits, obeyed = search(domain, domain.forwards, seed)
    rightings = righting.search(domain, seed)
    righted = "no poses that right one that fell"
    if rightings:
        righted = f"poses that right {np.round([r for _, r in rightings], 2)} of all that fell"
    print(f"gaits found, which obey {np.round(obeyed, 3)} of 1, and {righted}", flush=True)
    walkers = Walkers(domain, copies, [seed, 2], first["episode"].max() + 1, gaits, [poses for poses, _ in rightings])
    rows, size = [], 0
    while size < transitions:
        rows.append(walkers.step())
        size += len(rows[-1]["obs"])
    return {name: np.concatenate([r[name] for r in rows])[:transitions].astype(first[name].dtype) for name in rows[0]}
