"""Tests of collect_rnd.py and of its rounds: python -m unittest discover scripts (needs torch and dm_control)."""

import contextlib
import io
import json
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_rnd
    import evaluate_dmc
    import label_states
    import numpy as np
    import pretrain_dmc
    import torch
    import train_fb
    from dm_control.utils import rewards
    from fb import rounds, simulation, zeroshot
    from safetensors.torch import load_file
except ImportError as err:
    raise unittest.SkipTest(f"collecting needs scripts/requirements.txt: {err}") from err

HEIGHT = 14  # of the walker's observation


class CollectorCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def collect(self, out, transitions, *more):
        with contextlib.redirect_stdout(io.StringIO()):
            collect_rnd.main([
                "walker", "--transitions",
                str(transitions), "--out",
                str(self.folder / out), "--copies", "3", "--episode-steps", "20", "--updates", "1", "--batch", "16",
                "--warm-up", "5", *more
            ])
        return rounds.paths(self.folder / out)


class Collector(CollectorCase):
    def test_resumed_records_what_an_unbroken_one_does(self):
        whole = self.collect("whole", 180)
        self.collect("parts", 60)
        parts = self.collect("parts", 180)
        self.assertEqual((len(whole), len(parts)), (3, 3))
        for one, other in zip(whole, parts):
            with np.load(one) as a, np.load(other) as b:
                for name in a:
                    np.testing.assert_array_equal(a[name], b[name])

    def test_records_the_simulations_steps(self):
        applied = []
        step = simulation.Simulation.step

        def recorded(sim, action):
            applied.append((sim.obs.copy(), action.copy()))
            step(sim, action)
            applied[-1] += (sim.obs.copy(),)
            return sim.obs

        with mock.patch.object(simulation.Simulation, "step", recorded):
            rows = rounds.transitions(self.collect("run", 60))
        self.assertEqual(sorted(rows), ["action", "episode", "measure", "next_obs", "obs"])
        for name, column in zip(("obs", "action", "next_obs"), zip(*applied)):
            want = np.stack(column, 1).reshape(60, -1)  # copy after copy
            np.testing.assert_array_equal(rows[name], want.astype(np.float32))
        np.testing.assert_allclose(rows["measure"][:, 0], rows["next_obs"][:, HEIGHT], rtol=1e-6)
        np.testing.assert_array_equal(rows["episode"], np.repeat([0, 1, 2], 20))
        self.assertGreater(np.abs(rows["action"]).max(), 0.5)

    def test_leaves_out_steps_whose_physics_failed(self):
        step, calls = simulation.Simulation.step, []

        def failing(sim, action):
            step(sim, action)
            calls.append(0)
            if len(calls) == 7:
                sim.obs[1] = np.nan
            return sim.obs

        with mock.patch.object(simulation.Simulation, "step", failing):
            rows = rounds.transitions(self.collect("run", 60))
        self.assertEqual(len(rows["obs"]), 59)
        self.assertTrue(all(np.isfinite(column).all() for column in rows.values()))
        second = rows["episode"] == 1
        follows = (rows["obs"][second][1:] == rows["next_obs"][second][:-1]).all(1)
        self.assertEqual(np.flatnonzero(~follows).tolist(), [5])

    def test_refuses_a_folder_of_other_sizes(self):
        self.collect("run", 60)
        with self.assertRaisesRegex(SystemExit, "give the same --copies"):
            self.collect("run", 120, "--copies", "4")
        self.collect("run", 120)
        with self.assertRaisesRegex(SystemExit, "has 2 rounds already"):
            self.collect("run", 60)


class Evaluating(CollectorCase):
    def test_chooses_the_bundle_with_the_highest_score_of_random_rewards(self):
        self.collect("run", 60)
        with contextlib.redirect_stderr(io.StringIO()):
            train_fb.main([
                str(self.folder / "run"), "--out",
                str(self.folder / "model"), "--steps", "3", "--save-every", "1", "--keep", "--batch", "8", "--latent",
                "4", "--hidden", "8", "--b-hidden", "8", "--no-report", "--half", "--optibfm", "none"
            ])
        scores = iter((0.1, 0.4, -0.2))
        with contextlib.redirect_stdout(io.StringIO()) as said, \
                mock.patch.object(pretrain_dmc, "score_random_rewards", lambda *_: next(scores)), \
                mock.patch.object(zeroshot, "LABELLED", 50):
            evaluate_dmc.main([
                "walker",
                str(self.folder / "model"), "--transitions",
                str(self.folder / "run"), "--choose", "--episodes", "1", "--episode-steps", "5", "--out",
                str(self.folder / "out")
            ])
        self.assertIn("0000002: random rewards 0.400", said.getvalue())
        description = json.loads((self.folder / "out" / "bfm.json").read_text())
        self.assertEqual((description["name"], description["provenance"]["updates"]), ("walker", "2"))
        self.assertEqual([description[kind][0]["name"] for kind in ("observation", "action")],
                         ["orientations.0", "right_hip"])
        want, got = (load_file(self.folder / place / "model.safetensors") for place in ("model/0000002", "out"))
        self.assertTrue(all(torch.equal(got[name], value) for name, value in want.items()))

    def test_labels_the_states_of_rounds(self):
        self.collect("run", 60)
        domain = simulation.DOMAINS["walker"]()
        columns = label_states.label(domain, label_states.read(str(self.folder / "run"), domain), 60, seed=0)
        self.assertEqual(sorted(columns["episode_length"]), [20, 20, 20])
        stands = rewards.tolerance(columns["obs"][:, HEIGHT], bounds=(1.2, np.inf), margin=0.6)
        np.testing.assert_allclose(columns["reward_stand"], (3 * stands + (1 + columns["obs"][:, 0]) / 2) / 4,
                                   atol=1e-3)


class Following(unittest.TestCase):
    def test_adds_rounds_that_come_later(self):
        rng = np.random.default_rng(0)

        def write(folder, k, copies):
            rounds.write(
                folder, k, {
                    "obs": rng.normal(size=(11, copies, 3)).astype(np.float32), "valid": np.ones(
                        (10, copies), bool), "action": rng.integers(-127, 128, (10, copies, 2), dtype=np.int8)
                })

        with tempfile.TemporaryDirectory() as name:
            folder, sizes = Path(name), []
            write(folder, 0, 4)
            update = train_fb.Trainer.update

            def counted(trainer):
                if trainer.step == 3:
                    write(folder, 1, 6)
                sizes.append(len(trainer.obs))
                return update(trainer)

            with mock.patch.object(train_fb.Trainer, "update", counted), mock.patch.object(train_fb, "FOLLOWED", 0), \
                    contextlib.redirect_stderr(io.StringIO()):
                train_fb.main([
                    name, "--out",
                    str(folder / "out"), "--steps", "6", "--batch", "8", "--latent", "4", "--hidden", "8", "--b-hidden",
                    "8", "--no-report", "--follow"
                ])
        self.assertEqual(sizes, [40, 40, 40, 40, 100, 100])


if __name__ == "__main__":
    unittest.main()
