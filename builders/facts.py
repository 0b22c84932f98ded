"""What is said about a release in more than one place: the card and the Croissant metadata take it from here."""

import html
import re
from datetime import UTC, datetime

from ..manifest import Manifest
from ..trace import DAY_MS

CITATION_KEY = "orbittrace"
PAPER = "arXiv:2609.22087"
PAPER_URL = "https://arxiv.org/abs/2609.22087"
CURATORS = "The OrbitTrace maintainers"
TITLE = "OrbitTrace: availability traces of real satellites"
KEYWORDS = ("satellite", "orbit", "eclipse", "availability", "intermittent-training", "checkpointing")

COLUMN_MEANING = {
    "trace_id": "regime and catalogue number; in `energy` with `@` and the spacecraft behind it",
    "name": "the satellite's name in the element sets",
    "regime": "`leo`, `meo`, `geo`, `heo` or `other`",
    "orbit_class": "kind of orbit within the regime, from the elements",
    "catalog_number": "NORAD catalogue number, up to nine digits",
    "object_id": "international designator (COSPAR)",
    "epoch": "of the element set, UTC",
    "start": "the instant of an interval's start, or of t = 0 in `traces`, UTC",
    "stop": "the instant of an interval's end, UTC",
    "span_ms": "length of the trace [ms]",
    "element_age_ms": "start less epoch [ms]",
    "inclination_deg": "[deg]",
    "eccentricity": "[1]",
    "period_s": "from the Kozai mean motion [s]",
    "perigee_km": "mean elements, above 6378.137 km [km]",
    "apogee_km": "mean elements, above 6378.137 km [km]",
    "beta_min_deg": "least beta angle in the span, signed towards r x v [deg]",
    "beta_max_deg": "greatest beta angle in the span [deg]",
    "duty_cycle": "available time over span [1]",
    "gap_count": "number of gaps",
    "longest_gap_ms": "[ms]",
    "gap_start_ms": "gaps' starts [ms from t = 0]",
    "gap_stop_ms": "gaps' ends [ms from t = 0]",
    "available": "whether the interval is a window (true) or a gap (false)",
    "start_ms": "start [ms from t = 0]",
    "stop_ms": "end, exclusive [ms from t = 0]",
    "occluder": "`earth` or `moon`",
    "depth": "`penumbra`, `half` (half of the disc hidden) or `umbra`",
    "cut_start": "whether the span's start cut the interval",
    "cut_stop": "whether the span's end cut the interval",
    "max_obscuration": "greatest hidden share of the solar disc, on penumbra rows [1]",
    "mean_motion_rev_per_day": "Kozai [rev/d]",
    "ra_of_asc_node_deg": "TEME [deg]",
    "arg_of_pericenter_deg": "[deg]",
    "mean_anomaly_deg": "[deg]",
    "ephemeris_type": "as in OMM",
    "classification_type": "as in OMM",
    "element_set_no": "as in OMM",
    "rev_at_epoch": "as in OMM",
    "bstar_per_earth_radius": "SGP4 drag term [1/Earth radius]",
    "mean_motion_dot_rev_per_day2": "half the first derivative [rev/d^2]",
    "mean_motion_ddot_rev_per_day3": "a sixth of the second derivative [rev/d^3]",
    "spacecraft": "the power system that the satellite is given",
    "sunlit_share": "`duty_cycle` of the same satellite in `traces` [1]",
    "lowest_soc": "least state of charge of the battery in the span [1]",
    "line1": "the TLE as read, null where a TLE cannot hold the object",
    "line2": "the TLE as read, null where a TLE cannot hold the object",
}

CONFIG_MEANING = {
    "traces": "one row a satellite: the facts and the gaps; the one that a trainer reads",
    "intervals": "windows and gaps of every trace in the order of time, one row each",
    "shadows": "every interval inside penumbra, half shadow and umbra of the Earth and of the Moon",
    "elements": "the element set that each trace was made from",
    "energy": "one row a satellite as in `traces`, but of a payload that runs while a battery allows it",
}

USES = (
    "Comparing training methods that live with predictable interruptions (checkpoint and resume, optimizers that are "
    "aware of availability), with `dev` for tuning and `test` for reporting.",
    "Planning on-board compute: how long the windows and gaps of an orbit are, and how they change with the season.",
    "Testing schedulers and checkpoint policies against real, irregular duty cycles.",
)

OUT_OF_SCOPE = (
    "Conjunction assessment, tracking, or any operation of a satellite.",
    "Power budgets as they stand: `traces` says where sunlight is; `energy` puts one and the same small spacecraft on "
    "every orbit, which is not what flies there.",
    "Statistics of the population in orbit: the satellites were chosen, not sampled.",
    "Random failures: the gaps are predictable, and a mean time between failures of them means nothing.",
)

