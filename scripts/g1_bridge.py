"""Serves a Unitree G1 with 29 joints in MuJoCo over optibfm's bridge, with the observations of BFM-Zero.

    python3 g1_bridge.py stand --model scene_29dof_freebase.xml --listen unix:/tmp/g1.sock

--model is a MuJoCo scene with a floor and the G1's names of joints and links, such as the one in BFM-Zero (branch
deploy, data/robots/g1). Without it a stand-in of simple shapes moves.

Readings, at 50 Hz:

- position_J, velocity_J of each joint J: rad from the default pose, rad/s;
- gravity_x, _y, _z: the direction of gravity in the pelvis; gyro_x, _y, _z: its angular velocity, rad/s, in the pelvis;
- body_*: what only a simulator measures, BFM-Zero's privileged_state: the height of the pelvis, then for the 30 links
  and the head positions from the pelvis (m, not of the pelvis itself), x and z axes of their frames, velocities (m/s)
  and angular velocities (rad/s), all turned into the heading of the pelvis.

An action of 1 moves the target of a joint by 5 times BFM-Zero's scale from the default pose. When the robot is halted,
the motors only damp.

A bridge of a real G1 would have the same channels, over DDS (unitree_sdk2py, or cyclonedds with the IDL unitree_hg):

- spec: each action gets measured="position_J" and measured_scale=1 / (RESCALE * j.scale), so that motion begins where
  the joint is. Its limits must include every position from which the robot may be armed, and it gets a max_rate.
- sense(): the newest rt/lowstate. motor_state[0..28] (q, dq) has the order of the channels; imu_state (quaternion w, x,
  y, z; gyroscope) is that of the pelvis. The time is that of the arrival.
- act(): rt/lowcmd with q, kp and kd of g1_model.py for each motor, mode_machine copied from the state, and the CRC.
  Another thread repeats the command at 500 Hz.
- arm(): releases the built-in controller (MotionSwitcher), with the robot on a gantry.
- halt(): kp = 0 and kd for each motor. Low-level mode has no damping mode of Unitree's, so the thread is also the
  deadman: it sends these commands once act() is silent for 100 ms.
- body_*: an estimate; or constants, and no labels (docs/public-models.md).
"""

import argparse
import os

os.environ.setdefault("MUJOCO_GL", "disable")  # mujoco_view renders in another process

import install_hint
import optibfm_bridge as bridge

try:
    import mujoco
    import mujoco_view
    import numpy as np
    from dm_control.utils.rewards import tolerance
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e)

from g1_model import HEAD, JOINTS, LINKS, stand_in

PERIOD, SUBSTEPS = 0.02, 4
RESCALE = 5  # BFM-Zero's action_rescale
HEIGHT = 0.8  # of the pelvis at the start, m
NOISE = 0.02  # of the joints at the start, rad
CAMERA = {"trackbodyid": 1, "distance": 3, "azimuth": 135, "elevation": -15}

_BODIES = [*LINKS, "head"]
READINGS = [
    *((f"position_{j.name}", "rad") for j in JOINTS),
    *((f"velocity_{j.name}", "rad/s") for j in JOINTS),
    *((f"gravity_{a}", "") for a in "xyz"),
    *((f"gyro_{a}", "rad/s") for a in "xyz"),
]
PRIVILEGED = [
    ("body_height", "m"),
    *((f"body_position_{b}_{a}", "m") for b in _BODIES[1:] for a in "xyz"),
    *((f"body_axes_{b}_{a}", "") for b in _BODIES for a in ("xx", "xy", "xz", "zx", "zy", "zz")),
    *((f"body_velocity_{b}_{a}", "m/s") for b in _BODIES for a in "xyz"),
    *((f"body_spin_{b}_{a}", "rad/s") for b in _BODIES for a in "xyz"),
]


def _stand(robot):
    return robot.standing() * robot.speed_near(0, 0)


def _crouch(robot):
    return robot.upright() * tolerance(robot.height(), (0.35, 0.5), 0.3, sigmoid="linear", value_at_margin=0)


