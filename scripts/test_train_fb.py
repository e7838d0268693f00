"""Tests of the training: python -m unittest discover scripts (needs torch)."""

import argparse
import contextlib
import copy
import csv
import functools
import hashlib
import io
import itertools
import json
import math
import os
import re
import signal
import sys
import tempfile
import unittest
from pathlib import Path
from types import MappingProxyType
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import numpy as np
    import torch
    import train_fb
    from fb import bundle, engine, losses, prior, report
    from fb.networks import Architecture, Model, on_sphere
    from safetensors.torch import load_file
except ImportError as err:
    raise unittest.SkipTest(f"training needs scripts/requirements.txt: {err}") from err


class Groups(unittest.TestCase):
    ARCH = MappingProxyType({
        "obs": 6, "action": 2, "latent": 3, "hidden": 8, "b_hidden": 8,
        "groups": (("base", 2), ("imu", 1), ("joints", 3)), "b_inputs": ("imu", "base"),
        "actor_inputs": ("joints", "imu")
    })

    def setUp(self):
        torch.manual_seed(0)
        self.model = Model(Architecture(**self.ARCH))
        self.obs, self.z, self.action = torch.randn(5, 6), torch.randn(5, 3), torch.randn(5, 2)

    def test_each_map_reads_its_groups_in_their_order(self):
        m, hidden = self.model, torch.randn(5, 6)
        for value, columns in (
            (lambda obs: m.backward_map(obs), [0, 1, 2]),
            (lambda obs: m.actor(obs, self.z), [2, 3, 4, 5]),
            (lambda obs: m.forward_map(obs, self.z, self.action), [0, 1, 2, 3, 4, 5]),
        ):
            same = hidden.clone()
            same[:, columns] = self.obs[:, columns]
            torch.testing.assert_close(value(same), value(self.obs))
            for c in columns:
                changed = self.obs.clone()
                changed[:, c] += 1
                self.assertGreater(float((value(changed) - value(self.obs)).detach().abs().max()), 1e-4)
        torch.testing.assert_close(m.backward_map.read(self.obs), self.obs[:, [2, 0, 1]])

    def test_a_bundle_has_them(self):
        self.model.obs_mean.copy_(torch.arange(6))
        with tempfile.TemporaryDirectory() as folder:
            bundle.write(folder, self.model, self.obs, name="g", gamma=0.9, observation=None, action=None,
                         provenance={})
            description = json.loads((Path(folder) / "bfm.json").read_text())
            weights, read = load_file(Path(folder) / "model.safetensors"), bundle.read(folder)
        a = description["architecture"]
        self.assertEqual((a["norm_obs"], a["b"]["inputs"], a["f"]["inputs"]),
                         (False, ["imu", "base"], ["base", "imu", "joints"]))
        torch.testing.assert_close(weights["_obs_normalizer._normalizers.joints._normalizer.running_mean"],
                                   torch.tensor([3.0, 4, 5]))
        self.assertNotIn("_obs_normalizer.running_mean", weights)
        torch.testing.assert_close(read.normalize(self.obs), self.model.normalize(self.obs))
        torch.testing.assert_close(read.actor(self.obs, self.z), self.model.actor(self.obs, self.z))

    def test_the_program_reads_the_version_of_a_bundle(self):
        go = (Path(__file__).parents[1] / "tflite/manifest.go").read_text()
        read = int(re.search(r"formatVersion += (\d+)", go)[1])
        for model in (self.model, Model(Architecture(obs=6, action=2, latent=3, hidden=8))):
            with tempfile.TemporaryDirectory() as folder:
                bundle.write(folder, model, self.obs, name="g", gamma=0.9, observation=None, action=None, provenance={})
                self.assertEqual(json.loads((Path(folder) / "bfm.json").read_text())["version"], read)

    def test_random_rewards_are_of_what_b_reads(self):
        seen = []

        def record(obs, count, linear):
            seen.append(obs)
            return torch.randn(len(obs), count)

        training = mock.Mock(model=self.model, maps=contextlib.nullcontext)
        training.args = argparse.Namespace(latent=3, z_from_data=0.0, z_from_rewards=1.0, linear_rewards=0.0)
        with mock.patch.object(train_fb, "random_rewards", record):
            train_fb.Trainer.sample_z(training, self.obs)
        torch.testing.assert_close(seen[0], self.obs[:, [2, 0, 1]])
        rewards = report.simple_rewards(self.obs, {0: "a", 2: "c"})
        self.assertEqual({channel for r in rewards for channel, *_ in r.factors}, {0, 2})

    def test_wrong_groups_are_refused(self):
        for options, message in ((["--groups", "base"], "NAME=SIZE"), (["--groups", "a=1,a=2"], "twice"),
                                 (["--groups", "a=1", "--b-inputs",
                                   "b"], "'b' is not a group"), (["--f-inputs", "a"], "is not a group")):
            with contextlib.redirect_stderr(io.StringIO()) as err, self.assertRaises(SystemExit):
                train_fb.parse_arguments(["x.npz", "--out", "y", *options])
            self.assertIn(message, err.getvalue())


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


