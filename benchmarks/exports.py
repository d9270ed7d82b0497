"""Exports beside the interventions that they come from, on held-out pairs.

    python benchmarks/exports.py [--steps every] [--sites mlp] [--targets peft,snippet,…] [--pairs 200]

The intervention is one of the study `transformers` (docs/results/transformers): number agreement in SmolLM2, seed 0.
Each export runs in its own library: peft and transformers here, the others in the environments of `make peers`. The
table has the share of preferences that it flips, to compare with that of the intervention in pivotal, and the largest
difference of any logit of the vocabulary. A preference is flipped if the word that the untouched model does not prefer
becomes the more likely one at the first token where the two words differ.

`--targets control-vector` adds the vectors in transformers and in llama.cpp, and also prints the share of preferences
that are the same in both.
"""

from __future__ import annotations

import argparse
import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from pivotal.exports import Portable, export
from pivotal.exports.control_vector import vectors
from pivotal.models import load_model
from pivotal.models.transformers.gguf import joined, packaged
from pivotal.models.transformers.lm import TransformersLM
from pivotal.problem.problem import Problem
from pivotal.questions.question import Question
from pivotal.records.intervention import Intervention
from pivotal.records.study import StudyRow, read_results
from pivotal.units import Unit

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))

from tests.exports.peer import in_batches  # noqa: E402
from tests.exports.with_llama_cpp import FLOAT32, adding, in_peer, write_gguf  # noqa: E402

MODEL = "smollm2-135m"
PEERS = ("pyvene", "nnsight", "transformer-lens")
EVERY, SINGLE = ("peft", "transformers", "snippet", *PEERS), ("snippet", *PEERS)


class Asked:
    """The held-out pairs as rows of tokens, with the two tokens that are compared and the direction to flip to."""

    def __init__(self, problem: Problem, lm: TransformersLM, most: int) -> None:
        first = len(lm.vocabulary.priming)
        self.rows, self.words, self.positions = [], [], []
        kept = []
        for n, pair in enumerate(problem.pairs):
            encoding, tokens = lm.encode(pair.prefix), [lm.tokens_of(word) for word in pair.words]
            shared = next(i for i, (a, b) in enumerate(zip(*tokens, strict=False)) if a != b)
            if len(kept) < most:
                kept.append(n)
                self.rows.append([*lm.vocabulary.priming, *encoding.ids, *tokens[0][:shared]])
                self.words.append([word[shared] for word in tokens])
                cue = 0 if pair.cue is None else pair.cue
                self.positions.append(first + encoding.last_token_of(cue))
        self.direction = problem.direction[kept]
        self.single = problem.steps == "single"

    def of(self, direction: int) -> list[int]:
        return np.flatnonzero(self.direction == direction).tolist()

    def prefers(self, logits: np.ndarray) -> np.ndarray:
        """Whether the second word is more likely than the first."""
        first, second = (logits[np.arange(len(logits)), words] for words in np.array(self.words).T)
        return second > first

    def flips(self, logits: np.ndarray) -> float:
        return float((self.prefers(logits) == self.direction).mean())


def by_direction(portable: Portable, asked: Asked, run_of: Callable[[str], Callable[..., Any]]) -> np.ndarray:
    """The logits after every row, in its own direction. `run_of` returns a function of direction, position and ids."""
    found: dict[int, np.ndarray] = {}
    for row, label in enumerate(portable.intervention.directions):
        chosen = asked.of(row)
        positions = [asked.positions[n] for n in chosen] if asked.single else None
        with torch.no_grad():
            logits = in_batches(run_of(label), label, [asked.rows[n] for n in chosen], positions)
        found.update(zip(chosen, logits, strict=True))
    return np.stack([found[n] for n in sorted(found)])


def ours(portable: Portable, asked: Asked) -> np.ndarray:
    first = len(portable.model.vocabulary.priming)

    def run_of(label: str) -> Callable[..., Any]:
        edited = portable.model.intervened(portable.intervention, label, cue=0)

        def run(_: str, position: int | None, ids: torch.Tensor) -> torch.Tensor:
            cue = None if position is None else position - first
            return edited.next_logits(ids[:, first:].tolist(), cue)[:, None]

        return run

    return by_direction(portable, asked, run_of)


def here(portable: Portable, target: str, folder: Path, asked: Asked) -> np.ndarray:
    """An export to peft, transformers or a snippet, run with transformers in this process."""
    from transformers import AutoModelForCausalLM

    names = portable.names

    def run_of(label: str) -> Callable[..., Any]:
        source = folder / names[label] if target == "transformers" else portable.model.network.name_or_path
        model: Any = AutoModelForCausalLM.from_pretrained(source, dtype="float32").eval()
        if target == "peft":
            from peft import PeftModel

            model = PeftModel.from_pretrained(model, folder / names[label]).eval()
        code = runpy.run_path(str(folder / "intervene.py")) if target == "snippet" else None

        def run(_: str, position: int | None, ids: torch.Tensor) -> torch.Tensor:
            with code["intervene"](model, label, position) if code else nullcontext():
                return model(input_ids=ids).logits

        return run

    return by_direction(portable, asked, run_of)


def elsewhere(portable: Portable, target: str, folder: Path, asked: Asked, peers: Path) -> np.ndarray:
    """An export to another library, run in the environment of that library."""
    cases = []
    for row, label in enumerate(portable.intervention.directions):
        chosen = asked.of(row)
        cases.append(
            {
                "target": target,
                "folder": str(folder),
                "model": portable.model.network.name_or_path,
                "direction": label,
                "positions": [asked.positions[n] for n in chosen] if asked.single else None,
                "rows": [asked.rows[n] for n in chosen],
            }
        )
    (folder / "cases.json").write_text(json.dumps(cases), encoding="utf-8")
    python, script = peers / target / "bin" / "python", ROOT / "tests" / "exports" / "peer.py"
    subprocess.run([python, script, folder / "cases.json", folder / "out.npz"], check=True)
    arrays = np.load(folder / "out.npz")
    made = np.zeros((len(asked.rows), arrays["arr_0"].shape[1]), dtype=np.float32)
    for row in range(len(cases)):
        made[asked.of(row)] = arrays[f"arr_{row}"]
    return made


