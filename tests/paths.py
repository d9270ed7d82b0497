"""Where tests find the repository, its scripts, and material that is not part of it."""

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""Test material beside the clone; tests that need it are skipped where it is absent."""


FENCE = re.compile(r"^```(\w*)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.S | re.M)
"""A block of a page: its language, its title and its content."""


def code_of(page: str, kind: str = "python") -> list[str]:
    """The blocks of a page of the documentation in a language."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return [content for found, _, content in FENCE.findall(text) if found == kind]


def loaded(name: str, folder: str = "scripts") -> ModuleType:
    """A script, beside which it finds the modules that it imports."""
    if str(ROOT / folder) not in sys.path:
        sys.path.append(str(ROOT / folder))
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
