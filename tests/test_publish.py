"""Publishing against the stand-in Hub, with a fault at every request in turn."""

import logging
import multiprocessing
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

import pytest
from standin_hub import GITATTRIBUTES, TOKEN, Fault, Repository, StandInHub

from orbittrace_data.builders.publish import plan_publication, publish_release, release_files
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.release import build_release
from orbittrace_data.cli import run
from orbittrace_data.errors import InputError, OrbitTraceError
from orbittrace_data.hub import HubError, HubUnreachableError
from orbittrace_data.loader import open_release

# huggingface_hub itself uploads with the old keyword of its HTTP client.
pytestmark = pytest.mark.filterwarnings("ignore:Use .content=:DeprecationWarning")
REPO = "sat/orbittrace"


def publish(folder: Path, **options) -> str:
    return publish_release(plan_publication(folder, REPO, **options))


def content(folder: Path) -> dict[str, bytes]:
    """What the Hub shows of a release."""
    _, manifest = open_release(folder)
    files = {name: (folder / name).read_bytes() for name in release_files(folder, manifest)}
    return {**files, ".gitattributes": GITATTRIBUTES}


@pytest.fixture
def no_waiting(monkeypatch):
    """The Hub's client waits up to 8 s between its tries; here it does not."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)


@pytest.fixture
def everything_logged(caplog, monkeypatch):
    """Every logger at its most talkative, the Hub's client too."""
    from huggingface_hub.utils import logging as hub_logging

    monkeypatch.setattr("huggingface_hub.constants.HF_DEBUG", True)
    caplog.set_level(logging.DEBUG)
    before = hub_logging.get_verbosity()
    hub_logging.set_verbosity_debug()
    hub_logging.enable_propagation()
    yield caplog
    hub_logging.set_verbosity(before)
    hub_logging.disable_propagation()


def test_the_first_publication(hub, small_releases):
    plan = plan_publication(small_releases["0.1.0"], REPO)
    assert [(o.action, o.what) for o in plan.operations[:3]] == [
        ("create", f"{REPO} (public)"),
        ("add", "README.md"),
        ("add", "manifest.json"),
    ]
    assert hub.repositories == {}
    oid = publish_release(plan)
    repository = hub.repositories[REPO]
    assert not repository.private
    assert repository.tags == {"v0.1.0": oid}
    assert repository.main == oid
    assert len(repository.commits) == 2  # the empty one of the Hub, and ours
    assert hub.files(REPO, "v0.1.0") == content(small_releases["0.1.0"])


def test_publishing_again_changes_nothing(hub, small_releases):
    oid = publish(small_releases["0.1.0"])
    hub.requests.clear()
    plan = plan_publication(small_releases["0.1.0"], REPO)
    assert plan.published == oid
    assert not plan.new_elements
    assert publish_release(plan) == oid
    assert {method for method, _ in hub.requests} <= {"GET", "HEAD"}


def test_a_new_version_replaces_the_files_of_the_old_one(hub, small_releases):
    publish(small_releases["0.1.0"])
    plan = plan_publication(small_releases["0.2.0"], REPO)
    assert plan.new_elements  # another snapshot: its licence is asked about
    assert ("delete", "data/shadows/test-00000-of-00001.parquet") in [
        (o.action, o.what) for o in plan.operations
    ]
    publish_release(plan)
    assert hub.files(REPO) == content(small_releases["0.2.0"])
    assert hub.files(REPO, "v0.1.0") == content(small_releases["0.1.0"])


def test_only_the_release_is_sent(hub, small_releases, tmp_path):
    folder = shutil.copytree(small_releases["0.1.0"], tmp_path / "release")
    (folder / "private-notes.txt").write_text("not for anybody")
    (folder / ".env").write_text(f"HF_TOKEN={TOKEN}")
    publish(folder)
    assert set(hub.files(REPO)) == set(content(small_releases["0.1.0"]))


