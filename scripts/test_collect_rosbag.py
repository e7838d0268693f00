"""Tests of collect_rosbag.py: python -m unittest discover scripts (needs rosbags and pyyaml)."""

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    import collect_rosbag
    import numpy as np
    from fb import recording
    from rosbags.rosbag2 import StoragePlugin, Writer
    from rosbags.typesys import Stores, get_typestore
except ImportError as err:
    raise unittest.SkipTest(f"collect_rosbag needs rosbags and pyyaml: {err}") from err

TYPES = get_typestore(Stores.ROS2_HUMBLE)
MAPPING = {
    "name": "cart", "period_s": 0.1, "stale_s": 0.25,
    "obs": [{"name": "knee", "topic": "/joint_states", "field": "position[knee]", "unit": "rad"},
            {"name": "x", "topic": "/point", "field": "point.x", "scale": 2, "offset": 1}],
    "action": [{"name": "forward", "topic": "/cmd_vel", "field": "linear.x", "min": -1, "max": 3}],
}
START = 1_700_000_000.0  # s


def header(at):
    time = TYPES.types["builtin_interfaces/msg/Time"](sec=int(at), nanosec=0)
    return TYPES.types["std_msgs/msg/Header"](stamp=time, frame_id="")


def joints(at, knee):
    return TYPES.types["sensor_msgs/msg/JointState"](
        header=header(at),
        name=["hip", "knee"],
        position=np.array([9.0, knee]),
        velocity=np.array([]),
        effort=np.array([]),
    )


def point(at, x):
    place = TYPES.types["geometry_msgs/msg/Point"](x=x, y=0.0, z=0.0)
    return TYPES.types["geometry_msgs/msg/PointStamped"](header=header(at), point=place)


def twist(_, x):
    vector = TYPES.types["geometry_msgs/msg/Vector3"]
    return TYPES.types["geometry_msgs/msg/Twist"](linear=vector(x=x, y=0.0, z=0.0), angular=vector(x=0.0, y=0.0, z=0.0))


MAKERS = {"/joint_states": joints, "/point": point, "/cmd_vel": twist}


