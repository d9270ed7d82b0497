"""`pivotal generate`: both sides, and the cue of a single step."""

import pytest

from pivotal.cli.generate import _print


def test_the_edit_turns_the_likeliest_verb(pivotal, run_folder):
    done = pivotal(
        "generate", run_folder, "The noun0a near", "--direction", "plural", "--length", "3", "--json"
    )
    said = done.json
    sides = {"untouched": said["untouched"], **said["directions"]}
    verbs = {f"verb0{v}{s}" for v in "abc" for s in ("", "s")}

    def first_verb(side: str) -> str:
        return next(word for word, _ in sides[side]["next_words"] if word in verbs)

    assert first_verb("untouched").endswith("s")
    assert not first_verb("plural").endswith("s")
    assert all(text.startswith("The noun0a near ") for text in sides["plural"]["texts"])
    assert len(sides["plural"]["texts"][0].split()) == 6


def test_what_is_printed(pivotal, run_folder, capsys):
    done = pivotal(
        "generate", run_folder, "The noun0a", "--direction", "plural", "--samples", "2", "--temperature", "1"
    )
    assert done.code == 0
    assert "Next word after “The noun0a”" in done.out
    _print("The", {"untouched": ([("\n", 0.5)], ["The"])})
    assert "'\\n'" in capsys.readouterr().out, "an empty cell would hide it"
    assert done.out.count("untouched   The noun0a") == 2 and done.out.count("→ plural    The noun0a") == 2


def test_without_a_direction_both_are_shown_side_by_side(pivotal, run_folder):
    done = pivotal("generate", run_folder, "The noun0a")
    header = done.out.splitlines()[2].split()
    assert header == ["untouched", "p", "→", "singular", "p", "→", "plural", "p"]
    lines = [line for line in done.out.splitlines() if "The noun0a " in line]
    assert [line.split("The")[0].strip() for line in lines] == ["untouched", "→ singular", "→ plural"]
    sides = pivotal("generate", run_folder, "The noun0a", "--json").json
    assert list(sides) == ["untouched", "directions"] and list(sides["directions"]) == ["singular", "plural"]
    one = pivotal("generate", run_folder, "The noun0a", "--direction", "plural", "--json").json
    assert one == {"untouched": sides["untouched"], "directions": {"plural": sides["directions"]["plural"]}}


def test_a_single_step_needs_its_cue(pivotal, single_folder):
    prompt = ("generate", single_folder, "The noun0a near", "--direction", "plural")
    pivotal(*prompt).refused("--cue")
    pivotal(*prompt, "--cue", "dog").refused("'dog'", "The, noun0a, near")
    pivotal(*prompt, "--cue", "7").refused("7")
    word, index = pivotal(*prompt, "--cue", "noun0a", "--json"), pivotal(*prompt, "--cue", "1", "--json")
    assert word.code == 0 and word.out == index.out


def test_an_intervention_in_a_folder_that_is_no_number_is_one_by_itself(pivotal, own_run):
    odd = (own_run / "interventions" / "0").rename(own_run / "interventions" / "²")
    assert pivotal("generate", odd, "The noun0a", "--model", "planted").code == 0


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["The noun0a", "--direction", "plurl"], ["plurl", "Did you mean 'plural'?"]),
        (
            ["The dog", "--direction", "plural"],
            ["must know every word of “The dog”", "`pivotal check MODEL --words WORD` shows"],
        ),
        ([" ", "--direction", "plural"], ["at least one word"]),
        (["The noun0a", "--cue", "noun0a"], ["at every step"]),
        (["The noun0a", "--direction", "plural", "--length", "0"], ["length must be 1 or more"]),
    ],
)
def test_bad_input(pivotal, run_folder, arguments, parts):
    pivotal("generate", run_folder, *arguments).refused(*parts)
