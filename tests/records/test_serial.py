"""The serialiser: what is written is read back, and what does not fit is one sentence with file and place."""

import json
import math
from typing import Any

import numpy as np
import pytest
from tests.paths import ROOT

from pivotal import PivotalError
from pivotal.records.serial import Number, Record, convert, decode, encode, plain, read, write
from pivotal.records.study import StudyRow, read_results
from pivotal.records.traces import Traces


class Inner(Record, frozen=True):
    kl: Number
    name: str = "x"


class Outer(Record, frozen=True, kw_only=True):
    size: int
    share: float = 0.5
    runs: tuple[Inner, ...] = ()
    mean: Number | None = None
    by_name: dict[str, Inner] = {}  # noqa: RUF012 - msgspec copies it
    pair: tuple[str, str] = ("a", "b")
    free: Any = None


GOOD = Outer(size=3, runs=(Inner(0.25), Inner(1.0, "größer")), by_name={"k": Inner(2)})


def test_what_is_written_is_read_back(tmp_path):
    write(tmp_path / "deep" / "r.json", GOOD)
    assert read(tmp_path / "deep" / "r.json", Outer) == GOOD
    assert decode(encode(GOOD, indent=0), Outer, "r") == GOOD and "\n" not in encode(GOOD, indent=0)
    assert plain(GOOD)["by_name"] == {"k": {"kl": 2, "name": "x"}}
    assert not list(tmp_path.rglob("*.partial"))


def test_numbers_that_json_does_not_have():
    """They are null in the file, and NaN when read; a number that may be missing is None."""
    odd = Outer(size=1, runs=(Inner(math.inf), Inner(math.nan)), mean=-math.inf)
    content = json.loads(encode(odd))
    assert [run["kl"] for run in content["runs"]] == [None, None] and content["mean"] is None
    again = decode(encode(odd), Outer, "r")
    assert all(math.isnan(run.kl) for run in again.runs) and again.mean is None


def test_numbers_and_texts_of_other_libraries():
    class Version(str):
        pass

    content: dict[str, Any] = {"a": np.float64(0.5), "b": Version("2.4"), "c": (1, np.int64(2))}
    assert plain(content) == {"a": 0.5, "b": "2.4", "c": [1, 2]}
    with pytest.raises(TypeError, match="but not a object"):
        encode({"a": object()})


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"size": "3"}, "size must be a whole number, but it is a string."),
        ({"size": 3.5}, "size must be a whole number, but it is a number."),
        ({"share": None}, "share must be a number, but it is null."),
        ({"runs": {}}, "runs must be a list, but it is an object."),
        ({"runs": [{"kl": 1}, {"kl": "1"}]}, "runs[1].kl must be a number or null, but it is a string."),
        ({"runs": [{"name": "a"}]}, "runs[0].kl is missing."),
        ({"runs": [{"kl": 1, "k1": 2}]}, "there is no key runs[0].k1 in this format."),
        ({"by_name": {"a": {"kl": "x"}}}, "by_name[...].kl must be a number or null"),
        ({"pair": ["a"]}, "pair: expected `array` of length 2"),
    ],
)
def test_what_does_not_fit_is_a_sentence(change, said):
    text = json.dumps({**plain(GOOD), **change})
    with pytest.raises(PivotalError) as error:
        decode(text, Outer, "RUN/r.json")
    assert str(error.value).startswith(f"RUN/r.json: {said}")
    assert "\n" not in str(error.value)
    with pytest.raises(PivotalError, match=r"^the settings: "):
        convert(json.loads(text), Outer, "the settings")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "truncated"),
        (b'{"size": 3,\n "share": }', "invalid character in line 2, column 11"),
        (b'{"size": NaN}', "invalid character in column 10"),
        (b'{"size": 3, "free": "\xff"}', "must be JSON"),
        (b"[1]", "the content must be an object, but it is a list"),
        (b'{"free": ' + b"[" * 100_000, "nested too deeply"),
    ],
)
def test_damaged_json_is_a_sentence(data, said):
    with pytest.raises(PivotalError) as error:
        decode(data, Outer, "RUN/r.json")
    assert said in str(error.value) and str(error.value).startswith("RUN/r.json")
    assert "\n" not in str(error.value)


def test_text_with_half_a_character_is_a_sentence():
    """As the pickled text of a damaged checkpoint may have it."""
    with pytest.raises(PivotalError, match="must be JSON"):
        decode('{"size": 3, "free": "\ud800"}', Outer, "r")


def test_a_missing_file_and_one_that_is_none(tmp_path):
    with pytest.raises(PivotalError, match="Run it first"):
        read(tmp_path / "r.json", Outer, missing="Run it first.")
    with pytest.raises(PivotalError, match="no such file"):
        read(tmp_path / "r.json" / "below", Outer)
    with pytest.raises(PivotalError, match="cannot be read"):
        read(tmp_path, Outer)


def test_a_file_of_another_format_is_named_before_all_else():
    with pytest.raises(PivotalError, match="format cannot be 'other'"):
        decode('{"format": "other", "colour": 1}', Traces, "t.json")


def test_rows_of_later_versions_can_be_read(tmp_path):
    """Results of studies are published: unknown keys are skipped there, and nowhere else."""
    (first, *_) = (ROOT / "docs/results/units/results.jsonl").read_text(encoding="utf-8").splitlines()
    later = {**json.loads(first), "colour": "red"}
    later["found"][0]["colour"] = "red"
    path = tmp_path / "results.jsonl"
    path.write_text(json.dumps(later) + "\n")
    assert read_results(path) == (decode(first, StudyRow, "row"),)
    for bad in ('{"seed": 1}', "[" * 9999):
        path.write_text(f"{json.dumps(later)}\n{bad}\n")
        with pytest.raises(PivotalError, match=r"line 2.* Remove the line or the file"):
            read_results(path)
