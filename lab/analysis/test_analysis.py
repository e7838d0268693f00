"""Tests of lab.analysis: python -m unittest lab.analysis.test_analysis"""

import contextlib
import io
import lzma
import re
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import numpy as np
from rliable import library, metrics
from scipy import stats

from lab.analysis import __main__ as command
from lab.analysis import (
    claims,
    estimates,
    figures,
    learnt,
    page,
    priors,
    rows,
    samples,
    sections,
    stuck,
)

EXPERIMENTS = Path(__file__).parents[1] / "experiments"
HEAD = ",".join(rows.COLUMNS)


def line(method="ucb", value=1.0, x=0, trial=0, **other) -> str:
    """Returns a row of a results file."""
    row = (
        dict.fromkeys(rows.COLUMNS, "")
        | {
            "experiment": "main",
            "env": "walker",
            "task": "walk",
            "bundle": "models/walker",
            "bfm_seed": 0,
            "method": method,
            "trial": trial,
            "seed": 100 + trial,
            "measure": "return",
            "x": x,
            "value": value,
            "version": "v1",
            "model_hash": "a" * 64,
            "protocol_hash": "b" * 64,
        }
        | other
    )
    return ",".join(str(row[name]) for name in rows.COLUMNS)


def series(method: str, values: list[float], **other) -> list[str]:
    """Returns the rows of trials of one episode each."""
    return [line(method, value, trial=trial, **other) for trial, value in enumerate(values)]


