"""Serves dm_control's walker, cheetah or quadruped over optibfm's bridge.

    python3 dmc_bridge.py cheetah walk --listen unix:/tmp/cheetah.sock

The tasks are those of the ExORL benchmark (Yarats et al., 2022). Where
dm_control lacks one it is defined here: a speed, a spin or a height v is
rewarded by dm_control's `tolerance`, which rises linearly up to v.

The observation is dm_control's, flattened in its order. Actions are in [-1, 1]
and scaled to the actuators' range, which differs from that in the quadruped
only. Episodes have 1,000 steps (those with a target that drifts 30,000), which the client
counts: nothing ends them here. Free mode has no resets: every 20 s a quadruped is dropped with a
random orientation, and a cheetah on its nose or back is put on its feet.
A seed gives the same episode every time, and the same as dm_control's own
`random` of that number.

dm_control makes the models, the episodes' beginnings and the tasks. Its way through
a step takes several times as long as the physics: steps are made without it, and
what observations and rewards look up by name is found once. They are the same bit
for bit (test_dmc_bridge.py).
"""

import argparse
import functools
import logging
import math
import os

os.environ.setdefault("MUJOCO_GL", "disable")  # mujoco_view renders in another process

import install_hint
import optibfm_bridge as bridge

try:
    import mujoco
    import mujoco_view
    import numpy as np
    from dm_control.rl import control
    from dm_control.suite import cheetah, common, quadruped, walker
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e)

logging.getLogger("absl").setLevel(logging.ERROR)  # MuJoCo's remarks on dm_control's models

_STEPS, _DRIFTING_STEPS = 1000, 30_000
_INF = float("inf")


def _at_least(value, target, at_margin, margin=None):
    """1 from the target upwards, falling linearly to at_margin at a margin below, which is the target if it is
    left out.

    That is dm_control's tolerance(sigmoid="linear") of one number.
    """
    if value >= target:
        return 1.0
    fall = (target - value) / (margin or target) * (1 - at_margin)
    return float(1 - fall) if abs(fall) < 1 else 0.0


class _LookUp:
    """Of a Physics: numbers of what it has by name, found once."""

    def sensor(self, name):
        return int(self.model.sensor_adr[self.model.name2id(name, "sensor")])

    @functools.cached_property
    def torso(self):
        return self.model.name2id("torso", "body")


class CheetahPhysics(_LookUp, cheetah.Physics):
    @functools.cached_property
    def _speed(self):
        return self.sensor("torso_subtreelinvel")

    def speed(self) -> float:
        return self.data.sensordata[self._speed]


class WalkerPhysics(_LookUp, walker.Physics):
    _XX_XZ = (0, 2)

    @functools.cached_property
    def _velocity(self):
        return self.sensor("torso_subtreelinvel")

    def torso_upright(self) -> float:
        return self.data.xmat[self.torso, 8]

    def torso_height(self) -> float:
        return self.data.xpos[self.torso, 2]

    def horizontal_velocity(self) -> float:
        return self.data.sensordata[self._velocity]

    def orientations(self) -> np.ndarray:
        return self.data.xmat[1:, self._XX_XZ].ravel()

    def spin(self) -> float:
        """Angular momentum of the whole about y, kg m²/s."""
        return self.data.subtree_angmom[self.torso, 1]


class QuadrupedPhysics(_LookUp, quadruped.Physics):
    @functools.cached_property
    def _hinges(self):
        return np.flatnonzero(self.model.jnt_type == mujoco.mjtJoint.mjJNT_HINGE)

    @functools.cached_property
    def _angles(self):
        return self.model.jnt_qposadr[self._hinges]

    @functools.cached_property
    def _velocities(self):
        return self.model.jnt_dofadr[self._hinges]

    @functools.cached_property
    def _imu(self):
        return self._sensors(mujoco.mjtSensor.mjSENS_GYRO, mujoco.mjtSensor.mjSENS_ACCELEROMETER)

    @functools.cached_property
    def _force_torque(self):
        return self._sensors(mujoco.mjtSensor.mjSENS_FORCE, mujoco.mjtSensor.mjSENS_TORQUE)

    @functools.cached_property
    def _velocimeter(self):
        return self.sensor("velocimeter")

    @functools.cached_property
    def _centre(self):
        return self.sensor("center_of_mass")

    def _sensors(self, *kinds):
        """Addresses of the sensors of these types, in the model's order."""
        found = np.flatnonzero(np.isin(self.model.sensor_type, kinds))
        return np.concatenate([self.model.sensor_adr[i] + np.arange(self.model.sensor_dim[i]) for i in found])

    def torso_upright(self) -> float:
        return self.data.xmat[self.torso, 8]

    def torso_velocity(self) -> np.ndarray:
        return self.data.sensordata[self._velocimeter : self._velocimeter + 3].copy()

    def egocentric_state(self) -> np.ndarray:
        data = self.data
        return np.concatenate([data.qpos[self._angles], data.qvel[self._velocities], data.act])

    def imu(self) -> np.ndarray:
        return self.data.sensordata[self._imu]

    def force_torque(self) -> np.ndarray:
        return np.arcsinh(self.data.sensordata[self._force_torque])

    def height(self) -> float:
        """Of the centre of mass, m."""
        return self.data.sensordata[self._centre + 2]


