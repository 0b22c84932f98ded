"""A stand-in for the Hugging Face Hub on 127.0.0.1: what publishing and loading a dataset ask for, in memory.

The true clients (`HfApi`, `snapshot_download`, `load_dataset`) talk to it. It keeps the Hub's habits that
matter here: commits are atomic and checked against their parent, a tag may point to any commit, large
files go through the LFS batch endpoint first and are read by a redirect to another host, which wants no
token, a missing repository answers 401 to strangers and 404 to people who are logged in. A fault can be put at any request, before or after it takes effect.
"""

import base64
import hashlib
import json
import re
import threading
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, unquote, urlsplit

import yaml

TOKEN = "hf_aTokenThatNobodyMayEverSee"
GITATTRIBUTES = b"*.parquet filter=lfs diff=lfs merge=lfs -text\n*.png filter=lfs diff=lfs merge=lfs -text\n"
LFS_ENDINGS = (".parquet", ".png")


@dataclass
class Repository:
    """One dataset repository: every commit's whole tree, and the names that point to commits."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    main: str = ""
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes]) -> str:
        """Make a commit on main and return its oid."""
        tree = "".join(f"{path} {hashlib.sha1(data).hexdigest()}\n" for path, data in sorted(files.items()))
        oid = hashlib.sha1(f"{self.main} {len(self.commits)}\n{tree}".encode()).hexdigest()
        self.commits[oid] = dict(files)
        self.main = oid
        return oid

    def resolve(self, revision: str) -> str | None:
        """Return the oid of a branch, a tag or an oid; None if there is none."""
        if revision in self.commits:
            return revision
        return self.main if revision == "main" else self.tags.get(revision)


@dataclass
class Fault:
    """What happens at one request and at every retry of it.

    ``status`` answers with that HTTP status, None cuts the connection; ``act`` is called first (it may
    kill the client). With ``after`` the request takes effect before its answer is lost.
    """

    at: int
    status: int | None = None
    after: bool = False
    act: Callable[[], None] | None = None
    message: str = "the stand-in was told to fail"
    hit: tuple[str, str] | None = None


class StandInHub:
    """The server and its state."""

    def __init__(self):
        self.repositories: dict[str, Repository] = {}
        self.writers: dict[str, set[str]] = {}  # token -> namespaces
        self.lfs: dict[str, bytes] = {}
        self.signed: dict[str, bytes] = {}  # what the other host gives out
        self.requests: list[tuple[str, str]] = []
        self.tokens_seen: set[str] = set()
        self.fault: Fault | None = None
        self.before: Callable[[str, str], None] | None = None
        self.lock = threading.RLock()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self.server.daemon_threads = True
        self.server.hub = self  # type: ignore[attr-defined] - how a handler finds its state
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.storage_url = f"http://localhost:{self.server.server_address[1]}"

    def start(self) -> None:
        """Serve until `stop`; before, connections wait."""
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        """Stop serving; the port stays this stand-in's."""
        self.server.shutdown()

    def reset(self) -> None:
        """Forget everything, as if the Hub were new."""
        with self.lock:
            self.repositories.clear()
            self.writers.clear()
            self.lfs.clear()
            self.signed.clear()
            self.requests.clear()
            self.tokens_seen.clear()
            self.fault = None
            self.before = None

    def files(self, repo_id: str, revision: str = "main") -> dict[str, bytes]:
        """Return what the Hub shows at a revision; nothing where there is none."""
        repository = self.repositories.get(repo_id)
        oid = repository.resolve(revision) if repository else None
        return {} if oid is None else dict(self.repositories[repo_id].commits[oid])

    @contextmanager
    def failing(self, fault: Fault):
        """Put a fault at the ``fault.at``-th request from here on (1 is the next)."""
        self.requests.clear()
        self.fault = fault
        try:
            yield fault
        finally:
            self.fault = None


def close_sessions() -> None:
    """Close the connections of the Hub's client, which asks whether it is offline when it makes new ones."""
    from huggingface_hub import utils

    close = getattr(utils, "close_session", None) or utils.reset_sessions  # its name before 1.0
    close()


