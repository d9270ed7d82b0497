"""Sound inputs of every kind, made once by the commands themselves. The attack spoils copies of them."""

import contextlib
import gzip
import lzma
import shutil
from functools import cached_property
from pathlib import Path

from tests.attack.command import ended, fork
from tests.attack.place import words
from tests.attack.surroundings import hastened
from tests.onlooker import Onlooker

from pivotal.lm.training_folder import TrainingFolder

FIND = ("--updates", "2", "-o", "refit=1", "--controls", "0", "--test", "12")
RESUME = ("--updates", "4", "-o", "refit=4", "--controls", "0", "--test", "12", "--runs", "2", "-q")
TEMPLATE = """\
labels: [singular, plural]
test: 4
lexicon:
  noun: [{singular: noun0a, plural: noun0as, kind: a}, {singular: noun0b, plural: noun0bs, kind: b}]
  verb: {plural: [verb0a, verb0b], singular: [verb0as, verb0bs], kind: [a, b]}
  near: [near, behind, quite, often]
words: verb
lexemes: [noun, verb]
templates:
  - "The {noun}"
  - {group: far, cue: noun, prefix: "The {noun} {near}", sample: 16, where: verb.kind = noun.kind}
  - {prefix: {singular: "The noun0c {near} {near2}", plural: "The noun0cs {near} {near2}"}, words: [verb0cs, verb0c]}
"""
RECIPE = """\
name: small
about: Two cells.
runs: 1
resources: {cpus: 1}
defaults: {model: planted, phenomenon: PAIRS, test: 12, updates: 1, refit: 1}
grid:
  steps: [every, single]
also:
  - {label: {steps: attribution}, search: attribution, max-units: 2}
table: {kind: units, least: 0.1}
"""


