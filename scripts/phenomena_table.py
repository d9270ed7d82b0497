"""Measure which models know the bundled phenomena, and make docs/phenomena.md from the result.

    python scripts/phenomena_table.py [--models wiki-lstm smollm2-135m] [--only NAME ...] [--again] [--page]

The accuracy of the untouched model is measured on at most 1,000 pairs of each phenomenon, overall and for each label.
Intervals are 95% bootstrap intervals over distinct prefixes. The figures are kept in docs/results/phenomena.json. What
is there for the same pairs and the same model is measured again only with --again. --page only makes the page.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pivotal.files import write_text
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.pairs import PairSet
from pivotal.questions.templates.template_file import TemplateFile, bundled, read_template

DOCS = Path(__file__).parents[1] / "docs"
FIGURES, PAGE = DOCS / "results" / "phenomena.json", DOCS / "phenomena.md"
MODELS = ("wiki-lstm", "wiki-lstm-tied", "smollm2-135m")
MOST = 1000
_RESAMPLES = 2000

Figures = dict[str, dict[str, Any]]


def measure(model: Any, pairs: PairSet) -> dict[str, Any]:
    """The accuracy of a model, with its interval: overall, and for each label. It leaves out pairs it cannot ask."""
    from pivotal.errors import PivotalError
    from pivotal.problem.examples import Examples

    if len(pairs) > MOST:
        pairs = pairs.sample(MOST)
    try:
        examples = Examples.of(model, pairs, "every")
    except PivotalError:
        return {"asked": 0, "of": len(pairs)}
    asked = examples.pairs
    prefers = [asked.labels[1 - int(i)] for i in examples.direction]
    found: dict[str, Any] = {"asked": len(asked), "of": len(pairs)}
    if any(pair.label for pair in asked):
        right = [pair.label == label for pair, label in zip(asked, prefers, strict=True)]
        found["accuracy"] = _share(asked.pairs, right)
        for label in asked.labels:
            chosen = [i for i, pair in enumerate(asked) if pair.label == label]
            found[label] = _share([asked[i] for i in chosen], [right[i] for i in chosen])
    else:
        found["prefers " + asked.labels[0]] = _share(
            asked.pairs, [label == asked.labels[0] for label in prefers]
        )
    return found


def _share(pairs: Sequence[MinimalPair], right: Sequence[bool]) -> list[float] | None:
    """The share of right pairs, and its 95% interval from resampled prefixes."""
    if not pairs:
        return None
    prefixes = {prefix: i for i, prefix in enumerate(dict.fromkeys(pair.prefix for pair in pairs))}
    of = np.array([prefixes[pair.prefix] for pair in pairs])
    n, k = np.bincount(of), np.bincount(of, weights=np.array(right, dtype=float))
    drawn = np.random.default_rng(0).integers(len(n), size=(_RESAMPLES, len(n)))
    low, high = np.quantile(k[drawn].sum(1) / n[drawn].sum(1), [0.025, 0.975])
    return [round(float(value), 4) for value in (k.sum() / n.sum(), low, high)]


def knows(found: Mapping[str, Any], labels: Sequence[str]) -> bool:
    """Whether the accuracy is above chance for both labels: the lower end of the interval is above one half."""
    return all((found.get(label) or [0, 0])[1] > 0.5 for label in labels)


def update(figures: Figures, models: Sequence[str], names: Sequence[str], again: bool) -> None:
    """Measure what is missing, and write the figures after every phenomenon."""
    from pivotal.models import load_model

    sets = {name: read_template(bundled()[name]).pairs() for name in names}
    for name, pairs in sets.items():
        if figures.get(name, {}).get("pairs") != pairs.fingerprint():
            figures[name] = {"pairs": pairs.fingerprint(), "models": {}}
    for spec in models:
        due = [name for name in names if again or spec not in figures[name]["models"]]
        model = load_model(spec) if due else None
        for name in due:
            found = figures[name]["models"][spec] = measure(model, sets[name])
            print(f"{spec:15} {name:28} {json.dumps(found)}", flush=True)
            write_text(FIGURES, json.dumps(dict(sorted(figures.items())), indent=1) + "\n")


# -- the page ---------------------------------------------------------------------------------------------------------

_ABOUT = """<!-- Made by scripts/phenomena_table.py; edit the script and run it again. -->

# Bundled phenomena

pivotal comes with {count} phenomena, whose names every command takes:

```
pivotal find wiki-lstm reflexive-gender
pivotal new-phenomenon mine --like reflexive-gender    # a copy to edit
```

Each is a [template file](ask-your-own-question.md) in `src/pivotal/assets/phenomena`. Every pair has a
counterfactual prefix, and both labels occur equally often.

The table shows how often the untouched model prefers the right word, in percent of at most {most:,} pairs.
**Bold**: the model knows the phenomenon, because the 95% interval is above 50% for each label; otherwise flipped
preferences mean little. \\*: the model can score only some of the pairs. In `gender-bias` neither word is right, and
the table shows how often the model prefers *he*. The intervals are in `docs/results/phenomena.json`, measured by
`python scripts/phenomena_table.py`.

| phenomenon | labels | example | {models} |
|---|---|---|{rules}
"""


def page(figures: Figures) -> str:
    files = {name: read_template(path) for name, path in bundled().items()}
    head = _ABOUT.format(count=len(files), most=MOST, models=" | ".join(MODELS), rules="---|" * len(MODELS))
    return head + "".join(
        _row(name, file, figures.get(name, {}).get("models", {})) for name, file in files.items()
    )


def _row(name: str, file: TemplateFile, found: Mapping[str, Any]) -> str:
    cells = [
        f"`{name}`",
        " / ".join(file.labels),
        _cell(file.summary.partition(": ")[2]),
        *(_accuracy(found.get(model), file.labels) for model in MODELS),
    ]
    return f"| {' | '.join(cells)} |\n"


def _accuracy(found: Mapping[str, Any] | None, labels: Sequence[str]) -> str:
    if not found or not found["asked"]:
        return "–"
    star = "\\*" if found["asked"] < found["of"] else ""
    if found.get("accuracy") is None:
        share = found[f"prefers {labels[0]}"]
        return f"{labels[0]}: {_percent(share)}{star}"
    shown = _percent(found["accuracy"])
    return (f"**{shown}**" if knows(found, labels) else shown) + star


def _percent(share: Sequence[float]) -> str:
    return f"{100 * share[0]:.0f}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("--models", nargs="+", default=MODELS)
    parser.add_argument("--only", nargs="+", default=list(bundled()), help="phenomena to measure")
    parser.add_argument("--again", action="store_true", help="measure what has been measured, too")
    parser.add_argument("--page", action="store_true", help="measure nothing; make the page")
    asked = parser.parse_args()
    figures: Figures = json.loads(FIGURES.read_text(encoding="utf-8")) if FIGURES.exists() else {}
    if not asked.page:
        update(figures, asked.models, asked.only, asked.again)
    write_text(PAGE, page(figures))


if __name__ == "__main__":
    main()