class _Answer(Exception):  # noqa: N818 - an answer, not always an error
    def __init__(self, status: int, content: object = None, code: str = "", **headers: str):
        self.status = status
        self.body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}
        if code:
            self.headers["X-Error-Code"] = code
        if not isinstance(content, bytes):
            self.headers["Content-Type"] = "application/json"


def _refusal(status: int, message: str, code: str = "") -> _Answer:
    return _Answer(status, {"error": message}, code, X_Error_Message=" ".join(message.split()))


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # or each answer waits 40 ms for the client's acknowledgement
    wbufsize = -1

    def log_message(self, format, *args):
        pass

    @property
    def hub(self) -> StandInHub:
        return self.server.hub  # type: ignore[attr-defined] - set by StandInHub

    def do_request(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = urlsplit(self.path)
        path, query = unquote(url.path), {k: v[-1] for k, v in parse_qs(url.query).items()}
        hub = self.hub
        with hub.lock:
            hub.requests.append((self.command, path))
            fault = hub.fault
            if fault and len(hub.requests) == fault.at:
                fault.hit = (self.command, path)
            if hub.before:
                hub.before(self.command, path)
            struck = fault is not None and fault.hit == (self.command, path)
            answer = None
            if not struck or fault.after:
                try:
                    self.answer(path, query, body)
                except _Answer as given:
                    answer = given
        if struck:
            if fault.act:
                fault.act()
            if fault.status is None:
                self.close_connection = True
                return
            answer = _Answer(fault.status, {"error": fault.message})
        assert answer is not None
        self.send_response(answer.status)
        for name, value in answer.headers.items():
            self.send_header(name, value)
        if "Content-Length" not in answer.headers:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body)
        self.wfile.flush()

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_request  # noqa: N815 - the names http.server calls

    def answer(self, path: str, query: dict[str, str], body: bytes) -> None:
        """Raise the answer to a request."""
        for pattern, name in _ROUTES:
            found = re.fullmatch(pattern, f"{self.command} {path}")
            if found:
                getattr(self, name)(*found.groups(), query=query, body=body)
        raise _refusal(404, f"the stand-in does not know {self.command} {path}")

    # Who asks, and what they may see.

    def token(self) -> str | None:
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ") or None
        if token is not None:
            self.hub.tokens_seen.add(token)
            if token not in self.hub.writers:
                raise _refusal(401, "Invalid credentials in Authorization header")
        return token

    def visible(self, repo_id: str) -> Repository:
        token = self.token()
        repository = self.hub.repositories.get(repo_id)
        namespace = repo_id.split("/")[0]
        hidden = (
            repository is not None
            and repository.private
            and (token is None or namespace not in self.hub.writers[token])
        )
        if repository is None or hidden:
            if token is None:
                raise _refusal(401, "Invalid username or password.", "RepoNotFound")
            raise _refusal(404, "Repository not found", "RepoNotFound")
        return repository

    def writable(self, repo_id: str) -> Repository:
        repository = self.visible(repo_id)
        self.may_write(repo_id.split("/")[0])
        return repository

    def may_write(self, namespace: str) -> None:
        token = self.token()
        if token is None:
            raise _refusal(401, "Invalid username or password.")
        if namespace not in self.hub.writers[token]:
            raise _refusal(403, f'You don\'t have the rights to write under the namespace "{namespace}"')

    def at(self, repo_id: str, revision: str | None) -> tuple[Repository, str]:
        repository = self.visible(repo_id)
        oid = repository.resolve(revision or "main")
        if oid is None:
            raise _refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        return repository, oid

    # Reading.

    def info(self, repo_id, revision, *, query, body):
        repository, oid = self.at(repo_id, revision)
        siblings = []
        for path, data in sorted(repository.commits[oid].items()):
            sibling: dict = {"rfilename": path}
            if query.get("blobs"):
                sibling |= {"size": len(data), "blobId": _blob_id(path, data)}
                if path.endswith(LFS_ENDINGS):
                    sibling["lfs"] = _lfs(data)
            siblings.append(sibling)
        raise _Answer(
            200,
            {
                "_id": hashlib.sha1(repo_id.encode()).hexdigest()[:24],
                "id": repo_id,
                "author": repo_id.split("/")[0],
                "sha": oid,
                "private": repository.private,
                "gated": False,
                "disabled": False,
                "tags": [],
                "siblings": siblings,
            },
        )

    def tree(self, repo_id, revision, folder, *, query, body):
        repository, oid = self.at(repo_id, revision)
        entries = _entries(repository.commits[oid])
        folder = (folder or "").strip("/")
        if folder and folder not in entries:
            raise _refusal(404, f"{folder} does not exist on {revision}", "EntryNotFound")
        deep = query.get("recursive", "").lower() in ("1", "true")
        below = [
            e
            for path, e in entries.items()
            if path != folder
            and (not folder or path.startswith(folder + "/"))
            and (deep or path.rpartition("/")[0] == folder)
        ]
        raise _Answer(200, below)

    def paths_info(self, repo_id, revision, *, query, body):
        repository, oid = self.at(repo_id, revision)
        if "json" in self.headers.get("Content-Type", ""):
            paths = json.loads(body)["paths"]
        else:
            paths = parse_qs(body.decode()).get("paths", [])
        entries = _entries(repository.commits[oid])
        raise _Answer(200, [entries[path] for path in paths if path in entries])

    def refs(self, repo_id, *, query, body):
        repository = self.visible(repo_id)
        raise _Answer(
            200,
            {
                "branches": [{"name": "main", "ref": "refs/heads/main", "targetCommit": repository.main}],
                "converts": [],
                "tags": [
                    {"name": name, "ref": f"refs/tags/{name}", "targetCommit": oid}
                    for name, oid in repository.tags.items()
                ],
            },
        )

    def file(self, repo_id, revision, path, *, query, body):
        repository, oid = self.at(repo_id, revision)
        data = repository.commits[oid].get(path)
        if data is None:
            raise _refusal(404, f"Entry not found: {path}", "EntryNotFound")
        headers = {"X-Repo-Commit": oid, "ETag": f'"{_blob_id(path, data)}"', "Accept-Ranges": "bytes"}
        if not path.endswith(LFS_ENDINGS):
            raise self.part(data, headers)
        sha256 = hashlib.sha256(data).hexdigest()
        self.hub.signed[sha256] = data
        headers |= {"X-Linked-ETag": f'"{sha256}"', "X-Linked-Size": str(len(data))}
        headers |= {"Location": f"{self.hub.storage_url}/signed/{sha256}?Signature=aSignature"}
        redirect = _Answer(302, b"Found. Redirecting")
        redirect.headers |= headers
        raise redirect

    def signed(self, sha256, *, query, body):
        self.no_token()
        raise self.part(self.hub.signed[sha256], {"ETag": f'"{sha256}"'})

    def no_token(self) -> None:
        if "Authorization" in self.headers:
            raise _refusal(400, "Only one auth mechanism allowed")

    def part(self, data: bytes, headers: dict[str, str]) -> _Answer:
        """Return the answer with a file, or with the part of it that was asked for."""
        wanted = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        status = 200
        if wanted and int(wanted[1]) < len(data):
            first, last = int(wanted[1]), min(int(wanted[2] or len(data)), len(data) - 1)
            headers["Content-Range"] = f"bytes {first}-{last}/{len(data)}"
            data, status = data[first : last + 1], 206
        answer = _Answer(status, data)
        answer.headers |= headers | {"Content-Type": "application/octet-stream"}
        return answer

    # Writing.

    def create(self, *, query, body):
        asked = json.loads(body)
        namespace = asked.get("organization") or "me"
        repo_id = f"{namespace}/{asked['name']}"
        self.may_write(namespace)
        if repo_id in self.hub.repositories:
            raise _Answer(
                409,
                {
                    "error": "You already created this dataset repo",
                    "url": self.hub.url + "/datasets/" + repo_id,
                },
            )
        private = asked.get("visibility") == "private" or bool(asked.get("private"))
        repository = Repository(private=private)
        repository.commit({".gitattributes": GITATTRIBUTES})
        self.hub.repositories[repo_id] = repository
        raise _Answer(200, {"url": f"{self.hub.url}/datasets/{repo_id}", "name": repo_id, "id": repo_id})

    def validate_yaml(self, *, query, body):
        content = json.loads(body)["content"]
        try:
            head = yaml.safe_load(re.match(r"---\n(.*?)\n---", content, re.DOTALL)[1])  # type: ignore[index] - the card has a YAML head, or the test fails here
            errors = [{"message": said} for said in _faults_of_the_card(head)]
        except (yaml.YAMLError, TypeError) as error:
            errors = [{"message": str(error)}]
        raise _Answer(400 if errors else 200, {"errors": errors, "warnings": []})

    def preupload(self, repo_id, revision, *, query, body):
        repository = self.writable(repo_id)
        present = repository.commits[repository.main]
        files = []
        for asked in json.loads(body)["files"]:
            path = asked["path"]
            large = path.endswith(LFS_ENDINGS)
            oid = None
            if path in present:
                data = present[path]
                oid = hashlib.sha256(data).hexdigest() if large else _blob_id(path, data)
            files.append(
                {
                    "path": path,
                    "uploadMode": "lfs" if large else "regular",
                    "shouldIgnore": False,
                    **({"oid": oid} if oid else {}),
                }
            )
        raise _Answer(200, {"files": files, "commitOid": repository.main})

    def lfs_batch(self, repo_id, *, query, body):
        self.writable(repo_id)
        objects = []
        for asked in json.loads(body)["objects"]:
            entry = {"oid": asked["oid"], "size": asked["size"]}
            if asked["oid"] not in self.hub.lfs:
                entry["actions"] = {
                    "upload": {"href": f"{self.hub.storage_url}/lfs/{asked['oid']}", "header": {}},
                    "verify": {"href": f"{self.hub.url}/lfs-verify/{repo_id}", "header": {}},
                }
            objects.append(entry)
        raise _Answer(200, {"transfer": "basic", "objects": objects})

    def lfs_put(self, oid, *, query, body):
        self.no_token()
        if hashlib.sha256(body).hexdigest() != oid:
            raise _refusal(400, "the object's sha256 is not its oid")
        self.hub.lfs[oid] = body
        raise _Answer(200, b"")

    def lfs_verify(self, repo_id, *, query, body):
        asked = json.loads(body)
        held = self.hub.lfs.get(asked["oid"])
        if held is None or len(held) != asked["size"]:
            raise _refusal(404, "the object has not arrived")
        raise _Answer(200, {"message": "ok"})

    def commit(self, repo_id, revision, *, query, body):
        repository = self.writable(repo_id)
        if revision != "main":
            raise _refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        files = dict(repository.commits[repository.main])
        for line in body.splitlines():
            item = json.loads(line)
            key, value = item["key"], item["value"]
            if key == "header":
                if value.get("parentCommit") not in (None, repository.main):
                    raise _refusal(412, "A commit has happened since. Please refresh and try again.")
            elif key == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif key == "lfsFile":
                if value["oid"] not in self.hub.lfs:
                    raise _refusal(400, f"LFS object {value['oid']} of {value['path']} was never uploaded")
                files[value["path"]] = self.hub.lfs[value["oid"]]
            elif key == "deletedFile":
                if files.pop(value["path"], None) is None:
                    raise _refusal(404, "A file with this name doesn't exist", "EntryNotFound")
            else:
                raise _refusal(400, f"the stand-in does not know the operation {key}")
        oid = repository.commit(files)
        raise _Answer(
            200,
            {
                "success": True,
                "commitOid": oid,
                "commitUrl": f"{self.hub.url}/datasets/{repo_id}/commit/{oid}",
                "hookOutput": "",
            },
        )

    def tag(self, repo_id, revision, *, query, body):
        repository = self.writable(repo_id)
        oid = repository.resolve(revision)
        if oid is None:
            raise _refusal(404, f"Invalid rev id: {revision}", "RevisionNotFound")
        name = json.loads(body)["tag"]
        if name in repository.tags:
            raise _refusal(409, f"Tag reference exists already: {name}")
        repository.tags[name] = oid
        raise _Answer(200, {"ref": f"refs/tags/{name}"})


