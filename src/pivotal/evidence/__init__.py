"""Evidence about an intervention: scores on held-out pairs, checks, a verdict, traces and certificates."""

from pivotal.records.certificate import Certificate, Effort
from pivotal.records.check import CheckReport
from pivotal.records.summary import Summary
from pivotal.records.traces import Trace

__all__ = ["Certificate", "CheckReport", "Effort", "Summary", "Trace"]

CONTROLS = 99
"""Default number of random sets that the best run is compared with. It is the smallest for which p can be 0.01."""

MOST_CONTROLS = 10_000
"""The most random sets. Each needs values of its own, which are learned."""
