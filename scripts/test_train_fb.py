"""Tests of the training: python -m unittest discover scripts (needs torch)."""

import contextlib
import hashlib
import io
import json
from pathlib import Path
import sys
import tempfile
import unittest

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import torch
    from safetensors.torch import load_file
    import train_fb
    from fb import bundle, losses
    from fb.networks import on_sphere
except ImportError as err:
    raise unittest.SkipTest(f"training needs scripts/requirements.txt: {err}") from err


class LossesAgreeWithTheMatricesTheyAvoid(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        self.n, self.d = 16, 5
        self.f, self.tf = torch.randn(2, self.n, self.d), torch.randn(2, self.n, self.d)
        self.b, self.tb = torch.randn(self.n, self.d), torch.randn(self.n, self.d)
        self.others = ~torch.eye(self.n, dtype=torch.bool)

    def test_successor_measure(self):
        want = 0.0
        target = 0.9 * (self.tf.mean(0) @ self.tb.T)
        for member in self.f:
            measure = member @ self.b.T
            want += 0.5 * (measure - target)[self.others].square().mean() - measure.diagonal().mean()
        got = losses.successor_measure_loss(self.f, self.b, self.tf, self.tb, 0.9)
        torch.testing.assert_close(got, want)

    def test_orthonormality(self):
        gram = self.b @ self.b.T
        want = 0.5 * gram[self.others].square().mean() - gram.diagonal().mean()
        torch.testing.assert_close(losses.orthonormality_loss(self.b), want)

    def test_successor_features_residual_has_the_measures_gradient_where_b_is_orthonormal(self):
        n, d = 4000, 3
        b = torch.randn(n, d)
        b = b @ torch.linalg.inv(torch.linalg.cholesky(b.T @ b / n)).T
        target = torch.randn(2, n, d)
        gradients = []
        for loss in (lambda f: losses.successor_measure_loss(f, b, target, b, 0.9),
                     lambda f: losses.successor_feature_loss(f, target, b, 0.9)):
            shift = torch.zeros(d, requires_grad=True)
            loss(target + shift).backward()
            gradients.append(shift.grad)
        torch.testing.assert_close(*gradients, atol=0.05, rtol=0.05)

    def test_value_residual_is_the_features_along_z(self):
        z, features = torch.randn(self.n, self.d), torch.randn(self.n, self.d)
        want = sum(0.5 * (((m - features - 0.9 * self.tf.mean(0)) * z).sum(-1) ** 2).mean() for m in self.f)
        got = losses.value_loss(self.f, self.tf, z, (features * z).sum(-1), 0.9)
        torch.testing.assert_close(got, want)

    def test_a_penalty_of_one_half_on_two_members_is_their_minimum(self):
        values = torch.randn(2, 9)
        torch.testing.assert_close(losses.pessimistic(values, 0.5), values.min(0).values)
        torch.testing.assert_close(losses.pessimistic(values, 0.0), values.mean(0))


class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        rng = np.random.default_rng(0)
        obs = rng.normal(size=(500, 3)).astype(np.float32)
        action = rng.uniform(-1, 1, size=(500, 2)).astype(np.float32)
        next_obs = obs + 0.1 * np.pad(action, ((0, 0), (0, 1)))
        self.data = self.folder / "transitions.npz"
        np.savez(self.data, obs=obs, action=action, next_obs=next_obs)

    def run_to(self, steps, out, *more):
        argv = sys.argv
        sys.argv = ["train_fb.py", str(self.data), "--out", str(self.folder / out), "--steps", str(steps), "--batch", "32",
                    "--latent", "4", "--hidden", "16", "--b-hidden", "16", "--z-from-rewards", "0.2", *more]
        try:
            with contextlib.redirect_stderr(io.StringIO()):
                train_fb.main()
        finally:
            sys.argv = argv
        return self.folder / out

    def test_a_resumed_training_ends_where_an_unbroken_one_does(self):
        whole = load_file(self.run_to(12, "whole") / "model.safetensors")
        self.run_to(7, "parts")
        parts = load_file(self.run_to(12, "parts") / "model.safetensors")
        for name, value in whole.items():
            torch.testing.assert_close(parts[name], value, msg=name)

    def test_a_penalty_on_saturation_keeps_actions_off_their_limits(self):
        free, kept = (self.actions_after(100, out, "--lr", "1e-2", "--saturation", weight) for out, weight in (("free", "0"), ("kept", "0.1")))
        self.assertLess(kept, 0.7 * free)

    def actions_after(self, updates, out, *more):
        model = bundle.read(self.run_to(updates, out, *more))
        with torch.no_grad():
            return float(model.actor(torch.randn(200, 3), on_sphere(torch.randn(200, 4))).abs().mean())

    def test_the_bundle_describes_its_weights(self):
        out = self.run_to(2, "bundle", "--observation", "a,b,c")
        description = json.loads((out / "bfm.json").read_text())
        weights = (out / "model.safetensors").read_bytes()
        self.assertEqual(description["weights_sha256"], hashlib.sha256(weights).hexdigest())
        self.assertEqual(description["architecture"]["latent"], 4)
        self.assertEqual([c["name"] for c in description["observation"]], ["a", "b", "c"])
        self.assertTrue(all(isinstance(v, str) for v in description["provenance"].values()))
        tensors = load_file(out / "model.safetensors")
        self.assertEqual(tuple(tensors["cov_b"].shape), (4, 4))
        self.assertEqual(tuple(tensors["_forward_map.embed_sa.0.weight"].shape), (2, 5, 16))

    def test_bad_data_are_refused(self):
        bad = {"obs": np.zeros((5, 3)), "action": np.full((5, 2), 2.0), "next_obs": np.zeros((5, 3))}
        for broken in (bad, {**bad, "action": np.zeros((4, 2))}, {**bad, "obs": np.full((5, 3), np.nan)}, {"obs": bad["obs"]}):
            np.savez(self.data, **broken)
            with self.assertRaises(SystemExit):
                self.run_to(1, "bad")


if __name__ == "__main__":
    unittest.main()
