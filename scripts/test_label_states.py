"""Tests of labelled states: python -m unittest discover scripts (needs dm_control)."""

import hashlib
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_dmc
    import label_states
    import numpy as np
    from fb import simulation
except ImportError as err:
    raise unittest.SkipTest(f"labelled states need scripts/requirements.txt: {err}") from err


class DrawnEpisodes(unittest.TestCase):
    def test_are_whole_and_in_the_order_of_time_but_for_the_last_which_is_cut(self):
        episode = np.array([7, 3, 7, 3, 9, 7, 9, 3, 9, 7])
        seen = set()
        for seed in range(20):
            rows, lengths = label_states.draw_episodes(episode, 8, np.random.default_rng(seed))
            self.assertEqual((len(rows), lengths.sum()), (8, 8))
            pieces = np.split(rows, np.cumsum(lengths)[:-1])
            for piece in pieces[:-1]:
                self.assertEqual(piece.tolist(), np.flatnonzero(episode == episode[piece[0]]).tolist())
            last = pieces[-1]
            self.assertEqual(last.tolist(), np.flatnonzero(episode == episode[last[0]])[: len(last)].tolist())
            seen.add(tuple(episode[piece[0]] for piece in pieces))
        self.assertGreater(len(seen), 3)

    def test_all_states_are_all_episodes(self):
        rows, lengths = label_states.draw_episodes(np.array([0, 1, 0]), 3, np.random.default_rng(0))
        self.assertEqual((sorted(rows), sorted(lengths)), ([0, 1, 2], [1, 2]))


class LabelledStates(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.domain = simulation.DOMAINS["cheetah"]()
        cls.record = collect_dmc.explore(cls.domain, 600, seed=1, copies=4, longest=60)
        cls.record["curious"] = np.zeros(len(cls.record["obs"]), bool)

    def test_follow_each_other_as_in_the_record(self):
        # A row's next_obs is the obs of the next row of its episode.
        for number in np.unique(self.record["episode"]):
            rows = self.record["episode"] == number
            np.testing.assert_array_equal(self.record["next_obs"][rows][:-1], self.record["obs"][rows][1:])

    def test_have_their_own_rewards(self):
        columns = label_states.label(self.domain, self.record, 400, seed=2)
        want = {tuple(label_states.rounded(o, 12)): r for o, r in
                zip(self.record["next_obs"], self.domain.reward(self.record["measure"].astype(float))[:, 0])}
        for obs, reward in zip(columns["obs"], columns["reward_walk"]):
            self.assertAlmostEqual(reward, want[tuple(obs)], places=6)
        self.assertEqual(columns["episode_length"].sum(), 400)
        self.assertLess(np.abs(columns["obs"] / label_states.rounded(columns["obs"], 20) - 1).max(), 1e-5)

    def test_of_a_record_without_episodes_are_of_the_same_episodes(self):
        old = {name: self.record[name] for name in ("obs", "next_obs", "measure")}
        found = label_states.find_episodes(old["obs"], old["next_obs"])
        pairs = set(zip(found.tolist(), self.record["episode"].tolist()))
        self.assertEqual(len(pairs), len(set(found.tolist())))
        self.assertEqual(len(pairs), len(set(self.record["episode"].tolist())))
        with self.assertRaisesRegex(SystemExit, "which rows are curious .it tells of none"):
            label_states.label(self.domain, old, 50, seed=0, only="curious")

    def test_are_only_of_the_source_asked_for(self):
        told = {"curious": np.array([False, True, False, False]), "commanded": np.array([False, False, True, False])}
        for only, rows in (("exploring", [0, 3]), ("curious", [1]), ("commanded", [2])):
            self.assertEqual(label_states.rows_of(told, only).tolist(), rows)
        with self.assertRaisesRegex(SystemExit, "which rows are commanded .it tells of curious"):
            label_states.rows_of({"curious": told["curious"]}, "commanded")

    def test_of_another_domain_or_of_no_record_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = str(Path(folder) / "walker.npz")
            np.savez(path, **{**self.record, "measure": np.zeros((600, 4))})
            with self.assertRaisesRegex(SystemExit,
                                        "walker.npz: is not of this domain .widths: measure 4 instead of 1"):
                label_states.read(path, self.domain)
            np.savez(path, obs=self.record["obs"])
            with self.assertRaisesRegex(SystemExit, "has no next_obs, measure"):
                label_states.read(path, self.domain)

    def test_of_a_part_are_the_first_of_the_file_which_it_names(self):
        columns = label_states.label(self.domain, self.record, 400, seed=2)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "states.npz"
            np.savez(path, **columns)
            part = label_states.part(str(path), 150)
            self.assertEqual((part["whole_states"], part["whole_sha256"].tobytes().hex()),
                             (400, hashlib.sha256(path.read_bytes()).hexdigest()))
            np.testing.assert_allclose(part["obs"], columns["obs"][:150], rtol=2**-10, atol=1e-7)
            np.testing.assert_allclose(part["reward_walk"], columns["reward_walk"][:150], rtol=2**-10, atol=1e-7)
            lengths = part["episode_length"]
            self.assertEqual((lengths.sum(), lengths[:-1].tolist()),
                             (150, columns["episode_length"][:len(lengths) - 1].tolist()))
            np.savez(path, **part)
            with self.assertRaisesRegex(SystemExit, "or a part of one"):
                label_states.part(str(path), 10)
            np.savez(path, **{**columns, "obs": columns["obs"] * np.float32(1e6)})
            with self.assertRaisesRegex(SystemExit, "beyond the range of float16"):
                label_states.part(str(path), 10)

    def test_more_than_there_are_is_an_error(self):
        self.record["curious"] = np.zeros(600, bool)
        with self.assertRaisesRegex(SystemExit, "there are 0 transitions, 1 states are wanted"):
            label_states.label(self.domain, self.record, 1, seed=0, only="curious")


if __name__ == "__main__":
    unittest.main()
