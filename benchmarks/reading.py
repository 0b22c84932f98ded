"""How fast element sets are read, against sgp4's own parsers, which check nothing.

    PYTHONPATH=. python benchmarks/reading.py

The records are those of the bundled snapshot, renumbered to 15,000 objects. Times are CPU times, the best of
five; the ratio is to sgp4's reading of the same records in the same run.
"""

import csv
import dataclasses
import io
import json
import time
from collections.abc import Callable

from sgp4 import omm
from sgp4.api import Satrec

from orbittrace_data.builders.element_set import ElementSet, format_epoch
from orbittrace_data.builders.gp import read_element_sets
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.builders.tle_writer import write_tle

RECORDS = 15_000


def main() -> None:
    """Print a table."""
    bundled = read_snapshot("2024-09-22").element_sets
    catalogue = [
        dataclasses.replace(bundled[i % len(bundled)], catalog_number=10_000 + i) for i in range(RECORDS)
    ]
    lines = [(element_set.name, *write_tle(element_set)) for element_set in catalogue]
    messages = [message(element_set) for element_set in catalogue]
    texts = {
        "3LE": "".join(f"{name}\n{line1}\n{line2}\n" for name, line1, line2 in lines),
        "OMM CSV": csv_text(messages),
        "OMM JSON": json.dumps(messages),
        "OMM KVN": kvn_text(messages),
        "OMM XML": xml_text(messages),
    }
    peers = {
        "3LE": lambda: [Satrec.twoline2rv(line1, line2) for _, line1, line2 in lines],
        "OMM CSV": lambda: [initialized(fields) for fields in omm.parse_csv(io.StringIO(texts["OMM CSV"]))],
        "OMM XML": lambda: [initialized(fields) for fields in omm.parse_xml(io.StringIO(texts["OMM XML"]))],
    }
    print(f"{RECORDS} records      size MB     CPU s   records/s   x sgp4's parser")
    for kind, text in texts.items():
        data = text.encode()
        assert len(read_element_sets(data, strict=True).element_sets) == RECORDS
        ours_s = best_cpu_s(lambda data=data: read_element_sets(data))
        ratio = f"{ours_s / best_cpu_s(peers[kind]):10.2f}" if kind in peers else "         -"
        print(f"{kind:18} {len(data) / 1e6:8.1f} {ours_s:9.2f} {RECORDS / ours_s:11,.0f} {ratio}")


def best_cpu_s(work: Callable[[], object]) -> float:
    times = []
    for _ in range(5):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return min(times)


def initialized(fields: dict[str, str]) -> Satrec:
    record = Satrec()
    omm.initialize(record, fields)
    return record


def message(e: ElementSet) -> dict[str, str]:
    """Give the keywords as CelesTrak writes them."""
    return {
        "OBJECT_NAME": e.name,
        "OBJECT_ID": e.object_id,
        "EPOCH": format_epoch(e.epoch_us).removesuffix("Z"),
        "MEAN_MOTION": repr(e.mean_motion_rev_per_day),
        "ECCENTRICITY": f"{e.eccentricity:.7f}",
        "INCLINATION": repr(e.inclination_deg),
        "RA_OF_ASC_NODE": repr(e.ra_of_asc_node_deg),
        "ARG_OF_PERICENTER": repr(e.arg_of_pericenter_deg),
        "MEAN_ANOMALY": repr(e.mean_anomaly_deg),
        "EPHEMERIS_TYPE": "0",
        "CLASSIFICATION_TYPE": "U",
        "NORAD_CAT_ID": str(e.catalog_number),
        "ELEMENT_SET_NO": str(e.element_set_no),
        "REV_AT_EPOCH": str(e.rev_at_epoch),
        "BSTAR": repr(e.bstar_per_earth_radius),
        "MEAN_MOTION_DOT": repr(e.mean_motion_dot_rev_per_day2),
        "MEAN_MOTION_DDOT": repr(e.mean_motion_ddot_rev_per_day3),
    }


def csv_text(messages: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, messages[0])
    writer.writeheader()
    writer.writerows(messages)
    return text.getvalue()


def kvn_text(messages: list[dict[str, str]]) -> str:
    return "".join(
        "CCSDS_OMM_VERS = 2.0\r\n" + "".join(f"{k:20}= {v}\r\n" for k, v in fields.items()) + "\r\n"
        for fields in messages
    )


def xml_text(messages: list[dict[str, str]]) -> str:
    """Give one segment a message, as sgp4's parser wants it."""
    parts = ["<ndm>"]
    for fields in messages:
        items = [f"<{k}>{v}</{k}>" for k, v in fields.items()]
        metadata, mean, tle = "".join(items[:2]), "".join(items[2:9]), "".join(items[9:])
        parts.append(
            f"<omm><body><segment><metadata>{metadata}</metadata><data><meanElements>{mean}</meanElements>"
            f"<tleParameters>{tle}</tleParameters></data></segment></body></omm>\n"
        )
    return "".join([*parts, "</ndm>"])


if __name__ == "__main__":
    main()
