"""Many copies of a domain, of dm_control or a maze, stepped together and without its wrappers.

The observations, rewards and resets are those of dmc_bridge.py and maze_bridge.py
(test_simulation.py and test_maze.py compare them); what is left out is the Python on
the way, which takes several times as long as dm_control's physics. Everything is an
array with one row per copy.
"""

import os

os.environ.setdefault("MUJOCO_GL", "disable")  # nothing is rendered

import dmc_bridge
import mujoco
import numpy as np
from dm_control.utils import rewards

from fb import gait, navigation

EPISODE_STEPS = 1000
FAILURES = (mujoco.mjtWarning.mjWARN_BADQPOS, mujoco.mjtWarning.mjWARN_BADQVEL, mujoco.mjtWarning.mjWARN_BADQACC)
_INF = float("inf")


def towards(value: np.ndarray, target: float | np.ndarray) -> np.ndarray:
    """Returns value / target in [0, 1]; target has either sign."""
    return np.clip(value / target, 0, 1)


def going(velocity: np.ndarray, speed: float | np.ndarray) -> np.ndarray:
    """Returns the share of speed [n] that velocity [n] reaches; for a speed of 0, how near velocity is to 0."""
    return np.where(speed, towards(velocity, speed + (speed == 0)), np.clip(1 - np.abs(velocity), 0, 1))


def at_least(value: np.ndarray, target: float | np.ndarray, at_margin: float) -> np.ndarray:
    """Returns 1 from the target upwards, falling linearly to at_margin at 0."""
    return rewards.tolerance(value, bounds=(target, _INF), margin=target, value_at_margin=at_margin, sigmoid="linear")


