"""Shadows of the Earth and the Moon: model choices, signed distances to their boundaries, obscuration.

All of it needs three numbers of a satellite: ``x``, how far it is behind the occluder's centre along the
axis away from the Sun [km]; ``q``, its squared distance from that centre [km2]; and ``sun``, the distance
of the Sun from the centre [km]. The oblate Earth is a sphere after stretching z by 1 / (1 - f) for
satellite and Sun alike.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import InputError
from .constants import EARTH_FLATTENING, EARTH_RADIUS_KM, MOON_RADIUS_KM, SUN_RADIUS_KM
from .sun_moon import MOON_STEP_S, SUN_STEP_S, Table, knots, moon_teme, sun_teme, table

Array = NDArray[np.float64]
Vector = tuple[Array, ...]


class ShadowModelError(InputError):
    """A model choice that is not offered."""


@dataclass(frozen=True)
class ShadowModel:
    """The named choices of the shadow model; a release's manifest records them.

    Parameters
    ----------
    earth : {"oblate", "sphere"}
        WGS 84 ellipsoid by axis scaling, or a sphere.
    earth_radius_km : float
        Equatorial radius [km].
    atmosphere_km : float
        Height of air that is taken as opaque [km].
    cone : {"cone", "cylinder"}
        The Sun as a disc, or as a point infinitely far away (all depths then coincide).
    moon : bool
        Whether the Moon casts a shadow too.
    min_sunlight : float
        A gap begins where less than this fraction of the solar disc is visible, in (0, 1].
    """

    earth: Literal["oblate", "sphere"] = "oblate"
    earth_radius_km: float = EARTH_RADIUS_KM
    atmosphere_km: float = 0.0
    cone: Literal["cone", "cylinder"] = "cone"
    moon: bool = True
    min_sunlight: float = 0.5

    def __post_init__(self) -> None:
        if self.earth not in ("oblate", "sphere"):
            raise ShadowModelError(f"earth must be 'oblate' or 'sphere', got {self.earth!r}")
        if self.cone not in ("cone", "cylinder"):
            raise ShadowModelError(f"cone must be 'cone' or 'cylinder', got {self.cone!r}")
        if not 6_000 <= self.earth_radius_km <= 7_000:
            raise ShadowModelError(f"earth_radius_km must lie in [6000, 7000], got {self.earth_radius_km!r}")
        if not 0 <= self.atmosphere_km <= 200:
            raise ShadowModelError(f"atmosphere_km must lie in [0, 200], got {self.atmosphere_km!r}")
        if not 0 < self.min_sunlight <= 1:
            raise ShadowModelError(
                "min_sunlight must lie in (0, 1], the visible fraction of the solar disc; "
                f"got {self.min_sunlight!r}"
            )


@dataclass(frozen=True)
class Depth:
    """A boundary of the shadow: where more than ``hidden`` of the solar disc is covered.

    ``hidden`` is 0 for the penumbra and 1 for the umbra.
    """

    name: str
    hidden: float


def depths(model: ShadowModel) -> tuple[Depth, ...]:
    """List the boundaries that a model asks for, "gap" only where it is none of the others."""
    named = (Depth("penumbra", 0.0), Depth("half", 0.5), Depth("umbra", 1.0))
    return named if model.min_sunlight == 0.5 else (*named, Depth("gap", 1.0 - model.min_sunlight))


@dataclass(frozen=True, eq=False)
class Occluder:
    """A body that casts a shadow: its size and where it and the Sun are.

    ``sun`` tabulates the unit vector from its centre to the Sun and the distance [km], in stretched
    space; ``centre`` its place in TEME [km], None for the Earth.
    """

    name: Literal["earth", "moon"]
    radius_km: float
    stretch: float
    cylinder: bool
    sun: Table
    centre: Table | None

    def place(self, start_ms: int, t_s: Array, r: Vector) -> tuple[Array, Array, Array]:
        """Give x, q and the Sun's distance alone, the same bits as `motion` gives."""
        sx, sy, sz, sun = self.sun.at(start_ms, t_s, order=0)[0]
        if self.centre is not None:
            r = tuple(p - c for p, c in zip(r, self.centre.at(start_ms, t_s, order=0)[0], strict=True))
        rx, ry, rz = r
        if self.stretch != 1.0:
            rz = self.stretch * rz
        return -(rx * sx + ry * sy + rz * sz), rx * rx + ry * ry + rz * rz, sun

    def motion(
        self, start_ms: int, t_s: Array, r: Vector, v: Vector, a: Vector, jerk: Vector | None = None
    ) -> tuple[list[Array], list[Array], Array]:
        """Give x and q, their time derivatives, and the Sun's distance.

        Parameters
        ----------
        start_ms : int
            The instant of t = 0 [ms since 1970].
        t_s : ndarray, shape (n,)
            [s]
        r, v, a, jerk : tuple of three ndarray, shape (n,)
            TEME position and its derivatives [km, s].

        Returns
        -------
        x, q : list of ndarray, shape (n,)
            Value, first and second derivative, and with ``jerk`` the third.
        sun : ndarray, shape (n,)
            [km]
        """
        # The Moon is so far that the turning of the axis counts twice.
        toward_sun = self.sun.at(start_ms, t_s, order=1 if self.centre is None else 2)
        (sx, sy, sz, sun), (dx, dy, dz, _) = toward_sun[:2]
        if self.centre is not None:
            place, speed, pull = self.centre.at(start_ms, t_s, order=2)
            r = tuple(p - c for p, c in zip(r, place, strict=True))
            v = tuple(p - c for p, c in zip(v, speed, strict=True))
            a = tuple(p - c for p, c in zip(a, pull, strict=True))
        k = self.stretch
        (rx, ry, rz), (vx, vy, vz), (ax, ay, az) = r, v, a
        if k != 1.0:
            rz, vz, az = k * rz, k * vz, k * az
        x = [
            -(rx * sx + ry * sy + rz * sz),
            -(vx * sx + vy * sy + vz * sz + rx * dx + ry * dy + rz * dz),
            -(ax * sx + ay * sy + az * sz + 2 * (vx * dx + vy * dy + vz * dz)),
        ]
        q = [
            rx * rx + ry * ry + rz * rz,
            2 * (rx * vx + ry * vy + rz * vz),
            2 * (vx * vx + vy * vy + vz * vz + rx * ax + ry * ay + rz * az),
        ]
        if self.centre is not None:
            bx, by, bz, _ = toward_sun[2]
            x[2] -= rx * bx + ry * by + rz * bz
        if jerk is not None:
            jx, jy, jz = jerk[0], jerk[1], k * jerk[2]
            x.append(-(jx * sx + jy * sy + jz * sz + 3 * (ax * dx + ay * dy + az * dz)))
            if self.centre is not None:
                x[3] -= 3 * (vx * bx + vy * by + vz * bz)
            q.append(6 * (vx * ax + vy * ay + vz * az) + 2 * (rx * jx + ry * jy + rz * jz))
        return x, q, sun


