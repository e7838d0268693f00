"""Serves dm_control's walker, cheetah or quadruped over optibfm's bridge.

    python3 dmc_bridge.py cheetah walk --listen unix:/tmp/cheetah.sock

The tasks are those of the ExORL benchmark (Yarats et al., 2022). Where
dm_control lacks one it is defined here: a speed, a spin or a height v is
rewarded by dm_control's `tolerance`, which rises linearly up to v.

The observation is dm_control's, flattened in its order. Actions are in [-1, 1]
and scaled to the actuators' range, which differs from that in the quadruped
only. Episodes have 1,000 steps, which the client counts: nothing ends them here.
A seed gives the same episode every time, and the same as dm_control's own
`random` of that number.
"""

import argparse
import logging
import os

os.environ.setdefault("MUJOCO_GL", "disable")  # nothing is rendered

import numpy as np
from dm_control.rl import control
from dm_control.suite import cheetah, common, quadruped, walker
from dm_control.utils import rewards

import optibfm_bridge as bridge

logging.getLogger("absl").setLevel(logging.ERROR)  # MuJoCo's remarks on dm_control's models

_STEPS = 1000
_INF = float("inf")


def _at_least(value, target, at_margin):
    """1 from the target upwards, falling linearly to at_margin at 0."""
    return float(rewards.tolerance(value, bounds=(target, _INF), margin=target, value_at_margin=at_margin, sigmoid="linear"))


class CheetahSpeed(cheetah.Cheetah):
    """Runs forwards or backwards at a speed in m/s, positive forwards."""

    def __init__(self, speed):
        self._target = speed
        super().__init__()

    def get_reward(self, physics):
        return _at_least(np.sign(self._target) * physics.speed(), abs(self._target), 0)


class WalkerFlip(walker.PlanarWalker):
    """Somersaults: angular momentum about y of 5 kg m²/s, while standing tall."""

    def __init__(self):
        super().__init__(move_speed=0)

    def get_reward(self, physics):
        stand = super().get_reward(physics)
        spin = _at_least(physics.named.data.subtree_angmom["torso"][1], 5, 0)
        return stand * (5 * spin + 1) / 6


class WalkerTracking(walker.PlanarWalker):
    """Moves at a speed that changes: after 10,000 steps it goes from the first to the last in 10,000 more, in m/s."""

    _BEGIN, _CHANGE = 10_000, 10_000

    def __init__(self, first, last):
        self._first, self._last, self._steps = first, last, 0
        super().__init__(move_speed=0)

    def initialize_episode(self, physics):
        self._steps = 0
        super().initialize_episode(physics)

    def before_step(self, action, physics):
        self._steps += 1
        super().before_step(action, physics)

    def target(self):
        return self._first + (self._last - self._first) * min(max((self._steps - self._BEGIN) / self._CHANGE, 0), 1)

    def get_reward(self, physics):
        # 1 at the target, falling linearly to 0.5 at 2 m/s beside it and 0 at 4.
        speed = self.target()
        return float(rewards.tolerance(physics.horizontal_velocity(), bounds=(speed, speed), margin=2,
                                       value_at_margin=0.5, sigmoid="linear"))


class QuadrupedStand(quadruped.Move):
    """Is upright."""

    def __init__(self):
        super().__init__(desired_speed=0)

    def get_reward(self, physics):
        # (1 + cos of the tilt) / 2, which is dm_control's upright reward.
        return (1 + float(physics.torso_upright())) / 2


class QuadrupedJump(QuadrupedStand):
    """Has its centre of mass 1 m above the ground, upright."""

    def get_reward(self, physics):
        height = physics.named.data.sensordata["center_of_mass"][2]
        return super().get_reward(physics) * _at_least(height, 1, 0.5)


def _cheetah():
    return cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())


def _walker():
    return walker.Physics.from_xml_string(*walker.get_model_and_assets())


