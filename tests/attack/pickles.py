"""Hostile pickles: checkpoints that would run something if anybody believed them, those of the tests of `import-lm`.

Each is given to every reader of checkpoints: `import-lm`, a run that is resumed, a training that is resumed, and the
weights of a transformer. A pickle that runs leaves a file named `owned`.
"""

import random
import shutil
from collections.abc import Callable
from pathlib import Path

from tests.attack.command import ended, fork
from tests.attack.materials import RESUME, Materials, train
from tests.attack.place import Place
from tests.lm.test_import_hostile import ATTACKS, PLACES, hostile

Reader = Callable[[Materials, Place, Path], tuple[str, ...]]


def _import(m: Materials, place: Place, evil: Path) -> tuple[str, ...]:
    new = str(place.path / "new")
    return ("import-lm", str(evil), "--vocabulary", str(m.root / "vocab.txt"), "--out", new)


def _resume(m: Materials, place: Place, evil: Path) -> tuple[str, ...]:
    run = place.copy(m.stopped[0])
    shutil.copy(evil, run / "checkpoint.pt")
    return ("find", "planted", str(m.pairs), *RESUME, "--out", str(run))


def _training(m: Materials, place: Place, evil: Path) -> tuple[str, ...]:
    """A training folder with its plan; the checkpoint is somebody else's."""
    out = place.path / "model"
    shutil.copytree(m.begun, out.with_name("model.training"))
    shutil.copy(evil, out.with_name("model.training") / "checkpoint.pt")
    return train(m.corpus, out)


def _weights(m: Materials, place: Place, evil: Path) -> tuple[str, ...]:
    folder = place.copy(m.transformer)
    (folder / "model.safetensors").unlink()
    shutil.copy(evil, folder / "pytorch_model.bin")
    return ("evaluate", str(m.run), "--model", str(folder), "--any-model")


READERS: dict[str, Reader] = {
    "import-lm": _import,
    "a run that is resumed": _resume,
    "a training that is resumed": _training,
    "the weights of a transformer": _weights,
}


def attack(
    number: int, seed: int, materials: Materials, scratch: Path
) -> tuple[dict[str, list[str]], dict[str, int]]:
    """Give `number` hostile pickles to the readers in turn. Returns the failures, and the pickles of each reader."""
    assert materials.checkpoint and materials.stopped and materials.begun and materials.transformer
    failures: dict[str, list[str]] = {}
    met = dict.fromkeys(READERS, 0)
    for i in range(number):
        chance, name = random.Random(f"{seed}:pickle:{i}"), list(READERS)[i % len(READERS)]
        met[name] += 1
        place = Place.made(scratch / "pickle")
        harm = ATTACKS[chance.choice(list(ATTACKS))](place.path / "owned")
        evil = hostile(place.path / "evil.pt", harm, chance.choice(PLACES))
        done = ended(fork(READERS[name](materials, place, evil)))
        wrong = done.failure or ("" if done.code == 2 else f"exit code {done.code} of {name}")
        if wrong := place.harm() or wrong:
            failures.setdefault(wrong, []).append(f"{seed}:pickle:{i}  {name}  [{done.err[-200:]}]")
        place.remove()
    return failures, met
