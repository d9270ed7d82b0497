"""Where tests find the repository, and material that is not part of it."""

from pathlib import Path

ROOT = Path(__file__).parents[1]
SHARED = ROOT.parent / "shared"
"""Test material beside the clone; tests that need it are skipped where it is absent."""
