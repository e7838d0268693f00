"""Paths through a maze, and an expert that follows them to the highest reward of a task.

A policy has to learn a path and a gait. The expert has both: a map and a gait. It computes the
action of pi_z in any state, for any z. The actor imitates it in recorded states and in states
that its own actions reach. The latter is DAgger: Ross, Gordon & Bagnell, "A Reduction of Imitation
Learning and Structured Prediction to No-Regret Online Learning" (2011).
"""

import numpy as np

from fb import gait


def next_cells(free):
    """[from, to]: the next cell on a shortest path between cells, numbered in the order of np.argwhere(free)."""
    cells = [tuple(c) for c in np.argwhere(free)]
    number = {cell: i for i, cell in enumerate(cells)}
    following = np.full((len(cells), len(cells)), -1)
    for goal, cell in enumerate(cells):
        following[goal, goal] = goal
        reached = [cell]
        for i, j in reached:
            for neighbour in ((i - 1, j), (i, j - 1), (i + 1, j), (i, j + 1)):
                if neighbour in number and following[number[neighbour], goal] < 0:
                    following[number[neighbour], goal] = number[(i, j)]
                    reached.append(neighbour)
    return following


class Ways:
    """The shortest paths between the cells of a maze that are free [rows, columns].

    cells [c, 2] are their middles in the order of np.argwhere(free), and size is their width, both in m.
    """

    SLACK = 0.3  # m: distance to the goal below which the gait does not walk

    def __init__(self, free, cells, size) -> None:
        self.cells, self.size, self.following = cells, size, next_cells(free)

    def here(self, xy: np.ndarray):
        """Returns the cell [n] of xy [n, 2]."""
        return np.abs(xy[:, None] - self.cells).max(-1).argmin(1)

    def towards(self, xy: np.ndarray, goal, aside=0.0):
        """Direction [n], rad, and speed [n], 0 to 1, of the gait from xy [n, 2] to cell goal [n], by way of
        what is aside [n, 2] m of the cells' middles."""
        here = self.here(xy)
        way = self.cells[self.following[here, goal]] + aside - xy
        arriving = np.clip(np.hypot(*way.T) - self.SLACK, 0, 1)
        return np.arctan2(way[:, 1], way[:, 0]), np.where(here == goal, arriving, 1.0)


class Expert:
    """Walks to the cell with the highest value of the walk and the stay, and stays there.

    gamma is the discount of a control period, and steps how many of them a cell takes.
    """

    def __init__(self, ways, gamma: float, steps: int) -> None:
        self.ways, self.occupancy = ways, occupancy(ways.following, gamma, steps)

    def places(self, points: int = 3):
        """x and y [c, p, 2] of points x points points of each cell. The value of a cell is the mean over its points."""
        ways = self.ways
        offsets = (np.arange(points) + 0.5) / points * ways.size - ways.size / 2
        return ways.cells[:, None] + np.stack(np.meshgrid(offsets, offsets), -1).reshape(-1, 2)

    def goal(self, xy: np.ndarray, worth: np.ndarray):
        """Returns the goal cell [n] from xy [n, 2] for the rewards worth [n, c] of a step in each cell."""
        return np.einsum("ngk,nk->ng", self.occupancy[self.ways.here(xy)], worth).argmax(1)

    def act(self, obs: np.ndarray, worth: np.ndarray):
        """Actions [n, 8] for observations [n, 29]."""
        xy = obs[:, :2]
        return gait.torques(gait.TROT, obs, *self.ways.towards(xy, self.goal(xy, worth)))


def occupancy(following, gamma: float, steps: int):
    """[from, to, cell]: the discounted share of time in each cell on the way to a cell and after arrival."""
    if (following < 0).any():
        raise ValueError("the maze has cells with no way between them")
    cells = len(following)
    spent, kept = np.zeros((cells, cells, cells), np.float32), gamma**steps
    for start, goal in np.ndindex(cells, cells):
        cell, left = start, 1.0
        while cell != goal:
            spent[start, goal, cell] = left * (1 - kept)
            cell, left = following[cell, goal], left * kept
        spent[start, goal, goal] = left
    return spent
