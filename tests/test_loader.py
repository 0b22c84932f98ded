import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from orbittrace_data import load_table, load_trace, load_traces, resolve_trace
from orbittrace_data.errors import InputError
from orbittrace_data.loader import BUNDLED, UnknownTraceError, open_release
from orbittrace_data.manifest import NotAReleaseError, ReleaseError, VersionError
from orbittrace_data.schema import CONFIGS
from orbittrace_data.trace import Trace

FILES = sorted(p.relative_to(BUNDLED).as_posix() for p in BUNDLED.rglob("*.parquet"))


@pytest.fixture
def release(tmp_path) -> Path:
    return Path(shutil.copytree(BUNDLED, tmp_path / "release"))


def test_the_fifty_by_regime_and_split():
    traces = load_traces()
    assert Counter((t.regime, t.split) for t in traces) == {
        ("leo", "dev"): 6,
        ("meo", "dev"): 2,
        ("geo", "dev"): 2,
        ("leo", "test"): 24,
        ("meo", "test"): 8,
        ("geo", "test"): 8,
    }
    assert len({t.trace_id for t in traces}) == 50
    assert sum(t.is_control for t in traces) <= 5
    assert not any(t.is_control for t in traces if t.split == "dev")
    assert {t.span_ms for t in traces} == {14 * 86_400_000}
    assert {t.release for t in traces} == {"1.1.0"}


def test_split_and_regime_choose():
    assert {t.split for t in load_traces(split="dev")} == {"dev"}
    assert {t.regime for t in load_traces(regime="meo")} == {"meo"}
    assert len(load_traces(split="test", regime="geo")) == 8


@pytest.mark.parametrize("config", CONFIGS)
def test_tables_have_the_schema(config):
    table = load_table(config)
    assert [(f.name, f.type) for f in table.schema] == [(f.name, f.type) for f in CONFIGS[config]]
    assert {name.partition("@")[0] for name in table["trace_id"].to_pylist()} <= {
        t.trace_id for t in load_traces()
    }


def test_energy_traces_are_loaded_and_named_like_any_other():
    energy = load_traces(config="energy")
    assert [t.trace_id for t in energy] == [f"{t.trace_id}@cubesat-6u" for t in load_traces()]
    assert [t.split for t in energy] == [t.split for t in load_traces()]
    assert {t.release for t in energy} == {"1.1.0"}
    assert load_traces(config="energy", split="dev", regime="geo") == [
        t for t in energy if t.split == "dev" and t.regime == "geo"
    ]
    for trace in energy[::6]:
        assert load_trace(trace.trace_id) == trace == resolve_trace(trace.trace_id)
    with pytest.raises(UnknownTraceError, match="did you mean leo-25544@cubesat-6u"):
        load_trace("leo-25544@cubesat-12u")


def test_intervals_say_the_same_as_traces():
    rows = load_table("intervals").to_pylist()
    for trace in load_traces():
        own = [r for r in rows if r["trace_id"] == trace.trace_id]
        assert [[r["start_ms"], r["stop_ms"]] for r in own if not r["available"]] == trace.gaps.tolist()
        assert [[r["start_ms"], r["stop_ms"]] for r in own if r["available"]] == trace.windows.tolist()
        assert own[0]["start"] == trace.start
        assert own[-1]["stop"] == trace.stop


def test_gaps_are_the_union_of_half_shadows():
    rows = load_table("shadows").to_pylist()
    for trace in load_traces():
        half = [
            [r["start_ms"], r["stop_ms"]]
            for r in rows
            if (r["trace_id"], r["depth"]) == (trace.trace_id, "half")
        ]
        assert Trace.from_intervals(half, span_ms=trace.span_ms).gaps.tolist() == trace.gaps.tolist()


def test_an_unknown_id_names_what_comes_near():
    with pytest.raises(UnknownTraceError, match="did you mean leo-25544"):
        load_trace("leo-2554")


