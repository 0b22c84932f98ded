"""A run planned on a forecast and carried out under what happened: late gaps, early ones, outages."""

from bisect import bisect_right
from functools import partial

import numpy as np

from . import intervals
from .plan import (
    NS_PER_MS,
    Plan,
    PlanError,
    control_repeats,
    never_finishes,
    read_only,
    tiled_windows,
)
from .trace import Trace

INFINITE_NS = 2**100


def replay(
    forecast: Trace,
    actual: Trace,
    steps: int,
    cost: tuple[int, int, int, int],
    save_every: int,
    repeat: bool,
) -> Plan:
    """Carry a run out under ``actual`` while it follows ``forecast``; see `orbittrace_data.plan.plan_run`.

    Parameters
    ----------
    forecast, actual : Trace
        Of one length.
    steps : int
    cost : (int, int, int, int)
        Step, save, restore and margin [ns].
    save_every : int
        Steps between saves within a window, 0 for none.
    repeat : bool

    Returns
    -------
    Plan

    Raises
    ------
    PlanError
    """
    if forecast.span_ms != actual.span_ms:
        raise PlanError(
            f"trace {forecast.trace_id} spans {forecast.span_ms} ms and the actual one, {actual.trace_id}, "
            f"{actual.span_ms} ms: crop the longer one"
        )
    run = _Run(steps, cost, save_every)
    if forecast.is_control and actual.is_control and repeat:
        rounds = control_repeats(forecast, run.saved_after(0, steps))
        run.carry_out([(0, rounds * forecast.span_ms * NS_PER_MS, INFINITE_NS)])
        return run.plan(forecast.trace_id, actual.repeat(rounds))
    rounds = 2 if repeat else 1
    while True:
        pieces = _pieces(forecast, actual, rounds, cost[3], repeat)
        half = rounds // 2 * forecast.span_ms * NS_PER_MS
        run = _Run(steps, cost, save_every)
        run.carry_out([piece for piece in pieces if piece[0] < half])
        saved_by_half = run.saved
        run.carry_out([piece for piece in pieces if piece[0] >= half])
        if run.saved == steps:
            return run.plan(forecast.trace_id, actual.repeat(rounds))
        # A whole round after the first that saved nothing is how every later one goes, too.
        if not repeat or (rounds >= 4 and run.saved == saved_by_half):
            raise never_finishes(forecast, steps, run.saved, cost, repeat)
        rounds *= 2


def _pieces(forecast: Trace, actual: Trace, rounds: int, margin_ns: int, repeat: bool):
    """Return (start, stop, deadline) [ns] of each stretch that the forecast offers and that happened.

    The deadline is when, by the forecast, all must be saved. Of a trace that starts over, what touches the
    end of the last round goes on beyond it and is left out.
    """
    starts, stops, open_ended = tiled_windows(forecast, rounds)
    deadlines = stops - margin_ns
    _, actual_stops, actual_open = tiled_windows(actual, rounds)
    both = intervals.intersection(forecast.repeat(rounds).windows, actual.repeat(rounds).windows) * NS_PER_MS
    which = np.searchsorted(starts, both[:, 0], side="right") - 1
    pieces = [
        (int(start), int(stop), int(deadlines[window]))
        for (start, stop), window in zip(both.tolist(), which.tolist(), strict=True)
    ]
    if open_ended:  # the end of the span is no gap
        last = len(stops) - 1
        if repeat and not forecast.is_control:
            return [piece for piece, window in zip(pieces, which, strict=True) if window < last]
        end = INFINITE_NS if repeat else int(stops[last])
        pieces = [
            (start, stop, end if window == last else deadline)
            for (start, stop, deadline), window in zip(pieces, which, strict=True)
        ]
    if repeat and actual_open:
        pieces = [piece for piece in pieces if piece[1] < int(actual_stops[-1])]
    return pieces


class _Run:
    """The state of one run: how many steps are saved, and the windows so far."""

    def __init__(self, steps: int, cost: tuple[int, int, int, int], save_every: int):
        self.steps, self.cost, self.save_every = steps, cost, save_every
        self.saved = 0
        self.windows: list[tuple[int, int, int, int]] = []  # start, stop, first step, steps run

    def steps_take(self, first: int, n: int) -> int:
        """Return when the n-th step of a window that begins with step ``first`` ends [ns]."""
        return n * self.cost[0] + self._saves(first, n - 1) * self.cost[1]

    def saved_after(self, first: int, n: int) -> int:
        """Return when those n steps are saved, if the window ends with them [ns]."""
        return self.steps_take(first, n) + self.cost[1]

    def _saves(self, first: int, n: int) -> int:
        return (first + n) // self.save_every - first // self.save_every if self.save_every else 0

    def carry_out(self, pieces: list[tuple[int, int, int]]) -> None:
        """Train through the pieces until all steps are saved."""
        for start, stop, deadline in pieces:
            if self.saved == self.steps:
                return
            first = self.saved
            begin = start + (self.cost[2] if first else 0)
            left = range(1, self.steps - first + 1)
            planned = bisect_right(left, deadline - begin, key=partial(self.saved_after, first))
            done = bisect_right(left[:planned], stop - begin, key=partial(self.steps_take, first))
            if done == 0:
                continue
            self.windows.append((start, stop, first, done))
            if self.saved_after(first, planned) <= stop - begin:
                self.saved += planned
            elif self.save_every:
                last = (first + done) // self.save_every * self.save_every
                if last > first and self.saved_after(first, last - first) > stop - begin:
                    last -= self.save_every  # that save was cut off
                self.saved = max(first, last)

    def plan(self, trace_id: str, actual: Trace) -> Plan:
        """Lay down what was carried out."""
        start, stop, first, done = (np.array(column, np.int64) for column in zip(*self.windows, strict=True))
        # Unavailable time is the actual trace's: what the forecast alone calls a gap passes as active time.
        gone_ns = start - actual.active_ms(start // NS_PER_MS) * NS_PER_MS
        return Plan(
            trace_id,
            self.steps,
            *self.cost,
            self.save_every,
            read_only(start),
            read_only(stop),
            read_only(first),
            read_only(done),
            read_only(np.diff(gone_ns, prepend=0)),
        )