def test_a_file_that_somebody_added_stays(hub, small_releases):
    publish(small_releases["0.1.0"])
    repository = hub.repositories[REPO]
    repository.commit({**hub.files(REPO), "LICENSE": b"words"})
    plan = plan_publication(small_releases["0.2.0"], REPO)
    assert ("leave", "LICENSE") in [(o.action, o.what) for o in plan.operations]
    publish_release(plan)
    assert hub.files(REPO)["LICENSE"] == b"words"


def test_private(hub, small_releases):
    publish(small_releases["0.1.0"], private=True)
    assert hub.repositories[REPO].private
    hub.repositories[REPO].private = False
    with pytest.raises(OrbitTraceError, match="is public: make it private"):
        plan_publication(small_releases["0.2.0"], REPO, private=True)


# What is refused, before anything is changed.


def other_rows(target: Path, version: str) -> Path:
    recipe, _ = make_recipe(catalog=(25544,), days=0.25, version=version)
    build_release(recipe, target)
    return target


def test_a_published_version_never_changes(hub, small_releases, tmp_path):
    publish(small_releases["0.1.0"])
    before = hub.files(REPO)
    other = other_rows(tmp_path / "other", "0.1.0")
    with pytest.raises(OrbitTraceError, match=r"has version 0\.1\.0 with other rows: .* a higher version"):
        publish(other)
    hub.repositories[REPO].tags["v0.1.0"] = hub.repositories[REPO].commit(
        {**before, "README.md": before["README.md"] + b"\nedited"}
    )
    with pytest.raises(OrbitTraceError, match=r"the same rows and another README\.md"):
        publish(small_releases["0.1.0"])


def test_an_older_version_does_not_set_main_back(hub, small_releases, tmp_path):
    publish(small_releases["0.2.0"])
    with pytest.raises(OrbitTraceError, match=r"shows version 0\.2\.0 already, 0\.1\.0 would set it back"):
        publish(small_releases["0.1.0"])


def test_a_taken_name(hub, small_releases):
    hub.repositories[REPO] = Repository()
    hub.repositories[REPO].commit({".gitattributes": b"", "thesis.csv": b"1,2"})
    with pytest.raises(
        OrbitTraceError, match="is taken: it holds something that is not an OrbitTrace release"
    ):
        publish(small_releases["0.1.0"])
    assert len(hub.repositories[REPO].commits) == 1


def test_benchmark_and_derived_do_not_mix(hub, small_releases):
    publish(small_releases["0.1.0"])
    from orbittrace_data.loader import BUNDLED

    with pytest.raises(OrbitTraceError, match="holds a derived release and this is a benchmark one"):
        publish(BUNDLED)


