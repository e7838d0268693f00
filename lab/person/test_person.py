"""Tests what the person sees and presses. They skip without its packages."""

import io
import sys
import unittest
from pathlib import Path

try:
    import numpy as np
    from PIL import Image

    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    import dmc_bridge

    from . import sight, teacher
except ImportError as e:
    raise unittest.SkipTest(str(e)) from e


class Sight(unittest.TestCase):
    def test_height_and_attitude_are_those_of_the_simulator(self):
        robot = dmc_bridge.Simulator("walker", "walk")
        for height, tilt, joints in ((0, 0, (0.3, -0.4, 0.1, -0.2, -0.1, 0)), (-0.4, 0.7, (1, -1, 0, 0.5, -1.5, 0)),
                                     (-0.9, 1.5, (0.2, -0.3, 0, 0.9, -0.5, 0))):
            with self.subTest(tilt=tilt), robot._physics.reset_context():
                robot._physics.data.qpos[:] = (height, 3.3, tilt, *joints)
            pose = sight.see(Image.open(io.BytesIO(robot.frame())))
            self.assertAlmostEqual(pose.height, robot._physics.torso_height(), delta=0.06)
            self.assertAlmostEqual(pose.upright, robot._physics.torso_upright(), delta=0.06)

    def test_speed_is_that_of_the_floor(self):
        robot, times, floor = dmc_bridge.Simulator("walker", "walk"), np.arange(8) / 10, []
        for t in times:
            with robot._physics.reset_context():
                robot._physics.data.qpos[:] = 0
                robot._physics.data.qpos[1] = 0.4 + 1.2 * t
            floor.append(sight.see(Image.open(io.BytesIO(robot.frame()))).floor)
        self.assertAlmostEqual(sight.speed(times, floor), 1.2, delta=0.1)


class Judgement(unittest.TestCase):
    def clip(self, rate: float, speed: float, passes: int) -> dict:
        """Pictures of a clip that repeats, marked for a tenth of a second; its moment has a height of 1.3 m."""
        seen = {}
        for t in np.arange(0, passes * teacher.PASS_S, 1 / rate):
            at = min((t + 0.11) % teacher.PASS_S, 1) - 0.5
            pose = sight.Sight(1.3 if abs(at) < 0.2 else 0.5, 1, speed * at % 2, 1)
            seen[100 + t] = abs(at) <= 0.05, pose
        return seen

    def test_moment_counts_and_several_passes_make_one_clip(self):
        for task, rate, speed, passes, want in (
            ("walk", 15, 1, 1, "good"), ("walk", 15, 0.2, 1, "bad"), ("walk", 15, -1, 1, "bad"),
            ("stand", 15, 0.2, 1, "good"), ("walk", 3.3, 1, 1, ""), ("walk", 3.3, 1, 6, "good"),
        ):
            with self.subTest(task=task, rate=rate, speed=speed, passes=passes):
                self.assertEqual(teacher.Person(None, task).judge_clip(self.clip(rate, speed, passes)), want)


if __name__ == "__main__":
    unittest.main()
