"""The published JSON Schemas are those of the records."""

import json
import sys

import pytest
from tests.paths import ROOT

sys.path.append(str(ROOT / "scripts"))

import record_schemas


def test_the_schemas_are_up_to_date():
    for path, text in record_schemas.texts().items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/record_schemas.py"
    names = {f"{name}.json" for name in record_schemas.RECORDS}
    assert {path.name for path in record_schemas.FOLDER.iterdir()} == names


@pytest.mark.parametrize("name", record_schemas.RECORDS)
def test_every_record_is_described_and_linked(name):
    schema = record_schemas.schema(record_schemas.RECORDS[name][1])
    first, *_ = schema["$defs"].values()
    assert first["description"]
    assert f"schemas/{name}.json" in (ROOT / "docs/records.md").read_text(encoding="utf-8")


def test_published_rows_fit_their_schema():
    from jsonschema import Draft202012Validator

    validator = Draft202012Validator(record_schemas.schema(record_schemas.RECORDS["study-row"][1]))
    for path in (ROOT / "docs/results").glob("*/results.jsonl"):
        validator.validate(json.loads(path.read_text(encoding="utf-8").splitlines()[0]))


def test_the_page_lists_the_fields_of_every_record():
    import site_pages

    page = site_pages.records()
    for name in ("run.json", "summary.json", "### RunScores", "`flip_accuracy`", "`kl_bound_kept`"):
        assert name in page
    assert "or null or null" not in page
