"""A study can leave out what a model does not know, and ask every intervention the other phenomena."""

import pytest
from small_study import Said, lasting

from pivotal import load_phenomenon, study
from pivotal.jobs.study.job import Studied
from pivotal.jobs.study.merge import merge
from pivotal.jobs.study.recipe import Recipe, parse_recipe
from pivotal.records.study import UNKNOWN, StudyRow

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def rows(atlas: Studied) -> dict[str, StudyRow]:
    return {row.name: row for row in atlas.rows}


def test_what_the_model_does_not_know_is_not_searched(atlas, rows):
    assert list(rows) == ["planted", "renamed", "chance", "strange"]
    assert [row.status for row in rows.values()] == ["done", "done", UNKNOWN, UNKNOWN]
    assert "prefers the expected word" in (rows["chance"].error or "")
    assert rows["chance"].clean_accuracy is not None and rows["chance"].clean_accuracy < 0.7
    assert "cannot score" in (rows["strange"].error or "")
    assert not list((atlas.folder / "runs").glob("chance-*"))
    assert "Not searched: 2 cells whose model does not know the phenomenon." in repr(atlas)


def test_every_intervention_is_asked_the_other_phenomena(rows):
    judged = rows["planted"].judged
    scores = {score.phenomenon: score for score in judged.cross}
    assert sorted(scores) == ["chance", "renamed"], "itself and what cannot be asked are left out"
    assert scores["renamed"].flipped is None and scores["renamed"].moved > 0.3
    # The sentences are the same, and labels do not enter the flips.
    assert scores["chance"].flipped == pytest.approx(rows["planted"].accuracy, abs=0.15)
    assert judged.verdict in ("nudge", "no evidence") and "random sets" in (*judged.failed, *judged.missing)


FEWER = [("controls: 3, ", "controls: 1, "), ("    - {label: chance, ", "    # - {label: chance, ")]


@pytest.mark.parametrize(
    "former",
    [
        FEWER[:1],
        FEWER[1:],
        [("cross: true", "cross: false")],
        [("cross: true", "cross: true, evidence: none")],
    ],
    ids=["fewer random sets", "fewer phenomena", "no other phenomena", "no evidence"],
)
def test_evidence_that_a_recipe_asks_for_later_is_added(atlas_recipe, atlas, former, tmp_path):
    text = atlas_recipe.text
    for new, old in former:
        assert new in text
        text = text.replace(new, old)
    before = study(parse_recipe(text, "cross.yaml"), out=tmp_path / "study")
    found = {row.name: row for row in before.rows}
    assert found["planted"].judged != next(row for row in atlas.rows if row.name == "planted").judged
    histories = {path: path.stat().st_mtime_ns for path in before.folder.rglob("history.jsonl")}
    said = Said()
    after = study(atlas_recipe, out=tmp_path / "study", watch=said)
    assert lasting(after.rows) == lasting(atlas.rows)
    assert {"planted", "renamed"} <= set(said.cells)
    assert "Evidence is added to 2 runs, without a new search" in " ".join(said.lines)
    assert len(histories) == 2, "nothing was searched again"
    assert {path: path.stat().st_mtime_ns for path in after.folder.rglob("history.jsonl")} == histories
    assert all(row.total_seconds == found[row.name].total_seconds for row in after.rows if row.done)
    again = Said()
    study(atlas_recipe, out=tmp_path / "study", watch=again)
    assert again.cells == [] and again.lines == []


def test_rows_stay_if_evidence_cannot_be_added(tmp_path):
    """The text that must stay has changed, or is gone; a summary is damaged; another question cannot be read."""
    text, other = tmp_path / "keep.txt", tmp_path / "other.jsonl"
    text.write_text("The noun0a verb0as\nThe noun1a verb1as\nThe noun0b near\nThe noun1b near\n")
    load_phenomenon("planted")[:90].save(other)

    def recipe(controls: int) -> Recipe:
        return parse_recipe(
            f"""
            name: kept
            resources: {{cpus: 1}}
            defaults: {{model: planted, updates: 12, refit: 2, max_units: 3, controls: {controls}, cross: true}}
            grid:
              question:
                - {{label: kept, phenomenon: planted, keep: {text}}}
                - {{label: other, phenomenon: {other}}}
            """,
            "kept.yaml",
        )

    def again(controls: int) -> tuple[StudyRow, ...]:
        return study(recipe(controls), out=tmp_path / "study", only="kept", watch=said).rows

    said = Said()
    before = again(1)
    text.write_text("The noun1a verb1as\nThe noun0a verb0as\nThe noun1b near\nThe noun0b near\n")
    assert again(2) == before and "holds another run: " in said.lines[-1]
    text.unlink()
    assert again(2) == before and "keep.txt" in said.lines[-1]
    count = len(said.cells)
    other.unlink()
    assert again(1) == before and len(said.cells) == count
    (summary,) = (tmp_path / "study").rglob("summary.json")
    summary.write_text("{")
    assert again(2) == before and len(said.cells) == count


def test_rows_without_run_folders_stay_as_they_are(atlas_recipe, atlas, tmp_path):
    """A published atlas has rows and interventions. To add evidence to it would mean to search again."""
    light = merge(atlas_recipe, [atlas.folder], out=tmp_path / "light", light=True)
    said = Said()
    more = parse_recipe(atlas_recipe.text.replace("controls: 3", "controls: 4"), "cross.yaml")
    assert lasting(study(more, out=light.folder, watch=said).rows) == lasting(light.rows)
    assert said.cells == []
