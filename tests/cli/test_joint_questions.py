"""`pivotal find MODEL Q1 Q2`: one intervention for several questions, scored on each."""

import json
from pathlib import Path

import pytest
from tests.cli.conftest import Outcome
from tests.finished_run import FIND

from pivotal import RunFolder

QUICK = ("--controls", "0", "--evidence", "none")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("joint")
    rows = [
        {"prefix": f"The noun0{n}{form} near behind quite", "cue": 1, "label": label}
        | {"words": {"many": f"verb0{v}", "one": f"verb0{v}s"}}
        for n in "abcd"
        for v in "abc"
        for form, label in (("", "one"), ("s", "many"))
    ]
    (path / "other.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return path


@pytest.mark.slow
def test_pairs_are_pooled_and_each_question_is_scored(pivotal, folder):
    out, other = folder / "run", str(folder / "other.jsonl")
    joint = (*FIND[:3], other, *FIND[3:], "--labels", "one=singular,many=plural", "--out", str(out))
    assert "No pair of other is held out" in Outcome((*joint, "--test", "30", "--updates", "1", *QUICK)).err
    joint = (*joint, *QUICK, "--test", "300", "--overwrite")
    done = Outcome(joint)
    assert done.code == 0, done.err
    summary = RunFolder(out).summary()
    assert summary.phenomenon == "planted + other" and summary.labels == ("singular", "plural")
    assert set(summary.best_run.by_group) == {"planted", "other"}
    assert sum(share.n for share in summary.best_run.by_group.values()) == summary.pairs.test
    # The run is resumed, read and scored again as any other.
    assert "already finished" in Outcome(joint[:-1]).err
    assert pivotal("evaluate", out, "--json").json["flip_accuracy"] == summary.flip_accuracy
    assert "flipped in planted" in pivotal("evaluate", out, "planted").out


def test_a_question_of_which_no_pair_can_be_scored_is_refused(pivotal, tmp_path):
    """Otherwise the result would be told as one about both questions."""
    row = {"prefix": "The wug", "words": {"singular": "sings", "plural": "sing"}}
    (tmp_path / "other.jsonl").write_text(json.dumps(row))
    asked = ("planted", tmp_path / "other.jsonl", "--out", tmp_path / "run")
    pivotal("find", "planted", *asked).refused("can score none of other", "--force")
    assert pivotal("find", "planted", *asked, "--force", *QUICK).code == 0
