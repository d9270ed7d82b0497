"""YAML with places: where each part is, and that no text breaks the reader."""

import pytest

from pivotal import PivotalError
from pivotal.yaml_places import compose

TEXT = "a: 1\nb:\n  - x\n  - {c: no, d: [1912]}\n"


def test_parts_know_their_line_and_column():
    place = compose(TEXT, "f.yaml", "a recipe")
    assert place.plain() == {"a": "1", "b": ["x", {"c": "no", "d": ["1912"]}]}
    assert str(place) == "f.yaml"
    assert str(place.within("b", 1, "d")) == "f.yaml, line 4, column 13"
    assert str(place.within("b", 1, "d", 0)) == "f.yaml, line 4, column 17"
    assert str(place.within("b", 1, "z")) == "f.yaml, line 4, column 5"  # the nearest part around it
    assert place.within("b").line == 2 and place.line == 0


def test_all_values_are_text():
    place = compose("a: no\nb: [1912, q]\n", "f.yaml", "a file")
    assert place.entries()["a"].text() == "no"
    assert [item.text() for item in place.entries()["b"].items()] == ["1912", "q"]
    assert not compose("# nothing", "f.yaml", "a file").is_mapping


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "line 2, column 1: a recipe is YAML, but this is not"),
        ("[" * 30_000, "line 1, column 51: a recipe is nested too deeply"),
        ("x\ny: \x07", "line 2, column 4: .* a character that YAML does not allow"),
        ("a: &x [*x]", "line 1, column 8: a recipe has no aliases"),
        ("? [a]\n: b", "line 1, column 3: a key is text"),
        ("a: 1\na: 2", "line 2, column 1: 'a' is also in line 1"),
        ("---\na\n---\nb", "line 3, column 1: a recipe is YAML, .* another document"),
        ("a: \ud800", "f.yaml: a recipe is text, but it holds half of a surrogate pair"),
    ],
)
def test_what_is_not_yaml_is_told_with_its_place(text, said):
    with pytest.raises(PivotalError, match=said):
        compose(text, "f.yaml", "a recipe")