_ID = r"([\w.-]+/[\w.-]+)"
_ROUTES = (
    (r"POST /api/repos/create", "create"),
    (r"POST /api/validate-yaml", "validate_yaml"),
    (rf"POST /api/datasets/{_ID}/preupload/(.+)", "preupload"),
    (rf"POST /api/datasets/{_ID}/commit/(.+)", "commit"),
    (rf"POST /api/datasets/{_ID}/tag/(.+)", "tag"),
    (rf"POST /api/datasets/{_ID}/paths-info/(.+)", "paths_info"),
    (rf"POST /datasets/{_ID}\.git/info/lfs/objects/batch", "lfs_batch"),
    (rf"POST /lfs-verify/{_ID}", "lfs_verify"),
    (r"PUT /lfs/([0-9a-f]{64})", "lfs_put"),
    (r"(?:GET|HEAD) /signed/([0-9a-f]{64})", "signed"),
    (rf"GET /api/datasets/{_ID}/refs", "refs"),
    (rf"GET /api/datasets/{_ID}/tree/([^/]+)(/.*)?", "tree"),
    (rf"GET /api/datasets/{_ID}(?:/revision/(.+))?", "info"),
    (rf"(?:GET|HEAD) /datasets/{_ID}/resolve/([^/]+)/(.+)", "file"),
)


