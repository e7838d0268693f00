"""Tests of the pre-training: python -m unittest discover scripts (needs torch and dm_control)."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
import unittest.mock
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_dmc
    import evaluate_dmc
    import mujoco
    import numpy as np
    import pretrain_dmc
    import torch
    from fb import (
        bundle,
        commands,
        curiosity,
        flat,
        losses,
        oscillations,
        recording,
        righting,
        simulation,
        td3,
        zeroshot,
    )
    from fb.networks import Architecture, Model, on_sphere
    from safetensors.torch import load_file
except ImportError as err:
    raise unittest.SkipTest(f"pre-training needs scripts/requirements.txt: {err}") from err


class AFullReplay(unittest.TestCase):
    def test_forgets_the_oldest_and_comes_back_from_a_checkpoint_as_it_was(self):
        def rows(values):
            return {name: np.repeat(values, 2).reshape(-1, 2) for name in ("obs", "action", "next_obs", "measure")}

        replay = pretrain_dmc.Replay(4, rows([0.0, 1, 2]))
        replay.add(rows([3.0, 4]))
        self.assertEqual(replay.columns["obs"][:, 0].tolist(), [4, 1, 2, 3])
        again = pretrain_dmc.Replay(4, rows([9.0]))
        again.restore(replay.state())
        again.add(rows([5.0]))
        self.assertEqual(again.columns["measure"][:, 0].tolist(), [4, 5, 2, 3])
        roomier = pretrain_dmc.Replay(6, rows([9.0]))
        roomier.restore(replay.state())
        roomier.add(rows([5.0, 6, 7]))
        self.assertEqual((roomier.columns["measure"][:, 0].tolist(), roomier.size), ([7, 2, 3, 4, 5, 6], 6))
        with self.assertRaisesRegex(SystemExit, "the checkpoint has 4 transitions"):
            pretrain_dmc.Replay(3, rows([9.0])).restore(replay.state())


class RowsThatComeLater(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        values = np.arange(7.0)[:, None]
        first = {name: values for name in ("obs", "action", "next_obs", "measure")}
        first["left"] = pretrain_dmc.left_in_episode(np.array([0, 0, 0, 0, 3, 3, 5]))
        self.replay = pretrain_dmc.Replay(10, first)

    def test_are_of_the_same_episode(self):
        self.assertEqual(self.replay.columns["left"][:7, 0].tolist(), [3, 2, 1, 0, 1, 0, 0])
        rows = torch.arange(7).repeat(200)
        later = self.replay.later(rows, 0.5).reshape(200, 7)
        self.assertEqual(later.min(0).values.tolist(), list(range(7)))
        self.assertEqual(later.max(0).values.tolist(), [3, 3, 3, 3, 5, 5, 6])

    def test_are_as_far_away_as_the_discount_looks(self):
        later = self.replay.later(torch.zeros(20_000, dtype=torch.long), 0.5)
        torch.testing.assert_close(
            torch.bincount(later) / 20_000, torch.tensor([0.5, 0.25, 0.125, 0.125]), atol=0.02, rtol=0)

    def test_are_found_in_a_file_where_episodes_take_turns(self):
        with tempfile.TemporaryDirectory() as name:
            path, values = Path(name) / "data.npz", np.arange(6.0)[:, None]
            np.savez(path, obs=values, action=values / 5, next_obs=values, measure=values, episode=[4, 2, 4, 2, 4, 2])
            rows = pretrain_dmc.load_transitions(path)
        self.assertEqual(rows["obs"][:, 0].tolist(), [1, 3, 5, 0, 2, 4])
        self.assertEqual(rows["left"][:, 0].tolist(), [2, 1, 0, 2, 1, 0])

    def test_of_practice_are_the_rows_themselves(self):
        self.replay.add({name: np.ones((2, 1)) for name in ("obs", "action", "next_obs", "measure")})
        self.assertEqual(self.replay.later(torch.tensor([7, 8]), 0.9).tolist(), [7, 8])


class RandomRewards(unittest.TestCase):
    def test_are_about_every_group_of_channels_equally_but_for_what_is_kept_for_the_base(self):
        names = ["position.0", "position.1", "height"]
        torch.testing.assert_close(pretrain_dmc.channel_shares(names), torch.tensor([0.25, 0.25, 0.5]))
        shares = pretrain_dmc.channel_shares(names, base=("height", "position.0"), base_share=0.5)
        torch.testing.assert_close(shares, torch.tensor([0.375, 0.125, 0.5]))

    def test_vary_by_one_around_any_mean(self):
        torch.manual_seed(0)
        reward = pretrain_dmc.random_rewards(torch.randn(500, 4), torch.ones(4), 400)
        self.assertLess((reward.std(0) - 1).abs().median(), 0.01)
        self.assertTrue(((reward.mean(0) >= -0.51) & (reward.mean(0) <= 2.01)).all())

    def test_tasks_are_on_the_sphere_and_of_the_kinds_asked_for(self):
        torch.manual_seed(0)
        model = Model(Architecture(obs=4, action=2, latent=6, hidden=8, b_hidden=8))
        obs = torch.randn(64, 4)
        tasks = pretrain_dmc.Tasks.of(model, obs, pretrain_dmc.random_rewards(obs, torch.ones(4), 16),
                                      torch.rand(64, 3))
        kinds = {"states": tasks.states, "rewards": tasks.rewards, "commands": tasks.commands}
        for kind, rows in kinds.items():
            z = tasks.sample(40, *(float(kind == k) for k in kinds))
            torch.testing.assert_close(z.norm(dim=-1), torch.full((40,), 6**0.5))
            self.assertLess(torch.cdist(z, on_sphere(rows)).min(1).values.max(), 1e-2)

    def test_of_commands_say_how_well_each_state_obeys(self):
        cheetah = simulation.DOMAINS["cheetah"]()
        speeds = torch.tensor([[-20.0], [0.0], [20.0]])
        reward = pretrain_dmc.command_rewards(cheetah, speeds, np.random.default_rng(0), 50)
        self.assertEqual(reward.shape, (3, 50))
        # As fast as any command asks for, but in one direction.
        torch.testing.assert_close(reward[0] + reward[2], torch.ones(50))
        self.assertEqual(reward[1].abs().max(), 0)


class FlatParameters(unittest.TestCase):
    def test_are_the_modules_own(self):
        module = torch.nn.Linear(3, 2)
        whole = flat.Flat(module)
        x = torch.randn(5, 3)
        loss = module(x).square().sum()
        want = torch.autograd.grad(loss, list(module.parameters()), retain_graph=True)
        flat.backward(loss, whole)
        torch.testing.assert_close(whole.vector.grad, torch.cat([g.reshape(-1) for g in want]))
        with torch.no_grad():
            whole.vector.zero_()
        self.assertEqual(module(x).abs().sum(), 0)


class Curiosity(unittest.TestCase):
    def test_novelty_falls_where_it_has_been(self):
        torch.manual_seed(0)
        novelty, here = curiosity.Novelty(3), torch.randn(64, 3)
        first = novelty.learn(here) * novelty.scale
        for _ in range(200):
            last = novelty.learn(here) * novelty.scale
        self.assertLess(last.mean(), 0.1 * first.mean())

    def test_its_transitions_are_finite_and_their_number_is_what_was_asked_for(self):
        domain = simulation.DOMAINS["cheetah"]()
        first = collect_dmc.explore(domain, 100, seed=0, copies=4)
        with unittest.mock.patch.object(simulation, "EPISODE_STEPS", 4):
            rows = curiosity.explore(domain, first, transitions=60, seed=0, copies=8, updates=1)
        check_episodes(self, rows, first, 60)


class APreset(unittest.TestCase):
    def parse(self, *more):
        return pretrain_dmc.parse_arguments(["cheetah", "data.npz", "--out", "run", *more])

    def test_sets_the_papers_settings_which_options_change(self):
        self.assertEqual((self.parse().hidden, self.parse().practice_every), (128, 4))
        paper = self.parse("--preset", "paper")
        want = {
            "gamma": 0.98, "batch": 1024, "lr": 1e-4, "lr_b": 1e-4, "lr_end": 1, "tau": 0.01, "actor_std": 0.2,
            "actor_clip": 0.3, "z_from_data": 0.5, "z_from_rewards": 0, "latent": 50, "hidden": 1024, "b_hidden": 256,
            "pessimism": 0.5, "practice_every": 0
        }
        self.assertEqual({name: getattr(paper, name) for name in want}, want)
        for argv in (["--hidden", "256", "--norm-obs", "--preset",
                      "paper"], ["--preset=paper", "--norm-obs", "--hidden=256"]):
            mixed = self.parse(*argv)
            self.assertEqual((mixed.hidden, mixed.norm_obs, mixed.batch), (256, True, 1024))

    def test_names_only_settings_that_there_are(self):
        self.assertLessEqual(set(pretrain_dmc.PRESETS["paper"]), set(vars(self.parse())))
        for wrong in (["--preset", "papers"], ["--preset"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                self.parse(*wrong)
            self.assertIn("--preset", said.getvalue())

    def test_weighs_the_parts_of_the_loss_as_the_papers_code_does(self):
        # That code: a mean over members and pairs of squares, less twice a mean over the diagonal,
        # for both parts.
        torch.manual_seed(0)
        n, d, gamma = 12, 4, 0.98
        f, target_f = torch.randn(2, n, d), torch.randn(2, n, d)
        b, target_b = torch.randn(n, d, requires_grad=True), torch.randn(n, d)
        others = 1 - torch.eye(n)
        diff = f @ b.T - gamma * (target_f @ target_b.T).mean(0)
        measure = (diff * others).square().sum() / (2 * n * (n - 1)) - 2 * diff.diagonal(dim1=1, dim2=2).mean()
        gram = b @ b.T
        ortho = (gram * others).square().sum() / (n * (n - 1)) - 2 * gram.diagonal().mean()
        ours = losses.successor_measure_loss(f, b, target_f, target_b, gamma)
        ours = ours + self.parse("--preset", "paper").ortho * losses.orthonormality_loss(b)
        theirs, mine = (torch.autograd.grad(loss, b)[0] for loss in (measure + 1.0 * ortho, ours))
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)

    def test_trains(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savez(folder / "data.npz", **collect_dmc.explore(simulation.DOMAINS["cheetah"](), 60, seed=0, copies=4))
            PreTraining.pretrain(folder, "4", "--preset", "paper")
            settings = json.loads((folder / "run" / "best" / "bfm.json").read_text())
            self.assertIn("ortho=2.0", settings["provenance"]["settings"])
            self.assertEqual(settings["provenance"]["transitions"], "60 recorded, no practice")
            self.assertFalse(settings["architecture"]["norm_obs"])
            content = torch.load(folder / "run" / "checkpoint.pt", weights_only=True)
            for key, value in content["model"].items():  # what is evaluated and saved are the weights themselves
                torch.testing.assert_close(content["average"][key], value)
def check_episodes(test, rows, first, transitions):
    """Rows of some short episodes, whole but for the last ones, numbered on after first's."""
    test.assertEqual({len(column) for column in rows.values()}, {transitions})
    test.assertTrue(all(np.isfinite(column).all() for column in rows.values()))
    test.assertGreater(rows["episode"].min(), first["episode"].max())
    test.assertGreater(len(set(rows["episode"])), 8)
    for number in set(rows["episode"]):
        one = rows["episode"] == number
        np.testing.assert_array_equal(rows["obs"][one][1:], rows["next_obs"][one][:-1])


