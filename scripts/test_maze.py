"""Tests of the maze, of its bridge and of its data: python -m unittest discover scripts (needs ogbench)."""

import io
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_maze
    import maze_bridge
    import mujoco
    import numpy as np
    import pretrain_dmc
    import torch
    from fb import gait, navigation, simulation
except ImportError as err:
    raise unittest.SkipTest(f"the maze needs scripts/requirements.txt: {err}") from err


class Robot(unittest.TestCase):
    def setUp(self):
        self.robot = maze_bridge.Simulator("antmaze", "task1")

    def episode(self, seed):
        self.robot.reset(seed)
        rng, seen = np.random.default_rng(0), [self.robot.sense()]
        for _ in range(5):
            self.robot.act(rng.uniform(-1, 1, 8))
            self.robot.advance()
            seen.append(self.robot.sense())
        return seen

    def test_a_seed_gives_the_same_episode_whatever_came_before(self):
        first = self.episode(3)
        self.assertNotEqual(self.episode(2**40 + 3), first)
        self.assertEqual(self.episode(3), first)
        np.testing.assert_allclose([time for _, time in first], np.arange(6) * 0.1)

    def test_names_every_channel(self):
        self.robot.spec.validate()
        self.assertEqual((len(self.robot.spec.obs), len(self.robot.spec.action)), (29, 8))
        model = self.robot.env.model
        self.assertEqual([c.name for c in self.robot.spec.action],
                         [model.joint(i).name for i in model.actuator_trnid[:, 0]])
        self.assertEqual([c.name for c in self.robot.spec.obs[7:15]],
                         [f"angle.{model.joint(i).name}" for i in range(1, model.njnt)])

    def test_every_task_begins_in_its_cell_and_rewards_being_in_its_goal(self):
        self.assertEqual(self.robot.tasks, [f"task{i}" for i in range(1, 6)])
        for task, info in zip(self.robot.tasks, self.robot.env.task_infos):
            self.robot.select(task)
            self.robot.reset(1)
            self.assertEqual(maze_bridge.in_cell(self.robot.sense()[0][:2], info["init_xy"]), 1)
            self.assertEqual(self.robot.reward(), 0)
            self.robot.env.set_xy(np.add(info["goal_xy"], (1, -1)))
            self.robot.act(np.zeros(8))
            self.robot.advance()
            self.assertEqual(self.robot.reward(), 1)

    def test_a_simulation_that_goes_wrong_is_an_error_once_and_begins_again_after_a_reset(self):
        self.robot.env.unwrapped.data.qvel[:] = 1e12
        with self.assertRaisesRegex(RuntimeError, "went wrong"):
            self.robot.advance()
        self.robot.reset(1)
        self.robot.advance()
        self.assertEqual(self.robot.sense()[1], maze_bridge.PERIOD)

    def test_a_cell_ends_half_a_cell_from_its_middle(self):
        where = np.array([[4, 8], [5.9, 9.9], [6.1, 8], [4, 5.9], [8, 8]])
        self.assertEqual(maze_bridge.in_cell(where, (4, 8)).tolist(), [1, 1, 0, 0, 0])

    def test_an_unknown_maze_or_task_is_refused_and_changes_nothing(self):
        with self.assertRaisesRegex(ValueError, "antmaze"):
            maze_bridge.Simulator("antball", "task1")
        with self.assertRaisesRegex(ValueError, "task1.*task5"):
            self.robot.select("task6")
        self.assertEqual(self.robot.task, "task1")


class SimulationIsTheBridgesRobot(unittest.TestCase):
    def test_in_what_it_observes_and_rewards(self):
        domain = simulation.DOMAINS["antmaze"]()
        robot = maze_bridge.Simulator("antmaze", "task3")
        robot.reset(7)
        sim = simulation.Simulation(domain, 2, seed=0, tasks=[2, 2])
        self.assertEqual(domain.channel_names(),
                         ([c.name for c in robot.spec.obs], [c.name for c in robot.spec.action]))
        data = sim.data[1]
        mujoco.mj_resetData(domain.model, data)
        data.qpos[:], data.qvel[:] = np.split(robot.sense()[0], [15])
        mujoco.mj_forward(domain.model, data)
        rng = np.random.default_rng(0)
        for _ in range(20):
            action = rng.uniform(-1, 1, 8)
            robot.act(action)
            robot.advance()
            sim.step(np.tile(action, (2, 1)))
            np.testing.assert_allclose(sim.obs[1], robot.sense()[0], atol=1e-9)
            self.assertEqual(domain.reward(sim.measure())[1, 2], robot.reward())

    def test_in_where_its_episodes_begin(self):
        domain = simulation.DOMAINS["antmaze"]()
        sim = simulation.Simulation(domain, 5, seed=0, tasks=range(5))
        self.assertLessEqual(np.abs(sim.measure() - domain.starts).max(), 1)
        anywhere = simulation.Simulation(domain, 40, seed=0).measure()
        nearest = np.abs(anywhere[:, None] - domain.free).max(-1)
        self.assertLessEqual(nearest.min(1).max(), 1)
        self.assertGreater(len(set(nearest.argmin(1))), 13)


