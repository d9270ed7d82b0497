"""A small model whose responsible units are known by construction: the ground truth for every search.

A plain RNN reads "The NOUN filler…" and then prefers a singular or a plural verb. Nouns and verbs come in classes. One
planted unit stores the number of the nouns of class i, and only this unit affects the verbs of class i. A preference of
class i therefore flips if and only if planted unit i changes: the planted set is sufficient, each of its units is
necessary, and no other set of that size is sufficient. Decoy units encode the number even more strongly, but they
affect nothing. A probe would select them; an intervention must not.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from pivotal.models.base import LanguageModel, ModelSource
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.phenomena.planted import FILLERS, LEXICON
from pivotal.questions.question import check_seed
from pivotal.units import Unit

_LATCH = 1.6
"""With this recurrent weight a unit keeps its sign: tanh(1.6 h) = h has solutions at about +-0.87."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A planted model, the units that decide its verbs, and the decoys."""

    model: RecurrentLM
    units: tuple[Unit, ...]
    decoys: tuple[Unit, ...]


def plant(
    seed: int = 0,
    *,
    hidden: int = 64,
    priming: str = "<eos>",
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
) -> Planted:
    """Make a planted model. The seed determines which units are planted, and all weights that decide nothing."""
    generator = torch.Generator().manual_seed(seed)
    classes = len(LEXICON)
    order = torch.randperm(hidden, generator=generator).tolist()
    planted, decoys, others = order[:classes], order[classes : 2 * classes], order[2 * classes :]
    words = ["<eos>", "<unk>", "The", *FILLERS]
    words += [w for part in LEXICON for pairs in part.values() for pair in pairs for w in pair]
    ids = {word: i for i, word in enumerate(words)}

    encoder = torch.zeros(len(words), hidden)
    decoder = torch.zeros(len(words), hidden)
    encoder[:, others] = torch.randn(len(words), len(others), generator=generator)
    recurrent = torch.zeros(hidden, hidden)
    recurrent[torch.tensor(others)[:, None], torch.tensor(others)] = (
        torch.randn(len(others), len(others), generator=generator) * 0.5 / len(others) ** 0.5
    )
    for c, part in enumerate(LEXICON):
        for unit, strength in ((planted[c], 1.5), (decoys[c], 3.0)):
            recurrent[unit, unit] = _LATCH
            for singular, plural in part["noun"]:
                encoder[ids[singular], unit], encoder[ids[plural], unit] = strength, -strength
        for singular, plural in part["verb"]:
            noise = torch.randn(len(others), generator=generator) * 0.3
            for word, sign in ((singular, 1.0), (plural, -1.0)):
                decoder[ids[word], planted[c]] = sign * (1 + torch.rand((), generator=generator))
                decoder[ids[word], others] = noise  # the same for both forms, so it decides nothing
    weights: dict[str, Tensor] = {
        "encoder.weight": encoder,
        "decoder.weight": decoder,
        "decoder.bias": torch.zeros(len(words)),
        "rnn.weight_ih_l0": torch.eye(hidden),
        "rnn.weight_hh_l0": recurrent,
    }
    model = RecurrentLM(
        "planted" if seed == 0 else f"planted:{seed}",
        cell="rnn",
        words=words,
        weights=weights,
        priming=priming,
        device=device,
        dtype=dtype,
    )
    space = model.unit_space()
    return Planted(
        model, tuple(space.unit(u) for u in sorted(planted)), tuple(space.unit(u) for u in sorted(decoys))
    )


class PlantedSource(ModelSource):
    """`planted`, or `planted:SEED`."""

    name: ClassVar[str] = "planted"
    summary: ClassVar[str] = "small models whose responsible units are known by construction"

    def listed(self) -> list[tuple[str, str]]:
        about = "64 units, 3 of them planted to decide the phenomenon `planted`; planted:SEED for others"
        return [("planted", about)]

    def open(
        self, spec: str, *, device: torch.device, dtype: torch.dtype | None, priming: str | None
    ) -> LanguageModel | None:
        name, _, seed = spec.partition(":")
        if name != "planted" or (seed and not seed.isdecimal()):
            return None
        # More digits than a seed may have; Python refuses to read thousands of them.
        number = int(seed[:20] or 0)
        check_seed(number, "SEED in planted:SEED")
        return plant(
            number,
            priming="<eos>" if priming is None else priming,
            device=device,
            dtype=dtype or torch.float32,
        ).model
