"""Interval algebra on arrays: half-open [start, stop), int64 milliseconds, shape (n, 2).

A *canonical* array is sorted, and its intervals are non-empty and neither overlap nor touch.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InputError

Intervals = NDArray[np.int64]


class IntervalError(InputError):
    """Intervals that cannot be read as half-open millisecond intervals."""


def as_milliseconds(value: ArrayLike, what: str) -> NDArray[np.int64]:
    """Read whole milliseconds as int64; refuse anything that would have to be rounded.

    Parameters
    ----------
    value : array_like of int, shape (...)
        Times [ms].
    what : str
        The name to use in the error.

    Returns
    -------
    ndarray of int64, shape (...)

    Raises
    ------
    IntervalError
        For floats, booleans, NaN and everything else that is not an integer within int64, for rows of
        different lengths, and for masked entries.
    """
    mask = getattr(value, "mask", None)  # asking numpy.ma would import it, for 25 ms
    if isinstance(mask, np.ndarray | np.bool_) and np.any(mask):
        raise IntervalError(f"{what} must all be there, got masked entries: fill them, or leave them out")
    try:
        array = np.asarray(value)
    except ValueError:
        raise IntervalError(
            f"{what} must be whole milliseconds in rows of one length, got {value!r}"
        ) from None
    if array.size == 0:
        return array.astype(np.int64)
    # Beside integers, NumPy takes a boolean of a list for 0 or 1.
    mixed = isinstance(value, list | tuple) and bool in set(map(type, np.asarray(value, object).flat))
    if array.dtype.kind not in "iu" or mixed:
        raise IntervalError(
            f"{what} must be whole milliseconds (int), got {value!r} of type {'bool' if mixed else array.dtype}: "
            "round them first, for example with round(seconds * 1000)"
        )
    if array.dtype.kind == "u" and array.max() > np.iinfo(np.int64).max:
        raise IntervalError(f"{what} must fit into int64, got {array.max()}")
    return array.astype(np.int64)


def as_millisecond(value: ArrayLike, what: str) -> int:
    """Read one whole number as `as_milliseconds` reads many."""
    array = as_milliseconds(value, what)
    if array.ndim:
        raise IntervalError(f"{what} must be one whole number, got {value!r}")
    return int(array)


def union(intervals: ArrayLike, what: str = "intervals") -> Intervals:
    """Merge intervals in any order, overlapping or touching, into their canonical union.

    Empty intervals (start == stop) vanish.

    Parameters
    ----------
    intervals : array_like of int, shape (n, 2)
        [start, stop) [ms].

    Returns
    -------
    ndarray of int64, shape (m, 2)
        Canonical.

    Raises
    ------
    IntervalError
        If the shape is wrong or an interval stops before it starts.

    Examples
    --------
    >>> union([[5, 9], [0, 2], [2, 4], [7, 12]]).tolist()
    [[0, 4], [5, 12]]
    """
    array = as_milliseconds(intervals, what)
    if array.size == 0:
        return np.empty((0, 2), np.int64)
    if array.ndim != 2 or array.shape[1] != 2:
        raise IntervalError(f"{what} must have shape (n, 2), [start, stop) in each row; got {array.shape}")
    backwards = np.flatnonzero(array[:, 1] < array[:, 0])
    if backwards.size:
        row = int(backwards[0])
        start, stop = array[row].tolist()
        raise IntervalError(f"{what}, row {row}: stops at {stop} ms, before it starts at {start} ms")
    array = array[array[:, 1] > array[:, 0]]
    array = array[np.argsort(array[:, 0], kind="stable")]
    reach = np.maximum.accumulate(array[:, 1])
    first = np.concatenate([[True], array[1:, 0] > reach[:-1]]) if len(array) else np.empty(0, bool)
    last = np.concatenate([first[1:], [True]]) if len(array) else first
    return np.stack([array[first, 0], reach[last]], axis=1)


def clip(intervals: Intervals, start_ms: int, stop_ms: int) -> Intervals:
    """Cut canonical intervals to [start_ms, stop_ms) and drop what is left empty.

    Examples
    --------
    >>> clip(union([[0, 4], [6, 9]]), 2, 7).tolist()
    [[2, 4], [6, 7]]
    """
    cut = np.clip(intervals, start_ms, stop_ms)
    return cut[cut[:, 1] > cut[:, 0]]


def complement(intervals: Intervals, span_ms: int) -> Intervals:
    """Return what canonical intervals within [0, span_ms) leave free of it.

    Examples
    --------
    >>> complement(union([[2, 4], [6, 9]]), 9).tolist()
    [[0, 2], [4, 6]]
    """
    edges = np.concatenate([[0], intervals.ravel(), [span_ms]]).reshape(-1, 2)
    return edges[edges[:, 1] > edges[:, 0]]


def intersection(a: Intervals, b: Intervals) -> Intervals:
    """Return where two canonical arrays overlap.

    Examples
    --------
    >>> intersection(union([[0, 5], [7, 9]]), union([[3, 8]])).tolist()
    [[3, 5], [7, 8]]
    """
    if not len(a) or not len(b):
        return np.empty((0, 2), np.int64)
    stop = max(a[-1, 1], b[-1, 1])
    start = min(a[0, 0], b[0, 0])
    outside_a = complement(a - start, stop - start) + start
    outside_b = complement(b - start, stop - start) + start
    outside = union(np.concatenate([outside_a, outside_b]))
    return complement(outside - start, stop - start) + start


def dilate(intervals: Intervals, margin_ms: int) -> Intervals:
    """Widen every interval by ``margin_ms`` at both ends and merge what then meets.

    Examples
    --------
    >>> dilate(union([[4, 5], [9, 10]]), 2).tolist()
    [[2, 12]]
    """
    return union(intervals + np.array([-margin_ms, margin_ms]))


def total_ms(intervals: Intervals) -> int:
    """Sum the lengths [ms].

    Examples
    --------
    >>> total_ms(union([[0, 4], [6, 9]]))
    7
    """
    return int((intervals[:, 1] - intervals[:, 0]).sum())
