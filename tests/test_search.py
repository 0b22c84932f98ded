import numpy as np
import pytest
from orbit_samples import DAY_MS, GEO, ISS, MOLNIYA, SEPTEMBER_23

from orbittrace_data.builders import rows
from orbittrace_data.builders.batches import batches
from orbittrace_data.builders.contacts import find_shadows
from orbittrace_data.builders.search import _spread_km
from orbittrace_data.builders.shadow import (
    ShadowModel,
    cylinder_distance,
    depths,
    occluders,
    signed_distances,
)
from orbittrace_data.builders.snapshot import read_snapshot
from orbittrace_data.builders.tracks import earth_track


@pytest.mark.parametrize("earth", ["oblate", "sphere"])
@pytest.mark.parametrize("min_sunlight", [0.02, 0.5, 0.98])
def test_all_boundaries_are_near_the_cylinder(earth, min_sunlight):
    model = ShadowModel(earth=earth, min_sunlight=min_sunlight, moon=False)
    (body,) = occluders(model, SEPTEMBER_23, 3 * DAY_MS)
    ((_, batch, _, _),) = batches([ISS, MOLNIYA, GEO], SEPTEMBER_23, 3 * DAY_MS)
    track = earth_track(batch, body)
    spread = _spread_km(track)
    assert np.isfinite(spread[track.valid]).all()
    far = 0.0
    for x, q, sun in track.samples(40):
        behind = track.valid & (x > 0)
        cylinder = cylinder_distance(body, x, q)
        for distance in signed_distances(body, depths(model), x, q, sun):
            off = np.abs(distance - cylinder)[behind]
            assert np.all(off < spread[behind])
            far = max(far, float((off / spread[behind]).max()))
    assert far > 0.5  # the bound is no more generous than need be


def test_more_samples_find_no_more_contacts(monkeypatch):
    element_sets = read_snapshot("2024-09-22").element_sets
    few = find_shadows(element_sets, SEPTEMBER_23, 7 * DAY_MS, ShadowModel(moon=False))
    monkeypatch.setattr(rows, "EARTH_PARTS", 8 * rows.EARTH_PARTS)
    many = find_shadows(element_sets, SEPTEMBER_23, 7 * DAY_MS, ShadowModel(moon=False))
    for column in ("satellite", "depth", "cut_start", "cut_stop"):
        assert np.array_equal(getattr(few, column), getattr(many, column))
    for column in ("start_ms", "stop_ms"):
        assert np.abs(getattr(few, column) - getattr(many, column)).max() <= 1
