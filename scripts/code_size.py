"""Counts lines of code and files per folder: blank lines, comments and docstrings do not count.

python scripts/code_size.py            # src/pivotal and tests
python scripts/code_size.py FOLDER …
"""

from __future__ import annotations

import ast
import io
import sys
import tokenize
from collections import defaultdict
from pathlib import Path

BLANK = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}


def lines_of_code(text: str) -> int:
    """The number of lines that hold code. A string that stands alone, such as the help under a field, is no code."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    code: set[int] = set()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in BLANK:
            code.update(range(token.start[0], token.end[0] + 1))
    return len(code - prose)


def sizes(root: Path) -> dict[str, tuple[int, int]]:
    """For each folder directly below the root, its lines of code and its files. The root's own files are under '.'."""
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root).parts
        folder = inside[0] if len(inside) > 1 else "."
        lines, files = found[folder]
        found[folder] = lines + lines_of_code(path.read_text(encoding="utf-8")), files + 1
    return dict(found)


def main() -> None:
    for root in sys.argv[1:] or ("src/pivotal", "tests"):
        rows = sizes(Path(root))
        print(
            f"{root}: {sum(n for n, _ in rows.values()):,} lines of code in {sum(f for _, f in rows.values())} files"
        )
        for folder, (lines, files) in sorted(rows.items(), key=lambda row: -row[1][0]):
            print(f"  {folder:12} {lines:6,} in {files}")


if __name__ == "__main__":
    main()
