"""Positions from element sets: SGP4 (WGS 72, improved mode) in TEME, and the force behind them."""

import numpy as np
from numpy.typing import NDArray
from sgp4.api import WGS72, Satrec

from .constants import DAY_S, SGP4_J2, SGP4_MU_KM3_PER_S2, SGP4_RADIUS_KM, UNIX_EPOCH_JD
from .element_set import ElementSet

Array = NDArray[np.float64]

LARGEST_SGP4_NUMBER = 339_999  # sgp4 refuses more, although the number plays no part in the model
DEEP_SPACE_RAD_PER_MIN = 2 * np.pi / 225  # SGP4 takes longer periods for deep space
LOW_POINTS, DEEP_POINTS, LONGEST_CELL_S = 4, 8, 7_200.0
PLAUSIBLE_RADIUS_KM = (6_450.0, 2_000_000.0)  # lower, a satellite has re-entered whatever SGP4 says

SGP4_ERRORS = {
    1: "mean eccentricity outside [0, 1)",
    2: "mean motion not positive",
    3: "perturbed eccentricity outside [0, 1)",
    4: "semi-latus rectum negative",
    5: "epoch elements are sub-orbital",
    6: "the satellite has decayed",
}

_US_PER_DAY = 86_400_000_000
_DAYS_1949_TO_1970 = 7_306  # SGP4 counts from 1949-12-31


def satrec(element_set: ElementSet) -> Satrec:
    """Initialise SGP4 from an element set's fields, so TLE and OMM of the same elements give the same bits.

    Constants are WGS 72 and the mode is "improved", as element sets are fitted (Vallado et al. 2006).
    """
    # One number for the epoch: exact from 2010-03 on, where sgp4 restores a TLE's decimals; before, to 0.2 us.
    epoch_days = (element_set.epoch_us + _DAYS_1949_TO_1970 * _US_PER_DAY) / _US_PER_DAY
    per_minute = 2 * np.pi / 1440
    number = element_set.catalog_number
    model = Satrec()
    model.sgp4init(
        WGS72,
        "i",
        number if number <= LARGEST_SGP4_NUMBER else 0,
        epoch_days,
        element_set.bstar_per_earth_radius,
        element_set.mean_motion_dot_rev_per_day2 * per_minute / 1440,
        element_set.mean_motion_ddot_rev_per_day3 * per_minute / 1440**2,
        element_set.eccentricity,
        np.radians(element_set.arg_of_pericenter_deg),
        np.radians(element_set.inclination_deg),
        np.radians(element_set.mean_anomaly_deg),
        element_set.mean_motion_rev_per_day * per_minute,
        np.radians(element_set.ra_of_asc_node_deg),
    )
    return model


def julian_date(start_ms: int, t_s: Array) -> tuple[Array, Array]:
    """Split instants into whole and fractional Julian days (UTC), as SGP4 wants them.

    Parameters
    ----------
    start_ms : int
        The instant of t = 0 [ms since 1970-01-01T00:00 UTC].
    t_s : ndarray, shape (n,)
        Times [s from the start].

    Returns
    -------
    whole, fraction : ndarray, shape (n,)
        [d]
    """
    day, in_day_ms = divmod(start_ms, 86_400_000)
    return np.full(t_s.shape, UNIX_EPOCH_JD + day), (t_s + in_day_ms / 1000) / DAY_S


def states(model: Satrec, start_ms: int, t_s: Array) -> tuple[NDArray[np.uint8], Array, Array]:
    """Propagate one satellite to many times.

    Parameters
    ----------
    model : Satrec
        From `satrec`.
    start_ms : int
        The instant of t = 0 [ms since 1970-01-01T00:00 UTC].
    t_s : ndarray, shape (n,)
        Times [s from the start].

    Returns
    -------
    error : ndarray of uint8, shape (n,)
        SGP4's error code, 0 where the state holds; 255 for a position that is not finite or lies outside
        `PLAUSIBLE_RADIUS_KM`.
    r, v : ndarray, shape (n, 3)
        TEME position [km] and velocity [km/s].
    """
    error, r, v = model.sgp4_array(*julian_date(start_ms, t_s))
    radius2 = r[:, 0] * r[:, 0] + r[:, 1] * r[:, 1] + r[:, 2] * r[:, 2]
    low, high = PLAUSIBLE_RADIUS_KM
    plausible = (radius2 > low * low) & (radius2 < high * high)  # False for NaN
    if not plausible.all():
        error = np.where((error == 0) & ~plausible, np.uint8(255), error)
    return error, r, v


