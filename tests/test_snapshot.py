"""Frozen snapshots: written whole or not at all, and never believed without their digests."""

import json

import pytest

from orbittrace_data.builders.gp import GpError
from orbittrace_data.builders.snapshot import (
    SnapshotDamaged,
    SnapshotError,
    bundled_snapshots,
    read_snapshot,
    write_snapshot,
)
from orbittrace_data.errors import InputError

CONTENT = (
    b"ISS (ZARYA)             \r\n"
    b"1 25544U 98067A   24266.39798760  .00041594  00000+0  74589-3 0  9997\r\n"
    b"2 25544  51.6398 193.8799 0007144  19.4394  84.7888 15.49480284473626\r\n"
)
FACTS = {
    "source": "a test",
    "retrieved": "2024-09-22",
    "licence_notice": "Not for conjunction assessment.",
    "citation": "USSPACECOM / 18 SDS via Space-Track.org and CelesTrak",
}


@pytest.fixture
def frozen(tmp_path):
    write_snapshot(tmp_path / "snaps" / "2024-09-22-test", CONTENT, **FACTS)
    return tmp_path / "snaps" / "2024-09-22-test"


def test_a_snapshot_keeps_the_bytes_and_the_facts(frozen):
    assert sorted(p.name for p in frozen.iterdir()) == ["elements.3le", "snapshot.json"]
    assert (frozen / "elements.3le").read_bytes() == CONTENT
    for where in (frozen, str(frozen)):
        snapshot = read_snapshot(where)
        assert snapshot.name == "2024-09-22-test"
        assert [e.catalog_number for e in snapshot.element_sets] == [25544]
        assert {key: getattr(snapshot, key) for key in FACTS} == FACTS
        assert snapshot.oldest_epoch == snapshot.newest_epoch == "2024-09-22T09:33:06.128640Z"
        assert len(snapshot.digest) == len(snapshot.elements_sha256) == 64


def test_the_same_content_and_facts_give_the_same_digest(frozen, tmp_path):
    again = write_snapshot(tmp_path / "2024-09-22-test", CONTENT, **FACTS)
    assert again == read_snapshot(frozen)
    other = write_snapshot(tmp_path / "b" / "2024-09-22-test", CONTENT, **{**FACTS, "source": "another"})
    assert other.digest != again.digest


def test_a_snapshot_is_never_overwritten(frozen):
    with pytest.raises(InputError, match="exists already"):
        write_snapshot(frozen, CONTENT, **FACTS)
    assert read_snapshot(frozen).source == "a test"


def test_a_bad_record_freezes_nothing(tmp_path):
    with pytest.raises(GpError, match="line 2, checksum: the line says 7 but its characters give 8"):
        write_snapshot(tmp_path / "s", CONTENT.replace(b"98067A", b"98068A"), **FACTS)
    assert list(tmp_path.iterdir()) == []


def test_a_failure_half_way_leaves_nothing(tmp_path, monkeypatch):
    def broken(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(json, "dumps", broken)
    with pytest.raises(OSError, match="No space"):
        write_snapshot(tmp_path / "s", CONTENT, **FACTS)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["a b", ".hidden", "x" * 65, "ä"])
def test_a_name_is_one_that_every_system_can_hold(tmp_path, name):
    with pytest.raises(SnapshotError, match="a snapshot cannot be called"):
        write_snapshot(tmp_path / name, CONTENT, **FACTS)


@pytest.mark.parametrize("fact", FACTS)
def test_every_fact_is_needed(tmp_path, fact):
    with pytest.raises(SnapshotError, match=f"a snapshot needs its {fact.replace('_', ' ')}"):
        write_snapshot(tmp_path / "s", CONTENT, **{**FACTS, fact: " "})


def test_changed_elements_are_found(frozen):
    (frozen / "elements.3le").write_bytes(CONTENT.replace(b"98067A", b"98067B"))
    with pytest.raises(SnapshotDamaged, match="the file was changed"):
        read_snapshot(frozen)


def test_a_wrong_checksum_is_found_even_under_a_right_digest(frozen):
    import hashlib

    changed = CONTENT.replace(b"98067A", b"98068A")
    (frozen / "elements.3le").write_bytes(changed)
    facts = json.loads((frozen / "snapshot.json").read_text())
    facts["elements_sha256"] = hashlib.sha256(changed).hexdigest()
    (frozen / "snapshot.json").write_text(json.dumps(facts))
    with pytest.raises(GpError, match=r"elements\.3le has 1 bad record: line 2, checksum"):
        read_snapshot(frozen)


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("format_version", 2, "is not of format version 1"),
        ("citation", None, "has no text under 'citation'"),
        ("elements_file", "../elements.3le", "not one of its own folder"),
        ("elements_file", "elements.csv", "lacks its elements.csv"),
        ("records", 2, "says records 2, the elements say 1"),
        ("records", None, "has no number under 'records'"),
        ("newest_epoch", "2030-01-01T00:00:00.000000Z", "says newest_epoch 2030"),
    ],
)
def test_facts_that_do_not_hold_are_found(frozen, key, value, sentence):
    facts = json.loads((frozen / "snapshot.json").read_text())
    facts[key] = value
    (frozen / "snapshot.json").write_text(json.dumps(facts))
    with pytest.raises(SnapshotDamaged, match=sentence):
        read_snapshot(frozen)


def test_no_json_and_no_snapshot_are_told_apart(frozen, tmp_path):
    (frozen / "snapshot.json").write_text("{")
    with pytest.raises(SnapshotDamaged, match="is not JSON"):
        read_snapshot(frozen)
    (frozen / "snapshot.json").unlink()
    with pytest.raises(SnapshotError, match="is no snapshot"):
        read_snapshot(frozen)
    with pytest.raises(SnapshotError, match="there is no snapshot 1999-01-01: give a folder or one of"):
        read_snapshot("1999-01-01")
    with pytest.raises(SnapshotError, match="there is no snapshot xxx"):
        read_snapshot("x" * 5000)


def test_every_bundled_snapshot_holds():
    assert bundled_snapshots() == ["2024-09-22", "2026-08-16"]
    for name in bundled_snapshots():
        snapshot = read_snapshot(name)
        assert snapshot.name == name
        assert "CelesTrak" in snapshot.citation


def test_the_second_snapshot_holds_satellites_of_the_first_two_years_later():
    first, second = (read_snapshot(name) for name in bundled_snapshots())
    numbers = {e.catalog_number for e in second.element_sets}
    assert len(numbers) == 26
    assert numbers <= {e.catalog_number for e in first.element_sets}
    assert first.newest_epoch < "2024-09-23" < "2026-08-12" < second.oldest_epoch


def test_a_snapshot_keeps_its_name_under_another_folder(frozen):
    moved = frozen.rename(frozen.with_name("moved"))
    assert read_snapshot(moved).name == "2024-09-22-test"
