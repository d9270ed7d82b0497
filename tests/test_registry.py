from __future__ import annotations

import importlib.metadata
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import pytest

from pivotal.errors import PivotalError
from pivotal.options import Option, build, options_of
from pivotal.registry import Registry


class Animal(ABC):
    @abstractmethod
    def sound(self) -> str: ...


@dataclass(frozen=True)
class Dog(Animal):
    name: ClassVar[str] = "dog"

    legs: int = 4
    """How many legs
    it has."""
    weight: float = 10.0
    tail: bool = True
    """Whether it wags."""
    colour: Literal["brown", "black"] = "brown"
    owner: str | None = None
    toys: tuple[str, ...] = ()
    range: tuple[int, float] = (1, 2.0)
    limit: int | Literal["auto"] = "auto"
    seen: list[str] = field(default_factory=list, init=False)

    def sound(self) -> str:
        return "wuff"


@dataclass(frozen=True)
class Puppy(Dog):
    age: int = field(kw_only=True)
    """In months."""


PLUGINS = """
from test_registry import Animal
class Cat(Animal):
    name = "cat"
    def sound(self): return "miau"
class Abstract(Animal):
    name = "abstract"
class Nameless(Cat):
    pass
class NotAnAnimal:
    name = "stone"
"""


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    """A package with one module of plugins and one that only imports them."""
    folder = tmp_path / "zoo_for_tests"
    folder.mkdir()
    (folder / "__init__.py").write_text("")
    (folder / "cats.py").write_text(PLUGINS)
    (folder / "other.py").write_text("from zoo_for_tests.cats import Cat")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "test_registry", sys.modules[__name__])
    yield Registry("animals", "zoo_for_tests", Animal)
    for module in [name for name in sys.modules if name.startswith("zoo_for_tests")]:
        del sys.modules[module]


def entry_points(monkeypatch, **values: str) -> None:
    points = [importlib.metadata.EntryPoint(name, value, "pivotal.animals") for name, value in values.items()]
    groups = {"pivotal.animals": points}
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda *, group: groups.get(group, []))


def test_the_folder_is_the_registry(zoo):
    assert zoo.names() == ["cat"] and "cat" in zoo and "stone" not in zoo
    assert zoo.get("cat")().sound() == "miau"
    assert zoo.items() == [("cat", zoo.get("cat"))]
    with pytest.raises(PivotalError, match=r"no animals named 'cta'. Did you mean 'cat'\? Available: cat\."):
        zoo.get("cta")


def test_entry_points_add_classes(zoo, monkeypatch):
    entry_points(monkeypatch, dog="test_registry:Dog", lost="nowhere_at_all:X", odd="test_registry:PLUGINS")
    assert zoo.names() == ["cat", "dog"]
    with pytest.raises(PivotalError, match=r"'lost' of animals cannot be loaded \(ModuleNotFoundError"):
        zoo.get("lost")
    with pytest.raises(PivotalError, match="not a named subclass of Animal"):
        zoo.get("odd")


def test_two_of_one_name_are_refused(zoo, monkeypatch, tmp_path):
    (tmp_path / "zoo_for_tests" / "more.py").write_text(PLUGINS)
    with pytest.raises(PivotalError, match="named 'cat'"):
        zoo.names()


def test_options_of_a_class():
    options = {option.name: option for option in options_of(Dog)}
    assert list(options) == ["legs", "weight", "tail", "colour", "owner", "toys", "range", "limit"]
    assert options["legs"] == Option("legs", int, 4, "How many legs it has.")
    assert options["weight"].help == "" and options["tail"].help == "Whether it wags."
    assert options["colour"].allowed == "one of 'brown', 'black'"
    assert options["owner"].allowed == "text or none"
    inherited = {option.name: option for option in options_of(Puppy)}
    assert inherited["legs"].help == "How many legs it has." and inherited["age"].required
    assert options_of(int) == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"legs": "3"}, Dog(legs=3)),
        ({"weight": "1e-3"}, Dog(weight=0.001)),
        ({"legs": 3.0}, Dog(legs=3)),
        ({"tail": "No"}, Dog(tail=False)),
        ({"owner": "none"}, Dog(owner=None)),
        ({"toys": "ball, bone"}, Dog(toys=("ball", "bone"))),
        ({"toys": ""}, Dog()),
        ({"range": "3,4"}, Dog(range=(3, 4.0))),
        ({"limit": "7"}, Dog(limit=7)),
        ({"limit": "auto"}, Dog(limit="auto")),
    ],
)
def test_building_from_text_or_values(text, expected):
    assert build(Dog, text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ({"leg": "3"}, r"'dog' has no option 'leg'. Did you mean 'legs'\? Available: colour, "),
        ({"legs": "3.5"}, "Option 'legs' of 'dog' takes a whole number, not '3.5'"),
        ({"weight": "nan"}, "takes a number, not 'nan'"),
        ({"tail": "maybe"}, "takes true or false, not 'maybe'"),
        ({"colour": "blck"}, r"takes one of 'brown', 'black', not 'blck'. Did you mean 'black'\?"),
        ({"range": "1"}, "takes 2 values, separated by commas: a whole number, a number, not '1'"),
        ({"toys": 3}, "takes a list, separated by commas, each text, not '3'"),
    ],
)
def test_a_bad_option_is_named(text, message):
    with pytest.raises(PivotalError, match=message):
        build(Dog, text)


def test_a_required_option_is_asked_for():
    with pytest.raises(PivotalError, match="needs the option 'age': a whole number"):
        build(Puppy, {})
    assert build(Puppy, {"age": "2"}).age == 2
