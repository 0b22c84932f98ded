from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from orbit_samples import (
    APRIL_8,
    DAY_MS,
    GEO,
    GPS,
    ISS,
    MMS,
    MOLNIYA,
    NOAA_19,
    OCTOBER_2,
    SAMPLES,
    SEPTEMBER_23,
)

from orbittrace_data import intervals
from orbittrace_data.builders import batches, contacts, rows
from orbittrace_data.builders.batches import Batch, columns
from orbittrace_data.builders.contacts import Shadows, SpanError, find_shadows
from orbittrace_data.builders.passages import Passages
from orbittrace_data.builders.propagation import satrec, states
from orbittrace_data.builders.refinement import TOLERANCE_S, ContactError, refine
from orbittrace_data.builders.shadow import ShadowModel, depths, distance_rates, occluders

ALL = tuple(SAMPLES.values())
FIELDS = ("occluder", "depth", "start_ms", "stop_ms", "cut_start", "cut_stop", "max_obscuration")


def table(shadows: Shadows, satellite: int = 0):
    rows = shadows.satellite == satellite
    return [tuple(getattr(shadows, name)[rows].tolist()) for name in FIELDS]


def pairs(shadows, depth, occluder="earth", satellite=0):
    rows = (shadows.satellite == satellite) & (shadows.depth == depth) & (shadows.occluder == occluder)
    return np.stack([shadows.start_ms[rows], shadows.stop_ms[rows]], axis=1)


@pytest.fixture(scope="module")
def together():
    return find_shadows(ALL, OCTOBER_2 - DAY_MS, 3 * DAY_MS)


@pytest.mark.parametrize("i", range(len(ALL)), ids=list(SAMPLES))
def test_rows_do_not_depend_on_the_other_satellites(i, together):
    alone = find_shadows([ALL[i]], OCTOBER_2 - DAY_MS, 3 * DAY_MS)
    assert str(table(alone)) == str(table(together, i))  # as text: NaN is not equal to itself
    assert alone.beta_min_deg[0] == together.beta_min_deg[i]
    assert alone.beta_max_deg[0] == together.beta_max_deg[i]


def test_rows_do_not_depend_on_the_size_of_a_batch(together, monkeypatch):
    for module in (batches, contacts):
        monkeypatch.setattr(module, "NODES_PER_BATCH", 100)
    small = find_shadows(ALL, OCTOBER_2 - DAY_MS, 3 * DAY_MS)
    for name in ("satellite", *FIELDS):
        assert str(getattr(small, name).tolist()) == str(getattr(together, name).tolist())


def test_refined_contacts_have_the_same_bits_in_any_company():
    # Milliseconds hide the last bits: here are the bits.
    occluder, wanted = occluders(ShadowModel(), SEPTEMBER_23, DAY_MS)[0], depths(ShadowModel())
    shadows = find_shadows([ISS, NOAA_19], SEPTEMBER_23, DAY_MS, ShadowModel(moon=False))
    names = [depth.name for depth in wanted]
    which = np.array([names.index(depth) for depth in shadows.depth.tolist()])
    guess = shadows.start_ms / 1000 + 0.02
    order = np.lexsort((guess, shadows.satellite))
    satellite, which, guess = shadows.satellite[order], which[order], guess[order]
    free = ~shadows.cut_start[order]
    satellite, which, guess = satellite[free], which[free], guess[free]

    def refined(models, satellite, which, guess):
        nothing = columns(np.empty((0, 3)))
        batch = Batch(models, SEPTEMBER_23, np.zeros(len(models) + 1, int), np.empty(0), nothing, nothing)
        entering = np.ones(len(guess), bool)
        return refine(batch, occluder, wanted, which, satellite, entering, guess, guess - 1.0, guess + 1.0)

    models = [satrec(ISS), satrec(NOAA_19)]
    both = refined(models, satellite, which, guess)
    for i in (0, 1):
        mine = satellite == i
        alone = refined([models[i]], np.zeros(mine.sum(), int), which[mine], guess[mine])
        assert np.array_equal(alone, both[mine])
    # And they are contacts: SGP4 a hair before and after is on the two sides.
    for i, t_s, depth in zip(satellite.tolist(), both.tolist(), which.tolist(), strict=True):
        near = t_s + np.array([-2, 2]) * TOLERANCE_S
        _, r, v = states(models[i], SEPTEMBER_23, near)
        zero = (np.zeros(2),) * 3
        x, q, sun = occluder.motion(SEPTEMBER_23, near, columns(r), columns(v), zero)
        g, _, _ = distance_rates(occluder, wanted, np.full(2, depth), x, q, sun)
        assert g[0] > 0 > g[1]


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(ALL), st.integers(0, DAY_MS))
def test_later_starts_give_the_same_intervals(elements, later_ms):
    span_ms = 2 * DAY_MS
    base = find_shadows([elements], OCTOBER_2, span_ms)
    late = find_shadows([elements], OCTOBER_2 + later_ms, span_ms - later_ms)
    for occluder in ("earth", "moon"):
        for depth in ("penumbra", "half", "umbra"):
            expected = intervals.clip(pairs(base, depth, occluder), later_ms, span_ms)
            found = pairs(late, depth, occluder) + later_ms
            assert np.array_equal(found, expected)