class CheetahSpeed(cheetah.Cheetah):
    """Runs forwards or backwards at a speed in m/s, positive forwards."""

    def __init__(self, speed: float) -> None:
        self._direction, self._target = math.copysign(1, speed), abs(speed)
        super().__init__()

    def get_reward(self, physics) -> float:
        return _at_least(self._direction * physics.speed(), self._target, 0)


class WalkerStand(walker.PlanarWalker):
    """Stands tall: dm_control's stand."""

    _HEIGHT, _MARGIN = 1.2, 0.6
    _SCALE = np.sqrt(-2 * np.log(0.1))  # the reward is 0.1 at the margin

    def __init__(self) -> None:
        super().__init__(move_speed=0)

    def get_reward(self, physics) -> float:
        return (3 * self._standing(physics.torso_height()) + (1 + physics.torso_upright()) / 2) / 4

    def _standing(self, height):
        if height >= self._HEIGHT:
            return 1.0
        return np.exp(-0.5 * ((self._HEIGHT - height) / self._MARGIN * self._SCALE) ** 2)


class WalkerMove(WalkerStand):
    """Moves at a speed in m/s, standing tall: dm_control's walk and run."""

    def __init__(self, speed: float) -> None:
        super().__init__()
        self._speed = speed

    def get_reward(self, physics) -> float:
        move = _at_least(physics.horizontal_velocity(), self._speed, 0.5, margin=self._speed / 2)
        return super().get_reward(physics) * (5 * move + 1) / 6


class WalkerFlip(WalkerStand):
    """Somersaults: angular momentum about y of 5 kg m²/s, while standing tall."""

    def get_reward(self, physics) -> float:
        return super().get_reward(physics) * (5 * _at_least(physics.spin(), 5, 0) + 1) / 6


class WalkerTracking(walker.PlanarWalker):
    """Moves at a speed that changes: after 10,000 steps it goes from the first to the last in 10,000 more, in m/s."""

    _BEGIN, _CHANGE = 10_000, 10_000

    def __init__(self, first: float, last: float) -> None:
        self._first, self._last, self._steps = first, last, 0
        super().__init__(move_speed=0)

    def initialize_episode(self, physics) -> None:
        self._steps = 0
        super().initialize_episode(physics)

    def before_step(self, action: tuple[float, ...], physics) -> None:
        self._steps += 1
        super().before_step(action, physics)

    def target(self) -> float:
        return self._first + (self._last - self._first) * min(max((self._steps - self._BEGIN) / self._CHANGE, 0), 1)

    def get_reward(self, physics) -> float:
        # 1 at the target, falling linearly to 0.5 at 2 m/s beside it and 0 at 4.
        return _at_least(-abs(physics.horizontal_velocity() - self.target()), 0, 0.5, margin=2)


class WalkerUpright(WalkerTracking):
    """Moves like WalkerTracking, upright: a robot that lies still earns little."""

    def get_reward(self, physics) -> float:
        return walker.PlanarWalker.get_reward(self, physics) * super().get_reward(physics)


class QuadrupedMove(quadruped.Move):
    """Moves forwards at a speed in m/s, upright: dm_control's walk and run."""

    def get_reward(self, physics) -> float:
        move = _at_least(physics.torso_velocity()[0], self._desired_speed, 0.5)
        return _at_least(physics.torso_upright(), 1, 0, margin=2) * move


