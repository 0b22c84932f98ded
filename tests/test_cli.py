import os
import subprocess
import sys
from pathlib import Path

import pytest

from orbittrace_data import load_traces
from orbittrace_data.cli import run

ROOT = Path(__file__).parents[1]


def test_help_names_every_command(capsys):
    assert run(["--help"]) == 0
    text = capsys.readouterr().out
    for group, commands in {
        "Traces": ("list", "show", "export"),
        "Releases": ("build", "verify", "diff", "publish", "versions"),
        "Element sets": ("fetch", "freeze", "windows", "forecast"),
        "Training": ("train", "compare", "advise"),
        "Measuring": ("bench",),
    }.items():
        panel = text[text.index(f"─ {group} ─") :]
        panel = panel[: panel.index("╰")]
        for command in commands:
            assert f"│ {command} " in panel


def test_help_is_shown_as_written(capsys):
    """Rich takes ``[s]`` for its markup and shows nothing."""
    import typer
    from rich.text import Text

    from orbittrace_data.cli.app import app

    run(["--help"])
    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined] - a group of commands
    texts = [
        one.help or "" for command in commands for one in (command, *command.params) if hasattr(one, "help")
    ]
    assert len(texts) > 100
    assert [text for text in texts if Text.from_markup(text).plain != text] == []


def test_a_list_of_nothing_names_the_release(capsys):
    assert run(["list", "--regime", "heo"]) == 0
    assert capsys.readouterr().out.endswith("0 traces, data version 1.1.0\n")


def test_list_prints_all_fifty(capsys):
    assert run(["list"]) == 0
    text = capsys.readouterr().out
    for trace in load_traces():
        assert trace.trace_id in text
    assert "50 traces, data version 1.1.0" in text


def test_show_draws_a_day(capsys):
    assert run(["show", "leo-25544"]) == 0
    text = capsys.readouterr().out
    assert "ISS (ZARYA)" in text
    assert len([line for line in text.splitlines() if " h |" in line]) == 6


def test_show_writes_a_picture(tmp_path, capsys):
    path = tmp_path / "iss.png"
    assert run(["show", "leo-25544", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")


def test_export_then_load_dataset_by_its_bare_name(tmp_path, monkeypatch, capsys):
    import datasets

    monkeypatch.chdir(tmp_path)
    assert run(["export"]) == 0
    rows = datasets.load_dataset("orbittrace", split="test", cache_dir=str(tmp_path / "cache"))
    assert rows["trace_id"] == [t.trace_id for t in load_traces(split="test")]
    assert run(["export"]) == 0
    assert "orbittrace holds it already" in capsys.readouterr().out
    (tmp_path / "orbittrace" / "manifest.json").write_text("{}")
    assert run(["export"]) == 2
    assert "exists already" in capsys.readouterr().err


def test_verify_says_what_holds(capsys):
    assert run(["verify"]) == 0
    assert "rebuilt from snapshot 2024-09-22 without a difference" in capsys.readouterr().out


def test_diff_of_a_release_with_itself_finds_nothing(capsys):
    assert run(["diff", "bundled", "bundled"]) == 0
    rows = [
        line.split()
        for line in capsys.readouterr().out.splitlines()
        if line.startswith(("leo-", "meo-", "geo-"))
    ]
    assert len(rows) == 50
    assert all(row[5:7] == ["0", "0"] and row[-2:] == ["0.000", "s"] for row in rows)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["show", "leo-1"], "there is no trace 'leo-1'"),
        (["show", "leo-25544", "--day", "14"], "has the days 0 to 13, got --day 14"),
        (["show", "leo-25544", "--plot", "x.bmp"], "written as .png, .svg or .pdf"),
        (["show", "leo-25544", "--plot", "no/such/x.png"], "does not exist: make it first"),
        (["list", "--split", "train"], "split must be one of dev, test"),
        (["list", "--source", "nowhere"], "neither a folder here nor a Hub dataset"),
        (["build", "--days", "-1"], "days must be more than 0"),
        (["build", "--days", "many"], "Invalid value for '--days'"),
        (["build", "--start", "tomorrow"], "is no ISO 8601 time"),
        (["build", "--start", "2024-09-23T00:00:00"], "has no time zone"),
        (["build", "--snapshot", "nowhere"], "there is no snapshot nowhere"),
        (["build", "--min-sunlight", "2"], "min_sunlight must lie in"),
        (["frobnicate"], "No such command"),
        (["show"], "Missing argument"),
        (["verify", "--version", "3.0.0"], "holds data version 1.1.0, not 3.0.0"),
        (["diff", "bundled", "nowhere"], "neither a folder here nor a Hub dataset"),
    ],
)
def test_bad_input_is_one_sentence_and_exit_2(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.out == ""
    assert list(tmp_path.iterdir()) == []


def test_a_failed_check_is_exit_1(tmp_path, capsys):
    assert run(["export", str(tmp_path / "orbittrace")]) == 0
    (tmp_path / "orbittrace" / "README.md").unlink()
    assert run(["verify", str(tmp_path / "orbittrace")]) == 1
    assert "get it again" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command", [["verify"], ["diff", "bundled"], ["list", "--source"]], ids=lambda c: c[0]
)
def test_a_folder_that_is_no_release_is_bad_input(command, tmp_path, capsys):
    assert run([*command, str(tmp_path)]) == 2
    assert "is not an OrbitTrace release" in capsys.readouterr().err