@lru_cache(maxsize=16)
def occluders(model: ShadowModel, start_ms: int, span_ms: int) -> tuple[Occluder, ...]:
    """Tabulate the Sun and the Moon over a span, once for all satellites: the Earth, then the Moon."""
    cylinder = model.cone == "cylinder"
    stretch = 1 / (1 - EARTH_FLATTENING) if model.earth == "oblate" else 1.0
    k = knots(start_ms, span_ms, SUN_STEP_S)
    sun = sun_teme(k) * [1.0, 1.0, stretch]
    radius = model.earth_radius_km + model.atmosphere_km
    found = [Occluder("earth", radius, stretch, cylinder, table(k, _unit_and_length(sun)), None)]
    if model.moon:
        k = knots(start_ms, span_ms, MOON_STEP_S)
        moon = moon_teme(k)
        sun = _unit_and_length(sun_teme(k) - moon)
        found.append(Occluder("moon", MOON_RADIUS_KM, 1.0, cylinder, table(k, sun), table(k, moon)))
    return tuple(found)


def _unit_and_length(vectors: Array) -> Array:
    length = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return np.concatenate([vectors / length, length], axis=-1)


def hidden_fraction(c: Array, a: Array, b: Array) -> Array:
    """Give the fraction of the solar disc that another disc covers (planar overlap of two circles).

    Parameters
    ----------
    c : ndarray
        Separation of the centres.
    a, b : ndarray
        Radius of the Sun's disc and of the other, in the same unit.

    Returns
    -------
    ndarray
        In [0, 1] (Montenbruck & Gill 2000, section 3.4.2).

    Examples
    --------
    >>> float(hidden_fraction(np.array(0.0), np.array(1.0), np.array(0.5)))
    0.25
    """
    a, b, c = np.broadcast_arrays(np.asarray(a, float), b, c)
    touching = (c > np.abs(a - b)) & (c < a + b)
    inside = np.minimum(1.0, (b / a) ** 2)
    safe = np.where(touching, c, np.maximum(a, b))
    part = _overlap(safe / a, b / a)[0]
    return np.where(touching, np.minimum(part, inside), np.where(c < a + b, inside, 0.0))