class Collecting(unittest.TestCase):
    def test_every_row_says_how_it_came_about(self):
        with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
            path = Path(name) / "data.npz"
            collect_dmc.main(
                ["cheetah", "--transitions", "80", "--curious", "40", "--commanded", "50", "--out", str(path)]
            )
            with np.load(path) as rows:
                counts = {name: int(rows[name].sum()) for name in recording.SOURCES}
                self.assertEqual((len(rows["obs"]), counts), (170, {"curious": 40, "oscillating": 0, "commanded": 50}))

    def test_what_a_domain_cannot_do_is_said_before_anything_is_recorded(self):
        for wrong, said in (
            (["walker", "--oscillating", "5"], "nothing to search gaits of the walker for"),
            (["antmaze", "--commanded", "5"], "the antmaze takes no commands"),
            (["walker", "--transitions", "0"], "give 1 or more"),
            (["walker", "--commanded", "-5"], "give 0 or more"),
            (["walker", "--out", "/nowhere/x.npz"], "/nowhere is not a folder"),
        ):
            with self.subTest(wrong), contextlib.redirect_stderr(
                    io.StringIO()) as printed, self.assertRaises(SystemExit):
                collect_dmc.parse_arguments(["--out", "x.npz", *wrong])
            self.assertIn(said, printed.getvalue())


