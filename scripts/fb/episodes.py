"""Episodes of copies of a domain, one after the other, as rows for a recording; and the exploration noise of
its agents."""

import numpy as np


class Episodes:
    """What the copies of sim record. Episodes are numbered from number on.

    They last steps control periods, or from shortest to steps, and the first ones
    any part of that, so that they do not all end together. Of later ones the part
    exploring begins anywhere.
    """

    def __init__(self, sim, number: int, steps: int, shortest: int | None = None, exploring: float = 0.0) -> None:
        self.sim, self.exploring = sim, exploring
        self.shortest, self.longest = shortest or steps, steps
        copies = len(sim.data)
        self.left = sim.rng.integers(1, steps + 1, copies)
        self.number, self.next = number + np.arange(copies, dtype=np.int32), number + copies

    def begin(self) -> np.ndarray:
        """Starts new episodes in the copies whose episodes have ended. Returns the indices of these copies."""
        sim, rng = self.sim, self.sim.rng
        ended = np.flatnonzero(self.left <= 0)
        for i in ended:
            sim.reset(i, exploring=rng.random() < self.exploring)
            self.left[i] = rng.integers(self.shortest, self.longest + 1)
            self.number[i], self.next = self.next, self.next + 1
        return ended

    def step(self, action: np.ndarray):
        """Simulates one control period with clipped actions [n, A]. Returns its rows and a mask [n] of their copies.

        If the physics fails, the copy has no row and its episode ends.
        """
        obs, action = self.sim.obs, np.clip(action, -1, 1).astype(np.float32)
        rows = {
            "obs": obs, "action": action, "next_obs": self.sim.step(action), "measure": self.sim.measure(),
            "episode": self.number
        }
        good = np.isfinite(rows["next_obs"]).all(1)
        self.left = np.where(good, self.left - 1, 0)
        return {name: column[good] for name, column in rows.items()}, good


class Noise:
    """Noise of copies' actions. White noise averages out before it moves a body, so part of it is correlated in
    time."""

    KEPT = (0, 0.8, 0.95)  # share of the noise that remains after a step
    SIZES = (0.05, 0.2, 0.5)

    def __init__(self, rng: np.random.Generator, copies: int, actions: int, sizes=SIZES) -> None:
        self.rng, self.sizes = rng, sizes
        self.size, self.keep, self.wander = np.zeros((copies, 1)), np.zeros((copies, 1)), np.zeros((copies, actions))

    def redraw(self, copies: int) -> None:
        """Draws a new size and a new correlation for these copies."""
        self.size[copies, 0] = self.rng.choice(self.sizes, len(copies))
        self.keep[copies, 0] = self.rng.choice(self.KEPT, len(copies))

    def step(self):
        """Returns the noise, [copies, A]."""
        self.wander = self.keep * self.wander + np.sqrt(1 - self.keep**2) * self.rng.normal(size=self.wander.shape)
        return self.size * self.wander
