"""SGP4 against the published verification vectors.

Vallado, Crawford, Hujsak & Kelso (2006), "Revisiting Spacetrack Report #3", AIAA 2006-6753: 33 element sets
(``SGP4-VER.TLE``) and the states that the reference program prints for them (``tcppver.out``). Both files
come with the sgp4 package.
"""

from datetime import UTC, datetime, timedelta
from importlib.resources import files

import numpy as np
import pytest

from orbittrace_data.builders.element_set import ElementSet
from orbittrace_data.builders.propagation import julian_date, satrec


def decimal_exponent(text):
    mantissa, exponent = text[:-2], text[-2:]
    return float(mantissa[0] + "." + mantissa[1:]) * 10.0 ** int(exponent)


def element_set(line1, line2):
    """Read by column: several of the records break the rules that the package's own reader enforces."""
    year, day = int(line1[18:20]), line1[20:32].split(".")
    first = datetime(2000 + year if year < 57 else 1900 + year, 1, 1, tzinfo=UTC)
    days = (first - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(days=1) + int(day[0]) - 1
    return ElementSet(
        int(line1[2:7]),
        "",
        "",
        days * 86_400_000_000 + int(day[1]) * 864,
        float(line2[52:63]),
        float("0." + line2[26:33].replace(" ", "0")),
        float(line2[8:16]),
        float(line2[17:25]),
        float(line2[34:42]),
        float(line2[43:51]),
        decimal_exponent(line1[53:61]),
        float(line1[33:43]),
        decimal_exponent(line1[44:52]),
    )


def read_package_file(name):
    return files("sgp4").joinpath(name).read_text().splitlines()


def published():
    """Give each element set with the times [min] and positions [km] printed for it."""
    lines = [line for line in read_package_file("SGP4-VER.TLE") if not line.startswith("#")]
    records = [element_set(a, b) for a, b in zip(lines[::2], lines[1::2], strict=True)]
    blocks = []
    for line in read_package_file("tcppver.out"):
        if line.rstrip().endswith("xx"):
            blocks.append([])
        else:
            blocks[-1].append([float(word) for word in line.split()[:4]])
    return list(zip(records, blocks, strict=True))


@pytest.mark.parametrize(
    ("elements", "rows"), published(), ids=lambda value: getattr(value, "catalog_number", "")
)
def test_positions(elements, rows):
    minutes, expected = np.array(rows)[:, 0], np.array(rows)[:, 1:]
    start_ms, rest_us = divmod(elements.epoch_us, 1000)
    # Not `states`, which ends a satellite where it has re-entered: the reference flies on to the Earth's surface.
    error, r, _ = satrec(elements).sgp4_array(*julian_date(start_ms, minutes * 60 + rest_us / 1e6))
    given = error == 0
    # The reference prints a state and only then notes that SGP4 has failed.
    assert given[:-1].all()
    # Epochs before 2010-03 are good to 0.2 microseconds: a millimetre along the track, five at perigee.
    assert np.all(np.abs(r[given] - expected[given]) < 5e-6)


def test_all_of_them_are_there():
    assert len(published()) == 33
    assert sum(len(rows) for _, rows in published()) == 667
