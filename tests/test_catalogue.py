import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import pyarrow as pa
import pytest

from orbittrace_data import PowerModel, load_table, load_traces
from orbittrace_data.builders import shards, work
from orbittrace_data.builders.catalogue import ChunkError, Crew, build_data, summary
from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.energy_table import energy_table
from orbittrace_data.builders.recipe import benchmark_recipe, make_recipe
from orbittrace_data.builders.release import build_release
from orbittrace_data.builders.satellite_trace import PropagationError
from orbittrace_data.builders.shards import Chunk, Shards, build_chunk, chunks_of
from orbittrace_data.builders.verify import verify_release
from orbittrace_data.builders.work import ResumeError, work_folder_of
from orbittrace_data.builders.workers import Unbuilt, run_in_processes
from orbittrace_data.cli import run
from orbittrace_data.errors import FailedError, InputError
from orbittrace_data.loader import open_release

DAYS = 30
# One satellite a chunk: 50 chunks, so that a kill meets the middle of a build.
BUILD = """
import sys
from orbittrace_data.builders import shards
from orbittrace_data.cli import run
shards.SATELLITE_DAYS_PER_CHUNK = {days}
sys.exit(run(sys.argv[1:]))
"""


def start_build(out: Path, *options: str, **how) -> subprocess.Popen:
    command = [sys.executable, "-c", BUILD.format(days=DAYS), "build", "--all", "--days", str(DAYS)]
    return subprocess.Popen([*command, "--out", str(out), *options], stderr=subprocess.PIPE, text=True, **how)


def finished_chunks(out: Path) -> set[str]:
    return {path.parent.name for path in work_folder_of(out).glob("chunk-*/chunk.json")}


def wait_for_chunks(out: Path, count: int, process: subprocess.Popen) -> None:
    while len(finished_chunks(out)) < count:
        assert process.poll() is None, "the build ended before it could be met in its middle"
        time.sleep(0.005)


