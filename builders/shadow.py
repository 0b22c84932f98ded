"""Shadows of the Earth and the Moon: model choices, signed distances to their boundaries, obscuration.

All of it needs three numbers of a satellite: ``x``, how far it is behind the occluder's centre along the
axis away from the Sun [km]; ``q``, its squared distance from that centre [km2]; and ``sun``, the distance
of the Sun from the centre [km]. The oblate Earth is a sphere after stretching z by 1 / (1 - f) for
satellite and Sun alike.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from orbittrace_data.errors import InputError

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
                f"min_sunlight must lie in (0, 1], the visible fraction of the disc; got {self.min_sunlight!r}"
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
        (sx, sy, sz, sun), (dx, dy, dz, _) = self.sun.at(start_ms, t_s)
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
        if jerk is not None:
            jx, jy, jz = jerk[0], jerk[1], k * jerk[2]
            x.append(-(jx * sx + jy * sy + jz * sz + 3 * (ax * dx + ay * dy + az * dz)))
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
        False for the leading two terms in 1 / w where w is large, good to 1e-4 solar radii or better.

    Returns
    -------
    ndarray, shape (n,)
        Separation - w [solar radii]; NaN where the disc is too small to cover so much.
    """
    d = _straight_limb(hidden)
    excess = d - (1 - d * d) / (6 * w)
    large = (w > _LARGE_DISC) & (0.05 <= hidden <= 0.95)
    if exact and large.any():
        wl, start = w[large], excess[large]
        for _ in range(2):
            part, chord = _overlap(wl + start, wl)
            start = start + (part - hidden) * np.pi / (2 * chord)
        excess[large] = start
    if not large.all():
        excess[~large] = _bisect_excess(w[~large], hidden)
    return excess


def _bisect_excess(w: Array, hidden: float) -> Array:
    low, high = np.abs(w - 1) - w, np.ones_like(w)
    for _ in range(56):
        middle = (low + high) / 2
        more = _overlap(np.maximum(middle + w, 1e-300), w)[0] > hidden
        low, high = np.where(more, middle, low), np.where(more, high, middle)
    return np.where(np.minimum(1.0, w * w) > hidden, (low + high) / 2, np.nan)


def signed_distance(occluder: Occluder, depth: Depth, x: Array, q: Array, sun: Array) -> Array:
    """Give the distance to a boundary, negative inside: the value alone, for finding contacts.

    On the Sun's side of the occluder (x <= 0) the distance from the axis gives way to that from the
    centre, so the function and its derivative are continuous and it stays positive there.

    Parameters
    ----------
    occluder : Occluder
    depth : Depth
    x, q, sun : ndarray, shape (n,)
        As `Occluder.motion` gives them.

    Returns
    -------
    ndarray, shape (n,)
        [km]; for depths between penumbra and umbra good to some metres for the Earth, exact near w = 1.
    """
    big = occluder.radius_km
    rho = np.sqrt(np.where(x > 0, np.maximum(q - x * x, 0.0), q))
    if occluder.cylinder:
        return rho - big
    if depth.hidden in (0.0, 1.0):
        sine, cosine = _cone(occluder, depth, sun)
        return rho * cosine + x * sine - big
    sight2 = sun * sun + 2 * sun * x + q
    solar = SUN_RADIUS_KM / np.sqrt(sight2)
    ratio = big / np.sqrt(np.maximum(q, big * big))
    disc = ratio * (1 + 0.5707963 * ratio * ratio)  # arcsin to a tenth: it only scales a few metres
    if np.any(disc < 20 * solar):
        disc = np.arcsin(ratio)
    excess = separation_excess(disc / solar, depth.hidden, exact=False)
    delta = solar * excess
    edge = big * (1 - delta * delta / 2) + np.sqrt(np.maximum(q - big * big, 0.0)) * delta
    return rho * sun / np.sqrt(sight2) - np.where(np.isnan(excess), -big, edge)


def _cone(occluder: Occluder, depth: Depth, sun: Array) -> tuple[Array, Array]:
    """Give sine (signed: how the distance grows with x) and cosine of the half-angle of a cone."""
    if depth.hidden == 0.0:
        sine = -(SUN_RADIUS_KM + occluder.radius_km) / sun
    else:
        sine = (SUN_RADIUS_KM - occluder.radius_km) / sun
    return sine, np.sqrt(1 - sine * sine)


def signed_distance_rates(
    occluder: Occluder, depth: Depth, x: list[Array], q: list[Array], sun: Array
) -> tuple[Array, Array, Array]:
    """Give the exact distance to a boundary and its first two time derivatives, for x > 0.

    Parameters
    ----------
    occluder : Occluder
    depth : Depth
    x, q : list of three ndarray, shape (n,)
        Value and two derivatives, as `Occluder.motion` gives them.
    sun : ndarray, shape (n,)
        [km]

    Returns
    -------
    g, g1, g2 : ndarray, shape (n,)
        [km], [km/s] and (leading terms only) [km/s2].
    """
    big = occluder.radius_km
    (x0, x1, x2), (q0, q1, q2) = x, q
    lit = x0 <= 0
    x0a, x1a, x2a = (np.where(lit, 0.0, p) for p in (x0, x1, x2))
    rho = np.sqrt(np.maximum(q0 - x0a * x0a, 1e-12))
    rho1 = (q1 / 2 - x0a * x1a) / rho
    rho2 = (q2 / 2 - x1a * x1a - x0a * x2a - rho1 * rho1) / rho
    if occluder.cylinder:
        return rho - big, rho1, rho2
    if depth.hidden in (0.0, 1.0):
        sine, cosine = _cone(occluder, depth, sun)
        return (
            rho * cosine + x0 * sine - big,
            rho1 * cosine + x1 * sine,
            rho2 * cosine + x2 * sine,
        )
    sight = np.sqrt(sun * sun + 2 * sun * x0 + q0)
    sight1 = (sun * x1 + q1 / 2) / sight
    solar = _arcsin_small(SUN_RADIUS_KM / sight)
    solar1 = -solar * sight1 / sight
    radius = np.sqrt(q0)
    tangent = np.sqrt(np.maximum(q0 - big * big, 1e-12))
    disc = np.arcsin(np.minimum(big / radius, 1.0))
    disc1 = -big * q1 / (2 * q0 * tangent)
    w = disc / solar
    w1 = disc1 / solar - w * solar1 / solar
    excess = separation_excess(w, depth.hidden)
    none = np.isnan(excess)
    d = _straight_limb(depth.hidden)
    slope = (1 - d * d) / (6 * w * w)
    near = ~none & (w <= _LARGE_DISC)
    if near.any():
        step = 1e-5 * w[near]
        above = separation_excess(w[near] + step, depth.hidden)
        slope[near] = (above - excess[near]) / step
    delta = solar * excess
    delta1 = solar1 * excess + solar * slope * w1
    cosine = 1 - delta * delta / 2 + delta**4 / 24
    sine = delta - delta**3 / 6
    edge = np.where(none, -big, big * cosine + tangent * sine)
    edge1 = np.where(none, 0.0, (tangent * cosine - big * sine) * delta1 + q1 / (2 * tangent) * sine)
    scale = sun / sight
    return (
        rho * scale - edge,
        (rho1 - rho * sight1 / sight) * scale - edge1,
        rho2 * scale,
    )


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
