import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from orbittrace_data import PowerModel, load_table, load_traces
from orbittrace_data.atomic import recover
from orbittrace_data.builders import release as release_module
from orbittrace_data.builders.recipe import Recipe, benchmark_recipe, chosen_elements, make_recipe
from orbittrace_data.builders.release import build_release, write_manifest
from orbittrace_data.builders.selection import SelectionError, read_selection
from orbittrace_data.builders.shards import encode
from orbittrace_data.builders.verify import VerificationError, recipe_of, verify_release
from orbittrace_data.errors import InputError
from orbittrace_data.loader import BUNDLED, FROZEN, open_release
from orbittrace_data.manifest import ReleaseError, VersionError, parse_manifest
from orbittrace_data.schema import CONFIGS


@pytest.fixture(scope="module")
def recipe() -> Recipe:
    recipe, _ = make_recipe(catalog=(25544, 41866), days=2)
    return recipe


@pytest.fixture(scope="module")
def built(recipe, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("built") / "orbittrace"
    build_release(recipe, folder)
    return folder


def test_the_bundled_release_is_what_its_recipe_gives():
    result = verify_release()
    assert result.rebuilt_from == "snapshot 2024-09-22"
    assert result.rows == sum(load_table(config).num_rows for config in CONFIGS)


def test_the_defaults_are_the_benchmark():
    recipe, remarks = make_recipe()
    assert recipe == benchmark_recipe("1.1.0")
    assert recipe.kind == "benchmark"
    assert remarks == []
    assert make_recipe(start_ms=recipe.start_ms, days=14)[0] == recipe
    assert make_recipe(power=PowerModel.read("cubesat-6u"))[0] == recipe
    assert make_recipe(version="1.0.0")[0] == benchmark_recipe("1.0.0")


def test_data_version_1_0_0_is_still_what_its_recipe_gives_and_has_the_same_traces(tmp_path):
    older = build_release(benchmark_recipe("1.0.0"), tmp_path / "older")
    newer = open_release()[1]
    frozen = json.loads(FROZEN.read_bytes())["1.0.0"]
    assert (older.content_digest, older.traces_digest) == (frozen["content_digest"], frozen["traces_digest"])
    assert older.power is None
    assert {f for f in newer.files if f.config != "energy"} == set(older.files)
    assert [f.config for f in newer.files if f not in older.files] == ["energy", "energy"]
    assert verify_release(tmp_path / "older").rebuilt_from == "snapshot 2024-09-22"
    # As it was published, its manifest had no word of power.
    with pytest.raises(InputError, match=r"data version 1\.0\.0, has the configs traces, intervals, shadows"):
        load_traces(config="energy", source=tmp_path / "older")
    stated = json.loads((tmp_path / "older/manifest.json").read_bytes())
    del stated["power"]
    assert parse_manifest(json.dumps(stated).encode(), "1.0.0") == older


@pytest.mark.parametrize(
    "options",
    [
        {"days": 13},
        {"min_sunlight": 0.4},
        {"catalog": (25544,)},
        {"everything": True},
        {"start_ms": 1_727_049_600_001},
        {"power": PowerModel.read("smallsat-500w")},
    ],
)
def test_anything_else_is_derived(options):
    recipe, _ = make_recipe(**options)
    assert recipe.kind == "derived"
    assert {s.split for s in recipe.selected} == {"test"}


@pytest.mark.parametrize(
    "change",
    [
        {"power": {"panel_w": 44.0, "colour": 3}},
        {"power": [44.0]},
        {"power": {"name": ""}},
        {"model": {"sun": 1}},
    ],
)
def test_a_model_that_this_version_does_not_know_is_said_so(built, change):
    manifest = replace(open_release(built)[1], **change)
    with pytest.raises(VerificationError, match="states a model that this version does not know"):
        recipe_of(built, manifest)


def test_energy_rows_that_the_power_system_does_not_give_are_found(tmp_path):
    recipe, _ = make_recipe(catalog=(25544,), days=1, power=PowerModel.read("cubesat-6u"))
    out = tmp_path / "out"
    files, traces = build_release(recipe, out).files, load_table("traces", source=out)
    assert recipe.power is not None
    for power in (None, replace(recipe.power, load_w=30)):
        write_manifest(out, replace(recipe, power=power), files, traces, {})
        assert len(load_traces(config="energy", source=out)) == 1
        with pytest.raises(VerificationError, match="energy/test: 1 rows stored"):
            verify_release(out)


def test_a_build_can_be_loaded_verified_and_repeated_byte_for_byte(recipe, built, tmp_path):
    traces = load_traces(source=built)
    assert [t.trace_id for t in traces] == ["leo-25544", "geo-41866"]
    assert traces[0].release == "0.1.0, derived from 2024-09-22"
    assert verify_release(built).rebuilt_from == "snapshot 2024-09-22"
    build_release(recipe, tmp_path / "again")
    first, second = (
        {p.name: p.read_bytes() for p in f.rglob("*") if p.is_file()} for f in (built, tmp_path / "again")
    )
    assert first == second


def test_a_shorter_build_is_the_benchmark_cut_short(built):
    whole = {t.trace_id: t for t in load_traces()}
    for trace in load_traces(source=built):
        assert trace.gaps.tolist() == whole[trace.trace_id].crop(0, trace.span_ms).gaps.tolist()


def test_a_derived_build_says_so_when_it_is_loaded(built, tmp_path, caplog):
    shutil.copytree(built, tmp_path / "copy")
    load_traces(source=tmp_path / "copy")
    assert "it is not the OrbitTrace benchmark" in caplog.text


def test_a_config_without_rows_is_left_out(tmp_path):
    recipe, _ = make_recipe(catalog=(40730,), days=1)  # a GPS plane out of season: no shadow at all
    manifest = build_release(recipe, tmp_path / "out")
    assert "shadows" not in manifest.schema
    assert not (tmp_path / "out/data/shadows").exists()
    assert load_traces(source=tmp_path / "out")[0].is_control
    verify_release(tmp_path / "out")


def test_another_visible_share_moves_the_gaps_and_leaves_the_shadows(built, tmp_path):
    recipe, _ = make_recipe(catalog=(25544, 41866), days=2, min_sunlight=1.0)
    build_release(recipe, tmp_path / "full-sun")
    assert load_table("shadows", source=tmp_path / "full-sun").equals(load_table("shadows", source=built))
    rows = load_table("shadows", source=built).to_pylist()
    for strict, usual in zip(
        load_traces(source=tmp_path / "full-sun"), load_traces(source=built), strict=True
    ):
        assert strict.duty_cycle < usual.duty_cycle
        penumbra = [
            [r["start_ms"], r["stop_ms"]]
            for r in rows
            if (r["trace_id"], r["depth"], r["occluder"]) == (usual.trace_id, "penumbra", "earth")
        ]
        assert strict.gaps.tolist() == penumbra
    verify_release(tmp_path / "full-sun")


def test_only_a_release_is_replaced(recipe, tmp_path):
    other = tmp_path / "thesis"
    other.mkdir()
    (other / "chapter.txt").write_text("years of work")
    with pytest.raises(InputError, match="is left as it is"):
        build_release(recipe, other)
    assert (other / "chapter.txt").read_text() == "years of work"
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(InputError, match="is not a folder"):
        build_release(recipe, file)


def test_a_damaged_release_may_be_replaced(recipe, built, tmp_path):
    damaged = Path(shutil.copytree(built, tmp_path / "damaged"))
    next(damaged.rglob("*.parquet")).write_bytes(b"")
    build_release(recipe, damaged)
    assert len(load_traces(source=damaged)) == 2


def test_a_killed_build_loses_nothing(built, tmp_path):
    """A real build in a process of its own, killed with SIGKILL at several moments."""
    target = Path(shutil.copytree(built, tmp_path / "orbittrace"))
    before = open_release(target)[1]
    command = [
        sys.executable,
        "-m",
        "orbittrace_data",
        "build",
        "--catalog",
        "25544",
        "--days",
        "1",
        "--out",
        str(target),
    ]
    for delay_s in (0.5, 1.0, 1.5, 2.0, 2.5):
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=os.environ
        )
        time.sleep(delay_s)
        process.send_signal(signal.SIGKILL)
        process.wait()
        recover(target)
        _, manifest = open_release(target)
        assert manifest.trace_count in (1, before.trace_count)


