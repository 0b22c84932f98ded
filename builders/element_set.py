"""One element set: the mean elements of one object at one epoch, as a GP record gives them."""

import datetime as dt
from dataclasses import dataclass

from ..errors import InputError

MAX_CATALOG_NUMBER = 999_999_999
# A circular orbit at the Earth's surface makes 17.04 revolutions a day.
MAX_MEAN_MOTION_REV_PER_DAY = 18.0

# CCSDS 502.0-B-3, table 4-3: 0 is SGP (as all published sets say), 2 is SGP4; the others are other theories.
_SGP4_EPHEMERIS_TYPES = (0, 2)
_MAX_NAME = 80

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
    """A record that was refused: the line where it is wrong (from 1), the field and the reason.

    ``record`` is the record's NORAD_CAT_ID as it stands, where it has one: many records may share a line.
    """

    line: int
    field: str
    reason: str
    record: str = ""

    def __str__(self) -> str:
        record = f", record {self.record}" if self.record else ""
        return f"line {self.line}{record}, {self.field}: {self.reason}"


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
    >>> check_elements(15.5, 0.001, 51.6, MEAN_ANOMALY=360.0)
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
            raise BadField(name, f"{value!r} degrees is outside 0 to 360")


def check_ephemeris_type(ephemeris_type: int) -> None:
    """Refuse elements of another theory: SGP4 would propagate them without complaint, and wrongly.

    Raises
    ------
    BadField
        For SGP4-XP (4) and all others but 0 and 2.
    """
    if ephemeris_type not in _SGP4_EPHEMERIS_TYPES:
        theory = " (SGP4-XP)" if ephemeris_type == 4 else ""
        raise BadField("ephemeris type", f"{ephemeris_type}{theory} is not SGP4: 0 and 2 are")


def check_name(name: str) -> str:
    """Give back a name that can be printed anywhere.

    Raises
    ------
    BadField
        For more than 80 characters, control characters, no-break spaces and bytes that are no text.
    """
    if len(name) > _MAX_NAME:
        raise BadField("name", f"{quote(name)} has {len(name)} characters, at most {_MAX_NAME} are allowed")
    if not name.isprintable():
        bad = next(c for c in name if not c.isprintable())
        raise BadField("name", f"{quote(name)} holds {describe_character(bad)}, which is not printable text")
    return name


def describe_character(character: str) -> str:
    r"""Name a character that cannot be shown as itself.

    Examples
    --------
    >>> describe_character("\xa0"), describe_character("\udcff")
    ('a no-break space (U+00A0)', 'a byte 0xFF that is not UTF-8')
    """
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"a byte 0x{code - 0xDC00:02X} that is not UTF-8"
    if code == 0xA0:
        return "a no-break space (U+00A0)"
    if code == 9:
        return "a tab"
    if code < 32 or code == 127:
        return f"a control character (0x{code:02X})"
    shown = f"'{character}' " if character.isprintable() else ""
    return f"the character {shown}(U+{code:04X})"


def quote(text: str) -> str:
    """Quote what was found, short and printable."""
    shown = text if len(text) <= 40 else text[:37] + "..."
    return "'" + "".join(c if c.isprintable() else "?" for c in shown) + "'"


def format_epoch(epoch_us: int) -> str:
    """Write UTC microseconds since 1970 as an ISO 8601 instant.

    Examples
    --------
    >>> format_epoch(911544599999808)
    '1998-11-20T06:49:59.999808Z'
    """
    instant = _EPOCH_0 + dt.timedelta(microseconds=epoch_us)
    return instant.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
