"""Tests what the person sees and presses. They skip without its packages."""

import io
import sys
import unittest
from pathlib import Path

try:
    import numpy as np
    from PIL import Image, ImageDraw

    sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))
    import dmc_bridge
    import go2_bridge
    import gymnasium_bridge

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
            pose = sight.walker(Image.open(io.BytesIO(robot.frame())))
            self.assertAlmostEqual(pose.height, robot._physics.torso_height(), delta=0.06)
            self.assertAlmostEqual(pose.upright, robot._physics.torso_upright(), delta=0.06)

    def test_speed_is_that_of_the_floor(self):
        times = np.arange(8) / 10
        for name, see, joint, speed in (("walker", sight.walker, 1, 1.2), ("cheetah", sight.cheetah, 0, 3),
                                        ("cheetah", sight.cheetah, 0, -1.5)):
            robot, floor = dmc_bridge.Simulator(name, "walk"), []
            for t in times:
                with robot._physics.reset_context():
                    robot._physics.data.qpos[:] = 0
                    robot._physics.data.qpos[joint] = 0.4 + speed * t
                floor.append(see(Image.open(io.BytesIO(robot.frame()))).floor)
            with self.subTest(robot=name, speed=speed):
                self.assertAlmostEqual(sight.speed(times, floor), speed, delta=0.1)

    def test_speed_is_that_of_gymnasiums_floor(self):
        robot = gymnasium_bridge.Simulator(gymnasium_bridge.make("HalfCheetah-v5"), "cheetah", 0.05)
        times = np.arange(8) / 10
        for speed in (0.8, -1.5):
            floor = []
            for t in times:
                robot.env.unwrapped.data.qpos[:] = [50 + speed * t, *[0] * 8]
                seen = sight.runner(Image.open(io.BytesIO(robot.frame())))
                floor.append(seen.floor)
            with self.subTest(speed=speed):
                self.assertAlmostEqual(sight.speed(times, floor, seen.seam), speed, delta=0.1)

    def test_motion_of_a_go2_is_that_of_the_floor(self):
        data, times = (robot := go2_bridge.Simulator("stand"))._robot.data, np.arange(5) / 8
        for speed, turn in ((0.5, 0), (-0.4, 0), (0, 0.8), (0.3, -0.5)):
            grounds = []
            for t in times:
                angle, moved = 1 + turn * t, speed * t
                data.qpos[:2] = 3 + moved * np.cos(1 + turn * t / 2), moved * np.sin(1 + turn * t / 2)
                data.qpos[3:7] = np.cos(angle / 2), 0, 0, np.sin(angle / 2)
                seen = sight.go2(Image.open(io.BytesIO(robot.frame())))
                grounds.append(seen.ground)
            with self.subTest(speed=speed, turn=turn):
                np.testing.assert_allclose(sight.motion(times, grounds), (speed, turn), atol=0.2)
                self.assertAlmostEqual(seen.height, data.qpos[2], delta=0.04)
                self.assertGreater(seen.upright, 1.3)

    def test_feet_of_a_quadruped_are_below_its_torso_if_it_is_upright(self):
        robot = dmc_bridge.Simulator("quadruped", "stand")
        for attitude, low, high in (((1, 0, 0, 0), 0.3, 0.8), ((0.92, 0, 0, 0.38), 0.3, 0.8),
                                    ((0, 1, 0, 0), -0.8, -0.2), ((0, 0.7, 0.7, 0), -0.8, -0.2)):
            with self.subTest(attitude=attitude), robot._physics.reset_context():
                robot._physics.data.qpos[2:7] = (0.6, *attitude)
            pose = sight.quadruped(Image.open(io.BytesIO(robot.frame())))
            self.assertTrue(low < pose.height < high, pose.height)


    def test_pendulum_is_as_upright_as_its_rod(self):
        for angle in (0, 0.7, -1.5, 3):
            picture = Image.new("RGB", (500, 500), "white")
            end = (250 - 130 * np.sin(angle), 250 - 130 * np.cos(angle))
            ImageDraw.Draw(picture).line([(250, 250), end], (204, 77, 77), 28)
            with self.subTest(angle=angle):
                self.assertAlmostEqual(sight.pendulum(picture).upright, np.cos(angle), delta=0.05)
        self.assertIsNone(sight.pendulum(Image.new("RGB", (500, 500), "white")))

    def test_a_dog_with_a_lower_trunk_crouches(self):
        for row, opinion in ((215, 1), (240, 0), (100, 0)):  # of the feet; the last dog lies on its back
            picture = Image.new("RGB", (320, 320), "white")
            draw = ImageDraw.Draw(picture)
            draw.rectangle([120, 145, 180, 175], "slategrey")
            for x in (120, 150, 180):
                draw.rectangle([x, row - 8, x + 10, row], "black")
            with self.subTest(row=row):
                self.assertAlmostEqual(teacher.dog_crouches(sight.dog(picture), 0), opinion, delta=0.12)
                self.assertEqual(teacher.dog_crouches(sight.dog(picture.convert("L")), 0), 0)  # the episode has ended


class Judgement(unittest.TestCase):
    def clip(self, rate: float, speed: float, passes: int) -> dict:
        """Pictures of a clip that repeats, marked for a tenth of a second; its moment has a height of 1.3 m."""
        seen = {}
        for t in np.arange(0, passes * teacher.PASS_S, 1 / rate):
            at = min((t + 0.11) % teacher.PASS_S, 1) - 0.5
            pose = sight.Sight(1.3 if abs(at) < 0.2 else 0.5, 1, speed * at % 2)
            seen[100 + t] = abs(at) <= 0.05, pose
        return seen

    def test_moment_counts_and_several_passes_make_one_clip(self):
        for task, rate, speed, passes, want in (
            ("walker-walk", 15, 1, 1, "good"),
            ("walker-walk", 15, 0.3, 1, "so-so"),
            ("walker-walk", 15, -1, 1, "rather-bad"),
            ("walker-stand", 15, 0.2, 1, "good"),
            ("walker-walk", 3.3, 1, 1, ""),
            ("walker-walk", 3.3, 1, 6, "good"),
        ):
            with self.subTest(task=task, rate=rate, speed=speed, passes=passes):
                self.assertEqual(teacher.Person(None, task).judge_clip(self.clip(rate, speed, passes)), want)


if __name__ == "__main__":
    unittest.main()
