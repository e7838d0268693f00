#!/usr/bin/env python3
"""Tests of dmc_bridge.py: its steps, observations and rewards are dm_control's. They need dm_control.

    python -m unittest discover scripts
"""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import dmc_bridge
    import numpy as np
    from dm_control.rl import control
    from dm_control.suite import cheetah, common, quadruped, walker
    from dm_control.utils.rewards import tolerance
except ImportError as err:
    raise unittest.SkipTest(f"the bridge needs scripts/requirements.txt: {err}") from err

INF = float("inf")


def rising(x, target, at_margin, margin=None):
    return tolerance(x, bounds=(target, INF), margin=margin or target, value_at_margin=at_margin, sigmoid="linear")


def own_cheetah():
    return cheetah.Physics.from_xml_string(*cheetah.get_model_and_assets())


def own_walker():
    return walker.Physics.from_xml_string(*walker.get_model_and_assets())


def own_quadruped(speed=0.5):
    return quadruped.Physics.from_xml_string(quadruped.make_model(floor_size=20 * speed), common.ASSETS)


def walker_flip(task, p):
    return task.get_reward(p) * (5 * rising(p.named.data.subtree_angmom["torso"][1], 5, 0) + 1) / 6


def walker_at(speed):
    return lambda task, p: float(
        tolerance(p.horizontal_velocity(), bounds=(speed, speed), margin=2, value_at_margin=0.5, sigmoid="linear"))


def walker_standing_at(speed):
    return lambda task, p: own(task, p) * walker_at(speed)(task, p)


def quadruped_upright(task, p):
    return (1 + float(p.torso_upright())) / 2


def quadruped_jump(task, p):
    return quadruped_upright(task, p) * rising(p.named.data.sensordata["center_of_mass"][2], 1, 0.5)


def own(task, p):
    return float(task.get_reward(p))


def references():
    """For each task dm_control's own physics and task, and its reward, looked up by name."""
    stand, move = (lambda: walker.PlanarWalker(move_speed=0)), quadruped.Move
    return {
        ("cheetah", "run"): (own_cheetah, cheetah.Cheetah, own),
        ("cheetah", "walk"): (own_cheetah, cheetah.Cheetah, lambda task, p: rising(p.speed(), 2, 0)),
        ("cheetah", "walk_backward"): (own_cheetah, cheetah.Cheetah, lambda task, p: rising(-p.speed(), 2, 0)),
        ("cheetah", "run_backward"): (own_cheetah, cheetah.Cheetah, lambda task, p: rising(-p.speed(), 10, 0)),
        ("walker", "stand"): (own_walker, stand, own),
        ("walker", "walk"): (own_walker, lambda: walker.PlanarWalker(move_speed=1), own),
        ("walker", "run"): (own_walker, lambda: walker.PlanarWalker(move_speed=8), own),
        ("walker", "flip"): (own_walker, stand, walker_flip),
        ("walker", "speedup"): (own_walker, stand, walker_at(0)),
        ("walker", "slowdown"): (own_walker, stand, walker_at(5)),
        ("walker", "speedup_upright"): (own_walker, stand, walker_standing_at(0)),
        ("walker", "slowdown_upright"): (own_walker, stand, walker_standing_at(2.5)),
        ("quadruped", "stand"): (own_quadruped, lambda: move(desired_speed=0), quadruped_upright),
        ("quadruped", "walk"): (own_quadruped, lambda: move(desired_speed=0.5), own),
        ("quadruped", "run"): (lambda: own_quadruped(5), lambda: move(desired_speed=5), own),
        ("quadruped", "jump"): (own_quadruped, lambda: move(desired_speed=0), quadruped_jump),
    }


