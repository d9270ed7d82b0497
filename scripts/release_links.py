"""Let the README show its images and open its links on PyPI, and name the repository in the metadata.

    python scripts/release_links.py https://github.com/OWNER/NAME v0.1.0

The release workflow runs this before it builds the wheel. In the repository links stay relative, so that they work in
any clone and fork.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def absolute(text: str, repository: str, tag: str) -> str:
    """The text with every relative link to a file leading to that file in the repository."""
    return re.sub(
        r"(!?)(\[[^\]]*\])\((?!https?://|#)",
        lambda found: f"{found[1]}{found[2]}({repository}/{'raw' if found[1] else 'blob'}/{tag}/",
        text,
    )


def with_urls(project: str, repository: str) -> str:
    """pyproject.toml with the addresses of the repository."""
    urls = f'Source = "{repository}"\nIssues = "{repository}/issues"\n'
    return project.replace("[project.urls]\n", f"[project.urls]\n{urls}", 1)


def main(repository: str, tag: str) -> None:
    readme, project = ROOT / "README.md", ROOT / "pyproject.toml"
    readme.write_text(absolute(readme.read_text("utf-8"), repository, tag), "utf-8")
    project.write_text(with_urls(project.read_text("utf-8"), repository), "utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