def describe_error(code: int) -> str:
    """Say what an error code of `states` means.

    Examples
    --------
    >>> describe_error(6)
    'SGP4 error 6: the satellite has decayed'
    """
    if code == 255:
        low, high = PLAUSIBLE_RADIUS_KM
        return f"SGP4's position is not finite or not {low:.0f} to {high:.0f} km from the Earth's centre"
    return f"SGP4 error {code}: {SGP4_ERRORS.get(code, 'unknown')}"


def grid(model: Satrec, start_ms: int, span_s: float, density: int = 1) -> Array:
    """Choose the times at which an orbit is sampled.

    Low orbits get `LOW_POINTS` a revolution and SGP4's deep-space ones, which the Sun and the Moon pull too,
    `DEEP_POINTS`; eccentric ones more, uniform in eccentric anomaly. All are multiplied by ``density``.

    Returns
    -------
    ndarray, shape (n,)
        Increasing times [s], the first 0 and the last ``span_s``.
    """
    mean_motion = model.no_kozai / 60.0  # [rad/s]
    turns = mean_motion * span_s / (2 * np.pi)
    e = min(max(model.ecco, 0.0), 0.95)
    points = density * (LOW_POINTS if model.no_kozai > DEEP_SPACE_RAD_PER_MIN else DEEP_POINTS)
    cells = int(np.ceil(max(turns * points * (1 + 4 * e), span_s / LONGEST_CELL_S))) + 1
    if e < 0.03:
        return np.linspace(0.0, span_s, cells + 1)
    # Mean anomaly at the start; a degree or two of perigee drift matters little to where points lie.
    jd, fr = julian_date(start_ms, np.zeros(1))
    since_epoch_s = ((jd[0] - model.jdsatepoch) + (fr[0] - model.jdsatepochF)) * DAY_S
    first = model.mo + mean_motion * since_epoch_s
    mean = np.array([first, first + mean_motion * span_s])
    anomaly = mean.copy()
    for _ in range(40):
        anomaly = anomaly + np.clip(
            (mean - anomaly + e * np.sin(anomaly)) / (1 - e * np.cos(anomaly)), -1.0, 1.0
        )
    ecc = np.linspace(anomaly[0], anomaly[1], cells + 1)
    t_s = (ecc - e * np.sin(ecc) - mean[0]) / mean_motion
    t_s[0], t_s[-1] = 0.0, span_s
    return t_s


def acceleration(x: Array, y: Array, z: Array) -> tuple[Array, ...]:
    """Give the acceleration towards a point mass with J2: the greater part of what SGP4 models.

    Only steps between SGP4's own states rest on it, never a result.

    Parameters
    ----------
    x, y, z : ndarray, shape (n,)
        TEME position [km].

    Returns
    -------
    tuple of three ndarray, shape (n,)
        [km/s2] (Montenbruck & Gill 2000, section 3.2).
    """
    *_, radial, axial = _pulls(x, y, z)
    return -radial * x, -radial * y, -axial * z


def acceleration_and_jerk(
    x: Array, y: Array, z: Array, vx: Array, vy: Array, vz: Array
) -> tuple[tuple[Array, ...], tuple[Array, ...]]:
    """Give the acceleration as `acceleration` does, and its time derivative.

    Parameters
    ----------
    x, y, z, vx, vy, vz : ndarray, shape (n,)
        TEME position [km] and velocity [km/s].

    Returns
    -------
    acceleration, jerk : tuple of three ndarray, shape (n,)
        [km/s2] and [km/s3].
    """
    over_r2, over_r3, j, u, radial, axial = _pulls(x, y, z)
    # With w = r.v / r2, d(r^-n)/dt = -n w r^-n.
    w = (x * vx + y * vy + z * vz) * over_r2
    du = 2 * (z * vz * over_r2 - u * w)
    d_radial = over_r3 * (-3 * w - j * (5 * w * (1 - 5 * u) + 5 * du))
    d_axial = over_r3 * (-3 * w - j * (5 * w * (3 - 5 * u) + 5 * du))
    return (
        (-radial * x, -radial * y, -axial * z),
        (-radial * vx - d_radial * x, -radial * vy - d_radial * y, -axial * vz - d_axial * z),
    )


def _pulls(x: Array, y: Array, z: Array) -> tuple[Array, ...]:
    """Give the pull in the equator's plane and along the axis, over the distances from the centre, and their factors."""
    r2 = x * x + y * y + z * z
    over_r2 = 1.0 / r2
    over_r3 = SGP4_MU_KM3_PER_S2 * over_r2 * np.sqrt(over_r2)
    j = (1.5 * SGP4_J2 * SGP4_RADIUS_KM**2) * over_r2
    u = z * z * over_r2
    return over_r2, over_r3, j, u, over_r3 * (1 + j * (1 - 5 * u)), over_r3 * (1 + j * (3 - 5 * u))
