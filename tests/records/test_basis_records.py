"""Bases on disk: arrays that do not fit the card or one another are refused."""

import numpy as np
import pytest

from pivotal import PivotalError
from pivotal.records.basis import BasisCard, StoredBasis, read_bases, write_bases

CARD = BasisCard(kind="pca", coordinates=3, fingerprint="x")
GOOD = {"encoder": np.ones((2, 3)), "decoder": np.ones((3, 2)), "bias": np.ones(3)}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"encoder": np.ones((3, 2))}, r"a/encoder, finite numbers in the shape \(3, 3\)"),
        ({"encoder": np.ones(())}, r"a/encoder, .* \(its shape is \(\)\)"),
        ({"bias": np.full(3, np.nan)}, "a/bias, finite numbers"),
        ({"units": np.array(7)}, r"a/encoder, finite numbers in the shape \(2, 1\)"),
        ({"units": np.array([0, 1, 7])}, "a/units in .* must be coordinates from 0 to 2"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(change, said, tmp_path):
    path, arrays = tmp_path / "b.safetensors", GOOD | change
    write_bases(path, {"a": StoredBasis(CARD, arrays)})
    if any(array.ndim == 0 for array in change.values()):  # which `write_bases` gives one dimension
        path.write_bytes(path.read_bytes().replace(b'"shape":[1]', b'"shape":[ ]'))
    with pytest.raises(PivotalError, match=said):
        read_bases(path, {"a": CARD})