class Commands(unittest.TestCase):
    def test_are_obeyed_between_not_at_all_and_wholly_whatever_is_measured(self):
        rng = np.random.default_rng(0)
        for name in ("cheetah", "walker", "quadruped"):
            domain = simulation.DOMAINS[name]()
            measure = 5 * rng.normal(size=(500, len(domain.measure(mujoco.MjData(domain.model)))))
            command = domain.commands(rng, 500)
            tilts = {"walker": 1, "quadruped": 0}
            if name in tilts:
                measure[:, tilts[name]] = rng.uniform(-1, 1, 500)
            obeyed = domain.obeyed(measure, command)
            self.assertEqual(obeyed.shape, (500,))
            self.assertTrue((obeyed >= 0).all() and (obeyed <= 1).all(), name)

    def test_of_the_walker_ask_for_speed_for_turning_or_for_neither(self):
        walker = simulation.DOMAINS["walker"]()
        states = {
            "standing": [1.3, 1, 0, 0], "walking": [1.3, 1, 4, 0], "flipping": [1.3, 1, 0, 8], "lying": [0.1, 0, 0, 0]
        }
        commands = {"standing": [0, 0], "walking": [0.5, 0], "flipping": [0, 1]}
        for wanted, command in commands.items():
            obeyed = {
                name: walker.obeyed(np.array([m], float), np.array([command], float))[0] for name, m in states.items()
            }
            self.assertEqual(max(obeyed, key=obeyed.get), wanted, obeyed)
            self.assertAlmostEqual(obeyed[wanted], 1)

    def test_come_and_go_within_whole_episodes_that_are_numbered_on(self):
        domain = simulation.DOMAINS["cheetah"]()
        first = collect_dmc.explore(domain, 100, seed=0, copies=4)
        with unittest.mock.patch.object(commands, "EPISODE_STEPS", 4):
            rows = commands.explore(domain, first, transitions=60, seed=0, copies=8, updates=1)
        check_episodes(self, rows, first, 60)

    def test_stopped_from_the_keyboard_leave_what_there_is(self):
        domain = simulation.DOMAINS["cheetah"]()
        first = collect_dmc.explore(domain, 100, seed=0, copies=4)
        with (unittest.mock.patch.object(td3.Agent, "learn", side_effect=[None, None, KeyboardInterrupt]),
              contextlib.redirect_stdout(io.StringIO())):
            rows = commands.explore(domain, first, transitions=1000, seed=0, copies=8, updates=1)
        self.assertEqual({len(column) for column in rows.values()}, {24})


