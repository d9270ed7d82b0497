"""Writes a template file to begin with."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

from pivotal.errors import PivotalError
from pivotal.files import asset, read_text, write_text
from pivotal.questions.templates.template_file import SUFFIXES, bundled

_NAME = re.compile(r"[^\W_][\w-]*")


def write_new(path: Path, like: str | None = None) -> Path:
    """Write the commented example, or a copy of the bundled phenomenon `like`, and return the path of the file.

    `path` is the name of the phenomenon, with or without a folder and the suffix. A file that exists is not touched.
    """
    if path.name and path.suffix.lower() not in SUFFIXES:
        path = path.with_name(path.name + SUFFIXES[0])
    name = path.stem  # empty for '.' and '/'
    if not _NAME.fullmatch(name):
        raise PivotalError(
            f"The name of a phenomenon is letters, digits, '-' and '_', as my-question, not '{name}'."
        )
    if name in bundled():
        raise PivotalError(f"'{name}' is a bundled phenomenon. Choose another name, such as my-{name}.")
    if path.exists():
        raise PivotalError(f"{path} exists already, and nothing was written. Choose another name.")
    if like is None:
        text = read_text(asset("new-phenomenon.yaml")).replace("NAME", name)
    else:
        text = re.sub(r"(?m)^name:.*$", f"name: {name}", read_text(_bundled(like)), count=1)
    write_text(path, text)
    return path


def _bundled(name: str) -> Path:
    if name not in bundled():
        near = difflib.get_close_matches(name, bundled(), n=1)
        raise PivotalError(
            f"--like names a bundled template file, but '{name}' is none."
            f"{f' Did you mean {near[0]!r}?' if near else ''} `pivotal list phenomena` lists the names."
        )
    return bundled()[name]