def in_llama_cpp(
    portable: Portable, model: Path, folder: Path | None, asked: Asked, peers: Path
) -> np.ndarray:
    """A GGUF file in llama.cpp, with the control vectors of a folder or untouched."""
    names, cases = portable.names, []
    for row, label in enumerate(portable.intervention.directions):
        more = [] if folder is None else ["--control-vector", str(folder / f"{names[label]}.gguf")]
        arguments = ["--model", *model, *more]
        cases.append({"arguments": arguments, "rows": [asked.rows[n] for n in asked.of(row)]})
    with tempfile.TemporaryDirectory() as place:
        arrays = in_peer(peers / "xllamacpp" / "bin" / "python", "llama_cpp.py", Path(place), cases)
    made = np.zeros((len(asked.rows), arrays[0].shape[1]), dtype=np.float32)
    for row, array in enumerate(arrays):
        made[asked.of(row)] = array
    return made


def control_vector(portable: Portable, asked: Asked, peers: Path) -> None:
    """Control vectors in transformers and in llama.cpp: with the float32 weights that pivotal computes with, and with
    the quantised GGUF file that they were converted from and the default settings."""
    added, parts = vectors(portable), packaged(MODEL)
    assert parts is not None

    def run_of(label: str) -> Callable[..., Any]:
        def run(_: str, __: int | None, ids: torch.Tensor) -> torch.Tensor:
            with adding(portable, added[label] if folder is not None else {}):
                return portable.model.network(input_ids=ids).logits

        return run

    with tempfile.TemporaryDirectory() as place:
        print(*export(portable, "control-vector", Path(place) / "export").approximate, sep="\n", flush=True)
        file = write_gguf(portable.model.network, Path(place) / "model.gguf")
        models = {"float32": (str(file), *FLOAT32), "quantised": (str(joined(MODEL, parts)),)}
        for folder, about in ((None, "untouched"), (Path(place) / "export", "control vector")):
            ours = by_direction(portable, asked, run_of)
            print(f"| transformers, {about} | {asked.flips(ours):.1%} | | |", flush=True)
            for kind, model in models.items():
                theirs = in_llama_cpp(portable, model, folder, asked, peers)
                worst = float(np.abs(theirs - ours).max())
                same = float((asked.prefers(theirs) == asked.prefers(ours)).mean())
                flipped = f"{asked.flips(theirs):.1%}"
                print(f"| llama.cpp, {kind}, {about} | {flipped} | {worst:.1e} | {same:.1%} |", flush=True)


def stored(steps: str, sites: str) -> StudyRow:
    """The row of the study with these steps and sites."""
    for row in read_results(ROOT / "docs" / "results" / "transformers" / "results.jsonl"):
        asked = (row.model, row.phenomenon, row.steps, row.sites, row.seed, row.cell["split"])
        if asked == (MODEL, "number-agreement", steps, sites, 0, "random"):
            return row
    raise SystemExit(f"The study has no row with steps {steps} and sites {sites}.")


def intervention_of(row: StudyRow, lm: TransformersLM, labels: tuple[str, str]) -> Intervention:
    units = tuple(Unit(unit.site, unit.index) for unit in row.found or ())
    values = np.array(
        [[unit.values[label] for unit in row.found or ()] for label in labels], dtype=np.float32
    )
    about = (lm.name, lm.fingerprint(), row.phenomenon, "")
    return Intervention(units, labels, values, row.steps, *about)  # type: ignore[arg-type]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", default="every", choices=("every", "single"))
    parser.add_argument("--sites", default="mlp")
    parser.add_argument("--targets", default="")
    parser.add_argument("--pairs", type=int, default=200)
    parser.add_argument("--peers", type=Path, default=ROOT / "build" / "peers")
    given = parser.parse_args()
    row, lm = stored(given.steps, given.sites), load_model(MODEL, device="cpu")
    assert isinstance(lm, TransformersLM)
    question = Question(MODEL, row.phenomenon, steps=row.steps, split=row.split, split_seed=row.split_seed)
    pairs = question.load_pairs()
    found = intervention_of(row, lm, pairs.labels)
    sites = ",".join(dict.fromkeys(unit.site for unit in found.units))
    train, test = question.divide(pairs)
    problem = Problem(lm, test[: given.pairs], sites=sites, steps=found.steps)
    asked = Asked(problem, lm, given.pairs)
    portable = Portable.of(lm, found)
    mine = ours(portable, asked)
    print(f"{found!r}: {len(asked.rows)} pairs, pivotal flips {asked.flips(mine):.1%}", flush=True)
    for target in given.targets.split(",") if given.targets else SINGLE if asked.single else EVERY:
        if target == "control-vector":
            some = Problem(lm, train[::11], sites=sites, steps=found.steps)
            control_vector(Portable.of(lm, found, train=some, test=problem), asked, given.peers)
            continue
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "export"
            export(portable, target, folder)
            if target in PEERS:
                theirs = elsewhere(portable, target, folder, asked, given.peers)
            else:
                theirs = here(portable, target, folder, asked)
        worst = float(np.abs(theirs - mine).max())
        print(f"| {target} | {asked.flips(theirs):.1%} | {worst:.1e} |", flush=True)


if __name__ == "__main__":
    main()