class QuadrupedStand(quadruped.Move):
    """Is upright."""

    def __init__(self) -> None:
        super().__init__(desired_speed=0)

    def get_reward(self, physics) -> float:
        # (1 + cos of the tilt) / 2, which is dm_control's upright reward.
        return (1 + float(physics.torso_upright())) / 2


class QuadrupedJump(QuadrupedStand):
    """Has its centre of mass 1 m above the ground, upright."""

    def get_reward(self, physics) -> float:
        return super().get_reward(physics) * _at_least(physics.height(), 1, 0.5)


def _cheetah():
    return CheetahPhysics.from_xml_string(*cheetah.get_model_and_assets())


def _walker():
    return WalkerPhysics.from_xml_string(*walker.get_model_and_assets())


def _quadruped(speed=0.5):
    # The floor reaches as far as dm_control's 20 s at that speed.
    return QuadrupedPhysics.from_xml_string(quadruped.make_model(floor_size=20 * speed), common.ASSETS)


# Per domain the control period in seconds and the tasks, each with what makes
# its physics and what makes its dm_control Task.
DOMAINS = {
    "cheetah": (0.01, {
        "walk": (_cheetah, lambda: CheetahSpeed(2)),
        "run": (_cheetah, lambda: CheetahSpeed(10)),
        "walk_backward": (_cheetah, lambda: CheetahSpeed(-2)),
        "run_backward": (_cheetah, lambda: CheetahSpeed(-10)),
    }),
    "walker": (0.025, {
        "stand": (_walker, WalkerStand),
        "walk": (_walker, lambda: WalkerMove(1)),
        "run": (_walker, lambda: WalkerMove(8)),
        "flip": (_walker, WalkerFlip),
    }),
    "quadruped": (0.02, {
        "stand": (_quadruped, QuadrupedStand),
        "walk": (_quadruped, lambda: QuadrupedMove(desired_speed=0.5)),
        "run": (lambda: _quadruped(5), lambda: QuadrupedMove(desired_speed=5)),
        "jump": (_quadruped, QuadrupedJump),
    }),
}

# Tasks whose reward changes in the course of an episode of _DRIFTING_STEPS. The reward of a state
# is not unique, so labelled states give no z.
DRIFTING = {
    "walker": {
        "speedup": (_walker, lambda: WalkerTracking(0, 5)),
        "slowdown": (_walker, lambda: WalkerTracking(5, 0)),
        "speedup_upright": (_walker, lambda: WalkerUpright(0, 2.5)),
        "slowdown_upright": (_walker, lambda: WalkerUpright(2.5, 0)),
    },
}


# What the pictures show: the torso, from the side.
CAMERAS = {"cheetah": "side", "walker": "side",
           "quadruped": {"trackbodyid": 1, "distance": 5, "azimuth": 120, "elevation": -20}}
# The elements of qpos that are a position on the floor. Its tiles repeat every 2 m, and it ends
# 2 m behind the start of an episode.
PLACES = {"cheetah": [0], "walker": [1], "quadruped": [0, 1]}
_FALLEN_S = 3  # s on its nose or back after which a cheetah is put on its feet in free mode: it seldom gets up
_FALLEN_RAD = 0.7  # pitch of a fallen cheetah; it runs at about 0
_DROP_S = 20  # s between drops of a quadruped in free mode: one that stands never learns to get up
_CLEAR = 1.1  # m of height at which no pose of the quadruped touches the floor


