"""One orbit mean-elements message (CCSDS 502.0-B-3) of SGP4 elements: keywords and text to an ElementSet."""

import datetime as dt
import math
import re
from collections.abc import Mapping

from .element_set import (
    MAX_CATALOG_NUMBER,
    BadField,
    ElementSet,
    check_elements,
    check_ephemeris_type,
    check_name,
    quote,
)

REQUIRED = (
    "EPOCH",
    "MEAN_MOTION",
    "ECCENTRICITY",
    "INCLINATION",
    "RA_OF_ASC_NODE",
    "ARG_OF_PERICENTER",
    "MEAN_ANOMALY",
    "BSTAR",
)
# What the message may say of itself: anything else would be read as something that it is not.
_ONLY = {
    "CENTER_NAME": ("EARTH",),
    "REF_FRAME": ("TEME",),
    "TIME_SYSTEM": ("UTC",),
    "MEAN_ELEMENT_THEORY": ("SGP4", "SGP/SGP4"),
}
UNITS = {
    "MEAN_MOTION": "rev/day",
    "INCLINATION": "deg",
    "RA_OF_ASC_NODE": "deg",
    "ARG_OF_PERICENTER": "deg",
    "MEAN_ANOMALY": "deg",
    "BSTAR": "1/ER",
    "MEAN_MOTION_DOT": "rev/day**2",
    "MEAN_MOTION_DDOT": "rev/day**3",
}
KEYWORDS = frozenset(REQUIRED) | frozenset(_ONLY) | frozenset(UNITS) | {
    "OBJECT_NAME",
    "OBJECT_ID",
    "EPHEMERIS_TYPE",
    "CLASSIFICATION_TYPE",
    "NORAD_CAT_ID",
    "ELEMENT_SET_NO",
    "REV_AT_EPOCH",
}  # fmt: skip
_KEYWORD_OF = {
    "mean motion": "MEAN_MOTION",
    "eccentricity": "ECCENTRICITY",
    "inclination": "INCLINATION",
    "name": "OBJECT_NAME",
    "ephemeris type": "EPHEMERIS_TYPE",
}

_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?")
_INTEGER = re.compile(r"\+?[0-9]{1,18}")
_EPOCH = re.compile(
    r"([0-9]{4})-(?:([0-9]{2})-([0-9]{2})|([0-9]{3}))T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,18}))?Z?"
)
_ORDINAL_1970 = dt.date(1970, 1, 1).toordinal()
# The days that ended with a second 60 (IERS Bulletin C); UTC had no others.
_LEAP_SECOND_DAYS = frozenset(
    [f"{year}-06-30" for year in (1972, 1981, 1982, 1983, 1985, 1992, 1993, 1994, 1997, 2012, 2015)]
    + [f"{year}-12-31" for year in (*range(1972, 1980), 1987, 1989, 1990, 1995, 1998, 2005, 2008, 2016)]
)


def parse_omm(fields: Mapping[str, str]) -> ElementSet:
    """Validate one message.

    Parameters
    ----------
    fields : mapping of str to str
        CCSDS keywords and their text; an empty text counts as absent.

    Returns
    -------
    ElementSet
        Its `catalog_number` is 0 where the message names none (CCSDS allows that).

    Raises
    ------
    BadField
        Naming the keyword and the reason.

    Examples
    --------
    >>> nominal = parse_omm({
    ...     "OBJECT_NAME": "STARLINK", "NORAD_CAT_ID": "799501621", "EPOCH": "2026-263T12:00:00Z",
    ...     "MEAN_MOTION": "15.7", "ECCENTRICITY": ".0001", "INCLINATION": "53.2", "RA_OF_ASC_NODE": "10",
    ...     "ARG_OF_PERICENTER": "0", "MEAN_ANOMALY": "1e1", "BSTAR": "-.5E-4",
    ... })
    >>> nominal.catalog_number, nominal.epoch_us, nominal.mean_anomaly_deg
    (799501621, 1789905600000000, 10.0)
    """
    for keyword in REQUIRED:
        if not fields.get(keyword):
            if keyword == "MEAN_MOTION" and fields.get("SEMI_MAJOR_AXIS"):
                raise BadField(keyword, "there is a SEMI_MAJOR_AXIS instead: these are no SGP4 elements")
            raise BadField(keyword, "it is missing, and SGP4 needs it")
    for keyword, allowed in _ONLY.items():
        text = fields.get(keyword)
        if text and text.upper() not in allowed:
            raise BadField(keyword, f"{quote(text)} cannot be used: it must be {' or '.join(allowed)}")
    mean_motion, eccentricity = _number(fields, "MEAN_MOTION"), _number(fields, "ECCENTRICITY")
    inclination, node = _number(fields, "INCLINATION"), _number(fields, "RA_OF_ASC_NODE")
    perigee, anomaly = _number(fields, "ARG_OF_PERICENTER"), _number(fields, "MEAN_ANOMALY")
    try:
        check_elements(
            mean_motion,
            eccentricity,
            inclination,
            RA_OF_ASC_NODE=node,
            ARG_OF_PERICENTER=perigee,
            MEAN_ANOMALY=anomaly,
        )
        name = check_name(fields.get("OBJECT_NAME", ""))
        ephemeris_type = _integer(fields, "EPHEMERIS_TYPE", 0, 9)
        check_ephemeris_type(ephemeris_type)
    except BadField as bad:
        raise BadField(_KEYWORD_OF.get(bad.field, bad.field), bad.reason) from None
    return ElementSet(
        catalog_number=parse_catalog_number(fields.get("NORAD_CAT_ID") or "0"),
        name=name,
        object_id=_label(fields, "OBJECT_ID", ""),
        epoch_us=parse_epoch(fields["EPOCH"]),
        mean_motion_rev_per_day=mean_motion,
        eccentricity=eccentricity,
        inclination_deg=inclination,
        ra_of_asc_node_deg=node,
        arg_of_pericenter_deg=perigee,
        mean_anomaly_deg=anomaly,
        bstar_per_earth_radius=_number(fields, "BSTAR"),
        mean_motion_dot_rev_per_day2=_number(fields, "MEAN_MOTION_DOT"),
        mean_motion_ddot_rev_per_day3=_number(fields, "MEAN_MOTION_DDOT"),
        classification_type=_classification(fields.get("CLASSIFICATION_TYPE") or "U"),
        ephemeris_type=ephemeris_type,
        element_set_no=_integer(fields, "ELEMENT_SET_NO", 999, 999_999_999),
        rev_at_epoch=_integer(fields, "REV_AT_EPOCH", 0, 999_999_999),
    )


