"""One short text for any trace, as the command line takes it."""

import re
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError
from .trace import Trace

if TYPE_CHECKING:
    from .energy import ChargeProfile

_UNITS_S = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
}

FORMS = (
    "leo-25544 (a trace of the release), leo-25544@cubesat-6u or leo-25544@power.toml (its energy trace), "
    "duty:60m/35m, pause:10s/2s, cap:Europe/Berlin,17:00-21:00,2026-03-25,14d, "
    "or a file: telemetry.csv, spot.json; any of them with ~20s#3 behind it: its contacts off by 20 s, draw 3"
)


_NEVER_IN_AN_ID = frozenset("~#:./\\")


class TraceSpecError(InputError):
    """A text that names no trace."""


def resolve_trace(spec: str, *, source: str | Path | None = None, version: str | None = None) -> Trace:
    """Find or make the trace that a short text names.

    ==========================================  ====================================================
    ``leo-25544``                               the trace of the release
    ``leo-25544@cubesat-6u``, ``...@my.toml``   the same satellite's energy trace under a power system
    ``duty:60m/35m``                            `duty_cycle_trace`: on / off
    ``pause:10s/2s``                            `periodic_pause_trace`: every / pause
    ``cap:ZONE,HH:MM-HH:MM,...,DATE,DAYSd``     `power_cap_trace`
    ``file.csv``, ``file.json``                 `Trace.from_csv`, or `Trace.from_spot_log`
    any of them and ``~20s#3``                  `shift_contacts` by 20 s (1 sigma), draw 3
    ==========================================  ====================================================

    Durations take ms, s, m, h or d and may have a decimal point.

    Parameters
    ----------
    spec : str
    source, version
        Of the release that an id is looked up in, as `load_trace` takes them.

    Returns
    -------
    Trace

    Raises
    ------
    TraceSpecError
        If the text follows none of these forms; what it names may raise its own errors.

    Examples
    --------
    >>> resolve_trace("pause:10s/2.5s")
    <Trace pause-10s-2.5s: 0.000144676 days, 1 gaps, duty cycle 0.8000>
    """
    from .schedules import duty_cycle_trace, periodic_pause_trace

    if not isinstance(spec, str):
        raise TraceSpecError(f"{spec!r} names no trace: give a text, {FORMS}")
    shift = re.fullmatch(r"(.+)~([^~#/]*)#([^~#/]*)", spec)
    if shift:
        from .forecast import shift_contacts

        sigma_s = duration_s(shift[2], spec)
        if not re.fullmatch(r"[0-9]{1,18}", shift[3]):
            raise TraceSpecError(
                f"{shift[3]!r} in {spec!r} is no number of a draw: write 0 or more, as in ~20s#3"
            )
        return shift_contacts(resolve_trace(shift[1], source=source, version=version), sigma_s, int(shift[3]))
    kind, colon, rest = spec.partition(":")
    if colon and kind == "duty":
        return duty_cycle_trace(*_two_durations(rest, spec))
    if colon and kind == "pause":
        return periodic_pause_trace(*_two_durations(rest, spec))
    if colon and kind == "cap":
        return _power_cap(rest, spec)
    if Path(spec).suffix.lower() in (".csv", ".json"):
        return _file(Path(spec))
    satellite, at, power = spec.partition("@")
    if not satellite.strip() or set(satellite) & _NEVER_IN_AN_ID or (at and not power):
        raise TraceSpecError(f"{spec!r} names no trace: give {FORMS}")
    if at:
        return energy_trace_of(satellite, power, source=source, version=version)[0]
    from .loader import load_trace

    return load_trace(satellite, source=source, version=version)


def energy_trace_of(
    trace_id: str, power: str | Path, *, source: str | Path | None = None, version: str | None = None
) -> "tuple[Trace, ChargeProfile]":
    """Return the energy trace of a released trace under a power system.

    Parameters
    ----------
    trace_id : str
    power : str or Path
        As `PowerModel.read` takes it.
    source, version
        As `load_trace` takes them.

    Returns
    -------
    (Trace, ChargeProfile)

    Raises
    ------
    TraceSpecError
        If the trace is none of a satellite's sunlight.
    """
    if set(trace_id) & (_NEVER_IN_AN_ID | {"@"}):
        raise TraceSpecError(
            f"{trace_id!r} has no shadows that a power system could run on: give a satellite's trace of the release, "
            "such as leo-25544"
        )
    from .energy import energy_trace
    from .loader import load_table, load_trace
    from .power_model import PowerModel

    model = PowerModel.read(power)
    trace = load_trace(trace_id, source=source, version=version)
    return energy_trace(trace, load_table("shadows", source=source, version=version), model)


def _two_durations(text: str, spec: str) -> tuple[Fraction, Fraction]:
    parts = text.split("/")
    if len(parts) != 2:
        raise TraceSpecError(f"{spec!r} needs two durations with a slash between, as in duty:60m/35m")
    return duration_s(parts[0], spec), duration_s(parts[1], spec)


def duration_s(text: str, spec: str) -> Fraction:
    """Read a duration with its unit [s], exactly.

    Examples
    --------
    >>> duration_s("1.5h", "duty:1.5h/30m")
    Fraction(5400, 1)
    """
    match = re.fullmatch(r"([0-9]{1,18}(?:\.[0-9]{1,18})?)(ms|s|m|h|d)", text.strip())
    if not match:
        raise TraceSpecError(
            f"{text!r} in {spec!r} is no duration: write a number and ms, s, m, h or d, as 90s"
        )
    return Fraction(match[1]) * _UNITS_S[match[2]]


def _power_cap(text: str, spec: str) -> Trace:
    from .schedules import power_cap_trace

    parts = text.split(",")
    if len(parts) < 4 or not re.fullmatch(r"[0-9]{1,5}d", parts[-1]):
        raise TraceSpecError(
            f"{spec!r} needs a zone, capped hours, a first day and whole days, "
            "as in cap:Europe/Berlin,17:00-21:00,2026-03-25,14d"
        )
    capped = []
    for hours in parts[1:-2]:
        first, dash, last = hours.partition("-")
        if not dash:
            raise TraceSpecError(f"{hours!r} in {spec!r} is no span of hours: write it as 17:00-21:00")
        capped.append((first, last))
    return power_cap_trace(capped, parts[0], parts[-2], int(parts[-1][:-1]))


def _file(path: Path) -> Trace:
    from .spot_logs import is_event_log

    if not path.is_file():
        raise TraceSpecError(f"there is no file {path}: give {FORMS}")
    if path.suffix.lower() == ".json" or is_event_log(path):
        return Trace.from_spot_log(path)
    return Trace.from_csv(path)
