"""Copies of the Unitree Go2 for training: each another robot on another floor (go2_physics.py), stepped together.

The observation is what configs/go2-sim.yaml assembles from the bridge's channels (controller.Assembler): groups of
readings, and of past readings and actions, which are 0 before an episode begins.
"""

import dataclasses
import fnmatch

import go2_bridge
import go2_physics
import numpy as np
from go2_bridge import SCALE, STEPS
from go2_physics import JOINTS, KD, KP, STAND

CHANNELS = [name for name, _ in go2_bridge.MEASURED + go2_bridge.TRUTH]
UNITS = dict(go2_bridge.MEASURED + go2_bridge.TRUTH)
ACTION = "action"
# The groups of the observation with their terms: a pattern of channels, or ACTION, and its ages in
# ticks. An action of age 1 is that of the tick before.
GROUPS = {
    "base": [("base_velocity_*", (0,)), ("base_height", (0,))],
    "imu": [("gravity_*", (0,)), ("gyro_*", (0,))],
    "joints": [("position_*", (0,)), ("velocity_*", (0,))],
    "last_action": [(ACTION, (1,))],
    "history": [(ACTION, (2, 3)), ("position_*", (1, 2))],
}
INPUTS = {"f": ("base", "imu", "joints", "last_action"), "b": ("base", "imu"),
          "actor": ("imu", "joints", "last_action", "history")}
AGES = 4  # ticks that are kept


def matching(pattern: str) -> list[int]:
    return [i for i, name in enumerate(CHANNELS) if fnmatch.fnmatchcase(name, pattern)]


def elements() -> list[tuple[str, bool, int, int]]:
    """Returns for each element of the observation its group, whether it is of an action, its channel and its age."""
    return [(group, pattern == ACTION, i, age) for group, terms in GROUPS.items() for pattern, ages in terms
            for age in ages for i in (range(len(JOINTS)) if pattern == ACTION else matching(pattern))]


def groups() -> tuple[tuple[str, int], ...]:
    """Returns the names and sizes of the groups."""
    each = [group for group, *_ in elements()]
    return tuple((name, each.count(name)) for name in GROUPS)


def observation() -> list[dict[str, str]]:
    """Returns names and units of the observation's elements, as controller.Assembler names them."""
    named = []
    for group, of_action, i, age in elements():
        name, unit = (JOINTS[i], "") if of_action else (CHANNELS[i], UNITS[CHANNELS[i]])
        named.append({"name": f"{group}.{name}@-{age}" if age else name, "unit": unit})
    return named


def action() -> list[dict[str, str]]:
    """Returns names and units of the action's elements."""
    return [{"name": joint, "unit": "rad"} for joint in JOINTS]


class Copies:
    """n robots. obs [n, O] is what the model sees, base [n, 10] the truth (go2_bridge.base_state), actions [n,
    AGES, 12] what they did, the newest first."""

    def __init__(self, n: int, seed: int | list[int], tumbling: float = 0.0, push: float | None = None) -> None:
        """tumbling: share of the episodes that begin with a fall; push: m/s, instead of the robots' own."""
        self.rng, self.tumbling, self.push = np.random.default_rng(seed), tumbling, push
        self.robots = [go2_physics.Go2() for _ in range(n)]
        of_action = np.array([a for _, a, _, _ in elements()])
        self._index = np.array([i for _, _, i, _ in elements()])
        self._age = np.array([age - a for _, a, _, age in elements()])
        self._of_action = of_action
        self.readings = np.zeros((n, AGES, len(CHANNELS)))
        self.actions = np.zeros((n, AGES, len(JOINTS)))
        self.base, self.fallen = np.zeros((n, 10)), np.zeros(n, int)
        for i in range(n):
            self.begin(i)
        self.observe()

    def begin(self, i: int, seed: int | None = None) -> None:
        """Starts an episode of copy i: another robot stands, or tumbles."""
        robot, rng = self.robots[i], self.rng
        robot.reset(int(rng.integers(1 << 62)) if seed is None else seed)
        if self.push is not None:
            robot.robot = dataclasses.replace(robot.robot, push=self.push)
        if seed is None and rng.random() < self.tumbling:
            robot.data.qpos[2] += rng.uniform(0, 0.15)
            robot.data.qpos[3:7] = go2_physics.rotated(robot.data.qpos[3:7], rng.normal(0, 0.6, 3))
            robot.data.qvel[:6] = rng.normal(0, (0.5, 0.5, 0.3, 1, 1, 1))
        self.readings[i], self.actions[i], self.fallen[i] = 0, 0, 0
        self.read(i)

    def read(self, i: int) -> None:
        robot = self.robots[i]
        self.readings[i, 1:] = self.readings[i, :-1]
        self.readings[i, 0] = go2_bridge.observe(robot)
        self.base[i] = go2_bridge.base_state(robot)
        self.fallen[i] = self.fallen[i] + 1 if robot.fallen() else 0

    def observe(self) -> np.ndarray:
        """Returns the observations [n, O], float32."""
        readings = self.readings[:, self._age, np.where(self._of_action, 0, self._index)]
        actions = self.actions[:, self._age, np.where(self._of_action, self._index, 0)]
        self.obs = np.where(self._of_action, actions, readings).astype(np.float32)
        return self.obs

    def step(self, action: np.ndarray) -> None:
        """Simulates one control period with actions [n, 12] in [-1, 1]. fallen [n] counts the periods of a fall."""
        self.base = self.base.copy()  # the caller may still use it
        self.actions[:, 1:] = self.actions[:, :-1]
        self.actions[:, 0] = action
        for i, robot in enumerate(self.robots):
            robot.step(STAND + SCALE * action[i], kp=KP, kd=KD, steps=STEPS)
            self.read(i)
        self.observe()