def _overlap(u: Array, w: Array) -> tuple[Array, Array]:
    """Give the covered fraction and the half chord, for separation u and radius w in solar radii."""
    foot = ((u - w) * (u + w) + 1.0) / (2 * u)  # of the common chord, from the Sun's centre
    chord = np.sqrt(np.maximum(1.0 - foot * foot, 0.0))
    # arctan2 and not arccos: the other disc can be hundreds of times the larger.
    lens = np.arctan2(chord, foot) + w * w * np.arctan2(chord, u - foot) - u * chord
    return lens / np.pi, chord


@lru_cache(maxsize=64)
def _straight_limb(hidden: float) -> float:
    """Distance, in solar radii, of a straight edge from the Sun's centre when it covers ``hidden``."""
    low, high = -1.0, 1.0
    for _ in range(60):
        d = (low + high) / 2
        if np.arccos(d) - d * np.sqrt(1 - d * d) > np.pi * hidden:
            low = d
        else:
            high = d
    return (low + high) / 2


_ROUNDS = 14
_LARGE_DISC = 12.0  # from here on a limb is straight enough for the expansion that starts the solution


def separation_excess(w: Array, hidden: float, exact: bool = True) -> Array:
    """Solve for the separation at which a disc covers a given part of the Sun's, less the disc's radius.

    Parameters
    ----------
    w : ndarray, shape (n,)
        Radius of the covering disc [solar radii].
    hidden : float
        Covered fraction, in (0, 1).
    exact : bool
        False to take an expansion in 1 / w where w is large, a table elsewhere: 1e-5 solar radii from the truth.

    Returns
    -------
    ndarray, shape (n,)
        Separation - w [solar radii]; NaN where the disc is too small to cover so much.
    """
    d = _straight_limb(hidden)
    excess = d - (1 - d * d) / (6 * w)
    large = (w > _LARGE_DISC) & (0.05 <= hidden <= 0.95)
    every = bool(large.all())
    if exact and (every or large.any()):
        wl, start = (w, excess) if every else (w[large], excess[large])
        for _ in range(1 if hidden == 0.5 else 3):  # half the disc starts within 1e-5 and converges at once
            part, chord = _overlap(wl + start, wl)
            start = start + (part - hidden) * np.pi / (2 * chord)
        if every:
            return start
        excess[large] = start
    if not every:
        solve = _bracketed_excess if exact else _tabulated_excess
        excess[~large] = solve(w[~large], hidden)
    return excess


@lru_cache(maxsize=16)
def _excess_table(hidden: float) -> tuple[Array, Array]:
    """Tabulate the excess from the smallest disc that can cover so much: dense there, where it is steep."""
    least = np.sqrt(hidden)
    w = least + (1.01 * _LARGE_DISC - least) * np.linspace(1e-6, 1.0, 4096) ** 2
    return w, _bracketed_excess(w, hidden)


def _tabulated_excess(w: Array, hidden: float) -> Array:
    """Look the excess up: good to 1e-6 solar radii, several metres at the Moon."""
    if hidden < 0.05 or hidden > 0.95:
        return _bracketed_excess(w, hidden)
    return np.interp(w, *_excess_table(hidden), left=np.nan)


def _bracketed_excess(w: Array, hidden: float) -> Array:
    """Solve where no expansion holds: Newton steps within a shrinking bracket, always as many."""
    low, high = np.abs(w - 1) - w, np.ones_like(w)
    middle = (low + high) / 2
    for _ in range(_ROUNDS if 0.05 <= hidden <= 0.95 else 60):
        part, chord = _overlap(np.maximum(middle + w, 1e-300), w)
        more = part > hidden
        low, high = np.where(more, middle, low), np.where(more, high, middle)
        new = middle + (part - hidden) * np.pi / (2 * np.maximum(chord, 1e-9))
        middle = np.where((new >= low) & (new <= high), new, (low + high) / 2)
    return np.where(np.minimum(1.0, w * w) > hidden, middle, np.nan)