class Domain:
    """Observation and rewards of a domain.

    measure returns the few quantities that the rewards depend on, reward makes
    the rewards [n, task] from rows of them. base names the channels that tell how
    the robot as a whole stands and moves.
    """

    base = ()
    limbs = 1  # of the actuators' order
    forwards = None  # the command that gaits are searched for (fb/oscillations.py), if any
    takes_commands, has_expert = True, False

    def __init__(self, name: str) -> None:
        self.name = name
        self.period, tasks = dmc_bridge.DOMAINS[name]
        self.tasks = list(tasks)
        self.physics = tasks[self.tasks[0]][0]()
        self.read_model(self.physics.model.ptr)

    def read_model(self, model: mujoco.MjModel) -> None:
        self.model = model
        self.substeps = round(self.period / self.model.opt.timestep)
        self.low = self.model.actuator_ctrlrange[:, 0].copy()
        self.span = self.model.actuator_ctrlrange[:, 1] - self.low
        joints = range(self.model.njnt)
        self.hinges = [j for j in joints if self.model.jnt_type[j] == mujoco.mjtJoint.mjJNT_HINGE]
        self.limited = [j for j in self.hinges if self.model.jnt_limited[j]]
        self.hinge_qpos = self.model.jnt_qposadr[self.hinges]
        self.hinge_qvel = self.model.jnt_dofadr[self.hinges]
        self.limited_qpos = self.model.jnt_qposadr[self.limited]
        self.lower, self.upper = self.model.jnt_range[self.limited].T

    def channel_names(self) -> tuple[list[str], list[str]]:
        """Returns the names of the observation's and the action's channels, as in the bridge."""
        spec = dmc_bridge.Simulator(self.name, self.tasks[0]).spec
        return [c.name for c in spec.obs], [c.name for c in spec.action]

    def sensor(self, *kinds: mujoco.mjtSensor) -> np.ndarray:
        """Returns the addresses in sensordata of the sensors of these types, in the model's order."""
        m = self.model
        ids = [i for i in range(m.nsensor) if mujoco.mjtSensor(m.sensor_type[i]) in kinds]
        return np.concatenate([np.arange(m.sensor_adr[i], m.sensor_adr[i] + m.sensor_dim[i]) for i in ids])

    def named_sensor(self, name: str) -> np.ndarray:
        i = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_SENSOR, name)
        return self.model.sensor_adr[i] + np.arange(self.model.sensor_dim[i])

    def body(self, name: str) -> int:
        return mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_BODY, name)

    def commands(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws n commands for the base, [n, c] in [-1, 1] (fb/commands.py)."""
        raise NotImplementedError(f"{self.name} takes no commands")

    def obeyed(self, measure: np.ndarray, command: np.ndarray) -> np.ndarray:
        """Returns how well states with measure [n, m] follow command [n, c], [n] in [0, 1]."""
        raise NotImplementedError(f"{self.name} takes no commands")

    def stand(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Sets an upright resting state, from which the search scores gaits."""
        raise NotImplementedError(f"{self.name} has no gaits")

    def uprightness(self, measure: np.ndarray) -> np.ndarray:
        """Returns the cosine of the tilt [n] of states with measure [n, m] (fb/righting.py)."""
        raise NotImplementedError(f"{self.name} is not to be righted")

    def expert(self, gamma: float) -> navigation.Expert:
        """Returns an expert for any z, for the discount gamma (fb/navigation.py)."""
        raise NotImplementedError(f"{self.name} has no expert")

    def begin_task(self, task: int, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Starts an episode of the task with that index. In most domains all tasks have the same start."""
        self.begin(data, rng)

    def advance(self, data: mujoco.MjData) -> None:
        """Simulates one control period."""
        # In the order of dm_control, so that the derived quantities belong to the state.
        mujoco.mj_step2(self.model, data)
        if self.substeps > 1:
            mujoco.mj_step(self.model, data, self.substeps - 1)
        mujoco.mj_step1(self.model, data)

    def randomise_joints(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        """Draws joints uniformly within their limits."""
        data.qpos[self.limited_qpos] = rng.uniform(self.lower, self.upper)


class Cheetah(Domain):
    base = ("position.0", "position.1", "velocity.0", "velocity.1", "velocity.2")

    def __init__(self) -> None:
        super().__init__("cheetah")
        self.velocity = self.named_sensor("torso_subtreelinvel")[0]

    def observe(self, data: mujoco.MjData) -> np.ndarray:
        return np.concatenate([data.qpos[1:], data.qvel])

    def measure(self, data: mujoco.MjData) -> list[float] | np.ndarray:
        return [data.sensordata[self.velocity]]

    def reward(self, m: np.ndarray) -> np.ndarray:
        speed = m[:, 0]
        return np.stack(
            [at_least(speed, 2, 0), at_least(speed, 10, 0), at_least(-speed, 2, 0), at_least(-speed, 10, 0)], -1
        )

    def commands(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """To reach a speed, forwards or backwards, in units of 10 m/s."""
        return rng.choice([-1, 1], (n, 1)) * rng.uniform(0.05, 1, (n, 1))

    def obeyed(self, measure: np.ndarray, command: np.ndarray) -> np.ndarray:
        return towards(measure[:, 0], 10 * command[:, 0])

    def begin(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.randomise_joints(data, rng)
        mujoco.mj_step(self.model, data, 200)

    def explore(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.randomise_joints(data, rng)
        data.qpos[1] = rng.uniform(-0.2, 0.7)
        data.qpos[2] = rng.uniform(-np.pi, np.pi) if rng.random() < 0.5 else rng.normal(0, 0.3)
        data.qvel[0] = rng.normal(0, 1.5)
        data.qvel[1:3] = rng.normal(0, (0.5, 1))
        data.qvel[3:] = rng.normal(0, 5, self.model.nv - 3)


class Walker(Domain):
    base = ("orientations.0", "orientations.1", "height", "velocity.0", "velocity.1", "velocity.2")

    def __init__(self) -> None:
        super().__init__("walker")
        self.velocity = self.named_sensor("torso_subtreelinvel")[0]
        self.torso = self.body("torso")

    def observe(self, data: mujoco.MjData) -> np.ndarray:
        return np.concatenate([data.xmat[1:, [0, 2]].ravel(), data.xpos[self.torso, 2:], data.qvel])

    def measure(self, data: mujoco.MjData) -> list[float] | np.ndarray:
        return [data.xpos[self.torso, 2], data.xmat[self.torso, 8], data.sensordata[self.velocity],
                data.subtree_angmom[self.torso, 1]]

    def reward(self, m: np.ndarray) -> np.ndarray:
        velocity, spin, stand = m[:, 2], m[:, 3], self.stands(m)
        return np.stack([
            stand, stand * (5 * self.move(velocity, 1) + 1) / 6, stand * (5 * self.move(velocity, 8) + 1) / 6, stand *
            (5 * at_least(spin, 5, 0) + 1) / 6
        ], -1)

    def commands(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """To stand upright and to reach a speed, in units of 8 m/s, or to turn over, in units of 8 kg m²/s, or
        neither."""
        turns, moves = rng.choice([(0, 0), (0, 1), (0, 1), (0, 1), (1, 0)], n).T
        sign = rng.choice([-1, 1], n)
        return np.stack([moves * sign * rng.uniform(0.06, 1, n), turns * sign * rng.uniform(0.4, 1, n)], -1)

    def obeyed(self, measure: np.ndarray, command: np.ndarray) -> np.ndarray:
        velocity, spin, (speed, rate) = measure[:, 2], measure[:, 3], 8 * command.T
        moves = np.where(rate, towards(spin, rate + (rate == 0)), going(velocity, speed))
        return self.stands(measure) * (1 + 5 * moves) / 6

    def stands(self, measure: np.ndarray) -> np.ndarray:
        height, upright = measure[:, 0], measure[:, 1]
        standing = rewards.tolerance(height, bounds=(1.2, _INF), margin=0.6)
        return (3 * standing + (1 + upright) / 2) / 4

    def move(self, velocity: np.ndarray, speed: float | np.ndarray) -> np.ndarray:
        return rewards.tolerance(velocity, bounds=(speed, _INF), margin=speed / 2, value_at_margin=0.5,
                                 sigmoid="linear")

    def begin(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.randomise_joints(data, rng)
        data.qpos[2] = rng.uniform(-np.pi, np.pi)

    def explore(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.begin(data, rng)
        if rng.random() < 0.5:
            data.qpos[2] = rng.normal(0, 0.3)
        data.qpos[0] = rng.uniform(-0.2, 0.4)
        data.qvel[0] = rng.normal(0, 1)
        data.qvel[1:3] = rng.normal(0, (0.5, 2))
        data.qvel[3:] = rng.normal(0, 4, self.model.nv - 3)


class Quadruped(Domain):
    base = ("torso_velocity.0", "torso_velocity.1", "torso_velocity.2", "torso_upright")
    limbs, forwards = 4, (1, 0)

    def __init__(self) -> None:
        super().__init__("quadruped")
        kind = mujoco.mjtSensor
        self.imu = self.sensor(kind.mjSENS_GYRO, kind.mjSENS_ACCELEROMETER)
        self.force_torque = self.sensor(kind.mjSENS_FORCE, kind.mjSENS_TORQUE)
        self.velocity = self.named_sensor("velocimeter")
        self.centre = self.named_sensor("center_of_mass")
        self.torso = self.body("torso")

    def observe(self, data: mujoco.MjData) -> np.ndarray:
        sensed = data.sensordata
        return np.concatenate([data.qpos[self.hinge_qpos], data.qvel[self.hinge_qvel], data.act, sensed[self.velocity],
                               data.xmat[self.torso, 8:], sensed[self.imu], np.arcsinh(sensed[self.force_torque])])

    def measure(self, data: mujoco.MjData) -> list[float] | np.ndarray:
        return [data.xmat[self.torso, 8], data.sensordata[self.velocity[0]], data.sensordata[self.centre[2]]]

    def reward(self, m: np.ndarray) -> np.ndarray:
        tilt, velocity, height = m.T
        upright = (1 + tilt) / 2
        return np.stack([upright, upright * at_least(velocity, 0.5, 0.5), upright * at_least(velocity, 5, 0.5),
                         upright * at_least(height, 1, 0.5)], -1)

    def uprightness(self, measure: np.ndarray) -> np.ndarray:
        return measure[:, 0]

    def stand(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        heading = rng.uniform(-np.pi, np.pi)
        self.place(data, np.array([np.cos(heading / 2), 0, 0, np.sin(heading / 2)]))

    def commands(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """To stand upright and to reach a speed, in units of 5 m/s, or to raise its centre to 1 m, or neither."""
        raises, moves = rng.choice([(0, 0), (0, 1), (0, 1), (1, 0)], n).T
        return np.stack([moves * rng.uniform(0.1, 1, n), raises], -1)

    def obeyed(self, measure: np.ndarray, command: np.ndarray) -> np.ndarray:
        tilt, velocity, height = measure.T
        speed, raises = 5 * command[:, 0], command[:, 1]
        return (1 + tilt) / 2 * (1 + np.where(raises, np.clip(height, 0, 1), going(velocity, speed))) / 2

    def begin(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.place(data, rng.normal(size=4))

    def explore(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.randomise_joints(data, rng)
        flat = rng.random() < 0.7
        heading = rng.uniform(-np.pi, np.pi)
        upright = np.array([np.cos(heading / 2), 0, 0, np.sin(heading / 2)]) + rng.normal(0, 0.1, 4)
        self.place(data, upright if flat else rng.normal(size=4))
        data.qvel[:3] = rng.normal(0, (1, 1, 0.5))
        data.qvel[3:6] = rng.normal(0, 1.5, 3)
        data.qvel[6:] = rng.normal(0, 2, self.model.nv - 6)

    def place(self, data: mujoco.MjData, orientation: np.ndarray) -> None:
        """Just above the ground: dm_control's search, in whole centimetres from the floor."""
        data.qpos[:3] = 0
        data.qpos[3:7] = orientation / np.linalg.norm(orientation)
        while True:
            mujoco.mj_forward(self.model, data)
            if data.ncon == 0 or data.qpos[2] > 2:  # legs may touch each other at any height
                return
            data.qpos[2] += 0.01


class AntMaze(Domain):
    """ogbench's ant in the medium maze. Every task has its own start; begin takes any free cell."""

    base = ("x", "y")
    takes_commands, has_expert = False, True

    def __init__(self) -> None:
        import maze_bridge  # needs ogbench; the other domains do not
        self.name, self.period, self.maze = "antmaze", maze_bridge.PERIOD, maze_bridge
        self.env = maze_bridge.environment()
        self.tasks = maze_bridge.tasks(self.env)
        self.goals = np.array([info["goal_xy"] for info in self.env.task_infos])
        self.starts = np.array([info["init_xy"] for info in self.env.task_infos])
        self.free = np.array([self.env.ij_to_xy(cell) for cell in np.argwhere(self.env.maze_map == 0)])
        self.read_model(self.env.model)

    def channel_names(self) -> tuple[list[str], list[str]]:
        return list(self.maze.OBSERVATION), list(self.maze.ACTION)

    def observe(self, data: mujoco.MjData) -> np.ndarray:
        return np.concatenate([data.qpos, data.qvel])

    def measure(self, data: mujoco.MjData) -> list[float] | np.ndarray:
        return data.qpos[:2].copy()

    def reward(self, m: np.ndarray) -> np.ndarray:
        return np.stack([self.maze.in_cell(m, goal) for goal in self.goals], -1)

    def ways(self) -> navigation.Ways:
        return navigation.Ways(self.env.maze_map == 0, self.free, self.maze.CELL)

    def expert(self, gamma: float) -> navigation.Expert:
        return navigation.Expert(self.ways(), gamma, round(self.maze.CELL / (gait.SPEED * self.period)))

    def begin(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.place(data, rng, self.free[rng.integers(len(self.free))])

    def begin_task(self, task: int, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.place(data, rng, self.starts[task])

    def place(self, data: mujoco.MjData, rng: np.random.Generator, centre: np.ndarray) -> None:
        """Near the middle of a cell, as ogbench does it."""
        data.qpos += rng.uniform(-0.1, 0.1, self.model.nq)
        data.qvel += 0.1 * rng.normal(size=self.model.nv)
        data.qpos[:2] = centre + rng.uniform(-1, 1, 2)

    def explore(self, data: mujoco.MjData, rng: np.random.Generator) -> None:
        self.begin(data, rng)
        self.randomise_joints(data, rng)
        heading = rng.normal(0, 0.4)
        data.qpos[3:7] += [np.cos(heading / 2) - 1, 0, 0, np.sin(heading / 2)]
        data.qvel[:] = rng.normal(0, 0.5, self.model.nv)

    def advance(self, data: mujoco.MjData) -> None:
        # The observation is the state alone, and Runge-Kutta steps cannot be halved.
        mujoco.mj_step(self.model, data, self.substeps)


DOMAINS = {"cheetah": Cheetah, "walker": Walker, "quadruped": Quadruped, "antmaze": AntMaze}


class Simulation:
    """n copies of a domain. Rows of every array are copies.

    With tasks [n], each copy begins like the task with that index.
    """

    def __init__(self, domain: Domain, n: int, seed: int, tasks: np.ndarray | None = None) -> None:
        self.domain, self.tasks = domain, tasks
        self.rng = np.random.default_rng(seed)
        self.data = [mujoco.MjData(domain.model) for _ in range(n)]
        self.obs = np.stack([self.reset(i) for i in range(n)])

    def reset(self, i: int, exploring: bool = False, standing: bool = False) -> np.ndarray:
        """Sets copy i to the start of an episode, to a random state, or upright. Returns its observation."""
        model, data = self.domain.model, self.data[i]
        while True:
            mujoco.mj_resetData(model, data)
            self.place(i, exploring, standing)
            mujoco.mj_forward(model, data)
            obs = self.domain.observe(data)
            if np.isfinite(obs).all():
                break
        if hasattr(self, "obs"):
            self.obs = self.obs.copy()  # the caller of step may still use it
            self.obs[i] = obs
        return obs

    def place(self, i: int, exploring: bool, standing: bool) -> None:
        if standing:
            self.domain.stand(self.data[i], self.rng)
        elif exploring:
            self.domain.explore(self.data[i], self.rng)
        elif self.tasks is None:
            self.domain.begin(self.data[i], self.rng)
        else:
            self.domain.begin_task(self.tasks[i], self.data[i], self.rng)

    STATE = mujoco.mjtState.mjSTATE_INTEGRATION

    def states(self) -> np.ndarray:
        """Returns the states of all copies for restore, [n, s], without obs."""
        model = self.domain.model
        states = np.empty((len(self.data), mujoco.mj_stateSize(model, self.STATE)))
        for row, data in zip(states, self.data):
            mujoco.mj_getState(model, data, row, self.STATE)
        return states

    def restore(self, states: np.ndarray) -> None:
        """Sets the states of all copies as after a step, except obs and accelerations."""
        model = self.domain.model
        for row, data in zip(states, self.data, strict=True):
            mujoco.mj_resetData(model, data)
            mujoco.mj_setState(model, data, row, self.STATE)
            mujoco.mj_step1(model, data)

    def step(self, action: np.ndarray) -> np.ndarray:
        """Simulates one control period with actions [n, A] in [-1, 1]. Returns obs [n, O], NaN if the physics
        failed."""
        domain = self.domain
        control = domain.low + (action.astype(np.float64) + 1) / 2 * domain.span
        self.obs = np.empty_like(self.obs)
        for i, data in enumerate(self.data):
            data.ctrl[:] = control[i]
            domain.advance(data)
            # MuJoCo resets a failed state, which is not an effect of the action.
            failed = any(data.warning[kind].number for kind in FAILURES)
            self.obs[i] = np.nan if failed else domain.observe(data)
        return self.obs

    def measure(self) -> np.ndarray:
        return np.array([self.domain.measure(data) for data in self.data])
