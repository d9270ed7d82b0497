"""`python -m tests.attack`: the whole attack, or a part of it. `make attack` calls this."""

import argparse
import os
import platform
import sys
import tempfile
import time
import traceback
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["HF_HUB_OFFLINE"] = "1"  # read once, when the library is imported


def _apart(name: str, given: argparse.Namespace, root: Path) -> int:
    """Run a part in a process of its own: the threads that one part starts would not survive the forks of another."""
    from tests.attack import parts

    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        failed = 1
        try:
            failed = parts.run(name, given, root)
            sys.stdout.flush()
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(min(failed, 100))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def main() -> int:
    from tests.attack import parts
    from tests.attack.command import limit_memory
    from tests.attack.targets import TARGETS

    parser = argparse.ArgumentParser(prog="python -m tests.attack", description=__doc__)
    numbers = {
        "cases": (10_000, "fuzzed cases"), "first": (0, "the number of the first fuzzed case, or pair"),
        "seed": (0, "the seed of everything random"), "kills": (100, "kills of long jobs"),
        "pairs": (500, "trials of two processes in one folder"), "pickles": (200, "hostile pickles"),
        "rounds": (3, "how often each job meets a limit on the size of files"),
    }  # fmt: skip
    for name, (default, about) in numbers.items():
        parser.add_argument(f"--{name}", type=int, default=default, help=about)
    parser.add_argument("--targets", nargs="*", default=[], help="fuzz only these", choices=list(TARGETS))
    parser.add_argument("--parts", nargs="*", default=list(parts.PARTS), choices=list(parts.PARTS))
    given = parser.parse_args()
    limit_memory()
    began, failed = time.monotonic(), 0
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, seed {given.seed}"
    )
    shared = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=shared if shared.is_dir() else None, prefix="attack-") as root:
        os.environ["ATTACK_OUTPUT"] = str(Path(root) / "output")
        for name in given.parts:
            failed += _apart(name, given, Path(root) / name)
    said = f"{failed} kinds of failures" if failed else "No failures"
    print(f"\n{said}, {time.monotonic() - began:.0f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