class Oscillations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.domain = simulation.DOMAINS["quadruped"]()

    def test_that_are_searched_for_move_it_further_than_random_ones(self):
        gaits, values = oscillations.search(self.domain, (1, 0), seed=0, first=32, rounds=6, kept=2, children=3,
                                            steps=30)
        self.assertEqual(len(gaits), 2)
        self.assertGreaterEqual(values[0], values[1])
        rng = np.random.default_rng(7)
        random = [oscillations.Oscillation.random(rng, 12, 4) for _ in range(8)]
        # Judged in episodes that the search did not choose by.
        judged = oscillations.obedience(simulation.Simulation(self.domain, 16, seed=9), [gaits[0]] * 8 + random, (1, 0),
                                        30)
        self.assertGreater(judged[:8].mean(), judged[8:].mean() + 2 * judged[8:].std() / 8**0.5)

    def test_of_all_limbs_are_alike_but_for_when_and_to_which_side(self):
        gait = oscillations.Oscillation.random(np.random.default_rng(1), 12, 4)
        self.assertEqual(len(set(gait.level.reshape(4, 3)[:, 1])), 1)
        np.testing.assert_array_equal(np.abs(gait.swing).reshape(4, 3), np.tile(np.abs(gait.swing[:3]), (4, 1)))
        np.testing.assert_allclose(np.diff(np.angle(np.exp(1j * np.diff(gait.phase.reshape(4, 3), axis=0))), axis=1), 0,
                                   atol=1e-9)
        np.testing.assert_array_equal(gait.at(0.3, stride=0), np.clip(gait.level, -1, 1))

    def test_become_whole_episodes_that_are_numbered_on(self):
        found = [oscillations.Oscillation.random(np.random.default_rng(2), 12, 4)], np.array([0.5])
        first = collect_dmc.explore(self.domain, 50, seed=0, copies=4)
        with (
            unittest.mock.patch.object(oscillations, "search", return_value=found),
            contextlib.redirect_stdout(io.StringIO()),
            unittest.mock.patch.object(righting, "search", return_value=[]),
            unittest.mock.patch.object(oscillations, "EPISODE_STEPS", 6),
        ):
            rows = oscillations.explore(self.domain, first, transitions=60, seed=0, copies=4)
        check_episodes(self, rows, first, 60)

    def test_of_a_robot_on_its_back_wait_until_it_has_gone_through_all_poses_of_righting_itself(self):
        gait = oscillations.Oscillation(1, np.full(12, 0.9), np.zeros(12), np.zeros(12))
        poses = np.stack([np.full(12, x) for x in (0.1, 0.2, 0.3)])
        walkers = oscillations.Walkers(self.domain, 1, 0, 0, [gait], [poses])
        tilts = [1, -1, *[-1] * oscillations.LYING, *[1] * (righting.HOLD * righting.POSES + 1), -1, 1]
        done = []
        for tilt in tilts:
            with unittest.mock.patch.object(self.domain, "uprightness", return_value=np.array([tilt])):
                walkers.lie()
            done.append(walkers.intended(0)[0])
        walks, lies = walkers.gait[0].at(walkers.time[0], walkers.stride[0])[0], oscillations.LYING - 1
        want = [walks, *[0] * lies, *np.repeat([0.1, 0.2, 0.3], righting.HOLD)]
        np.testing.assert_allclose(done[: len(want)], want)
        self.assertEqual([x == 0 for x in done[-2:]], [True, False])


