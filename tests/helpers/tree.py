"""A copy of the package to which a recipe of CONTRIBUTING is applied: files of links, but for those that it changes."""

import os
import subprocess
import sys
from pathlib import Path

import fastquad as fq

PACKAGE = Path(fq.__file__).parent
HELPERS = Path(__file__).parent


class Tree:
    """The package below a folder."""

    def __init__(self, folder):
        self.folder = folder
        for path in PACKAGE.rglob("*"):
            place = folder / "fastquad" / path.relative_to(PACKAGE)
            if path.is_file() and path.suffix != ".pyc":
                place.parent.mkdir(parents=True, exist_ok=True)
                place.symlink_to(path)

    def add(self, place, helper):
        """A new file, from one of the helpers."""
        (self.folder / "fastquad" / place).write_text((HELPERS / helper).read_text(encoding="utf-8"), encoding="utf-8")

    def change(self, place, old, new):
        """Another text in place of the first that is there."""
        path = self.folder / "fastquad" / place
        text = path.read_text(encoding="utf-8")
        assert old in text
        path.unlink()
        path.write_text(text.replace(old, new, 1), encoding="utf-8")

    def row(self, place, before, line):
        """A new line before the first one that begins so."""
        self.change(place, f"\n{before}", f"\n{line}\n{before}")

    def run(self, code):
        """What a new Python prints that imports this copy."""
        environment = os.environ | {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, cwd=self.folder, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split("\n")[:-1]
