"""Tests of the humanoids and their bridges: python -m unittest discover scripts (needs MuJoCo; HumEnv where it
is used)."""

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import g1_bridge
    import mujoco
    import numpy as np
except ImportError as err:
    raise unittest.SkipTest(f"the G1 needs scripts/requirements-simulators.txt: {err}") from err
try:
    import humenv_bridge
except ImportError:
    humenv_bridge = None
from g1_model import HEAD, JOINTS, LINKS, stand_in


def episode(robot, seed: int, steps: int = 5) -> list:
    """Observations of an episode with the same random actions."""
    robot.reset(seed)
    rng, seen = np.random.default_rng(0), [robot.sense()]
    for _ in range(steps):
        robot.act(rng.uniform(-0.3, 0.3, len(robot.spec.action)))
        robot.advance()
        seen.append(robot.sense())
    return seen


class G1(unittest.TestCase):
    def setUp(self):
        self.robot = g1_bridge.Simulator("stand")

    def reading(self, prefix):
        """Values of the channels with this prefix."""
        values = self.robot.sense()[0]
        return np.array([v for v, c in zip(values, self.robot.spec.obs) if c.name.startswith(prefix)])

    def test_a_seed_gives_the_same_episode_whatever_came_before(self):
        first = episode(self.robot, 3)
        self.assertNotEqual(episode(self.robot, 4), first)
        self.assertEqual(episode(self.robot, 3), first)
        np.testing.assert_allclose([time for _, time in first], np.arange(6) * 0.02)

    def test_has_the_groups_of_bfm_zero(self):
        self.robot.spec.validate()
        self.assertEqual(len(self.robot.sense()[0]), len(self.robot.spec.obs))
        self.assertEqual((len(g1_bridge.READINGS), len(g1_bridge.PRIVILEGED)), (64, 463))

    def test_readings_are_those_of_mujoco(self):
        episode(self.robot, 1, steps=20)
        model, data, heading = self.robot._model, self.robot._data, self.robot._heading()
        angles = [data.joint(f"{j.name}_joint").qpos[0] - j.default for j in JOINTS]
        np.testing.assert_allclose(self.reading("position_"), angles)
        np.testing.assert_allclose(self.reading("gyro_"), data.joint("floating_base_joint").qvel[3:])
        turned = np.zeros(3)
        mujoco.mju_rotVecQuat(turned, np.array([0, 0, -1.0]), data.body("pelvis").xquat * [1, -1, -1, -1])
        np.testing.assert_allclose(self.reading("gravity_"), turned, atol=1e-12)
        self.assertAlmostEqual(self.reading("body_height")[0], data.body("pelvis").xpos[2])
        for i, name in enumerate(LINKS):
            six = np.zeros(6)
            mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_XBODY, data.body(name).id, six, 0)
            axes = data.body(name).xmat.reshape(3, 3)
            for prefix, world in (("spin", six[:3]), ("velocity", six[3:]), ("axes", [axes[:, 0], axes[:, 2]])):
                found = self.reading(f"body_{prefix}_{name}_").reshape(-1, 3)
                np.testing.assert_allclose(found, np.reshape(world, (-1, 3)) @ heading, atol=1e-9, err_msg=name)
            if i > 0:
                local = (data.body(name).xpos - data.body("pelvis").xpos) @ heading
                np.testing.assert_allclose(self.reading(f"body_position_{name}_"), local, atol=1e-9)

    def test_the_head_moves_with_the_torso(self):
        episode(self.robot, 1, steps=20)
        data, small = self.robot._data, 1e-6
        torso = data.body("torso_link")

        def head():
            return torso.xpos + torso.xmat.reshape(3, 3) @ HEAD

        before, heading = head(), self.robot._heading()
        velocity = self.reading("body_velocity_head_")
        mujoco.mj_integratePos(self.robot._model, data.qpos, data.qvel, small)
        mujoco.mj_kinematics(self.robot._model, data)
        np.testing.assert_allclose(velocity, (head() - before) / small @ heading, atol=1e-4)

    def test_observations_do_not_depend_on_the_compass(self):
        seen = []
        for yaw in (0.0, 2.5):
            self.robot.reset(0)
            data = self.robot._data
            data.qpos[3:7] = [np.cos(yaw / 2), 0, 0, np.sin(yaw / 2)]
            data.qvel[:3] = [np.cos(yaw), np.sin(yaw), 0.1]
            mujoco.mj_forward(self.robot._model, data)
            seen.append(self.robot.sense()[0])
        np.testing.assert_allclose(seen[0], seen[1], atol=1e-9)

    def test_stands_in_the_default_pose_until_it_loses_its_balance(self):
        self.robot.act([0.0] * 29)
        for _ in range(10):
            self.robot.advance()
        self.assertGreater(self.robot.height(), 0.75)
        self.assertGreater(self.robot.upright(), 0.98)

    def test_limits_the_torque_and_only_damps_when_halted(self):
        self.robot.act([1.0] * 29)
        self.robot._data.qpos[self.robot._angles] = [j.range[0] for j in JOINTS]
        self.robot.advance()
        applied = self.robot._data.qfrc_applied[self.robot._rates]
        self.assertTrue((np.abs(applied) <= [j.torque for j in JOINTS]).all())
        self.assertEqual(applied[0], JOINTS[0].torque)
        self.robot.halt()
        self.robot._data.qvel[:] = 0
        self.robot._data.qpos[self.robot._angles] = 0.1
        before = self.robot._data.qfrc_applied.copy()
        self.robot.advance()
        self.assertLess(np.abs(self.robot._data.qfrc_applied).max(), np.abs(before).max() / 3)

    def test_a_reset_drops_the_command(self):
        self.robot.act([1.0] * 29)
        self.robot.reset(0)
        self.robot.advance()
        moved, self.robot = self.robot.sense(), g1_bridge.Simulator("stand")
        self.robot.advance()
        self.assertEqual(moved, self.robot.sense())

    def test_rewards_what_the_task_names(self):
        best = {
            "walk_forward": (0.7, 0, 0), "walk_backward": (-0.5, 0, 0), "walk_left": (0, 0.4, 0),
            "turn_left": (0, 0, 1),
            "stand": (0, 0, 0),
        }  # fmt: skip
        for task, (forward, left, turn) in best.items():
            for other in best:
                self.robot.select(other)
                self.robot._data.qvel[:6] = [*(self.robot._heading() @ [forward, left, 0]), 0, 0, turn]
                mujoco.mj_forward(self.robot._model, self.robot._data)
                reward = self.robot.reward()
                self.assertTrue(0 <= reward <= 1, (task, other))
                if other == task:
                    self.assertGreater(reward, 0.95, task)
                elif turn == 0:
                    self.assertLess(reward, 0.75, (task, other))
        for task, height in (("crouch", 0.45), ("stand", 0.8)):
            self.robot.select(task)
            self.robot._data.qpos[2] = height
            mujoco.mj_forward(self.robot._model, self.robot._data)
            self.assertGreater(self.robot.reward(), 0.95, task)
        self.robot.select("raise_arms")
        down = self.robot.reward()
        for side, sign in (("left", 1), ("right", -1)):
            self.robot._data.joint(f"{side}_shoulder_roll_joint").qpos[:] = sign * 2.2
        mujoco.mj_forward(self.robot._model, self.robot._data)
        self.assertGreater(self.robot.reward(), down + 0.3)

    def test_refuses_other_models_and_tasks(self):
        with self.assertRaisesRegex(ValueError, "no task 'dance'"):
            self.robot.select("dance")
        floating = '<freejoint name="floating_base_joint"/>'
        for text, fault in ((stand_in().replace("left_knee_joint", "knee"), "left_knee_joint"),
                            (stand_in().replace('type="plane"', 'type="box"').replace('"0 0 0.05"', '"9 9 1"'),
                             "no floor"),
                            (stand_in().replace(floating, ""), "free joint")):  # fmt: skip
            with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
                file.write(text)
                file.flush()
                with self.assertRaisesRegex(ValueError, fault):
                    g1_bridge.Simulator("stand", file.name)
        with self.assertRaises(ValueError):
            g1_bridge.Simulator("stand", "no-such-file.xml")

    def test_reports_a_simulation_that_went_wrong(self):
        self.robot._data.qvel[0] = 1e12
        with self.assertRaisesRegex(RuntimeError, "reset it"):
            self.robot.advance()
        self.robot.reset(0)
        self.robot.advance()