def _raise_arms(robot):
    low = min(robot.height(f"{side}_wrist_yaw_link") for side in ("left", "right"))
    return robot.standing() * tolerance(low, (1.2, float("inf")), 0.5, sigmoid="linear", value_at_margin=0)


# The reward of each task, from 0 to 1.
TASKS = {
    "stand": _stand,
    "walk_forward": lambda robot: robot.standing() * robot.speed_near(0.7, 0),
    "walk_backward": lambda robot: robot.standing() * robot.speed_near(-0.5, 0),
    "walk_left": lambda robot: robot.standing() * robot.speed_near(0, 0.4),
    "turn_left": lambda robot: robot.standing() * tolerance(robot.turn(), (0.8, 1.2), 0.8, "linear", 0),
    "crouch": _crouch,
    "raise_arms": _raise_arms,
}  # fmt: skip


class Simulator:
    """The G1 as a robot of the bridge. model: a MuJoCo scene; None for the stand-in."""

    episode_steps = 500

    def __init__(self, task: str, model: str | None = None) -> None:
        self._model = mujoco.MjModel.from_xml_path(model) if model else mujoco.MjModel.from_xml_string(stand_in())
        self._model.opt.timestep = PERIOD / SUBSTEPS
        self._model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_ACTUATION  # the joints' forces come from here
        self._data = mujoco.MjData(self._model)
        joints = [self._find(mujoco.mjtObj.mjOBJ_JOINT, f"{j.name}_joint") for j in JOINTS]
        self._angles, self._rates = self._model.jnt_qposadr[joints], self._model.jnt_dofadr[joints]
        self._links = np.array([self._find(mujoco.mjtObj.mjOBJ_BODY, link) for link in LINKS])
        self._check_scene()
        self._kp, self._kd, self._torque, self._scale, self._default = (
            np.array([getattr(j, field) for j in JOINTS]) for field in ("kp", "kd", "torque", "scale", "default")
        )
        self._view = mujoco_view.View(self._model, CAMERA | {"trackbodyid": int(self._links[0])})
        self.tasks = list(TASKS)
        self.spec = bridge.Spec(
            name="unitree g1", period=PERIOD, obs=[bridge.Channel(n, unit) for n, unit in READINGS + PRIVILEGED],
            action=[bridge.Channel(j.name, min=-1, max=1) for j in JOINTS])  # fmt: skip
        self.select(task)

    def _find(self, kind, name):
        i = mujoco.mj_name2id(self._model, kind, name)
        if i < 0:
            raise ValueError(f"the model has no {name!r}; give a scene of the G1 with 29 joints")
        return i

    def _check_scene(self):
        free = self._model.jnt_type[0] == mujoco.mjtJoint.mjJNT_FREE and self._model.jnt_bodyid[0] == self._links[0]
        if not free:
            raise ValueError("the model's pelvis has no free joint; give a scene in which the robot can move")
        if not (self._model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE).any():
            raise ValueError("the model has no floor; give the scene that includes the robot")

    def select(self, task: str) -> None:
        if task not in TASKS:
            raise ValueError(f"the G1 has no task {task!r}: choose one of {', '.join(TASKS)}")
        self.task = task
        self.reset(0)

    def reset(self, seed: int) -> None:
        rng = np.random.default_rng(seed)
        mujoco.mj_resetData(self._model, self._data)
        yaw = rng.uniform(-np.pi, np.pi)
        self._data.qpos[:7] = [0, 0, HEIGHT, np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
        self._data.qpos[self._angles] = self._default + rng.uniform(-NOISE, NOISE, len(JOINTS))
        mujoco.mj_forward(self._model, self._data)
        self.halt()

    def act(self, action: tuple[float, ...]) -> None:
        self._target = self._default + RESCALE * self._scale * np.asarray(action, dtype=np.float64)

    def halt(self) -> None:
        self._target = None

    def advance(self) -> None:
        data = self._data
        for _ in range(SUBSTEPS):
            torque = -self._kd * data.qvel[self._rates]
            if self._target is not None:
                torque += self._kp * (self._target - data.qpos[self._angles])
            data.qfrc_applied[self._rates] = np.clip(torque, -self._torque, self._torque)
            mujoco.mj_step(self._model, data)
        if data.warning.number.any():  # MuJoCo has reset the state
            raise RuntimeError("the simulation went wrong (MuJoCo warns of it): reset it")
        mujoco.mj_forward(self._model, data)  # mj_step leaves xpos, cvel and others at the state before

    def sense(self) -> tuple[np.ndarray, float]:
        data = self._data
        pelvis = data.xmat[self._links[0]].reshape(3, 3)
        joints = data.qpos[self._angles] - self._default, data.qvel[self._rates]
        return np.concatenate([*joints, -pelvis[2], data.qvel[3:6], self._privileged()]).tolist(), data.time

    def _privileged(self):
        position, axes, velocity, spin = self._bodies()
        heading = self._heading()
        local = [(x @ heading).ravel() for x in (position - position[0], axes, velocity, spin)]
        return np.concatenate([position[0, 2:], local[0][3:], *local[1:]])

    def _bodies(self):
        """Of the links and the head, in the world: positions [31, 3], m, their x and z axes [31, 2, 3], velocities,
        m/s, and angular velocities, rad/s, [31, 3]."""
        data, torso = self._data, LINKS.index("torso_link")
        position, turned = data.xpos[self._links], data.xmat[self._links].reshape(-1, 3, 3)
        spin, velocity = np.split(data.cvel[self._links], 2, axis=1)  # cvel: at the centre of mass of the tree
        velocity = velocity + np.cross(spin, position - data.subtree_com[self._links[0]])
        arm = turned[torso] @ HEAD
        position = np.vstack([position, position[torso] + arm])
        velocity = np.vstack([velocity, velocity[torso] + np.cross(spin[torso], arm)])
        turned, spin = np.concatenate([turned, turned[torso, None]]), np.vstack([spin, spin[torso]])
        return position, turned[:, :, ::2].transpose(0, 2, 1), velocity, spin

    def _heading(self):
        """The frame, in the columns, that looks where the pelvis looks, with z upwards [3, 3]."""
        x, y = self._data.xmat[self._links[0]].reshape(3, 3)[:2, 0]
        c, s = np.array([x, y]) / max(np.hypot(x, y), 1e-9)
        return np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])

    # What the rewards measure.

    def height(self, link: str = "pelvis") -> float:
        """m above the floor."""
        return self._data.xpos[self._links[LINKS.index(link)], 2]

    def upright(self) -> float:
        """1: the torso is upright, 0: it points downwards."""
        return (1 + self._data.xmat[self._links[LINKS.index("torso_link")], 8]) / 2

    def standing(self) -> float:
        """1: upright, with the pelvis 0.7 m high or higher."""
        return self.upright() * tolerance(self.height(), (0.7, float("inf")), 0.7, sigmoid="linear", value_at_margin=0)

    def speed_near(self, forward: float, left: float) -> float:
        """1: the pelvis moves at about this velocity, m/s, in its heading."""
        moves = self._data.qvel[:3] @ self._heading()
        return tolerance(np.hypot(moves[0] - forward, moves[1] - left), (0, 0.1), 0.4)

    def turn(self) -> float:
        """Angular velocity of the pelvis about the vertical, rad/s, positive to the left."""
        return (self._data.xmat[self._links[0]].reshape(3, 3) @ self._data.qvel[3:6])[2]

    def reward(self) -> float:
        return float(TASKS[self.task](self))

    def frame(self) -> bytes:
        return self._view.picture(self._data.qpos.copy())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves a Unitree G1 in MuJoCo over optibfm's bridge.")
    parser.add_argument("task", nargs="?", default="stand", help=f"may be left to the client: {' '.join(TASKS)}")
    parser.add_argument("--model", metavar="SCENE.xml", help="of the G1 with 29 joints (default: a stand-in)")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    try:
        robot = Simulator(args.task, args.model)
    except ValueError as e:
        parser.error(str(e))
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