def test_debug_shows_the_traceback():
    command = [sys.executable, "-m", "orbittrace_data", "show", "leo-1", "--debug"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert "Traceback" in result.stderr


def test_a_closed_pipe_is_quiet():
    command = f"{sys.executable} -m orbittrace_data list | head -n 1"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert result.stderr == ""
    assert result.stdout.startswith("trace")


@pytest.mark.parametrize(
    "arguments",
    [
        ["build", "--days", "1", "--out", "/dev/null/x"],
        ["export", "/dev/null/x"],
        ["export", "/"],
        ["build", "--start", "9999-12-31"],
        ["show", "leo-25544", "--plot", "/dev/null/x.png"],
    ],
)
def test_a_place_or_date_that_cannot_be_is_one_sentence_and_exit_2(arguments, capsys):
    assert run(arguments) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a device that is always full")
def test_a_full_device_is_one_sentence_and_exit_1():
    command = f"{sys.executable} -m orbittrace_data list > /dev/full"
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("orbittrace: the system refused (No space left on device)")
    assert "Traceback" not in result.stderr


def test_a_terminal_without_block_characters_shows_the_day_all_the_same():
    command = [sys.executable, "-m", "orbittrace_data", "show", "leo-25544"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    result = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert "  0 h |" in result.stdout


def shell(script, tmp_path, **environment):
    """Run a line of shell in a fresh folder; ``$O`` is the command."""
    python = f"{sys.executable} -m orbittrace_data"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", script.replace("$O", python)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ["PYTHONPATH"]])} | environment,
    )


@pytest.mark.parametrize("closed", ["list >&-", "show leo-25544 >&-", "export e >&-", "export e 2>&-"])
def test_a_closed_stream_stops_no_work(closed, tmp_path):
    done = shell(f"$O {closed}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "e").is_dir() == ("export" in closed)


@pytest.mark.parametrize("command", ["show leo-25544", "list", "--help"])
def test_a_reader_that_leaves_is_no_failure(command, tmp_path):
    done = shell(f"$O {command} | head -c1", tmp_path)
    assert done.returncode == 0
    assert done.stderr == ""


def test_arguments_that_are_no_text_are_refused(tmp_path):
    done = shell("$O export $'e\\xff'", tmp_path)
    assert done.returncode == 2
    assert done.stderr == "orbittrace: b'e\\xff' is not UTF-8 text: rename it, or use a UTF-8 locale\n"
    assert list(tmp_path.iterdir()) == []
