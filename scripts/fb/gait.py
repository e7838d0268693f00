"""A gait for the ant of the mazes, in any direction. It gives data for training and actions to imitate.

The gait is a trot: legs 1 and 3 move against legs 2 and 4. While a leg stands, its foot moves
against the direction of travel; while it swings, it moves back lifted. The joints
follow through springs and dampers, which the motors simulate. The ant does not turn: it
also walks sideways and backwards, and keeps its heading at 0.

The gait has no clock. It estimates the phase of the stride from the joints, and the springs
pull the joints towards a slightly later phase. Its action is therefore a function of the
observation. A policy can learn that function, and it works from any state of the robot.

A search like search() found most numbers in TROT. Its objective was the speed along the direction,
the drift across it, and the heading. We chose the springs (stiffness, damping, ahead) by hand: softer
springs walk as fast and keep most torques within the motors' limits, so actions change gradually with
the observation. The ant walks at SPEED on average, 1.2 to 1.8 m/s
depending on the direction.
"""

from dataclasses import astuple, dataclass

import mujoco
import numpy as np

_LEGS = np.radians([45, 135, 225, 315])  # where legs 1 to 4 point, from the torso's front
_DOWN = np.array([1, -1, -1, 1])  # sign of the ankle's angle that lowers the foot
_MOTORS = [3, 0, 1, 2]  # the leg of each pair of motors: hip and ankle
_DEPTH = np.radians([25, 75])  # of the ankles; they reach from 30 to 70 degrees
_HEADING_GAIN, _HEADING_LIMIT = 1.0, 0.3
_PHASE_STEP = np.pi / 8
_PHASES = np.arange(0, 2 * np.pi, _PHASE_STEP)  # candidates of the estimated phase
_RATES = 0.2  # weight of the joints' rates against their angles in the estimate of the phase


@dataclass(frozen=True)
class Trot:
    frequency: float  # strides a second, to which the joints' rates are compared
    swing: float  # amplitude of the hips, rad
    depth: float  # mean angle of the ankles, degrees
    lift: float  # amplitude of the ankles, degrees
    lead: float  # phase of the ankles before the hips, rad
    reach: float  # amplitude of the ankles of legs that point along the travel, rad
    stiffness: float  # torque per rad, 1 is the motors' limit
    damping: float  # torque per rad/s
    ahead: float  # phase of the springs' target ahead of the joints, rad


TROT = Trot(frequency=1.325, swing=0.902, depth=35.9, lift=26.9, lead=-0.422, reach=0.591, stiffness=1.2, damping=0.1,
            ahead=1.9)
SPEED = 1.5  # m/s, of TROT


def heading(obs):
    """Angle about the vertical of observations [..., 29], rad."""
    w, x, y, z = np.moveaxis(obs[..., 3:7], -1, 0)
    return np.arctan2(2 * (w * z + x * y), w * w + x * x - y * y - z * z)


def torques(trot, obs, direction, speed):
    """Actions [n, 8] in [-1, 1] for observations [n, 29].

    direction [n] is where to go in the world, rad; speed [n] scales the strides:
    with 0 it marches in place.
    """
    angle, rate = (obs[:, part].reshape(-1, 4, 2) for part in (slice(7, 15), slice(21, 29)))
    yaw = heading(obs)
    now = phase(trot, angle, rate, yaw, direction, speed)
    pull = trot.stiffness * (angles(trot, now + trot.ahead, yaw, direction, speed) - angle) - trot.damping * rate
    return np.clip(pull[:, _MOTORS], -1, 1).reshape(-1, 8)


def angles(trot, phase, yaw, direction, speed):
    """Hip and ankle of each leg [..., n, 4, 2] at that phase [..., n] of the stride, rad."""
    away = (direction - yaw)[:, None] - _LEGS  # from each leg to the direction of travel
    theta = phase[..., None] + np.array([0, np.pi, 0, np.pi])
    turn = np.clip(-_HEADING_GAIN * yaw, -_HEADING_LIMIT, _HEADING_LIMIT)[:, None]
    speed = speed[:, None]
    hip = (speed * trot.swing * np.sin(away) + turn) * np.cos(theta)
    ankle = (np.radians(trot.depth) + np.radians(trot.lift) * np.sin(theta + trot.lead)
             - speed * trot.reach * np.cos(away) * np.cos(theta))
    return np.stack([hip, _DOWN * np.clip(ankle, *_DEPTH)], -1)


def phase(trot, angle, rate, yaw, direction, speed):
    """Returns the phase [n] of the stride with the joints nearest to angle and rate [n, 4, 2], rad and rad/s."""
    strides = angles(trot, np.repeat(_PHASES[:, None], len(yaw), 1), yaw, direction, speed)
    per_phase = (np.roll(strides, -1, 0) - np.roll(strides, 1, 0)) / (2 * _PHASE_STEP)
    unlike = (strides - angle) ** 2 + _RATES * (per_phase - rate / (2 * np.pi * trot.frequency)) ** 2
    return _PHASES[unlike.sum((-1, -2)).argmin(0)]


def quality(model, trot, direction, seed, period=0.1, steps=70):
    """Speed along direction, less half of that across it and a fifth of the heading, after the first two seconds."""
    data, rng = mujoco.MjData(model), np.random.default_rng(seed)
    data.qpos[3:] += rng.uniform(-0.1, 0.1, model.nq - 3)
    data.qvel[:] = 0.1 * rng.normal(size=model.nv)
    begin = None
    for step in range(steps):
        if step == 20:
            begin = data.qpos[:2].copy()
        obs = np.concatenate([data.qpos, data.qvel])[None]
        data.ctrl[:] = torques(trot, obs, np.array([direction]), np.ones(1))[0]
        mujoco.mj_step(model, data, round(period / model.opt.timestep))
    velocity = (data.qpos[:2] - begin) / ((steps - 20) * period)
    along = np.array([np.cos(direction), np.sin(direction)])
    across = np.array([-along[1], along[0]])
    return velocity @ along - 0.5 * abs(velocity @ across) - 0.2 * abs(float(heading(np.append(data.qpos, data.qvel))))


def search(model, rounds, seed=0, members=16, kept=4):
    """The best trot of a cross-entropy search; the legs' symmetry leaves two directions to try."""
    rng = np.random.default_rng(seed)
    low = np.array(astuple(Trot(0.5, 0.2, 30, 5, -1.5, 0, 0.5, 0, 1)))
    high = np.array(astuple(Trot(2.5, 0.8, 70, 30, 1.5, 0.6, 6, 1, 2)))
    lowest = np.where(low < 0, 1.2, 0.5) * low  # only the lead may be negative

    def judged(rows):
        return [(np.mean([quality(model, Trot(*row), turn, i) for i, turn in enumerate((0, np.pi / 4))]), tuple(row))
                for row in rows]

    best = sorted(judged(rng.uniform(low, high, (8 * members, len(low)))), reverse=True)[: 2 * kept]
    rows = np.array([row for _, row in best])
    mean, spread = rows[0], rows.std(0) + 0.05 * (high - low)
    for _ in range(rounds):
        tried = judged(np.clip(rng.normal(mean, spread, (members, len(low))), lowest, 1.2 * high))
        best = sorted(tried + best[:1], reverse=True)[: kept + 1]
        rows = np.array([row for _, row in best])
        mean, spread = rows.mean(0), 0.7 * spread + 0.3 * rows.std(0)
    return Trot(*best[0][1]), best[0][0]
