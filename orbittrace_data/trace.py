"""The trace: when one satellite (or any other machine) is available, with exact clocks over it.

Wall-clock time runs always; active time runs only inside windows. Both are int64 milliseconds from
the trace's start, and every interval is half-open, [start, stop).
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import intervals
from .errors import InputError
from .intervals import Intervals, as_millisecond, as_milliseconds

if TYPE_CHECKING:
    from .plan import Plan

DAY_MS = 86_400_000
REGIMES = ("leo", "meo", "geo", "heo", "other")
_MILLISECOND = timedelta(milliseconds=1)
_LAST_INSTANT = datetime.max.replace(tzinfo=UTC)
MAX_SPAN_MS = 2**53  # 285,000 years: sums of any few spans stay exact in int64 and in float64


class TraceError(InputError):
    """What was given is no trace."""


class TimeOutsideTraceError(InputError):
    """A time before a trace's start or after its end."""

    def __init__(self, trace_id: str, what: str, given_ms: int, limit_ms: int, remedy: str):
        self.trace_id, self.given_ms, self.limit_ms = trace_id, given_ms, limit_ms
        super().__init__(f"trace {trace_id}: {what} {given_ms} ms is outside [0, {limit_ms}] ms: {remedy}")


@dataclass(frozen=True)
class Orbit:
    """Where a trace comes from: facts of one satellite and of its element set.

    Angles in degrees; ``perigee_km`` and ``apogee_km`` are mean-element altitudes above 6378.137 km;
    ``period_s`` follows from the Kozai mean motion; the beta angle is signed, towards r x v. A fact that is no
    text, whole number, finite number or instant, as stated for it, is refused.
    """

    orbit_class: str
    catalog_number: int
    object_id: str
    epoch: datetime
    element_age_ms: int
    inclination_deg: float
    eccentricity: float
    period_s: float
    perigee_km: float
    apogee_km: float
    beta_min_deg: float
    beta_max_deg: float

    def __post_init__(self):
        for fact in fields(self):
            value = _held_to(fact.type, getattr(self, fact.name), f"orbit: {fact.name}")
            object.__setattr__(self, fact.name, value)


