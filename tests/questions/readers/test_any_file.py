"""Any file is read, or refused with a sentence."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.questions.readers.reading import SUITE, read

from pivotal.errors import PivotalError

text = st.text(max_size=12)
value = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_subnormal=False)
    | text
    | st.lists(text, max_size=3)
    | st.dictionaries(text, text, max_size=2)
)

KEYS = {
    "table": ["prefix", "good", "bad", "cue", "label", "group", "other"],
    "circuits": ["clean_prefix", "patch_prefix", "clean_answer", "patch_answer", "case"],
    "blimp": ["sentence_good", "sentence_bad", "one_prefix_prefix", "one_prefix_word_good", "one_prefix_word_bad",
              "one_prefix_method", "two_prefix_method", "UID"],
}  # fmt: skip


@st.composite
def documents(draw: st.DrawFn) -> tuple[str, str, bytes]:
    """The reader, the name and the content of a file with any value in any field."""
    reader = draw(st.sampled_from([*KEYS, "syntaxgym", "sentences", "table.csv", "lakretz"]))
    if reader in KEYS:
        rows = draw(st.lists(st.dictionaries(st.sampled_from(KEYS[reader]), value, min_size=1), max_size=3))
        good = {key: "a b" if "prefix" in key else "c" if "good" in key else "d" for key in KEYS[reader]}
        rows = [{**good, **row} for row in rows]
        suffix = draw(st.sampled_from([".jsonl", ".json"])) if reader != "blimp" else ".jsonl"
        dumped = "\n".join(map(json.dumps, rows)) if suffix == ".jsonl" else json.dumps(rows)
        return reader, f"a{suffix}", dumped.encode("utf-8", "surrogatepass")
    if reader == "syntaxgym":
        suite = {**SUITE, **draw(st.dictionaries(st.sampled_from(["meta", "predictions", "items"]), value))}
        return reader, "a.json", json.dumps(suite).encode("utf-8", "surrogatepass")
    kind, _, suffix = reader.partition(".")
    lines = draw(st.text(alphabet='ab \t,\n"\r', max_size=60))
    head = "prefix,good,bad\n" if suffix else ""
    return kind, f"a.{suffix or 'txt'}", (head + lines).encode()


@given(document=documents(), skip=st.booleans())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_file_is_read_or_refused_with_a_sentence(
    document: tuple[str, str, bytes], skip: bool, tmp_path: Path
) -> None:
    reader, name, data = document
    try:
        pairs = read(tmp_path, name, data, reader, skip_bad=skip)
    except PivotalError as error:
        assert str(error).strip().endswith((".", "?", ")")) and "Traceback" not in str(error)
    else:
        assert len(pairs) > 0 and len(set(pairs)) == len(pairs)
