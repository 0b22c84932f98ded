"""``orbittrace windows``: a file or a number in, windows and gaps out."""

import csv
import io
import json
import os
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from celestrak_server import SATELLITES, CelesTrak
from gp_samples import ANALYST, ISS, NOMINAL, TLE, csv_text, kvn_text

from orbittrace_data import builders
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.satellite_trace import trace_from_elements
from orbittrace_data.builders.shadow import ShadowModel
from orbittrace_data.cli import run

# Drag that brings it down within days.
FALLING = ISS | {"NORAD_CAT_ID": "99999", "OBJECT_NAME": "FALLING", "BSTAR": ".9", "MEAN_MOTION": "16.4"}


@pytest.fixture
def iss(tmp_path):
    path = tmp_path / "iss.tle"
    path.write_text(TLE)
    return str(path)


def output(capsys, *arguments: str) -> str:
    code = run(["windows", *arguments])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_rows_are_those_of_the_trace(iss, capsys):
    (elements,) = read_element_sets(iss).element_sets
    trace = trace_from_elements(elements, days=2)
    printed = rows(output(capsys, iss, "--days", "2", "--csv"))
    for available, expected in (("true", trace.windows), ("false", trace.gaps)):
        got = [(int(r["start_ms"]), int(r["stop_ms"])) for r in printed if r["available"] == available]
        np.testing.assert_array_equal(got, expected)
    assert printed[0]["start"] == "2024-09-23T00:00:00.000Z"
    assert {r["trace_id"] for r in printed} == {"leo-25544"}
    assert [int(r["stop_ms"]) for r in printed[:-1]] == [int(r["start_ms"]) for r in printed[1:]]


def test_every_form_says_the_same(iss, capsys):
    options = (iss, "--days", "1.5", "--start", "2024-09-24T06:00:00+02:00", "--min-sunlight", "0.9")
    printed = rows(output(capsys, *options, "--csv"))
    whole = json.loads(output(capsys, *options, "--json"))
    (satellite,) = whole["satellites"]
    assert whole["start"] == "2024-09-24T04:00:00.000Z"
    assert whole["span_ms"] == 129_600_000
    assert whole["model"]["min_sunlight"] == 0.9
    assert satellite["catalog_number"] == 25544
    gaps = [[int(r["start_ms"]), int(r["stop_ms"])] for r in printed if r["available"] == "false"]
    assert satellite["gaps_ms"] == gaps
    calendar = output(capsys, *options, "--ical")
    assert calendar.count("CATEGORIES:GAP\r\n") == len(gaps)
    table = output(capsys, *options).splitlines()
    assert table[0].startswith("ISS (ZARYA) (leo-25544, elements of 2024-09-22 09:33): ")
    assert sum(line.startswith("gap ") for line in table) == len(gaps)
    (elements,) = read_element_sets(iss).element_sets
    start = datetime(2024, 9, 24, 4, tzinfo=UTC)
    assert trace_from_elements(elements, start, 1.5, ShadowModel(min_sunlight=0.9)).gaps.tolist() == gaps


def test_a_narrow_terminal_cuts_nothing(iss, capsys, monkeypatch):
    wide = output(capsys, iss, "--days", "1")
    monkeypatch.setenv("COLUMNS", "40")
    assert output(capsys, iss, "--days", "1") == wide
    assert " 2024-09-23 00:00:00.0  " in wide


def test_the_output_is_the_same_every_time(iss, capsys):
    for form in ("--csv", "--json", "--ical"):
        assert output(capsys, iss, "--days", "1", form) == output(capsys, iss, "--days", "1", form)


def test_a_nine_digit_object_works(tmp_path, capsys):
    path = tmp_path / "nominal.csv"
    path.write_text(csv_text(NOMINAL))
    printed = rows(output(capsys, str(path), "--days", "1", "--csv"))
    assert {(r["trace_id"], r["catalog_number"], r["name"]) for r in printed} == {
        ("leo-799501621", "799501621", "STARLINK G10")
    }
    assert len(printed) > 20


def test_all_satellites_of_a_file_or_those_that_are_chosen(tmp_path, capsys):
    path = tmp_path / "several.kvn"
    path.write_text(kvn_text(ISS, NOMINAL, ANALYST))
    everything = json.loads(output(capsys, str(path), "--days", "1", "--json"))
    assert [s["catalog_number"] for s in everything["satellites"]] == [25544, 799501621, 270449]
    chosen = ("--catalog", "270449", "--catalog", "25544")
    some = json.loads(output(capsys, str(path), "--days", "1", "--json", *chosen))
    assert some["satellites"] == [everything["satellites"][0], everything["satellites"][2]]
    assert run(["windows", str(path), "--catalog", "5"]) == 2
    assert "there is no element set of 5 among the 3" in capsys.readouterr().err


def test_a_snapshot_and_standard_input_are_read(iss, tmp_path, capsys, monkeypatch):
    facts = ["--source", "a", "--retrieved", "2024-09-22", "--licence-notice", "b", "--citation", "c"]
    assert run(["freeze", iss, "--out", str(tmp_path / "snapshot"), *facts]) == 0
    capsys.readouterr()
    expected = output(capsys, iss, "--days", "1", "--csv")
    assert output(capsys, str(tmp_path / "snapshot"), "--days", "1", "--csv") == expected
    with open(iss) as file:  # noqa: PTH123 - stands in for standard input
        monkeypatch.setattr("sys.stdin", file)
        assert output(capsys, "-", "--days", "1", "--csv") == expected


