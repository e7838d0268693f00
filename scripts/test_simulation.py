"""Tests of the simulation and of the data that it gives: python -m unittest discover scripts (needs dm_control)."""

import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_dmc
    import dmc_bridge
    import mujoco
    import numpy as np
    from fb import simulation
except ImportError as err:
    raise unittest.SkipTest(f"simulation needs scripts/requirements.txt: {err}") from err


class SimulationIsTheBridgesRobot(unittest.TestCase):
    def check(self, name):
        domain = simulation.DOMAINS[name]()
        sim = simulation.Simulation(domain, 2, seed=0)
        for column, task in enumerate(domain.tasks):
            robot = dmc_bridge.Simulator(name, task)
            robot.reset(7)
            self.place(sim, robot._env.physics.data)
            rng = np.random.default_rng(column)
            for _ in range(40):
                action = rng.uniform(-1, 1, domain.model.nu)
                robot.act(action)
                robot.advance()
                sim.step(np.tile(action, (2, 1)))
                np.testing.assert_allclose(sim.obs[0], robot.sense()[0], atol=1e-9)
                self.assertAlmostEqual(domain.reward(sim.measure())[0, column], robot.reward(), places=9)

    @staticmethod
    def place(sim, state):
        data = sim.data[0]
        mujoco.mj_resetData(sim.domain.model, data)
        data.qpos[:], data.qvel[:], data.act[:] = state.qpos, state.qvel, state.act
        mujoco.mj_forward(sim.domain.model, data)

    def test_cheetah(self):
        self.check("cheetah")

    def test_walker(self):
        self.check("walker")

    def test_quadruped(self):
        self.check("quadruped")


class ASimulation(unittest.TestCase):
    def test_leaves_what_it_returned_as_it_was(self):
        sim = simulation.Simulation(simulation.DOMAINS["cheetah"](), 2, seed=0)
        returned = sim.step(np.zeros((2, 6)))
        kept = returned.copy()
        sim.reset(0)
        sim.step(np.ones((2, 6)))
        np.testing.assert_array_equal(returned, kept)


    def test_says_where_physics_failed_instead_of_going_on_from_a_beginning(self):
        sim = simulation.Simulation(simulation.DOMAINS["cheetah"](), 2, seed=0)
        sim.data[0].qvel[:] = 1e12
        sim.step(np.zeros((2, 6)))
        np.testing.assert_array_equal(np.isfinite(sim.obs).all(1), [False, True])
        sim.reset(0)
        self.assertTrue(np.isfinite(sim.step(np.zeros((2, 6)))).all())


class Collected(unittest.TestCase):
    def test_every_domain_gives_finite_transitions_with_actions_in_range(self):
        for name, make in simulation.DOMAINS.items():
            with self.subTest(name):
                domain = make()
                rows = collect_dmc.explore(domain, 300, seed=1, copies=4, longest=40)
                self.assertTrue(all(np.isfinite(column).all() for column in rows.values()))
                self.assertLessEqual(np.abs(rows["action"]).max(), 1)
                self.assertEqual(domain.reward(rows["measure"]).shape, (len(rows["obs"]), len(domain.tasks)))

    def test_a_seed_gives_the_same_transitions(self):
        domain = simulation.DOMAINS["cheetah"]()
        first, second = (collect_dmc.explore(domain, 200, seed=3, copies=4) for _ in range(2))
        np.testing.assert_array_equal(first["next_obs"], second["next_obs"])


if __name__ == "__main__":
    unittest.main()