def _quadruped(speed=0.5):
    # The floor reaches as far as dm_control's 20 s at that speed.
    return quadruped.Physics.from_xml_string(quadruped.make_model(floor_size=20 * speed), common.ASSETS)


# Per domain the control period in seconds and the tasks, each with what makes
# its physics and what makes its dm_control Task.
DOMAINS = {
    "cheetah": (0.01, {
        "walk": (_cheetah, lambda: CheetahSpeed(2)),
        "run": (_cheetah, cheetah.Cheetah),
        "walk_backward": (_cheetah, lambda: CheetahSpeed(-2)),
        "run_backward": (_cheetah, lambda: CheetahSpeed(-10)),
    }),
    "walker": (0.025, {
        "stand": (_walker, lambda: walker.PlanarWalker(move_speed=0)),
        "walk": (_walker, lambda: walker.PlanarWalker(move_speed=1)),
        "run": (_walker, lambda: walker.PlanarWalker(move_speed=8)),
        "flip": (_walker, WalkerFlip),
    }),
    "quadruped": (0.02, {
        "stand": (_quadruped, QuadrupedStand),
        "walk": (_quadruped, lambda: quadruped.Move(desired_speed=0.5)),
        "run": (lambda: _quadruped(5), lambda: quadruped.Move(desired_speed=5)),
        "jump": (_quadruped, QuadrupedJump),
    }),
}

# Tasks whose reward changes in the course of an episode of 30,000 steps, so that no
# state has one: no z is inferred from labelled states for them.
DRIFTING = {
    "walker": {
        "speedup": (_walker, lambda: WalkerTracking(0, 5)),
        "slowdown": (_walker, lambda: WalkerTracking(5, 0)),
    },
}


class Simulator:
    """A dm_control environment as a robot of the bridge."""

    episode_steps = _STEPS

    def __init__(self, domain, task):
        self._domain = domain
        self._period, tasks = DOMAINS[domain]
        self._tasks = tasks | DRIFTING.get(domain, {})
        self.tasks = list(self._tasks)
        self.select(task)

    def select(self, task):
        if task not in self._tasks:
            raise ValueError(f"{self._domain} has no task {task!r}: choose one of {', '.join(self._tasks)}")
        physics, make_task = self._tasks[task]
        self.task = task
        self._env = control.Environment(physics(), make_task(), control_timestep=self._period)
        self._low = self._env.action_spec().minimum
        self._span = self._env.action_spec().maximum - self._low
        self.reset(0)
        self.halt()
        self.spec = bridge.Spec(name=f"dm_control {self._domain}", period=self._period,
                                obs=[bridge.Channel(n) for n in self._names()], action=self._action_channels())

    def _names(self):
        for group, value in self._step.observation.items():
            if np.ndim(value) == 0:
                yield group
            else:
                yield from (f"{group}.{i}" for i in range(np.size(value)))

    def _action_channels(self):
        model = self._env.physics.model
        return [bridge.Channel(model.id2name(i, "actuator"), min=-1, max=1) for i in range(model.nu)]

    def reset(self, seed):
        # Below 2^32 this is what dm_control makes of the same number.
        self._env.task.random.seed(seed if seed < 1 << 32 else [seed & 0xFFFFFFFF, seed >> 32])
        self._step = self._env.reset()

    def act(self, action):
        self._command = self._low + (np.asarray(action, dtype=np.float64) + 1) / 2 * self._span

    def halt(self):
        self._command = self._low + self._span / 2

    def advance(self):
        self._step = self._env.step(self._command)

    def sense(self):
        obs = np.concatenate([np.ravel(v) for v in self._step.observation.values()])
        return obs.tolist(), self._env.physics.time()

    def reward(self):
        if self._step.reward is not None:
            return float(self._step.reward)
        # An episode's first state has a reward too, though no action led to it.
        return float(self._env.task.get_reward(self._env.physics))


def main():
    parser = argparse.ArgumentParser(description="Serves a robot of dm_control over optibfm's bridge.",
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
