"""Versions of the benchmark: which snapshot each was built from, and what is refused."""

from dataclasses import replace

import pytest

from orbittrace_data import PowerModel, load_traces
from orbittrace_data.builders import recipe as recipes
from orbittrace_data.builders.publish import plan_publication, publish_release
from orbittrace_data.builders.recipe import benchmark_recipe, make_recipe
from orbittrace_data.builders.release import build_release
from orbittrace_data.builders.selection import Selected
from orbittrace_data.builders.verify import VerificationError, verify_release
from orbittrace_data.cli import run
from orbittrace_data.errors import InputError
from orbittrace_data.manifest import VersionError
from orbittrace_data.trace import DAY_MS

# huggingface_hub itself uploads with the old keyword of its HTTP client.
pytestmark = pytest.mark.filterwarnings("ignore:Use .content=:DeprecationWarning")
REPO = "sat/orbittrace"
SELECTED = (Selected(25544, "dev"), Selected(40730, "test"))


@pytest.fixture
def two_benchmarks(hub, monkeypatch, tmp_path):
    """A Hub with two versions of a small benchmark, each from a snapshot of its own."""
    monkeypatch.setattr(recipes, "BENCHMARK_SNAPSHOT", {"7.0.0": "2024-09-22", "8.0.0": "2026-08-16"})
    starts = {"7.0.0": 1_727_049_600_000, "8.0.0": 1_786_924_800_000}
    monkeypatch.setattr(recipes, "BENCHMARK_START_MS", starts)
    powers = {"7.0.0": None, "8.0.0": PowerModel.read("cubesat-6u")}
    monkeypatch.setattr(recipes, "BENCHMARK_POWER", powers)
    monkeypatch.setattr(recipes, "read_selection", lambda: SELECTED)
    for version in starts:
        recipe = benchmark_recipe(version)
        assert recipe.kind == "benchmark"
        build_release(replace(recipe, span_ms=DAY_MS), tmp_path / version)
        publish_release(plan_publication(tmp_path / version, REPO))
    return hub


def test_each_version_is_loaded_and_rebuilt_from_its_own_snapshot(two_benchmarks, capsys):
    loaded = {v: load_traces(source=REPO, version=v) for v in ("7.0.0", "8.0.0")}
    for version, year in (("7.0.0", 2024), ("8.0.0", 2026)):
        assert [(t.trace_id, t.split, t.release) for t in loaded[version]] == [
            ("leo-25544", "dev", version),
            ("meo-40730", "test", version),
        ]
        assert {t.start.year for t in loaded[version]} == {year}
    assert verify_release(REPO, "7.0.0").rebuilt_from == "snapshot 2024-09-22"
    assert run(["verify", REPO, "--version", "8.0.0"]) == 0
    assert "rebuilt from snapshot 2026-08-16 without a difference" in capsys.readouterr().out
    assert [t.release for t in load_traces(source=REPO)] == ["8.0.0", "8.0.0"]
    assert {t.release for t in load_traces(config="energy", source=REPO)} == {"8.0.0"}
    with pytest.raises(InputError, match=r"data version 7\.0\.0, has the configs .*, got 'energy'"):
        load_traces(config="energy", source=REPO, version="7.0.0")


def test_a_wrong_version_is_refused_with_the_list(two_benchmarks, capsys):
    with pytest.raises(VersionError, match=r"has no data version 1\.0\.0; there are 7\.0\.0, 8\.0\.0"):
        load_traces(source=REPO, version="1.0.0")
    assert run(["verify", REPO, "--version", "9.0.0"]) == 2
    assert "has no data version 9.0.0; there are 7.0.0, 8.0.0" in capsys.readouterr().err
    with pytest.raises(VersionError, match=r"no data version 1\.0\.0; there are 7\.0\.0, 8\.0\.0"):
        benchmark_recipe("1.0.0")


def test_a_benchmark_whose_snapshot_is_not_here_cannot_be_rebuilt(two_benchmarks, monkeypatch, tmp_path):
    monkeypatch.setattr("orbittrace_data.builders.snapshot._bundled_folder", lambda: tmp_path)
    with pytest.raises(
        VerificationError, match="built from snapshot 2026-08-16, which this package does not have"
    ):
        verify_release(REPO, "8.0.0")


def test_a_derived_release_may_choose_its_version_and_the_benchmark_may_not(tmp_path):
    recipe, _ = make_recipe(catalog=(25544,), days=0.25, version="3.1.4")
    assert (recipe.version, recipe.kind) == ("3.1.4", "derived")
    assert build_release(recipe, tmp_path / "out").label == "3.1.4, derived from 2024-09-22"
    with pytest.raises(VersionError, match="three integers"):
        make_recipe(catalog=(25544,), version="3.1")
    with pytest.raises(
        InputError,
        match=r"rows of the benchmark, whose version is 1\.0\.0 or 1\.1\.0; asked for 1\.0\.1",
    ):
        make_recipe(version="1.0.1")
