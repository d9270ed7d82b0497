"""Small language models whose truth is known because they are trained here for it.

They read a grammar of our own: "OPENER NOUN filler… VERB OBJECT". The number of the noun decides the form of the verb,
and the opener decides the object. A model is an LSTM or a transformer, and number is one of five things in it:

- *carried*: one given unit carries the number of each class of nouns. While the model is trained, states are exchanged
  between two sentences (interchange intervention training, Geiger et al. 2022). With the given unit exchanged, the
  model must answer as after the other sentence, and with all other units exchanged, as after its own.
- *elsewhere*: a transformer that carries it so, but the given units are no part of its site. No other unit carries it.
- *spread*: no few units carry it. The model must keep its answer while up to eight units are exchanged, at random or
  those with the largest first-order effect, which are set to the ends of their range.
- *unknown*: both forms of a verb follow every noun equally often.
- *other cue*: the opener decides the form of the verb, and the noun does not. In the pairs both agree.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from pivotal.models.base import LanguageModel
from pivotal.models.module import ModuleLM
from pivotal.models.recurrent.lm import RecurrentLM
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet

Truth = Literal["carried", "elsewhere", "spread", "unknown", "other cue"]
Cell = Literal["lstm", "transformer"]

OPENERS = (("now", "today"), ("once", "before"))
OBJECTS = (("tea", "milk"), ("bread", "salt"))
FILLERS = ("near", "behind", "often")
LABELS = ("singular", "plural")
NOUNS, VERBS = 12, 6
"""The lemmas of all classes together."""
WIDTH = 32
_LEARNED = 0.9
"""The least share of exchanges after which a model must answer as its truth says."""
LARGEST = 8
"""The largest set of units against which a spread model is trained."""


@dataclass(frozen=True)
class Grammar:
    """Nouns and verbs in classes: a verb follows a noun of its class."""

    classes: int
    truth: Truth

    def noun(self, lemma: int, number: int) -> str:
        return f"noun{lemma}" + "s" * number

    def verb(self, lemma: int, number: int) -> str:
        return f"verb{lemma}" + "s" * (1 - number)

    def class_of(self, lemma: int) -> int:
        return lemma % self.classes

    @property
    def words(self) -> list[str]:
        plain = ["<eos>", "<unk>", *FILLERS, *(word for part in OPENERS + OBJECTS for word in part)]
        nouns = [self.noun(lemma, number) for lemma in range(NOUNS) for number in (0, 1)]
        return plain + nouns + [self.verb(lemma, number) for lemma in range(VERBS) for number in (0, 1)]

    def sentences(self, count: int, gap: int, rng: random.Random, classes: Sequence[int]) -> Sentences:
        """Random sentences with `gap` fillers, the nouns of which have the given classes."""
        ids = {word: i for i, word in enumerate(self.words)}
        rows, numbers, verbs = [], [], []
        for i in range(count):
            opener, number = rng.randrange(2), rng.randrange(2)
            noun = rng.choice([n for n in range(NOUNS) if self.class_of(n) == classes[i]])
            verb = rng.choice([v for v in range(VERBS) if self.class_of(v) == classes[i]])
            form = {"unknown": rng.randrange(2), "other cue": opener}.get(self.truth, number)
            row = ["<eos>", rng.choice(OPENERS[opener]), self.noun(noun, number)]
            row += [rng.choice(FILLERS) for _ in range(gap)]
            row += [self.verb(verb, form), rng.choice(OBJECTS[opener]), "<eos>"]
            rows.append([ids[word] for word in row])
            numbers.append(number)
            verbs.append([ids[self.verb(verb, 0)], ids[self.verb(verb, 1)]])
        return Sentences(torch.tensor(rows), torch.tensor(numbers), torch.tensor(verbs))

    def pairs(self, name: str, count: int, seed: int) -> PairSet:
        """The question of number: a sample of the prefixes, each with a verb of its class."""
        rng, made = random.Random(seed), []
        gaps = [(), *((a,) for a in FILLERS), *product(FILLERS, FILLERS)]
        for opener, lemma, gap, number in product((0, 1), range(NOUNS), gaps, (0, 1)):
            if self.truth == "other cue" and opener != number:
                continue
            first = rng.choice(OPENERS[opener])
            verb = rng.choice([v for v in range(VERBS) if self.class_of(v) == self.class_of(lemma)])
            forms = [" ".join((first, self.noun(lemma, n), *gap)) for n in (0, 1)]
            made.append(
                MinimalPair(
                    forms[number],
                    1,
                    (self.verb(verb, 0), self.verb(verb, 1)),
                    LABELS[number],
                    group=f"class {self.class_of(lemma)}",
                    lexemes=(("noun", self.noun(lemma, 0)), ("verb", self.verb(verb, 1))),
                    counterfactuals=(forms[0], forms[1]),
                )
            )
        return PairSet(name, LABELS, tuple(made)).at_most(count)


@dataclass(frozen=True)
class Sentences:
    """Sentences of one length. The verb is the last word but two."""

    ids: Tensor
    number: Tensor
    verbs: Tensor
    """The singular and the plural form of each verb."""

    @property
    def asked(self) -> int:
        """The position that predicts the verb."""
        return self.ids.shape[1] - 4

    def verb_loss(self, logits: Tensor, number: Tensor) -> Tensor:
        """The loss of answering with that number."""
        forms = logits[:, self.asked].gather(1, self.verbs)
        return cross_entropy(forms, number)


@dataclass(frozen=True)
class Swap:
    """The states of another run that some units take, sentence by sentence, at every step after the first."""

    states: Tensor
    """sentences x steps x units"""
    units: Tensor
    """sentences x units"""

    def __call__(self, h: Tensor, steps: slice | int) -> Tensor:
        taken = self.units if isinstance(steps, int) else self.units[:, None]
        return torch.where(taken, self.states[:, steps], h)


class SmallLSTM(nn.Module):
    """An LSTM whose steps are computed one by one, so that an exchanged state reaches the next step."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.Embedding(words, WIDTH), nn.Linear(WIDTH, words)
        self.rnn = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def run(self, ids: Tensor, swap: Swap | None = None) -> tuple[Tensor, Tensor]:
        """Logits, and the states of the units."""
        rnn, h = self.rnn, torch.zeros(len(ids), WIDTH)
        c, seen = h, []
        inputs = self.encoder(ids) @ rnn.weight_ih_l0.T + rnn.bias_ih_l0 + rnn.bias_hh_l0
        for step in range(ids.shape[1]):
            i, f, g, o = (inputs[:, step] + h @ rnn.weight_hh_l0.T).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
            if swap is not None and step > 0:
                h = swap(h, step)
            seen.append(h)
        states = torch.stack(seen, 1)
        return self.decoder(states), states

    def wrapped(self, name: str, words: Sequence[str], shown: Tensor) -> LanguageModel:
        return RecurrentLM.from_modules(name, self.encoder, self.rnn, self.decoder, words)