class Righting(unittest.TestCase):
    def setUp(self):
        self.sim = simulation.Simulation(simulation.DOMAINS["quadruped"](), 4, seed=0)

    def test_begins_from_robots_at_rest_on_their_backs(self):
        self.sim.restore(righting.fallen_states(self.sim, 4))
        np.testing.assert_array_less(self.sim.domain.uprightness(self.sim.measure()), -righting.UPRIGHT)
        self.assertLess(max(np.abs(d.qvel).max() for d in self.sim.data), 1)

    def test_is_given_up_where_no_robot_falls_on_its_back(self):
        with (unittest.mock.patch.object(self.sim.domain, "uprightness", return_value=np.ones(righting.POPULATION)),
              unittest.mock.patch.object(righting, "FALLS", 1), contextlib.redirect_stdout(io.StringIO()) as printed):
            self.assertEqual(righting.search(self.sim.domain, seed=0), [])
        self.assertIn("none came to rest on its back", printed.getvalue())

    def test_learns_from_the_few_that_fall_on_their_backs(self):
        seen = []
        with (unittest.mock.patch.object(righting, "fallen_states", return_value=np.arange(6.0).reshape(2, 3)),
              unittest.mock.patch.object(righting, "attempt",
                                         side_effect=lambda _, states: seen.append(states) or np.zeros((3, 12))),
              unittest.mock.patch.object(righting, "outcome", return_value=(np.ones(righting.POPULATION), None))):
            righting.search(self.sim.domain, seed=0, kept=1)
        self.assertEqual(seen[0].shape, (righting.POPULATION, 3))
        np.testing.assert_array_equal(np.unique(seen[0], axis=0), [[0, 1, 2], [3, 4, 5]])

    def test_looks_for_the_poses_that_come_out_best(self):
        def outcome(_, poses, states):  # the nearer to 0.5 the better
            near = -np.abs(poses - 0.5).mean((1, 2))
            return near, near

        with unittest.mock.patch.object(righting, "outcome", side_effect=outcome):
            found = righting.attempt(self.sim, np.zeros((4, 1)))
        self.assertLess(np.abs(found - 0.5).mean(), 0.15)

    def test_takes_physics_that_failed_for_no_way_up(self):
        states = righting.fallen_states(self.sim, 4)
        states[0, 1] = 1e12
        end, best = righting.outcome(self.sim, np.zeros((4, righting.POSES, 12)), states)
        np.testing.assert_array_equal([end[0], best[0]], -1)

    def test_keeps_only_what_gets_most_robots_up(self):
        up, down = np.full(4, 0.9), np.full(4, -1.0)
        attempts = [np.full((righting.POSES, 12), x) for x in (1.0, 2.0, 3.0)]
        with (unittest.mock.patch.object(righting, "POPULATION",
                                         4), unittest.mock.patch.object(righting, "attempt", side_effect=attempts),
              unittest.mock.patch.object(righting, "outcome", side_effect=[(down, up), (up, up), (up, up)])):
            found = righting.search(self.sim.domain, seed=0)
        self.assertEqual([(poses[0, 0], part) for poses, part in found], [(2.0, 1.0), (3.0, 1.0)])


