"""Folders from strangers: every file a link to something of the user's, or to a pipe, or of the wrong kind."""

from __future__ import annotations

import itertools
import os
import shutil
from pathlib import Path

from tests.attack.command import ended, fork
from tests.attack.materials import RESUME, Materials
from tests.attack.place import TREASURE, Place
from tests.attack.surroundings import hastened


def links(
    m: Materials, scratch: Path, only: tuple[str, ...] = (), one_in: int = 1
) -> tuple[dict[str, list[str]], int]:
    """Put a link, a pipe or a folder in the place of each file, and run the verbs that write; `one_in` takes a share of
    the cases. Returns the failures and the number of cases."""
    failures: dict[str, list[str]] = {}
    cases = 0
    number = itertools.count()
    assert m.corpus and m.pairs
    for source in (one for one in (m.run, m.stopped[0], m.study) if not only or one.name in only):
        inside = sorted(path.relative_to(source) for path in source.rglob("*"))
        for name in [*inside, *(Path(f"{one}.partial") for one in inside), Path("figures")]:
            for kind in ("link", "pipe", "folder"):
                if next(number) % one_in:
                    continue
                cases += 1
                place = Place.made(scratch / "stranger")
                folder = place.copy(source)
                if not _planted(folder / name, place.path / TREASURE, kind):
                    place.remove()
                    continue
                with hastened():
                    done = ended(fork(_writing(source, folder, m)), seconds=30)
                wrong = done.failure or ("" if done.code in (0, 1, 2) else f"exit code {done.code}")
                wrong = place.harm() or wrong
                if wrong:
                    case = f"{source.name}/{name} as a {kind}  [{done.err[-300:]}]"
                    failures.setdefault(f"{wrong} ({source.name})", []).append(case)
                place.remove()
        print(f"  {source.name}: {cases} cases so far, {len(failures)} kinds of failures", flush=True)
    return failures, cases


def _planted(path: Path, treasure: Path, kind: str) -> bool:
    was_folder = path.is_dir()
    if path.exists():
        shutil.rmtree(path) if was_folder else path.unlink()
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind == "link":
        path.symlink_to(treasure if was_folder or path.name == "figures" else treasure / "notes.txt")
    elif kind == "pipe" and hasattr(os, "mkfifo"):
        os.mkfifo(path)
    elif kind == "folder" and not was_folder:
        path.mkdir()
        (path / "file").write_text("x")
    else:
        return False
    return True


def _writing(source: Path, folder: Path, m: Materials) -> tuple[str, ...]:
    if source in m.stopped:
        return ("find", "planted", str(m.pairs), *RESUME, "--out", str(folder))
    if source == m.study:
        return ("study", str(m.recipe), "--out", str(folder))
    return ("show", str(folder), "--page")
