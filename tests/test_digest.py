import numpy as np
import pyarrow as pa
import pytest

from orbittrace_data import digest
from orbittrace_data.digest import DigestError, content_digest


def table(**changes):
    columns = {
        "trace_id": ["leo-1", "leo-2"],
        "start_ms": pa.array([0, 5], pa.int64()),
        "available": [True, False],
        "duty_cycle": [0.5, 0.25],
        "max_obscuration": pa.array([None, 1.0], pa.float64()),
        "gap_start_ms": pa.array([[1, 2], []], pa.list_(pa.int64())),
        "start": pa.array([0, 1], pa.timestamp("ms", tz="UTC")),
    }
    return pa.table(columns | changes)


def test_the_digest_is_fixed_for_ever():
    assert content_digest(table()) == "07bf83c70c8f9bec9f630cbb5a246d15bfce1aadef1ce8f0d0f5828b3c0077ef"


def test_it_depends_on_nothing_but_rows():
    whole = table()
    sliced = pa.concat_tables([whole.slice(0, 1), whole.slice(1, 1)])
    assert content_digest(sliced) == content_digest(whole)
    assert content_digest(table(duty_cycle=[0.5 + 1e-12, 0.25])) == content_digest(whole)


@pytest.mark.parametrize(
    "change",
    [
        {"trace_id": ["leo-12", "leo-"]},
        {"trace_id": ["leo-", "1leo-2"]},
        {"start_ms": pa.array([5, 0], pa.int64())},
        {"start_ms": pa.array([0, 5], pa.int32())},
        {"available": [True, True]},
        {"duty_cycle": [0.5 + 1e-9, 0.25]},
        {"max_obscuration": pa.array([0.0, 1.0], pa.float64())},
        {"gap_start_ms": pa.array([[1], [2]], pa.list_(pa.int64()))},
        {"start": pa.array([0, 1], pa.timestamp("us", tz="UTC"))},
    ],
)
def test_it_sees_every_change(change):
    assert content_digest(table(**change)) != content_digest(table())


def test_it_goes_by_chunks(monkeypatch):
    monkeypatch.setattr(digest, "CHUNK_ROWS", 10)
    rows = pa.table({"start_ms": pa.array(np.arange(35))})
    other = pa.table({"start_ms": pa.array(np.roll(np.arange(35), 10))})
    assert content_digest(rows) != content_digest(other)


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"speed": [1.0]}, "has no stated decimals"),
        ({"duty_cycle": [float("nan")]}, "not finite"),
        ({"data": [b"x"]}, "no content digest is defined"),
    ],
)
def test_what_has_no_digest_is_refused(columns, sentence):
    with pytest.raises(DigestError, match=sentence):
        content_digest(pa.table(columns))
