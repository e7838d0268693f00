"""Tests of install_hint.py with the standard library alone: python -m unittest discover scripts."""

import ast
import shlex
import sys
import unittest
from pathlib import Path
from unittest import mock

sys.path.insert(0, str(Path(__file__).resolve().parent))
import install_hint


class PipCommand(unittest.TestCase):
    """The hint is pasted into a shell."""

    def command(self, managed):
        with mock.patch.multiple(sys, executable="/opt/my python/bin/python3", argv=["/srv/a b/dmc_bridge.py"]):
            return install_hint.pip_command(managed)

    def test_quotes_paths_for_the_shell(self):
        self.assertEqual(shlex.split(self.command(managed=False)), [
            "/opt/my python/bin/python3", "-m", "pip", "install", "-r", "/srv/a b/requirements-simulators.txt"])

    def test_creates_a_virtual_environment_for_an_interpreter_of_the_system(self):
        parts = shlex.split(self.command(managed=True))
        self.assertEqual(parts[:4], ["/opt/my python/bin/python3", "-m", "venv", ".venv"])
        self.assertEqual(parts[4:8], ["&&", ".", ".venv/bin/activate", "&&"])
        self.assertEqual(parts[8:], ["python3", "-m", "pip", "install", "-r", "/srv/a b/requirements-simulators.txt"])


class AnOldPython(unittest.TestCase):
    def test_reads_the_refusal(self):
        folder = Path(__file__).resolve().parent
        for path in [*folder.glob("*_bridge.py"), folder / "fb" / "__init__.py", folder / "train_fb.py"]:
            ast.parse(path.read_text(), feature_version=(3, 7))  # else its error is about syntax
        for path in (folder / "install_hint.py", folder / "fb" / "__init__.py"):
            source = path.read_text()
            first = source[:source.index("import os")] if "import os" in source else source
            old = mock.Mock(version_info=(3, 8, 1), executable="python3", exit=mock.Mock(side_effect=SystemExit))
            with mock.patch.dict(sys.modules, sys=old), self.assertRaises(SystemExit):
                exec(first, {})  # noqa: S102
            self.assertIn("needs Python 3.10 or newer, python3 is 3.8", old.exit.call_args[0][0])


if __name__ == "__main__":
    unittest.main()
