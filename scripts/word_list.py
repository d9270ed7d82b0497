"""Make a vocabulary from our own text: the most frequent words of a corpus, and every word that phenomena need.

    python scripts/word_list.py vocab.txt --words 12288 --corpus train-1.txt.xz train-2.txt.xz \\
        --phenomena number-agreement gender-bias

A phenomenon's word is left out if the corpus has it fewer than `--least` times: a model could not learn it. Prints how
many pairs of each phenomenon can be asked with the list.
"""

from __future__ import annotations

import argparse
from itertools import islice
from pathlib import Path

from pivotal.lm.corpus import count_words
from pivotal.questions.minimal_pair import MinimalPair
from pivotal.questions.phenomena import load_phenomenon
from pivotal.questions.words import EOS, UNK


def words_of(pair: MinimalPair) -> set[str]:
    return {*pair.prefix.split(), *pair.words}


def main() -> None:
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=raw)
    parser.add_argument("out", type=Path, help="file to write, one word per line")
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, help="text to count words in")
    parser.add_argument("--phenomena", nargs="*", default=["number-agreement", "gender-bias"])
    parser.add_argument("--words", type=int, default=12288, help="size of the vocabulary")
    parser.add_argument("--least", type=int, default=10, help="occurrences that a needed word must have")
    args = parser.parse_args()

    counts = count_words(args.corpus)
    phenomena = {name: load_phenomenon(name) for name in args.phenomena}
    needed = {word for pairs in phenomena.values() for pair in pairs for word in words_of(pair)}
    by_count = sorted(counts, key=lambda word: (-counts[word], word))
    by_count = [word for word in by_count if word not in (UNK, EOS)]
    kept = {word for word in needed if counts[word] >= args.least and word not in (UNK, EOS)}
    kept.update(islice((word for word in by_count if word not in kept), args.words - 2 - len(kept)))
    words = [UNK, EOS, *(word for word in by_count if word in kept)]
    args.out.write_text("\n".join(words) + "\n", encoding="utf-8")

    unknown = 1 - sum(counts[word] for word in kept) / counts.total()
    print(f"{len(words):,} words; {unknown:.1%} of {counts.total():,} tokens are {UNK}")
    for name, pairs in phenomena.items():
        print(f"{name}: {sum(words_of(pair) <= kept for pair in pairs):,} of {len(pairs):,} pairs")


if __name__ == "__main__":
    main()
