"""`pivotal eval-lm`."""

import statistics
from pathlib import Path

import pytest
from tests.models.small import recurrent

from pivotal import load_phenomenon
from pivotal.questions import MinimalPair, PairSet

TEXT = "The boys near the car greet\nThe cat avoids dogs\n"


def save(folder: Path, seed: int, words: tuple[str, ...] = ()) -> Path:
    """An untrained model; by default it knows the words of number agreement."""
    pairs = load_phenomenon("number-agreement")
    known = dict.fromkeys(word for pair in pairs for word in (*pair.prefix.split(), *pair.words))
    words = words or ("<eos>", "<unk>", *known)
    return recurrent(words, "gru", width=4, hidden=6, seed=seed, scale=3, bias=False).save(
        folder, "untrained"
    )


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("models")
    return [save(folder / f"seed-{seed}", seed) for seed in range(2)]


@pytest.fixture(autouse=True)
def few_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pivotal.lm.assess.load_phenomenon", lambda spec: load_phenomenon(spec)[::40])


def cells(table: str, name: str) -> list[str]:
    (found,) = (line for line in table.splitlines() if line.startswith(f"{name} "))
    return [cell.strip() for cell in found.removeprefix(name).split("  ") if cell.strip()]


def test_several_seeds_are_columns_of_one_table(pivotal, seeds, tmp_path):
    (tmp_path / "text.txt").write_text(TEXT)
    asked = ("eval-lm", *seeds, "--text", tmp_path / "text.txt", "-q")
    done, figures = pivotal(*asked), pivotal(*asked, "--json").json["models"]
    assert done.code == 0
    assert [one["model"] for one in figures] == ["seed-0", "seed-1"]
    assert "Perplexity on 12 tokens of text.txt" in done.out and "published" not in done.out
    values = [100 * one["agreement"][0]["shares"]["namepp"]["value"] for one in figures]
    assert values[0] != values[1]
    assert cells(done.out, "namepp")[:3] == ["45", *(f"{value:.1f}%" for value in values)]
    assert cells(done.out, "namepp")[3] == f"{statistics.mean(values):.1f} ± {statistics.stdev(values):.1f}"
    nats = [one["perplexity"]["all"] for one in figures]
    assert f"{statistics.mean(nats):.2f} ± {statistics.stdev(nats):.2f}" in done.out
    printed = pivotal("eval-lm", seeds[0], "--dtype", "float64", "--json").json
    assert printed["command"].startswith("pivotal eval-lm")
    (model,) = printed["models"]
    assert model["perplexity"] is None and model["agreement"][0]["shares"]["all"]["n"] == 300


def test_published_figures_stand_beside(pivotal, seeds, tmp_path):
    for name, prefix, group in (
        ("lakretz", "The boy near the car", "nounpp"),
        ("gulordava", "The boy zzz", "original"),
    ):
        pair = MinimalPair(prefix, 1, ("greets", "greet"), "singular", group)
        PairSet(name, ("singular", "plural"), (pair,)).save(tmp_path / f"{name}.jsonl")
    files = [word for name in ("lakretz", "gulordava") for word in ("--pairs", tmp_path / f"{name}.jsonl")]
    done = pivotal("eval-lm", seeds[0], *files, "-q")
    assert "94.3%" in done.out and "98.9%" in done.out and "80.5%" in done.out and "±" not in done.out
    assert "In 1 pair, seed-0 reads a word of the prefix as <unk>." in done.out


def test_a_model_without_the_words_stands_beside_the_others(pivotal, seeds, tmp_path):
    small = save(tmp_path / "small", 0, words=("<eos>", "<unk>", "dogs"))
    done = pivotal("eval-lm", small, seeds[0], "-q")
    assert cells(done.out, "all")[1] == "–"
    assert " ".join(done.out.split()).count("small cannot score any of the 300 pairs") == 1


def test_bad_input(pivotal, seeds):
    pivotal("eval-lm", seeds[0], "--tokens", "5").refused("there is no --text")
