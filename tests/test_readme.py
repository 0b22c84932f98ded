import re
from pathlib import Path

import pytest

from orbittrace_data import load_trace, resolve_trace
from orbittrace_data.builders.readme import PICTURES, generated_blocks, replace_blocks
from orbittrace_data.cli import run

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_what_it_states_in_figures_is_what_the_package_gives():
    assert replace_blocks(README, generated_blocks()) == README


def test_every_generated_block_has_its_place():
    assert set(re.findall(r"<!-- generated: (\w+) -->", README)) == set(generated_blocks())


def test_its_pictures_and_links_exist():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target


def test_its_python_example_runs():
    code = re.search(
        r"```python\n(from orbittrace_data import load_trace, load_traces\n.*?)```", README, re.DOTALL
    )
    assert code is not None
    names: dict = {}
    exec(code.group(1), names)
    assert len(names["traces"]) == 50
    assert names["iss"] == load_trace("leo-25544")


ENERGY, SCHEDULES, FORECASTS = (
    re.search(rf"^## {title}.*?(?=^## )", README, re.DOTALL | re.MULTILINE).group()
    for title in ("Energy: darkness", "Schedules without an orbit", "Forecasts that miss")
)


def test_each_of_them_has_its_picture_by_the_command_that_it_shows():
    for section, name in zip((ENERGY, SCHEDULES, FORECASTS), PICTURES, strict=True):
        assert f"](docs/{name})" in section
        assert f"orbittrace {PICTURES[name]}" in section


@pytest.mark.parametrize("command", PICTURES.values())
def test_these_commands_run_as_written(command, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert run(command.split()) == 0
    assert next(tmp_path.iterdir()).read_bytes().startswith(b"\x89PNG")
    assert capsys.readouterr().out


@pytest.mark.parametrize("section", [ENERGY, FORECASTS])
def test_their_python_runs(section):
    names: dict = {}
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        exec(code, names)
    assert names.get("trace", names.get("actual")).trace_id.startswith("leo-25544")


def test_each_short_text_names_a_trace(tmp_path, monkeypatch):
    (tmp_path / "spot.json").write_text('{"metadata": {"gap_seconds": 600}, "data": [0, 1, 0]}')
    (tmp_path / "events.csv").write_text("time_s,event\n0,up\n60,down\n90,up\n100,end\n")
    (tmp_path / "telemetry.csv").write_text("start_ms,stop_ms\n10,20\n")
    monkeypatch.chdir(tmp_path)
    rows = re.findall(r"^\| (`[^|]*`) \|", SCHEDULES, re.MULTILINE)
    specs = [spec for row in rows for spec in re.findall(r"`([^`]+)`", row)]
    assert len(specs) >= 8
    assert all(resolve_trace(spec).gap_count for spec in specs)