def _excess_slope(w: Array, excess: Array) -> Array:
    """Give the derivative of the excess in w: the other disc's arc within the Sun's over the chord, less 1."""
    u = w + excess
    foot = (excess * (u + w) + 1.0) / (2 * u)
    chord = np.sqrt(np.maximum(1.0 - foot * foot, 1e-18))
    return w * np.arctan2(chord, u - foot) / chord - 1.0


def cylinder_distance(occluder: Occluder, x: Array, q: Array) -> Array:
    """Give the distance to the shadow of a point Sun, infinitely far: negative inside [km].

    On the Sun's side of the occluder (x <= 0) the distance from the axis gives way to that from the centre, so the
    function and its derivative are continuous and it stays positive there.
    """
    return _from_axis(x, q) - occluder.radius_km


def _from_axis(x: Array, q: Array) -> Array:
    return np.sqrt(np.where(x > 0, np.maximum(q - x * x, 0.0), q))


def signed_distances(
    occluder: Occluder, wanted: Sequence[Depth], x: Array, q: Array, sun: Array
) -> list[Array]:
    """Give the distances to boundaries, negative inside: values alone, cheap, for bracketing contacts.

    They stay positive on the Sun's side, as `cylinder_distance` does.

    Parameters
    ----------
    occluder : Occluder
    wanted : sequence of Depth
    x, q, sun : ndarray, shape (n,)
        As `Occluder.motion` gives them.

    Returns
    -------
    list of ndarray, shape (n,)
        [km], one for each depth. Between penumbra and umbra, 50 m from the truth.
    """
    big = occluder.radius_km
    rho = _from_axis(x, q)
    if occluder.cylinder:
        return [rho - big for _ in wanted]
    found = []
    for depth in wanted:
        if depth.hidden in (0.0, 1.0):
            sine = _cone_numerator(occluder, depth) / sun
            found.append(rho * (1 - sine * sine / 2) + (x * sine - big))
            continue
        # A ray to the Sun's centre passes the occluder's at p = rho sun / |sight|; the boundary is
        # where p = R + (a d) T - (1 - d2) a2 q / (6 R), for a straight limb's d and the tangent's length T.
        solar, d = SUN_RADIUS_KM / sun, _straight_limb(depth.hidden)
        edge = big - ((1 - d * d) / (6 * big)) * (solar * solar) * q
        if d != 0.0:
            edge = edge + d * solar * np.sqrt(np.maximum(q - big * big, 0.0))
        distance = rho * (1 - x / sun) - edge
        small = q * solar * solar > (big / _LARGE_DISC) ** 2
        if small.any():
            distance[small] = _partial_distance(occluder, depth, rho[small], x[small], q[small], sun[small])
        found.append(distance)
    return found


def _cone_numerator(occluder: Occluder, depth: Depth) -> float:
    """Give the sine of a cone's half-angle times the Sun's distance, signed as its distance grows with x."""
    if depth.hidden == 0.0:
        return -(SUN_RADIUS_KM + occluder.radius_km)
    return SUN_RADIUS_KM - occluder.radius_km


def _partial_distance(occluder: Occluder, depth: Depth, rho: Array, x: Array, q: Array, sun: Array) -> Array:
    big = occluder.radius_km
    sight = np.sqrt(sun * sun + 2 * sun * x + q)
    solar = SUN_RADIUS_KM / sight
    disc = np.arcsin(np.minimum(big / np.sqrt(q), 1.0))
    excess = separation_excess(disc / solar, depth.hidden, exact=False)
    delta = solar * excess
    edge = big * (1 - delta * delta / 2) + np.sqrt(np.maximum(q - big * big, 0.0)) * delta
    return rho * sun / sight - np.where(np.isnan(excess), -big, edge)