@pytest.mark.parametrize(
    ("arguments", "error", "sentence"),
    [
        ({"version": "2.0.0"}, VersionError, "holds data version 1.1.0, not 2.0.0"),
        (
            {"version": "1.0.0"},
            VersionError,
            "not 1.0.0: `orbittrace build --data-version 1.0.0` makes it again",
        ),
        ({"config": "shadows"}, InputError, "traces are in the configs traces and energy, got 'shadows'"),
        ({"version": "v1"}, VersionError, "three integers such as 1.0.0"),
        ({"split": "train"}, InputError, "split must be one of dev, test, got 'train'"),
        ({"regime": "sso"}, InputError, "regime must be one of leo, meo, geo"),
        ({"source": "no-such-folder"}, InputError, "neither a folder here nor a Hub dataset"),
        ({"source": "x" * 5000}, InputError, "neither a folder here nor a Hub dataset"),
        ({"source": "a\0b"}, InputError, "neither a folder here nor a Hub dataset"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_a_sentence(arguments, error, sentence):
    with pytest.raises(error, match=sentence):
        load_traces(**arguments)


def test_an_unrelated_folder_is_no_release(tmp_path):
    (tmp_path / "stray.json").write_text("[1]")
    with pytest.raises(ReleaseError, match=r"is not an OrbitTrace release: it has no manifest\.json"):
        load_traces(source=tmp_path)


def test_an_unrelated_folder_is_not_walked(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()

    def refuse(*_):
        raise AssertionError("the folder is listed before its manifest is looked for")

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(os, "listdir", refuse)
    with pytest.raises(NotAReleaseError, match="is not an OrbitTrace release"):
        load_traces(source=tmp_path)


def test_names_that_come_and_go_beside_a_release_do_not_matter(release):
    (release / "scratch").symlink_to("gone")
    assert len(load_traces(source=release)) == 50
    (release / "data" / "traces" / "gone.parquet").symlink_to("gone")
    with pytest.raises(ReleaseError, match=r"gone\.parquet is not in the manifest"):
        load_traces(source=release)


def test_a_config_that_does_not_exist_is_refused():
    with pytest.raises(InputError, match="has the configs traces, intervals, shadows, elements"):
        load_table("energy-of-the-sun")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("where", [0.0, 0.5, 0.999])
def test_a_changed_byte_in_any_data_file_is_noticed(release, name, where):
    content = bytearray((release / name).read_bytes())
    content[int(where * len(content))] ^= 1
    (release / name).write_bytes(content)
    with pytest.raises(ReleaseError, match="its sha256 differs"):
        load_traces(source=release)


@pytest.mark.parametrize("where", [0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.999])
def test_a_changed_byte_in_the_manifest_is_noticed(release, where):
    path = release / "manifest.json"
    content = bytearray(path.read_bytes())
    content[int(where * len(content))] ^= 1
    path.write_bytes(content)
    with pytest.raises(ReleaseError, match="was changed"):
        load_traces(source=release)


@pytest.mark.parametrize("name", [*FILES, "manifest.json", "README.md"])
def test_a_missing_file_is_noticed(release, name):
    (release / name).unlink()
    with pytest.raises(ReleaseError):
        load_traces(source=release)


def test_a_change_after_a_good_load_is_noticed(release):
    assert len(load_traces(source=release)) == 50
    name = release / FILES[0]
    name.write_bytes(name.read_bytes()[:-1])
    with pytest.raises(ReleaseError):
        load_traces(source=release)


def test_a_manifest_cannot_name_files_outside_the_release(release, tmp_path):
    import hashlib

    old = (release / "manifest.json").read_bytes()
    content = json.loads(old)
    content["files"][0]["path"] = "../../outside.parquet"
    new = json.dumps(content).encode()
    card = (release / "README.md").read_text()
    digests = [hashlib.sha256(c).hexdigest() for c in (old, new)]
    (release / "README.md").write_text(card.replace(*digests))
    (release / "manifest.json").write_bytes(new)
    with pytest.raises(ReleaseError, match="in a way that cannot be true"):
        open_release(release)


HEAVY = (
    "sgp4",
    "astropy",
    "erfa",
    "datasets",
    "torch",
    "transformers",
    "matplotlib",
    "huggingface_hub",
    "ray",
    "pandas",
    "pyarrow.compute",
    "numpy.ma",
)


@pytest.mark.parametrize(
    "code",
    [
        "import orbittrace_data",
        "from orbittrace_data import load_traces; assert len(load_traces()) == 50",
        "from orbittrace_data import load_trace; load_trace('leo-25544').plan(100, step_s=60)",
        "from orbittrace_data import load_traces; assert len(load_traces(config='energy')) == 50",
        "from orbittrace_data import resolve_trace; resolve_trace('leo-25544@cubesat-6u~20s#1')",
        "from orbittrace_data import resolve_trace; resolve_trace('cap:Europe/Berlin,17:00-21:00,2026-03-25,3d')",
        "from orbittrace_data import resolve_trace; resolve_trace('duty:1h/5m').plan(9, step_s=60, save_every=3).cost()",
    ],
)
def test_loading_imports_nothing_heavy(code):
    before = "import sys, numpy\nknown = set(sys.modules)"  # NumPy 1.26 brings numpy.ma by itself
    check = f"{before}\n{code}\nprint([m for m in {HEAVY!r} if m in sys.modules and m not in known])"
    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]", result.stdout


def test_data_that_the_manifest_does_not_name_are_noticed(release):
    """`load_dataset` goes by patterns: it would take a foreign shard's rows for the release's."""
    shutil.copy(
        release / "data/traces/dev-00000-of-00001.parquet",
        release / "data/traces/test-00001-of-00002.parquet",
    )
    with pytest.raises(ReleaseError, match="is not in the manifest"):
        load_traces(source=release)


@pytest.mark.parametrize("style", [None, "numpy", "arrow", "pandas"])
def test_rows_of_load_dataset_in_every_format_are_traces(style, tmp_path):
    import datasets

    rows = datasets.load_dataset(str(BUNDLED), split="dev", cache_dir=str(tmp_path)).with_format(style)
    assert [Trace.from_row(rows[i]) for i in range(len(rows))] == load_traces(split="dev")
