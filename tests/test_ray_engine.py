"""A real Ray cluster of two workers on this machine, a process of its own each time."""

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from test_catalogue import BUILD, children_of, rows, wait_for_chunks

from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.release import build_release
from orbittrace_data.cli import run
from orbittrace_data.errors import FailedError, InputError

DAYS = 60


def descendants(pid: int) -> list[int]:
    children = children_of(pid)
    return children + [one for child in children for one in descendants(child)]


def workers_of(pid: int) -> list[int]:
    """Return the processes of a cluster that are building a chunk now."""
    found = []
    for one in descendants(pid):
        try:
            title = Path(f"/proc/{one}/cmdline").read_bytes()
        except OSError:
            continue
        if title.startswith(b"ray::build_chunk"):
            found.append(one)
    return found


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_ray_gives_the_same_rows_though_a_worker_is_killed(tmp_path):
    pytest.importorskip("ray", reason="needs the extra ray")
    build_release(make_recipe(everything=True, days=DAYS)[0], tmp_path / "local")
    command = [sys.executable, "-c", BUILD.format(days=DAYS), "build", "--all", "--days", str(DAYS)]
    command += ["--engine", "ray", "--workers", "2", "--out", str(tmp_path / "ray")]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    wait_for_chunks(tmp_path / "ray", 3, process)
    killed = None
    while killed is None and process.poll() is None:
        for one in workers_of(process.pid)[:1]:
            os.kill(one, signal.SIGKILL)
            killed = one
    text = process.communicate()[1]
    assert process.returncode == 0, text
    assert killed is not None
    assert rows(tmp_path / "ray") == rows(tmp_path / "local")


DEADLY = """
import os
from dataclasses import asdict, replace
from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.ray_engine import run_on_ray
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.shards import Shards, chunks_of

class Deadly(ElementSet):
    def __reduce__(self):
        return os._exit, (9,)

(chunk,) = chunks_of(make_recipe(catalog=(25544, 41866), days=2)[0])
worse = (Deadly(**asdict(chunk.element_sets[0])), chunk.element_sets[1])
chunks = [replace(chunk, index=i, element_sets=worse if i == 1 else chunk.element_sets) for i in range(4)]
for result in run_on_ray(chunks, 2):
    print(result.index if isinstance(result, Shards) else result)
"""


def test_a_chunk_that_kills_its_worker_on_ray_is_reported_and_the_others_are_built():
    pytest.importorskip("ray", reason="needs the extra ray")
    text = subprocess.run([sys.executable, "-c", DEADLY], capture_output=True, text=True, check=True).stdout
    lines = text.split("\n")
    assert {"0", "2", "3"} <= set(lines)
    assert sum(line.startswith("chunk 1 (satellites 25544 to 41866): ") for line in lines) == 1


def test_without_ray_its_extra_is_named(monkeypatch, tmp_path, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    command = [
        "build",
        "--catalog",
        "25544",
        "--days",
        "1",
        "--engine",
        "ray",
        "--out",
        str(tmp_path / "out"),
    ]
    assert run(command) == InputError.exit_code
    assert "pip install 'orbittrace-data[ray]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_cluster_that_is_not_there_is_said(tmp_path, capsys):
    pytest.importorskip("ray", reason="needs the extra ray")
    command = ["build", "--catalog", "25544", "--days", "1", "--out", str(tmp_path / "out")]
    assert run([*command, "--engine", "ray", "--address", "127.0.0.1:9"]) == FailedError.exit_code
    assert "there is no Ray cluster at 127.0.0.1:9 (" in capsys.readouterr().err


def test_a_cluster_that_asks_for_a_token_is_hinted_at(tmp_path, capsys, monkeypatch):
    ray = pytest.importorskip("ray", reason="needs the extra ray")

    def refuse(*arguments, **options):
        raise ConnectionError("Failed to connect to Ray cluster")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    command = [
        "build",
        "--catalog",
        "25544",
        "--days",
        "1",
        "--out",
        str(tmp_path / "out"),
        "--engine",
        "ray",
    ]
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        assert run([*command, "--address", address]) == FailedError.exit_code
        text = capsys.readouterr().err
        assert f"Ray cannot be joined at {address} (a cluster that asks for a token" in text
        assert "RAY_AUTH_MODE=token" in text
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        assert run([*command, "--address", address]) == FailedError.exit_code
        assert "RAY_AUTH_MODE" not in capsys.readouterr().err
