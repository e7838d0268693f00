"""Tests of practice in environments: python -m unittest discover scripts (needs torch, gymnasium and yaml)."""

import contextlib
import io
import sys
import tempfile
import types
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import gymnasium
    import numpy as np
    import torch
    import train_fb
    import yaml
    from fb import practice, rounds
except ImportError as err:
    raise unittest.SkipTest(f"practice needs scripts/requirements.txt: {err}") from err

STEPS = 30


class Short(gymnasium.Env):
    """Counts its steps and ends after the third."""

    metadata = {"render_modes": [], "render_fps": 2}  # noqa: RUF012
    observation_space = gymnasium.spaces.Box(-9, 9, (1,))
    action_space = gymnasium.spaces.Box(-1, 1, (1,))

    def reset(self, seed=None, options=None):
        self.taken = 0
        return np.zeros(1), {}

    def step(self, action):
        self.taken += 1
        return np.full(1, self.taken), 1.0, self.taken == 3, False, {}


class PracticeCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, value in (("COPIES", 3), ("STEPS", STEPS)):
            patch = mock.patch.object(practice, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def config(self, *command):
        path = self.folder / "robot.yaml"
        path.write_text(
            yaml.safe_dump({"robot": {"bridge": {"command": ["python3", "scripts/gymnasium_bridge.py", *command]}}}))
        return path

    def train(self, config, obs, steps):
        rng = np.random.default_rng(0)
        columns = {name: rng.normal(size=(50, obs)).astype(np.float32) for name in ("obs", "next_obs")}
        np.savez(self.folder / "data.npz", action=rng.uniform(-1, 1, (50, 1)).astype(np.float32), **columns)
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as err:
            train_fb.main([
                str(self.folder / "data.npz"), "--out",
                str(self.folder / "out"), "--steps",
                str(steps), "--batch", "16", "--latent", "4", "--hidden", "8", "--b-hidden", "8", "--z-from-rewards",
                "0.4", "--linear-rewards", "1", "--no-report", "--practice",
                str(config), "--practice-every", "2"
            ])
        return rounds.paths(self.folder / "out/practice"), err.getvalue()


class Practising(PracticeCase):
    def test_records_what_the_environment_does(self):
        files, _ = self.train(self.config("Pendulum-v1"), 3, 5)
        self.assertEqual(len(files), 2)
        columns = rounds.transitions(files)
        env = gymnasium.make("Pendulum-v1").unwrapped
        env.reset(seed=0)
        for row in range(0, len(columns["obs"]), 13):
            x, y, speed = columns["obs"][row].astype(float)
            env.state = np.array([np.arctan2(y, x), speed])
            want, reward, *_ = env.step(2 * columns["action"][row])
            np.testing.assert_allclose(columns["next_obs"][row], want, atol=1e-5)
            self.assertAlmostEqual(float(columns["measure"][row, 0]), reward, places=4)
        with np.load(self.folder / "out/states.npz") as states:
            np.testing.assert_array_equal(states["obs"], columns["next_obs"])
            np.testing.assert_array_equal(states["reward_reward"], columns["measure"][:, 0])

    def test_continues_with_the_rounds_that_it_has(self):
        config = self.config("Pendulum-v1")
        first, _ = self.train(config, 3, 3)
        content = first[0].read_bytes()
        with mock.patch.object(train_fb.Trainer, "replace_data", autospec=True,
                               side_effect=train_fb.Trainer.replace_data) as replaced:
            files, _ = self.train(config, 3, 5)
        self.assertEqual(([f.name for f in files], files[0].read_bytes()),
                         (["round-0000.npz", "round-0001.npz"], content))
        self.assertEqual([len(call.args[1]) for call in replaced.call_args_list], [50 + 2 * 3 * STEPS])

    def test_needs_no_round(self):
        files, _ = self.train(self.config("Pendulum-v1"), 3, 1)
        self.assertEqual((files, (self.folder / "out/states.npz").exists()), ([], False))

    def test_names_a_missing_package(self):
        with (
            mock.patch.dict(sys.modules, yaml=None),
            self.assertRaisesRegex(SystemExit, "pip install gymnasium pyyaml"),
        ):
            self.train(self.config("Pendulum-v1"), 3, 1)

    def test_follows_the_policies_of_the_model(self):
        robots = [practice.gymnasium_bridge.of_config(self.config("Pendulum-v1")) for _ in range(2)]
        seen = []
        model = types.SimpleNamespace(normalize=lambda obs: obs,
                                      actor=lambda obs, z: seen.append(obs) or (z[:, :1] / 10))
        trainer = types.SimpleNamespace(model=model, device="cpu", args=types.SimpleNamespace(latent=2, batch=4),
                                        draw=lambda n: (None, None, torch.zeros(n, 3)), sample_z=lambda obs: torch.full(
                                            (len(obs), 2), 5.0))
        with mock.patch.object(practice.Noise, "step", lambda noise: 0 * noise.wander):
            columns = practice.Round(robots, np.random.default_rng(0)).record(trainer)
        np.testing.assert_array_equal(columns["action"], round(0.5 * 127))
        np.testing.assert_array_equal(torch.stack(seen).numpy(), columns["obs"][:-1])

    def test_begins_again_a_second_after_an_early_end(self):
        files, _ = self.train(self.config(f"{__name__}:Short"), 1, 3)
        recorded = rounds.read(files[0].parent, 0)
        np.testing.assert_array_equal(recorded["obs"][:7, 0, 0], [0, 1, 2, 3, 3, 0, 1])
        np.testing.assert_array_equal(recorded["valid"][:6, 0], [True, True, True, True, False, True])
        np.testing.assert_array_equal(recorded["measure"][:4, 0, 0], [1, 1, 1, 0])

    def test_is_refused_without_an_environment(self):
        for text, want in (("robot: {driver: rover}", "robot.bridge.command"), ("{", "robot.bridge.command"),
                           ("robot: {bridge: {command: [python3, gymnasium_bridge.py, Nope-v3]}}", "Nope")):
            config = self.folder / "bad.yaml"
            config.write_text(text)
            with self.subTest(text), self.assertRaisesRegex(SystemExit, want):
                self.train(config, 3, 2)
            self.assertFalse((self.folder / "out").exists())

    def test_of_another_robot_is_refused(self):
        with self.assertRaisesRegex(SystemExit, "has 3 observations .*, the recording 2"):
            self.train(self.config("Pendulum-v1"), 2, 2)


class LinearRewards(unittest.TestCase):
    def test_are_sums_of_elements(self):
        torch.manual_seed(0)
        obs = torch.randn(200, 3)
        rewards = train_fb.random_rewards(obs, 40, linear=1.0)
        inputs = torch.cat([obs, torch.ones(200, 1)], 1)
        fit = inputs @ torch.linalg.lstsq(inputs, rewards).solution
        torch.testing.assert_close(fit, rewards, atol=1e-4, rtol=0)
        self.assertGreater(float((train_fb.random_rewards(obs, 40) - inputs @ torch.linalg.lstsq(
            inputs, train_fb.random_rewards(obs, 40)).solution).abs().max()), 0.1)


if __name__ == "__main__":
    unittest.main()