def test_verify_names_the_first_row_that_differs(built, recipe, tmp_path):
    """A release whose digests all hold, but one of whose numbers is not what SGP4 gives."""
    forged = Path(shutil.copytree(built, tmp_path / "forged"))
    _, manifest = open_release(forged)
    (file,) = manifest.files_of("shadows")
    shadows = load_table("shadows", source=forged)
    stops = shadows["stop_ms"].to_pylist()
    stops[3] += 1
    index = CONFIGS["shadows"].get_field_index("stop_ms")
    shadows = shadows.set_column(index, CONFIGS["shadows"].field(index), pa.array(stops))
    changed, content = encode(file.path, file.config, file.split, shadows)
    (forged / file.path).write_bytes(content)
    files = [changed if one == file else one for one in manifest.files]
    write_manifest(forged, recipe, files, load_table("traces", source=built), {})
    load_traces(source=forged)
    with pytest.raises(VerificationError, match=rf"shadows/test.*row 3: stored .*stop_ms={stops[3]}"):
        verify_release(forged)


def test_verify_recomputes_the_content_digests(built, tmp_path):
    """A manifest whose sha256 fits the bytes but whose content digest does not fit the rows."""
    import hashlib

    from orbittrace_data.manifest import DataFile, Manifest

    forged = Path(shutil.copytree(built, tmp_path / "forged"))
    _, manifest = open_release(forged)
    first, *rest = manifest.files
    lying: Manifest = replace(manifest, files=(replace(first, content_digest="0" * 64), *rest))
    assert isinstance(first, DataFile)
    card = (forged / "README.md").read_text()
    old, new = (hashlib.sha256(m.to_json()).hexdigest() for m in (manifest, lying))
    (forged / "README.md").write_text(card.replace(old, new))
    (forged / "manifest.json").write_bytes(lying.to_json())
    with pytest.raises(ReleaseError, match="do not have the content digest"):
        verify_release(forged)


