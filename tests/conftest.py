"""What holds for all tests."""

from __future__ import annotations

import signal

# A shell that starts a job in the background lets it ignore Ctrl-C, and every process that it starts as well.
# Some tests press Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)
