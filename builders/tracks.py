"""How each satellite moves past an occluder between its SGP4 states.

A few states a revolution carry a degree-seven polynomial in each cell, since positions, velocities and the
main part of the force give three derivatives at both ends. It stays within metres of SGP4 in low orbits.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .batches import Array, Batch, Ints
from .interpolation import septic, value, value_and_slopes
from .shadow import Occluder, Vector

SAG_KM = 500.0  # how far the shadow's axis can be below the chord between two hourly distances, amply


@dataclass(frozen=True, eq=False)
class Track:
    """How satellites move past an occluder along cells of their grids.

    ``cell`` numbers the node at each cell's left end; ``joined[k]`` says that cell k + 1 goes on where cell k
    ends.
    """

    occluder: Occluder
    cell: Ints
    valid: NDArray[np.bool_]
    joined: NDArray[np.bool_]
    start_s: Array
    step_s: Array


@dataclass(frozen=True, eq=False)
class EarthTrack(Track):
    """Polynomials of x and q; ``right`` holds both at the cells' right ends."""

    x: list[Array]
    q: list[Array]
    sun: Array
    right: tuple[Array, Array]

    def samples(self, parts: int) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Give x, q and the Sun's distance at equal parts of all cells: which of them, and shape (n, cells)."""
        for j in range(parts):
            yield (
                slice(j, j + 1),
                value(self.x, j / parts)[None],
                value(self.q, j / parts)[None],
                self.sun[None],
            )
        yield slice(parts, parts + 1), self.right[0][None], self.right[1][None], self.sun[None]

    def at(self, k: Ints, u: Array) -> tuple[Array, Array, Array]:
        """Give x, q and the Sun's distance at the fractions u of cells k."""
        x, q = (value([c.take(k) for c in polynomial], u) for polynomial in (self.x, self.q))
        return x, q, self.sun.take(k)

    def rates(self, k: Ints, u: Array) -> tuple[Sequence[Array], Sequence[Array], Array]:
        """Give x and q with two derivatives in u, and the Sun's distance."""
        x, q = (value_and_slopes([c.take(k) for c in polynomial], u) for polynomial in (self.x, self.q))
        return x, q, self.sun.take(k)


@dataclass(frozen=True, eq=False)
class MoonTrack(Track):
    """Polynomials of the satellites' places.

    Polynomials of x and q would not do: next to the Moon's distance the distance from the axis of its shadow is
    small, and would drown in the difference of the two.
    """

    start_ms: int
    place: list[list[Array]]
    right: tuple[Array, Vector]

    def samples(self, parts: int) -> Iterator[tuple[slice, Array, Array, Array]]:
        """Give x, q and the Sun's distance at equal parts of all cells: which of them, and shape (n, cells)."""
        u = np.arange(parts)[:, None] / parts
        t_right, r_right = self.right
        t_s = np.concatenate([self.start_s + u * self.step_s, t_right[None]])
        r = _vector(np.concatenate([value(c, u), e[None]]) for c, e in zip(self.place, r_right, strict=True))
        yield slice(0, parts + 1), *self._see(t_s, r)

    def at(self, k: Ints, u: Array) -> tuple[Array, Array, Array]:
        """Give x, q and the Sun's distance at the fractions u of cells k."""
        t_s = self.start_s[k] + u * self.step_s[k]
        return self._see(t_s, _vector(value([c.take(k) for c in component], u) for component in self.place))

    def rates(self, k: Ints, u: Array) -> tuple[Sequence[Array], Sequence[Array], Array]:
        """Give x and q with two derivatives in u, and the Sun's distance."""
        step = self.step_s[k]
        over = 1 / step
        components = [value_and_slopes([c.take(k) for c in component], u) for component in self.place]
        r, v, a = (
            _vector(derivatives[order] * over**order for derivatives in components) for order in range(3)
        )
        x, q, sun = self.occluder.motion(self.start_ms, self.start_s[k] + u * step, r, v, a)
        return [x[0], x[1] * step, x[2] * step * step], [q[0], q[1] * step, q[2] * step * step], sun

    def _see(self, t_s: Array, r: Vector) -> tuple[Array, Array, Array]:
        still = _vector(np.zeros_like(t_s) for _ in range(3))
        x, q, sun = self.occluder.motion(self.start_ms, t_s, r, still, still)
        return x[0], q[0], sun


