"""One element set: the mean elements of one object at one epoch, as a GP record gives them."""

from dataclasses import dataclass


@dataclass(frozen=True)
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
