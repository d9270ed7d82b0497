"""Content with one part that is wrong, missing or under another name."""

import copy
from collections.abc import Iterator
from typing import Any


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of some content."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in inner:
        yield (*path, key)
        yield from places(part, (*path, key))


def spoilt(content: Any, path: tuple[Any, ...], *wrong: Any, name: str | None = None) -> Any:
    """The content with another value at the path; without a value the part is gone, or has another name."""
    content = copy.deepcopy(content)
    holder = content
    for key in path[:-1]:
        holder = holder[key]
    part = holder.pop(path[-1]) if not wrong else wrong[0]
    if wrong or name is not None:
        holder[path[-1] if name is None else name] = part
    return content
