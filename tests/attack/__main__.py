"""`python -m tests.attack`: the whole attack, or a part of it. `make attack` calls this."""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when the library is imported


def _apart(part: Callable[[], int]) -> int:
    """Run a part in a process of its own: the threads that one part starts would not survive the forks of another."""
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        failed = 1
        try:
            failed = part()
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(min(failed, 100))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    from tests.attack import parts
    from tests.attack.command import limit_memory
    from tests.attack.materials import Materials

    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    parser.add_argument("--cases", type=int, default=10_000, help="fuzzed cases")
    parser.add_argument("--first", type=int, default=0, help="the number of the first case")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--pairs", type=int, default=500, help="trials of two processes in one folder")
    parser.add_argument("--pickles", type=int, default=200)
    parser.add_argument("--requests", type=int, default=5000, help="requests to the live page")
    parser.add_argument(
        "--rounds", type=int, default=3, help="how often each job meets each fault of the disk"
    )
    parser.add_argument("--targets", nargs="*", default=[], help="fuzz only these; --list names them")
    parser.add_argument("--parts", nargs="*", default=list(parts.PARTS), choices=list(parts.PARTS))
    parser.add_argument("--list", action="store_true", help="name the targets")
    given = parser.parse_args()
    if given.list:
        from tests.attack.targets import TARGETS

        print("\n".join(TARGETS))
        return 0
    limit_memory()
    began, failed = time.monotonic(), 0
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, seed {given.seed}"
    )
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None, prefix="attack-") as root:
        os.environ["ATTACK_OUTPUT"] = str(Path(root) / "output")
        for name in given.parts:
            failed += _apart(lambda name=name: parts.PARTS[name](given, Materials(Path(root) / name)))
    print(
        f"\n{'No failures' if not failed else f'{failed} kinds of failures'}, {time.monotonic() - began:.0f} s"
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
