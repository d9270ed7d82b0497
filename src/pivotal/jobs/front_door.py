"""`pivotal.find`: a model and a question in, the finished run out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from numbers import Number
from pathlib import Path
from typing import Any

from torch import nn

from pivotal.errors import PivotalError, did_you_mean
from pivotal.evidence import CONTROLS
from pivotal.evidence.check import check as examine
from pivotal.jobs import find as job
from pivotal.jobs.find import Finding
from pivotal.models import LanguageModel, load_model
from pivotal.options import build, options_of, stored_settings
from pivotal.problem.prepare import model_of
from pivotal.questions.pairs import PairSet, read_pairs
from pivotal.questions.question import Question
from pivotal.questions.readers.prompts import prompt_pairs
from pivotal.records.check import CheckReport
from pivotal.records.evidence import Level
from pivotal.searches import SEARCHES, Search, default_search


def find(
    model: Question | LanguageModel | nn.Module | str | Path = "wiki-lstm",
    *asked: Any,
    search: Search | str | None = None,
    max_units: int | None = None,
    name: str | None = None,
    runs: int = 1,
    controls: int = CONTROLS,
    evidence: Level = "quick",
    out: str | Path | None = None,
    overwrite: bool = False,
    force: bool = False,
    device: str | None = None,
    progress: bool = True,
    **settings: Any,
) -> Finding:
    """Find the units of a model that switch the answer to a question, test them on held-out pairs, and store the run.

        find(model, tokenizer, "question.yaml")       # a loaded Hugging Face model
        find(lstm, words, pairs)                      # a torch module with its words in the order of their ids
        find("wiki-lstm", "number-agreement")         # names, as on the command line

    A question is the name of a phenomenon, a template file, a pairs file, a PairSet, a list of rows with the keys of a
    pairs file, or two lists of prompts by their labels, as {"past": […], "present": […]}. `settings` are the fields of
    `Question`, such as `steps="single"`, `sites="mlp"`, or `test`, the number of held-out pairs or these pairs
    themselves, and those of the search, such as `max_kl=0.1`. A Question may also take the place of the model. `search`
    is a search or its name, and `max_units` the most units that it may set. `name` names a model in memory in the
    results. The other arguments are the options of `pivotal find`. A run that was stopped is resumed, and a finished
    one is read from its folder.
    """
    settings |= {} if max_units is None else {"max_units": max_units}
    chosen = _search(search, settings)
    more = {*(find.__kwdefaults__ or ()), *stored_settings(chosen)}
    question, loaded, pairs = _question(model, asked, settings, more, name=name, device=device)
    return job.find(
        question,
        chosen,
        runs=runs,
        controls=controls,
        evidence=evidence,
        out=None if out is None else str(out),
        overwrite=overwrite,
        force=force,
        device=device,
        model=loaded,
        pairs=pairs,
        progress=progress,
    )


def check(
    model: Question | LanguageModel | nn.Module | str | Path = "wiki-lstm",
    *asked: Any,
    most: int | None = None,
    name: str | None = None,
    device: str | None = None,
    **settings: Any,
) -> CheckReport:
    """Check a question before a search: what can be asked, what the model knows, and what the split shares. Model,
    question and `settings` are given as to `find`.

    All pairs are read and divided into tokens. The model runs on a random sample of at most `most` of them; 0 takes
    all. By default these are 2,000 pairs, and fewer in a model with more than 4,000 units, down to 100.
    """
    more = check.__kwdefaults__ or ()
    question, loaded, pairs = _question(model, asked, settings, more, name=name, device=device)
    return examine(question, loaded or model_of(question, device), pairs, most=most)


def _search(search: Search | str | None, settings: dict[str, Any]) -> Search:
    """The search with those of the settings that are its own. They are taken out of the settings."""
    given = search or default_search(None, settings)
    cls = type(given) if isinstance(given, Search) else SEARCHES.get(given)
    own = {option.name: settings.pop(option.name) for option in options_of(cls) if option.name in settings}
    if isinstance(given, Search):
        return replace(given, **own) if own else given  # type: ignore[type-var]
    return build(cls, own)


def _question(
    model: Any, asked: tuple[Any, ...], settings: dict[str, Any], more: Iterable[str], **how: Any
) -> tuple[Question, LanguageModel | None, PairSet | None]:
    """The question, with the model and the pairs that are in memory. `more` are the settings that are not the
    question's, and `how` are the name and the device of a model in memory."""
    if isinstance(model, Question):
        if asked or settings:
            raise PivotalError("A Question holds all settings, but others were given beside it.")
        held = {field.name: getattr(model, field.name) for field in fields(model)}
        return _question(held.pop("model"), (held.pop("phenomenon"),), held, more, **how)
    if "phenomenon" in settings:
        asked = (*asked, settings.pop("phenomenon"))
    if len(asked) > 2:
        raise PivotalError(f"Give a model, tokenizer or words and a question, not {len(asked) + 1} values.")
    tokenizer, phenomenon = asked if len(asked) == 2 else (None, *asked) if asked else (None, None)
    by_name = isinstance(model, str | Path) and tokenizer is None and how["name"] is None
    loaded = None if by_name else load_model(model, tokenizer, **how)
    label = str(model) if loaded is None else loaded.name
    if not isinstance(phenomenon, str | Path | Iterable | None):
        raise PivotalError(f"A question is a name, a file, pairs or rows, not {type(phenomenon).__name__}.")
    pairs, held_out = _in_memory(phenomenon), _in_memory(settings.get("test"))
    for name, given, read in (("phenomenon", phenomenon, pairs), ("test", settings.get("test"), held_out)):
        if given is not None:
            stated = given if read is None else read.name
            settings[name] = str(stated) if isinstance(stated, Path) else stated
    known = [option.name for option in options_of(Question)]
    if unknown := [given for given in settings if given not in known]:
        raise PivotalError(f"There is no setting '{unknown[0]}'.{did_you_mean(unknown[0], {*known, *more})}")
    question = Question(label, **settings).checked()
    if pairs is not None or held_out is not None:
        pairs = question.load_pairs(pairs, held_out)
    return question, loaded, pairs


def _in_memory(given: Any) -> PairSet | None:
    """Pairs that are given themselves; None for a name, a path or a number."""
    if given is None or isinstance(given, PairSet | str | Path | Number):
        return given if isinstance(given, PairSet) else None
    return prompt_pairs(given) if isinstance(given, Mapping) else read_pairs(given)
