"""Our reader and writer as gpconf's adapter sees them: what they say, without corrections.

cd tests && gpconf run --adapter gpconf_adapter:Parser
"""

import datetime as dt

from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.gp import parse_records
from orbittrace_data.builders.omm import parse_catalog_number, parse_epoch, parse_omm
from orbittrace_data.builders.tle import checksum, decode_catalog_number, encode_catalog_number, parse_tle
from orbittrace_data.builders.tle_writer import write_tle

_DECLARATION = {"_adapter": {"refusals": True}}
_KEYWORDS = {
    "object_name": "OBJECT_NAME",
    "object_id": "OBJECT_ID",
    "epoch": "EPOCH",
    "mean_motion": "MEAN_MOTION",
    "eccentricity": "ECCENTRICITY",
    "inclination": "INCLINATION",
    "ra_of_asc_node": "RA_OF_ASC_NODE",
    "arg_of_pericenter": "ARG_OF_PERICENTER",
    "mean_anomaly": "MEAN_ANOMALY",
    "ephemeris_type": "EPHEMERIS_TYPE",
    "classification_type": "CLASSIFICATION_TYPE",
    "norad_cat_id": "NORAD_CAT_ID",
    "element_set_no": "ELEMENT_SET_NO",
    "rev_at_epoch": "REV_AT_EPOCH",
    "bstar": "BSTAR",
    "mean_motion_dot": "MEAN_MOTION_DOT",
    "mean_motion_ddot": "MEAN_MOTION_DDOT",
}


def _instant(epoch_us: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=epoch_us)


def _record(e: ElementSet) -> dict:
    return {
        "norad_cat_id": e.catalog_number or None,
        "object_name": e.name or None,
        "object_id": e.object_id or None,
        "epoch": _instant(e.epoch_us),
        # repr is the shortest decimal that is this float
        "mean_motion": repr(e.mean_motion_rev_per_day),
        "eccentricity": repr(e.eccentricity),
        "inclination": repr(e.inclination_deg),
        "ra_of_asc_node": repr(e.ra_of_asc_node_deg),
        "arg_of_pericenter": repr(e.arg_of_pericenter_deg),
        "mean_anomaly": repr(e.mean_anomaly_deg),
        "bstar": repr(e.bstar_per_earth_radius),
        "mean_motion_dot": repr(e.mean_motion_dot_rev_per_day2),
        "mean_motion_ddot": repr(e.mean_motion_ddot_rev_per_day3),
        "ephemeris_type": e.ephemeris_type,
        "classification_type": e.classification_type,
        "element_set_no": e.element_set_no,
        "rev_at_epoch": e.rev_at_epoch,
    }


class Parser:
    def parse(self, raw: bytes, fmt: str) -> list[dict]:
        _, records, problems = parse_records(raw)
        lines = raw.decode("utf-8", "replace").split("\n")
        refused = [
            {
                "_refused": str(problem),
                "_field": lines[problem.line - 1][2:7] if fmt in ("tle", "2le") else problem.record,
                "_input": lines[problem.line - 1].rstrip()[-80:],  # a cut is at a line's end
            }
            for problem in problems
        ]
        found = [_record(e) for _, e in records]
        if fmt == "kvn":
            # A KVN message may leave these out; our records then hold a default and do not tell.
            for record in found:
                for optional in ("ephemeris_type", "classification_type", "element_set_no", "rev_at_epoch"):
                    del record[optional]
        return [_DECLARATION, *found, *refused]

    def write_tle(self, record: dict) -> tuple[str, str]:
        fields = {
            keyword: "" if record.get(key) is None else str(record[key]) for key, keyword in _KEYWORDS.items()
        }
        return write_tle(parse_omm(fields))

    def alpha5_decode(self, field: str) -> int:
        return decode_catalog_number(field)

    def alpha5_encode(self, number: int) -> str:
        return encode_catalog_number(number)

    def two_digit_year(self, year: int | str) -> int:
        line1 = "1 25544U 98067A   98324.28472222 -.00003657  11563-4  00000+0 0    1"
        line2 = "2 25544  51.5908 168.3788 0125362  86.4185 359.7454 16.05064833    05"
        line1 = f"{line1[:18]}{int(year):02d}{line1[20:]}"
        return _instant(parse_tle("", line1 + str(checksum(line1)), line2).epoch_us).year

    def parse_epoch(self, text: str) -> dt.datetime:
        return _instant(parse_epoch(text))

    def parse_catalog_id(self, text: str) -> int:
        return parse_catalog_number(text)
