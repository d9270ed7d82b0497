"""How time and memory grow with the number of pairs, and with the length of the prefixes.

    python benchmarks/scale.py [--verbs check,find] [--pairs 12500,25000,50000,100000] [--words 40,200,1000,5000]
                               [--format pairs]

Every line is a whole command in a process of its own. `find` reads the pairs, prepares them, searches with a few
updates, evaluates on held-out pairs, and writes the report. `check` reads the pairs and says what can be asked. The
pairs are made from the words of the planted model, all different. CPU time is given beside the time on the clock,
because other work on the machine does not count in it. Memory is the most that the process has had. With --format
table, sentences or blimp the pairs are in a file of that format, and labels, cues and counterfactuals are inferred.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from pivotal.questions.phenomena.planted import FILLERS, LEXICON

VERBS = {
    "check": ("--device", "cpu"),
    "find": ("--updates", "20", "-o", "refit=20", "--controls", "0", "--device", "cpu", "-q"),
}
RUN = """
import resource, sys
from pivotal.cli.main import main
try:
    main()
finally:
    used = resource.getrusage(resource.RUSAGE_SELF)
    print(used.ru_maxrss // 1024, used.ru_utime + used.ru_stime, file=sys.stderr)
"""


def pairs_of(number: int, words: int) -> Iterator[dict[str, object]]:
    """Different pairs: “The NOUN filler …” with `words` words, and the two forms of a verb."""
    chance = random.Random(0)
    seen: set[tuple[str, ...]] = set()
    while len(seen) < number:
        part = chance.randrange(len(LEXICON))
        forms, verb = chance.choice(LEXICON[part]["noun"]), chance.choice(LEXICON[part]["verb"])
        plural = chance.randrange(2)
        prefix = " ".join(("The", forms[plural], *chance.choices(FILLERS, k=words - 2)))
        if (prefix, *verb) not in seen:
            seen.add((prefix, *verb))
            yield {
                "prefix": prefix,
                "cue": 1,
                "words": {"singular": verb[0], "plural": verb[1]},
                "label": ("singular", "plural")[plural],
                "group": f"class {part}",
            }


def written(folder: Path, form: str, number: int, words: int) -> str:
    """Write the pairs in a format, and return how the command names the file."""
    lines = []
    for pair in pairs_of(number, words):
        forms: dict[str, str] = dict(pair["words"])  # type: ignore[call-overload]
        good = forms.pop(str(pair["label"]))
        (bad,) = forms.values()
        sentences = [f"{pair['prefix']} {word} ." for word in (good, bad)]
        content = {
            "pairs": json.dumps(pair),
            "table": f"{pair['prefix']},{good},{bad}",
            "sentences": "\t".join(sentences),
            "blimp": json.dumps(dict(zip(("sentence_good", "sentence_bad"), sentences, strict=True))),
        }
        lines.append(content[form])
    path = folder / {"table": "pairs.csv", "sentences": "pairs.txt"}.get(form, "pairs.jsonl")
    path.write_text("\n".join(["prefix,good,bad"] * (form == "table") + lines) + "\n")
    return str(path) if form == "pairs" else f"{form}:{path}"


def measure(verb: str, number: int, words: int, model: str, more: list[str], form: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        asked = written(Path(folder), form, number, words)
        command = [sys.executable, "-c", RUN, verb, model, asked, *VERBS[verb], *more]
        if verb == "find":
            command += ["--out", str(Path(folder) / "run")]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        seconds = time.monotonic() - began
        *said, used = done.stderr.strip().splitlines()
        memory, cpu = used.split()
        outcome = "done" if done.returncode == 0 else f"exit code {done.returncode}: {' '.join(said)[:300]}"
        cost = f"{float(cpu):7.1f} s of CPU, {seconds:7.1f} s on the clock, {int(memory):6,} MB"
        print(f"{verb:>5}, {number:>8,} pairs of {words:>5,} words: {cost}, {outcome}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--verbs", default="check,find")
    parser.add_argument("--pairs", default="12500,25000,50000,100000")
    parser.add_argument("--words", default="40,200,1000,5000")
    parser.add_argument("--model", default="planted")
    parser.add_argument("--format", default="pairs", choices=("pairs", "table", "sentences", "blimp"))
    parser.add_argument("--more", default="", help="more options of the verb, in one text")
    given = parser.parse_args()
    for verb in given.verbs.split(","):
        for number in map(int, filter(None, given.pairs.split(","))):
            measure(verb, number, 9, given.model, given.more.split(), given.format)
        for words in map(int, filter(None, given.words.split(","))):
            measure(verb, 20, words, given.model, given.more.split(), given.format)


if __name__ == "__main__":
    main()