class CloningTheData(unittest.TestCase):
    def test_costs_the_mean_squared_distance_in_units_of_the_mean_size_of_the_value(self):
        action = torch.tensor([[0.5, 0.0], [1.0, -1.0]], requires_grad=True)
        value = torch.tensor([2.0, -4.0], requires_grad=True)
        loss = losses.cloning_loss(action, torch.tensor([[0.0, 0.0], [1.0, 1.0]]), value)
        # 3 x (0.25 + 0 + 0 + 4) / 4; the values are a scale, through which nothing is learnt.
        self.assertAlmostEqual(float(loss.detach()), 3 * 4.25 / 4)
        loss.backward()
        torch.testing.assert_close(action.grad, 3 * 2 / 4 * torch.tensor([[0.5, 0.0], [0.0, -2.0]]))
        self.assertIsNone(value.grad)


class TrainingCase(unittest.TestCase):
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
        with contextlib.redirect_stderr(io.StringIO()):
            train_fb.main([
                str(self.data), "--out",
                str(self.folder / out), "--steps",
                str(steps), "--batch", "32", "--latent", "4", "--hidden", "16", "--b-hidden", "16", "--z-from-rewards",
                "0.2", "--no-report", *more
            ])
        return self.folder / out


class Training(TrainingCase):
    def test_a_resumed_training_ends_where_an_unbroken_one_does(self):
        whole = load_file(self.run_to(12, "whole") / "model.safetensors")
        self.run_to(7, "parts")
        parts = load_file(self.run_to(12, "parts") / "model.safetensors")
        for name, value in whole.items():
            torch.testing.assert_close(parts[name], value, msg=name)

    def test_cloning_brings_the_actor_to_the_datas_actions(self):
        with np.load(self.data) as archive:
            columns = dict(archive)
        columns["action"] = np.clip(columns["obs"][:, :2], -1, 1)
        np.savez(self.data, **columns)
        distance = {}
        for weight in ("0", "5"):
            out = self.run_to(150, f"bc{weight}", "--bc", weight, "--lr", "1e-3")
            model = bundle.read(out)
            obs = torch.as_tensor(columns["obs"])
            mean = model.actor(model.normalize(obs), on_sphere(torch.randn(len(obs), 4)))
            distance[weight] = float((mean - torch.as_tensor(columns["action"])).square().mean().detach())
        self.assertLess(distance["5"], 0.5 * distance["0"])

    def test_a_penalty_on_saturation_keeps_actions_off_their_limits(self):
        free, kept = (self.actions_after(100, out, "--lr", "1e-2", "--saturation", weight)
                      for out, weight in (("free", "0"), ("kept", "0.1")))
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

    def test_the_model_is_named_after_its_robot(self):
        robot = {
            "name": "crab", "observation": [{"name": n, "unit": "m"} for n in "abc"],
            "action": [{"name": n, "unit": "N"} for n in "de"]
        }
        with np.load(self.data) as archive:
            np.savez(self.data, robot=np.frombuffer(json.dumps(robot).encode(), np.uint8).astype(np.int64), **archive)
        found = json.loads((self.run_to(1, "named") / "bfm.json").read_text())
        self.assertEqual({name: found[name] for name in robot}, robot)
        found = json.loads((self.run_to(1, "other", "--name", "x", "--action", "f,g") / "bfm.json").read_text())
        self.assertEqual((found["name"], [c["name"] for c in found["action"]]), ("x", ["f", "g"]))

    def test_the_program_adds_the_prior_from_observations_alone(self):
        program = self.folder / "optibfm"
        program.write_text('#!/bin/sh\necho "$@" > "$0.arguments"\n')
        program.chmod(0o755)
        out = self.run_to(2, "prior", "--optibfm", str(program))
        observations = out / "observations.npz"
        arguments = program.with_suffix(".arguments").read_text().split()
        self.assertEqual(arguments, ["model", "prior", str(out), "--observations", str(observations)])
        with np.load(observations) as archive, np.load(self.data) as data:
            self.assertEqual(list(archive), ["obs"])
            for axis in range(3):
                np.testing.assert_array_equal(np.sort(archive["obs"][:, axis]), np.sort(data["obs"][:, axis]))

    def test_the_command_for_the_prior_is_printed_where_the_program_is_missing_or_fails(self):
        failing = self.folder / "failing"
        failing.write_text("#!/bin/sh\nexit 1\n")
        failing.chmod(0o755)
        for program, why in ((self.folder / "nowhere", "was not found"), (failing, "the program failed")):
            with self.subTest(why), contextlib.redirect_stderr(io.StringIO()) as text:
                prior.add(str(program), self.folder / "a bundle", np.zeros((4, 3)), self.folder / "o.npz")
                self.assertIn(f"{why}", text.getvalue())
                self.assertIn(f"{program} model prior '{self.folder}/a bundle' --observations {self.folder}/o.npz",
                              text.getvalue())

    def test_the_rates_of_a_resumed_training_are_those_asked_for_now_from_its_first_update(self):
        self.run_to(2, "rates", "--lr", "1e-3")
        args = train_fb.parse_arguments([
            str(self.data), "--out",
            str(self.folder / "rates"), "--steps", "4", "--latent", "4", "--hidden", "16", "--b-hidden", "16", "--lr",
            "1e-2", "--lr-end", "0.5"
        ])
        trainer = train_fb.Trainer(args, *(torch.zeros(4, n) for n in (3, 2, 3)))
        trainer.resume()
        self.assertEqual(trainer.step, 2)
        self.assertAlmostEqual(trainer.actor_optimizer.param_groups[0]["lr"], 0.75 * 1e-2)

    def test_bad_data_are_refused_with_what_is_wrong(self):
        good = {"obs": np.zeros((5, 3)), "action": np.zeros((5, 2)), "next_obs": np.zeros((5, 3))}
        for change, says in (({"action": np.full((5, 2), 2.0)}, "actions reach 2"),
                             ({"action": np.zeros((4, 2))}, "do not fit together"),
                             ({"action": np.zeros(5)}, "do not fit together"),
                             ({"obs": np.full((5, 3), np.nan)}, "not finite .in 5 rows, first in row 0"),
                             ({name: column[:0] for name, column in good.items()}, "too few transitions"),
                             ({"obs": np.array(["a"] * 5)}, "could not convert")):
            np.savez(self.data, **{**good, **change})
            with self.subTest(says), self.assertRaisesRegex(SystemExit, f"transitions.npz: .*{says}"):
                self.run_to(1, "bad")
        np.savez(self.data, obs=good["obs"])
        with self.assertRaisesRegex(SystemExit, "has no action, next_obs .it has obs"):
            self.run_to(1, "bad")

    def test_a_file_that_is_no_recording_is_refused(self):
        whole = self.data.read_bytes()
        array = io.BytesIO()
        np.save(array, np.zeros(3))
        for content in (b"", b"not an archive", whole[:200], whole[: len(whole) // 2], array.getvalue()):
            self.data.write_bytes(content)
            with self.subTest(len(content)), self.assertRaisesRegex(
                    SystemExit, "transitions.npz: no recording: .*give an .npz with obs"):
                self.run_to(1, "bad")
        self.data.unlink()
        with self.assertRaisesRegex(SystemExit, "No such file"):
            self.run_to(1, "bad")

    def test_a_checkpoint_that_is_damaged_or_of_another_model_is_refused(self):
        out = self.run_to(1, "damaged")
        with self.assertRaisesRegex(SystemExit, "holds another model"):
            self.run_to(2, "damaged", "--hidden", "18")
        whole = (out / "checkpoint.pt").read_bytes()
        for content in (b"", whole[: len(whole) // 2]):
            (out / "checkpoint.pt").write_bytes(content)
            with self.assertRaisesRegex(SystemExit, "checkpoint.pt: no checkpoint of a training"):
                self.run_to(2, "damaged")

    def test_one_that_diverges_leaves_the_checkpoint_of_before(self):
        out = self.run_to(2, "diverged")
        before = (out / "checkpoint.pt").read_bytes(), (out / "model.safetensors").read_bytes()
        with self.assertRaisesRegex(SystemExit, "diverged by update 3 .not finite: F, B, the actor.*lower --lr"):
            self.run_to(5, "diverged", "--lr", "1e39", "--lr-b", "1e39", "--save-every", "1")
        self.assertEqual(before, ((out / "checkpoint.pt").read_bytes(), (out / "model.safetensors").read_bytes()))

    def test_a_signal_ends_it_after_an_update_with_a_checkpoint(self):
        updates = []

        class Signalled(train_fb.Trainer):
            def update(self):
                updates.append(self.step)
                if len(updates) == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                return super().update()

        usual = signal.getsignal(signal.SIGTERM)
        with mock.patch.object(train_fb, "Trainer", Signalled), self.assertRaises(SystemExit) as end:
            self.run_to(10, "signalled")
        self.assertEqual(end.exception.code, 128 + signal.SIGTERM)
        self.assertEqual(torch.load(self.folder / "signalled" / "checkpoint.pt", weights_only=True)["step"], 3)
        self.assertIs(signal.getsignal(signal.SIGTERM), usual)

    def test_settings_that_cannot_be_are_refused_before_the_data_are_read(self):
        for wrong, says in (
            (["--hidden", "15"], "--hidden is odd .15"),
            (["--embedding-layers", "1"], "give 2 or more"),
            (["--steps", "0"], "give 1 or more"),
            (["--batch", "x"], "invalid whole number value"),
            (["--gamma", "1"], "is not a discount"),
            (["--lr", "nan"], "not finite"),
            (["--tau", "2"], "is not between 0 and 1"),
            (["--z-from-data", "0.9"], "more than all z .0.9 . 0.2"),
            (["--device", "gpu"], "--device gpu"),
        ):
            with self.subTest(says), self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()) as said:
                train_fb.parse_arguments(["data.npz", "--out", "out", "--z-from-rewards", "0.2", *wrong])
            self.assertRegex(said.getvalue(), says)

    def test_names_that_are_too_few_are_refused_at_once(self):
        with self.assertRaisesRegex(SystemExit, "obs: found 2 channel names .a, b., want 3"):
            self.run_to(1, "names", "--observation", "a,b")


class AnUpdate(unittest.TestCase):
    """A reference that is slow and simple: all pairs of rows, an optimiser for each parameter, no flat vectors."""

    def setUp(self):
        torch.manual_seed(0)
        self.args = train_fb.parse_arguments([
            "x.npz", "--preset", "paper", "--out", "x", "--latent", "5", "--hidden", "16", "--b-hidden", "8", "--batch",
            "24", "--lr", "1e-3", "--lr-b", "2e-3", "--lr-end", "0.1", "--steps", "20", "--average", "0.3"
        ])
        self.args.observation = self.args.action = None
        self.data = torch.randn(100, 3), torch.rand(100, 2) * 2 - 1, torch.randn(100, 3)

    def reference(self, trainer, updates):
        args, m = self.args, copy.deepcopy(trainer.model)
        for p in m.parameters():
            p.requires_grad_(True)
        average = copy.deepcopy(m)
        forward, backward, actor = m.forward_map, m.backward_map, m.actor
        optimizers = [
            torch.optim.Adam([{"params": forward.parameters(), "lr": args.lr},
                              {"params": backward.parameters(), "lr": args.lr_b}]),
            torch.optim.Adam(actor.parameters(), lr=args.lr)
        ]
        schedulers = [torch.optim.lr_scheduler.LambdaLR(o, trainer.rate) for o in optimizers]
        others = ~torch.eye(args.batch, dtype=torch.bool)

        def noisy(mean):
            return (mean + (0.2 * torch.randn_like(mean)).clamp(-0.3, 0.3)).clamp(-1, 1).detach() + mean - mean.detach()

        for _ in range(updates):
            rows = torch.randint(100, (args.batch,))
            obs, action, after = (column[rows] for column in self.data)
            z = torch.randn(args.batch, 5)
            z[:12] = backward(after)[torch.randperm(args.batch)[:12]].detach()
            z = 5**0.5 * z / z.norm(dim=1, keepdim=True)
            before = copy.deepcopy(forward.embed_z)
            with torch.no_grad():
                bootstrap = 0.98 * (m.target_forward(after, z, noisy(actor(after, z))).mean(0)
                                    @ m.target_backward(after).T)
            b, loss = backward(after), 0
            for member in forward(obs, z, action):
                measure = member @ b.T
                loss += 0.5 * (measure - bootstrap)[others].square().mean() - measure.diagonal().mean()
            gram = b @ b.T
            loss += args.ortho * (0.5 * gram[others].square().mean() - gram.diagonal().mean())
            optimizers[0].zero_grad()
            loss.backward()
            optimizers[0].step()
            embedded = before(torch.cat([obs, z], -1).expand(2, -1, -1)).detach()
            value = (forward.at(obs, embedded, noisy(actor(obs, z))) * z).sum(-1).min(0).values
            optimizers[1].zero_grad()
            (-value.mean()).backward()
            optimizers[1].step()
            with torch.no_grad():
                for target, online, tau in (
                    (m.target_forward, forward, 0.01),
                    (m.target_backward, backward, 0.01),
                    (average.forward_map, forward, 0.3),
                    (average.backward_map, backward, 0.3),
                    (average.actor, actor, 0.3),
                ):
                    for p, q in zip(target.parameters(), online.parameters()):
                        p.copy_((1 - tau) * p + tau * q)
            for scheduler in schedulers:
                scheduler.step()
        return m, average

    def check(self, trainer, reference, tolerance):
        for model, want in zip((trainer.model, trainer.average), reference):
            for part in ("forward_map", "backward_map", "actor"):
                for (name, p), q in zip(getattr(model, part).named_parameters(), getattr(want, part).parameters()):
                    torch.testing.assert_close(p, q, rtol=tolerance, atol=tolerance,
                                               msg=lambda m, n=f"{part} {name}": f"{n}: {m}")

    def test_is_the_references(self):
        trainer = train_fb.Trainer(self.args, *self.data)
        torch.manual_seed(1)
        want = self.reference(trainer, 4)
        torch.manual_seed(1)
        for _ in range(4):
            trainer.update()
        self.check(trainer, want, 2e-6)

    def test_in_bfloat16_is_near_the_references(self):
        trainer = train_fb.Trainer(self.args, *self.data)
        torch.manual_seed(1)
        want = trainer.update()
        other = train_fb.Trainer(argparse.Namespace(**{**vars(self.args), "precision": "bfloat16"}), *self.data)
        trainer = train_fb.Trainer(self.args, *self.data)
        other.model.load_state_dict(trainer.model.state_dict())
        values = []
        for each in (trainer, other):
            torch.manual_seed(1)
            values.append(each.update())
        for name, want in values[0].items():
            torch.testing.assert_close(values[1][name], want, rtol=0.05, atol=0.05, msg=name)
            self.assertEqual(values[1][name].dtype, torch.float32)


class Engines(unittest.TestCase):
    def trainers(self, count):
        args = train_fb.parse_arguments([
            "x.npz", "--out", "x", "--latent", "4", "--hidden", "8", "--b-hidden", "8", "--batch", "8", "--steps", "99"
        ])
        args.observation = args.action = None
        torch.manual_seed(0)
        return [train_fb.Trainer(args, torch.randn(20, 3), torch.rand(20, 2), torch.randn(20, 3)) for _ in range(count)]

    def test_that_fail_give_way_to_the_next(self):
        [trainer] = self.trainers(1)
        with contextlib.redirect_stderr(io.StringIO()) as said, \
                mock.patch.object(engine.Engine, "capture", side_effect=RuntimeError("no capture")), \
                mock.patch.object(trainer, "compile", side_effect=RuntimeError("no compiler")):
            updates = engine.Engine([trainer], "graph")
        self.assertEqual(updates.kind, "eager")
        self.assertRegex(
            said.getvalue(),
            "(?s)graph: RuntimeError: no capture; continuing with compile.*compile: RuntimeError: no compiler")
        updates.update()
        self.assertEqual(trainer.step, 1)
        with mock.patch.object(trainer, "update", side_effect=ZeroDivisionError), self.assertRaises(ZeroDivisionError):
            updates.update()  # of the trainer itself, not of a kind

    def test_compiled_computes_what_eager_does(self):
        eager, compiled = (self.trainers(1) for _ in range(2))
        with mock.patch.object(torch, "compile", functools.partial(torch.compile, backend="aot_eager")):
            updates = engine.Engine(compiled, "compile")
        self.assertEqual(updates.kind, "compile")
        self.assertIn("at", vars(compiled[0].model.forward_map))
        torch.manual_seed(0)  # of the first update, which the engine made
        compiled[0].model.load_state_dict(eager[0].model.state_dict())
        for trainer in (compiled[0], eager[0]):
            trainer.fb_optimizer.state.clear()
            trainer.actor_optimizer.state.clear()
            torch.manual_seed(1)
            for _ in range(3):
                trainer.update()
        for p, q in zip(compiled[0].model.parameters(), eager[0].model.parameters()):
            torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
        compiled[0].discard_compiled()
        self.assertNotIn("at", vars(compiled[0].model.forward_map))

    def test_on_a_cpu_are_eager_unless_asked_for(self):
        self.assertEqual(engine.Engine(self.trainers(1)).kind, "eager")

    def test_graph_counts_warm_up_and_replays_but_not_the_capture(self):
        trainers, events = self.trainers(2), []
        computed = [mock.Mock(side_effect=trainer.compute) for trainer in trainers]
        for trainer, compute in zip(trainers, computed):
            trainer.compute = compute
        cuda = mock.MagicMock()
        cuda.CUDAGraph.return_value.replay.side_effect = lambda: events.append("replay")
        with mock.patch.multiple(
                torch.cuda, **{
                    name: getattr(cuda, name)
                    for name in ("Stream", "stream", "synchronize", "CUDAGraph", "graph", "current_stream")
                }):
            updates = engine.Engine(trainers, "graph")
            values = updates.update()
        self.assertEqual((updates.kind, events), ("graph", ["replay"] * 2))
        self.assertEqual([c.call_count for c in computed], [engine.WARM_UP + 1] * 2)
        self.assertEqual([t.step for t in trainers], [engine.WARM_UP + 2] * 2)
        self.assertEqual([sorted(v) for v in values], [["backward", "ortho", "q", "sm", "|F|", "|a|"]] * 2)
        self.assertEqual(cuda.graph.call_count, 1)

    def test_all_of_an_update_stays_on_the_device(self):
        # A meta tensor has no values: any that Python asks for raises.
        [trainer] = self.trainers(1)
        args = argparse.Namespace(**{
            **vars(trainer.args), "device": "meta", "average": 0.1, "bc": 0.3, "saturation": 0.1, "z_from_rewards": 0.2
        })
        meta = train_fb.Trainer(args, *(torch.empty(20, n, device="meta") for n in (3, 2, 3)))
        with mock.patch.object(torch.optim.Adam, "step"):
            values = meta.compute()
        self.assertEqual({value.device.type for value in values.values()}, {"meta"})


class Running(TrainingCase):
    def test_several_networks_have_their_own_seeds_and_folders(self):
        out = self.run_to(3, "several", "--networks", "2", "--seed", "5", "--half")
        first, second = (load_file(out / f"seed-{seed}" / "model.safetensors") for seed in (5, 6))
        self.assertEqual(first["_actor.policy.0.weight"].dtype, torch.float16)
        self.assertEqual(first["cov_b"].dtype, torch.float32)
        self.assertFalse(torch.equal(first["_actor.policy.0.weight"], second["_actor.policy.0.weight"]))
        self.assertIn("seed=6", json.loads((out / "seed-6" / "bfm.json").read_text())["provenance"]["settings"])

    def test_half_rounds_the_weights(self):
        whole, half = (load_file(self.run_to(3, out, *more) / "model.safetensors")
                       for out, more in (("whole", ()), ("half", ("--half", ))))
        for name, value in whole.items():
            torch.testing.assert_close(half[name].float(), value, rtol=1e-3, atol=1e-6, msg=name)

    def test_the_time_limit_leaves_a_checkpoint_that_continues(self):
        clock = itertools.count(step=0.01)  # s, a look each
        with mock.patch.object(train_fb.time, "monotonic", lambda: next(clock)):
            out = self.run_to(10**6, "limited", "--time-limit", "0.2", "--save-seconds", "0.05", "--keep")
        step = torch.load(out / "checkpoint.pt", weights_only=True)["step"]
        self.assertGreater(step, 0)
        kept = sorted(path for path in out.iterdir() if path.is_dir())
        self.assertGreater(len(kept), 1)
        self.assertEqual((kept[-1].name, (kept[-1] / "model.safetensors").read_bytes()),
                         (f"{step:07d}", (out / "model.safetensors").read_bytes()))
        self.run_to(step + 1, "limited")
        self.assertEqual(torch.load(out / "checkpoint.pt", weights_only=True)["step"], step + 1)

    def test_writes_its_curves_also_after_an_interruption(self):
        out = self.run_to(3, "curves")
        self.run_to(6, "curves")
        with (out / "progress.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual([row["update"] for row in rows], ["3", "6"])
        self.assertTrue(all(math.isfinite(float(value)) for row in rows for value in row.values()))

    def test_averaged_weights_continue_from_the_checkpoint(self):
        whole = load_file(self.run_to(12, "whole", "--average", "0.1") / "model.safetensors")
        self.run_to(7, "parts", "--average", "0.1")
        parts = load_file(self.run_to(12, "parts", "--average", "0.1") / "model.safetensors")
        for name, value in whole.items():
            torch.testing.assert_close(parts[name], value, msg=name)
        last = load_file(self.run_to(12, "last") / "model.safetensors")
        self.assertFalse(torch.equal(last["_actor.policy.0.weight"], whole["_actor.policy.0.weight"]))


class Reports(unittest.TestCase):
    def test_dynamics_and_policies_are_measured_on_the_recording(self):
        torch.manual_seed(0)
        # A point that moves by its action; a policy that knows the reward goes right.
        obs, action = torch.rand(4000, 2), torch.rand(4000, 2) * 2 - 1
        next_obs = (obs + 0.1 * action).clamp(0, 1)
        dynamics = report.Dynamics(obs, action, next_obs, updates=500)
        self.assertGreater(dynamics.explained, 0.95)
        rewards = [r for r in report.simple_rewards(obs, {0: "x", 1: "y"}) if r.name == "x high"]

        class Right:
            normalize = staticmethod(lambda obs: obs)

            @staticmethod
            def actor(obs, z):
                return z[:, :2].sign() * torch.tensor([1.0, 0.0])

        start = torch.full((8, 2), 0.5)
        right, left = (report.follow(Right, dynamics, start, torch.full((8, 2), sign), rewards, 30)[0]
                       for sign in (1.0, -1.0))
        self.assertGreater(right, 0.7)
        self.assertLess(left, 0.2)

    def test_rows_that_follow_each_other_are_found(self):
        obs = torch.arange(20.0)[:, None]
        next_obs = obs + 1
        next_obs[9] = 0
        rows, span = report.stretches(obs, next_obs)
        self.assertEqual((rows.tolist(), span), ([0, 1, 2, 10, 11, 12], report.SPAN))
        self.assertEqual(report.stretches(obs, obs + 0.5)[1], 1)

    def test_the_verdict_names_what_is_weak(self):
        for r2, oracle, begins in ((0.9, 0.8, "Good:"), (0.3, 0.8, "Not good: the features"),
                                   (0.9, 0.2, "Not good: the policies")):
            found = report.Report(names=["a"], r2=[r2], oracle=[oracle], chance=[0.1], best=[1.0], dynamics=0.9, span=8)
            self.assertTrue(str(found).splitlines()[-1].startswith(begins), found)


if __name__ == "__main__":
    unittest.main()