def _faults_of_the_card(head: object) -> list[str]:
    """Return what the Hub's specification of a card's YAML forbids, as far as it concerns this one."""
    if not isinstance(head, dict):
        return ["the YAML is no mapping"]
    faults = []
    if not re.fullmatch(r"[a-z0-9.+-]+", str(head.get("license_name", "none"))):
        faults.append('"license_name" must be an id')
    if not re.fullmatch(r"LICENSE(\.md)?|https://.+", str(head.get("license_link", "LICENSE"))):
        faults.append('"license_link" must be LICENSE, LICENSE.md or an address')
    if not all(
        re.fullmatch(r"n<1K|\d+[KMB]<n<\d+[KMB]|n>1T", size) for size in head.get("size_categories", ())
    ):
        faults.append('"size_categories" must be of the list')
    return faults


def _blob_id(path: str, data: bytes) -> str:
    """Return git's id of a blob; of the pointer for a large file."""
    if path.endswith(LFS_ENDINGS):
        sha256 = hashlib.sha256(data).hexdigest()
        data = f"version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {len(data)}\n".encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _lfs(data: bytes) -> dict:
    sha256 = hashlib.sha256(data).hexdigest()
    return {"oid": sha256, "sha256": sha256, "size": len(data), "pointerSize": 130}


def _entries(files: dict[str, bytes]) -> dict[str, dict]:
    """Return files and folders as the tree endpoint describes them."""
    entries: dict[str, dict] = {}
    for path, data in sorted(files.items()):
        parts = path.split("/")[:-1]
        for depth in range(1, len(parts) + 1):
            folder = "/".join(parts[:depth])
            entries[folder] = {
                "type": "directory",
                "oid": hashlib.sha1(folder.encode()).hexdigest(),
                "size": 0,
                "path": folder,
            }
        entry = {"type": "file", "oid": _blob_id(path, data), "size": len(data), "path": path}
        if path.endswith(LFS_ENDINGS):
            entry["lfs"] = _lfs(data)
        entries[path] = entry
    return entries
