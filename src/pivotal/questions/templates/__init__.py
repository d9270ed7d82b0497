"""Phenomena as template files: a YAML file with word lists and sentence patterns, which is expanded to pairs."""

from __future__ import annotations

from pivotal.questions.templates.template_file import (
    SUFFIXES,
    TemplateFile,
    bundled,
    read_template,
    write_new,
)

__all__ = ["SUFFIXES", "TemplateFile", "bundled", "read_template", "write_new"]
