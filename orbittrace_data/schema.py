"""The tables of a release: columns, types, units and the decimals that floats are rounded to."""

from typing import Any

import numpy as np
import pyarrow as pa

_INSTANT = pa.timestamp("ms", tz="UTC")
_TIMES = pa.list_(pa.field("element", pa.int64(), nullable=False))


def _table(*columns: tuple[str, pa.DataType, bool]) -> pa.Schema:
    return pa.schema([pa.field(name, kind, nullable=nullable) for name, kind, nullable in columns])


TRACES = _table(
    ("trace_id", pa.string(), False),
    ("name", pa.string(), False),
    ("regime", pa.string(), False),
    ("orbit_class", pa.string(), False),
    ("catalog_number", pa.int64(), False),
    ("object_id", pa.string(), False),
    ("epoch", _INSTANT, False),
    ("start", _INSTANT, False),
    ("span_ms", pa.int64(), False),
    ("element_age_ms", pa.int64(), False),
    ("inclination_deg", pa.float64(), False),
    ("eccentricity", pa.float64(), False),
    ("period_s", pa.float64(), False),
    ("perigee_km", pa.float64(), False),
    ("apogee_km", pa.float64(), False),
    ("beta_min_deg", pa.float64(), False),
    ("beta_max_deg", pa.float64(), False),
    ("duty_cycle", pa.float64(), False),
    ("gap_count", pa.int64(), False),
    ("longest_gap_ms", pa.int64(), False),
    ("gap_start_ms", _TIMES, False),
    ("gap_stop_ms", _TIMES, False),
)

INTERVALS = _table(
    ("trace_id", pa.string(), False),
    ("available", pa.bool_(), False),
    ("start_ms", pa.int64(), False),
    ("stop_ms", pa.int64(), False),
    ("start", _INSTANT, False),
    ("stop", _INSTANT, False),
)

SHADOWS = _table(
    ("trace_id", pa.string(), False),
    ("occluder", pa.string(), False),
    ("depth", pa.string(), False),
    ("start_ms", pa.int64(), False),
    ("stop_ms", pa.int64(), False),
    ("cut_start", pa.bool_(), False),
    ("cut_stop", pa.bool_(), False),
    ("max_obscuration", pa.float64(), True),
)

ELEMENTS = _table(
    ("trace_id", pa.string(), False),
    ("catalog_number", pa.int64(), False),
    ("name", pa.string(), False),
    ("object_id", pa.string(), False),
    ("epoch", pa.timestamp("us", tz="UTC"), False),
    ("mean_motion_rev_per_day", pa.float64(), False),
    ("eccentricity", pa.float64(), False),
    ("inclination_deg", pa.float64(), False),
    ("ra_of_asc_node_deg", pa.float64(), False),
    ("arg_of_pericenter_deg", pa.float64(), False),
    ("mean_anomaly_deg", pa.float64(), False),
    ("ephemeris_type", pa.int64(), False),
    ("classification_type", pa.string(), False),
    ("element_set_no", pa.int64(), False),
    ("rev_at_epoch", pa.int64(), False),
    ("bstar_per_earth_radius", pa.float64(), False),
    ("mean_motion_dot_rev_per_day2", pa.float64(), False),
    ("mean_motion_ddot_rev_per_day3", pa.float64(), False),
    ("line1", pa.string(), True),
    ("line2", pa.string(), True),
)

# A row of ``traces`` (`Trace.from_row` reads it), and what is true of the spacecraft's battery beside it.
ENERGY = pa.schema(
    [
        *TRACES,
        pa.field("spacecraft", pa.string(), nullable=False),
        pa.field("sunlit_share", pa.float64(), nullable=False),
        pa.field("lowest_soc", pa.float64(), nullable=False),
    ]
)

# The default config comes first: `load_dataset("orbittrace")` gives it.
CONFIGS: dict[str, pa.Schema] = {
    "traces": TRACES,
    "intervals": INTERVALS,
    "shadows": SHADOWS,
    "elements": ELEMENTS,
    "energy": ENERGY,
}

# Elementary functions differ in their last bits between processors: stored floats are rounded.
DECIMALS: dict[str, int] = {
    "inclination_deg": 8,
    "eccentricity": 10,
    "period_s": 6,
    "perigee_km": 3,
    "apogee_km": 3,
    "beta_min_deg": 4,
    "beta_max_deg": 4,
    "duty_cycle": 9,
    "max_obscuration": 6,
    "sunlit_share": 9,
    "lowest_soc": 9,
    "mean_motion_rev_per_day": 12,
    "ra_of_asc_node_deg": 8,
    "arg_of_pericenter_deg": 8,
    "mean_anomaly_deg": 8,
    "bstar_per_earth_radius": 14,
    "mean_motion_dot_rev_per_day2": 12,
    "mean_motion_ddot_rev_per_day3": 14,
}


def round_columns(columns: dict[str, Any]) -> dict[str, Any]:
    """Round each float column to its stated decimals (half to even); NaN becomes null.

    Examples
    --------
    >>> round_columns({"duty_cycle": [0.12345678949], "name": ["a"]})
    {'duty_cycle': [0.123456789], 'name': ['a']}
    """
    rounded = dict(columns)
    for name, decimals in DECIMALS.items():
        values = columns.get(name)
        if isinstance(values, np.ndarray):
            rounded[name] = pa.array(np.round(values, decimals), mask=np.isnan(values))
        elif values is not None:
            rounded[name] = [
                None if value is None or np.isnan(value) else round(float(value), decimals)
                for value in values
            ]
    return rounded