def test_a_number_is_fetched_and_starts_now(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("ORBITTRACE_CACHE", str(tmp_path))
    earlier = (datetime.now(UTC) - timedelta(days=20)).strftime("%Y-%m-%dT%H:%M:%S")
    monkeypatch.setitem(SATELLITES, "25544", ISS | {"EPOCH": earlier})
    server = CelesTrak()
    try:
        before = datetime.now(UTC)
        assert run(["windows", "25544", "--days", "0.5", "--json", "--url", server.url]) == 0
        said = capsys.readouterr()
        start = datetime.fromisoformat(json.loads(said.out)["start"])
        assert timedelta(seconds=-1) < start - before < timedelta(minutes=5)
        assert start.microsecond == 0
        assert (
            "the elements of ISS (ZARYA) are 20 days from the start: their contacts may be minutes off"
            in said.err
        )
        assert run(["windows", "25544", "--days", "0.5", "--url", server.url]) == 0
        assert "note: this is the answer of " in capsys.readouterr().err
        assert len(server.asked) == 1
        assert run(["windows", "99999", "--url", server.url]) == 1
        assert 'said (404): "No GP data found"' in capsys.readouterr().err
    finally:
        server.close()


def test_a_satellite_that_falls_is_left_out_and_named(tmp_path, capsys):
    path = tmp_path / "falling.csv"
    path.write_text(csv_text(FALLING, ISS))
    assert run(["windows", str(path), "--json"]) == 0
    said = capsys.readouterr()
    assert [s["catalog_number"] for s in json.loads(said.out)["satellites"]] == [25544]
    assert "note: satellite 99999 (FALLING) is known for " in said.err
    path.write_text(csv_text(FALLING))
    assert run(["windows", str(path), "--json"]) == 1
    assert capsys.readouterr().err.startswith("orbittrace: satellite 99999 (FALLING) is known for ")


def test_bad_records_are_told_and_the_good_ones_used(tmp_path, capsys):
    path = tmp_path / "mixed.csv"
    path.write_text(csv_text(ISS, NOMINAL | {"INCLINATION": "200"}))
    assert run(["windows", str(path), "--days", "1", "--json"]) == 0
    said = capsys.readouterr()
    assert len(json.loads(said.out)["satellites"]) == 1
    assert "note: line 3, record 799501621, INCLINATION: 200.0 degrees is outside 0 to 180" in said.err
    path.write_text(csv_text(NOMINAL | {"INCLINATION": "200"}))
    assert run(["windows", str(path)]) == 2
    assert "holds no good record: line 2, record 799501621, INCLINATION" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--csv", "--json"], "choose one of --csv, --json and --ical"),
        (["--days", "0"], "days must be more than 0 and at most 366"),
        (["--min-sunlight", "0"], "min_sunlight must lie in (0, 1]"),
        (["--start", "tomorrow"], "is no ISO 8601 time"),
        (["--start", "2024-09-24T06:00:00"], "has no time zone"),
        (
            ["--start", "2100-01-01"],
            "7 days from 2100-01-01T00:00:00Z do not lie within 1957-01-01 and 2099-12-31",
        ),
        (["--start", "0001-01-01"], "7 days from 0001-01-01T00:00:00Z do not lie within"),
        (["--start", "9999-12-20"], "choose another start or fewer days"),
    ],
)
def test_bad_options_are_told(iss, options, sentence, capsys):
    assert run(["windows", iss, *options]) == 2
    assert sentence in capsys.readouterr().err


def test_what_is_neither_a_file_nor_a_number_is_told(capsys):
    assert run(["windows", "ISS"]) == 2
    assert "ISS is neither a file that exists nor a catalogue number" in capsys.readouterr().err
    assert run(["windows", "1234567890"]) == 2
    assert "'1234567890' is no catalogue number" in capsys.readouterr().err


def test_with_a_power_system_they_are_those_of_the_payload(iss, tmp_path, capsys):
    bare = tmp_path / "bare.toml"
    bare.write_text("[power]\npanel_w = 100\nbattery_wh = 0\nload_w = 50\nidle_w = 0\n")
    options = (iss, "--days", "1", "--json")
    sunlit = json.loads(output(capsys, *options))
    without = json.loads(output(capsys, *options, "--power", str(bare)))
    assert sunlit["power"] is None
    assert without["power"]["load_w"] == 50
    assert without["satellites"][0]["trace_id"] == "leo-25544@bare"
    assert without["satellites"][0]["gaps_ms"] == sunlit["satellites"][0]["gaps_ms"]
    cubesat = json.loads(output(capsys, *options, "--power", "cubesat-6u"))["satellites"][0]
    # The span begins in shadow, where the battery lasts; the payload stops within the next eclipse.
    start, stop = sunlit["satellites"][0]["gaps_ms"][1]
    assert start < cubesat["gaps_ms"][0][0] < stop
    assert "payload off" in output(capsys, iss, "--days", "1", "--ical", "--power", "cubesat-6u")
    assert run(["windows", iss, "--power", "absent.toml"]) == 2
    assert "cubesat-6u" in capsys.readouterr().err


def test_reading_and_the_python_names_import_no_sgp4():
    code = (
        "import sys\n"
        "from orbittrace_data.builders import read_element_sets, read_snapshot\n"
        "read_snapshot('2024-09-22')\n"
        "print([m for m in ('sgp4', 'erfa', 'astropy', 'datasets', 'torch', 'requests') if m in sys.modules])"
    )
    root = str(Path(__file__).parent.parent)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([root, *sys.path])}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=True
    )
    assert done.stdout == "[]\n"


def test_an_unknown_name_is_told():
    with pytest.raises(AttributeError, match="has no attribute 'traces_from_elements'"):
        getattr(builders, "traces_from" + "_elements")