class Simulator:
    """A dm_control environment as a robot of the bridge."""

    free = False  # the server sets it

    def __init__(self, domain: str, task: str) -> None:
        self._domain = domain
        self._period, tasks = DOMAINS[domain]
        self._tasks = tasks | DRIFTING.get(domain, {})
        self.tasks = list(self._tasks)
        self.select(task)

    def select(self, task: str) -> None:
        if task not in self._tasks:
            raise ValueError(f"{self._domain} has no task {task!r}: choose one of {', '.join(self._tasks)}")
        physics, make_task = self._tasks[task]
        self.task = task
        self.episode_steps = _DRIFTING_STEPS if task in DRIFTING.get(self._domain, {}) else _STEPS
        self._env = control.Environment(physics(), make_task(), control_timestep=self._period)
        self._physics, self._task = self._env.physics, self._env.task
        self._model, self._data = self._physics.model.ptr, self._physics.data.ptr
        self._view = mujoco_view.View(self._model, CAMERAS[self._domain])
        self._substeps = control.compute_n_steps(self._period, self._physics.timestep())
        self._low = self._env.action_spec().minimum
        self._span = self._env.action_spec().maximum - self._low
        self.reset(0)
        self.spec = bridge.Spec(name=f"dm_control {self._domain}", period=self._period,
                                obs=[bridge.Channel(n) for n in self._names()], action=self._action_channels())

    def _names(self):
        for group, value in self._task.get_observation(self._physics).items():
            if np.ndim(value) == 0:
                yield group
            else:
                yield from (f"{group}.{i}" for i in range(np.size(value)))

    def _action_channels(self):
        model = self._env.physics.model
        return [bridge.Channel(model.id2name(i, "actuator"), min=-1, max=1) for i in range(model.nu)]

    def reset(self, seed: int) -> None:
        # Below 2^32 this is what dm_control makes of the same number.
        self._env.task.random.seed(seed if seed < 1 << 32 else [seed & 0xFFFFFFFF, seed >> 32])
        self._env.reset()
        self._since_fall = self._since_drop = 0  # steps
        self._troubles = self._data.warning.number.tobytes()
        self.halt()  # no command of the episode before

    def act(self, action: tuple[float, ...]) -> None:
        self._command = self._low + (np.asarray(action, dtype=np.float64) + 1) / 2 * self._span

    def halt(self) -> None:
        self._command = self._low + self._span / 2

    def advance(self) -> None:
        model, data = self._model, self._data
        self._task.before_step(self._command, self._physics)
        # As dm_control does it, so that what is derived from the state is of the state.
        mujoco.mj_step2(model, data)
        if self._substeps > 1:
            mujoco.mj_step(model, data, self._substeps - 1)
        if self.free and self._domain == "cheetah":
            self._help_up()
        if self.free and self._domain == "quadruped":
            self._drop()
        mujoco.mj_step1(model, data)
        self._check()

    def _help_up(self):
        """Puts a cheetah on its feet that is stuck on its nose or back, as the person who teaches it would."""
        fallen = math.cos(self._data.qpos[2]) < math.cos(_FALLEN_RAD)
        self._since_fall = self._since_fall + 1 if fallen else 0
        if self._since_fall * self._period > _FALLEN_S:
            self._data.qpos[1:], self._data.qvel[:], self._since_fall = 0, 0, 0

    def _drop(self):
        """Drops the quadruped with a random orientation every _DROP_S."""
        self._since_drop += 1
        if self._since_drop * self._period >= _DROP_S:
            quaternion = self._task.random.randn(4)
            self._data.qpos[:], self._data.qvel[:], self._data.act[:] = self._model.qpos0, 0, 0
            self._data.qpos[2], self._data.qpos[3:7] = _CLEAR, quaternion / np.linalg.norm(quaternion)
            self._since_drop = 0

    def _check(self):
        """Raises PhysicsError where MuJoCo has warned of something since the last step."""
        troubles = self._data.warning.number.tobytes()
        if troubles == self._troubles:
            return
        before, now = (np.frombuffer(t, np.int32) for t in (self._troubles, troubles))
        self._troubles = troubles
        names = [name for name, new in zip(mujoco.mjtWarning.__members__, now > before) if new]
        raise control.PhysicsError(f"the simulation went wrong ({', '.join(names)}): reset it")

    def sense(self) -> tuple[np.ndarray, float]:
        obs = np.concatenate([np.ravel(v) for v in self._task.get_observation(self._physics).values()])
        return obs.tolist(), self._data.time

    def reward(self) -> float:
        return float(self._task.get_reward(self._physics))

    def frame(self) -> bytes:
        qpos = self._data.qpos.copy()
        qpos[PLACES[self._domain]] = 2 + qpos[PLACES[self._domain]] % 2
        return self._view.picture(qpos)


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Serves a robot of dm_control over optibfm's bridge.",
        epilog="tasks: " + "; ".join(f"{d}: {' '.join(t | DRIFTING.get(d, {}))}" for d, (_, t) in DOMAINS.items()))
    parser.add_argument("domain", choices=DOMAINS)
    parser.add_argument("task", nargs="?", help="may be left to the client; default: the domain's first")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    task = args.task or next(iter(DOMAINS[args.domain][1]))
    try:
        robot = Simulator(args.domain, task)
    except ValueError as e:
        parser.error(str(e))
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