class SmallTransformer(nn.Module):
    """Two blocks. The units are the residual stream between them, through which everything passes."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.encoder, self.places = nn.Embedding(words, WIDTH), nn.Embedding(16, WIDTH)
        make = lambda: nn.TransformerEncoderLayer(  # noqa: E731
            WIDTH, 2, 4 * WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.first, self.second = Block(make()), Block(make())
        self.norm, self.decoder = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, words)
        self.site, self.shown = nn.Identity(), torch.arange(WIDTH)

    def run(self, ids: Tensor, swap: Swap | None = None) -> tuple[Tensor, Tensor]:
        states = self.first(self.encoder(ids) + self.places(torch.arange(ids.shape[1])))
        if swap is not None:
            states = torch.cat([states[:, :1], swap(states[:, 1:], slice(1, None))], 1)
        states = states.index_copy(-1, self.shown, self.site(states[..., self.shown]))
        return self.decoder(self.norm(self.second(states))), states

    def forward(self, ids: Tensor) -> Tensor:
        return self.run(ids)[0]

    def wrapped(self, name: str, words: Sequence[str], shown: Tensor) -> LanguageModel:
        self.shown = shown
        return ModuleLM(name, self, words, {"resid.0": "site"}, priming="<eos>")


class Block(nn.Module):
    """A causal block."""

    def __init__(self, layer: nn.TransformerEncoderLayer) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        mask = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return self.layer(x, src_mask=mask, is_causal=True)


@dataclass(frozen=True)
class Known:
    """A trained model, its question, and the units that carry the answer by construction."""

    model: LanguageModel
    pairs: PairSet
    units: tuple[str, ...]
    learned: float
    """The share of exchanges, on fresh sentences, after which the model answers as it must."""


def train(cell: Cell, truth: Truth, seed: int, *, updates: int = 300, batch: int = 64) -> Known:
    """Train a model. The seed also decides the number of classes, one to three, and the given units. A model that does
    not learn what its truth says is trained again from another start."""
    made = (_train(cell, truth, seed, start, updates, batch) for start in range(5))
    return next(known for known in made if known.learned > _LEARNED)


def _train(cell: Cell, truth: Truth, seed: int, start: int, updates: int, batch: int) -> Known:
    torch.manual_seed(seed + 1000 * start)
    rng = random.Random(seed)
    grammar = Grammar(classes=1 + seed % 3, truth=truth)
    module = {"lstm": SmallLSTM, "transformer": SmallTransformer}[cell](len(grammar.words))
    given = torch.randperm(WIDTH)[: grammar.classes]
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01 if cell == "lstm" else 0.003)
    for update in range(updates):
        for group in optimiser.param_groups:
            group["lr"] *= 0.1 ** (2 / updates) if update > updates // 2 else 1
        total = _losses(module, grammar, given, rng, batch)[0]
        optimiser.zero_grad()
        total.backward()
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimiser.step()
    learned = sum(_losses(module, grammar, given, rng, 256)[1] for _ in range(4)) / 4
    name = f"{cell}-{truth.replace(' ', '-')}-{seed}"
    shown = torch.tensor([unit for unit in range(WIDTH) if truth != "elsewhere" or unit not in given])
    model = module.eval().wrapped(name, grammar.words, shown)
    space, units = model.unit_space(), sorted(given.tolist()) if truth == "carried" else []
    return Known(
        model, grammar.pairs(name, 600, seed), tuple(str(space.unit(unit)) for unit in units), learned
    )


def _losses(
    module: SmallLSTM | SmallTransformer, grammar: Grammar, given: Tensor, rng: random.Random, batch: int
) -> tuple[Tensor, float]:
    """The loss of one batch, and the share of exchanges after which the model answers as it must."""
    gap, classes = rng.randrange(3), [rng.randrange(grammar.classes) for _ in range(batch)]
    base, source = (grammar.sentences(batch, gap, rng, classes) for _ in range(2))
    logits, states = module.run(base.ids)
    loss = cross_entropy(logits[:, :-1].flatten(0, 1), base.ids[:, 1:].flatten())
    if grammar.truth in ("unknown", "other cue"):
        return loss, 1.0
    if grammar.truth in ("carried", "elsewhere"):
        own = torch.zeros(batch, WIDTH, dtype=torch.bool)
        own[torch.arange(batch), given[torch.tensor(classes)]] = True
        taken = module.run(source.ids)[1]
        wanted = [(Swap(taken, own), source.number), (Swap(taken, ~own), base.number)]
    else:
        wanted = [(swap, base.number) for swap in _attacks(module, base, source, states, rng)]
    right = []
    for swap, number in wanted:
        exchanged = module.run(base.ids, swap)[0]
        loss = loss + base.verb_loss(exchanged, number)
        answers = exchanged[:, base.asked].gather(1, base.verbs).argmax(1)
        right.append((answers == number).float().mean())
    return loss, float(torch.stack(right).mean())


def _attacks(
    module: SmallLSTM | SmallTransformer,
    base: Sentences,
    source: Sentences,
    states: Tensor,
    rng: random.Random,
) -> list[Swap]:
    """A random set of units with the states of other sentences, and for each number the units whose ends have the
    largest first-order effect on it, set to these ends."""
    batch, size = len(base.ids), rng.randint(1, LARGEST)
    chosen = torch.rand(batch, WIDTH).topk(size, 1).indices
    some = torch.zeros(batch, WIDTH, dtype=torch.bool).scatter(1, chosen, True)
    swaps = [Swap(module.run(source.ids)[1], some)]
    seen = states.detach()[:, 1 : base.asked + 1]
    low, high = (seen.flatten(0, 1).quantile(q, 0) for q in (0.01, 0.99))
    zero = torch.zeros_like(states.detach()).requires_grad_()
    logits = module.run(base.ids, Swap(zero + states.detach(), torch.ones(batch, WIDTH, dtype=torch.bool)))[0]
    forms = logits[:, base.asked].gather(1, base.verbs)
    (slope,) = torch.autograd.grad((forms[:, 1] - forms[:, 0]).sum(), zero)
    slope, held = slope[:, 1 : base.asked + 1], states.detach()
    units = torch.zeros(batch, WIDTH, dtype=torch.bool)
    ends = torch.empty(batch, WIDTH)
    for number in (0, 1):  # the same units and ends for all sentences of a number, as an intervention has
        rows = base.number == number
        if not rows.any():
            continue
        away = 1 if number == 0 else -1
        gains = torch.stack([(away * slope[rows] * (end - seen[rows])).sum((0, 1)) for end in (low, high)])
        best, which = gains.max(0)
        top = best.topk(size).indices
        units[rows] = torch.zeros(WIDTH, dtype=torch.bool).scatter(0, top, True)
        ends[rows] = torch.where(which.bool(), high, low)
    swaps.append(Swap(ends[:, None].expand_as(held), units))
    return swaps