class Ways(unittest.TestCase):
    def test_lead_to_every_cell_by_the_shortest_way(self):
        free = np.array([[1, 1, 1], [1, 0, 1], [1, 0, 1]], bool)  # cells: 0 1 2, 3 4, 5 6
        following = navigation.next_cells(free)
        self.assertEqual(following[5].tolist(), [3, 3, 3, 3, 3, 5, 3])
        self.assertEqual(following[:, 6].tolist(), [1, 2, 4, 0, 6, 3, 6])

    def test_there_is_none_to_a_cell_behind_walls(self):
        following = navigation.next_cells(np.array([[1, 0, 1]], bool))
        self.assertEqual(following.tolist(), [[0, -1], [-1, 1]])


class Expert(unittest.TestCase):
    GAMMA = 0.9

    def setUp(self):
        free = np.array([[1, 1, 1, 1, 1]], bool)
        cells = np.stack([4.0 * np.arange(5), np.zeros(5)], -1)
        self.ways = navigation.Ways(free, cells, size=4.0)
        self.expert = navigation.Expert(self.ways, self.GAMMA, steps=3)

    def goals(self, worth):
        return self.expert.goal(self.ways.cells, np.tile(worth, (5, 1))).tolist()

    def test_goes_where_going_and_staying_is_worth_the_most(self):
        self.assertEqual(self.goals([0, 0, 0, 0, 1]), [4] * 5)
        self.assertEqual(self.goals([-1, -2, -3, -2, -1]), [0, 0, 0, 4, 4])
        self.assertEqual(self.goals([0.6, 0, 0, 0, 1]), [0, 0, 4, 4, 4])  # of cell 1: 0.6 kept is more than kept^3

    def test_counts_the_discounted_time_in_every_cell_as_a_walk_does(self):
        spent = np.zeros(5)
        for step in range(2000):
            spent[min(1 + step // 3, 4)] += (1 - self.GAMMA) * self.GAMMA**step
        np.testing.assert_allclose(self.expert.occupancy[1, 4], spent, atol=1e-6)

    def test_looks_at_places_all_over_a_cell_and_nowhere_else(self):
        places = self.expert.places(points=3)
        self.assertEqual(places.shape, (5, 9, 2))
        np.testing.assert_allclose(places.mean(1), self.ways.cells, atol=1e-9)
        self.assertTrue((self.ways.here(places.reshape(-1, 2)) == np.repeat(np.arange(5), 9)).all())
        self.assertGreater(np.abs(places - self.ways.cells[:, None]).max(), 1.3)

    def test_walks_to_the_middle_of_its_goal_and_marches_there(self):
        xy = np.array([[0.0, 0], [15, 0], [16.2, 0.1]])
        direction, speed = self.ways.towards(xy, np.array([4, 4, 4]))
        np.testing.assert_allclose(direction[:2], 0)
        np.testing.assert_allclose(speed, [1, 0.7, 0], atol=1e-9)

    def test_is_refused_where_cells_cannot_be_reached(self):
        ways = navigation.Ways(np.array([[1, 0, 1]], bool), np.array([[0.0, 0], [8, 0]]), size=4.0)
        with self.assertRaisesRegex(ValueError, "no way"):
            navigation.Expert(ways, self.GAMMA, steps=3)

    def test_brings_the_ant_to_the_goal_of_a_task_and_keeps_it_there(self):
        domain = simulation.DOMAINS["antmaze"]()
        sim = simulation.Simulation(domain, 5, seed=0, tasks=range(5))
        expert, worth = domain.expert(0.99), (np.abs(domain.goals[:, None] - domain.free).max(-1) < 1).astype(float)
        inside = np.zeros(5)
        for step in range(800):
            sim.step(expert.act(sim.obs, worth))
            inside += domain.reward(sim.measure())[np.arange(5), np.arange(5)] if step >= 600 else 0
        np.testing.assert_array_equal(inside, 200)


class Learning(unittest.TestCase):
    def trainer(self, folder, *options):
        domain = simulation.DOMAINS["antmaze"]()
        path = folder / "data.npz"
        np.savez(path, **collect_maze.walk(domain, 200, seed=0, copies=4))
        args = pretrain_dmc.parse_arguments([
            "antmaze",
            str(path), "--out",
            str(folder / "run"), "--hidden", "16", "--b-hidden", "16", "--latent", "5", "--batch", "32", "--copies",
            "2", "--b-of-base", "--expert", "2", *options
        ])
        args.name = args.domain
        args.observation, args.action = domain.channel_names()
        torch.manual_seed(0)
        return pretrain_dmc.Pretraining(args, domain, pretrain_dmc.load_transitions(path))

    def test_is_from_what_the_expert_would_do_for_the_same_z(self):
        with tempfile.TemporaryDirectory() as name:
            trainer = self.trainer(Path(name))
            asked, tasks = [], []
            act, actor = trainer.expert.act, trainer.model.actor.forward
            with (unittest.mock.patch.object(trainer.expert, "act", side_effect=lambda *a: asked.append(a) or act(*a)),
                  unittest.mock.patch.object(trainer.model.actor, "forward",
                                             side_effect=lambda *a: tasks.append(a) or actor(*a))):
                trainer.update()
            self.assertEqual(len(asked), 2)
            for (obs, worth), (seen, z) in zip(asked, tasks[-2:]):
                np.testing.assert_allclose(trainer.model.normalize(torch.as_tensor(obs)), seen)
                rewarded = (z @ self.rewarded(trainer)).numpy()
                np.testing.assert_allclose(worth, rewarded, atol=0.02 * np.abs(rewarded).max())

    @staticmethod
    def rewarded(trainer):
        """[d, cells]: what times z is the mean reward phi^T z of points all over each cell."""
        model, cells = trainer.model, trainer.domain.free
        offsets = [np.array([x, y]) for x in (-4 / 3, 0, 4 / 3) for y in (-4 / 3, 0, 4 / 3)]
        middles = np.concatenate([np.concatenate([cells + o, np.zeros((26, 27))], -1) for o in offsets])
        with torch.no_grad():
            b = model.backward_map(model.normalize(torch.as_tensor(middles, dtype=torch.float32)))
            return trainer.tasks.inverse @ b.reshape(9, 26, -1).mean(0).T

    def test_brings_the_actor_nearer_to_the_expert(self):
        with tempfile.TemporaryDirectory() as name:
            trainer = self.trainer(Path(name), "--lr", "1e-3")
            away = [float(trainer.update()["expert"]) for _ in range(100)]
            self.assertLess(np.mean(away[-20:]), 0.8 * np.mean(away[:20]))

    def test_from_an_expert_needs_a_maze_and_a_b_of_the_place_and_nothing_else_to_learn_from(self):
        wrong = {
            "needs a maze": ("cheetah", []), "--b-of-base": ("antmaze", ["--no-b-of-base"]),
            "--bc": ("antmaze", ["--bc", "1"]), "--saturation": ("antmaze", ["--saturation", "1"])
        }
        for message, (domain, options) in wrong.items():
            with (
                self.subTest(message),
                self.assertRaises(SystemExit),
                unittest.mock.patch("sys.stderr", io.StringIO()) as said,
            ):
                pretrain_dmc.parse_arguments(
                    [domain, "x.npz", "--out", "run", "--b-of-base", "--expert", "1", *options])
            self.assertIn(message, said.getvalue())


class Gait(unittest.TestCase):
    def walked(self, directions, speed, steps):
        """Metres [n, 2] that ants walk on open ground, from poses as episodes begin with them."""
        model, rng = collect_maze.open_ground(), np.random.default_rng(0)
        ants = [mujoco.MjData(model) for _ in directions]
        for ant in ants:
            ant.qpos[3:] += rng.uniform(-0.1, 0.1, model.nq - 3)
        for _ in range(steps):
            obs = np.stack([np.concatenate([ant.qpos, ant.qvel]) for ant in ants])
            for ant, action in zip(ants, gait.torques(gait.TROT, obs, directions, np.full(len(ants), speed))):
                ant.ctrl[:] = action
                mujoco.mj_step(model, ant, round(0.1 / model.opt.timestep))
        return np.stack([ant.qpos[:2] for ant in ants])

    def test_walks_in_any_direction_at_the_speed_that_it_says(self):
        directions = np.arange(8) * np.pi / 4
        along = np.stack([np.cos(directions), np.sin(directions)], -1)
        speed = (self.walked(directions, 1, 100) * along).sum(-1) / 10
        self.assertGreater(speed.min(), 1)
        self.assertAlmostEqual(speed.mean(), gait.SPEED, delta=0.2)

    def test_marches_on_the_spot_where_there_is_nowhere_to_go(self):
        self.assertLess(np.abs(self.walked(np.zeros(2), 0, 100)).max(), 1.5)

    def test_reads_off_the_joints_where_in_its_stride_it_is(self):
        yaw, direction, speed = np.zeros(16), np.full(16, 0.3), np.ones(16)
        true, moment = np.arange(16) * np.pi / 8, 1e-4
        angle, later = (gait.angles(gait.TROT, true + dt * 2 * np.pi * gait.TROT.frequency, yaw, direction, speed)
                        for dt in (0, moment))
        read = gait.phase(gait.TROT, angle, (later - angle) / moment, yaw, direction, speed)
        np.testing.assert_allclose(read, true)

    def test_tells_the_same_joints_apart_by_which_way_they_move(self):
        lift = -gait.TROT.lead  # where a marching ant lifts a leg fastest; half a stride later it lowers it as fast
        true, still = np.array([lift, lift + np.pi]), np.zeros(2)
        angle = gait.angles(gait.TROT, true, still, still, still)
        np.testing.assert_allclose(*angle, atol=1e-9)
        a_little_later = gait.angles(gait.TROT, true + 1e-4, still, still, still)
        rate = (a_little_later - angle) / 1e-4 * 2 * np.pi * gait.TROT.frequency
        np.testing.assert_allclose(rate[0], -rate[1], atol=1e-6)
        np.testing.assert_allclose(gait.phase(gait.TROT, angle, rate, still, still, still), true, atol=np.pi / 8)


class Walks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.domain = simulation.DOMAINS["antmaze"]()

    def walk(self, seed):
        return collect_maze.walk(self.domain, 600, seed, copies=4, longest=60)

    def test_a_seed_gives_the_same_transitions(self):
        first, second, other = self.walk(1), self.walk(1), self.walk(2)
        for name, column in first.items():
            np.testing.assert_array_equal(column, second[name])
        self.assertFalse(np.array_equal(first["obs"], other["obs"]))

    def test_are_whole_episodes_of_finite_transitions_with_actions_in_range(self):
        rows = self.walk(1)
        self.assertEqual({len(column) for column in rows.values()}, {600})
        self.assertTrue(all(np.isfinite(column).all() for column in rows.values()))
        self.assertLessEqual(np.abs(rows["action"]).max(), 1)
        same = rows["episode"][1:] == rows["episode"][:-1]
        np.testing.assert_array_equal(rows["next_obs"][:-1][same], rows["obs"][1:][same])
        self.assertTrue((np.diff(rows["episode"])[~same] > 0).all())

    def test_end_where_the_ant_was_and_not_where_the_next_one_begins(self):
        rows = self.walk(1)
        self.assertGreater(np.count_nonzero(np.diff(rows["episode"])), 5)
        np.testing.assert_array_equal(rows["next_obs"][:, :2], rows["measure"])
        self.assertLess(np.abs(rows["next_obs"][:, :2] - rows["obs"][:, :2]).max(), 1.5)

    def test_an_ant_on_its_back_is_told_from_one_on_its_feet(self):
        obs = np.zeros((3, 29))
        obs[0, 3], obs[1, 4], obs[2, 3:7] = 1, 1, (0.7, 0, 0, 0.7)  # upright, upside down, turned
        self.assertEqual(collect_maze.lies(obs).tolist(), [False, True, False])


if __name__ == "__main__":
    unittest.main()
