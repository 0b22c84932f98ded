"""One satellite in every format, in the shapes that CelesTrak and Space-Track publish."""

import json

ISS = {
    "OBJECT_NAME": "ISS (ZARYA)",
    "OBJECT_ID": "1998-067A",
    "EPOCH": "2024-09-22T09:33:06.128640",
    "MEAN_MOTION": "15.49480284",
    "ECCENTRICITY": ".0007144",
    "INCLINATION": "51.6398",
    "RA_OF_ASC_NODE": "193.8799",
    "ARG_OF_PERICENTER": "19.4394",
    "MEAN_ANOMALY": "84.7888",
    "EPHEMERIS_TYPE": "0",
    "CLASSIFICATION_TYPE": "U",
    "NORAD_CAT_ID": "25544",
    "ELEMENT_SET_NO": "999",
    "REV_AT_EPOCH": "47362",
    "BSTAR": ".74589E-3",
    "MEAN_MOTION_DOT": ".41594E-3",
    "MEAN_MOTION_DDOT": "0",
}
# A launch nominal: a nine-digit number, which no TLE holds.
NOMINAL = ISS | {
    "OBJECT_NAME": "STARLINK G10",
    "OBJECT_ID": "",
    "NORAD_CAT_ID": "799501621",
    "ECCENTRICITY": ".0001",
}
ANALYST = ISS | {"OBJECT_NAME": "UNKNOWN", "OBJECT_ID": "", "NORAD_CAT_ID": "270449", "BSTAR": "-.1E-4"}

_METADATA = ("OBJECT_NAME", "OBJECT_ID", "CENTER_NAME", "REF_FRAME", "TIME_SYSTEM", "MEAN_ELEMENT_THEORY")
_CONSTANTS = {
    "CENTER_NAME": "EARTH",
    "REF_FRAME": "TEME",
    "TIME_SYSTEM": "UTC",
    "MEAN_ELEMENT_THEORY": "SGP4",
}


def csv_text(*records: dict, end: str = "\r\n") -> str:
    """CelesTrak's CSV: no quotes, only the element keywords."""
    rows = [",".join(ISS), *(",".join(record.values()) for record in records)]
    return end.join(rows) + end


def space_track_csv(*records: dict) -> str:
    """Space-Track's CSV: everything quoted, keywords of its own at both ends."""
    keywords = ["CCSDS_OMM_VERS", "COMMENT", *_CONSTANTS, *ISS, "SEMIMAJOR_AXIS", "TLE_LINE0", "DECAY_DATE"]
    rows = [keywords]
    for record in records:
        row = {"CCSDS_OMM_VERS": "3.0", "COMMENT": "GENERATED VIA SPACE-TRACK.ORG API"} | _CONSTANTS | record
        rows.append(
            [row.get(k, {"SEMIMAJOR_AXIS": "6797.331", "TLE_LINE0": "0 A, B"}.get(k, "")) for k in keywords]
        )
    return "".join(",".join(f'"{cell}"' for cell in row) + "\n" for row in rows)


def json_text(*records: dict, indent: int | None = None) -> str:
    """CelesTrak's JSON: numbers are numbers."""
    texts = ("OBJECT_NAME", "OBJECT_ID", "EPOCH", "CLASSIFICATION_TYPE")
    values = [
        {k: v if k in texts else float(v) if "." in v else int(v) for k, v in r.items()} for r in records
    ]
    return json.dumps(values, indent=indent)


def space_track_json(*records: dict) -> str:
    """Space-Track's JSON: numbers are text, absent values null."""
    return json.dumps(
        [_CONSTANTS | {k: v or None for k, v in r.items()} | {"DECAY_DATE": None} for r in records]
    )


def kvn_text(*records: dict, end: str = "\r\n") -> str:
    """CelesTrak's KVN: one message after another."""
    lines = []
    for record in records:
        lines += ["CCSDS_OMM_VERS      = 2.0", "CREATION_DATE       = ", "ORIGINATOR          = ", ""]
        lines += [f"{k:20}= {v}" for k, v in (_CONSTANTS | record).items()] + [""]
    return end.join(lines) + end


def xml_text(*records: dict) -> str:
    """CelesTrak's and Space-Track's XML: one ndm of omm elements."""
    omms = []
    for record in records:
        whole = _CONSTANTS | record
        metadata = "".join(f"<{k}>{_escaped(whole[k])}</{k}>\n" for k in _METADATA)
        rest = {k: v for k, v in whole.items() if k not in _METADATA}
        mean = "".join(f"<{k}>{v}</{k}>\n" for k, v in list(rest.items())[:7])
        tle = "".join(f"<{k}>{v}</{k}>\n" for k, v in list(rest.items())[7:])
        omms.append(
            '<omm id="CCSDS_OMM_VERS" version="2.0"><header><CREATION_DATE/><ORIGINATOR/></header>\n'
            f"<body><segment><metadata>{metadata}</metadata>\n<data><meanElements>{mean}</meanElements>"
            f"<tleParameters>{tle}</tleParameters>"
            '<userDefinedParameters><USER_DEFINED parameter="PERIOD">92.9</USER_DEFINED></userDefinedParameters>'
            "</data></segment></body></omm>\n"
        )
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n<ndm xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
        + "".join(omms)
        + "</ndm>\n"
    )


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;")


TEXTS = {
    "csv": csv_text,
    "space_track_csv": space_track_csv,
    "json": json_text,
    "json_indented": lambda *records: json_text(*records, indent=1),
    "space_track_json": space_track_json,
    "kvn": kvn_text,
    "xml": xml_text,
}
TLE = (
    "ISS (ZARYA)\n"
    "1 25544U 98067A   24266.39798760  .00041594  00000+0  74589-3 0  9997\n"
    "2 25544  51.6398 193.8799 0007144  19.4394  84.7888 15.49480284473626\n"
)
