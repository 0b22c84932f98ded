import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

import pytest

from orbittrace_data import atomic
from orbittrace_data.errors import FailedError, InputError


def test_a_file_is_replaced_whole_and_leaves_no_sibling(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"old")
    atomic.write_bytes(path, b"new")
    assert path.read_bytes() == b"new"
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_file_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_bytes(b"old")
    with pytest.raises(TypeError):
        atomic.write_bytes(path, "text, not bytes")
    assert path.read_bytes() == b"old"
    assert [p.name for p in tmp_path.iterdir()] == ["notes.txt"]


def test_a_link_is_followed_and_stays(tmp_path):
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("old")
    link.symlink_to("file")
    atomic.write_bytes(link, b"new")
    assert link.is_symlink()
    assert file.read_text() == "new"


def test_a_private_file_stays_private(tmp_path):
    file = tmp_path / "file"
    file.touch(mode=0o600)
    atomic.write_bytes(file, b"new")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_pipe_is_written_to_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    atomic.write_bytes(pipe, b"new")
    assert os.read(reader, 10) == b"new"
    os.close(reader)
    assert pipe.is_fifo()
    assert [p.name for p in tmp_path.iterdir()] == ["pipe"]


def test_a_new_folder_appears_when_the_block_ends(tmp_path):
    target = tmp_path / "deep" / "release"
    with atomic.new_directory(target) as folder:
        (folder / "a").write_text("1")
        assert not target.exists()
    assert (target / "a").read_text() == "1"
    assert [p.name for p in target.parent.iterdir()] == ["release"]


def test_an_error_inside_leaves_nothing(tmp_path):
    def fail_inside():
        with atomic.new_directory(tmp_path / "release") as folder:
            (folder / "a").write_text("1")
            raise RuntimeError("no")

    with pytest.raises(RuntimeError, match="no"):
        fail_inside()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "make", [lambda p: p.write_text("x"), lambda p: (p.mkdir(), (p / "a").write_text("x"))]
)
def test_what_is_there_is_not_overwritten(tmp_path, make):
    target = tmp_path / "release"
    make(target)
    with pytest.raises(InputError, match="exists already"), atomic.new_directory(target):
        pytest.fail("the block must not run")
    assert target.exists()


def test_an_empty_folder_counts_as_absent(tmp_path):
    (tmp_path / "release").mkdir()
    with atomic.new_directory(tmp_path / "release") as folder:
        (folder / "a").write_text("1")
    assert (tmp_path / "release" / "a").exists()


def test_a_dangling_link_is_not_written_through(tmp_path):
    (tmp_path / "release").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(InputError, match="exists already"), atomic.new_directory(tmp_path / "release"):
        pytest.fail("the block must not run")


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_a_folder_is_replaced_whole(tmp_path, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_swap_names", lambda a, b: False)
    target = tmp_path / "release"
    target.mkdir()
    (target / "old").write_text("1")
    with atomic.new_directory(target, replace=True) as folder:
        (folder / "new").write_text("2")
    assert [p.name for p in target.iterdir()] == ["new"]
    assert [p.name for p in tmp_path.iterdir()] == ["release"]


@pytest.fixture
def unprivileged_folder():
    """A folder of a user whom permissions bind, also where the suite runs as root."""
    folder = Path(tempfile.mkdtemp())
    nobody = 65534
    if os.geteuid() == 0:
        os.chown(folder, nobody, nobody)
        os.seteuid(nobody)
    try:
        yield folder
    finally:
        if os.getuid() == 0:
            os.seteuid(0)
        shutil.rmtree(folder)


@pytest.mark.parametrize("exchange", [True, False], ids=["exchange", "two renames"])
def test_a_read_only_folder_is_replaced_whole(unprivileged_folder, monkeypatch, exchange):
    if not exchange:
        monkeypatch.setattr(atomic, "_swap_names", lambda a, b: False)
    target = unprivileged_folder / "release"
    (target / "data").mkdir(parents=True)
    (target / "data" / "old").write_text("1")
    for folder in (target / "data", target):
        folder.chmod(0o555)
    with atomic.new_directory(target, replace=True) as folder:
        (folder / "new").write_text("2")
    assert [p.name for p in target.iterdir()] == ["new"]
    assert [p.name for p in unprivileged_folder.iterdir()] == ["release"]


def test_a_kill_between_the_two_renames_is_finished_by_the_next_command(tmp_path, monkeypatch):
    target = tmp_path / "release"
    target.mkdir()
    (target / "old").write_text("1")
    target.rename(tmp_path / ".release.orbittrace-retired")  # as a kill leaves it
    atomic.recover(target)
    assert (target / "old").read_text() == "1"
    assert [p.name for p in tmp_path.iterdir()] == ["release"]


def test_what_a_killed_process_left_is_removed_and_what_is_being_built_stays(tmp_path):
    killed = tmp_path / ".release.4711.orbittrace-building"
    killed.mkdir()
    theirs = tmp_path / ".release.chunks"
    theirs.mkdir()
    with atomic.new_directory(tmp_path / "release.v2") as other:
        script = textwrap.dedent(
            """
            import sys
            from orbittrace_data.atomic import new_directory
            with new_directory(sys.argv[1]) as folder:
                print("building", flush=True)
                sys.stdin.readline()
            """
        )
        command = [sys.executable, "-c", script, str(tmp_path / "release")]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert process.stdout.readline() == "building\n"
        assert not killed.exists()
        with atomic.new_directory(tmp_path / "release") as folder:
            (folder / "first").touch()
        assert len(list(tmp_path.glob(".release.*.orbittrace-building"))) == 1 + other.match(".release.*")
        process.communicate("\n")
        (other / "second").touch()
    assert process.returncode != 0  # the place was taken meanwhile
    names = {".release.chunks", "release", "release.v2"}
    assert {p.name for p in tmp_path.iterdir()} == names


def test_when_the_second_rename_fails_the_old_folder_is_back(tmp_path, monkeypatch):
    monkeypatch.setattr(atomic, "_swap_names", lambda a, b: False)
    target, new = tmp_path / "release", tmp_path / "new"
    target.mkdir()
    (target / "old").write_text("1")
    with pytest.raises(FailedError, match="the old one is in place"):
        atomic._exchange(new, target)  # `new` does not exist
    assert (target / "old").read_text() == "1"


def test_a_kill_at_any_moment_leaves_the_old_folder_or_the_new_one(tmp_path):
    """A real process, killed with SIGKILL after more and more of its work."""
    script = textwrap.dedent("""
        import sys
        from orbittrace_data.atomic import new_directory
        print("ready", flush=True)
        for number in range(1, 10_000):
            with new_directory(sys.argv[1], replace=True) as folder:
                for name in "abc":
                    (folder / name).write_text(str(number))
            print(number, flush=True)
    """)
    target = tmp_path / "release"
    for rounds in range(1, 9):
        process = subprocess.Popen(
            [sys.executable, "-c", script, str(target)], stdout=subprocess.PIPE, text=True, env=os.environ
        )
        assert process.stdout is not None
        for _ in range(rounds):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        atomic.recover(target)
        if rounds > 1:
            contents = {(target / name).read_text() for name in "abc"}
            assert len(contents) == 1
            assert sorted(p.name for p in target.iterdir()) == ["a", "b", "c"]
