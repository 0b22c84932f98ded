"""From one satellite's element set and shadows to its trace: regime, orbit class, facts and gaps."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from numbers import Real

import numpy as np

from ..errors import FailedError, InputError
from ..schema import DECIMALS
from ..trace import DAY_MS, Orbit, Trace
from .constants import EARTH_RADIUS_KM, SGP4_J2, SGP4_RADIUS_KM
from .contacts import Shadows, find_shadows
from .element_set import ElementSet
from .propagation import satrec
from .shadow import ShadowModel
from .sun_moon import sun_teme

# Limits of the regimes: altitudes of the IADC protected regions (IADC-02-01 Rev. 3, 2021, section 3.3),
# geosynchronous by period, highly eccentric from e = 0.25 as CelesTrak and Space-Track have it.
LEO_APOGEE_KM = 2_000.0
GEO_REV_PER_DAY = (0.9, 1.1)
GEO_ECCENTRICITY = 0.1
HEO_ECCENTRICITY = 0.25
MEO_APOGEE_KM = 35_586.0

SUN_DEG_PER_DAY = 360 / 365.2422
SUN_SYNCHRONOUS_TOLERANCE_DEG_PER_DAY = 0.1
DAWN_DUSK_HOURS = 1.0


class PropagationError(FailedError):
    """A satellite whose position SGP4 cannot give for the whole span."""


def regime_of(elements: ElementSet) -> str:
    """Classify an orbit as ``leo``, ``meo``, ``geo``, ``heo`` or ``other``.

    ``geo`` is geosynchronous at any inclination; ``heo`` has an eccentricity of 0.25 or more; ``leo`` has
    its apogee below 2,000 km; ``meo`` lies between 2,000 and 35,586 km; ``other`` is what is left.

    Parameters
    ----------
    elements : ElementSet

    Returns
    -------
    str
    """
    perigee_km, apogee_km = altitudes_km(elements)
    low, high = GEO_REV_PER_DAY
    if elements.eccentricity >= HEO_ECCENTRICITY:
        return "heo"
    if low <= elements.mean_motion_rev_per_day <= high and elements.eccentricity < GEO_ECCENTRICITY:
        return "geo"
    if apogee_km < LEO_APOGEE_KM:
        return "leo"
    if perigee_km >= LEO_APOGEE_KM and apogee_km < MEO_APOGEE_KM:
        return "meo"
    return "other"


def orbit_class_of(elements: ElementSet) -> str:
    """Name the kind of orbit within its regime, from the elements alone.

    ``dawn-dusk`` and ``sun-synchronous`` (the node follows the Sun within 0.1 deg a day by J2; dawn-dusk
    where it is within an hour of 6 or 18 h local time), ``geostationary`` (up to 1 deg) and
    ``inclined-geosynchronous``, and else by inclination ``equatorial`` (below 10 deg), ``low-inclination`` (35), ``inclined`` (75), ``polar`` (105),
    ``retrograde``.

    Parameters
    ----------
    elements : ElementSet

    Returns
    -------
    str
    """
    inclination_deg = elements.inclination_deg
    regime = regime_of(elements)
    if regime == "geo":
        return "geostationary" if inclination_deg <= 1 else "inclined-geosynchronous"
    if (
        regime == "leo"
        and abs(_node_deg_per_day(elements) - SUN_DEG_PER_DAY) < SUN_SYNCHRONOUS_TOLERANCE_DEG_PER_DAY
    ):
        sun_x, sun_y, _ = sun_teme(np.array([elements.epoch_us // 1_000_000]))[0]
        sun_deg = math.degrees(math.atan2(sun_y, sun_x))
        local_hours = (12 + (elements.ra_of_asc_node_deg - sun_deg) / 15) % 12
        return "dawn-dusk" if abs(local_hours - 6) <= DAWN_DUSK_HOURS else "sun-synchronous"
    for limit_deg, name in ((10, "equatorial"), (35, "low-inclination"), (75, "inclined"), (105, "polar")):
        if inclination_deg < limit_deg:
            return name
    return "retrograde"


def altitudes_km(elements: ElementSet) -> tuple[float, float]:
    """Return perigee and apogee of the mean (Brouwer) elements above 6378.137 km [km]."""
    semi_major_axis_km = satrec(elements).a * SGP4_RADIUS_KM
    return (
        semi_major_axis_km * (1 - elements.eccentricity) - EARTH_RADIUS_KM,
        semi_major_axis_km * (1 + elements.eccentricity) - EARTH_RADIUS_KM,
    )


def gap_depth(model: ShadowModel) -> str:
    """Return the depth of shadow that is a gap under a model."""
    return "half" if model.min_sunlight == 0.5 else "gap"


def satellite_traces(
    element_sets: Sequence[ElementSet],
    shadows: Shadows,
    start_ms: int,
    span_ms: int,
    model: ShadowModel,
) -> list[Trace]:
    """Make the trace of each satellite: its gaps are the union of both occluders' gap intervals.

    Parameters
    ----------
    element_sets : sequence of ElementSet
    shadows : Shadows
        Of these satellites over this span; none of them failed.
    start_ms, span_ms : int
        Start [Unix ms, UTC] and length [ms].
    model : ShadowModel

    Returns
    -------
    list of Trace
    """
    is_gap = shadows.depth == gap_depth(model)
    satellite = shadows.satellite[is_gap]
    pairs = np.stack([shadows.start_ms[is_gap], shadows.stop_ms[is_gap]], axis=1)
    first = np.searchsorted(satellite, np.arange(len(element_sets) + 1))
    start = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=start_ms)
    traces = []
    for i, elements in enumerate(element_sets):
        regime = regime_of(elements)
        traces.append(
            Trace(
                trace_id=f"{regime}-{elements.catalog_number}",
                span_ms=span_ms,
                gaps=pairs[first[i] : first[i + 1]],
                start=start,
                name=elements.name or str(elements.catalog_number),
                regime=regime,
                orbit=_orbit(elements, start_ms, shadows.beta_min_deg[i], shadows.beta_max_deg[i]),
            )
        )
    return traces


def trace_from_elements(
    elements: ElementSet,
    start: datetime | None = None,
    days: float = 7,
    model: ShadowModel | None = None,
) -> Trace:
    """Make the trace of one's own satellite.

    Parameters
    ----------
    elements : ElementSet
        For example from `orbittrace_data.builders.gp.read_element_sets`.
    start : datetime, optional
        With a time zone; by default the day that follows the element set's epoch, 0 h UTC.
    days : float
        Length of the span [d].
    model : ShadowModel, optional

    Returns
    -------
    Trace

    Raises
    ------
    PropagationError
        If SGP4 cannot follow the satellite to the end of the span.
    InputError
        If the span does not lie within 1957 to 2099, or for anything else than is asked for here.

    Examples
    --------
    >>> from orbittrace_data.builders.snapshot import read_snapshot
    >>> trace_from_elements(read_snapshot("2024-09-22").element_sets[0], days=1).span_ms
    86400000
    """
    if not isinstance(elements, ElementSet):
        raise InputError(f"elements must be an ElementSet, as read_element_sets gives them, got {elements!r}")
    if model is None:
        model = ShadowModel()
    elif not isinstance(model, ShadowModel):
        raise InputError(f"model must be a ShadowModel, got {model!r}")
    start_ms = next_day_ms(elements.epoch_us) if start is None else unix_ms(start)
    span_ms = span_of_days(days)
    shadows = find_shadows([elements], start_ms, span_ms, model)
    require_known([elements], shadows, span_ms)
    return satellite_traces([elements], shadows, start_ms, span_ms, model)[0]


def require_known(element_sets: Sequence[ElementSet], shadows: Shadows, span_ms: int) -> None:
    """Raise a PropagationError for the first satellite that is not known to the span's end."""
    for elements, known_ms, reason in zip(element_sets, shadows.known_until_ms, shadows.failure, strict=True):
        if known_ms < span_ms:
            raise PropagationError(
                f"satellite {elements.catalog_number} ({elements.name}) is known for "
                f"{known_ms / DAY_MS:.3f} of {span_ms / DAY_MS:.6g} days only: {reason}. "
                "Use a newer element set, a shorter span, or leave it out"
            )


