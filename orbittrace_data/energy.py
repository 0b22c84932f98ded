"""Availability from energy: a payload that runs while its battery allows.

Time goes in whole milliseconds. In each, the panel yields whole nanojoules (see `orbittrace_data.sunlight`),
the payload runs or does not, and the battery takes the balance: a deficit leaves it as it is, a surplus
enters it times ``charge_efficiency`` until it is full. The battery is counted in femtojoules (a nanojoule
times a millionth of efficiency), so every sum is a Python integer and exact: energy is conserved to the last
unit, and a threshold falls on one millisecond. Rounding the panel's yield down to nanojoules is the only
rounding; it costs under a microwatt.
"""

from bisect import bisect_left
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import cos, radians
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .power_model import PowerModel
from .sunlight import PPM, Piece, ShadowTableError, sunlight
from .trace import Trace

UW_PER_W = 1_000_000
FJ_PER_WH = 3600 * 10**15


@dataclass(frozen=True, eq=False)
class ChargeProfile:
    """The state of charge of one run, and where the energy went.

    The state of charge is exact at its knots and monotone between them (straight but in penumbra). The sums
    are exact integers [fJ]: ``harvested + initial + unmet == load + idle + unstored + final``.

    Parameters
    ----------
    time_ms : ndarray of int64, shape (n,)
        Knots [ms from the trace's start].
    soc : ndarray of float64, shape (n,)
        State of charge at the knots, [0, 1]; all 0 without a battery.
    harvested_fj, load_fj, idle_fj : int
        What the panel yielded, the payload drew while it ran, and the bus while it did not.
    unstored_fj : int
        Surplus that did not arrive in the battery: lost in charging, or refused when full.
    unmet_fj : int
        What the bus asked of an empty battery.
    initial_fj, final_fj : int
        The battery at the two ends.
    """

    time_ms: NDArray[np.int64]
    soc: NDArray[np.float64]
    harvested_fj: int
    load_fj: int
    idle_fj: int
    unstored_fj: int
    unmet_fj: int
    initial_fj: int
    final_fj: int

    def at(self, t_ms: Any) -> Any:
        """Return the state of charge at times [ms], interpolated between knots."""
        return np.interp(np.asarray(t_ms, np.int64), self.time_ms, self.soc)


def energy_trace(
    trace: Trace, shadows: Mapping[str, Any] | Any, model: PowerModel
) -> tuple[Trace, ChargeProfile]:
    """Find when a payload can run on one satellite's sunlight.

    The payload runs on until a millisecond would leave the battery below ``min_soc``, and again from the
    first at which it holds ``resume_soc``. Without a battery it runs whenever the panel alone carries it:
    with ``panel_w = 2 * load_w`` that is the sunlight trace itself.

    Parameters
    ----------
    trace : Trace
        Gives the span, the date and the names; its own gaps are not used.
    shadows : mapping of columns
        As for `sunlight`; where there is a column ``trace_id``, the rows of this trace are taken.
    model : PowerModel

    Returns
    -------
    (Trace, ChargeProfile)

    Raises
    ------
    ShadowTableError

    Notes
    -----
    A heavier load does not always mean less availability: it may pause at a luckier time, and what it eats
    at once is not taxed by charging. What does hold, for loads L1 < L2 and all else equal:

    1. Without a battery the windows of L2 lie within those of L1.
    2. L1's first gap starts no earlier than L2's; where L2 never pauses, L1 never does.
    3. If L1 - idle <= charge_efficiency * (L2 - idle), then L2 has run at most
       (resume_soc - min_soc) * battery / (L1 - idle), and one millisecond, longer than L1 up to any instant
       before battery 1 is first full and battery 2 first empty. Proof: let k be by how many milliseconds 1
       has run longer, and E the charges. E1 >= E2 - k (L1 - idle) survives each millisecond, whoever runs
       in it; and where 2 runs while 1 waits, E1 < resume_soc and E2 >= min_soc.

    Examples
    --------
    >>> night = {"occluder": ["earth"] * 3, "depth": ["penumbra", "half", "umbra"], "start_ms": [40_000] * 3,
    ...          "stop_ms": [90_000] * 3, "max_obscuration": [1.0, None, None]}
    >>> model = PowerModel(panel_w=100, battery_wh=1, load_w=50, idle_w=10, charge_efficiency=1)
    >>> energy, profile = energy_trace(Trace("demo", 120_000, []), night, model)
    >>> energy.gaps.tolist(), profile.at([40_000, 61_600]).tolist()
    ([[61600, 101156]], [1.0, 0.7])
    """
    pieces = sunlight(_rows(shadows, trace), trace.span_ms)
    run = _Run(model)
    for piece in pieces:
        run.advance(piece)
    if not run.on:
        run.gaps.append((run.off_since, trace.span_ms))
    capacity = run.capacity or 1
    profile = ChargeProfile(
        np.array([t for t, _ in run.knots], np.int64),
        np.array([float(Fraction(stored, capacity)) for _, stored in run.knots]),
        harvested_fj=run.harvested * PPM,
        load_fj=run.load_used * PPM,
        idle_fj=run.idle_used * PPM,
        unstored_fj=run.unstored,
        unmet_fj=run.unmet,
        initial_fj=run.initial,
        final_fj=run.stored,
    )
    energy = replace(
        trace,
        trace_id=f"{trace.trace_id}@{model.name}",
        name=f"{trace.name or trace.trace_id} on {model.name}",
        gaps=np.array(run.gaps, np.int64).reshape(-1, 2),
    )
    return energy, profile