def children_of(pid: int) -> list[int]:
    """Return the processes that were started by one."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        if parent == pid:
            found.append(int(path.parent.name))
    return found


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    """All fifty satellites in one chunk a split, in this process."""
    folder = tmp_path_factory.mktemp("whole") / "orbittrace"
    build_release(make_recipe(everything=True, days=DAYS)[0], folder)
    return folder


def rows(folder: Path) -> dict[str, pa.Table]:
    configs = open_release(folder)[1].schema
    return {config: load_table(config, source=folder).combine_chunks() for config in configs}


def release_bytes(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_rows_depend_on_neither_chunks_nor_workers(whole, tmp_path, monkeypatch):
    recipe, _ = make_recipe(everything=True, days=DAYS)
    monkeypatch.setattr(shards, "SATELLITE_DAYS_PER_CHUNK", 7 * DAYS)
    build_release(recipe, tmp_path / "one")
    build_release(recipe, tmp_path / "three", crew=Crew(workers=3))
    assert release_bytes(tmp_path / "one") == release_bytes(tmp_path / "three")
    assert len(list((tmp_path / "one/data/elements").iterdir())) == 8
    assert rows(tmp_path / "one") == rows(whole)
    assert [p.name for p in tmp_path.iterdir()] in (["one", "three"], ["three", "one"])
    assert verify_release(whole).rows == verify_release(tmp_path / "one").rows  # against another division


def test_energy_rows_are_made_in_any_division_and_belong_to_the_job(tmp_path, monkeypatch):
    model = PowerModel.read("smallsat-500w")
    recipe, _ = make_recipe(catalog=(25544, 40730, 41866), days=3, power=model)
    monkeypatch.setattr(shards, "SATELLITE_DAYS_PER_CHUNK", 3)
    out = tmp_path / "out"
    manifest = build_release(recipe, out)
    assert len(manifest.files_of("energy")) == 3
    assert manifest.power == asdict(model)
    traces = load_traces(source=out)
    assert rows(out)["energy"] == energy_table(traces, load_table("shadows", source=out), model)
    monkeypatch.undo()
    assert verify_release(out).rows == sum(file.rows for file in manifest.files)
    build_data(recipe, tmp_path)
    other = replace(recipe, power=replace(model, load_w=300))
    with pytest.raises(ResumeError, match="had another power"):
        build_data(other, tmp_path, continued=True)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_build_killed_at_any_moment_resumes_to_the_same_bytes(tmp_path):
    straight = start_build(tmp_path / "straight", "--workers", "2")
    straight.communicate()
    assert straight.returncode == 0
    out = tmp_path / "out"
    kept: set[str] = set()
    for count, options in ((1, ()), (20, ("--resume",)), (40, ("--resume",))):
        process = start_build(out, "--workers", "2", *options)
        wait_for_chunks(out, count, process)
        workers = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
        text = process.communicate()[1]
        assert f"resuming: {len(kept)} of 50 chunks are there" in text or not kept
        assert not out.exists()
        kept = finished_chunks(out)
        deadline = time.monotonic() + 20
        while any(map(alive, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(alive, workers)), "workers outlive a killed build"
    stamps = {name: (work_folder_of(out) / name).stat().st_mtime_ns for name in kept}
    links = {name: (work_folder_of(out) / name / "elements.parquet").stat().st_ino for name in kept}
    process = start_build(out, "--workers", "2", "--resume")
    text = process.communicate()[1]
    assert process.returncode == 0, text
    assert f"resuming: {len(kept)} of 50 chunks are there" in text
    assert release_bytes(out) == release_bytes(tmp_path / "straight")
    # The finished chunks were not made again: their very files are in the release.
    placed = {path.stat().st_ino for path in (out / "data/elements").iterdir()}
    assert len(stamps) >= 40
    assert set(links.values()) <= placed
    assert not work_folder_of(out).exists()


def interrupted(tmp_path: Path, recipe, count: int) -> Path:
    """Leave what a build that was killed after some chunks leaves."""
    out = tmp_path / "out"
    folder = work_folder_of(out)
    with work.lock(folder):
        build_data(recipe, folder)
        for chunk in chunks_of(recipe)[count:]:
            (folder / chunk.name / "chunk.json").unlink()
    return out


def test_a_damaged_chunk_is_made_again(whole, tmp_path, monkeypatch, caplog):
    recipe, _ = make_recipe(everything=True, days=DAYS)
    monkeypatch.setattr(shards, "SATELLITE_DAYS_PER_CHUNK", 10 * DAYS)
    out = interrupted(tmp_path, recipe, 4)
    torn = work_folder_of(out) / "chunk-00001/intervals.parquet"
    torn.write_bytes(torn.read_bytes()[:-100])
    (work_folder_of(out) / "chunk-00002/chunk.json").write_text("{")
    build_release(recipe, out, resume=True)
    assert "resuming: 2 of 5 chunks are there" in caplog.text
    assert rows(out) == rows(whole)


def test_a_build_killed_as_it_puts_the_release_together_loses_nothing(whole, tmp_path):
    recipe, _ = make_recipe(everything=True, days=DAYS)
    out = interrupted(tmp_path, recipe, 1)
    abandoned = tmp_path / ".out.4711.orbittrace-building"
    (abandoned / "data").mkdir(parents=True)
    files = {path.stat().st_ino for path in work_folder_of(out).glob("chunk-*/*.parquet")}
    build_release(recipe, out, resume=True)
    assert rows(out) == rows(whole)
    assert {path.stat().st_ino for path in out.glob("data/*/*.parquet")} == files
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_an_interrupt_from_the_keyboard_keeps_what_is_finished(tmp_path):
    out = tmp_path / "out"
    process = start_build(out, "--workers", "2", start_new_session=True)
    wait_for_chunks(out, 3, process)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all processes at once
    text = process.communicate()[1]
    assert process.returncode == 130
    assert "--resume continues with them" in text
    assert "Traceback" not in text
    assert 3 <= len(finished_chunks(out)) < 50


def test_without_resume_nothing_of_an_interrupted_build_is_used(whole, tmp_path, monkeypatch, caplog):
    recipe, _ = make_recipe(everything=True, days=DAYS)
    monkeypatch.setattr(shards, "SATELLITE_DAYS_PER_CHUNK", 10 * DAYS)
    out = interrupted(tmp_path, recipe, 3)
    build_release(recipe, out)
    assert "removed 3 chunks of an interrupted build" in caplog.text
    assert rows(out) == rows(whole)


def test_only_the_same_build_is_resumed(tmp_path, capsys):
    recipe, _ = make_recipe(catalog=(25544,), days=1)
    out = interrupted(tmp_path, recipe, 0)
    for other, what in (
        (make_recipe(catalog=(25544,), days=2)[0], "span_ms"),
        (make_recipe(catalog=(41866,), days=1)[0], "satellites, start_ms"),
        (make_recipe(catalog=(25544,), days=1, min_sunlight=1.0)[0], "model"),
    ):
        with pytest.raises(ResumeError, match=f"had another {what}: give the options that it had"):
            build_release(other, out, resume=True)
    build_release(recipe, out, resume=True)
    assert run(["build", "--catalog", "25544", "--out", str(tmp_path / "new"), "--resume"]) == 2
    assert "there is no interrupted build in" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["out"]


def test_two_builds_of_one_release_do_not_meet(tmp_path):
    recipe, _ = make_recipe(catalog=(25544,), days=1)
    with (
        work.lock(work_folder_of(tmp_path / "out")),
        pytest.raises(FailedError, match="another build is at work"),
    ):
        build_release(recipe, tmp_path / "out")


def test_bad_satellites_are_left_out_and_named(tmp_path, capsys):
    assert run(["build", "--all", "--days", str(DAYS), "--out", str(tmp_path / "out"), "--workers", "1"]) == 0
    assert re.search(r"note: 1 satellite without a trace \(SGP4.+\): 47506\n", capsys.readouterr().err)
    traces = load_traces(source=tmp_path / "out")
    assert len({t.trace_id for t in traces}) == len(traces) == 49
    _, manifest = open_release(tmp_path / "out")
    (one,) = manifest.notes["left_out"]
    assert (one["catalog_number"], one["name"]) == (47506, "ICEYE-X9")
    assert 20 < one["known_days"] < 25


def test_a_release_with_satellites_left_out_verifies(tmp_path):
    recipe, _ = make_recipe(catalog=(47506, 41866), days=DAYS)
    build_release(recipe, tmp_path / "out")
    assert [t.trace_id for t in load_traces(source=tmp_path / "out")] == ["geo-41866"]
    verify_release(tmp_path / "out")


def test_the_benchmark_and_an_empty_release_are_refused(tmp_path):
    decayed, _ = make_recipe(catalog=(47506,), days=DAYS)
    frozen = replace(benchmark_recipe(), span_ms=DAYS * 86_400_000)
    for recipe in (decayed, frozen):
        with pytest.raises(PropagationError, match=r"satellite 4\d+ .* is known for .* days only: SGP4"):
            build_release(recipe, tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def odd(one: ElementSet) -> ElementSet:
    """Return an element set at which the search stumbles in a way that nobody foresaw."""
    other = replace(one)
    object.__setattr__(other, "mean_motion_rev_per_day", None)
    return other


def test_an_unforeseen_error_at_one_satellite_spares_its_neighbours():
    chunk = chunks_of(make_recipe(catalog=(25544, 41866, 40730), days=2)[0])[0]
    a, b, c = chunk.element_sets
    result = build_chunk(replace(chunk, element_sets=(a, odd(b), c)))
    assert result.contents == build_chunk(replace(chunk, element_sets=(a, c))).contents
    (one,) = result.left_out
    assert one.catalog_number == b.catalog_number
    assert one.reason.startswith("TypeError: ")


class Deadly(ElementSet):
    """An element set that ends whatever process receives it."""

    def __reduce__(self):
        return os._exit, (9,)


def some_chunks(count: int) -> list[Chunk]:
    chunk = chunks_of(make_recipe(catalog=(25544, 41866), days=2)[0])[0]
    return [replace(chunk, index=index) for index in range(count)]


def deadly(chunk: Chunk) -> Chunk:
    one = Deadly(**asdict(chunk.element_sets[0]))
    return replace(chunk, element_sets=(one, *chunk.element_sets[1:]))


def test_a_chunk_that_kills_its_worker_is_reported_and_the_others_are_built():
    chunks = some_chunks(6)
    chunks[2] = deadly(chunks[2])
    results = list(run_in_processes(chunks, 2))
    assert sorted(r.index for r in results if isinstance(r, Shards)) == [0, 1, 3, 4, 5]
    (unbuilt,) = [r for r in results if isinstance(r, Unbuilt)]
    assert str(unbuilt).startswith("chunk 2 (satellites 25544 to 41866): its worker process died 3 times")


def test_workers_that_never_live_end_the_run():
    chunks = [deadly(chunk) for chunk in some_chunks(12)]
    results = list(run_in_processes(chunks, 2))
    assert {r.chunk.index for r in results if isinstance(r, Unbuilt)} == set(range(12))


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_killed_worker_is_replaced(whole, tmp_path):
    out = tmp_path / "out"
    process = start_build(out, "--workers", "2")
    wait_for_chunks(out, 5, process)
    workers = [
        pid for pid in children_of(process.pid) if b"spawn_main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    ]
    os.kill(workers[0], signal.SIGKILL)
    text = process.communicate()[1]
    assert process.returncode == 0, text
    assert rows(out) == rows(whole)


def test_what_could_not_be_built_is_said_and_the_rest_is_kept(tmp_path, monkeypatch):
    recipe, _ = make_recipe(catalog=(25544, 41866, 40730), days=2)
    monkeypatch.setattr(shards, "SATELLITE_DAYS_PER_CHUNK", 2)
    bad = recipe.snapshot.element_sets
    worse = tuple(Deadly(**asdict(e)) if e.catalog_number == 41866 else e for e in bad)
    poisoned = replace(recipe, snapshot=replace(recipe.snapshot, element_sets=worse))
    with pytest.raises(ChunkError, match=r"1 of 3 chunks could not be built: chunk 1 .*--resume continues"):
        build_release(poisoned, tmp_path / "out", crew=Crew(workers=2))
    assert finished_chunks(tmp_path / "out") == {"chunk-00000", "chunk-00002"}
    build_release(recipe, tmp_path / "out", resume=True)
    assert len(load_traces(source=tmp_path / "out")) == 3


MEMORY = """
import sys
from dataclasses import replace
from pathlib import Path
from orbittrace_data.builders.recipe import make_recipe
from orbittrace_data.builders.selection import Selected
from orbittrace_data.builders.release import build_release
recipe, _ = make_recipe(everything=True, days=7)
sets = [replace(e, catalog_number=100_000 + 50 * i + k, line1=None, line2=None)
        for i in range(int(sys.argv[1])) for k, e in enumerate(recipe.snapshot.element_sets)]