def test_a_release_from_a_file_rebuilds_from_its_own_elements(tmp_path):
    elements = tmp_path / "mine.3le"
    lines = Path(release_module.__file__).parent.parent / "tle_snapshots/2024-09-22/elements.3le"
    elements.write_text("\n".join(lines.read_text().splitlines()[:3]) + "\n")
    recipe, _ = make_recipe(elements, everything=True, days=1)
    build_release(recipe, tmp_path / "out")
    assert verify_release(tmp_path / "out").rebuilt_from == "its own element sets"


def test_parquet_files_hold_no_foreign_metadata(built):
    for path in built.rglob("*.parquet"):
        metadata = pq.read_metadata(path)
        assert metadata.metadata is None
        assert all(metadata.row_group(i).total_byte_size < 100e6 for i in range(metadata.num_row_groups))


def test_the_manifest_is_plain_json(built):
    text = (built / "manifest.json").read_text()
    content = json.loads(text)
    assert text == json.dumps(content, indent=2, ensure_ascii=False) + "\n"
    assert set(content["tools"]) >= {"sgp4", "pyerfa", "numpy", "pyarrow", "orbittrace-data"}
    assert content["snapshot"]["elements_sha256"]


def test_missing_and_old_satellites_are_named(tmp_path):
    _, remarks = make_recipe(catalog=(25544, 1), start_ms=1_727_049_600_000 + 40 * 86_400_000)
    assert any("has no element set for 1 of 2 satellites: 1" in r for r in remarks)
    assert any("more than 14 days old at the start (25544" in r for r in remarks)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"catalog": (1,)}, "none of the satellites that were asked for"),
        ({"catalog": (25544,), "everything": True}, "give one of --select, --catalog and --all"),
        ({"days": 0}, "days must be more than 0"),
        ({"days": float("nan")}, "days must be more than 0"),
        ({"min_sunlight": 0}, r"min_sunlight must lie in \(0, 1\]"),
        ({"source": "1999-01-01"}, "there is no snapshot 1999-01-01"),
    ],
)
def test_a_recipe_that_cannot_be_is_refused(options, sentence):
    with pytest.raises(InputError, match=sentence):
        make_recipe(**options)


def test_an_unknown_data_version_lists_what_exists():
    with pytest.raises(VersionError, match=r"there is no data version 9.9.9; there are 1\.0\.0"):
        benchmark_recipe("9.9.9")


def test_a_wrong_regime_in_the_selection_is_refused():
    frozen = benchmark_recipe()
    wrong = replace(frozen, selected=(replace(frozen.selected[0], regime="geo"),))
    with pytest.raises(SelectionError, match=r"25544 .* is leo by its elements, the selection says geo"):
        chosen_elements(wrong)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "at least one"),
        ("satellite = 3", "at least one"),
        ("[[satellite]]\n", "catalog_number must be 1 to 999999999"),
        ("[[satellite]]\ncatalog_number = 5\nsplit = 'train'", "split must be dev or test"),
        ("[[satellite]]\ncatalog_number = 5\nregime = 'low'", "regime must be leo"),
        ("[[satellite]]\ncatalog_number = 5\nname = 'x'", "unknown key 'name'"),
        ("[[satellite]]\ncatalog_number = 5\n[[satellite]]\ncatalog_number = 5", "more than once"),
        ("[[satellite", "cannot be read"),
    ],
)
def test_a_bad_selection_file_is_refused(tmp_path, text, sentence):
    path = tmp_path / "mine.toml"
    path.write_text(text)
    with pytest.raises(SelectionError, match=sentence):
        read_selection(path)


def test_the_bundled_folder_is_the_release(tmp_path):
    assert open_release()[0] == BUNDLED
    assert open_release()[1].kind == "benchmark"