def _vector(components: Iterable[Array]) -> Vector:
    x, y, z = components
    return x, y, z


def earth_track(batch: Batch, occluder: Occluder, force: tuple[Vector, Vector]) -> EarthTrack:
    """Make the Earth's track over all cells of a batch."""
    x, q, sun = occluder.motion(batch.start_ms, batch.t_s, batch.r, batch.v, *force)
    step = np.diff(batch.t_s)
    valid = np.ones(len(step), bool)
    valid[batch.first[1:-1] - 1] = False
    step[~valid] = 1.0
    return EarthTrack(
        occluder,
        np.arange(len(step)),
        valid,
        valid[:-1] & valid[1:],
        batch.t_s[:-1],
        step,
        septic(step, [p[:-1] for p in x], [p[1:] for p in x]),
        septic(step, [p[:-1] for p in q], [p[1:] for p in q]),
        sun[:-1],
        (x[0][1:], q[0][1:]),
    )


def moon_track(batch: Batch, occluder: Occluder, force: tuple[Vector, Vector]) -> MoonTrack | None:
    """Make the Moon's track over the cells that its shadow can touch; None where there are none.

    The axis of the shadow passes the Earth's centre at a known distance; a satellite is within its own
    radius of that centre.
    """
    cell = _cells_near_moon(batch, occluder)
    if not len(cell):
        return None
    left, right = (
        [[vector[i][node] for vector in (batch.r, batch.v, *force)] for i in range(3)]
        for node in (cell, cell + 1)
    )
    start_s, stop_s = batch.t_s[cell], batch.t_s[cell + 1]
    return MoonTrack(
        occluder,
        cell,
        np.ones(len(cell), bool),
        np.diff(cell) == 1,
        start_s,
        stop_s - start_s,
        batch.start_ms,
        [septic(stop_s - start_s, a, b) for a, b in zip(left, right, strict=True)],
        (stop_s, _vector(component[0] for component in right)),
    )


def _cells_near_moon(batch: Batch, occluder: Occluder) -> Ints:
    centre, sun = occluder.centre, occluder.sun
    if centre is None:
        return np.empty(0, np.int64)
    offset_s = (batch.start_ms - 1000 * centre.first_s) / 1000.0
    m = [centre.coefficients[0, i] for i in range(3)]
    d = [sun.coefficients[0, i] for i in range(3)]
    along = m[0] * d[0] + m[1] * d[1] + m[2] * d[2]
    miss = np.sqrt(np.maximum(m[0] * m[0] + m[1] * m[1] + m[2] * m[2] - along * along, 0.0))
    miss = np.where(along > -1e5, miss, np.inf)  # a Moon far behind the Earth shades what is farther still
    miss -= SAG_KM
    reach = np.sqrt(batch.r[0] * batch.r[0] + batch.r[1] * batch.r[1] + batch.r[2] * batch.r[2])
    begin, end = batch.first[:-1], batch.first[1:]
    reach = np.maximum.reduceat(reach, begin) * 1.02
    if miss.min() > reach.max() * 1.005 + 4_000:
        return np.empty(0, np.int64)
    limit = reach * 1.005 + 4_000  # the penumbra's radius at the Earth is 3,600 km
    limit[reach > 250_000] = np.inf
    miss[np.isinf(miss)] = 1e12
    found = []
    for i in np.flatnonzero(limit > miss.min()).tolist():
        close = np.concatenate([[0], np.cumsum(miss < limit[i])])
        t = batch.t_s[begin[i] : end[i]]
        low = np.clip(((t[:-1] + offset_s) / centre.step_s).astype(np.int64), 0, len(miss) - 1)
        high = np.clip(((t[1:] + offset_s) / centre.step_s).astype(np.int64) + 1, 0, len(miss) - 1)
        found.append(begin[i] + np.flatnonzero(close[high + 1] > close[low]))
    return np.concatenate(found) if found else np.empty(0, np.int64)