LIMITS = (
    "Sunlight is not power: batteries, panels, attitude and loads are not in `traces`, and in `energy` they are one simple "
    "model whose panel always faces the Sun and whose battery does not age.",
    "A real atmosphere refracts and absorbs; the default shadow has none.",
    "Element sets age: a few seconds within days, minutes in strong drag (see `element_age_ms`).",
    "The start of every trace is the same date: two weeks show one season of each orbit's eclipses.",
)

BIASES = (
    "The satellites were chosen to spread what matters for training (orbit class, altitude, length of the gaps, "
    "seasons of eclipse); low orbits are most of them, and unlisted or classified objects are none of them.",
    "The three regimes are this project's reading of the paper's words.",
)

RECOMMENDATIONS = (
    "Report results on `test` with the data version; same major and minor version means comparable.",
    "Say which traces are controls (no gap): every method must do the same on them.",
    "Shrink the windows by a margin (`Trace.shrink`) where seconds matter; the error budget says how wide.",
)

SENSITIVE = "None: orbits of catalogued, man-made objects as they are published for everybody; no persons, no operators' data."

COLLECTION = (
    "Computed, not observed: SGP4 positions from published general-perturbations element sets, shadows of the Earth and "
    "the Moon by geometry. No sampling, no crowd work, no annotation."
)

PREPROCESSING = (
    "Contacts are found to 1e-9 s and rounded to whole milliseconds, half to even; an interval that rounds to nothing is "
    "dropped. Floats are rounded to stated decimals. The element sets are unchanged and part of the release."
)

MAINTENANCE = (
    "A published version never changes. Major versions change the schema or the meaning, minor ones add traces or a "
    "config, patch ones change metadata only; each is a tag (`v1.0.0`). Results are comparable under the same major and "
    "minor version, and under versions with the same traces: 1.0 and 1.1."
)

SOCIAL_IMPACT = (
    "Lets claims about training in orbit, and under any predictable power limit, be checked by everybody. The orbits are "
    "public; the traces add no ability to find or disturb a satellite."
)


def what_it_is(manifest: Manifest) -> str:
    """Say in a sentence what a release holds; a derived one never passes for the benchmark."""
    derived = "" if manifest.kind == "benchmark" else ", **derived: this is not the OrbitTrace benchmark**"
    return (
        f"{manifest.trace_count} availability traces of real satellites{derived}: when each is in sunlight, and so able "
        f"to compute, over {span(manifest)} from {instant(manifest.start_ms)}."
    )


def origin(manifest: Manifest) -> str:
    """Say what a release was computed from."""
    return (
        f"Computed with SGP4 from the frozen element sets `{manifest.snapshot['name']}`, and reproducible to the row: "
        "`orbittrace verify` rebuilds them."
    )


def power(manifest: Manifest) -> str:
    """Describe the power system of the config ``energy`` in a sentence; empty where there is none."""
    if manifest.power is None:
        return ""
    p = manifest.power
    return (
        f"{plain(p['name'])}: a panel of {p['panel_w']:g} W at {p['sun_angle_deg']:g} deg to the Sun, a battery of "
        f"{p['battery_wh']:g} Wh that starts at {p['initial_soc']:.0%}, {p['load_w']:g} W drawn while the payload runs and "
        f"{p['idle_w']:g} W while it does not, {p['charge_efficiency']:.0%} of a surplus stored, the payload switched off "
        f"below {p['min_soc']:.0%} and on again at {p['resume_soc']:.0%}"
    )


def missing(manifest: Manifest) -> str:
    """Say which satellites have no trace."""
    left_out = manifest.notes.get("left_out", [])
    if not left_out:
        return "nothing; every satellite that was asked for has a trace of the whole span."
    return f"{len(left_out)} satellites have no trace: their element sets cannot be propagated over the span."


def bibtex(manifest: Manifest) -> str:
    """Return the citation of a release."""
    year = datetime.fromtimestamp(manifest.start_ms / 1000, UTC).year
    return (
        f"@misc{{{CITATION_KEY},\n"
        f"  title  = {{{TITLE}}},\n"
        f"  author = {{{{{CURATORS}}}}},\n"
        f"  note   = {{Data version {manifest.label}, element sets of {year}}}\n"
        "}"
    )


def plain(text: str) -> str:
    r"""Escape a text from outside, so that Markdown shows it as it stands.

    Examples
    --------
    >>> plain("<b>A|B & C")
    '&lt;b&gt;A\\|B &amp; C'
    """
    return re.sub(r"([\\`*_~|\[\]])", r"\\\1", html.escape(text, quote=False))


def span(manifest: Manifest) -> str:
    """Return the length of the traces for people."""
    return f"{manifest.span_ms / DAY_MS:.6g} days"


def instant(ms: int) -> str:
    """Return Unix milliseconds in ISO 8601.

    Examples
    --------
    >>> instant(1_727_049_600_000)
    '2024-09-23T00:00:00Z'
    """
    text = datetime.fromtimestamp(ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{text}.{ms % 1000:03d}Z" if ms % 1000 else f"{text}Z"