class Folder(unittest.TestCase):
    """Has a folder for results files."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def file(self, *lines: str, name="results.csv") -> Path:
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return path

    def results(self, *lines: str) -> samples.Results:
        return samples.Results(rows.read([self.file(HEAD, *lines)]))


class TestRows(Folder):
    def refused(self, *lines: str) -> str:
        path = self.file(*lines)
        with self.assertRaises(rows.ResultsError) as caught:
            rows.read([path])
        return str(caught.exception).replace(str(path), "FILE")

    def test_errors_name_file_line_and_cause(self):
        for want, lines in {
            "FILE:1: missing column value, seed": [HEAD.replace(",value", "").replace(",seed,", ",")],
            "FILE:1: missing column experiment": [""],
            'FILE:3: value: not a finite number (found "high")': [HEAD, line(), line(x=1, value="high")],
            'FILE:2: value: not a finite number (found "NaN")': [HEAD, line(value="NaN")],
            'FILE:2: x: not a finite number (found "-inf")': [HEAD, line(x="-inf")],
            'FILE:2: trial: not a finite number (found "1.5")': [HEAD, line(trial=1.5, seed=1)],
            "FILE:3: want 15 fields (found 2)": [HEAD, line(), "main,walker"],
            'FILE:2: params: want key=value, separated by semicolons (found "beta")': [HEAD, line(params="beta")],
            "FILE:2: empty experiment": [HEAD, line(task="")],
        }.items():
            with self.subTest(want):
                missing = set(want.partition("column ")[2].split(", ")) if "column" in want else set()
                message = self.refused(*lines)
                self.assertTrue(message.startswith(want.partition("column")[0]), message)
                self.assertTrue(all(name in message for name in missing), message)

    def test_shards_merge_and_repeated_rows_count_once(self):
        paths = [
            self.file(HEAD, line(value=1), line(x=1, value=2), name="a.csv"),
            self.file(HEAD, line(x=1, value=2), line(x=2, value=3), name="b.csv"),
        ]
        for order in (paths, paths[::-1]):
            (trial,) = rows.read(order)
            self.assertEqual(trial.curves, {"return": [(0, 1), (1, 2), (2, 3)]})

    def test_reads_xz(self):
        plain = self.file(HEAD, line(value=1), line(x=1, value=2))
        packed = plain.with_name("results.csv.xz")
        packed.write_bytes(lzma.compress(plain.read_bytes()))
        self.assertEqual(rows.read([packed]), rows.read([plain]))

    def test_conflicting_rows_name_both_places(self):
        paths = [self.file(HEAD, line(value=1), name="a.csv"), self.file(HEAD, line(value=2), name="b.csv")]
        with self.assertRaisesRegex(rows.ResultsError, r"b.csv:2: return: 2 here, 1 at .*a.csv:2"):
            rows.read(paths)
        rows.read([self.file(HEAD, line(measure="hz", value=1), line(measure="hz", value=2))])  # rates always differ

    def test_a_trial_of_two_protocols_or_seeds_is_refused(self):
        for other in ({"protocol_hash": "c"}, {"seed": 7}):
            self.assertIn(
                "FILE:3: trial 0 of walker walk ucb was also run", self.refused(HEAD, line(), line(x=1, **other))
            )


class TestEstimates(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(3)
        self.scores = rng.gamma(2.0, size=(5, 4, 1)) * np.array([1, 2, 3, 4])[None, :, None]
        self.runs = estimates.Runs(self.scores, np.arange(20).reshape(5, 4))

    def test_interquartile_mean_is_that_of_rliable_and_scipy(self):
        for shape in ((3, 2), (4, 3), (5, 1), (10, 7)):
            scores = np.random.default_rng(1).normal(size=shape)
            ours = estimates.interquartile_means(scores[..., None])[0]
            self.assertAlmostEqual(ours, metrics.aggregate_iqm(scores), places=12)
            self.assertAlmostEqual(ours, stats.trim_mean(scores, 0.25, axis=None), places=12)

    def test_interval_is_that_of_rliable_but_for_the_factor(self):
        (ours,) = estimates.estimate("n", [self.runs], [0, 1, 2, 3], estimates.means)
        np.random.seed(1)
        point, ends = library.get_interval_estimates(
            {"n": self.scores[..., 0]}, lambda s: np.array([s.mean()]), reps=20_000
        )
        variances = self.scores[..., 0].var(axis=0, ddof=1)
        freedom = variances.sum() ** 2 / (variances**2 / 4).sum()
        factor = np.sqrt(5 / 4) * stats.t.ppf(0.975, freedom) / stats.norm.ppf(0.975)
        self.assertAlmostEqual(ours.value, point["n"][0], places=12)
        self.assertAlmostEqual(ours.freedom, freedom, places=9)
        low, high = ours.value - factor * (ours.value - ends["n"][:, 0])
        self.assertLess(abs(ours.low - low) + abs(ours.high - high), 0.08 * (high - low))

    def test_intervals_of_few_runs_cover_the_truth(self):
        rng, inside, percentiles = np.random.default_rng(5), 0, 0
        spread = np.array([1, 0.2, 0.5, 0.1])[None, :, None]
        with mock.patch.object(estimates, "REPS", 300):
            for i in range(300):
                runs = estimates.Runs(spread * rng.normal(size=(3, 4, 1)), np.arange(12).reshape(3, 4))
                (e,) = estimates.estimate(str(i), [runs], [0, 1, 2, 3], estimates.means)
                factor = np.sqrt(3 / 2) * stats.t.ppf(0.975, e.freedom) / stats.norm.ppf(0.975)
                inside += e.low <= 0 <= e.high
                percentiles += e.value - (e.value - e.low) / factor <= 0 <= e.value + (e.high - e.value) / factor
        self.assertGreater(inside / 300, 0.92)
        self.assertLess(percentiles / 300, 0.85)  # what it would be without the factor

    def test_p_values_agree_with_the_interval_and_with_a_t_test(self):
        runs = estimates.Runs(self.scores[:, :1], self.runs.seeds[:, :1])
        (e,) = estimates.estimate("t", [runs], [0], estimates.means)
        self.assertAlmostEqual(e.p_values(e.low)[0], 0.025, places=9)
        self.assertAlmostEqual(e.p_values(e.high)[1], 0.025, places=9)
        sample = self.scores[:, 0, 0]
        for bound in (0.0, e.value - 0.3, e.value + 0.3):
            want = stats.ttest_1samp(sample, bound, alternative="greater").pvalue
            self.assertLess(abs(e.p_values(bound)[0] - want), 0.05)

    def test_runs_with_equal_seeds_are_drawn_together(self):
        def difference(a, b):
            return estimates.means(a) - estimates.means(b)

        other = estimates.Runs(self.scores + 1, self.runs.seeds)
        (paired,) = estimates.estimate("d", [other, self.runs], [0, 1, 2, 3], difference)
        self.assertLess(paired.high - paired.low, 1e-9)
        other.seeds = other.seeds + 100
        (apart,) = estimates.estimate("d", [other, self.runs], [0, 1, 2, 3], difference)
        self.assertGreater(apart.high - apart.low, 1)

    def test_one_run_has_no_interval(self):
        (e,) = estimates.estimate(
            "o", [estimates.Runs(self.scores[:1], self.runs.seeds[:1])], [0, 1, 2, 3], estimates.means
        )
        self.assertFalse(e.known)
        self.assertEqual(e.p_values(0), (1.0, 1.0))

    def test_required_runs(self):
        self.assertEqual(
            estimates.Estimate(1.0, 0.8, 1.2, 9, 4).required_runs(0.9), 16
        )  # half the distance: four times
        self.assertIsNone(estimates.Estimate(1.0, 0.8, 1.2, 9, 4).required_runs(1.0))

    def test_holm(self):
        np.testing.assert_allclose(estimates.holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])


class TestSamples(Folder):
    def test_numbers_of_a_trial(self):
        results = self.results(
            line(x=0, value=10),
            line(x=1, value=20),
            line(x=2, value=60),
            *(line(measure="reward", x=x, value=v) for x, v in ((100, 1), (200, 2), (400, 5))),
            *(line(measure="labels", x=x, value=v) for x, v in ((100, 30), (400, 70))),
        )
        (trial,) = results.trials
        for measure, view, want in [
            ("return", {}, 30),
            ("return", {"episodes": [2, 3]}, 40),
            ("return", {"episodes": [4, 9]}, None),
            ("reward", {}, (100 + 200 + 1000) / 400),
            ("reward", {"steps": [0, 200]}, 1.5),
            ("labels", {}, 70),
            ("labels", {"steps": [0, 200]}, 30),
            ("labels", {"steps": [900, 1000]}, None),
            ("hz", {}, None),
            ("reward", {"change_at": 200}, 5 - 1.5),
            ("reward", {"change_at": 150}, None),  # no row at the step
            ("reward", {"change_at": 400}, None),  # none after it
            ("reward", {"used": 30}, 1),
            ("reward", {"used": 71}, (100 + 200 + 1000) / 400),  # never used up
        ]:
            self.assertEqual(samples.number(trial, measure, view), want, (measure, view))

    def test_success_is_a_return_above_0(self):
        (trial,) = self.results(*(line(x=x, value=v) for x, v in enumerate([0, 0, 5, 1]))).trials
        self.assertEqual([samples.number(trial, "success", {"episodes": [first, 4]}) for first in (1, 2, 3)],
                         [0.5, 2 / 3, 1])

    def test_share_divides_task_by_task_and_network_by_network(self):
        results = self.results(
            *series("ucb", [1, 3]),
            *series("oracle", [4, 4]),
            *series("ucb", [30, 30], task="run"),
            *series("oracle", [10, 10], task="run"),
            *series("ucb", [5, 5], model_hash="z", bfm_seed=1),
            *series("oracle", [10, 10], model_hash="z", bfm_seed=1),
        )
        sample = results.sample([t for t in results.trials if t.method == "ucb"], "share", {})
        np.testing.assert_allclose(sample.values[..., 0], [[3, 0.25, 0.5], [3, 0.75, 0.5]])
        (mean,), (iqm,) = sample.mean_and_iqm("s")
        self.assertAlmostEqual(mean.value, 4 / 3)
        self.assertAlmostEqual(iqm.value, (0.5 + 0.5 + 0.75 + 3) / 4)

    def test_oracle_is_the_one_of_the_same_reward_with_the_most_labels(self):
        results = self.results(
            line(),
            line(experiment="kappa"),
            line("oracle", 5, params="labels=100"),
            line("oracle", 6),
            line("oracle", 7, experiment="kappa"),
            line("oracle", 8, params="nonlinearity=2"),
            line(params="nonlinearity=2", x=1),
            line("oracle", -1, task="run"),
            line(task="run"),
        )
        got = {
            (t.experiment, t.task, *t.params.values()): [o.curves["return"][0][1] for o in results.oracle(t)]
            for t in results.trials
            if t.method == "ucb"
        }
        self.assertEqual(
            got, {("main", "walk"): [6], ("kappa", "walk"): [7], ("main", "walk", 2.0): [8], ("main", "run"): []}
        )

    def test_best_settings_are_those_that_were_tried_most_widely(self):
        results = self.results(
            *series("ucb", [1, 1], params="beta=0.1"),
            *series("ucb", [2, 2], params="beta=1"),
            *series("ucb", [1, 1], params="beta=0.1", task="run"),
            *series("ucb", [1, 1], params="beta=1", task="run"),
            *series("ucb", [9, 9], params="beta=7"),
            *series("oracle", [2, 2]),
            *series("oracle", [2, 2], task="run"),
        )
        best = results.best([t for t in results.trials if t.method == "ucb"], set())
        self.assertEqual({t.params["beta"] for t in best}, {1.0})

    def test_unequal_numbers_of_runs_are_cut_and_noted(self):
        results = self.results(*series("ucb", [1, 2, 3]), *series("ucb", [1, 2], task="run"))
        self.assertEqual(results.sample(results.trials, "return", {}).values.shape, (2, 2, 1))
        self.assertEqual(results.notes, {"main, walker, ucb: 2 to 3 runs of a task; the first 2 count."})


class TestClaims(Folder):
    def judge(self, lines: list[str], tasks=("walk",), **claim) -> claims.Judgement:
        path = self.folder / "claims.yaml"
        path.write_text(claims_yaml(**claim), encoding="utf-8")
        return claims.judge(self.results(*lines), claims.read(path)[0], "walker", list(tasks))

    def test_verdicts(self):
        oracle = series("oracle", [10, 10, 10])
        for values, verdict in (
            ([9.9, 9.8, 10.0], "holds"),
            ([5.0, 5.1, 4.9], "does not hold"),
            ([9, 10, 6], "undecided"),
        ):
            judgement = self.judge(series("ucb", values) + oracle, checks="[{of: {method: ucb}, at_least: 0.9}]")
            self.assertEqual((judgement.verdict, judgement.notes), (verdict, []))
            self.assertAlmostEqual(judgement.finding.estimate.value, np.mean(values) / 10)

    def test_at_most_turns_the_bound_round(self):
        lines = series("ucb", [5.0, 5.1, 4.9]) + series("oracle", [10, 10, 10])
        self.assertEqual(self.judge(lines, checks="[{of: {method: ucb}, at_most: 0.9}]").verdict, "holds")

    def test_methods_are_compared_run_by_run(self):
        lines = series("ucb", [1, 5, 9]) + series("random", [0.9, 4.8, 8.9])
        judgement = self.judge(
            lines, checks="[{of: {method: ucb}, minus: {method: random}, measure: return, at_least: 0}]"
        )
        self.assertEqual((judgement.verdict, judgement.finding.text), ("holds", "ucb − random, return of an episode"))

    def test_what_was_not_run_is_noted(self):
        checks = "[{of: {method: [ucb, thompson]}, measure: return, at_least: 0}]"
        judgement = self.judge(
            series("ucb", [1, 2, 3]) + series("lola", [1, 1, 1]), tasks=("walk", "run"), checks=checks
        )
        self.assertEqual((judgement.verdict, judgement.notes), ("undecided", ["not run: thompson", "not run: run"]))
        self.assertEqual(self.judge(series("lola", [1, 1]), checks=checks).verdict, "no rows")

    def test_only_networks_that_all_methods_were_run_on_count(self):
        lines = (
            series("ucb", [1.0, 1.1]) + series("ucb", [9, 9], model_hash="z", bfm_seed=1) + series("lola", [0.5, 0.6])
        )
        judgement = self.judge(
            lines, checks="[{of: {method: ucb}, minus: {method: lola}, measure: return, at_least: 0}]"
        )
        self.assertEqual((round(judgement.finding.estimate.value, 9), judgement.notes), (0.5, ["1 of 2 networks"]))

    def sweep(self, quality: dict[float, list[float]], **sweep) -> claims.Judgement:
        lines = [each for noise, values in quality.items() for each in series("ucb", values, params=f"noise={noise}")]
        settings = "".join(f", {key}: {value}" for key, value in sweep.items())
        return self.judge(
            lines,
            checks="[{of: {method: ucb}, over: {noise: 0}, measure: return, at_least: 0.8}]",
            sweep=f"{{key: noise, within: [0, 10]{settings}}}",
        )

    def test_a_sweep_holds_for_all_values_or_for_any(self):
        good, bad = [10.0, 10.1, 9.9], [5.0, 5.1, 4.9]
        self.assertEqual(self.sweep({0: good, 1: good, 10: bad}).verdict, "does not hold")
        self.assertEqual(
            self.sweep({0: good, 1: good, 10: bad}).finding.text, "ucb (noise = 10) / (without), return of an episode"
        )
        self.assertEqual(self.sweep({0: good, 1: good, 10: bad}, any="true").verdict, "holds")
        self.assertEqual(self.sweep({0: good, 1: bad, 10: bad}, any="true").verdict, "does not hold")
        self.assertEqual(self.sweep({0: good, 1: good, 99: bad}, require="[10]").notes, ["not run: noise = 10"])

    def test_each_task_and_each_network_must_hold(self):
        good, bad = [9.9, 9.8, 10.0], [5.0, 5.1, 4.9]
        lines = series("oracle", [10, 10, 10]) + series("oracle", [10, 10, 10], task="run")
        lines += series("oracle", [10, 10, 10], model_hash="z", bfm_seed=7)
        lines += series("ucb", good) + series("ucb", bad, model_hash="z", bfm_seed=7) + series("ucb", good, task="run")
        whole = self.judge(lines, checks="[{of: {method: ucb}, at_least: 0.7}]")
        self.assertEqual(whole.verdict, "holds")
        for each, text in (("task", "ucb, walk"), ("network", "ucb, network of seed 7")):
            judgement = self.judge(lines, checks=f"[{{of: {{method: ucb}}, each: {each}, at_least: 0.8}}]")
            self.assertEqual((judgement.verdict, judgement.finding.text), ("does not hold", text))
        self.assertEqual(self.judge(lines, checks="[{of: {method: ucb}, each: task, at_least: 0.7}]").verdict, "holds")

    def test_area_is_the_mean_over_the_logarithm(self):
        shares = {("ucb", 100): 0.5, ("ucb", 1000): 0.9, ("ucb", 10_000): 0.9, ("rnd", 100): 0.6, ("rnd", 1000): 0.6,
                  ("rnd", 10_000): 0.8, ("rnd", 50_000): 0.1}
        lines = series("oracle", [10, 10, 10]) + [
            each for (by, n), share in shares.items()
            for each in series("collected", [10 * share + e for e in (-0.1, 0, 0.1)], params=f"by={by};labels={n}")]
        checks = "[{of: {method: collected, by: ucb}, minus: {by: rnd}, area: labels, at_least: 0}]"
        judgement = self.judge(lines, checks=checks)
        self.assertAlmostEqual(judgement.finding.estimate.value, (-0.1 + 2 * 0.3 + 0.1) / 4)
        self.assertTrue(judgement.finding.text.endswith("mean over log(labels) from 100 to 10000"))
        few = [text for text in lines if "labels=100" not in text]
        self.assertEqual(self.judge(few, checks=checks).notes, ["not run: two values of labels"])

    def test_a_claim_about_other_hardware_is_undecided(self):
        lines = series("ucb", [1, 1.1, 0.9], measure="hz")
        judgement = self.judge(lines, checks="[{of: {method: ucb}, measure: hz, at_least: 50}]", hardware="GPU")
        self.assertEqual((judgement.verdict, judgement.notes), ("undecided", ["about a GPU; measured on a CPU"]))

    def test_a_claim_about_some_robots_skips_the_others(self):
        claim = {"id": "a", "source": "ours", "claim": "", "experiment": "main", "robots": ["cheetah"], "checks": []}
        planned = {"main": {"walker": ["walk"], "cheetah": ["run"]}}
        judgements = claims.judge_all(self.results(*series("ucb", [1, 2])), [claim], planned)
        self.assertEqual([j.env for j in judgements], ["cheetah"])

    def test_several_checks_are_adjusted(self):
        rng = np.random.default_rng(2)
        reference = list(100 + rng.normal(size=4))
        worse = [v - 1.4 + e for v, e in zip(reference, rng.normal(scale=0.55, size=4))]
        alone = self.sweep({0: reference, 1: [v - 20 for v in worse]})
        among = self.sweep({0: reference, 1: [v - 20 for v in worse]} | {x: list(reference) for x in (2, 3, 4, 5)})
        self.assertAlmostEqual(among.fails, min(1, 5 * alone.fails), places=9)

    def test_judged_together(self):
        lines = series("ucb", [9.9, 9.8, 10.0]) + series("oracle", [10, 10, 10])
        claim = {
            "id": "a",
            "source": "ours",
            "claim": "",
            "experiment": "main",
            "checks": [{"of": {"method": "ucb"}, "at_least": 0.9, "bound_from": "ours"}],
        }
        unclear = claim | {"checks": [{"of": {"method": "ucb"}, "at_least": 0.985, "bound_from": "ours"}]}
        results = self.results(*lines)
        alone = claims.judge_all(results, [claim], {"main": {"walker": ["walk"], "cheetah": ["run"]}})
        self.assertEqual(
            [(j.env, j.verdict, j.stands) for j in alone], [("cheetah", "no rows", False), ("walker", "holds", True)]
        )
        p = 2 * alone[1].holds
        among = claims.judge_all(results, [claim] + [unclear] * int(0.05 / p + 1), {})
        self.assertEqual((among[0].verdict, among[0].stands), ("holds", False))

    def test_damaged_claims_are_refused(self):
        for want, claim in {
            "unknown key atleast": {"checks": "[{of: {method: ucb}, atleast: 1, at_most: 2}]"},
            "each: task or network": {"checks": "[{of: {method: ucb}, each: robot, at_least: 1}]"},
            "area with minus or over": {"checks": "[{of: {method: ucb}, area: labels, at_least: 1}]"},
            "want at_least or at_most": {"checks": "[{of: {method: ucb}}]"},
            "paper or ours": {"checks": "[{of: {method: ucb}, at_least: 1}]", "bound_from": "them"},
        }.items():
            path = self.folder / "claims.yaml"
            path.write_text(claims_yaml(**claim), encoding="utf-8")
            with self.assertRaisesRegex(rows.ResultsError, f"claims.yaml: test: .*{want}"):
                claims.read(path)


def claims_yaml(**claim) -> str:
    lines = {"source": "ours", "claim": "", "experiment": "main", "bound_from": "ours"} | claim
    return "- id: test\n" + "".join(f"  {key}: {value or repr(value)}\n" for key, value in lines.items())


class TestPage(Folder):
    def setUp(self):
        super().setUp()
        patch = mock.patch.object(estimates, "REPS", 100)
        patch.start()
        self.addCleanup(patch.stop)

    def written(self, out: str, *paths: Path) -> dict[str, bytes]:
        command.write(EXPERIMENTS, self.folder / out, list(paths))
        return {
            str(path.relative_to(self.folder / out)): path.read_bytes()
            for path in sorted((self.folder / out).glob("**/*.*"))
        }

    def main(self) -> list[str]:
        levels = {"ucb": 9, "thompson": 8, "random": 1, "oracle": 10}
        return [
            line(
                method,
                level + 0.1 * trial + 0.2 * episode,
                episode,
                trial,
                task=task,
                params="beta=0.1" * (method == "ucb"),
            )
            for method, level in levels.items()
            for episode in range(6)
            for trial in range(3)
            for task in ("walk", "run")
        ]

    def test_the_same_rows_give_the_same_bytes(self):
        halves = self.main()[::2], self.main()[1::2]
        paths = [self.file(HEAD, *half, name=f"{i}.csv") for i, half in enumerate(halves)]
        self.assertEqual(self.written("a", *paths), self.written("b", *paths[::-1]))

    def test_page_has_tables_figures_verdicts_and_what_is_missing(self):
        files = self.written("out", self.file(HEAD, *self.main()))
        names = [f"results/{name}" for name in
                 ("claims.md", "main.md", "main.svg", "networks.md", "oracle.md", "provenance.md", "rover.md")]
        self.assertEqual(sorted(files), ["results.md", *names])
        for name, wanted in {
            "results.md": ["From the fifth episode on, ucb reaches", "[Main comparison](results/main.md)",
                           "[The built-in rover](results/rover.md)", "(protocols.md)"],
            "results/main.md": ["| walker | ucb | β = 0.1 |",
                                "![Return of each episode as a share of the oracle's](main.svg)",
                                "Networks trained with commands that resemble the tasks: `models/walker`."],
            "results/oracle.md": ["| walker | oracle, models/walker |"],
            "results/claims.md": ["| `near-oracle` | walker |", "not run: lola", "not run: flip, stand"],
            "results/provenance.md": ["| main | walker | 2 | 1 | 24 |"],
        }.items():
            for want in wanted:
                self.assertIn(want, files[name].decode())

    def test_links_lead_from_each_page(self):
        anchors = {"the-maze": "maze"}
        text = "[a](#the-maze), [b](gpu.md#x), [c](https://d.e)"
        for documents, pages, want in [("../", "", "[a](maze.md), [b](../gpu.md#x), [c](https://d.e)"),
                                       ("", "results/", "[a](results/maze.md), [b](gpu.md#x), [c](https://d.e)")]:
            self.assertEqual(page._relink(text, anchors, documents, pages), want)
        with self.assertRaisesRegex(rows.ResultsError, "no section #the-sea"):
            page._relink("[a](#the-sea)", anchors, "", "")

    def test_figures_follow_the_colour_scheme_and_carry_no_date(self):
        svg = self.written("out", self.file(HEAD, *self.main()))["results/main.svg"].decode()
        self.assertIn("prefers-color-scheme: dark", svg)
        self.assertNotRegex(svg, r"<dc:date>|20\d\d-\d\d-\d\d")
        self.assertIn(figures.LOOKS["ucb"][0], svg)

    def test_an_experiment_without_a_section_is_noted(self):
        text = self.written("out", self.file(HEAD, *self.main(),
                                             line(experiment="new")))["results/provenance.md"].decode()
        self.assertIn("- new: no section in results.yaml.", text)

    def test_command_reports_a_damaged_file_and_writes_nothing(self):
        path, errors = self.file(HEAD, line(value="?")), io.StringIO()
        with (
            mock.patch("sys.argv", ["analysis", str(EXPERIMENTS), str(self.folder / "out"), str(path)]),
            contextlib.redirect_stderr(errors),
        ):
            self.assertEqual(command.main(), 1)
        self.assertEqual(errors.getvalue(), f'analysis: {path}:2: value: not a finite number (found "?")\n')
        self.assertFalse((self.folder / "out").exists())


class TestPriors(Folder):
    def test_the_committed_prior_is_the_one_of_its_description(self):
        name, described, moment = priors.read(EXPERIMENTS.parents[1] / "models" / "walker")
        self.assertEqual((name, moment.shape), ("walker", (50, 50)))
        np.testing.assert_array_equal(moment, moment.T)
        least, mean = np.linalg.eigvalsh(moment)[0], np.trace(moment) / 50
        self.assertGreater(least, 0.9 * described["isotropic"] * mean)
        self.assertEqual(priors.draw([(name, described, moment)])[:5], b"<?xml")

    def test_the_share_of_directions_falls_from_the_strongest(self):
        np.testing.assert_allclose(priors.share_of_directions(np.diag([1.0, 6, 3])), [0, 0.6, 0.9, 1])


class TestCommitted(unittest.TestCase):
    def test_links_of_the_documents_have_a_target(self):
        docs = EXPERIMENTS.parents[1] / "docs"
        for path in [*docs.glob("*.md"), *docs.glob("results/*.md")]:
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
                if "://" not in target:
                    self.assertTrue((path.parent / target).exists(), f"{path}: {target}")

    def test_the_page_of_verdicts_is_short_and_gives_reasons(self):
        text = (EXPERIMENTS.parents[1] / "docs" / "results.md").read_text(encoding="utf-8")
        self.assertLess(len(text.split()), 2500)
        for claim in claims.read(EXPERIMENTS / "claims.yaml"):
            self.assertRegex(claim.get("why", ""), r"^\S.*\.$", claim["id"])

    def test_claims_and_sections_name_experiments_that_have_a_protocol(self):
        protocols = command.protocols(EXPERIMENTS)
        for claim in claims.read(EXPERIMENTS / "claims.yaml"):
            self.assertIn(claim["experiment"], protocols, claim["id"])
        shown = sections.load(EXPERIMENTS / "results.yaml", sections.SECTION_KEYS, "tables", sections.VIEW_KEYS)
        for section in shown:
            for name in section.get("experiments", [section["id"]] if section["id"] != "theory" else []):
                self.assertIn(name, protocols, section["id"])


class TestStuck(Folder):
    def test_tells_apart_why_episodes_fall_short(self):
        """Two episodes of 100 steps: the first has 0.5 of the oracle's return, the second all of it."""
        params = "beta=3;nonlinearity=0"
        lines = [line("oracle", 10, params="nonlinearity=0"), line("oracle", 99, params="nonlinearity=1")]
        lines += [line(value=value, x=x, params=params) for x, value in enumerate([5, 10])]
        lines += [line(measure="labels", value=x, x=x, params=params) for x in (100, 200)]
        for x, distance, task, chosen in [(0, 4, 1, 2), (25, 1, 1, 2), (50, 0.5, 3, 2), (75, 0.5, 2, 2),
                                          (150, 9, 9, 0)]:
            for measure, value in (("task_distance", distance), ("task_score", task), ("plan_score", chosen)):
                lines.append(line(measure=measure, value=value, x=x, params=params))
        results = self.results(*lines)
        self.assertEqual(stuck.causes(results, results.trials), [
            ["walker", "walk", "0", "3", "0.75", "1 of 2", "1.5", "0.25", "0.50", "0.25"]])


