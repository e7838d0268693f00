"""Trotting gaits of the Unitree Go2 that follow commands: feet on paths in the base's frame, and inverse kinematics.

A command is the velocity of the base forwards and to the left, m/s, its angular velocity to the left, rad/s, and its
height, m. The right front and the left hind foot swing together, then the others. All feet move along with an error of
the velocity, as far as the base would fall otherwise; a tilt lengthens the legs on the lower side; and each goal
includes the deflection of its motor under the weight. A robot that is to stand does not swing its feet unless it is
pushed.

Arrays have a row for each copy. Joints and legs are in the order of go2_physics.
"""

import dataclasses

import numpy as np
from go2_bridge import PERIOD, SCALE
from go2_physics import HIP, KP, LEGS, LENGTH, STAND

CYCLE = 0.46  # s
PHASES = np.arange(round(CYCLE / PERIOD)) * PERIOD / CYCLE  # of each control period of a cycle
LATER = 0.01  # by which an action of the second half of a cycle has to be nearer, squared
SUPPORT = 0.67  # share of the cycle that a foot is on the ground
LIFT = 0.085  # m
RADIUS = 0.022  # of a foot, m
WEIGHT = 15.2 * 9.81  # N

SIDE = np.array([1.0 if leg[1] == "L" else -1.0 for leg in LEGS])
PLACES = np.array([[0.1934 if leg[0] == "F" else -0.1934, (0.0465 + HIP) * s]
                   for leg, s in zip(LEGS, SIDE)])  # [4, 2] m
SWING = np.array([0.0 if leg in ("FR", "RL") else 0.5 for leg in LEGS])  # of the phase at which a foot lifts
FORWARD, LEFT, TURN, HEIGHT = range(4)  # of a command
LOW, HIGH = np.array([-0.7, -0.45, -1.2, 0.16]), np.array([1.0, 0.45, 1.2, 0.31])

STEPS = np.array([0.3, 0.2, 0.9, 0.03])  # by which a command may differ from what the base does
SLIP = 1.3  # feet move so much faster than the base
MOVE_GAIN, TURN_GAIN = 0.3, 0.2
VELOCITY_GAIN, VELOCITY_LIMIT = 0.1, 0.08  # s, m
LEVEL_GAIN, LEVEL_RATE = 0.55, 0.03  # m of a leg per m that it would have to change, and s
HEIGHT_GAIN = 0.6


@dataclasses.dataclass
class Base:
    """What the gaits know about the base of each copy."""

    velocity: np.ndarray  # [n, 3] m/s, in the base
    spin: np.ndarray  # [n, 3] rad/s
    gravity: np.ndarray  # [n, 3]
    height: np.ndarray  # [n] m

    @classmethod
    def of(cls, state: np.ndarray) -> "Base":
        """Splits go2_bridge.base_state of copies, [n, 10]."""
        return cls(state[:, :3], state[:, 3:6], state[:, 6:9], state[:, 9])


def random_commands(rng: np.random.Generator, n: int) -> np.ndarray:
    """Returns commands [n, 4]: a third stand or crouch, a third move along one axis, the others along all."""
    command = rng.uniform(LOW, HIGH, (n, 4))
    command[:, HEIGHT] = np.where(rng.random(n) < 0.7, rng.uniform(0.26, 0.30, n), command[:, HEIGHT])
    kind, axis = rng.random(n), rng.integers(3, size=n)
    moves = np.where((kind < 2 / 3)[:, None], np.eye(3)[axis], 1.0)
    command[:, :3] *= np.where((kind < 1 / 3)[:, None], 0.0, moves)
    return command


def inverse_kinematics(foot: np.ndarray) -> np.ndarray:
    """Returns the joints [..., 4, 3], rad, of feet [..., 4, 3], m from the hips. Feet out of reach are brought near."""
    x, y, z = np.moveaxis(foot, -1, 0)
    sideways = SIDE * HIP
    down = np.sqrt(np.maximum(y * y + z * z - HIP**2, 1e-4))
    hip = np.arctan2(y, -z) - np.arctan2(sideways, down)
    cosine = (x * x + down * down) / (2 * LENGTH**2) - 1
    calf = -np.arccos(np.clip(cosine, -0.9, 0.68))  # 2.69 to 0.82 rad
    thigh = np.arctan2(-x, down) - calf / 2
    return np.stack([hip, thigh, calf], -1)


def deflection(joints: np.ndarray, load: np.ndarray) -> np.ndarray:
    """Returns how far [..., 4, 3], rad, motors must aim beyond joints to carry load [..., 4], N, at the feet."""
    hip, thigh, calf = np.moveaxis(joints, -1, 0)
    down = LENGTH * (np.cos(thigh) + np.cos(thigh + calf))
    across = LENGTH * (np.sin(thigh) + np.sin(thigh + calf))  # the foot is so far behind the hip
    lever = np.stack([SIDE * HIP * np.cos(hip) + down * np.sin(hip), across * np.cos(hip),
                      LENGTH * np.sin(thigh + calf) * np.cos(hip)], -1)
    return -load[..., None] * lever / KP


