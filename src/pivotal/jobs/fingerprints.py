"""Compares a job with what a folder holds: the settings, and the fingerprints of what was read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivotal.files import differences

_FINGERPRINTS = {
    "model_fingerprint": "the weights, the words or the priming of the model have changed",
    "data_fingerprint": "the pairs have changed",
    "held_out": "the number or the share of held-out pairs that the phenomenon states has changed",
    "counterfactual_fingerprint": "the counterfactual prefixes of the pairs have changed",
    "keep_fingerprint": "the questions or texts of --keep have changed",
    "sites_fingerprint": "the bases of --sites have changed",
    "start_fingerprint": "the intervention that the search starts from has changed",
}
"""What it means if a fingerprint among the settings differs."""

_EVER = ("model_fingerprint", "data_fingerprint")
"""The fingerprints that all versions store. A folder without one of the others was written by an earlier version."""


def changes(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Where the settings of a job differ from those of a folder, in words. If they are equal, which of the things that
    the settings name have changed."""
    return differences(_named(there), _named(here)) or changed_files(there, here)


def changed_files(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What has another fingerprint, in words. A fingerprint that one side lacks is compared only if all versions store
    it."""
    found = []
    for name, words in _FINGERPRINTS.items():
        a, b = there.get(name), here.get(name)
        if a != b and (name in _EVER or None not in (a, b)):
            found += [f"{words} ({told})" for told in differences({name: a}, {name: b})]
    return found


def _named(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings without the fingerprints."""
    return {name: value for name, value in settings.items() if name not in _FINGERPRINTS}