class ABag(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def write(self, name, messages, storage=StoragePlugin.SQLITE3):
        """Writes a bag of messages (topic, time since START in s, number)."""
        path = self.folder / name
        with Writer(path, version=9, storage_plugin=storage) as writer:
            connections = {}
            for topic, at, number in messages:
                message = MAKERS[topic](START + at, number)
                if topic not in connections:
                    connections[topic] = writer.add_connection(topic, message.__msgtype__, typestore=TYPES)
                data = TYPES.serialize_cdr(message, message.__msgtype__)
                writer.write(connections[topic], round((START + at) * 1e9), data)
        return path

    def drive(self, seconds=2.0):
        """Returns messages of three topics with rates of their own."""
        messages = [("/joint_states", t, t) for t in np.arange(0, seconds, 0.05)]
        messages += [("/point", t, -t) for t in np.arange(0, seconds, 0.1)]
        return messages + [("/cmd_vel", t, float(np.sin(9 * t))) for t in np.arange(0, seconds, 0.03)]

    def collect(self, *bags, **changes):
        return collect_rosbag.collect(collect_rosbag.Mapping({**MAPPING, **changes}), list(bags))

    def test_gives_the_newest_observation_and_the_mean_command(self):
        for storage in StoragePlugin:
            with self.subTest(storage.name):
                messages = self.drive()
                columns, clipped = self.collect(self.write(storage.name, messages, storage))
                self.assertEqual(clipped, 0)
                fine = np.arange(0, 2, 1e-4) + 5e-5  # a reference by sampling
                commands = np.array([m[1:] for m in messages if m[0] == "/cmd_vel"])
                held = commands[np.searchsorted(commands[:, 0], fine, "right") - 1, 1]
                n = len(columns["obs"])
                self.assertGreaterEqual(n, 18)
                for k in range(n):
                    want = (held[1000 * k:1000 * (k + 1)].mean() + 1) / 2 - 1  # of [-1, 3]
                    self.assertAlmostEqual(columns["action"][k, 0], want, delta=2e-3)
                    at = 0.1 * k
                    self.assertAlmostEqual(columns["obs"][k, 0], at, delta=0.0501)
                    self.assertAlmostEqual(columns["obs"][k, 1], 1 - 2 * at, delta=0.201)
                np.testing.assert_array_equal(columns["next_obs"][:-1], columns["obs"][1:])
                self.assertEqual(set(columns["episode"]), {0})

    def test_begins_an_episode_after_a_gap_and_with_each_bag(self):
        late = [(topic, t, x) for topic, t, x in self.drive(4) if topic != "/point" or not 1 < t < 2]
        columns, _ = self.collect(self.write("one", late), self.write("two", self.drive()))
        self.assertEqual(set(columns["episode"]), {0, 1, 2})
        ends = np.flatnonzero(np.diff(columns["episode"]))
        self.assertLess(columns["next_obs"][ends[0], 0], 1.4)
        self.assertGreater(columns["obs"][ends[0] + 1, 0], 1.9)

    def test_clips_commands_beyond_their_limits_and_counts_them(self):
        messages = [(topic, t, 5.0 if topic == "/cmd_vel" and t > 1 else x) for topic, t, x in self.drive()]
        columns, clipped = self.collect(self.write("fast", messages))
        self.assertEqual(columns["action"].max(), 1)
        self.assertTrue(8 <= clipped <= 11, clipped)

    def test_is_read_by_the_training(self):
        (self.folder / "mapping.yaml").write_text(str(MAPPING))  # YAML includes this notation
        out = self.folder / "transitions.npz"
        program = [sys.executable, collect_rosbag.__file__, self.folder / "mapping.yaml"]
        run = subprocess.run([*program, self.write("drive", self.drive()), "--out", out], capture_output=True,
                             text=True, check=True)
        self.assertIn("transitions in 1 episodes, 0 with", run.stdout)
        self.assertEqual(recording.read(out, recording.FLOATS[:3])["obs"].shape[1], 2)
        robot = recording.robot(out)
        self.assertEqual((robot["name"], robot["observation"][0]), ("cart", {"name": "knee", "unit": "rad"}))
        before = out.read_bytes()
        for bag, to, error in (
            ("none", "other.npz", "none"),
            ("drive", "transitions.npz", "exists; give another file"),
        ):
            run = subprocess.run([*program, self.folder / bag, "--out", self.folder / to], capture_output=True,
                                 text=True, check=False)
            self.assertEqual((run.returncode, run.stderr.count("\n")), (1, 1), run.stderr)
            self.assertIn(error, run.stderr)
        self.assertEqual(out.read_bytes(), before)

    def test_names_what_is_wrong(self):
        bag = self.write("drive", self.drive())
        other = dict(MAPPING["obs"][0])
        for changes, words in (
            ({"obs": [{**other, "topic": "/odom"}]}, "no message on /odom"),
            ({"obs": [{**other, "field": "position[ankle]"}]}, "no 'ankle' (its names: hip, knee)"),
            ({"obs": [{**other, "field": "position[7]"}]}, "2 numbers, no number 7"),
            ({"obs": [{**other, "field": "position"}]}, "no number at this field"),
            ({"obs": [{**other, "field": "nothing.x"}]}, "no number at this field"),
            ({"obs": [{**other, "field": "a b"}]}, "is not like"),
            ({"obs": [{**other, "scal": 2}]}, "unknown key 'scal'"),
            ({"obs": [other, other]}, "two of one name"),
            ({"obs": []}, "no channel"),
            ({"obs": "x"}, "not a mapping"),
            ({"action": [{"name": "a", "topic": "/cmd_vel", "field": "linear.x", "min": 1,
                          "max": 1}]}, "not below max"),
            ({"action": [{"name": "a", "topic": "/cmd_vel", "field": "linear.x", "min": 1}]}, "no max"),
            ({"period_s": 0}, "period_s is 0 to 60"),
            ({"period_s": True}, "not a number"),
            ({"stale_s": 0.01}, "at least period_s"),
        ):
            with self.subTest(words), self.assertRaises(ValueError) as caught:
                self.collect(bag, **changes)
            self.assertIn(words, str(caught.exception))
        with self.assertRaisesRegex(ValueError, "not finite"):
            self.collect(self.write("nan", [*self.drive(), ("/point", 1.95, float("nan"))]))
        with self.assertRaises(ValueError):
            self.collect(self.folder / "none")


if __name__ == "__main__":
    unittest.main()
