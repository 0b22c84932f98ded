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
from .passages import Passages
from .propagation import acceleration_and_jerk
from .shadow import Occluder, Vector


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

    def samples(self, parts: int) -> Iterator[tuple[Array, Array, Array]]:
        """Give all cells' x, q and Sun's distance where equal parts of them begin, and at their right ends."""
        for j in range(parts):
            yield value(self.x, j / parts), value(self.q, j / parts), self.sun
        yield *self.right, self.sun

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

    def samples(self, parts: int) -> Iterator[tuple[Array, Array, Array]]:
        """Give all cells' x, q and Sun's distance where equal parts of them begin, and at their right ends."""
        for j in range(parts):
            yield self.occluder.place(
                self.start_ms,
                self.start_s + j / parts * self.step_s,
                _vector(value(component, j / parts) for component in self.place),
            )
        yield self.occluder.place(self.start_ms, *self.right)

    def at(self, k: Ints, u: Array) -> tuple[Array, Array, Array]:
        """Give x, q and the Sun's distance at the fractions u of cells k."""
        t_s = self.start_s[k] + u * self.step_s[k]
        return self.occluder.place(
            self.start_ms, t_s, _vector(value([c.take(k) for c in component], u) for component in self.place)
        )

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


def _vector(components: Iterable[Array]) -> Vector:
    x, y, z = components
    return x, y, z


def earth_track(batch: Batch, earth: Occluder) -> EarthTrack:
    """Make the Earth's track over all cells of a batch."""
    force = acceleration_and_jerk(*batch.r, *batch.v)
    x, q, sun = earth.motion(batch.start_ms, batch.t_s, batch.r, batch.v, *force)
    step = np.diff(batch.t_s)
    valid = np.ones(len(step), bool)
    valid[batch.first[1:-1] - 1] = False
    step[~valid] = 1.0
    return EarthTrack(
        earth,
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


def moon_track(passages: Passages, moon: Occluder) -> MoonTrack:
    """Make the Moon's track over the cells that its shadow may touch."""
    cell = passages.cell
    force = acceleration_and_jerk(*passages.r, *passages.v)
    left, right = (
        [[vector[i][node] for vector in (passages.r, passages.v, *force)] for i in range(3)]
        for node in (cell, cell + 1)
    )
    start_s, stop_s = passages.t_s[cell], passages.t_s[cell + 1]
    return MoonTrack(
        moon,
        cell,
        np.ones(len(cell), bool),
        np.diff(cell) == 1,
        start_s,
        stop_s - start_s,
        passages.start_ms,
        [septic(stop_s - start_s, a, b) for a, b in zip(left, right, strict=True)],
        (stop_s, _vector(component[0] for component in right)),
    )