class StepsTest(unittest.TestCase):
    def test_every_task_has_a_reference(self):
        tasks = {(d, t) for d, (_, ts) in dmc_bridge.DOMAINS.items() for t in ts | dmc_bridge.DRIFTING.get(d, {})}
        self.assertEqual(tasks, set(references()))

    def test_observations_and_rewards_are_those_of_dm_control_bit_for_bit(self):
        for (domain, name), reference in references().items():
            with self.subTest(f"{domain} {name}"):
                self.check(domain, name, *reference)

    def check(self, domain, name, physics, task, reward):
        robot = dmc_bridge.Simulator(domain, name)
        env = control.Environment(physics(), task(), control_timestep=robot.spec.period)
        rng = np.random.default_rng(0)
        for seed in (5, 6):
            robot.reset(seed)
            env.task.random.seed(seed)
            step = env.reset()
            for _ in range(60):
                obs = np.concatenate([np.ravel(v) for v in step.observation.values()])
                self.assertEqual(robot.sense(), (obs.tolist(), env.physics.time()))
                self.assertEqual(robot.reward(), float(reward(env.task, env.physics)))
                action = np.clip(rng.normal(size=len(robot.spec.action)), -1, 1)
                low, high = env.action_spec().minimum, env.action_spec().maximum
                robot.act(action)
                robot.advance()
                step = env.step(low + (action + 1) / 2 * (high - low))

    def test_rewards_are_dm_controls_where_a_few_steps_do_not_lead(self):
        class State:
            def __init__(self, x, upright):
                self.speed = self.horizontal_velocity = self.torso_height = self.height = self.spin = lambda: x
                self.torso_upright = lambda: upright
                self.torso_velocity = lambda: np.array([x, 0, 0])

        rng = np.random.default_rng(1)
        for x in np.concatenate([rng.normal(0, 3, 300), rng.uniform(0.5, 1.3, 200), [0, 0.5, 1, 1.2, 2, 5, 8, 10]]):
            p = State(np.float64(x), np.float64(rng.uniform(-1, 1)))
            self.assertEqual(dmc_bridge.CheetahSpeed(10).get_reward(p), cheetah.Cheetah().get_reward(p))
            for speed in (0, 1, 8):
                ours = dmc_bridge.WalkerMove(speed) if speed else dmc_bridge.WalkerStand()
                self.assertEqual(ours.get_reward(p), walker.PlanarWalker(move_speed=speed).get_reward(p))
            for speed in (0.5, 5):
                self.assertEqual(
                    dmc_bridge.QuadrupedMove(desired_speed=speed).get_reward(p),
                    quadruped.Move(desired_speed=speed).get_reward(p))

    def test_a_reset_leaves_no_command_of_the_episode_before(self):
        robot = dmc_bridge.Simulator("quadruped", "walk")
        begun = robot._command.tolist()
        robot.act([1] * 12)
        self.assertNotEqual(robot._command.tolist(), begun)
        robot.reset(1)
        self.assertEqual(robot._command.tolist(), begun)

    def test_a_fallen_cheetah_is_put_on_its_feet_in_free_mode_only(self):
        for free, height, pitch in ((True, -0.5, np.pi), (False, -0.5, np.pi), (True, -0.1, 1.1), (False, -0.1, 1.1)):
            robot = dmc_bridge.Simulator("cheetah", "walk")
            robot.free = free
            robot._data.qpos[:3] = 7, height, pitch
            for step in range(310):
                if step < 295:  # it would fall from its nose
                    robot._data.qpos[1:3], robot._data.qvel[:] = (height, pitch), 0
                robot.advance()
                if step < 290:
                    self.assertLess(np.cos(robot._data.qpos[2]), 0.75)
            with self.subTest(free=free, pitch=pitch):
                self.assertEqual(np.cos(robot._data.qpos[2]) > 0.9, free)
                self.assertAlmostEqual(robot._data.qpos[0], 7, delta=1)

    def test_a_quadruped_falls_from_a_random_pose_every_20_s_in_free_mode_only(self):
        for free, falls in ((True, 2), (False, 0)):
            robot, poses, times = dmc_bridge.Simulator("quadruped", "stand"), [], [0.0]
            robot.free = free
            for _ in range(2010):
                before = robot._data.qpos[3:7].copy()
                robot.advance()
                times.append(robot.sense()[1])
                if abs(before @ robot._data.qpos[3:7]) < 0.8:
                    poses.append(robot._data.qpos[:7].copy())
            with self.subTest(free=free):
                self.assertEqual(len(poses), falls)
                self.assertTrue((np.diff(times) > 0).all())
                for pose in poses:
                    self.assertAlmostEqual(pose[2], 1.1)
                    self.assertAlmostEqual(np.linalg.norm(pose[3:]), 1)

    def test_no_pose_of_a_quadruped_that_falls_touches_the_floor(self):
        robot = dmc_bridge.Simulator("quadruped", "stand")
        for _ in range(100):
            robot._since_drop = 1e9
            robot._drop()
            dmc_bridge.mujoco.mj_forward(robot._model, robot._data)
            self.assertEqual(robot._data.ncon, 0)

    def test_a_simulation_that_goes_wrong_is_an_error_once_and_begins_again_after_a_reset(self):
        robot = dmc_bridge.Simulator("cheetah", "walk")
        robot._data.qvel[:] = 1e12
        with self.assertRaisesRegex(control.PhysicsError, "BADQ"):
            robot.advance()
        robot.reset(1)
        robot.advance()
        self.assertTrue(np.isfinite(robot.sense()[0]).all())


class Physics:
    """Something that moves at a speed."""

    def __init__(self, speed):
        self.speed = speed

    def horizontal_velocity(self):
        return self.speed


class TrackingTest(unittest.TestCase):
    def at(self, task, steps):
        task._steps = steps
        return task.target()

    def test_the_target_moves_between_ten_and_twenty_thousand_steps(self):
        up, down = dmc_bridge.WalkerTracking(0, 5), dmc_bridge.WalkerTracking(5, 0)
        for steps, target in ((0, 0), (10_000, 0), (12_000, 1), (15_000, 2.5), (20_000, 5), (30_000, 5)):
            self.assertAlmostEqual(self.at(up, steps), target)
            self.assertAlmostEqual(self.at(down, steps), 5 - target)

    def test_the_reward_falls_linearly_from_the_target(self):
        task = dmc_bridge.WalkerTracking(0, 5)
        task._steps = 15_000
        for speed, reward in ((2.5, 1), (0.5, 0.5), (4.5, 0.5), (1.5, 0.75), (7, 0), (-3, 0)):
            self.assertAlmostEqual(task.get_reward(Physics(speed)), reward)

    def test_a_step_is_counted_once_and_an_episode_begins_at_none(self):
        robot = dmc_bridge.Simulator("walker", "speedup")
        for _ in range(2):
            robot.reset(1)
            for _ in range(3):
                robot.act([0] * 6)
                robot.advance()
                robot.reward()
            self.assertEqual(robot._env.task._steps, 3)

    def test_the_drifting_tasks_are_offered_and_are_none_of_those_that_a_state_rewards(self):
        self.assertIn("slowdown", dmc_bridge.Simulator("walker", "walk").tasks)
        self.assertNotIn("slowdown", dmc_bridge.DOMAINS["walker"][1])

    def test_a_drifting_tasks_episode_is_long_enough_for_its_drift(self):
        robot = dmc_bridge.Simulator("walker", "walk")
        self.assertEqual(robot.episode_steps, 1000)
        robot.select("slowdown")
        self.assertEqual(self.at(robot._env.task, robot.episode_steps), 0)


if __name__ == "__main__":
    unittest.main()