@unittest.skipIf(humenv_bridge is None, "HumEnv is not installed: scripts/requirements-humenv.txt")
class HumEnv(unittest.TestCase):
    def setUp(self):
        self.robot = humenv_bridge.Simulator("move-ego-0-2")

    def test_a_seed_gives_the_same_episode_whatever_came_before(self):
        first = episode(self.robot, 3)
        self.assertEqual(episode(self.robot, 3), first)
        np.testing.assert_allclose([time for _, time in first], np.arange(6) / 30)

    def test_names_every_channel(self):
        self.robot.spec.validate()
        self.assertEqual((len(self.robot.spec.obs), len(self.robot.spec.action)), (358, 69))
        self.assertEqual(len(episode(self.robot, 0)[-1][0]), 358)
        env, values = self.robot._env, dict(zip((c.name for c in self.robot.spec.obs), self.robot.sense()[0]))
        self.assertAlmostEqual(values["height"], env.data.body("Pelvis").xpos[2])
        for body in ("L_Knee", "Head", "R_Hand"):
            offset = env.data.body(body).xpos - env.data.body("Pelvis").xpos
            self.assertAlmostEqual(values[f"position_{body}_z"], offset[2])
            self.assertAlmostEqual(values[f"velocity_{body}_z"], env.data.sensor(f"sensor_{body}_framelinvel").data[2])
            self.assertAlmostEqual(values[f"axes_{body}_xz"], env.data.body(body).xmat[6])
            self.assertAlmostEqual(values[f"axes_{body}_zz"], env.data.body(body).xmat[8])

    def test_rewards_are_those_of_humenv(self):
        for task in ("move-ego-0-0", "raisearms-h-l", "sitonground"):
            env = humenv_bridge.humenv.env.HumEnv(task=task, render_mode=None)
            env.reset(seed=0)
            self.robot.select(task)
            self.robot.act(np.full(69, 0.1))
            self.robot.advance()
            self.assertEqual(self.robot.reward(), env.step(np.full(69, 0.1))[1])
        self.robot.select("move-ego-0-0")
        self.assertGreater(self.robot.reward(), 0.9)

    def test_halts_at_targets_of_0(self):
        self.robot.act(np.ones(69))
        self.robot.halt()
        self.robot.advance()
        self.assertFalse(self.robot._env.data.ctrl.any())

    def test_reports_a_simulation_that_went_wrong(self):
        first = self.robot.sense()
        self.robot._env.data.qvel[0] = 1e12
        with self.assertRaisesRegex(RuntimeError, "reset it"):
            self.robot.advance()
        observation, time = self.robot.sense()  # of the state to which MuJoCo has reset the simulation
        self.assertLess(time, 0.1)
        self.assertEqual(observation, self.robot._env.get_obs()["proprio"].tolist())
        self.assertNotEqual(observation, first[0])
        self.robot.reset(0)
        self.assertEqual(self.robot.sense(), first)

    def test_refuses_an_unknown_task(self):
        with self.assertRaisesRegex(ValueError, "no task 'dance'"):
            self.robot.select("dance")


if __name__ == "__main__":
    unittest.main()
