"""Reads logs with the public packages for MCAP: OPTIBFM=./optibfm python -m unittest scripts.test_log_readers."""

import math
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

try:
    from mcap.exceptions import EndOfFile
    from mcap.reader import NonSeekingReader, make_reader
    from mcap.stream_reader import StreamReader
    from mcap_protobuf.decoder import DecoderFactory
except ImportError as err:
    raise unittest.SkipTest(f"needs mcap and mcap-protobuf-support: {err}") from err

PROGRAM = os.environ.get("OPTIBFM")


@unittest.skipUnless(PROGRAM, "needs the program in $OPTIBFM")
class ALog(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = Path(folder.name)
        cls.run_program("run", "--config", "rover", "--fast", "--json", "--set", "run.duration_s=20",
                        "--set", f"log.dir={folder.name}", "--set", f"run.task_dir={folder.name}/tasks")
        cls.whole, = cls.folder.glob("*.mcap")
        cls.cut, cls.recovered = cls.folder / "cut.mcap", cls.folder / "recovered.mcap"
        content = cls.whole.read_bytes()
        cls.cut.write_bytes(content[:len(content) * 2 // 3])
        cls.run_program("log", "recover", str(cls.cut), "-o", str(cls.recovered))

    @classmethod
    def run_program(cls, *args):
        subprocess.run([PROGRAM, *args], check=True, capture_output=True, timeout=120)

    def check(self, ticks):
        """Compares the named channels of ticks with the arrays, which have the order of the channels."""
        for tick in ticks:
            for message, values in ((tick.observed, tick.obs), (tick.commanded, tick.action)):
                named = [(f.name, getattr(message, f.name)) for f in message.DESCRIPTOR.fields]
                self.assertEqual([v for _, v in named], list(values))
                self.assertTrue(all(math.isfinite(v) for _, v in named))
                self.names.setdefault(message.DESCRIPTOR.name, [n for n, _ in named])

    def setUp(self):
        self.names = {}

    def test_has_the_names_of_the_channels(self):
        for path in (self.whole, self.recovered):
            with self.subTest(path.name), path.open("rb") as f:
                reader = make_reader(f, decoder_factories=[DecoderFactory()])
                ticks = [m for *_, m in reader.iter_decoded_messages(topics=["/tick"])]
                self.assertEqual(len(ticks), reader.get_summary().statistics.channel_message_counts[1])
                self.assertGreater(len(ticks), 100)
                self.check(ticks)
                self.assertIn("heading_cos", self.names["Observed"])
                self.assertEqual(len(self.names["Commanded"]), len(ticks[0].action))

    def test_is_readable_without_its_end(self):
        ticks = []
        with self.cut.open("rb") as f, self.assertRaises(EndOfFile):
            reader = NonSeekingReader(f, decoder_factories=[DecoderFactory()])
            for item in reader.iter_decoded_messages(topics=["/tick"], log_time_order=False):
                ticks.append(item[-1])
        self.check(ticks)
        with self.recovered.open("rb") as f:
            self.assertEqual(len(ticks), make_reader(f).get_summary().statistics.channel_message_counts[1])

    def test_has_valid_checksums(self):
        with self.whole.open("rb") as f:
            self.assertGreater(sum(1 for _ in StreamReader(f, validate_crcs=True).records), 10)


if __name__ == "__main__":
    unittest.main()