recipe = replace(recipe, snapshot=replace(recipe.snapshot, element_sets=tuple(sets)),
                 selected=tuple(Selected(e.catalog_number, "test") for e in sets))
manifest = build_release(recipe, sys.argv[2])
(peak,) = [line.split()[1] for line in Path("/proc/self/status").read_text().splitlines() if "VmHWM" in line]
print(int(peak) // 1024, manifest.trace_count)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_the_catalogue(tmp_path):
    peak = {}
    for copies in (4, 24):
        command = [sys.executable, "-c", MEMORY, str(copies), str(tmp_path / str(copies))]
        text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        peak[copies], count = map(int, text.split())
        assert count == copies * 50
    assert peak[24] < peak[4] + 60 < 600


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--workers", "0"], "workers must be at least 1, got 0"),
        (["--engine", "spark"], "engine must be one of local, ray, got 'spark'"),
        (["--address", "auto"], "give --engine ray with it"),
    ],
)
def test_a_crew_that_cannot_be_is_refused(options, sentence, tmp_path, capsys):
    assert run(["build", "--out", str(tmp_path / "out"), *options]) == 2
    assert sentence in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_records_without_a_number_are_named(tmp_path):
    lines = [line for e in make_recipe(days=1)[0].snapshot.element_sets[:2] for line in (e.line1, e.line2)]
    lines = [line[:2] + "00000" + line[7:] for line in lines[:2]] + lines[2:]
    lines = [line[:68] + str(checksum(line)) for line in lines]
    (tmp_path / "mine.tle").write_text("\n".join(lines) + "\n")
    recipe, remarks = make_recipe(tmp_path / "mine.tle", everything=True, days=1)
    assert len(recipe.selected) == 1
    assert any("1 records of mine.tle have no catalogue number" in remark for remark in remarks)
    (tmp_path / "mine.tle").write_text("\n".join(lines[:2]) + "\n")
    for wanted in ({"everything": True}, {"catalog": [0]}, {"catalog": [25544]}, {}):
        with pytest.raises(InputError, match=r"no record of mine\.tle has a catalogue number"):
            make_recipe(tmp_path / "mine.tle", days=1, **wanted)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [("", "is empty"), ("<html></html>", "is a web page"), ("no", "holds no element")],
)
def test_a_file_that_holds_no_element_sets_is_called_by_its_name(tmp_path, content, sentence):
    (tmp_path / "mine.tle").write_text(content)
    with pytest.raises(InputError, match=rf"{tmp_path}/mine\.tle {sentence}"):
        make_recipe(tmp_path / "mine.tle", everything=True)


def checksum(line: str) -> int:
    return sum(int(c) if c.isdigit() else c == "-" for c in line[:68]) % 10


def test_the_summary_counts_by_reason():
    lost = [{"catalog_number": n, "reason": "decayed" if n % 2 else "odd"} for n in range(24)]
    assert summary(lost)[0].startswith("12 satellites without a trace (odd): 0, 2, 4")
    assert summary(lost)[1].endswith(", ...")
    every = [{"catalog_number": n, "reason": str(n)} for n in range(24)]
    assert len(summary(every)) == 11
    assert summary(every)[-1] == "14 more reasons: see left_out in the manifest"
    with pytest.raises(InputError):
        Crew(workers=-1)


@pytest.mark.parametrize("link", [False, True], ids=["folder", "link"])
def test_what_no_build_made_is_left_as_it_is(tmp_path, link):
    recipe, _ = make_recipe(catalog=[25544], days=DAYS)
    theirs = work_folder_of(tmp_path / "out")
    if link:
        (tmp_path / "theirs").mkdir()
        theirs.symlink_to("theirs")
    else:
        theirs.mkdir()
        (theirs / "mine").touch()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(InputError, match="no build made it"):
        build_release(recipe, tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before