def _rows(shadows: Mapping[str, Any] | Any, trace: Trace) -> dict[str, NDArray[Any]]:
    """Take the columns that matter, and of a table of many traces the rows of one."""
    wanted = ("occluder", "depth", "start_ms", "stop_ms", "max_obscuration")
    columns = {name: _column(shadows[name]) for name in wanted}
    names = shadows if isinstance(shadows, Mapping) else getattr(shadows, "column_names", ())
    if "trace_id" in names:
        mine = _column(shadows["trace_id"]) == trace.trace_id
        if trace.gap_count and not mine.any():
            raise ShadowTableError(
                f"the shadows have no row of {trace.trace_id}, which has gaps: give the trace that they belong to"
            )
        columns = {name: column[mine] for name, column in columns.items()}
    return columns


def _column(column: Any) -> NDArray[Any]:
    # pyarrow's own way to NumPy imports pandas, for half a second.
    return np.asarray(column.to_pylist() if hasattr(column, "to_pylist") else column)


@dataclass
class _Run:
    """The state of one simulation: the battery [fJ], the switch, and the sums."""

    model: PowerModel
    on: bool = False
    stored: int = 0
    initial: int = 0
    off_since: int = 0
    gaps: list[tuple[int, int]] = field(default_factory=list)
    knots: list[tuple[int, int]] = field(default_factory=list)
    harvested: int = 0  # nJ, as the next two
    load_used: int = 0
    idle_used: int = 0
    unstored: int = 0  # fJ, as the next
    unmet: int = 0

    def __post_init__(self):
        m = self.model
        self.panel = round(m.panel_w * cos(radians(m.sun_angle_deg)) * UW_PER_W)
        self.load, self.idle = round(m.load_w * UW_PER_W), round(m.idle_w * UW_PER_W)
        self.efficiency = round(m.charge_efficiency * PPM)
        self.capacity = round(Fraction(str(m.battery_wh)) * FJ_PER_WH)  # as written: 0.7 is 7/10
        self.floor, self.resume, self.initial = (
            round(Fraction(str(soc)) * self.capacity) for soc in (m.min_soc, m.resume_soc, m.initial_soc)
        )
        self.stored = self.initial
        self.on = self.stored >= self.floor
        self.knots.append((0, self.stored))

    def advance(self, piece: Piece) -> None:
        """Live through one straight piece of sunlight."""
        at, end = 0, piece.length_ms
        while at < end:
            # Up to `stop`, the panel stays on one side of the load and of the bus.
            stop = min(self._crossing(piece, at, self.load), self._crossing(piece, at, self.idle))
            carries_load = piece.harvest(at, self.panel) >= self.load
            if self.on:
                n = self._runs(piece, at, stop, carries_load)
                self._spend(piece, at, n, self.load)
                self.load_used += n * self.load
                if n < stop - at:
                    self.on, self.off_since = False, piece.start_ms + at + n
            elif self.stored >= self.resume and (self.capacity or carries_load):
                n, self.on = 0, True
                if self.off_since < piece.start_ms + at:
                    self.gaps.append((self.off_since, piece.start_ms + at))
            else:
                n = self._waits(piece, at, stop)
                self._spend(piece, at, n, self.idle)
                self.idle_used += n * self.idle
            at += n
            if n:
                self.knots.append((piece.start_ms + at, self.stored))

    def _crossing(self, piece: Piece, at: int, level: int) -> int:
        """Return the first millisecond after ``at`` where the (monotone) yield changes sides of a level."""
        above = piece.harvest(at, self.panel) >= level

        def changed(i: int) -> bool:
            return (piece.harvest(i, self.panel) >= level) != above

        return _first(changed, at, piece.length_ms)

    def _runs(self, piece: Piece, at: int, stop: int, carries_load: bool) -> int:
        """Return for how many milliseconds the payload can run on."""
        if carries_load:
            return stop - at

        def short(n: int) -> bool:
            deficit = n * self.load - piece.total(at, n, self.panel)
            return self.stored - deficit * PPM < self.floor

        return _first(short, 1, stop - at + 1) - 1

    def _waits(self, piece: Piece, at: int, stop: int) -> int:
        """Return how many milliseconds pass before the battery holds enough, at most to ``stop``."""
        if self.stored >= self.resume or piece.harvest(at, self.panel) < self.idle:
            return stop - at

        def full(n: int) -> bool:
            surplus = piece.total(at, n, self.panel) - n * self.idle
            return self.stored + surplus * self.efficiency >= self.resume

        return min(_first(full, 1, stop - at + 1), stop - at)

    def _spend(self, piece: Piece, at: int, n: int, draw: int) -> None:
        """Let n milliseconds of one sign pass, drawing ``draw`` [uW]."""
        yielded = piece.total(at, n, self.panel)
        self.harvested += yielded
        balance = yielded - n * draw
        if balance >= 0:
            before = self.stored
            self.stored = min(self.capacity, before + balance * self.efficiency)
            self.unstored += balance * PPM - (self.stored - before)
        else:
            short = -balance * PPM
            self.unmet += max(0, short - self.stored)
            self.stored = max(0, self.stored - short)


def _first(holds: Callable[[int], bool], start: int, stop: int) -> int:
    """Return the first number in [start, stop) from which on a condition holds, else ``stop``."""
    if not holds(stop - 1):  # most pieces cross nothing
        return stop
    return bisect_left(range(stop), True, lo=start, key=holds)
