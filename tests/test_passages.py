"""What the Moon's shadow may touch: nothing that it touches is cut out, and most of the rest is."""

import brute_force
import numpy as np
import pytest
from orbit_samples import APRIL_8, DAY_MS, GEO, ISS, MMS, MOLNIYA, NOAA_19, OCTOBER_2, SAMPLES, SEPTEMBER_23

from orbittrace_data.builders.batches import batches
from orbittrace_data.builders.constants import SGP4_MU_KM3_PER_S2
from orbittrace_data.builders.passages import join, passages
from orbittrace_data.builders.propagation import satrec
from orbittrace_data.builders.shadow import ShadowModel, occluders

ALL = tuple(SAMPLES.values())


def flown(elements, start_ms, days):
    _, batch, _, _ = next(batches(elements, start_ms, int(days * DAY_MS)))
    return batch


def passing(elements, start_ms, days):
    moon = occluders(ShadowModel(), start_ms, int(days * DAY_MS))[1]
    return passages(flown(elements, start_ms, days), moon)


@pytest.mark.parametrize("start_ms", [OCTOBER_2 - DAY_MS, APRIL_8 - DAY_MS], ids=["annular", "total"])
@pytest.mark.parametrize("elements", ALL, ids=list(SAMPLES))
def test_every_second_of_penumbra_is_in_a_cell_that_is_left(elements, start_ms):
    kept = passing([elements], start_ms, 3)
    t_s = np.arange(0.0, 3 * 86_400.0, 5.0)
    sky = brute_force.Sky(start_ms, 3 * 86_400.0)
    touched = t_s[brute_force.margins(sky, satrec(elements), "moon", t_s, ("penumbra",))["penumbra"] < 0]
    cell = np.searchsorted(kept.t_s[kept.cell], touched, side="right") - 1
    assert np.all(cell >= 0)
    assert np.all(touched <= kept.t_s[kept.cell + 1][cell])


def test_most_of_a_week_is_cut_out():
    whole, kept = flown(ALL, OCTOBER_2 - 3 * DAY_MS, 7), passing(ALL, OCTOBER_2 - 3 * DAY_MS, 7)
    assert 0 < len(kept.cell) < 0.05 * len(whole.t_s)
    assert len(passing([ISS, NOAA_19], SEPTEMBER_23, 7).t_s) == 0


def test_a_path_stays_within_the_bound_of_its_chord():
    batch = flown(ALL, SEPTEMBER_23, 7)
    cell = np.setdiff1d(np.arange(len(batch.t_s) - 1), batch.first[1:] - 1)
    step = batch.t_s[cell + 1] - batch.t_s[cell]
    r = np.array(batch.r)
    radius = np.sqrt((r * r).sum(axis=0))
    sag = (1.5 * SGP4_MU_KM3_PER_S2 / 8) * (step / np.minimum(radius[cell], radius[cell + 1])) ** 2
    for u in np.arange(1, 10) / 10:
        path, _ = batch.propagate(batch.satellite_of(cell), batch.t_s[cell] + u * step)
        chord = (1 - u) * r[:, cell] + u * r[:, cell + 1]
        assert np.all(np.sqrt(((np.array(path) - chord) ** 2).sum(axis=0)) < 0.75 * sag + 1.0)


def test_passages_of_several_batches_are_those_of_one():
    groups = [[ISS, MMS], [GEO], [NOAA_19, MOLNIYA]]
    one = passing([e for group in groups for e in group], OCTOBER_2 - DAY_MS, 3)
    several = join([passing(group, OCTOBER_2 - DAY_MS, 3) for group in groups])
    assert several.first.tolist() == one.first.tolist()
    assert several.cell.tolist() == one.cell.tolist()
    assert np.array_equal(several.t_s, one.t_s)
    assert np.array_equal(np.array(several.r), np.array(one.r))
    assert np.array_equal(np.array(several.v), np.array(one.v))
    assert [model.satnum for model in several.models] == [model.satnum for model in one.models]
