"""The command ``forecast``: a satellite moved along its orbit by a known time."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from orbittrace_data.builders.satellite_trace import trace_from_elements
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.builders.tle_writer import write_tle
from orbittrace_data.cli import run
from orbittrace_data.forecast import find_misses


@pytest.fixture(scope="module")
def iss():
    return next(e for e in read_snapshot("2024-09-22").element_sets if e.catalog_number == 25544)


def ahead(elements, seconds):
    """Move a satellite along its orbit: what is ahead by 20 s meets every shadow 20 s early."""
    degrees = elements.mean_motion_rev_per_day * 360 * seconds / 86_400
    anomaly = round((elements.mean_anomaly_deg + degrees) % 360, 4)
    return replace(elements, mean_anomaly_deg=anomaly, line1=None, line2=None)


def test_contacts_come_early_by_what_the_satellite_is_ahead(iss):
    old, new = (trace_from_elements(e, days=2) for e in (iss, ahead(iss, 20)))
    misses = find_misses(old, new)
    assert len(misses.at_ms) >= old.gap_count - 2  # but for those that the span cuts
    assert np.abs(misses.start_late_ms + 20_000).max() < 60
    assert np.abs(misses.stop_late_ms + 20_000).max() < 60
    assert abs(misses.margin_ms - 20_000) < 60


@pytest.fixture
def files(tmp_path, iss):
    paths = tmp_path / "old.tle", tmp_path / "new.tle"
    for path, elements in zip(paths, (iss, ahead(iss, 20)), strict=True):
        path.write_text("\n".join([elements.name, *write_tle(elements)]) + "\n")
    return [str(path) for path in paths]


def test_forecast_prints_the_misses_and_draws_them(files, capsys, tmp_path):
    picture = tmp_path / "misses.png"
    assert run(["forecast", *files, "--days", "1", "--plot", str(picture)]) == 0
    text = capsys.readouterr().out
    row = next(line for line in text.splitlines() if line.startswith("25544 ISS"))
    assert "-20.0" in row or "-19.9" in row
    assert "…" not in text
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_satellite_that_cannot_be_followed_ends_nothing(files, iss, capsys):
    """A twin with a hundred times the drag has come down before the comparison begins."""
    for path in files:
        lines = Path(path).read_text().splitlines()
        doomed = replace(
            iss, catalog_number=5, name="DOOMED", bstar_per_earth_radius=0.9, line1=None, line2=None
        )
        Path(path).write_text("\n".join([*lines, doomed.name, *write_tle(doomed)]) + "\n")
    assert run(["forecast", *files, "--days", "1"]) == 0
    captured = capsys.readouterr()
    assert "25544 ISS" in captured.out
    assert "DOOMED" not in captured.out
    assert "left out: satellite 5 (DOOMED) is known for" in captured.err
    assert run(["forecast", *files, "--days", "1", "--catalog", "5"]) == 1
    assert "is known for" in capsys.readouterr().err.splitlines()[-1]


def test_forecast_says_what_it_cannot_compare(files, capsys):
    assert run(["forecast", *files, "--catalog", "1"]) == 2
    assert "share no satellite with number 1" in capsys.readouterr().err
