"""Exploration by righting: how a robot that lies on its back gets up, which a search finds in a few minutes.

A few poses are taken one after the other, each for the same time, and nothing is
fed back: a resting robot on its back stays in the same state. The cross-entropy
method (Rubinstein and Kroese, 2004) looks for the poses. An agent that has to find
them by chance hardly ever does, and most episodes that begin at any orientation
end up on the back.
"""

import numpy as np

from fb import simulation

POSES = 3
HOLD = 20  # control periods for each pose
REST = 40  # control periods of rest before the end is judged
SETTLE = 75  # control periods in which a robot that has fallen comes to rest
UPRIGHT = 0.8  # cosine of the tilt
POPULATION, BEST, GENERATIONS, TRIES = 48, 8, 40, 8
FALLS = 40 * POPULATION  # episodes in which robots that come to rest on their backs are looked for
ENOUGH = 0.7  # part of the states that poses have to get up from


def fallen_states(sim: simulation.Simulation, n: int) -> np.ndarray:
    """States [n, s] of robots that fell, as episodes begin, and came to rest on their backs; all there are, if
    fewer do in FALLS episodes."""
    found, falls = [], 0
    while len(found) < n and falls < FALLS:
        falls += len(sim.data)
        for i in range(len(sim.data)):
            sim.reset(i)
        for _ in range(SETTLE):
            sim.step(np.zeros((len(sim.data), sim.domain.model.nu)))
        found.extend(sim.states()[sim.domain.uprightness(sim.measure()) < -UPRIGHT])
    return np.array(found[:n])


def outcome(sim: simulation.Simulation, poses, states: np.ndarray):
    """How upright each copy is after its poses [n, POSES, A] from its state, and how upright it was at best,
    [n] each."""
    sim.restore(states)
    best, rest = np.full(len(states), -1.0), np.zeros_like(poses[:, 0])
    for step in range(POSES * HOLD + REST):
        obs = sim.step(poses[:, step // HOLD] if step < POSES * HOLD else rest)
        # After failed physics MuJoCo resets to an upright state, which is not an effect of the
        # poses.
        now = np.where(np.isfinite(obs).all(1), sim.domain.uprightness(sim.measure()), -1.0)
        best = np.maximum(best, now)
    return now, best


def attempt(sim: simulation.Simulation, states: np.ndarray):
    """What one search comes to, poses [POSES, A], which right the robot or do not."""
    rng, shape = sim.rng, (POSES, sim.domain.model.nu)
    mean, std, favourite = np.zeros(shape), np.full(shape, 0.8), np.zeros(shape)
    for _ in range(GENERATIONS):
        tried = np.clip(mean + std * rng.normal(size=(POPULATION, *shape)), -1, 1)
        tried[0] = favourite  # it is judged again, from another state
        end, best = outcome(sim, tried, states[[rng.integers(len(states))] * POPULATION])
        elite = tried[np.argsort(-(end + best / 2))[:BEST]]
        favourite = elite[0]
        mean = 0.2 * mean + 0.8 * elite.mean(0)
        std = 0.2 * std + 0.8 * elite.std(0) + 0.03
    return favourite


def search(domain: simulation.Domain, seed: int, kept: int = 2):
    """Up to kept sequences of poses [POSES, A], and the part of fallen robots that each gets up."""
    sim = simulation.Simulation(domain, POPULATION, [seed, 3])
    states, found = fallen_states(sim, POPULATION), []
    if not len(states):
        print(f"righting: of {FALLS} robots none came to rest on its back: nothing to learn from")
        return []
    states = states[np.arange(POPULATION) % len(states)]
    for _ in range(TRIES):
        poses = attempt(sim, states)
        end, _ = outcome(sim, np.stack([poses] * POPULATION), states)
        righted = np.mean(end > UPRIGHT)
        if righted >= ENOUGH:
            found.append((poses, righted))
        if len(found) == kept:
            break
    return found
