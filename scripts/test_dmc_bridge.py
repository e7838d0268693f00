#!/usr/bin/env python3
"""Tests of the tasks that dmc_bridge.py defines itself. They need dm_control.

    python -m unittest discover scripts
"""

import unittest

try:
    import dmc_bridge
except ImportError:
    dmc_bridge = None


class Physics:
    """Something that moves at a speed."""

    def __init__(self, speed):
        self.speed = speed

    def horizontal_velocity(self):
        return self.speed


@unittest.skipIf(dmc_bridge is None, "dm_control is not installed")
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


if __name__ == "__main__":
    unittest.main()