def distance_rates(
    occluder: Occluder,
    wanted: Sequence[Depth],
    which: NDArray[np.int64],
    x: Sequence[Array],
    q: Sequence[Array],
    sun: Array,
    exact: bool = True,
) -> tuple[Array, Array, Array]:
    """Give distances to boundaries and their first two time derivatives, one boundary a row.

    Parameters
    ----------
    occluder : Occluder
    wanted : sequence of Depth
    which : ndarray of int64, shape (n,)
        Index into ``wanted``.
    x, q : sequence of three ndarray, shape (n,)
        Value and two derivatives, as `Occluder.motion` gives them.
    sun : ndarray, shape (n,)
        [km]
    exact : bool
        False for guesses: between penumbra and umbra a few centimetres from the truth, and faster.

    Returns
    -------
    g, g1, g2 : ndarray, shape (n,)
        [km], [km/s] and (leading terms only) [km/s2].
    """
    (x0, x1, x2), (q0, q1, q2) = x, q
    lit = x0 <= 0
    if lit.any():  # the distance from the centre stands in for that from the axis
        x0a, x1a, x2a = (np.where(lit, 0.0, p) for p in x)
    else:
        x0a, x1a, x2a = x
    rho = np.sqrt(np.maximum(q0 - x0a * x0a, 1e-12))
    over = 1 / rho
    rho1 = (q1 / 2 - x0a * x1a) * over
    rho2 = (q2 / 2 - x1a * x1a - x0a * x2a - rho1 * rho1) * over
    if occluder.cylinder:
        return rho - occluder.radius_km, rho1, rho2
    numerator = np.array([_cone_numerator(occluder, depth) for depth in wanted])
    sine = numerator[which] / sun
    cosine = np.sqrt(1 - sine * sine)
    g = rho * cosine + x0 * sine - occluder.radius_km
    g1 = rho1 * cosine + x1 * sine
    g2 = rho2 * cosine + x2 * sine
    for i, depth in enumerate(wanted):
        if 0.0 < depth.hidden < 1.0:
            m = np.flatnonzero(which == i)
            if len(m):
                rows = [p[m] for p in (rho, rho1, rho2, x0, x1, q0, q1, sun)]
                g[m], g1[m], g2[m] = _partial_rates(occluder, depth, exact, *rows)
    return g, g1, g2


def _partial_rates(
    occluder: Occluder,
    depth: Depth,
    exact: bool,
    rho: Array,
    rho1: Array,
    rho2: Array,
    x0: Array,
    x1: Array,
    q0: Array,
    q1: Array,
    sun: Array,
) -> tuple[Array, Array, Array]:
    big = occluder.radius_km
    sight = np.sqrt(sun * sun + 2 * sun * x0 + q0)
    sight1 = (sun * x1 + q1 / 2) / sight
    solar = _arcsin_small(SUN_RADIUS_KM / sight)
    solar1 = -solar * sight1 / sight
    tangent = np.sqrt(np.maximum(q0 - big * big, 1e-12))
    disc = np.arcsin(np.minimum(big / np.sqrt(q0), 1.0))
    disc1 = -big * q1 / (2 * q0 * tangent)
    w = disc / solar
    w1 = (disc1 - w * solar1) / solar
    excess = separation_excess(w, depth.hidden, exact)
    d = _straight_limb(depth.hidden)
    slope = (1 - d * d) / (6 * w * w)
    near = w <= _LARGE_DISC
    if near.any():
        slope[near] = _excess_slope(w[near], excess[near])
    delta = solar * excess
    delta1 = solar1 * excess + solar * slope * w1
    delta2 = delta * delta
    cosine = 1 - delta2 * (1 / 2 - delta2 / 24)
    sine = delta * (1 - delta2 / 6)
    edge = big * cosine + tangent * sine
    edge1 = (tangent * cosine - big * sine) * delta1 + q1 / (2 * tangent) * sine
    none = np.isnan(excess)
    if none.any():  # the disc is too small to hide so much: outside, whatever the separation
        edge, edge1 = np.where(none, -big, edge), np.where(none, 0.0, edge1)
    scale = sun / sight
    return rho * scale - edge, (rho1 - rho * sight1 / sight) * scale - edge1, rho2 * scale


def _arcsin_small(s: Array) -> Array:
    """Arc sine below 0.01, to the last bit, without a library's elementary function."""
    s2 = s * s
    return s * (1 + s2 * (1 / 6 + s2 * (3 / 40)))


def obscuration(occluder: Occluder, x: Array, q: Array, sun: Array) -> Array:
    """Give the fraction of the solar disc that the occluder hides, in [0, 1]."""
    behind = x > 0
    rho = np.sqrt(np.maximum(q - x * x, 0.0))
    if occluder.cylinder:
        return np.where(behind & (rho < occluder.radius_km), 1.0, 0.0)
    separation = np.arctan2(sun * rho, sun * x + q)
    solar = np.arcsin(SUN_RADIUS_KM / np.sqrt(sun * sun + 2 * sun * x + q))
    disc = np.arcsin(np.minimum(occluder.radius_km / np.sqrt(q), 1.0))
    return np.where(behind, hidden_fraction(separation, solar, disc), 0.0)
