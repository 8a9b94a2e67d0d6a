"""A hub on the loopback interface: the few endpoints that downloads and uploads use, and a log of requests."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote

COMMIT = "c0ffee" + "0" * 34
TOKEN = "hf_TheSecretOfThisTest"
TEXTS = ["Rain.", "The ferry left the harbour before sunrise."]


@dataclass
class FakeHub:
    """Repositories by id, each file by name; `token` is needed for everything where it is set."""

    repositories: dict[str, dict[str, bytes]] = field(default_factory=dict)
    token: str | None = None
    requests: list[tuple[str, str]] = field(default_factory=list)
    blobs: dict[str, bytes] = field(default_factory=dict)
    url: str = ""

    def add(self, repo_id: str, folder: Path) -> None:
        self.repositories[repo_id] = {
            path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
        }

    def downloaded(self) -> list[str]:
        """Names of the files whose content was sent, in order."""
        return [path.split("/resolve/")[1].split("/", 1)[1] for verb, path in self.requests if _is_download(verb, path)]


def _is_download(verb: str, path: str) -> bool:
    return verb == "GET" and "/resolve/" in path


class _Handler(BaseHTTPRequestHandler):
    hub: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        pass

    def _answer(self, status: int, body: bytes = b"", **headers: str) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def _json(self, **record: object) -> None:
        self._answer(200, json.dumps(record).encode(), Content_Type="application/json")

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        chunks = []
        while size := int(self.rfile.readline(), 16):
            chunks.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(chunks)

    def _route(self) -> None:
        body = self._body()
        path = unquote(self.path.split("?")[0])
        self.hub.requests.append((self.command, path))
        known = self.hub.token is None or self.headers.get("Authorization") == f"Bearer {self.hub.token}"
        if not known and not path.startswith("/lfs-store/"):  # an upload's address is its own permission
            self._answer(401, X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
        elif "/resolve/" in path:
            self._file(*path.lstrip("/").split("/resolve/"))
        elif path.startswith("/api/models/") and self.command == "GET":
            self._info(path.removeprefix("/api/models/"))
        else:
            self._upload(path, body)

    do_GET = do_HEAD = do_POST = do_PUT = _route  # noqa: N815  # the names that http.server calls

    def _file(self, repo_id: str, rest: str) -> None:
        revision, name = rest.split("/", 1)
        if repo_id not in self.hub.repositories:
            self._answer(404, X_Error_Code="RepoNotFound")
        elif revision not in ("main", COMMIT):
            self._answer(404, X_Error_Code="RevisionNotFound")
        elif name not in self.hub.repositories[repo_id]:
            self._answer(404, X_Error_Code="EntryNotFound", X_Repo_Commit=COMMIT)
        else:
            content = self.hub.repositories[repo_id][name]
            etag = f'"{hashlib.sha256(content).hexdigest()}"'
            self._answer(200, content, ETag=etag, X_Repo_Commit=COMMIT)

    def _info(self, path: str) -> None:
        repo_id, _, revision = path.partition("/revision/")
        if repo_id not in self.hub.repositories:
            self._answer(404, X_Error_Code="RepoNotFound")
        elif revision not in ("", "main", COMMIT):
            self._answer(404, X_Error_Code="RevisionNotFound")
        else:
            siblings = [{"rfilename": name} for name in self.hub.repositories[repo_id]]
            self._json(id=repo_id, sha=COMMIT, siblings=siblings, tags=[])

    def _upload(self, path: str, body: bytes) -> None:
        if path.startswith("/lfs-store/"):
            self.hub.blobs[path.removeprefix("/lfs-store/")] = body
            self._answer(200)
        elif path == "/api/validate-yaml":
            self._json(errors=[], warnings=[])
        elif path == "/api/repos/create":
            record = json.loads(body)
            repo_id = f"{record['organization']}/{record['name']}"
            self.hub.repositories.setdefault(repo_id, {})
            self._json(url=f"{self.hub.url}/{repo_id}")
        elif "/preupload/" in path:
            modes = [(file["path"], file["path"].endswith(".onnx")) for file in json.loads(body)["files"]]
            files = [{"path": p, "uploadMode": "lfs" if big else "regular", "shouldIgnore": False} for p, big in modes]
            self._json(files=files)
        elif path.endswith("/info/lfs/objects/batch"):
            objects = json.loads(body)["objects"]
            for item in objects:
                item["actions"] = {"upload": {"href": f"{self.hub.url}/lfs-store/{item['oid']}"}}
            self._json(transfer="basic", objects=objects)
        else:
            self._commit(path.removeprefix("/api/models/").split("/commit/")[0], body)

    def _commit(self, repo_id: str, body: bytes) -> None:
        for line in map(json.loads, body.splitlines()):
            value = line["value"]
            if line["key"] == "file":
                self.hub.repositories[repo_id][value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                self.hub.repositories[repo_id][value["path"]] = self.hub.blobs[value["oid"]]
        self._json(success=True, commitOid=COMMIT, commitUrl=f"{self.hub.url}/{repo_id}/commit/{COMMIT}")


@contextmanager
def fake_hub() -> Iterator[FakeHub]:
    hub = FakeHub()
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (_Handler,), {"hub": hub}))
    hub.url = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
