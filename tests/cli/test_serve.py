"""`pivotal serve`: what it needs, and how it ends. tests/serve asks the server itself."""

import signal
import socket
import sys
import urllib.request

import pytest
from tests.processes import Process, until


def test_without_the_extra_it_says_what_to_install(pivotal, monkeypatch):
    monkeypatch.delitem(sys.modules, "pivotal.serve.server", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    pivotal("serve").refused("needs uvicorn: pip install", "pip install 'pivotal[serve]'")


def test_a_port_in_use_is_named(pivotal, run_folder):
    pytest.importorskip("uvicorn")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        pivotal("serve", run_folder, "--port", port).refused(f"Port {port} cannot be used", "--port")


def test_only_runs_are_served(pivotal, tmp_path):
    pytest.importorskip("uvicorn")
    pivotal("serve", tmp_path / "none").refused("There is no folder")
    pivotal("serve", tmp_path, "--device", "abacus").refused("abacus")


@pytest.mark.slow
def test_a_signal_ends_it_cleanly(run_folder, tmp_path):
    pytest.importorskip("uvicorn")
    served = run_folder / "interventions" / "0"
    process = Process("pivotal", "serve", served, "--port", "0", cwd=tmp_path)
    until(lambda: "\n" in process.out or process.poll() is not None)
    address = process.out.split()[-1]
    with urllib.request.urlopen(f"{address}state", timeout=600) as answer:
        assert str(run_folder).encode() in answer.read()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate()
    assert process.returncode == 0 and "Traceback" not in err