def parse_epoch(text: str) -> int:
    """Read a CCSDS instant in UTC: calendar or day of the year, a fraction and ``Z`` or none.

    A second 60 is read only where UTC had one, as the next midnight (SGP4 counts days of 86,400 s).

    Parameters
    ----------
    text : str

    Returns
    -------
    int
        Microseconds since 1970, rounded half to even.

    Raises
    ------
    BadField
        For any other form, and for dates and times that do not exist.

    Examples
    --------
    >>> parse_epoch("1998-11-20T06:49:59.999808"), parse_epoch("1998-324T06:49:59.999808Z")
    (911544599999808, 911544599999808)
    """
    found = _EPOCH.fullmatch(text)
    if found is None:
        raise BadField(
            "EPOCH", f"{quote(text)} is no UTC instant: write it as 2026-09-20T12:42:37.141056 (Z may follow)"
        )
    year, month, day, day_of_year, hour, minute, second, fraction = found.groups()
    try:
        if day_of_year is None:
            date = dt.date(int(year), int(month), int(day))
        else:
            date = dt.date(int(year), 1, 1) + dt.timedelta(int(day_of_year) - 1)
            if date.year != int(year):
                raise ValueError
    except (ValueError, OverflowError):
        raise BadField("EPOCH", f"{quote(text)} names a day that does not exist") from None
    if not 1957 <= date.year <= 2099:
        raise BadField("EPOCH", f"{quote(text)} is not within the years 1957 to 2099")
    if int(hour) > 23 or int(minute) > 59 or int(second) > 59:
        leap = (hour, minute, second) == ("23", "59", "60") and date.isoformat() in _LEAP_SECOND_DAYS
        if not leap:
            raise BadField("EPOCH", f"{quote(text)} names a time that UTC did not have")
    seconds = (date.toordinal() - _ORDINAL_1970) * 86_400 + int(hour) * 3600 + int(minute) * 60 + int(second)
    return seconds * 1_000_000 + _microseconds(fraction or "0")


def _microseconds(fraction: str) -> int:
    """Round the decimals of a second to microseconds, half to even."""
    whole, rest = int(fraction[:6].ljust(6, "0")), fraction[6:]
    half = "5".ljust(len(rest), "0")
    return whole + (rest > half or (rest == half and whole % 2 == 1)) if rest else whole


def parse_catalog_number(text: str) -> int:
    """Read a NORAD_CAT_ID: an integer of up to nine digits (Alpha-5 is of TLEs only).

    Raises
    ------
    BadField
        For anything else.

    Examples
    --------
    >>> parse_catalog_number("00964"), parse_catalog_number("+799501621")
    (964, 799501621)
    """
    if not _INTEGER.fullmatch(text) or int(text) > MAX_CATALOG_NUMBER:
        raise BadField("NORAD_CAT_ID", f"{quote(text)} is no integer of up to nine digits")
    return int(text)


def _number(fields: Mapping[str, str], keyword: str) -> float:
    text = fields.get(keyword) or "0"
    if not _NUMBER.fullmatch(text) or not math.isfinite(value := float(text)):
        raise BadField(keyword, f"{quote(text)} is no finite decimal number")
    return value + 0.0  # -0 is 0: the same element has one digest


def _integer(fields: Mapping[str, str], keyword: str, default: int, largest: int) -> int:
    text = fields.get(keyword)
    if not text:
        return default
    if not _INTEGER.fullmatch(text) or int(text) > largest:
        raise BadField(keyword, f"{quote(text)} is no integer from 0 to {largest}")
    return int(text)


def _label(fields: Mapping[str, str], keyword: str, default: str) -> str:
    try:
        return check_name(fields.get(keyword) or default)
    except BadField as bad:
        raise BadField(keyword, bad.reason) from None


def _classification(text: str) -> str:
    if not re.fullmatch("[A-Z]", text):
        raise BadField("CLASSIFICATION_TYPE", f"{quote(text)} is no capital letter (U, C or S)")
    return text
