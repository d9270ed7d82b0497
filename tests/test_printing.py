"""Numbers as people read them."""

import pytest

from pivotal.printing import duration


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 s"),
        (41.4, "41 s"),
        (119, "119 s"),
        (372, "6.2 minutes"),
        (7199, "120.0 minutes"),
        (9000, "2.5 hours"),
    ],
)
def test_durations(seconds, said):
    assert duration(seconds) == said
