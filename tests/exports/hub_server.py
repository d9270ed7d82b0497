"""A stand-in for the Hugging Face hub: the part of its HTTP interface that push and pull use, for one repository."""

import base64
import hashlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Hub:
    """The commits of a repository: the newest last."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.commits: dict[str, dict[str, bytes]] = {}
        self.asked: list[str] = []
        self.url = ""

    def commit(self, files: dict[str, bytes]) -> str:
        sha = hashlib.sha1(repr(sorted(files.items())).encode()).hexdigest()
        self.commits[sha] = files
        return sha

    @property
    def newest(self) -> str:
        return list(self.commits)[-1]


@contextmanager
def serving(hub: Hub) -> Iterator[Hub]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(hub))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None: ...

        def answer(self, content: Any, status: int = 200, **headers: str) -> None:
            body = content if isinstance(content, bytes) else json.dumps(content).encode()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name.replace("_", "-"), value)
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def missing(self) -> None:
            self.answer({"error": "not found"}, 404, X_Error_Code="RepoNotFound")

        def do_GET(self) -> None:
            path = self.path.partition("?")[0]
            hub.asked.append(f"{self.command} {path}")
            api = f"/api/models/{hub.name}"
            if path == api or path.startswith(f"{api}/revision/"):
                revision = path.removeprefix(api).removeprefix("/revision/") or "main"
                sha = hub.newest if revision == "main" else revision
                if sha not in hub.commits:
                    return self.missing()
                files = [{"rfilename": name, "size": len(data)} for name, data in hub.commits[sha].items()]
                return self.answer({"id": hub.name, "sha": sha, "siblings": files})
            if path.startswith(f"{api}/tree/"):
                files = hub.commits[hub.newest] if hub.commits else {}
                row = {"type": "file", "oid": "0"}
                return self.answer([{**row, "path": name, "size": len(data)} for name, data in files.items()])
            if path.startswith(f"/{hub.name}/resolve/"):
                sha, _, name = path.removeprefix(f"/{hub.name}/resolve/").partition("/")
                data = hub.commits.get(sha, {}).get(name)
                if data is not None:
                    tag = hashlib.sha1(data).hexdigest()
                    return self.answer(data, X_Repo_Commit=sha, ETag=f'"{tag}"')
            return self.missing()

        do_HEAD = do_GET

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            hub.asked.append(f"POST {self.path}")
            if self.path == "/api/repos/create":
                return self.answer({"url": f"{hub.url}/{hub.name}"})
            if self.path == "/api/validate-yaml":
                return self.answer({"errors": [], "warnings": []})
            if self.path.startswith(f"/api/models/{hub.name}/preupload/"):
                how = {"uploadMode": "regular", "shouldIgnore": False, "oid": None}
                asked = json.loads(body)["files"]
                return self.answer({"files": [{**how, "path": one["path"]} for one in asked]})
            if self.path.startswith(f"/api/models/{hub.name}/commit/"):
                rows = [json.loads(line) for line in body.splitlines()]
                files = dict(hub.commits[hub.newest]) if hub.commits else {}
                for row in rows:
                    if row["key"] == "file":
                        files[row["value"]["path"]] = base64.b64decode(row["value"]["content"])
                    elif row["key"] == "deletedFile":
                        del files[row["value"]["path"]]
                sha = hub.commit(files)
                url = f"{hub.url}/{hub.name}/commit/{sha}"
                return self.answer({"success": True, "commitUrl": url, "commitOid": sha, "hookOutput": ""})
            return self.missing()

    return Handler
