"""Exploration by oscillation: gaits that a search over a few numbers finds in a minute, where learning takes hours.

All actuators swing at one frequency, each about its own level, with its own
amplitude and phase; nothing is fed back. Robots of several legs, whose joints
follow positions, walk with the best of it. Its transitions, at all sizes of the
strides and with noise, show an agent or a model what moving is like.
"""

import numpy as np

from fb import simulation

SETTLE = 50  # control periods before a gait is judged
EPISODE_STEPS = 200
EXPLORING = 0.7  # part of the episodes that begin anywhere


class Oscillation:
    """Actions level + swing sin(2 pi frequency t + phase); level, swing and phase are [A]."""

    def __init__(self, frequency, level, swing, phase):
        self.frequency, self.level, self.swing, self.phase = frequency, level, swing, phase

    def at(self, time, stride=1.0):
        """Actions at time, s, with amplitudes times stride."""
        return np.clip(self.level + stride * self.swing * np.sin(2 * np.pi * self.frequency * time + self.phase), -1, 1)

    @staticmethod
    def random(rng, actuators, limbs):
        """Limbs do the same at different times; opposite ones together, half of the time, as in a trot."""
        each = actuators // limbs
        level, swing, phase = rng.uniform(-0.6, 0.6, each), rng.uniform(0, 1.2, each), rng.uniform(-np.pi, np.pi, each)
        delay = rng.uniform(-np.pi, np.pi, (limbs, 1))
        if rng.random() < 0.5:
            delay = np.pi * (np.arange(limbs) % 2)[:, None]
        mirror = np.ones((limbs, each))
        mirror[:, 0] = rng.choice([-1, 1], limbs)  # the joint that moves a limb sideways
        return Oscillation(rng.uniform(0.8, 3.5), np.tile(level, limbs), (mirror * swing).ravel(), (phase + delay).ravel())

    def mutated(self, rng, size):
        def moved(x, by):
            return x + size * by * rng.normal(size=x.shape) * (rng.random(x.shape) < 0.4)

        return Oscillation(float(np.clip(self.frequency + size * 0.5 * rng.normal(), 0.5, 4)), moved(self.level, 0.3),
                           moved(self.swing, 0.3), moved(self.phase, 1.5))


def obedience(sim, gaits, command, steps):
    """How well each gait obeys command, [n], in one episode each."""
    domain, n, total = sim.domain, len(gaits), np.zeros(len(gaits))
    for i in range(n):
        sim.reset(i, standing=True)
    for step in range(SETTLE + steps):
        sim.step(np.stack([g.at(step * domain.period) for g in gaits]))
        if step >= SETTLE:
            total += domain.obeyed(sim.measure(), np.tile(command, (n, 1)))
    return np.nan_to_num(total / steps)


def search(domain, command, seed, first=96, rounds=16, kept=3, children=7, steps=70):
    """The gaits [kept] that obey command best, the best first, and how well they did.

    The best of many random ones are improved on, each by itself: of a parent and its
    children, judged anew together, the best goes on.
    """
    rng = np.random.default_rng(seed)
    sim = simulation.Simulation(domain, kept * (children + 1), [seed, 1])
    drawn, n = [Oscillation.random(rng, domain.model.nu, domain.limbs) for _ in range(first)], len(sim.data)
    values = np.concatenate([obedience(sim, drawn[i : i + n], command, steps) for i in range(0, first - first % n, n)])
    best = np.argsort(-values)[:kept]
    parents, values, size = [drawn[i] for i in best], values[best], np.full(kept, 0.5)
    for _ in range(rounds):
        tried = [[p, *(p.mutated(rng, s) for _ in range(children))] for p, s in zip(parents, size)]
        judged = obedience(sim, sum(tried, []), command, steps).reshape(kept, -1)
        best = judged.argmax(1)
        parents, values = [row[i] for row, i in zip(tried, best)], judged.max(1)
        size = np.where(best > 0, np.minimum(1.2 * size, 1), np.maximum(0.8 * size, 0.1))
    order = np.argsort(-values)
    return [parents[i] for i in order], values[order]


def explore(domain, first, transitions, seed, copies=32):
    """Transitions of the domain's gaits with strides of all sizes and with noise, in whole episodes numbered on after first's."""
    gaits, obeyed = search(domain, domain.forwards, seed)
    print(f"gaits found, which obey {np.round(obeyed, 3)} of 1", flush=True)
    sim = simulation.Simulation(domain, copies, [seed, 2])
    rng, episodes = sim.rng, first["episode"].max() + 1
    left, time, episode = np.zeros(copies, int), np.zeros(copies), np.zeros(copies, np.int32)
    gait, stride, noise, keep = [None] * copies, np.zeros(copies), np.zeros((copies, 1)), np.zeros((copies, 1))
    wander, rows = np.zeros((copies, domain.model.nu)), []
    while len(rows) * copies < transitions:
        for i in np.flatnonzero(left <= 0):
            sim.reset(i, exploring=rng.random() < EXPLORING)
            gait[i] = gaits[rng.integers(len(gaits))].mutated(rng, 0.1)
            gait[i].frequency *= rng.uniform(0.6, 1.1)
            stride[i], time[i] = rng.uniform(0, 1.1), rng.uniform(0, 2)
            noise[i, 0], keep[i, 0] = rng.choice([0.02, 0.1, 0.3]), rng.choice([0, 0.8, 0.95])
            left[i], episode[i], episodes = rng.integers(EPISODE_STEPS // 2, EPISODE_STEPS), episodes, episodes + 1
        wander = keep * wander + np.sqrt(1 - keep**2) * rng.normal(size=wander.shape)
        action = np.stack([g.at(t, s) for g, t, s in zip(gait, time, stride)]) + noise * wander
        obs, action = sim.obs, np.clip(action, -1, 1).astype(np.float32)
        rows.append((obs, action, sim.step(action), sim.measure(), episode.copy()))
        time += domain.period
        left = np.where(np.isfinite(sim.obs).all(1), left - 1, 0)
    columns = dict(zip(("obs", "action", "next_obs", "measure", "episode"), (np.concatenate(c)[:transitions] for c in zip(*rows))))
    good = np.isfinite(columns["next_obs"]).all(1)
    return {name: column[good].astype(first[name].dtype) for name, column in columns.items()}