class BOfBase(unittest.TestCase):
    SEEN = (0, 1, 8, 9, 10)  # position.0 to .7, velocity.0 to .8

    def check(self, folder, *steps_and_options):
        rows = collect_dmc.explore(simulation.DOMAINS["cheetah"](), 400, seed=0, copies=4)
        np.savez(folder / "data.npz", **rows)
        for steps, options in steps_and_options:
            # At these rates what leaks into B is soon in its target and in the average.
            PreTraining.pretrain(folder, steps, "--lr-b", "0.01", "--tau", "0.5", "--average", "0.5", *options)
        content = torch.load(folder / "run" / "checkpoint.pt", weights_only=True)
        for model in ("model", "average"):
            for b in ("backward_map", "target_backward"):
                weight = content[model][f"{b}.net.0.weight"]
                self.assertEqual(weight.any(0).nonzero().ravel().tolist(), list(self.SEEN), (model, b))

    def test_sees_the_base_and_nothing_else_however_long_it_is_trained(self):
        with tempfile.TemporaryDirectory() as name:
            self.check(Path(name), ("8", ["--b-of-base"]))

    def test_goes_on_with_a_model_that_saw_everything(self):
        with tempfile.TemporaryDirectory() as name:
            self.check(Path(name), ("4", []), ("8", ["--b-of-base"]))


class TD3(unittest.TestCase):
    def test_learns_what_pays_and_values_it_as_the_discount_says(self):
        torch.manual_seed(0)
        agent = td3.Agent(1, 1, gamma=0.5)
        for _ in range(800):
            seen, action = torch.rand(256, 1) * 2 - 1, torch.rand(256, 1) * 2 - 1
            agent.learn(seen, action, 1 - (action - 0.5 * seen).square().squeeze(-1), torch.rand(256, 1) * 2 - 1)
        seen = torch.linspace(-0.9, 0.9, 7)[:, None]
        action = torch.tanh(agent.actor(seen))
        torch.testing.assert_close(action, 0.5 * seen, atol=0.15, rtol=0)
        # The noise of targets costs some of 1 + 0.5 + 0.25 + ... = 2.
        torch.testing.assert_close(
            agent.values(agent.critics, seen, action).mean(), torch.tensor(1.95), atol=0.1, rtol=0)


