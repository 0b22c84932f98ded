"""Writing a two-line element set, and refusing what its columns cannot hold."""

import datetime as dt
import re
from decimal import ROUND_HALF_UP, Decimal

from .element_set import BadField, ElementSet, quote
from .tle import checksum, encode_catalog_number

_US_PER_UNIT = 864  # the last digit of the epoch's day
_UNITS_PER_DAY = 100_000_000
_ORDINAL_1970 = dt.date(1970, 1, 1).toordinal()


def write_tle(element_set: ElementSet) -> tuple[str, str]:
    r"""Write line 1 and line 2, each value rounded half up to the last digit of its columns.

    Parameters
    ----------
    element_set : ElementSet

    Returns
    -------
    line1, line2 : str
        69 characters each, from 100000 on with the catalogue number in Alpha-5.

    Raises
    ------
    BadField
        If a TLE cannot hold a value: a catalogue number above 339999, a year outside 1957 to 2056, a counter
        or a drag term with too many digits. Write such a record as OMM.

    Examples
    --------
    >>> from .gp import read_element_sets
    >>> reading = read_element_sets(
    ...     b"OBJECT_NAME,NORAD_CAT_ID,EPOCH,MEAN_MOTION,ECCENTRICITY,INCLINATION,RA_OF_ASC_NODE,"
    ...     b"ARG_OF_PERICENTER,MEAN_ANOMALY,BSTAR\r\n"
    ...     b"SARAMAGO,100000,2026-07-14T21:45:20.933856,15.20467281,.000559,97.4593,154.097,"
    ...     b"270.5113,89.5482,.22159E-3\r\n"
    ... )
    >>> for line in write_tle(reading.element_sets[0]):
    ...     print(line)
    1 A0000U          26195.90649229  .00000000  00000+0  22159-3 0  9995
    2 A0000  97.4593 154.0970 0005590 270.5113  89.5482 15.20467281    05
    """
    number = encode_catalog_number(element_set.catalog_number)
    line1 = " ".join(
        (
            "1",
            number + element_set.classification_type,
            _designator(element_set.object_id) + " " + _epoch(element_set.epoch_us),
            _first_derivative(element_set.mean_motion_dot_rev_per_day2),
            _decimal_exponent("mean motion ddot", element_set.mean_motion_ddot_rev_per_day3),
            _decimal_exponent("drag term BSTAR", element_set.bstar_per_earth_radius),
            str(element_set.ephemeris_type),
            _counter("element set number", element_set.element_set_no, 4),
        )
    )
    line2 = " ".join(
        (
            "2",
            number,
            f"{_rounded(element_set.inclination_deg, 4):8.4f}",
            f"{_rounded(element_set.ra_of_asc_node_deg, 4):8.4f}",
            _eccentricity(element_set.eccentricity),
            f"{_rounded(element_set.arg_of_pericenter_deg, 4):8.4f}",
            f"{_rounded(element_set.mean_anomaly_deg, 4):8.4f}",
            f"{_rounded(element_set.mean_motion_rev_per_day, 8):11.8f}"
            + _counter("revolution number", element_set.rev_at_epoch, 5),
        )
    )
    return line1 + str(checksum(line1)), line2 + str(checksum(line2))


def _rounded(value: float, decimals: int) -> Decimal:
    """Round the shortest decimal of a float half up, as the publishers do; -0 is 0."""
    return Decimal(repr(value + 0.0)).quantize(Decimal(1).scaleb(-decimals), ROUND_HALF_UP)


def _designator(object_id: str) -> str:
    if found := re.fullmatch(
        r"(19(?:5[7-9]|[6-9][0-9])|20[0-4][0-9]|205[0-6])-([0-9]{3}[A-Z]{1,3})", object_id
    ):
        return f"{found[1][2:]}{found[2]}".ljust(8)
    if re.fullmatch(r"[0-9A-Z ]{0,8}", object_id):
        return object_id.ljust(8)
    raise BadField("international designator", f"a TLE cannot hold {quote(object_id)}: write it as OMM")


def _epoch(epoch_us: int) -> str:
    days, fraction = divmod((epoch_us + _US_PER_UNIT // 2) // _US_PER_UNIT, _UNITS_PER_DAY)
    date = dt.date.fromordinal(_ORDINAL_1970 + days)
    if not 1957 <= date.year <= 2056:
        raise BadField("epoch", f"a TLE's two-digit year is 1957 to 2056, not {date.year}: write it as OMM")
    return f"{date.year % 100:02d}{date.timetuple().tm_yday:03d}.{fraction:08d}"


def _first_derivative(value: float) -> str:
    rounded = _rounded(value, 8) if abs(value) < 1 else Decimal(1)
    if abs(rounded) >= 1:
        raise BadField("mean motion dot", f"a TLE holds less than 1 and not {value!r}: write it as OMM")
    return ("-" if rounded < 0 else " ") + f"{abs(rounded):.8f}"[1:]


def _decimal_exponent(name: str, value: float) -> str:
    """Write 0.12345e-5 as ' 12345-5'; below 1e-10 the mantissa begins with zeros."""
    exact = abs(Decimal(repr(value)))
    exponent = max(exact.adjusted() + 1, -9) if exact else 0
    mantissa = _mantissa(exact, exponent)
    if mantissa == 100_000:
        exponent += 1
        mantissa = _mantissa(exact, exponent)
    if exponent > 9:
        raise BadField(name, f"a TLE holds less than 1e9 and not {value!r}: write it as OMM")
    if mantissa == 0:
        return " 00000+0"
    return f"{'-' if value < 0 else ' '}{mantissa:05d}{'-' if exponent < 0 else '+'}{abs(exponent)}"


def _mantissa(exact: Decimal, exponent: int) -> int:
    return int(exact.scaleb(5 - exponent).quantize(Decimal(1), ROUND_HALF_UP))


def _eccentricity(value: float) -> str:
    rounded = _rounded(value, 7)
    if rounded >= 1:
        raise BadField("eccentricity", f"a TLE's seven digits cannot hold {value!r}: write it as OMM")
    return f"{rounded:.7f}"[2:]


def _counter(name: str, value: int, digits: int) -> str:
    if value >= 10**digits:
        raise BadField(name, f"a TLE has {digits} digits for it and not {value}: write it as OMM")
    return f"{value:{digits}d}"