@dataclass(frozen=True, eq=False, repr=False)
class Trace:
    """Availability over one span: the gaps, and everything that follows from them.

    Make one with `load_trace`, `from_row`, `from_intervals` or `from_csv`.

    Parameters
    ----------
    trace_id : str
        For example ``leo-25544``.
    span_ms : int
        Length of the trace [ms].
    gaps : array_like of int, shape (n, 2)
        Unavailable [start, stop) [ms from the start], in any order; stored canonical, read-only.
    start : datetime, optional
        The instant of t = 0, with a time zone; None for a schedule tied to no date.
    name, regime : str
        A name for people; ``leo``, ``meo``, ``geo``, ``heo`` or ``other``.
    orbit : Orbit, optional
        The satellite's facts, where there is a satellite.
    split : str, optional
        ``dev`` or ``test``, as loaded.
    release : str, optional
        The data release that the trace was loaded from, for example ``1.0.0``.

    Examples
    --------
    >>> trace = Trace("demo", span_ms=100, gaps=[[30, 40], [90, 100]])
    >>> trace.windows.tolist(), trace.duty_cycle
    ([[0, 30], [40, 90]], 0.8)
    """

    trace_id: str
    span_ms: int
    gaps: Intervals
    start: datetime | None = None
    name: str = ""
    regime: str = "other"
    orbit: Orbit | None = None
    split: str | None = None
    release: str | None = field(default=None, compare=False)

    def __post_init__(self):
        for what in ("trace_id", "name", "regime"):
            if not isinstance(getattr(self, what), str):
                raise TraceError(f"a trace's {what} must be a text, got {getattr(self, what)!r}")
        if self.regime not in REGIMES:
            raise TraceError(
                f"trace {self.trace_id}: regime must be one of {', '.join(REGIMES)}, got {self.regime!r}"
            )
        span_ms = as_millisecond(self.span_ms, f"trace {self.trace_id}: span_ms")
        if not 0 < span_ms <= MAX_SPAN_MS:
            raise TraceError(
                f"trace {self.trace_id}: span_ms must lie in [1, {MAX_SPAN_MS}], got {span_ms}: "
                "give the trace's length in milliseconds"
            )
        gaps = intervals.union(self.gaps, f"trace {self.trace_id}: gaps")
        if len(gaps) and (gaps[0, 0] < 0 or gaps[-1, 1] > span_ms):
            raise TraceError(
                f"trace {self.trace_id}: gaps reach from {gaps[0, 0]} to {gaps[-1, 1]} ms, outside the "
                f"span [0, {span_ms}]: cut them or make the span longer"
            )
        start = None if self.start is None else as_instant(self.start, f"trace {self.trace_id}: start")
        if start is not None and span_ms > (_LAST_INSTANT - start) // _MILLISECOND:
            raise TraceError(
                f"trace {self.trace_id}: {span_ms / DAY_MS:.6g} days from {start.isoformat()} end after the year 9999: "
                "shorten the span, or leave start out"
            )
        if self.orbit is not None and not isinstance(self.orbit, Orbit):
            raise TraceError(f"trace {self.trace_id}: orbit must be an Orbit, got {self.orbit!r}")
        object.__setattr__(self, "span_ms", span_ms)
        object.__setattr__(self, "gaps", _read_only(gaps))
        object.__setattr__(self, "start", start)

    # What the trace holds ---------------------------------------------------------------------

    @cached_property
    def windows(self) -> Intervals:
        """Available [start, stop) [ms], shape (m, 2), canonical, read-only."""
        return _read_only(intervals.complement(self.gaps, self.span_ms))

    @cached_property
    def active_total_ms(self) -> int:
        """Available time in all [ms]."""
        return self.span_ms - intervals.total_ms(self.gaps)

    @property
    def duty_cycle(self) -> float:
        """Available share of the span, in [0, 1]."""
        return self.active_total_ms / self.span_ms

    @property
    def gap_count(self) -> int:
        """Number of gaps."""
        return len(self.gaps)

    @property
    def longest_gap_ms(self) -> int:
        """Length of the longest gap [ms], 0 where there is none."""
        return int((self.gaps[:, 1] - self.gaps[:, 0]).max(initial=0))

    @property
    def is_control(self) -> bool:
        """Whether the trace has no gap: a control, where every method must do the same."""
        return not len(self.gaps)

    @property
    def stop(self) -> datetime | None:
        """The instant of the end of the span, None for a trace tied to no date."""
        return None if self.start is None else self.start + timedelta(milliseconds=self.span_ms)

    # Looking up -------------------------------------------------------------------------------

    def is_available(self, t_ms: ArrayLike) -> Any:
        """Say whether compute is available at wall-clock times.

        Parameters
        ----------
        t_ms : int or array_like of int, shape (...)
            Wall-clock times [ms] in [0, span_ms).

        Returns
        -------
        bool or ndarray of bool, shape (...)

        Raises
        ------
        TimeOutsideTraceError

        Examples
        --------
        >>> Trace("demo", 100, [[30, 40]]).is_available([29, 30, 39, 40]).tolist()
        [True, False, False, True]
        """
        t = self._within(t_ms, self.span_ms - 1, "wall-clock time")
        return _like(t_ms, np.searchsorted(self.gaps.ravel(), t, side="right") % 2 == 0)

    def next_gap(self, t_ms: ArrayLike) -> Any:
        """Find the gap around or after wall-clock times.

        Parameters
        ----------
        t_ms : int or array_like of int, shape (...)
            Wall-clock times [ms] in [0, span_ms].

        Returns
        -------
        (int, int) or ndarray of int64, shape (..., 2)
            [start, stop) [ms]; (span_ms, span_ms) where no gap follows.

        Raises
        ------
        TimeOutsideTraceError

        Examples
        --------
        >>> trace = Trace("demo", 100, [[30, 40]])
        >>> trace.next_gap(0), trace.next_gap(35), trace.next_gap(40)
        ((30, 40), (30, 40), (100, 100))
        """
        t = self._within(t_ms, self.span_ms, "wall-clock time")
        ended = np.searchsorted(self.gaps[:, 1], t, side="right")
        found = np.concatenate([self.gaps, [[self.span_ms, self.span_ms]]])[ended]
        return (int(found[0]), int(found[1])) if np.ndim(t_ms) == 0 else found

    def active_ms(self, wall_ms: ArrayLike) -> Any:
        """Convert wall-clock time to active time: how much was available before it.

        Parameters
        ----------
        wall_ms : int or array_like of int, shape (...)
            Wall-clock times [ms] in [0, span_ms].

        Returns
        -------
        int or ndarray of int64, shape (...)
            Active time [ms] in [0, active_total_ms].

        Raises
        ------
        TimeOutsideTraceError

        Examples
        --------
        >>> Trace("demo", 100, [[30, 40]]).active_ms([0, 30, 35, 40, 100]).tolist()
        [0, 30, 30, 30, 90]
        """
        wall = self._within(wall_ms, self.span_ms, "wall-clock time")
        edges, active, rate = self._clock
        at = np.searchsorted(edges, wall, side="right") - 1
        return _like(wall_ms, active[at] + rate[at] * (wall - edges[at]))

    def wall_ms(self, active_ms: ArrayLike, side: Literal["left", "right"] = "right") -> Any:
        """Convert active time to wall-clock time.

        On the boundary between two windows an active time names two instants.

        Parameters
        ----------
        active_ms : int or array_like of int, shape (...)
            Active times [ms] in [0, active_total_ms].
        side : {"right", "left"}
            ``right``: when work goes on, the next window's start (the span's end, where none follows).
            ``left``: when the work before it was done, the window's stop (0 for an active time of 0).

        Returns
        -------
        int or ndarray of int64, shape (...)
            Wall-clock times [ms]; ``active_ms`` of them is the input.

        Raises
        ------
        TimeOutsideTraceError

        Examples
        --------
        >>> trace = Trace("demo", 100, [[30, 40]])
        >>> trace.wall_ms(30), trace.wall_ms(30, side="left"), trace.wall_ms(90)
        (40, 30, 100)
        """
        if not isinstance(side, str) or side not in ("left", "right"):
            raise InputError(f"side must be 'left' or 'right', got {side!r}")
        active = self._within(active_ms, self.active_total_ms, "active time")
        done, offset = self._inverse_clock
        window = np.searchsorted(done, active, side=side)
        wall = active + offset[window]
        if side == "left":
            wall = np.where(active == 0, 0, wall)
        else:
            wall = np.where(active == self.active_total_ms, self.span_ms, wall)
        return _like(active_ms, wall)

    @cached_property
    def _clock(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """Edges [ms], active time at each [ms], and the rate (1 or 0) after each."""
        edges = np.concatenate([[0], self.gaps.ravel()])
        rate = (np.arange(len(edges)) + 1) % 2
        active = np.concatenate([[0], np.cumsum(np.diff(edges) * rate[:-1])])
        return edges, active, rate

    @cached_property
    def _inverse_clock(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Active time at each gap [ms], and wall minus active time before and after each [ms]."""
        lengths = self.gaps[:, 1] - self.gaps[:, 0]
        offset = np.concatenate([[0], np.cumsum(lengths)])
        return self.gaps[:, 0] - offset[:-1], offset

    def _within(self, value: ArrayLike, limit_ms: int, what: str) -> NDArray[np.int64]:
        array = as_milliseconds(value, f"trace {self.trace_id}: {what}")
        if array.size and (array.min() < 0 or array.max() > limit_ms):
            given = int(array.min() if array.min() < 0 else array.max())
            days = self.span_ms / DAY_MS
            remedy = (
                "times count from the trace's start"
                if given < 0
                else f"the trace spans {days:.6g} days; use .repeat(n), or build it longer with --days"
            )
            raise TimeOutsideTraceError(self.trace_id, what, given, limit_ms, remedy)
        return array

    # New traces from this one -----------------------------------------------------------------

    def crop(self, a_ms: int, b_ms: int) -> "Trace":
        """Return the part within [a_ms, b_ms), with t = 0 at a_ms.

        Examples
        --------
        >>> Trace("demo", 100, [[30, 40]]).crop(35, 60).gaps.tolist()
        [[0, 5]]
        """
        ends = [as_millisecond(value, f"trace {self.trace_id}: crop time") for value in (a_ms, b_ms)]
        a, b = self._within(ends, self.span_ms, "crop time").tolist()
        if a >= b:
            raise TraceError(f"trace {self.trace_id}: crop needs a_ms < b_ms, got [{a}, {b})")
        start = None if self.start is None else self.start + timedelta(milliseconds=a)
        return replace(self, span_ms=b - a, gaps=intervals.clip(self.gaps, a, b) - a, start=start)

    def repeat(self, n: int) -> "Trace":
        """Return the trace n times in a row (tiled: the dates run on, the sky does not).

        Examples
        --------
        >>> Trace("demo", 100, [[90, 100]]).repeat(2).gaps.tolist()
        [[90, 100], [190, 200]]
        """
        count = as_millisecond(n, "n")
        if not 1 <= count <= MAX_SPAN_MS // self.span_ms:
            raise TraceError(
                f"trace {self.trace_id}: repeat needs n in [1, {MAX_SPAN_MS // self.span_ms}], got {n}"
            )
        offset = np.arange(count, dtype=np.int64)[:, None, None] * self.span_ms
        return replace(self, span_ms=count * self.span_ms, gaps=(self.gaps + offset).reshape(-1, 2))

    def shrink(self, margin_ms: int) -> "Trace":
        """Return the trace with every window narrowed by a safety margin at each gap.

        The ends of the span are not gaps and are left alone; a window of up to two margins vanishes.

        Examples
        --------
        >>> Trace("demo", 100, [[30, 40]]).shrink(5).windows.tolist()
        [[0, 25], [45, 100]]
        """
        margin = as_millisecond(margin_ms, "margin_ms")
        if margin < 0:
            raise TraceError(f"trace {self.trace_id}: margin_ms must not be negative, got {margin}")
        wide = intervals.dilate(self.gaps, min(margin, self.span_ms))
        return replace(self, gaps=intervals.clip(wide, 0, self.span_ms))

    # In and out -------------------------------------------------------------------------------

    @classmethod
    def from_intervals(
        cls,
        gaps: ArrayLike | None = None,
        *,
        windows: ArrayLike | None = None,
        span_ms: int | None = None,
        start: datetime | None = None,
        stop: datetime | None = None,
        trace_id: str = "custom",
        name: str = "",
    ) -> "Trace":
        """Make a trace from one's own intervals.

        Parameters
        ----------
        gaps, windows : sequence of (start, stop), exactly one of the two
            Whole milliseconds from the start, or datetimes with a time zone.
        span_ms : int, optional
            Length [ms]; by default up to ``stop``, or to the last interval's end.
        start, stop : datetime, optional
            Instants of t = 0 and of the end; by default the first and the last interval's, for datetimes.
        trace_id, name : str

        Returns
        -------
        Trace

        Raises
        ------
        TraceError
            If both or neither of gaps and windows are given, a datetime has no zone, or span_ms is not the time
            from start to stop.

        Examples
        --------
        >>> Trace.from_intervals(windows=[(0, 30), (40, 90)], span_ms=100).gaps.tolist()
        [[30, 40], [90, 100]]
        """
        if (gaps is None) == (windows is None):
            raise TraceError("give either gaps= or windows=, one of the two")
        given = gaps if gaps is not None else windows
        pairs, start = _to_milliseconds(given, start, trace_id)
        busy = intervals.union(pairs, f"trace {trace_id}: intervals")
        if stop is not None:
            if start is None:
                raise TraceError(f"trace {trace_id}: stop needs start: give both, or span_ms alone")
            ends = [
                as_instant(t, f"trace {trace_id}: {what}") for t, what in ((start, "start"), (stop, "stop"))
            ]
            to_stop_ms = (ends[1] - ends[0]) // _MILLISECOND
            if span_ms is not None and as_millisecond(span_ms, f"trace {trace_id}: span_ms") != to_stop_ms:
                raise TraceError(
                    f"trace {trace_id}: span_ms says {span_ms}, from start to stop it is {to_stop_ms} ms: give one of them"
                )
            span_ms = to_stop_ms
        elif span_ms is None:
            if not len(busy):
                raise TraceError(f"trace {trace_id}: without intervals, give span_ms or start and stop")
            span_ms = int(busy[-1, 1])
        if windows is not None:
            checked = cls(trace_id, span_ms, busy, start)  # the same bounds hold for windows
            busy = checked.windows
        return cls(trace_id, span_ms, busy, start, name)

    @classmethod
    def from_csv(cls, path: str | Path, *, trace_id: str | None = None, **options: Any) -> "Trace":
        """Read one's own telemetry or scheduler log; see `orbittrace_data.csv_logs.read_csv_log`."""
        from .csv_logs import read_csv_log

        return read_csv_log(path, trace_id=trace_id, **options)

    @classmethod
    def from_spot_log(cls, path: str | Path, *, trace_id: str | None = None) -> "Trace":
        """Read a preemption log of spot instances; see `orbittrace_data.spot_logs.read_spot_log`."""
        from .spot_logs import read_spot_log

        return read_spot_log(path, trace_id=trace_id)

    @classmethod
    def from_row(cls, row: Any) -> "Trace":
        """Read one row of the ``traces`` config, as ``load_dataset("orbittrace")`` gives it.

        Parameters
        ----------
        row : mapping, pyarrow.Table or pandas.DataFrame of one row
            In the default, numpy, arrow or pandas format of `datasets`.

        Returns
        -------
        Trace

        Raises
        ------
        TraceError
            If a column is missing or of another kind, or the facts in the row contradict its gaps.
        """
        row = _one_row(row)
        try:
            gaps = np.stack([np.asarray(row["gap_start_ms"]), np.asarray(row["gap_stop_ms"])], axis=1)
            stated = {name: _python(row[name]) for name in ("gap_count", "longest_gap_ms", "duty_cycle")}
            orbit = None
            if row["catalog_number"] is not None:
                facts = {f.name: row[f.name] for f in fields(Orbit) if f.name != "epoch"}
                orbit = Orbit(**facts, epoch=_datetime(row["epoch"]))
            trace = cls(
                trace_id=row["trace_id"],
                span_ms=_python(row["span_ms"]),
                gaps=gaps,
                start=None if row["start"] is None else _datetime(row["start"]),
                name=row["name"],
                regime=row["regime"],
                orbit=orbit,
            )
        except KeyError as missing:
            raise TraceError(
                f"a row of the traces config needs the column {missing}; this one has {sorted(row)}: "
                'load it with load_dataset("orbittrace", "traces")'
            ) from None
        except (TypeError, ValueError) as error:
            if isinstance(error, InputError):
                raise
            raise TraceError(f"this is no row of the traces config: {error}") from None
        true = trace.to_row()
        for name, value in stated.items():
            if value != true[name]:
                raise TraceError(
                    f"trace {trace.trace_id}: {name} says {value}, by the row's own gaps it is {true[name]}: "
                    "it was changed after it was built"
                )
        return trace

    def to_row(self) -> dict[str, Any]:
        """Return the row of the ``traces`` config; orbit columns are None where there is no orbit."""
        facts = {c.name: None if self.orbit is None else getattr(self.orbit, c.name) for c in fields(Orbit)}
        return {
            "trace_id": self.trace_id,
            "name": self.name,
            "regime": self.regime,
            **facts,
            "start": self.start,
            "span_ms": self.span_ms,
            "duty_cycle": round(self.duty_cycle, 9),
            "gap_count": self.gap_count,
            "longest_gap_ms": self.longest_gap_ms,
            "gap_start_ms": self.gaps[:, 0].tolist(),
            "gap_stop_ms": self.gaps[:, 1].tolist(),
        }

    # Planning ---------------------------------------------------------------------------------

    def plan(self, steps: int, **options: Any) -> "Plan":
        """Lay a run of ``steps`` training steps into the windows; see `orbittrace_data.plan.plan_run`."""
        from .plan import plan_run

        return plan_run(self, steps, **options)

    # Identity ---------------------------------------------------------------------------------

    @cached_property
    def digest(self) -> str:
        """sha256 (hex) of what decides a run: the span and the gaps."""
        content = np.concatenate([[self.span_ms], self.gaps.ravel()]).astype("<i8")
        return hashlib.sha256(content.tobytes()).hexdigest()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle what makes a trace, so that a worker's copy is read-only too."""
        return Trace, tuple(getattr(self, f.name) for f in fields(self))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Trace):
            return NotImplemented
        return self.to_row() == other.to_row()

    def __hash__(self) -> int:
        return hash((self.trace_id, self.digest))

    def __repr__(self) -> str:
        start = "" if self.start is None else f" from {self.start.isoformat().replace('+00:00', 'Z')}"
        return (
            f"<Trace {self.trace_id}: {self.span_ms / DAY_MS:.6g} days{start}, "
            f"{self.gap_count} gaps, duty cycle {self.duty_cycle:.4f}>"
        )


def _read_only(array: NDArray[np.int64]) -> NDArray[np.int64]:
    """Copy an array into immutable memory: nobody can make it writable again."""
    return np.frombuffer(np.ascontiguousarray(array, np.int64).tobytes(), np.int64).reshape(array.shape)


def _like(given: ArrayLike, result: NDArray[Any]) -> Any:
    """Give a scalar back for a scalar."""
    return result.item() if np.ndim(given) == 0 else result


def _one_row(row: Any) -> Mapping[str, Any]:
    """Take a table of one row, as the arrow and pandas formats give it, for the row."""
    if not isinstance(row, Mapping):
        rows = None
        if hasattr(row, "to_pylist"):
            rows = row.to_pylist()
        elif hasattr(row, "to_dict"):
            rows = row.to_dict("records")
        if rows is None or len(rows) != 1:
            raise TraceError(
                f"from_row reads one row, got {type(row).__name__}"
                + (f" of {len(rows)} rows" if rows is not None else "")
                + ': give for example load_dataset("orbittrace", split="test")[0]'
            )
        row = rows[0]
    return row


def _python(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _held_to(kind: Any, value: Any, what: str) -> Any:
    """Hold a fact to its kind: a text, a whole or a finite number, or an instant."""
    if kind is datetime:
        return as_instant(value, what)
    value = _python(value)
    if kind is str:
        if not isinstance(value, str):
            raise TraceError(f"{what} must be a text, got {value!r}")
        return value
    number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63
    if not number or kind(value) != value:
        raise TraceError(f"{what} must be a {'whole' if kind is int else 'finite'} number, got {value!r}")
    return kind(value)


def _datetime(value: Any) -> datetime:
    """Read a timestamp as python, numpy or pandas hold it; naive ones are UTC, as parquet says."""
    if isinstance(value, np.datetime64 | np.ndarray) and value.dtype.kind == "M" and value.ndim == 0:
        value = value.astype("datetime64[ms]").item()
    if not isinstance(value, datetime):
        raise TraceError(
            f"a timestamp must be a datetime, got {value!r}: load rows in the default, numpy or arrow format"
        )
    # A pandas.Timestamp is a datetime with nanoseconds: only a plain one is kept.
    value = getattr(value, "to_pydatetime", lambda: value)()
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def as_instant(instant: Any, what: str) -> datetime:
    """Hold an instant to a zone and to whole milliseconds, and return it in UTC.

    Parameters
    ----------
    instant : datetime
    what : str
        The name to use in the error.

    Returns
    -------
    datetime

    Raises
    ------
    TraceError
        For anything else.
    """
    if not isinstance(instant, datetime):
        raise TraceError(
            f"{what} must be a datetime with a time zone, got {instant!r}: "
            "give for example datetime(2024, 9, 23, tzinfo=timezone.utc)"
        )
    if instant.tzinfo is None:
        raise TraceError(
            f"{what}: {instant.isoformat()} has no time zone: add one, for example .replace(tzinfo=timezone.utc)"
        )
    if instant.microsecond % 1000 or getattr(instant, "nanosecond", 0):
        raise TraceError(f"{what}: {instant.isoformat()} is finer than a millisecond: round it")
    try:
        instant = instant.astimezone(UTC)
    except OverflowError:
        raise TraceError(f"{what}: {instant.isoformat()} lies outside the years 1 to 9999 in UTC") from None
    # A pandas.Timestamp is a datetime too: only a plain one is kept.
    return getattr(instant, "to_pydatetime", lambda: instant)()


def unix_ms(instant: datetime) -> int:
    """Return an instant with a zone as Unix milliseconds."""
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // _MILLISECOND


def _to_milliseconds(
    pairs: Any, start: datetime | None, trace_id: str
) -> tuple[NDArray[np.int64], datetime | None]:
    """Turn pairs of datetimes into milliseconds from ``start`` (by default the first of them)."""
    what = f"trace {trace_id}: intervals"
    if isinstance(pairs, np.ndarray) and pairs.dtype.kind in "iu":
        return as_milliseconds(pairs, what), start
    try:
        pairs = [tuple(pair) for pair in pairs]
    except TypeError:
        raise TraceError(f"{what} must be [start, stop) pairs, got {pairs!r}") from None
    instants = [isinstance(instant, datetime) for pair in pairs for instant in pair]
    if not any(instants):
        return as_milliseconds(pairs, what), start
    if not all(instants):
        raise TraceError(f"{what} mix datetimes and milliseconds: use one of them")
    if any(len(pair) != 2 for pair in pairs):
        raise TraceError(f"{what} must be [start, stop) pairs, got {pairs!r}")
    absolute = np.array(
        [[unix_ms(as_instant(instant, what)) for instant in pair] for pair in pairs], np.int64
    )
    origin = min(instant for pair in pairs for instant in pair) if start is None else start
    return absolute - unix_ms(as_instant(origin, f"trace {trace_id}: start")), origin