def path(phase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Returns for legs at phases [..., 4] in their own cycles, which begin with the swing: how far the foot is between
    the rear (-1) and the front (1) of its step, and how high (0 to 1)."""
    swing = np.clip(phase / (1 - SUPPORT), 0, 1)
    support = np.clip((phase - 1 + SUPPORT) / SUPPORT, 0, 1)
    swinging = phase < 1 - SUPPORT
    return np.where(swinging, -np.cos(np.pi * swing), 1 - 2 * support), np.where(
        swinging, np.sin(np.pi * swing) ** 2, 0.0
    )


def stepping(command: np.ndarray, base: Base) -> np.ndarray:
    """Returns how much copies step [n], from 0 (all feet stay) to 1."""
    wanted = np.hypot(command[:, FORWARD], command[:, LEFT]) + 0.3 * np.abs(command[:, TURN])
    error = np.hypot(*(base.velocity[:, :2] - command[:, :2]).T)
    return np.clip(wanted / 0.06 + np.maximum(error - 0.3, 0) / 0.1, 0, 1)


def goals(command: np.ndarray, base: Base, phase: np.ndarray) -> np.ndarray:
    """Returns the goals of the joints [n, ..., 12], rad, at phases [n, ...]; command [n, 4]."""
    extra = phase.ndim - 1

    def each(x):  # [n, k] -> [n, 1..., k]
        return x.reshape(len(x), *([1] * extra), *x.shape[1:])

    command, step = each(command), each(stepping(command, base))[..., None]
    velocity, spin, down, height = map(each, (base.velocity, base.spin, base.gravity, base.height))
    between, lifted = path((phase[..., None] - SWING) % 1)
    error = velocity[..., :2] - command[..., :2]
    walk = SLIP * command[..., :2] - MOVE_GAIN * error
    turn = SLIP * command[..., TURN] - TURN_GAIN * (spin[..., 2] - command[..., TURN])
    moves = walk[..., None, :] + turn[..., None, None] * np.stack([-PLACES[:, 1], PLACES[:, 0]], -1)
    foot = np.empty((*np.broadcast_shapes(between.shape, moves.shape[:-1]), 3))
    foot[..., :2] = (0.5 * SUPPORT * CYCLE * between * step)[..., None] * moves
    foot[..., :2] += np.clip(VELOCITY_GAIN * error, -VELOCITY_LIMIT, VELOCITY_LIMIT)[..., None, :]
    foot[..., 1] += SIDE * HIP
    tall = command[..., HEIGHT] + HEIGHT_GAIN * np.clip(command[..., HEIGHT] - height, -0.05, 0.05)
    # The base is tilted by (roll, pitch) = (-g_y, g_x) for small angles, and should be level.
    roll, pitch = -down[..., 1] + LEVEL_RATE * spin[..., 0], down[..., 0] + LEVEL_RATE * spin[..., 1]
    lower = pitch[..., None] * PLACES[:, 0] - roll[..., None] * PLACES[:, 1]  # of the leg's corner, m
    foot[..., 2] = RADIUS - tall[..., None] - LEVEL_GAIN * lower + LIFT * step * lifted
    joints = inverse_kinematics(foot)
    on_ground = 1 - step * (lifted > 0)
    load = WEIGHT * on_ground / on_ground.sum(-1, keepdims=True)
    joints = joints + deflection(joints, load)
    return joints.reshape(*joints.shape[:-2], 12)


def actions(command: np.ndarray, base: Base, phase: np.ndarray) -> np.ndarray:
    """Returns the actions [n, ..., 12] in [-1, 1] for the goals."""
    return np.clip((goals(command, base, phase) - STAND) / SCALE, -1, 1)


def gradual(command: np.ndarray, base: Base) -> np.ndarray:
    """Returns commands [n, 4] on the way from what the base does: a robot that has to change at once falls."""
    now = np.concatenate([base.velocity[:, :2], base.spin[:, 2:], base.height[:, None]], 1)
    return now + np.clip(command - now, -STEPS, STEPS)


def follow(command: np.ndarray, base: Base, last: np.ndarray, before: np.ndarray) -> np.ndarray:
    """Returns the next actions [n, 12] of robots whose last two actions were last and before, [n, 12].

    The phase is that of the gait's actions nearest to those. A gait is then a function of what the robot sees, and a
    robot that stands between two half cycles always begins with the same one.
    """
    gait = actions(gradual(command, base), base, np.broadcast_to(PHASES, (len(command), len(PHASES))))
    distance = np.square(gait - last[:, None]).sum(-1) + np.square(np.roll(gait, 1, 1) - before[:, None]).sum(-1)
    phase = (distance + LATER * (PHASES >= 0.5)).argmin(1)
    return gait[np.arange(len(gait)), (phase + 1) % len(PHASES)]
