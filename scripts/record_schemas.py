"""Make docs/schemas/*.json, a JSON Schema for each kind of file that pivotal writes and reads back.

    python scripts/record_schemas.py [--check]

The schemas are made from the types in src/pivotal/records; the string under a field is its description. With --check
nothing is written: the exit code is 1 if a schema is out of date.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from pivotal.options import field_docs
from pivotal.records.basis import BasisRecord
from pivotal.records.certificate import Ablations, Certificate
from pivotal.records.exported import ExportRecord, SourceRecord
from pivotal.records.intervention import Card
from pivotal.records.run import CheckpointRecord, Progress, RunRecord
from pivotal.records.serial import Number, Record
from pivotal.records.study import StudyRecord, StudyRow
from pivotal.records.summary import Summary
from pivotal.records.traces import Traces
from pivotal.records.unit_profiles import UnitProfiles

FOLDER = Path(__file__).parents[1] / "docs" / "schemas"

RECORDS: dict[str, tuple[str, type[Record]]] = {
    "run": ("run.json", RunRecord),
    "summary": ("summary.json", Summary),
    "card": ("interventions/N/card.json", Card),
    "basis": ("bases/NAME/basis.json", BasisRecord),
    "traces": ("traces.json", Traces),
    "units": ("units.json", UnitProfiles),
    "history": ("history.jsonl", Progress),
    "certificate": ("certificate.json", Certificate),
    "study": ("study.json", StudyRecord),
    "study-row": ("results.jsonl", StudyRow),
    "ablation": ("ablation.json", Ablations),
    "checkpoint": ("checkpoint.pt", CheckpointRecord),
    "export": ("export.json", ExportRecord),
    "source": ("source.json", SourceRecord),
}
"""By the name of its schema, each file with its record; of .jsonl files, the record of a line."""


def schema(kind: type[Record]) -> dict[str, Any]:
    """The JSON Schema of a record, with the record itself first among its definitions."""
    made = msgspec.json.schema(kind, schema_hook=_number)
    classes = {cls.__name__: cls for cls in _classes(msgspec.inspect.type_info(kind))}
    made["$defs"] = {name: made["$defs"][name] for name in classes}
    for name, cls in classes.items():
        definition = made["$defs"][name]
        if "description" in definition:
            definition["description"] = " ".join(definition["description"].split())
        docs = field_docs(cls)
        for field, given in definition["properties"].items():
            if field in docs:
                given["description"] = docs[field]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **made}


def _number(kind: type) -> dict[str, Any]:
    if kind is Number:
        return {"type": ["number", "null"]}
    raise NotImplementedError


def _classes(info: Any, found: dict[type, None] | None = None) -> list[type]:
    """The records and dataclasses that a type consists of, itself first."""
    found = {} if found is None else found
    if isinstance(info, msgspec.inspect.StructType | msgspec.inspect.DataclassType):
        if info.cls in found:
            return list(found)
        found[info.cls] = None
        inner = [field.type for field in info.fields]
    else:
        parts = ("types", "item_types", "item_type", "value_type")
        given = [getattr(info, part, ()) for part in parts]
        inner = [one for part in given for one in (part if isinstance(part, tuple) else (part,))]
    for one in inner:
        _classes(one, found)
    return list(found)


def texts() -> dict[Path, str]:
    return {
        FOLDER / f"{name}.json": json.dumps(schema(kind), indent=1, ensure_ascii=False) + "\n"
        for name, (_, kind) in RECORDS.items()
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", action="store_true", help="write nothing; exit code 1 if one is out of date"
    )
    made = texts()
    if not parser.parse_args().check:
        FOLDER.mkdir(exist_ok=True)
        for path, text in made.items():
            path.write_text(text, encoding="utf-8")
        return 0
    stale = [
        path.name for path, text in made.items() if not path.is_file() or path.read_text("utf-8") != text
    ]
    if stale:
        print(f"{', '.join(stale)}: out of date. Run: python scripts/record_schemas.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
