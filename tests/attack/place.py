"""The folder of one case, and how much of the user's it must leave alone."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

TREASURE = "treasure"


def words(line: str, **named: object) -> tuple[str, ...]:
    """A command line from its words, with texts and paths in the place of their {names}."""
    return tuple(word.format(**named) for word in line.split())


@dataclass(frozen=True)
class Place:
    """An empty folder for one case. Beside what the case needs it holds a treasure, which no command may touch."""

    path: Path

    @staticmethod
    def made(path: Path) -> Place:
        place = Place(path)
        (path / TREASURE).mkdir(parents=True)
        (path / TREASURE / "file.json").write_text('{"mine": 1}\n')
        (path / TREASURE / "notes.txt").write_text("mine\n")
        return place

    def copy(self, material: Path) -> Path:
        """A copy of a file or a folder, with the same name."""
        there = self.path / material.name
        if not there.exists():
            (shutil.copytree if material.is_dir() else shutil.copy)(material, there)
        return there

    def harm(self) -> str:
        """What has happened to the treasure, or outside of the folder; empty if nothing has."""
        found = {
            path.name: path.read_text() for path in sorted((self.path / TREASURE).iterdir()) if path.is_file()
        }
        if found != {"file.json": '{"mine": 1}\n', "notes.txt": "mine\n"}:
            return f"the treasure is {sorted(found)}"
        if any(self.path.rglob("owned*")) or Path("owned").exists():
            return "something was run"
        return ""

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
