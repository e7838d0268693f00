"""Tests record_screen.py. They skip without pyte."""

import sys
import unittest
import xml.etree.ElementTree as ET

try:
    import record_screen
except ImportError as missing:
    raise unittest.SkipTest(f"{missing.name} is not installed") from missing

SVG = "{http://www.w3.org/2000/svg}"
PROGRAM = r"""
import time
print("\x1b[?1049h\x1b[>4;1m\x1b[1;32mrover\x1b[0m <&> \u2588", end="", flush=True)
time.sleep(1)
print("\x1b[1;1HROVER", end="", flush=True)
time.sleep(60)
"""


class RecordScreenTest(unittest.TestCase):
    """Records a program that changes its screen once."""

    def test_records_changes_as_text_and_shapes(self):
        frames = record_screen.record([sys.executable, "-c", PROGRAM], 20, 2, seconds=3, rate=5)
        self.assertEqual(len(frames), 15)
        self.assertEqual(frames[0][0][0], ("r", "#0dbc79", record_screen.GROUND, True))
        self.assertEqual(frames[-1][0][0], ("R", record_screen.INK, record_screen.GROUND, False))

        svg = record_screen.animate(frames, 5, "a <title>")
        root = ET.fromstring(svg)
        self.assertEqual([t.text for t in root.iter(SVG + "text")], ["rover", "<&>", "ROVER", "<&>"])
        self.assertEqual(len(list(root.iter(SVG + "path"))), 2)  # the block, before and after the change
        self.assertEqual(svg.count("@keyframes"), 1)  # only one block of columns changes

    def test_reports_a_program_that_ends(self):
        with self.assertRaisesRegex(SystemExit, "ended early:\nno such robot"):
            record_screen.record([sys.executable, "-c", "print('no such robot')"], 20, 2, seconds=60, rate=5)


if __name__ == "__main__":
    unittest.main()
