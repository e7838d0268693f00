"""The Unitree G1 with 29 joints: names, motors, gains and a stand-in for its MuJoCo model.

Gains and scales of the action are those of BFM-Zero's motivo_newG1.yaml. They follow from the motors: a joint is a
mass-spring-damper with the rotor's inertia, a natural frequency of 10 Hz and a damping ratio of 2. The scale of a joint
is a quarter of the deflection at which the spring torque reaches the motor's limit.
"""

import dataclasses
import math

# Rotor inertia at the joint, kg m², and torque limit, N m. pair: two motors of the arm in parallel.
MOTORS = {
    "hip": (0.025101925, 88),
    "knee": (0.025101925, 139),
    "yaw": (0.01017752, 88),
    "pair": (0.00721945, 50),
    "arm": (0.003609725, 25),
    "wrist": (0.00425, 5),
}
_FREQUENCY, _DAMPING = 2 * math.pi * 10, 2


@dataclasses.dataclass
class Joint:
    """A joint and the link that it moves. pos is in the parent's frame, end, where the shape ends, in the link's, m."""

    name: str
    parent: str
    axis: str
    range: tuple[float, float]  # rad
    motor: str
    pos: tuple[float, float, float]
    end: tuple[float, float, float]
    mass: float  # kg
    radius: float = 0.04
    default: float = 0.0  # rad

    @property
    def link(self) -> str:
        return "torso_link" if self.name == "waist_pitch" else self.name + "_link"

    @property
    def torque(self) -> float:
        """The motor's limit, N m."""
        return MOTORS[self.motor][1]

    @property
    def kp(self) -> float:
        """N m/rad."""
        return MOTORS[self.motor][0] * _FREQUENCY**2

    @property
    def kd(self) -> float:
        """N m s/rad."""
        return MOTORS[self.motor][0] * 2 * _DAMPING * _FREQUENCY

    @property
    def scale(self) -> float:
        """BFM-Zero's action_scale: a quarter of the deflection with full motor torque, rad."""
        return 0.25 * self.torque / self.kp


_LEFT_LEG = [
    Joint(
        "left_hip_pitch", "pelvis", "y", (-2.5307, 2.8798), "hip", (0, 0.065, -0.1), (0, 0.05, 0), 1.35, default=-0.1
    ),
    Joint("left_hip_roll", "left_hip_pitch_link", "x", (-0.5236, 2.9671), "hip", (0, 0.05, -0.03), (0, 0, -0.1), 1.52),
    Joint("left_hip_yaw", "left_hip_roll_link", "z", (-2.7576, 2.7576), "yaw", (0, 0, -0.12), (0, 0, -0.16), 1.7),
    Joint(
        "left_knee",
        "left_hip_yaw_link",
        "y",
        (-0.0873, 2.8798),
        "knee",
        (0, 0, -0.18),
        (0, 0, -0.28),
        1.93,
        default=0.3,
    ),
    Joint(
        "left_ankle_pitch",
        "left_knee_link",
        "y",
        (-0.8727, 0.5236),
        "pair",
        (0, 0, -0.3),
        (0, 0, -0.01),
        0.07,
        0.02,
        -0.2,
    ),
    Joint("left_ankle_roll", "left_ankle_pitch_link", "x", (-0.2618, 0.2618), "pair", (0, 0, -0.018), (0, 0, 0), 0.6),
]
_LEFT_ARM = [
    Joint("left_shoulder_pitch", "torso_link", "y", (-3.0892, 2.6704), "arm", (0, 0.1, 0.24), (0, 0.04, 0), 0.72),
    Joint(
        "left_shoulder_roll",
        "left_shoulder_pitch_link",
        "x",
        (-1.5882, 2.2515),
        "arm",
        (0, 0.06, 0),
        (0, 0, -0.08),
        0.64,
    ),
    Joint(
        "left_shoulder_yaw", "left_shoulder_roll_link", "z", (-2.618, 2.618), "arm", (0, 0, -0.1), (0, 0, -0.07), 0.73
    ),
    Joint("left_elbow", "left_shoulder_yaw_link", "y", (-1.0472, 2.0944), "arm", (0.016, 0, -0.08), (0.08, 0, 0), 0.6),
    Joint("left_wrist_roll", "left_elbow_link", "x", (-1.9722, 1.9722), "arm", (0.1, 0, -0.01), (0.03, 0, 0), 0.09),
    Joint(
        "left_wrist_pitch", "left_wrist_roll_link", "y", (-1.6144, 1.6144), "wrist", (0.038, 0, 0), (0.04, 0, 0), 0.48
    ),
    Joint("left_wrist_yaw", "left_wrist_pitch_link", "z", (-1.6144, 1.6144), "wrist", (0.046, 0, 0), (0.1, 0, 0), 0.25),
]


