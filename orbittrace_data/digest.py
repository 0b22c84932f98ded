"""Content digests: what a table says, whatever program and version wrote its bytes.

Two pyarrow versions write different parquet files from the same rows, so a file's sha256 only tells
that a download arrived whole. The content digest covers names, types and values: integers and
timestamps as little-endian int64, floats as integers in units of their last stated decimal, strings
and lists with their lengths. It is taken chunk by chunk of rows, then once over the chunks' digests.
"""

import hashlib
import struct

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .errors import FailedError
from .schema import DECIMALS

CHUNK_ROWS = 65_536


class DigestError(FailedError):
    """A table that has no content digest."""


def content_digest(table: pa.Table) -> str:
    """Digest a table's rows, in order.

    Parameters
    ----------
    table : pyarrow.Table
        Columns of int64, bool, string, timestamp, float64 (with stated decimals) and list<int64>.

    Returns
    -------
    str
        sha256, hexadecimal.

    Raises
    ------
    DigestError
        For another type, a float column without stated decimals, or a float that is not finite.

    Examples
    --------
    >>> rows = pa.table({"trace_id": ["leo-25544"], "start_ms": pa.array([0], pa.int64())})
    >>> content_digest(rows) == content_digest(pa.concat_tables([rows.slice(0, 0), rows]))
    True
    """
    overall = hashlib.sha256(b"orbittrace-content-1")
    for first in range(0, max(table.num_rows, 1), CHUNK_ROWS):
        chunk = table.slice(first, CHUNK_ROWS)
        digest = hashlib.sha256(struct.pack("<q", chunk.num_rows))
        for field in table.schema:
            column = chunk.column(field.name).combine_chunks()
            if isinstance(column, pa.ChunkedArray):
                column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], field.type)
            digest.update(f"{field.name}\0{_type_name(field)}\0".encode())
            for part in _parts(field, column):
                digest.update(struct.pack("<q", len(part)))
                digest.update(part)
        overall.update(digest.digest())
    return overall.hexdigest()


def _type_name(field: pa.Field) -> str:
    kind = field.type
    if pa.types.is_list(kind):
        return f"list<{kind.value_type}>"  # the name of a list's inner field differs between writers
    return str(kind)


def _parts(field: pa.Field, column: pa.Array) -> list[bytes]:
    """Return the bytes of one column: nulls first, where there are any, then the values."""
    nulls = (
        np.packbits(np.asarray(column.is_null()), bitorder="little").tobytes() if column.null_count else b""
    )
    kind = field.type
    if pa.types.is_list(kind):
        lengths = pc.fill_null(column.value_lengths(), 0)
        return [nulls, _int64(lengths), _int64(column.flatten())]
    if pa.types.is_string(kind):
        filled = pc.fill_null(column, "")
        return [
            nulls,
            _int64(pc.call_function("binary_length", [filled])),
            "".join(filled.to_pylist()).encode(),
        ]
    if pa.types.is_floating(kind):
        return [nulls, _scaled(field.name, column)]
    if pa.types.is_boolean(kind):
        return [nulls, _int64(pc.cast(pc.fill_null(column, False), pa.int64()))]
    if pa.types.is_timestamp(kind) or pa.types.is_integer(kind):
        return [nulls, _int64(pc.fill_null(pc.cast(column, pa.int64()), 0))]
    raise DigestError(f"column {field.name} has the type {kind}, for which no content digest is defined")


def _int64(column: pa.Array) -> bytes:
    return column.to_numpy(zero_copy_only=False).astype("<i8").tobytes()


def _scaled(name: str, column: pa.Array) -> bytes:
    if name not in DECIMALS:
        raise DigestError(f"float column {name} has no stated decimals: add it to schema.DECIMALS")
    values = pc.fill_null(column, 0.0).to_numpy(zero_copy_only=False)
    scaled = np.rint(values * 10.0 ** DECIMALS[name])
    if not np.isfinite(scaled).all() or np.abs(scaled).max(initial=0) >= 2**63:
        raise DigestError(f"column {name} holds a value that is not finite or too large")
    return scaled.astype("<i8").tobytes()