@pytest.mark.parametrize("elements", [ISS, GEO, GPS], ids=lambda e: e.name)
def test_depths_are_nested(elements):
    shadows = find_shadows([elements], SEPTEMBER_23, 3 * DAY_MS)
    for outer, inner in (("penumbra", "half"), ("half", "umbra")):
        a, b = pairs(shadows, outer), pairs(shadows, inner)
        assert len(b) > 0
        assert np.array_equal(intervals.intersection(a, b), b)


def test_order_of_rows(together):
    rows = list(
        zip(
            *(getattr(together, n).tolist() for n in ("satellite", "start_ms", "occluder", "depth")),
            strict=True,
        )
    )
    assert rows == sorted(rows)


def test_a_span_within_a_shadow_is_cut_at_both_ends():
    umbra = pairs(find_shadows([ISS], SEPTEMBER_23, DAY_MS), "umbra")
    middle_ms = int(umbra[3].sum()) // 2
    shadows = find_shadows([ISS], SEPTEMBER_23 + middle_ms, 10_000)
    assert shadows.depth.tolist() == ["half", "penumbra", "umbra"]
    assert shadows.start_ms.tolist() == [0, 0, 0]
    assert shadows.stop_ms.tolist() == [10_000] * 3
    assert shadows.cut_start.all()
    assert shadows.cut_stop.all()
    assert shadows.max_obscuration[1] == 1.0


def test_a_millisecond_of_span():
    shadows = find_shadows([ISS], SEPTEMBER_23, 1)
    assert shadows.known_until_ms.tolist() == [1]


def test_no_satellites():
    shadows = find_shadows([], SEPTEMBER_23, DAY_MS)
    assert len(shadows.satellite) == len(shadows.known_until_ms) == 0


def test_an_empty_span_is_refused():
    with pytest.raises(SpanError, match="positive"):
        find_shadows([ISS], SEPTEMBER_23, 0)


def test_what_fails_is_known_until_then_and_troubles_nobody():
    falling = replace(ISS, bstar_per_earth_radius=0.2)
    never = replace(ISS, mean_motion_rev_per_day=18.0)
    shadows = find_shadows([falling, NOAA_19, never], SEPTEMBER_23, 14 * DAY_MS)
    assert 0 < shadows.known_until_ms[0] < 14 * DAY_MS
    assert "SGP4" in shadows.failure[0]
    assert shadows.failure[1] == ""
    assert shadows.known_until_ms[2] == 0
    assert np.isnan(shadows.beta_min_deg[2])
    assert not (shadows.satellite == 2).any()
    mine = shadows.satellite == 0
    assert shadows.stop_ms[mine].max() <= shadows.known_until_ms[0]
    # The last good and the first bad millisecond.
    end_s = shadows.known_until_ms[0] / 1000
    error, _, _ = states(satrec(falling), SEPTEMBER_23, np.array([end_s, end_s + 0.001]))
    assert error[0] == 0
    assert error[1] != 0
    alone = find_shadows([NOAA_19], SEPTEMBER_23, 14 * DAY_MS)
    assert str(table(alone)) == str(table(shadows, 1))


def refusing(monkeypatch, refused):
    """Let the search of one body's intervals fail for the batches that ``refused`` tells."""
    intervals_of = rows._intervals

    def refuse(batch, *arguments):
        if refused(batch):
            raise ContactError("no contact where one was expected")
        return intervals_of(batch, *arguments)

    monkeypatch.setattr(rows, "_intervals", refuse)


