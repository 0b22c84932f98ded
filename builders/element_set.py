"""One element set: the mean elements of one object at one epoch, as a GP record gives them."""

import datetime as dt
from dataclasses import dataclass

from orbittrace_data.errors import InputError

MAX_CATALOG_NUMBER = 999_999_999
# A circular orbit at the Earth's surface makes 17.04 revolutions a day.
MAX_MEAN_MOTION_REV_PER_DAY = 18.0

_EPOCH_0 = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


@dataclass(frozen=True, slots=True)
class ElementSet:
    """A validated general-perturbations record; the fields follow CCSDS 502.0-B-3 (OMM), with units.

    ``epoch_us`` counts UTC microseconds since 1970-01-01; a TLE's last digit of the day is 864 of them,
    so it is exact for every format. ``mean_motion_dot`` is half the first derivative and
    ``mean_motion_ddot`` a sixth of the second, as the formats have them. ``line1`` and ``line2`` are the
    TLE as it was read, None where there was none.
    """

    catalog_number: int
    name: str
    object_id: str
    epoch_us: int
    mean_motion_rev_per_day: float
    eccentricity: float
    inclination_deg: float
    ra_of_asc_node_deg: float
    arg_of_pericenter_deg: float
    mean_anomaly_deg: float
    bstar_per_earth_radius: float = 0.0
    mean_motion_dot_rev_per_day2: float = 0.0
    mean_motion_ddot_rev_per_day3: float = 0.0
    classification_type: str = "U"
    ephemeris_type: int = 0
    element_set_no: int = 999
    rev_at_epoch: int = 0
    line1: str | None = None
    line2: str | None = None


class BadField(InputError):  # noqa: N818 - it names one field of a record, the reader's caller sees a Problem
    """One field of a record cannot be used.

    Parameters
    ----------
    field : str
        The field's name, for example ``"eccentricity"``.
    reason : str
        A sentence: what stands there and what is allowed.
    """

    def __init__(self, field: str, reason: str):
        super().__init__(f"{field}: {reason}")
        self.field, self.reason = field, reason


@dataclass(frozen=True, slots=True)
class Problem:
    """A record that was refused: the line where it is wrong (from 1), the field and the reason."""

    line: int
    field: str
    reason: str

    def __str__(self) -> str:
        return f"line {self.line}, {self.field}: {self.reason}"


def check_elements(
    mean_motion_rev_per_day: float,
    eccentricity: float,
    inclination_deg: float,
    **angles_deg: float,
) -> None:
    """Refuse mean elements that are no orbit about the Earth (NaN is none either).

    Parameters
    ----------
    mean_motion_rev_per_day, eccentricity, inclination_deg : float
    **angles_deg : float
        Node, argument of perigee and mean anomaly by name.

    Raises
    ------
    BadField
        For the first element out of its range.

    Examples
    --------
    >>> check_elements(15.5, 0.001, 51.6, mean_anomaly=360.0)
    >>> check_elements(15.5, 1.2, 51.6)  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    orbittrace_data.builders.element_set.BadField: eccentricity: 1.2 is outside 0 <= e < 1, the bound orbits
    """
    if not 0.0 < mean_motion_rev_per_day <= MAX_MEAN_MOTION_REV_PER_DAY:
        raise BadField(
            "mean motion",
            f"{mean_motion_rev_per_day!r} revolutions a day is outside 0 < n <= 18: "
            "an orbit at the Earth's surface makes 17.04",
        )
    if not 0.0 <= eccentricity < 1.0:
        raise BadField("eccentricity", f"{eccentricity!r} is outside 0 <= e < 1, the bound orbits")
    if not 0.0 <= inclination_deg <= 180.0:
        raise BadField("inclination", f"{inclination_deg!r} degrees is outside 0 to 180")
    for name, value in angles_deg.items():
        if not 0.0 <= value <= 360.0:
            raise BadField(name.replace("_", " "), f"{value!r} degrees is outside 0 to 360")


def format_epoch(epoch_us: int) -> str:
    """Write UTC microseconds since 1970 as an ISO 8601 instant.

    Examples
    --------
    >>> format_epoch(911544599999808)
    '1998-11-20T06:49:59.999808Z'
    """
    instant = _EPOCH_0 + dt.timedelta(microseconds=epoch_us)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
