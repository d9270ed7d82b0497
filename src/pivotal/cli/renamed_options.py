"""Spellings of earlier versions: they still work, and a hint names the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pivotal.questions.splits import FORMER

RENAMED: dict[str, dict[str, str]] = {
    "certify": {"--pairs": "--unit-pairs"},
    "evaluate": {"--split": "--part"},
    "generate": {"--words": "--length"},
    "trace": {"-o": "--out", "--to": "--direction"},
}
"""By verb: the former option and its present name."""

RENAMED_VALUES: dict[tuple[str, str], Mapping[str, str]] = {
    (verb, "--split"): FORMER for verb in ("find", "compare")
}
"""By verb and option: the former values and their present names."""


def updated(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The arguments in today's spelling, and a hint for every one that changed."""
    verb = next((text for text in arguments if not text.startswith("-")), "")
    renamed = RENAMED.get(verb, {})
    now: list[str] = []
    hints: list[str] = []
    rest = list(arguments)
    while rest:
        text = rest.pop(0)
        if text == "--":
            now += [text, *rest]
            break
        name, equals, value = text.partition("=")
        if not name.startswith("--") and name[:2] in renamed:  # -oFILE
            name, equals, value = name[:2], text[2:] and "=", text[2:]
        if verb == "eval-lm" and name == "--json" and (equals or (rest and _is_target(rest[0]))):
            new, equals, value = _without_target(value if equals else rest.pop(0))
        elif name in renamed:
            new = renamed[name]
        elif given := RENAMED_VALUES.get((verb, name)):
            value = value if equals else rest.pop(0) if rest else ""
            now += [name, given.get(value, value)] if value else [text]
            if value in given:
                hints.append(f"`{name} {value}` is now `{name} {given[value]}`.")
            continue
        else:
            now.append(text)
            continue
        now += [new, value] if equals else [new]
        old = f"{name} FILE" if name == "--json" else name
        hints.append(f"`pivotal {verb} {old}` is now `pivotal {verb} {new}`.")
    return now, list(dict.fromkeys(hints))


def _is_target(text: str) -> bool:
    """Whether what follows `eval-lm --json` is a file to write and not a model to evaluate."""
    return text == "-" or text.endswith(".json")


def _without_target(target: str) -> tuple[str, str, str]:
    """`eval-lm --json -` printed the figures; `--json FILE` wrote them."""
    return ("--json", "", "") if target == "-" else ("--out", "=", target)
