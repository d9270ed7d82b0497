"""A search that the live page starts: progress, cancelling, resuming, the end of the server, and failures."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest
from tests.processes import until
from tests.serve.asking import Client, served

from pivotal import RunFolder
from pivotal.serve.requests import Start
from pivotal.serve.search import command_of
from pivotal.serve.server import LiveServer

PLANTED = {"model": "planted", "phenomenon": "planted"}


@dataclass
class Running:
    """A server of its own, in a folder of its own, because searches write to runs/."""

    server: LiveServer
    client: Client
    said: list[str]

    def events(self, number: int, seen: int | None = None) -> Iterator[dict[str, Any]]:
        connection = HTTPConnection("127.0.0.1", self.client.port, timeout=600)
        headers = {} if seen is None else {"Last-Event-ID": str(seen)}
        connection.request("GET", f"/{self.client.token}/find/{number}/events", headers=headers)
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        for line in answer:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])
        connection.close()


@pytest.fixture
def running(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.chdir(tmp_path)
    said: list[str] = []
    server = LiveServer(say=said.append)
    with served(server) as client:
        yield Running(server, client, said)


def test_a_search_can_be_repeated_on_the_command_line():
    assert command_of(Start()) == "pivotal find wiki-lstm number-agreement --steps every"
    asked = Start(phenomenon="my pairs.jsonl", steps="single", max_units=3, runs=2)
    told = "pivotal find wiki-lstm 'my pairs.jsonl' --steps single --max-units 3 --runs 2"
    assert command_of(asked) == told


def test_bad_requests_start_nothing(running):
    client = running.client
    for asked, said in (
        ({"steps": "some"}, "steps"),
        ({"runs": 0}, "runs"),
        ({"max_units": 1e9}, "max_units"),
        ({"out": "/etc"}, "no key out"),
    ):
        assert said in client.refusal("find", asked)
    assert "No search is running" in client.refusal("find/cancel", {})
    assert client.raw("GET", f"/{client.token}/find/1/events")[0].status == 404
    assert client.ask("state")["search"] is None


@pytest.mark.slow
def test_a_search_is_watched_cancelled_and_resumed_and_saved_when_the_server_ends(running, tmp_path):
    client, asked = running.client, {**PLANTED, "updates": 50_000}
    started = client.ask("find", asked)
    seen = []
    for event in running.events(started["number"]):
        seen.append(event)
        if event["kind"] == "progress" and sum(one["kind"] == "progress" for one in seen) == 3:
            assert "Only one search can run at a time" in client.refusal("find", asked)
            assert client.ask("state")["search"]["running"]
            client.ask("find/cancel", {})
    assert seen[-1]["kind"] == "stopped" and "checkpoint is saved" in seen[-1]["text"]
    progress = [one for one in seen if one["kind"] == "progress"]
    assert progress[0]["update"] < progress[-1]["update"] < progress[0]["updates"] == 50_000
    assert list(running.events(1, seen=len(seen) - 3)) == seen[-2:]  # as after a lost connection
    assert not client.ask("state")["search"]["running"]

    client.ask("find", asked)
    for event in running.events(2):
        if event["kind"] == "progress":
            assert event["update"] > progress[-1]["update"]
            break
    running.server.stop()
    until(lambda: "checkpoint is saved" in "".join(running.said))
    assert "Stopping the search" in running.said[0]
    assert (tmp_path / "runs" / "planted-every-planted" / "checkpoint.pt").is_file()


@pytest.mark.slow
def test_a_finished_search_is_a_run_that_opens_with_its_report(running):
    client = running.client
    client.ask("find", {**PLANTED, "updates": 20, "max_units": 3})
    end = list(running.events(1))[-1]
    assert end["kind"] == "done" and RunFolder(end["path"]).finished
    assert [run["run"] for run in client.ask("state")["runs"]] == [end["run"]]
    assert client.ask("open", {"run": end["run"]})["report"]
    _, page = client.raw("GET", f"/{client.token}/runs/{end['run']}/report.html")
    assert b"<title>planted in planted" in page

    client.ask("find", {**PLANTED, "phenomenon": "no-such"})
    end = list(running.events(2))[-1]
    assert end["kind"] == "failed" and "'no-such' is not one of these" in end["text"]
