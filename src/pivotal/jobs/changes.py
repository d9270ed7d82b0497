"""Where the settings of two runs differ, and which of the things that they name have changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pivotal.files import differences

_FINGERPRINTS = {
    "model_fingerprint": "the weights, the words or the priming of the model have changed",
    "data_fingerprint": "the pairs have changed",
    "test_fingerprint": "the held-out pairs have changed",
    "held_out": "the number or the share of held-out pairs that the phenomenon states has changed",
    "counterfactual_fingerprint": "the counterfactual prefixes of the pairs have changed",
    "keep_fingerprint": "the questions or texts of --keep have changed",
    "sites_fingerprint": "the bases of --sites have changed",
    "start_fingerprint": "the intervention that the search starts from has changed",
}
"""What it means if a fingerprint among the settings differs."""


def changes(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """Where the settings of a job differ from those of a folder, in words. If they are equal, which of the things that
    the settings name have changed."""
    named, wanted = (
        {name: value for name, value in settings.items() if name not in _FINGERPRINTS}
        for settings in (there, here)
    )
    return differences(named, wanted) or changed_files(there, here)


def changed_files(there: Mapping[str, Any], here: Mapping[str, Any]) -> list[str]:
    """What has another fingerprint now, in words. The fingerprint of a file that cannot be read now is not compared."""
    return [
        f"{_FINGERPRINTS[name]} ({told.replace(name, 'held out' if name == 'held_out' else 'fingerprint', 1)})"
        for name in _FINGERPRINTS
        if here.get(name) is not None
        for told in differences({name: there.get(name)}, {name: here[name]})
    ]