@pytest.mark.parametrize("name", ["README.md", "manifest.json", "data/traces/test-00000-of-00001.parquet"])
def test_a_damaged_release_is_not_published(hub, small_releases, tmp_path, name):
    folder = shutil.copytree(small_releases["0.1.0"], tmp_path / "release")
    damaged = bytearray((folder / name).read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (folder / name).write_bytes(damaged)
    with pytest.raises(OrbitTraceError, match="changed"):
        publish(folder)
    assert hub.requests == []


@pytest.mark.parametrize(
    ("folder", "repo", "sentence"),
    [
        ("nowhere", REPO, "nowhere is no folder: build a release"),
        (None, "orbittrace", "has no namespace: write it like namespace/orbittrace"),
        (None, "sat/or bit", "is no id of a dataset"),
        (None, "a/b/c", "is no id of a dataset"),
    ],
)
def test_bad_input(hub, small_releases, folder, repo, sentence):
    with pytest.raises(InputError, match=sentence):
        plan_publication(folder or small_releases["0.1.0"], repo)


# What the Hub may refuse.


def test_no_token(hub, small_releases, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    plan = plan_publication(small_releases["0.1.0"], REPO)
    with pytest.raises(
        InputError, match="publishing needs a token: set HF_TOKEN, or log in with `hf auth login`"
    ):
        publish_release(plan)


def test_a_wrong_token(hub, small_releases, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_somethingElseEntirely")
    with pytest.raises(HubError, match="does not accept the token: log in again"):
        publish(small_releases["0.1.0"])


def test_no_rights(hub, small_releases):
    hub.writers[TOKEN] = {"somebody-else"}
    with pytest.raises(HubError, match=f"the token has no right to write to {REPO}"):
        publish(small_releases["0.1.0"])


def test_no_network(hub, small_releases, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(HubUnreachableError, match="the Hub cannot be reached"):
        publish(small_releases["0.1.0"])


def test_a_race_with_another_commit(hub, small_releases):
    publish(small_releases["0.1.0"])
    before = content(small_releases["0.1.0"])

    def somebody_else(method, path):
        if path.endswith("/commit/main"):
            hub.before = None
            hub.repositories[REPO].commit({**before, "note.txt": b"first"})

    hub.before = somebody_else
    with pytest.raises(HubError, match=r"another commit reached .* meanwhile, nothing was published"):
        publish(small_releases["0.2.0"])
    assert set(hub.repositories[REPO].tags) == {"v0.1.0"}
    publish(small_releases["0.2.0"])
    assert hub.files(REPO, "v0.2.0")["note.txt"] == b"first"


def test_a_file_that_arrives_changed_is_noticed(hub, small_releases):
    def corrupt(method, path):
        if path.endswith("/revision/v0.1.0"):
            repository = hub.repositories[REPO]
            tree = repository.commits[repository.main]
            tree["data/traces/test-00000-of-00001.parquet"] = b"PAR1 something else"

    hub.before = corrupt
    with pytest.raises(OrbitTraceError, match="is not the file that was sent: remove that tag"):
        publish(small_releases["0.1.0"])


# A fault at each request in turn.


@dataclass
class Scene:
    """A Hub that shows 0.1.0 (or nothing yet), and what it may show once 0.2.0 is being published."""

    hub: StandInHub
    new: Path
    old_files: dict[str, bytes]

    def restore(self, saved: dict[str, Repository]) -> None:
        self.hub.repositories.clear()
        self.hub.lfs.clear()
        for name, repository in saved.items():
            self.hub.repositories[name] = Repository(
                repository.private, dict(repository.commits), repository.main, dict(repository.tags)
            )

    def check_whole(self) -> None:
        """The Hub shows the old release or the new one, and each tag names a whole one."""
        new_files = content(self.new)
        empty = {".gitattributes": GITATTRIBUTES}
        assert self.hub.files(REPO) in ({}, empty, self.old_files, new_files)
        repository = self.hub.repositories.get(REPO, Repository())
        assert set(repository.tags) <= {"v0.1.0", "v0.2.0"}
        for tag in repository.tags:
            assert self.hub.files(REPO, tag) == (new_files if tag == "v0.2.0" else self.old_files)


def failure(folder: Path) -> OrbitTraceError | None:
    try:
        publish(folder)
    except OrbitTraceError as error:
        return error
    return None


@pytest.fixture
def scene(request, hub, small_releases) -> Scene:
    if request.param == "update":
        publish(small_releases["0.1.0"])
    return Scene(hub, small_releases["0.2.0"], content(small_releases["0.1.0"]))


@pytest.mark.parametrize(
    ("scene", "options"),
    [
        ("first", {"status": 500}),
        ("first", {"status": 403}),
        ("first", {"status": None}),
        ("first", {"status": None, "after": True}),
        ("update", {"status": None, "after": True}),
    ],
    ids=[
        "first, server error",
        "first, forbidden",
        "first, cut before",
        "first, cut after",
        "update, cut after",
    ],
    indirect=["scene"],
)
def test_after_a_fault_at_any_request_running_again_finishes(scene, options, no_waiting, everything_logged):
    hub, saved = scene.hub, dict(scene.hub.repositories)
    at, told = 0, set()
    while True:
        at += 1
        scene.restore(saved)
        fault = Fault(at, message=f"echo of Authorization: Bearer {TOKEN}", **options)
        with hub.failing(fault):
            error = failure(scene.new)
        if error is not None:
            told.add(str(error))
            assert "\n" not in str(error)
            assert TOKEN not in str(error)
            assert error.__cause__ is None  # a cause may quote what the server said
            assert error.__suppress_context__
        if fault.hit is None:
            assert error is None
            break
        scene.check_whole()
        publish(scene.new)
        assert hub.files(REPO) == hub.files(REPO, "v0.2.0") == content(scene.new)
    assert at > 20, "the fault never reached the reading back"
    assert told
    assert "Send: curl" in everything_logged.text  # the Hub's client logs whole requests when it is asked to
    assert TOKEN not in everything_logged.text


@pytest.mark.parametrize("scene", ["update"], indirect=True)
def test_after_a_kill_at_any_request_running_again_finishes(scene):
    """SIGKILL once the request took effect and before its answer comes; a cut covers the time before."""
    hub, saved = scene.hub, dict(scene.hub.repositories)
    processes = multiprocessing.get_context("forkserver")
    # Imported once; each child is a fork of that, and runs the command line.
    processes.set_forkserver_preload(
        [
            "typer.core",
            "typer.main",
            "orbittrace_data.cli.traces",
            "orbittrace_data.cli.publish",
            "orbittrace_data.builders.publish",
            "pyarrow.parquet",
            "huggingface_hub.hf_api",
            "huggingface_hub._snapshot_download",
        ]
    )
    command = ["publish", str(scene.new), "--repo", REPO, "--yes"]
    at = 0
    while True:
        at += 1
        scene.restore(saved)
        child = processes.Process(target=run, args=(command,))

        def kill(child=child):
            while child.pid is None:
                time.sleep(0.001)
            os.kill(child.pid, signal.SIGKILL)

        fault = Fault(at, after=True, act=kill)
        with hub.failing(fault):
            child.start()
            child.join()
        if fault.hit is None:
            assert child.exitcode == 0
            break
        assert child.exitcode == -signal.SIGKILL
        scene.check_whole()
        publish(scene.new)
        assert hub.files(REPO) == hub.files(REPO, "v0.2.0") == content(scene.new)
    assert at > 20


# The command line.


def test_dry_run_lists_operations_and_sizes(hub, small_releases, capsys):
    folder = small_releases["0.1.0"]
    assert run(["publish", str(folder), "--repo", REPO, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    size = (folder / "manifest.json").stat().st_size
    assert f"create  {REPO} (public)" in shown
    assert any(line.split() == ["add", "manifest.json", f"{size:,}", "bytes"] for line in shown.splitlines())
    assert "tag     v0.1.0" in shown
    assert hub.repositories == {}
    publish(folder)
    assert run(["publish", str(folder), "--repo", REPO, "--dry-run"]) == 0
    assert "v0.1.0 is published already" in capsys.readouterr().out


@pytest.mark.parametrize("way", ["switched off", "unreachable"])
def test_a_dry_run_without_the_hub_lists_everything_and_says_so(
    hub, small_releases, capsys, monkeypatch, go_offline, way
):
    folder = small_releases["0.1.0"]
    if way == "switched off":
        go_offline()
    else:
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert run(["publish", str(folder), "--repo", REPO, "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert [line.split()[:2] for line in captured.out.splitlines()[:-1]] == [
        *(["add", name] for name in release_files(*open_release(folder))),
        ["tag", "v0.1.0"],
    ]
    assert "bytes would be sent" in captured.out
    assert "not compared with the Hub, as if nothing were published yet: the Hub " in captured.err
    plan = plan_publication(folder, REPO, need_hub=False)
    with pytest.raises(HubUnreachableError):
        publish_release(plan)


def orbittrace(*arguments: object, **environment: str) -> subprocess.Popen:
    """The command as a process, in which nobody has switched hf_xet off."""
    own = {k: v for k, v in os.environ.items() if k != "HF_HUB_DISABLE_XET"}
    return subprocess.Popen(
        [sys.executable, "-m", "orbittrace_data", *map(str, arguments)],
        env=own | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def test_the_command_sends_over_http_also_where_hf_xet_is_installed(hub, small_releases):
    command = ("publish", small_releases["0.1.0"], "--repo", REPO, "--yes")
    process = orbittrace(*command, HF_DEBUG="1", HF_HUB_VERBOSITY="debug")
    said = process.communicate()[0]
    assert process.returncode == 0, said
    assert hub.files(REPO, "v0.1.0") == content(small_releases["0.1.0"])
    assert not [path for _, path in hub.requests if "xet" in path]
    assert TOKEN not in said


def test_ctrl_c_says_that_running_again_finishes(hub, small_releases):
    command = ("publish", small_releases["0.1.0"], "--repo", REPO, "--yes")
    reached = threading.Event()

    def arrive(method, path):
        if path.endswith("/commit/main"):
            hub.before = None
            reached.set()
            time.sleep(0.5)

    hub.before = arrive
    process = orbittrace(*command)
    assert reached.wait(60)
    process.send_signal(signal.SIGINT)
    said = process.communicate()[0]
    assert process.returncode == 130
    assert "interrupted: run the same command again, and it finishes\n" in said, said
    assert hub.repositories[REPO].tags == {}
    publish(small_releases["0.1.0"])
    assert hub.files(REPO, "v0.1.0") == content(small_releases["0.1.0"])


def test_element_sets_are_published_only_after_a_yes(hub, small_releases, capsys, monkeypatch):
    command = ["publish", str(small_releases["0.1.0"]), "--repo", REPO]
    assert run(command) == 2  # nobody is there to ask
    said = capsys.readouterr().err
    assert "Licence notice: Public notes quote Space-Track's user agreement" in said
    assert "publishing element sets needs a yes to the licence notice: give --yes" in said
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    answers = iter(["n", "y"])
    monkeypatch.setattr("typer.confirm", lambda *args, **options: next(answers) == "y")
    assert run(command) == 1
    assert hub.repositories == {}
    assert run(command) == 0
    out = capsys.readouterr().out
    assert f"v0.1.0 of {REPO} is published at commit" in out
    assert "every digest compared" in out


def test_yes_is_for_scripts_and_a_known_snapshot_is_not_asked_about(hub, small_releases, tmp_path, capsys):
    assert run(["publish", str(small_releases["0.1.0"]), "--repo", REPO, "--yes"]) == 0
    later = other_rows(tmp_path / "later", "0.3.0")
    assert run(["publish", str(later), "--repo", REPO]) == 0


@pytest.mark.parametrize("debug", [False, True])
def test_a_failure_shows_a_sentence_and_never_the_token(hub, small_releases, capsys, debug, no_waiting):
    command = [
        "publish",
        str(small_releases["0.1.0"]),
        "--repo",
        REPO,
        "--yes",
        *(["--debug"] if debug else []),
    ]
    with hub.failing(Fault(2, status=400, message=f"you sent Bearer {TOKEN}, \n which is odd")):
        if debug:
            with pytest.raises(HubError) as raised:
                run(command)
            shown = "".join(traceback.format_exception(raised.value))
        else:
            assert run(command) == 1
            shown = capsys.readouterr().err.splitlines()[-1]
            assert shown.startswith("orbittrace: the Hub refused (400) while making sat/orbittrace: ")
    assert "Bearer <token>" in shown
    assert TOKEN not in shown
    captured = capsys.readouterr()
    assert TOKEN not in captured.out + captured.err