def _mirrored(joint: Joint) -> Joint:
    """The joint of the right side: a reflection turns rotations about x and z."""
    low, high = joint.range
    return dataclasses.replace(
        joint,
        name=joint.name.replace("left", "right"),
        parent=joint.parent.replace("left", "right"),
        range=joint.range if joint.axis == "y" else (-high, -low),
        pos=(joint.pos[0], -joint.pos[1], joint.pos[2]),
        end=(joint.end[0], -joint.end[1], joint.end[2]),
    )


_WAIST = [
    Joint("waist_yaw", "pelvis", "z", (-2.618, 2.618), "yaw", (0, 0, 0), (0, 0, 0.03), 0.24),
    Joint("waist_roll", "waist_yaw_link", "x", (-0.52, 0.52), "pair", (0, 0, 0.035), (0, 0, 0.01), 0.05),
    Joint("waist_pitch", "waist_roll_link", "y", (-0.52, 0.52), "pair", (0, 0, 0.019), (0, 0, 0.3), 9.6, 0.08),
]
JOINTS = [*_LEFT_LEG, *map(_mirrored, _LEFT_LEG), *_WAIST, *_LEFT_ARM, *map(_mirrored, _LEFT_ARM)]
LINKS = ["pelvis", *(j.link for j in JOINTS)]
HEAD = (0.0, 0.0, 0.35)  # in the torso, m; BFM-Zero adds it to the links


def stand_in() -> str:
    """Returns a MuJoCo model of capsules with the G1's joints, masses and approximate sizes, on a floor."""
    inside: dict[str, list[Joint]] = {}
    for joint in JOINTS:
        inside.setdefault(joint.parent, []).append(joint)
    pelvis = '<freejoint name="floating_base_joint"/><geom type="sphere" size="0.09" mass="3.8"/>'
    bodies = f'<body name="pelvis" pos="0 0 0.8">{pelvis}{"".join(_body(j, inside) for j in inside["pelvis"])}</body>'
    return f"""<mujoco model="a stand-in for the G1">
  <compiler angle="radian"/>
  <default><geom rgba="0.75 0.75 0.78 1" contype="0" friction="1"/></default>
  <asset>
    <texture name="floor" type="2d" builtin="checker" rgb1="0.3 0.35 0.4" rgb2="0.4 0.45 0.5" width="300" height="300"/>
    <material name="floor" texture="floor" texuniform="true" texrepeat="2 2"/>
    <texture type="skybox" builtin="gradient" rgb1="0.75 0.8 0.85" rgb2="0.5 0.55 0.6" width="64" height="64"/>
  </asset>
  <worldbody>
    <light pos="0 0 5" directional="true"/>
    <geom name="floor" type="plane" size="0 0 0.05" contype="1" conaffinity="0" material="floor"/>
    {bodies}
  </worldbody>
</mujoco>"""


def _body(joint, inside):
    numbers = " ".join
    axis = numbers("1" if joint.axis == a else "0" for a in "xyz")
    if "ankle_roll" in joint.name:
        shape = f'<geom type="box" pos="0.035 0 -0.02" size="0.1 0.035 0.015" mass="{joint.mass}"/>'
    elif any(joint.end):
        end = numbers(map(str, joint.end))
        shape = f'<geom type="capsule" fromto="0 0 0 {end}" size="{joint.radius}" mass="{joint.mass}"/>'
    if joint.link == "torso_link":
        shape += f'<geom type="sphere" pos="{numbers(map(str, HEAD))}" size="0.08" mass="0.01" rgba="0.2 0.2 0.2 1"/>'
    return (
        f'<body name="{joint.link}" pos="{numbers(map(str, joint.pos))}">'
        f'<joint name="{joint.name}_joint" axis="{axis}" range="{joint.range[0]} {joint.range[1]}"'
        f' armature="{MOTORS[joint.motor][0]}" damping="0.05" frictionloss="0.2"/>'
        f"{shape}{''.join(_body(j, inside) for j in inside.get(joint.link, []))}</body>"
    )
