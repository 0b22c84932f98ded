"""Several satellites' SGP4 states on coarse grids, gathered into arrays so that NumPy's calls cost little."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sgp4.api import Satrec

from .constants import SGP4_MU_KM3_PER_S2
from .element_set import ElementSet
from .propagation import describe_error, grid, julian_date, satrec, states
from .shadow import Vector

Array = NDArray[np.float64]
Ints = NDArray[np.int64]

NODES_PER_BATCH = 20_000  # fewer satellites a batch cost more calls, more fall out of the cache
WIDEST_TURN = 1.2  # of a cell of an eccentric orbit, at the speed of a circular one [rad]
LOW_KM = 6_530.0  # radius of perigee


@dataclass(frozen=True, eq=False)
class Batch:
    """States of several satellites on their grids, one satellite after the other.

    ``first[i]`` is the first node of satellite i, ``first[-1]`` the number of nodes.
    """

    models: Sequence[Satrec]
    start_ms: int
    first: Ints
    t_s: Array
    r: Vector
    v: Vector

    def satellite_of(self, node: Ints) -> Ints:
        """Say which satellite nodes (or the cells that begin there) belong to."""
        return np.searchsorted(self.first, node, side="right") - 1

    def propagate(self, satellite: Ints, t_s: Array) -> tuple[Vector, Vector]:
        """Run SGP4 for rows sorted by satellite: TEME position and velocity as columns."""
        r, v = np.empty((len(t_s), 3)), np.empty((len(t_s), 3))
        whole, fraction = julian_date(self.start_ms, t_s)
        edges = np.flatnonzero(np.diff(satellite)) + 1
        begins = np.concatenate([[0], edges]).tolist() if len(t_s) else []
        ends = [*edges.tolist(), len(t_s)]
        for begin, end in zip(begins, ends, strict=False):
            model = self.models[int(satellite[begin])]
            _, r[begin:end], v[begin:end] = model.sgp4_array(whole[begin:end], fraction[begin:end])
        return columns(r), columns(v)


def columns(rows: Array) -> Vector:
    """Turn shape (n, 3) into three contiguous arrays."""
    x, y, z = np.ascontiguousarray(rows.T)
    return x, y, z


def batches(
    element_sets: Sequence[ElementSet], start_ms: int, span_ms: int
) -> Iterator[tuple[Ints, Batch | None, Ints, list[str]]]:
    """Propagate satellites to their grids, a few at a time: members, states, known until, reasons."""
    members: list[int] = []
    flights: list[tuple[Satrec, Array, Array, Array]] = []
    ends: list[int] = []
    reasons: list[str] = []
    nodes = 0
    for i, element_set in enumerate(element_sets):
        flight, end, reason = fly(satrec(element_set), start_ms, span_ms)
        members.append(i)
        ends.append(end)
        reasons.append(reason)
        if flight is not None:
            flights.append(flight)
            nodes += len(flight[1])
        if nodes >= NODES_PER_BATCH or i == len(element_sets) - 1:
            yield np.array(members), gather(flights, start_ms), np.array(ends), reasons
            members, flights, ends, reasons, nodes = [], [], [], [], 0


def gather(flights: list[tuple[Satrec, Array, Array, Array]], start_ms: int) -> Batch | None:
    """Join satellites' states; None if there are none."""
    if not flights:
        return None
    models, t_s, r, v = zip(*flights, strict=True)
    first = np.cumsum([0, *map(len, t_s)])
    return Batch(
        models, start_ms, first, np.concatenate(t_s), columns(np.concatenate(r)), columns(np.concatenate(v))
    )


def fly(
    model: Satrec, start_ms: int, span_ms: int, density: int = 1
) -> tuple[tuple[Satrec, Array, Array, Array] | None, int, str]:
    """Propagate one satellite to its grid, or one ``density`` times as dense, as far as SGP4 carries it."""
    end_ms, reason = span_ms, ""
    while end_ms > 0:
        t_s = grid(model, start_ms, end_ms / 1000, density)
        error, r, v = states(model, start_ms, t_s)
        while model.ecco >= 0.03 and not error.any():
            wide = _wide(t_s, r, v)
            if not wide.any():
                break
            t_s = np.sort(np.concatenate([t_s, (t_s[:-1][wide] + t_s[1:][wide]) / 2]))
            error, r, v = states(model, start_ms, t_s)
        if not error.any() and _perigee_km(r, v) < LOW_KM:
            # So low, SGP4 can fail between two nodes, and the orbit shrinks fast.
            t_s = np.append(np.arange(0.0, end_ms / 1000, 60.0), end_ms / 1000)
            error, r, v = states(model, start_ms, t_s)
        if not error.any():
            return (model, t_s, r, v), end_ms, reason
        bad = int(np.argmax(error > 0))
        reason = describe_error(int(error[bad]))
        if bad == 0:
            break
        good_ms, bad_ms = int(t_s[bad - 1] * 1000), int(np.ceil(t_s[bad] * 1000))
        while bad_ms - good_ms > 1:
            middle = (good_ms + bad_ms) // 2
            if states(model, start_ms, np.array([middle / 1000]))[0][0]:
                bad_ms = middle
            else:
                good_ms = middle
        end_ms = min(good_ms, end_ms - 1)
    return None, 0, reason


def _wide(t_s: Array, r: Array, v: Array) -> NDArray[np.bool_]:
    """Say which cells are too long for their polynomial: where the orbit turns too far in one.

    Far from its epoch an eccentric orbit's perigee may pass where the grid is thin.
    """
    step = np.diff(t_s)
    radius = np.sqrt((r * r).sum(axis=1))
    rate = (r * v).sum(axis=1) / radius
    low = np.minimum(
        radius[:-1] + np.minimum(rate[:-1], 0) * step / 2, radius[1:] - np.maximum(rate[1:], 0) * step / 2
    )
    low = np.maximum(low, 6_400.0)
    return step * np.sqrt(SGP4_MU_KM3_PER_S2 / low) / low > WIDEST_TURN


def _perigee_km(r: Array, v: Array) -> float:
    """Give the least radius of the ellipses through states; of the states themselves if those are high."""
    radius2 = r[:, 0] * r[:, 0] + r[:, 1] * r[:, 1] + r[:, 2] * r[:, 2]
    if radius2.min() > (LOW_KM + 300.0) ** 2 and radius2.max() < (LOW_KM + 2_000.0) ** 2:
        return float(np.sqrt(radius2.min()))
    radius, speed2, along = np.sqrt(radius2), (v * v).sum(axis=1), (r * v).sum(axis=1)
    # From energy and angular momentum: a and p = a (1 - e2).
    axis = 1 / (2 / radius - speed2 / SGP4_MU_KM3_PER_S2)
    parameter = (radius2 * speed2 - along * along) / SGP4_MU_KM3_PER_S2
    return float((axis * (1 - np.sqrt(np.maximum(1 - parameter / axis, 0.0)))).min())
