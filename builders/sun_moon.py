"""The Sun and the Moon as the satellites see them: apparent places in TEME, tabulated once for all.

Everything comes from ERFA (the IAU's SOFA routines): no ephemeris file, no Earth-orientation table, no
network. The rotation GCRS -> TEME needs no UT1: it is the IAU 2006/2000A bias-precession-nutation
matrix and the equation of the equinoxes.
"""

import warnings
from dataclasses import dataclass

import erfa
import numpy as np
from numpy.typing import NDArray

from .constants import AU_KM, DAY_S, LIGHT_KM_PER_S, UNIX_EPOCH_JD

Array = NDArray[np.float64]

SUN_STEP_S = 21_600  # the Sun's direction turns 0.25 deg in it: a cubic is good to 1e-12 rad
MOON_STEP_S = 3_600  # the Moon's turns 0.5 deg: a cubic is good to 0.1 m


def terrestrial_time(unix_s: NDArray[np.int64]) -> tuple[Array, Array]:
    """Convert whole UTC seconds (Unix convention) to TT as two-part Julian dates [d]."""
    day, second = np.divmod(unix_s, int(DAY_S))
    with warnings.catch_warnings():  # beyond the leap seconds known today; none is due
        warnings.filterwarnings("ignore", category=erfa.ErfaWarning, message=".*dubious year.*")
        tai = erfa.utctai(UNIX_EPOCH_JD + day, second / DAY_S)
    return erfa.taitt(*tai)


def gcrs_to_teme(tt1: Array, tt2: Array) -> Array:
    """Give the rotation matrices from GCRS to TEME (true equator, mean equinox), shape (n, 3, 3).

    Vallado et al. (2006), appendix C: TEME turns from the true equinox by the equation of the equinoxes.
    """
    return erfa.rz(erfa.ee06a(tt1, tt2), erfa.pnm06a(tt1, tt2))


def sun_teme(unix_s: NDArray[np.int64]) -> Array:
    """Give the apparent Sun, with light-time and annual aberration.

    Parameters
    ----------
    unix_s : ndarray of int64, shape (n,)
        UTC [s since 1970-01-01].

    Returns
    -------
    ndarray, shape (n, 3)
        TEME [km].
    """
    tt1, tt2 = terrestrial_time(unix_s)
    heliocentric, barycentric = erfa.epv00(tt1, tt2)  # TT for TDB: 2 ms of the Earth's motion
    distance = np.linalg.norm(heliocentric["p"], axis=-1)
    light_d = distance * (AU_KM / LIGHT_KM_PER_S / DAY_S)
    then_heliocentric, then_barycentric = erfa.epv00(tt1, tt2 - light_d)
    vector = then_barycentric["p"] - then_heliocentric["p"] - barycentric["p"]
    distance = np.linalg.norm(vector, axis=-1)
    beta = barycentric["v"] * (AU_KM / DAY_S / LIGHT_KM_PER_S)
    direction = erfa.ab(vector / distance[:, None], beta, distance, np.sqrt(1 - np.sum(beta * beta, axis=-1)))
    return erfa.rxp(gcrs_to_teme(tt1, tt2), direction * (distance * AU_KM)[:, None])


def moon_teme(unix_s: NDArray[np.int64]) -> Array:
    """Give the Moon with light-time in the geocentric frame.

    There is no annual aberration: Earth and Moon move together.

    Parameters
    ----------
    unix_s : ndarray of int64, shape (n,)
        UTC [s since 1970-01-01].

    Returns
    -------
    ndarray, shape (n, 3)
        TEME [km].
    """
    tt1, tt2 = terrestrial_time(unix_s)
    distance_km = np.linalg.norm(erfa.moon98(tt1, tt2)["p"], axis=-1) * AU_KM
    position = erfa.moon98(tt1, tt2 - distance_km / LIGHT_KM_PER_S / DAY_S)["p"] * AU_KM
    return erfa.rxp(gcrs_to_teme(tt1, tt2), position)


@dataclass(frozen=True)
class Table:
    """Smooth vectors on knots at whole multiples of ``step_s`` since 1970, one cubic between two knots.

    ``coefficients[power, component, knot]`` is the cubic in the fraction of the step after a knot; the
    knots do not depend on the span's start, so neither do the values.
    """

    step_s: int
    first_s: int
    coefficients: Array

    def at(self, start_ms: int, t_s: Array, order: int = 1) -> list[tuple[Array, ...]]:
        """Evaluate at times.

        Parameters
        ----------
        start_ms : int
            The instant of t = 0 [ms since 1970].
        t_s : ndarray, shape (n,)
            [s from the start]
        order : int
            How many time derivatives to give as well.

        Returns
        -------
        list of tuple of ndarray, shape (n,)
            The components, then the components of each derivative [per s].
        """
        scale = 1.0 / self.step_s
        # The start is an exact number of milliseconds from the first knot: nothing is lost.
        u = (t_s + (start_ms - 1000 * self.first_s) / 1000.0) * scale
        knot = u.astype(np.int64)
        u -= knot
        rows = self.coefficients
        values: list[tuple[Array, ...]] = []
        c = [[rows[k, component].take(knot) for k in range(4)] for component in range(rows.shape[1])]
        values.append(tuple(((c3 * u + c2) * u + c1) * u + c0 for c0, c1, c2, c3 in c))
        if order > 0:
            values.append(tuple(((3 * c3 * u + 2 * c2) * u + c1) * scale for _, c1, c2, c3 in c))
        if order > 1:
            values.append(tuple((6 * c3 * u + 2 * c2) * scale**2 for _, _, c2, c3 in c))
        return values


def knots(start_ms: int, span_ms: int, step_s: int) -> NDArray[np.int64]:
    """List the knots that a table over a span needs, with three to spare at each end [s since 1970]."""
    first = start_ms // (1000 * step_s) - 3
    last = -((-start_ms - span_ms) // (1000 * step_s)) + 4
    return np.arange(first, last + 1, dtype=np.int64) * step_s


def table(knots_s: NDArray[np.int64], values: Array) -> Table:
    """Make a table from values at equally spaced knots; the two at each end only serve derivatives.

    Parameters
    ----------
    knots_s : ndarray of int64, shape (n,)
        [s since 1970]
    values : ndarray, shape (n, components)

    Returns
    -------
    Table
        From the third knot to the third from the end.
    """
    slope = (values[:-4] - 8 * values[1:-3] + 8 * values[3:-1] - values[4:]) / 12  # [per step]
    value = values[2:-2]
    f0, f1, d0, d1 = value[:-1], value[1:], slope[:-1], slope[1:]
    cubic = np.stack([f0, d0, 3 * (f1 - f0) - 2 * d0 - d1, 2 * (f0 - f1) + d0 + d1])
    step_s = int(knots_s[1] - knots_s[0])
    return Table(step_s, int(knots_s[2]), np.ascontiguousarray(cubic.transpose(0, 2, 1)))
