"""The live page under measurement: from a slider to new figures in a browser, one request after another, and many
clients at once.

    python benchmarks/live.py runs/demo                      # all parts
    python benchmarks/live.py runs/demo --part slider --moves 40
    python benchmarks/live.py runs/demo --part single --moves 50
    python benchmarks/live.py runs/demo --part clients --requests 1000 --clients 20

The server is a process of its own. Processor time and memory are the server's. The slider part needs playwright, which
the extra `dev` brings, and Chromium.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import time
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", help="a run folder")
    parser.add_argument("--part", choices=["slider", "single", "clients", "all"], default="all")
    parser.add_argument("--moves", type=int, default=40)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=20)
    args = parser.parse_args()
    print(f"{os.cpu_count()} cores, {platform.machine()}, load {os.getloadavg()[0]:.1f}", flush=True)
    line = [sys.executable, "-m", "pivotal", "serve", args.run, "--port", "0"]
    server = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split()[-1]
    try:
        opened = ask(address, "open", {"run": 0})
        print(f"{opened['phenomenon']} in {opened['model']}, {len(opened['units'])} units", flush=True)
        if args.part in ("slider", "all"):
            slider(address, server.pid, args.moves)
        if args.part in ("single", "all"):
            single(address, server.pid, opened, args.moves)
        if args.part in ("clients", "all"):
            clients(address, server.pid, opened, args.requests, args.clients)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait(60)


# -- a slider in a browser ----------------------------------------------------------------------------------------


def slider(address: str, pid: int, moves: int) -> None:
    """Move the first slider step by step, and take the time until the page has drawn the answer."""
    from playwright.sync_api import expect, sync_playwright

    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("There is no Chromium; install it, or use --part clients.")
    times = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(address)
        body, first = page.locator("body"), page.locator("#units input[type=range]").first
        page.locator("body[data-updates]").wait_for(timeout=120_000)
        keys = ["ArrowLeft", "ArrowRight"]
        if first.input_value() == first.get_attribute("min"):  # there is nothing to the left of it
            keys.reverse()
        before = cpu(pid)
        for move in range(moves):
            drawn = int(body.get_attribute("data-updates") or 0)
            first.press(keys[move % 2])
            expect(body).to_have_attribute("data-updates", str(drawn + 1), timeout=60_000)
            times.append(float(body.get_attribute("data-took") or "nan"))
        used = (cpu(pid) - before) / moves
        browser.close()
    median, late = statistics.median(times) / 1000, sorted(times)[int(0.9 * moves)] / 1000
    print(
        f"slider: median {median:.3f} s, 90th percentile {late:.3f} s over {moves} moves; {used:.3f} CPU s of the "
        "server for each",
        flush=True,
    )


# -- one request after another ------------------------------------------------------------------------------------


def single(address: str, pid: int, opened: dict[str, Any], requests: int) -> None:
    """Requests of one client, each with another value. Every fifth has another sentence."""
    ask(address, "look", request(opened, 0, 0.1))
    used = []
    for i in range(requests):
        before = cpu_of_threads(pid)
        ask(address, "look", request(opened, i // 5, 1 + i / requests))
        used.append(cpu_of_threads(pid) - before)
    median, late = statistics.median(used), sorted(used)[int(0.9 * requests)]
    print(
        f"single: median {median:.3f} CPU s of the server for a request, 90th percentile {late:.3f}, over {requests} "
        f"requests; memory {resident(pid):.0f} MB",
        flush=True,
    )


def request(opened: dict[str, Any], pair: int, value: float) -> dict[str, Any]:
    """A request for one of the stored pairs with all units of the run set to a value."""
    asked = opened["pairs"][pair % min(10, len(opened["pairs"]))]
    units = [{"unit": about["unit"], "values": [value, -value]} for about in opened["units"]]
    cue = None if asked["cue"] is None else str(asked["cue"])
    return {"run": 0, "sentence": asked["prefix"], "words": asked["words"], "units": units, "cue": cue}


# -- many clients -------------------------------------------------------------------------------------------------


def clients(address: str, pid: int, opened: dict[str, Any], requests: int, at_once: int) -> None:
    """Requests that differ in sentence and value. Each answer is compared with that of a client alone."""
    asked = [request(opened, i, (i % 7 - 3) / 4) for i in range(requests)]
    distinct = {json.dumps(one): one for one in asked}
    alone = {key: ask(address, "look", one) for key, one in distinct.items()}
    memory = [resident(pid)]
    began, used = time.perf_counter(), cpu(pid)
    wrong = errors = 0
    with ThreadPoolExecutor(at_once) as pool:
        for start in range(0, requests, max(1, requests // 4)):
            part = asked[start : start + max(1, requests // 4)]
            for one, answer in zip(part, pool.map(lambda one: tried(address, one), part), strict=True):
                errors += answer is None
                wrong += answer is not None and answer != alone[json.dumps(one)]
            memory.append(resident(pid))
    seconds = time.perf_counter() - began
    print(
        f"clients: {requests} requests ({len(distinct)} distinct) from {at_once} clients in {seconds:.1f} s, "
        f"{(cpu(pid) - used) / requests:.3f} CPU s each; {errors} errors, {wrong} answers of another request; "
        f"memory {', '.join(f'{m:.0f}' for m in memory)} MB (before, and after each quarter)",
        flush=True,
    )


def tried(address: str, one: dict[str, Any]) -> Any:
    try:
        return ask(address, "look", one)
    except OSError:
        return None


def ask(address: str, path: str, body: Any) -> Any:
    sent = urllib.request.Request(
        address + path, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(sent, timeout=600) as answer:
        return json.load(answer)


def cpu(pid: int) -> float:
    """Seconds of processor time of a process so far (Linux)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def cpu_of_threads(pid: int) -> float:
    """The same for the threads that run now, in nanoseconds instead of the ticks of `cpu`."""
    threads = Path(f"/proc/{pid}/task").glob("*/schedstat")
    return sum(int(thread.read_text().split()[0]) for thread in threads) / 1e9


def resident(pid: int) -> float:
    """Resident memory of a process in MB (Linux)."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    main()
