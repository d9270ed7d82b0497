"""Where tests find the repository, its scripts, and material that is not part of it."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""Test material beside the clone; tests that need it are skipped where it is absent."""


def loaded(name: str, folder: str = "scripts") -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / folder / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
