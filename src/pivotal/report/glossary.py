"""The words of a report, for readers who have not read the documentation."""

from __future__ import annotations

from html import escape

TERMS: tuple[tuple[str, str, str, str], ...] = (
    ("unit", "One coordinate of a model’s activation, or one attention head.", "the-units", "concepts.md"),
    ("site", "The activation that a unit belongs to, such as the states of a layer.", "the-units", "concepts.md"),
    ("minimal pair", "A prefix and two words that may follow it, each with a label.", "sentence-by-sentence",
     "concepts.md"),
    ("cue", "The word of the prefix that decides which of the two words is right.", "sentence-by-sentence",
     "concepts.md"),
    ("direction, →", "The label that a preference is flipped to.", "where-it-works", "concepts.md"),
    ("flipped", "The edited model prefers the word that the untouched model does not prefer.", "where-it-works",
     "concepts.md"),
    ("held out", "Not used by the search. All scores are from held-out pairs unless training pairs are named.",
     "where-it-works", "concepts.md"),
    ("KL", "The divergence between the predictions of the untouched and the edited model: what the edit changes "
     "besides the preference.", "what-else-it-changes", "concepts.md"),
    ("natural range", "The 1st to the 99th percentile of a unit’s states in the untouched model.",
     "are-the-values-natural", "evidence.md"),
    ("dose", "The part of the way from the untouched state to the value: 0 leaves a unit alone, 1 sets it.",
     "what-else-it-changes", "evidence.md"),
    ("verdict", "What may be said about the units after all checks: decide, switch, nudge, or no evidence.",
     "the-verdict", "evidence.md"),
    ("95% interval", "It counts prefixes, because pairs with the same prefix flip together.", "where-it-works",
     "concepts.md"),
    ("points", "Percentage points: the difference of two percentages.", "is-every-unit-needed", "read-a-report.md"),
    ("logit", "The score of a word before the softmax. A difference of 0.69 doubles the odds.", "the-units",
     "read-a-report.md"),
)  # fmt: skip
"""Each word with its meaning, the part of the page that uses it, and the page of the documentation that explains it."""


def terms() -> str:
    listed = "".join(
        f'<dt>{escape(word)}</dt><dd>{escape(meaning)} <a href="#{part}">Here</a>; '
        f"documentation: <code>docs/{page}</code></dd>"
        for word, meaning, part, page in TERMS
    )
    return f"<dl class=glossary>{listed}</dl>"
