"""Nobody but the page of this server, on this machine, gets an answer."""

import json

import pytest
from tests.serve.asking import JSON

from pivotal.serve.runs import LiveRuns


def test_the_page_and_its_files_are_there_with_a_strict_policy(client):
    answer, content = client.raw("GET", f"/{client.token}/")
    policy = answer.headers["Content-Security-Policy"]
    assert answer.status == 200 and b"<title>pivotal live" in content
    assert "default-src 'none'" in policy and "unsafe" not in policy
    assert answer.headers["Referrer-Policy"] == "no-referrer"
    assert answer.headers["Cache-Control"] == "no-store"
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]
    for name in ("page.css", "page.js", "live.css", "live.js"):
        assert client.raw("GET", f"/{client.token}/assets/{name}")[0].status == 200
    bare = client.raw("GET", f"/{client.token}")[0]
    assert (bare.status, bare.headers["Location"]) == (307, f"/{client.token}/")


def test_a_report_gets_an_origin_of_its_own(client, planted_run):
    answer, content = client.raw("GET", f"/{client.token}/runs/0/report.html")
    policy = answer.headers["Content-Security-Policy"]
    assert content == (planted_run / "report.html").read_bytes()
    assert policy.startswith("sandbox allow-scripts;") and "allow-same-origin" not in policy
    assert client.raw("GET", f"/{client.token}/runs/7/report.html")[0].status == 404


@pytest.mark.parametrize(
    "path", ["/", "/state", "/favicon.ico", "/{wrong}/", "/{wrong}/state", "//{token}/state"]
)
def test_a_wrong_token_is_refused(client, path):
    wrong = client.token[:-1] + ("a" if client.token[-1] != "a" else "b")
    answer, content = client.raw("GET", path.format(wrong=wrong, token=client.token))
    assert answer.status == 403 and "token" in json.loads(content)["error"]


def test_localhost_is_a_name_of_this_machine(client):
    headers = {"Host": f"localhost:{client.port}", "Origin": f"http://localhost:{client.port}"}
    assert client.raw("GET", f"/{client.token}/state", headers=headers)[0].status == 200


@pytest.mark.parametrize(
    ("header", "value"),
    [
        *(
            ("Host", host)
            for host in ("evil.example", "127.0.0.1", "localhost:1", "127.0.0.1.evil.example:{port}", "")
        ),
        *(
            ("Origin", page)
            for page in ("https://evil.example", "null", "http://127.0.0.1:1", "https://127.0.0.1:{port}")
        ),
    ],
)
def test_another_host_or_origin_is_refused(client, header, value):
    headers = {**JSON, header: value.format(port=client.port)}
    assert client.raw("POST", f"/{client.token}/open", b'{"run": 0}', headers)[0].status == 403


def test_only_json_of_the_right_method_is_read(client):
    path = f"/{client.token}/open"
    assert client.raw("GET", path)[0].status == 405
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        assert client.raw("POST", path, b'{"run": 0}', headers)[0].status == 422
    for body in (b"", b"{", b"\xff", b"[" * 10_000, b'{"run": "0"}', b'{"run": -1}', b'{"run": 1e99}'):
        answer, content = client.raw("POST", path, body)
        assert answer.status == 422 and "request" in json.loads(content)["error"].lower()


def test_a_fault_of_the_server_is_told_and_ends_nothing(client, monkeypatch):
    def broken(*_: object) -> None:
        raise KeyError("a fault")

    with monkeypatch.context() as patch:
        patch.setattr(LiveRuns, "opened", broken)
        answer, content = client.raw("POST", f"/{client.token}/open", b'{"run": 0}', JSON)
    assert answer.status == 500 and "a fault" in json.loads(content)["error"]
    assert client.ask("open", {"run": 0})["run"] == 0
