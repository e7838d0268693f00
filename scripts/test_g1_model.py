"""Tests of the G1's table of joints: python -m unittest discover scripts."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from g1_model import JOINTS, LINKS

# Of BFM-Zero's motivo_newG1.yaml: stiffness, N m/rad, damping, N m s/rad, and scale of the action,
# rad.
BFM_ZERO = {
    "hip_pitch": (99.09843, 6.3088, 0.2220015), "hip_roll": (99.0984, 6.3088, 0.22200157),
    "hip_yaw": (40.1792, 2.5579, 0.54754699), "knee": (99.0984, 6.3088, 0.35066156),
    "ankle_pitch": (28.5012, 1.8145, 0.43857802), "ankle_roll": (28.5012, 1.8145, 0.43857802),
    "waist_yaw": (40.1792, 2.5579, 0.54754699), "waist_roll": (28.5012, 1.8145, 0.43857802),
    "waist_pitch": (28.5012, 1.8145, 0.43857802), "shoulder_pitch": (14.2506, 0.9072, 0.43857802),
    "shoulder_roll": (14.2506, 0.9072, 0.43857802), "shoulder_yaw": (14.2506, 0.9072, 0.43857802),
    "elbow": (14.2506, 0.9072, 0.43857802), "wrist_roll": (14.25062, 0.9072, 0.43857802),
    "wrist_pitch": (16.77833, 1.0681, 0.07450086), "wrist_yaw": (16.77833, 1.0681, 0.07450086),
}  # fmt: skip
DEFAULT = {"hip_pitch": -0.1, "knee": 0.3, "ankle_pitch": -0.2}


def part(name: str) -> str:
    return name.removeprefix("left_").removeprefix("right_")


class Joints(unittest.TestCase):
    def test_gains_and_scales_are_those_of_bfm_zero(self):
        for joint in JOINTS:
            for found, expected in zip((joint.kp, joint.kd, joint.scale), BFM_ZERO[part(joint.name)]):
                self.assertAlmostEqual(found / expected, 1, delta=1e-4, msg=joint.name)

    def test_the_default_pose_is_that_of_bfm_zero(self):
        self.assertEqual([j.default for j in JOINTS], [DEFAULT.get(part(j.name), 0) for j in JOINTS])

    def test_the_order_is_that_of_bfm_zero(self):
        leg = ["hip_pitch", "hip_roll", "hip_yaw", "knee", "ankle_pitch", "ankle_roll"]
        arm = ["shoulder_pitch", "shoulder_roll", "shoulder_yaw", "elbow", "wrist_roll", "wrist_pitch", "wrist_yaw"]
        expected = [f"{s}_{j}" for s in ("left", "right") for j in leg] + ["waist_yaw", "waist_roll", "waist_pitch"]
        expected += [f"{s}_{j}" for s in ("left", "right") for j in arm]
        self.assertEqual([j.name for j in JOINTS], expected)
        self.assertEqual((LINKS[0], LINKS[15], len(LINKS)), ("pelvis", "torso_link", 30))

    def test_the_right_side_mirrors_the_limits(self):
        limits = {j.name: j.range for j in JOINTS}
        self.assertEqual(limits["right_hip_roll"], (-2.9671, 0.5236))
        self.assertEqual(limits["right_shoulder_roll"], (-2.2515, 1.5882))
        self.assertEqual(limits["right_knee"], limits["left_knee"])


if __name__ == "__main__":
    unittest.main()