class PreTraining(unittest.TestCase):
    def test_resumes_and_leaves_the_best_bundle_with_an_oracle_for_every_task(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            domain = simulation.DOMAINS["cheetah"]()
            np.savez(folder / "data.npz", **collect_dmc.explore(domain, 400, seed=0, copies=8))
            for steps in ("4", "8"):
                self.pretrain(folder, steps)
            content = torch.load(folder / "run" / "checkpoint.pt", weights_only=True)
            self.assertEqual((content["step"], len(content["replay"]["columns"]["obs"])), (8, 400 + 2 * 4))
            oracle = json.loads((folder / "run" / "best" / "oracle.json").read_text())
            self.assertEqual(list(oracle["z"]), domain.tasks)
            description = json.loads((folder / "run" / "best" / "bfm.json").read_text())
            self.assertEqual(description["observation"][0]["name"], "position.0")
            self.check_exported(folder)

    def test_of_recorded_episodes_only_takes_tasks_from_what_they_came_to(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows = collect_dmc.explore(simulation.DOMAINS["cheetah"](), 400, seed=0, copies=8)
            np.savez(folder / "data.npz", **rows | {"episode": np.arange(400) % 8})
            self.pretrain(folder, "4", "--practice-every", "0", "--z-from-future", "0.5", "--bc", "1")
            content = torch.load(folder / "run" / "checkpoint.pt", weights_only=True)
            self.assertEqual(len(content["replay"]["columns"]["obs"]), 400)
            self.assertEqual(content["replay"]["columns"]["left"].max(), 49)

    def test_with_best_by_rewards_chooses_the_bundle_by_random_rewards(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savez(folder / "data.npz", **collect_dmc.explore(simulation.DOMAINS["cheetah"](), 400, seed=0, copies=8))
            scores = iter((0.5, -0.1, 0.7, 0.6))

            def score(*_):
                return next(scores)

            with unittest.mock.patch.object(pretrain_dmc.Pretraining, "score_random_rewards", score):
                self.pretrain(folder, "4", "--best-by", "rewards", "--eval-every", "1")
            self.assertEqual(json.loads((folder / "run" / "best" / "oracle.json").read_text())["updates"], 3)

    def test_visits_the_states_of_following_each_z(self):
        domain = simulation.DOMAINS["cheetah"]()
        sim = simulation.Simulation(domain, 2, seed=3)
        model = Model(Architecture(obs=sim.obs.shape[1], action=6, latent=4, hidden=8, b_hidden=8))
        z = on_sphere(torch.randn(2, 4))
        visited = zeroshot.visited(model, domain, z, 3, 25)
        for step in range(20):
            obs = torch.as_tensor(sim.obs).to(z)
            sim.step(model.actor(model.normalize(obs), z).detach().numpy())
            if step % 10 == 9:
                np.testing.assert_array_equal(visited[step // 10], sim.obs.astype(np.float32))
        self.assertEqual(visited.shape[:2], (3, 2))

    def test_scores_states_that_a_reward_favours_above_others(self):
        domain = simulation.DOMAINS["cheetah"]()
        rows = collect_dmc.explore(domain, 400, seed=0, copies=8)
        labelled = torch.as_tensor(rows["next_obs"])

        def favoured(model, _domain, z, *_):
            order = (model.backward_map(model.normalize(labelled)) @ z.T).argsort(0, descending=True)
            return labelled[order[:20]]

        def any_of_them(_model, _domain, z, *_):
            return labelled[:, None].expand(-1, len(z), -1)

        with tempfile.TemporaryDirectory() as name:
            np.savez(Path(name) / "data.npz", **rows)
            with unittest.mock.patch.object(pretrain_dmc.Pretraining, "score_random_rewards",
                                            lambda trainer, _: self.trainers.append(trainer) or 0):
                self.trainers = []
                self.pretrain(Path(name), "4", "--best-by", "rewards")
        for visited, low, high in ((any_of_them, -0.01, 0.01), (favoured, 0.3, 9)):
            with unittest.mock.patch("fb.zeroshot.visited", visited), contextlib.redirect_stdout(io.StringIO()):
                score = self.trainers[0].score_random_rewards(labelled)
            self.assertTrue(low < score < high, score)

    def test_that_is_broken_off_ends_where_an_unbroken_one_does(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            np.savez(folder / "data.npz", **collect_dmc.explore(simulation.DOMAINS["cheetah"](), 100, seed=0, copies=4))
            contents = {}
            for out, parts in (("whole", [11]), ("parts", [6, 11])):
                for steps in parts:
                    # Practice begins new episodes and new tasks on the way, and the record has
                    # begun to forget.
                    self.pretrain(folder, str(steps), "--out", str(folder / out), "--practice-every", "2",
                                  "--practice-steps", "3", "--z-from-rewards", "0.2", "--capacity", "110", "--lr",
                                  "1e-3")
                contents[out] = torch.load(folder / out / "checkpoint.pt", weights_only=True)
            whole, parts = contents["whole"], contents["parts"]
            self.assertEqual(whole["practice"]["rows"], 5 * 4)
            self.assertEqual(whole["practice"]["rng"], parts["practice"]["rng"])
            for part in ("model", "average", "practice", "tasks"):
                for key, value in whole[part].items():
                    if torch.is_tensor(value):
                        torch.testing.assert_close(parts[part][key], value, msg=f"{part} {key}", rtol=1e-6, atol=1e-7)
            torch.testing.assert_close(parts["replay"]["columns"]["next_obs"], whole["replay"]["columns"]["next_obs"],
                                       rtol=1e-6, atol=1e-7)

    def test_of_a_recording_that_does_not_fit_is_refused_before_it_begins(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows = collect_dmc.explore(simulation.DOMAINS["cheetah"](), 60, seed=0, copies=4)
            narrow = {**rows, "obs": rows["obs"][:, 1:], "next_obs": rows["next_obs"][:, 1:]}
            without = {key: column for key, column in rows.items() if key != "episode"}
            for columns, more, says in ((narrow, [], "not of this domain .*obs 16 instead of 17"),
                                        (rows, ["--capacity", "50"], "has 60 transitions"),
                                        (without, ["--z-from-future", "0.5"], "has no episode")):
                np.savez(folder / "data.npz", **columns)
                with self.subTest(says), self.assertRaisesRegex(SystemExit, says):
                    self.pretrain(folder, "1", *more)

    def test_that_is_not_there_or_of_another_domain_is_not_evaluated(self):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            with self.assertRaisesRegex(SystemExit, "best: no bundle of these scripts: .*No such file"):
                evaluate_dmc.main(["cheetah", name])
            (folder / "best").mkdir()
            (folder / "best" / "bfm.json").write_text("{}")
            with self.assertRaisesRegex(SystemExit, "'architecture' is missing"):
                evaluate_dmc.main(["cheetah", name])
            columns = {key: torch.zeros(3, 5) for key in ("obs", "action", "next_obs", "measure")}
            torch.save({"step": 1, "model": {}, "replay": {"columns": columns}}, folder / "checkpoint.pt")
            with self.assertRaisesRegex(SystemExit,
                                        "checkpoint.pt: is not of this domain .widths: obs 5 instead of 17"):
                evaluate_dmc.labelled_states(folder / "checkpoint.pt", simulation.DOMAINS["cheetah"]())

    def test_is_exported_with_its_prior_if_it_has_one(self):
        for prior in ({}, {"prior": {"sha256": "x"}}):
            with self.subTest(prior), tempfile.TemporaryDirectory() as name:
                source, out = Path(name, "source"), Path(name, "out")
                source.mkdir()
                (source / "bfm.json").write_text(json.dumps({"provenance": {"data": "a"}, **prior}))
                for file in ("model.safetensors", "prior.safetensors"):
                    (source / file).write_text(file)
                evaluate_dmc.export(source, out, {}, {})
                files = {"bfm.json", "model.safetensors", "oracle.json"} | ({"prior.safetensors"} if prior else set())
                self.assertEqual({path.name for path in out.iterdir()}, files)

    def check_exported(self, folder):
        with contextlib.redirect_stdout(io.StringIO()):
            evaluate_dmc.main(["cheetah", str(folder / "run"), "--out", str(folder / "out"), "--episodes", "1",
                               "--episode-steps", "20", "--data", "a test"])
        description = json.loads((folder / "out" / "bfm.json").read_text())
        self.assertEqual(description["provenance"]["data"], "a test")
        self.assertIn("walk_backward", description["provenance"]["returns_oracle"])
        before, after = (load_file(folder / place / "model.safetensors") for place in ("run/best", "out"))
        model = bundle.read(folder / "out")
        self.assertEqual(before.keys(), after.keys())
        for name, tensor in bundle.tensors(model, after["cov_b"]).items():
            torch.testing.assert_close(tensor, before[name])

    @staticmethod
    def pretrain(folder, steps, *more):
        arguments = [
            "cheetah",
            str(folder / "data.npz"), "--out",
            str(folder / "run"), "--steps", steps, "--hidden", "16", "--b-hidden", "16", "--latent", "8", "--batch",
            "32", "--copies", "4", "--eval-every", "4", "--eval-episodes", "1", "--episode-steps", "20", "--capacity",
            "1000", "--z-from-commands", "0.3", *more
        ]
        with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
            pretrain_dmc.main(arguments)


if __name__ == "__main__":
    unittest.main()