class TestLearnt(Folder):
    """Trials of eight episodes of ten steps and five labels. The oracle's return is 10."""

    def trial(self, number: int, returns: list[float], method="thompson", **measures) -> list[str]:
        common = {"experiment": "learnt", "env": "rover", "task": "spin", "trial": number}
        made = [line(method, value, x, **common) for x, value in enumerate(returns)]
        made += [line(method, 5 * e, 10 * e, measure="labels", **common) for e in range(1, len(returns) + 1)]
        for name, pairs in measures.items():
            made += [line(method, value, x, measure=name, **common) for x, value in pairs]
        return made

    def read(self, *trials: list[str]) -> list[rows.Trial]:
        return rows.read([self.file(HEAD, *(each for trial in trials for each in trial))])

    def test_an_announcement_is_wrong_if_later_episodes_fall_short(self):
        oracle = self.trial(0, [10] * 8, "oracle")
        right = self.trial(0, [2, 4, 9, 9, 9, 9, 9, 9], learnt=[(35, 1)])  # from the fifth episode on: 0.9
        wrong = self.trial(1, [9, 9, 9, 9, 2, 2, 2, 2], learnt=[(25, 1), (45, 0)])
        silent = self.trial(2, [9] * 8)
        late = self.trial(3, [9] * 8, learnt=[(79, 1)])  # no episode follows
        trials = self.read(oracle, right, wrong, silent, late)
        (found,) = learnt.announcements(trials)
        self.assertEqual(found, ["rover", 8, "", 4, 3, 2, 2, 1, "15"])  # labels at steps 35, 25, 79: 15, 10, 35
        self.assertEqual(learnt.announcements_of_tasks(trials), [["rover", "spin", "1.00", 4, 3, 2, 2, 1]])

    def test_later_episodes_are_compared_with_the_oracle_from_the_same_starts(self):
        trials = self.read(self.trial(0, [10, 10, 10, 10, 1, 1, 10, 10], "oracle"), self.trial(1, [10] * 8, "oracle"),
                           self.trial(0, [9, 9, 9, 9, 0.9, 0.9, 9, 9], learnt=[(35, 1)]))
        shares, (own,) = learnt.Shares(trials), [t for t in trials if t.method == "thompson"]
        self.assertAlmostEqual(shares.after(own, 35), 0.9)
        self.assertIsNone(shares.after(own, 79))
        own.seed += 1000  # an oracle with these starts was not run
        self.assertAlmostEqual(shares.after(own, 35), 4.95 / 8.875)

    def test_counts_the_labels_until_a_changed_task_is_learnt(self):
        spin, walk = (self.trial(0, [value] * 8, "oracle") for value in (10, 20))
        oracles = self.read(spin, [text.replace("spin", "walk") for text in walk])
        trial = self.read(self.trial(0, [1, 9, 9, 9, 0, 0, 0, 15]))  # 0.75 of walk's at the end
        ((_, tasks, runs, first, labels, second, more, last),) = learnt.changes(trial, oracles, {"rover": "walk"})
        self.assertEqual((tasks, runs), ("spin, walk", 1))
        self.assertEqual((first, labels), (1, "10"))  # after two episodes
        self.assertEqual((second, more, last), (0, "20", "0.75"))  # not in four

    def test_counts_the_runs_that_call_a_change(self):
        trials = self.read(self.trial(0, [1] * 8, changed=[(20, 9.0), (60, 8.5)]), self.trial(1, [1] * 8))
        self.assertEqual([row[1:] for row in learnt.calls(trials)], [
            ["", 2, 1], ["", 2, "1 (50.0%, at most 98.7%)"]])

    def test_compares_what_the_page_says_with_the_episode(self):
        said = {"skill": [(1, -0.1), (2, 0.3), (5, 0.6)], "known": [(0, 0.5), (3, 0.6)],
                "known_high": [(0, 0.9), (3, 1.0)], "learnt": [(45, 1), (70, 0)]}
        trials = self.read(self.trial(0, [10] * 8, "oracle"), self.trial(0, [1, 2, 3, 4, 5, 6, 7, 8], **said))
        self.assertEqual([row[2:] for row in learnt.minutes(trials, of=4)], [
            [1, 1, 0, 0, "–", "0.20", 0, 0], [2, 0, 1, 0, "0.60 to 1.00", "0.40", 0, 0],
            [3, 0, 0, 1, "0.60 to 1.00", "0.60", 1, 1], [4, 0, 0, 1, "0.60 to 1.00", "0.80", 0, 0]])

    def test_draws_the_appraisal_only_where_it_was_recorded(self):
        oracle = self.trial(0, [10] * 8, "oracle")
        known = [self.trial(n, list(range(n, n + 8)), known=[(e, 0.35) for e in range(8)]) for n in range(3)]
        self.assertIn(b"<svg", learnt.draw(self.read(oracle, *known)))
        self.assertIsNone(learnt.draw(self.read(oracle, self.trial(0, [1] * 8))))


if __name__ == "__main__":
    unittest.main()