class Materials:
    """Each property is a path. What it needs is made when it is first asked for."""

    def __init__(self, root: Path, *, brief: bool = False) -> None:
        """With `brief`, reports have no figures and certificates are rough, which saves half of the time."""
        self.root, self._brief = root, brief

    def _made(self, *arguments: str) -> None:
        # In a process of its own, so that this one starts no threads: they would not survive a later fork.
        with hastened(brief=self._brief):
            done = ended(fork(arguments))
        assert done.code == 0, (arguments, done.err[-2000:], done.failure)

    def make_all(self) -> None:
        """Make everything now. Afterwards no process needs to be forked, and this one may start threads."""
        for name, made in vars(Materials).items():
            if isinstance(made, cached_property):
                getattr(self, name)

    @cached_property
    def pairs(self) -> Path:
        """Sixty pairs of the planted model, as JSON lines."""
        from pivotal.questions.phenomena import load_phenomenon

        load_phenomenon("planted").sample(60, seed=1).save(self.root / "pairs.jsonl")
        return self.root / "pairs.jsonl"

    @cached_property
    def tables(self) -> tuple[Path, ...]:
        """The same pairs as tables."""
        from pivotal.questions.pairs import read_pairs

        made = (self.root / "pairs.csv", self.root / "pairs.tsv")
        for path in made:
            read_pairs(self.pairs).save(path)
        return made

    @cached_property
    def run(self) -> Path:
        """A finished run of two seeds."""
        path = self.root / "run"
        self._made("find", "planted", str(self.pairs), *FIND, "--runs", "2", "-q", "--out", str(path))
        return path

    @cached_property
    def certified(self) -> Path:
        """The run, with a certificate."""
        path = self.root / "certified"
        shutil.copytree(self.run, path)
        self._made("certify", str(path), "--candidates", "1", "--sample", "0", "--finalists", "1", "-q")
        return path

    @cached_property
    def stopped(self) -> tuple[Path, ...]:
        """Two runs that were stopped, with their checkpoints: one while it learned, one while it was refitted."""
        import pytest

        from pivotal.jobs.find import find
        from pivotal.questions.question import Question
        from pivotal.searches.learned import LearnedMask

        made = []
        for when in (("learn", 3), ("refit", 1)):
            question = Question(model="planted", phenomenon=str(self.pairs), test=12)
            with pytest.MonkeyPatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
                patch.setattr("pivotal.jobs.checkpoint.EVERY_SECONDS", 0.0)
                out = str(self.root / f"stopped-{when[0]}")
                search = LearnedMask(updates=4, refit=4)
                find(question, search, runs=2, controls=0, out=out, watch=Onlooker(when, _stop))
            made.append(Path(out))
            assert (made[-1] / "checkpoint.pt").is_file() and not (made[-1] / "summary.json").exists()
        return tuple(made)

    @cached_property
    def template(self) -> Path:
        """A template file whose words the planted model knows."""
        path = self.root / "template.yaml"
        path.write_text(TEMPLATE)
        return path

    @cached_property
    def recipe(self) -> Path:
        path = self.root / "small.yaml"
        path.write_text(RECIPE.replace("PAIRS", str(self.pairs)))
        return path

    @cached_property
    def study(self) -> Path:
        path = self.root / "study"
        self._made("study", str(self.recipe), "-q", "--out", str(path))
        self._made("show", str(path), "--page", "--json")
        return path

    @cached_property
    def corpus(self) -> Path:
        from pivotal.questions.phenomena import load_phenomenon

        pairs = load_phenomenon("planted").sample(80, seed=2)
        path = self.root / "corpus.txt"
        path.write_text("".join(f"{pair.prefix} {word}\n" for pair in pairs for word in pair.words))
        return path

    @cached_property
    def packed(self) -> tuple[Path, ...]:
        """The corpus, compressed in each way that needs no package."""
        made = (self.root / "corpus.txt.gz", self.root / "corpus.txt.xz")
        made[0].write_bytes(gzip.compress(self.corpus.read_bytes()))
        made[1].write_bytes(lzma.compress(self.corpus.read_bytes()))
        return made

    @cached_property
    def model(self) -> Path:
        """A trained recurrent model."""
        path = self.root / "model"
        self._made(*train(self.corpus, path))
        return path

    @cached_property
    def begun(self) -> Path:
        """The folder of a training that was stopped before its end, without its checkpoint."""
        out = self.root / "model"
        assert self.model == out
        folder = self.root / "begun.training"

        def keep(training: TrainingFolder) -> None:
            shutil.copytree(training.path, folder)

        import pytest

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("pivotal.lm.training_folder.TrainingFolder.remove", keep)
            self._made(*train(self.corpus, self.root / "again"))
        shutil.rmtree(self.root / "again.training")
        (folder / "checkpoint.pt").unlink(missing_ok=True)
        return folder

    @cached_property
    def checkpoint(self) -> Path:
        """A checkpoint of PyTorch for `import-lm`, and its vocabulary beside it."""
        import torch
        from safetensors.torch import load_file

        weights = load_file(self.model / "model.safetensors")
        weights.setdefault("decoder.weight", weights["encoder.weight"])
        torch.save(weights, self.root / "checkpoint.pt")
        shutil.copy(self.model / "vocab.txt", self.root / "vocab.txt")
        return self.root / "checkpoint.pt"

    @cached_property
    def transformer(self) -> Path:
        """A tiny transformer with a tokenizer."""
        from tests.models.tiny import save_tiny

        return save_tiny(self.root / "transformer")

    @cached_property
    def basis(self) -> Path:
        """Principal components of the planted model."""
        path = self.root / "basis"
        self._made(
            *("fit-basis", "planted", "hidden.0", "--sentences", str(self.corpus), "-q", "--out", str(path))
        )
        return path

    @cached_property
    def directions(self) -> Path:
        """A sparse autoencoder of the planted model, as SAELens saves it, and a rotation beside it."""
        import torch
        from safetensors.torch import save_file

        path, first = self.root / "directions", torch.eye(64)[:6].contiguous()
        path.mkdir()
        weights = {
            "W_enc": first.T.contiguous(), "W_dec": first, "b_enc": torch.zeros(6), "b_dec": torch.zeros(64),
        }  # fmt: skip
        save_file(weights, path / "sae_weights.safetensors")
        save_file({"rotation": first.clone(), "mean": torch.zeros(64)}, path / "rotation.safetensors")
        (path / "cfg.json").write_text('{"architecture": "topk", "k": 2, "metadata": {"hook_name": ""}}')
        return path

    @cached_property
    def exportable(self) -> Path:
        """A finished run on the transformer."""
        pairs, path = self.root / "doctors.csv", self.root / "exportable"
        rows = [
            f"{first} {noun}{end}{more},1,runs,run,{label}"
            for first in ("The", "Some")
            for noun in ("doctor", "car")
            for more in ("", " near", " behind", " quickly")
            for end, label in (("", "singular"), ("s", "plural"))
        ]
        pairs.write_text("\n".join(["prefix,cue,word.singular,word.plural,label", *rows]) + "\n")
        self._made(
            "find", str(self.transformer), str(pairs), *FIND, "--sites", "mlp", "-q", "--out", str(path)
        )
        return path


def _stop() -> None:
    raise KeyboardInterrupt


def train(corpus: Path, out: Path) -> tuple[str, ...]:
    """A training of a second."""
    line = "train-lm --corpus {corpus} --out {out} --hidden 4 --embedding 4 --layers 1 --epochs 1 --batch 4"
    return words(f"{line} --device cpu -q", corpus=corpus, out=out)