def next_day_ms(epoch_us: int) -> int:
    """Return 0 h UTC of the day that follows an epoch (or the epoch, at 0 h exactly) [Unix ms]."""
    day_us = DAY_MS * 1000
    return -(-epoch_us // day_us) * DAY_MS


def span_of_days(days: float) -> int:
    """Return a span of days in whole milliseconds."""
    if not isinstance(days, Real) or isinstance(days, bool) or not 0 < days <= 366:
        raise InputError(f"days must be more than 0 and at most 366, got {days!r}")
    return max(round(days * DAY_MS), 1)


def unix_ms(instant: datetime) -> int:
    """Return an instant as Unix milliseconds, UTC."""
    if not isinstance(instant, datetime):
        raise InputError(f"an instant must be a datetime with a time zone, got {instant!r}")
    if instant.tzinfo is None:
        raise InputError(f"{instant.isoformat()} has no time zone: add one, for example Z")
    return (instant - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1)


def _orbit(elements: ElementSet, start_ms: int, beta_min_deg: float, beta_max_deg: float) -> Orbit:
    perigee_km, apogee_km = altitudes_km(elements)
    epoch_ms = round(elements.epoch_us / 1000)  # exact below 2**53, half to even
    figures = {
        "inclination_deg": elements.inclination_deg,
        "eccentricity": elements.eccentricity,
        "period_s": 86_400 / elements.mean_motion_rev_per_day,
        "perigee_km": perigee_km,
        "apogee_km": apogee_km,
        "beta_min_deg": beta_min_deg,
        "beta_max_deg": beta_max_deg,
    }
    return Orbit(
        orbit_class=orbit_class_of(elements),
        catalog_number=elements.catalog_number,
        object_id=elements.object_id,
        epoch=datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=epoch_ms),
        element_age_ms=start_ms - epoch_ms,
        **{name: round(float(value), DECIMALS[name]) for name, value in figures.items()},
    )


def _node_deg_per_day(elements: ElementSet) -> float:
    """Return the secular J2 drift of the node [deg/d] (Vallado 2013, chapter 9)."""
    p = satrec(elements).a * (1 - elements.eccentricity**2)  # [Earth radii]
    motion_deg_per_day = elements.mean_motion_rev_per_day * 360
    return -1.5 * motion_deg_per_day * SGP4_J2 / p**2 * math.cos(math.radians(elements.inclination_deg))