def test_a_batch_that_cannot_be_searched_is_searched_one_by_one(together, monkeypatch):
    refusing(monkeypatch, lambda batch: len(batch.models) > 1)
    singly = find_shadows(ALL, OCTOBER_2 - DAY_MS, 3 * DAY_MS)
    for name in ("satellite", *FIELDS, "failure"):
        assert str(list(getattr(singly, name))) == str(list(getattr(together, name)))
    refusing(monkeypatch, lambda batch: True)
    nothing = find_shadows([ISS], SEPTEMBER_23, DAY_MS)
    assert nothing.known_until_ms.tolist() == [0]
    assert nothing.failure == ("no contact where one was expected",)


def test_a_satellite_that_fails_under_one_shadow_has_no_rows_at_all(together, monkeypatch):
    refusing(monkeypatch, lambda batch: isinstance(batch, Passages))
    shadows = find_shadows(ALL, OCTOBER_2 - DAY_MS, 3 * DAY_MS)
    lost = np.flatnonzero(shadows.known_until_ms == 0)
    assert set(np.unique(together.satellite[together.occluder == "moon"])) <= set(lost.tolist())
    assert 0 < len(lost) < len(ALL)  # some never come near the Moon's shadow
    assert not np.isin(shadows.satellite, lost).any()
    for i in range(len(ALL)):
        if i not in lost:
            assert str(table(shadows, i)) == str(table(together, i))
            assert shadows.failure[i] == ""
        else:
            assert shadows.failure[i] == "no contact where one was expected"


def test_gaps_widen_as_more_sunlight_is_wanted():
    lengths = []
    for wanted in (0.01, 0.3, 0.5, 0.9, 1.0):
        shadows = find_shadows([GEO], SEPTEMBER_23, 3 * DAY_MS, ShadowModel(min_sunlight=wanted))
        gap = pairs(shadows, "half" if wanted == 0.5 else "gap")
        lengths.append(intervals.total_ms(gap))
        for depth in ("penumbra", "half", "umbra"):
            assert np.array_equal(
                pairs(shadows, depth), pairs(find_shadows([GEO], SEPTEMBER_23, 3 * DAY_MS), depth)
            )
    assert lengths == sorted(lengths)
    assert len(set(lengths)) == 5
    assert np.array_equal(gap, pairs(shadows, "penumbra"))  # all the sunlight wanted


def test_a_cylinder_has_no_penumbra():
    shadows = find_shadows([ISS], SEPTEMBER_23, DAY_MS, ShadowModel(cone="cylinder"))
    assert np.array_equal(pairs(shadows, "penumbra"), pairs(shadows, "umbra"))
    assert np.all(shadows.max_obscuration[shadows.depth == "penumbra"] == 1.0)


def test_greatest_obscuration():
    shadows = find_shadows([ISS, GEO], APRIL_8, DAY_MS)
    penumbra = shadows.depth == "penumbra"
    assert np.isnan(shadows.max_obscuration[~penumbra]).all()
    hidden = shadows.max_obscuration[penumbra]
    assert np.all((hidden > 0) & (hidden <= 1))
    moon = penumbra & (shadows.occluder == "moon")
    assert len(shadows.max_obscuration[moon]) > 0
    # Half-lit within exactly those that hide more than half.
    for row in np.flatnonzero(moon).tolist():
        satellite = int(shadows.satellite[row])
        half = pairs(shadows, "half", "moon", satellite)
        within = (half[:, 0] >= shadows.start_ms[row]) & (half[:, 1] <= shadows.stop_ms[row])
        assert within.any() == (shadows.max_obscuration[row] > 0.5)


def test_without_the_moon():
    with_moon = find_shadows([ISS], APRIL_8, DAY_MS)
    without = find_shadows([ISS], APRIL_8, DAY_MS, ShadowModel(moon=False))
    assert "moon" in with_moon.occluder
    assert "moon" not in without.occluder
    assert np.array_equal(pairs(with_moon, "half"), pairs(without, "half"))


def test_beta_angle():
    # Sentinel-1A flies over the terminator; ISS's plane turns under the Sun by some 5 deg a day.
    shadows = find_shadows([ALL[1], ISS, MOLNIYA, MMS], SEPTEMBER_23, 7 * DAY_MS)
    assert 60 < abs(shadows.beta_min_deg[0]) < 90
    assert 15 < shadows.beta_max_deg[1] - shadows.beta_min_deg[1] < 40
    assert np.all(shadows.beta_min_deg <= shadows.beta_max_deg)
