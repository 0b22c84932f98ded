"""By how much each choice and each error moves a gap's boundary: the table on a release's card."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .constants import SGP4_RADIUS_KM
from .contacts import Shadows, find_shadows
from .element_set import ElementSet
from .propagation import acceleration, satrec, states
from .shadow import ShadowModel, obscuration, occluders

_PLAIN = ShadowModel(moon=False)

# Model choices: what is compared with the default, and at which boundary.
_CHOICES = (
    ("a sphere instead of the WGS 84 ellipsoid", replace(_PLAIN, earth="sphere"), "half"),
    (
        "6371 km instead of 6378.137 km for the Earth's radius",
        replace(_PLAIN, earth_radius_km=6371.0),
        "half",
    ),
    ("60 km of opaque atmosphere", replace(_PLAIN, atmosphere_km=60.0), "half"),
    ("a cylinder instead of a cone", replace(_PLAIN, cone="cylinder"), "half"),
    ("a cylinder instead of a cone, at the penumbra", replace(_PLAIN, cone="cylinder"), "penumbra"),
    ("a cylinder instead of a cone, at the umbra", replace(_PLAIN, cone="cylinder"), "umbra"),
)

# What ERFA's moon98 and JPL's DE421 may differ by at the Moon's contacts (median, largest) [s]: a bound, not a
# measurement; `tests/test_against_skyfield.py` holds LEO and GEO satellites to it on two eclipse days.
MOON_BOUND_S = (3.0, 20.0)

DRAG_FACTOR = 1.2
ALONG_TRACK_KM = 1.0


def error_budget(
    element_sets: Mapping[str, Sequence[ElementSet]], start_ms: int, span_ms: int
) -> list[dict[str, Any]]:
    """Measure how far boundaries of the Earth's shadow move, regime by regime.

    Parameters
    ----------
    element_sets : mapping of str to sequence of ElementSet
        By regime.
    start_ms, span_ms : int
        Start [Unix ms, UTC] and length [ms].

    Returns
    -------
    list of dict
        ``source``, ``regime``, ``median_s`` and ``max_s``: absolute shifts of those boundaries that exist both
        ways. The Moon's ephemeris is a stated bound, all others are measured here.
    """
    rows: list[dict[str, Any]] = []

    def add(source: str, regime: str, shifts_s: NDArray[np.float64]) -> None:
        if len(shifts_s):
            size = np.abs(shifts_s)
            rows.append(
                {
                    "source": source,
                    "regime": regime,
                    "median_s": float(np.median(size)),
                    "max_s": float(size.max()),
                }
            )

    for regime, members in element_sets.items():
        base = find_shadows(members, start_ms, span_ms, _PLAIN)
        add("search, refinement and rounding to 1 ms", regime, _residuals_s(base, members, start_ms, span_ms))
        for source, model, depth in _CHOICES:
            other = find_shadows(members, start_ms, span_ms, model)
            add(source, regime, boundary_shifts_s(base, other, depth))
        if regime in ("leo", "geo"):
            median_s, max_s = MOON_BOUND_S
            source = "the Moon's place (moon98 against DE421), at the Moon's contacts: a bound"
            rows.append({"source": source, "regime": regime, "median_s": median_s, "max_s": max_s})
        ahead = find_shadows([_ahead(e) for e in members], start_ms, span_ms, _PLAIN)
        source = "element age: each kilometre along the track"
        add(source, regime, boundary_shifts_s(base, ahead, "half"))
        heavier = [replace(e, bstar_per_earth_radius=e.bstar_per_earth_radius * DRAG_FACTOR) for e in members]
        shifts_s = boundary_shifts_s(base, find_shadows(heavier, start_ms, span_ms, _PLAIN), "half")
        if shifts_s.any():  # where drag does not act, a row of zeros would say that age does not matter
            add("element age: drag a fifth stronger than the element set's", regime, shifts_s)
    return rows


def _ahead(elements: ElementSet) -> ElementSet:
    """Move a satellite along its track, as the error of an ageing element set does."""
    circumference_km = 2 * math.pi * satrec(elements).a * SGP4_RADIUS_KM
    anomaly_deg = elements.mean_anomaly_deg + 360 * ALONG_TRACK_KM / circumference_km
    return replace(elements, mean_anomaly_deg=anomaly_deg % 360)


def boundary_shifts_s(base: Shadows, other: Shadows, depth: str) -> NDArray[np.float64]:
    """Give by how much boundaries of one depth lie later in ``other`` [s], interval by overlapping interval.

    Intervals without exactly one counterpart, and ends that the span cuts, are left out.
    """
    shifts: list[NDArray[np.float64]] = []
    satellites = np.unique(base.satellite)
    for satellite in satellites.tolist():
        a, b = (
            np.flatnonzero((s.satellite == satellite) & (s.depth == depth) & (s.occluder == "earth"))
            for s in (base, other)
        )
        if not len(a) or not len(b):
            continue
        first = np.searchsorted(other.stop_ms[b], base.start_ms[a], side="right")
        beyond = np.searchsorted(other.start_ms[b], base.stop_ms[a], side="left")
        single = beyond - first == 1
        a, b = a[single], b[first[single]]
        once = np.isin(b, np.flatnonzero(np.bincount(b, minlength=len(other.start_ms)) == 1))
        a, b = a[once], b[once]
        start = ~(base.cut_start[a] | other.cut_start[b])
        stop = ~(base.cut_stop[a] | other.cut_stop[b])
        shifts.append((other.start_ms[b] - base.start_ms[a])[start] / 1000)
        shifts.append((other.stop_ms[b] - base.stop_ms[a])[stop] / 1000)
    return np.concatenate(shifts) if shifts else np.empty(0)


def _residuals_s(
    shadows: Shadows, members: Sequence[ElementSet], start_ms: int, span_ms: int
) -> NDArray[np.float64]:
    """Give how far the written half-lit boundaries are from where half of the disc is hidden [s].

    The hidden fraction comes from the overlap of two discs, not from the distance that the search follows.
    """
    (earth, *_) = occluders(_PLAIN, start_ms, span_ms)
    found: list[NDArray[np.float64]] = []
    for i, element_set in enumerate(members):
        rows = (shadows.satellite == i) & (shadows.depth == "half")
        starts = shadows.start_ms[rows & ~shadows.cut_start]
        stops = shadows.stop_ms[rows & ~shadows.cut_stop]
        t_s = np.concatenate([starts, stops]) / 1000
        model = satrec(element_set)
        hidden = []
        for offset_s in (-0.5, 0.0, 0.5):
            _, r, v = states(model, start_ms, t_s + offset_s)
            a = acceleration(*r.T)
            x, q, sun = earth.motion(start_ms, t_s + offset_s, tuple(r.T), tuple(v.T), a)
            hidden.append(obscuration(earth, x[0], q[0], sun))
        found.append((0.5 - hidden[1]) / (hidden[2] - hidden[0]))
    return np.concatenate(found) if found else np.empty(0)
