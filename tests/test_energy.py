from bisect import bisect_right
from dataclasses import replace
from fractions import Fraction
from importlib.resources import files
from math import acos, pi, sqrt

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from orbittrace_data import load_table, load_traces
from orbittrace_data.energy import PPM, energy_trace
from orbittrace_data.power_model import PowerModel, PowerModelError, shipped_spacecraft
from orbittrace_data.sunlight import ShadowTableError, floor_sum, line, sunlight
from orbittrace_data.trace import Trace

MODEST = settings(max_examples=40, deadline=None)


def table(rows):
    columns = ("occluder", "depth", "start_ms", "stop_ms", "max_obscuration")
    return {name: [row[i] for row in rows] for i, name in enumerate(columns)}


@st.composite
def shadow(draw, occluder, a, b):
    """One penumbra in [a, b] with whatever lies inside it."""
    t = sorted(draw(st.lists(st.integers(a, b), min_size=6, max_size=6)))
    if t[0] == t[5]:
        return []
    rows = [(occluder, "penumbra", t[0], t[5], 1.0)]
    depth = draw(st.sampled_from(["umbra", "half", "penumbra"]))
    if depth == "penumbra" or t[1] == t[4]:
        return [(occluder, "penumbra", t[0], t[5], draw(st.integers(0, 499_999)) / 1e6)]
    rows.append((occluder, "half", t[1], t[4], None))
    if depth == "umbra" and t[2] < t[3]:
        rows.append((occluder, "umbra", t[2], t[3], None))
    else:
        rows[0] = (occluder, "penumbra", t[0], t[5], draw(st.integers(500_000, 10**6)) / 1e6)
    return rows


@st.composite
def shadow_tables(draw, span_ms):
    """Up to three shadows of the earth, disjoint, and one of the moon anywhere."""
    edges = sorted(draw(st.lists(st.integers(0, span_ms), min_size=6, max_size=6)))
    rows = [row for i in (0, 2, 4) for row in draw(shadow("earth", edges[i], edges[i + 1]))]
    if draw(st.booleans()):
        rows += draw(shadow("moon", 0, span_ms))
    return table(rows)


@st.composite
def models(draw, battery=None):
    load_mw = draw(st.integers(2, 200))
    idle_mw = draw(st.integers(0, load_mw - 1))
    panel_mw = draw(st.integers(1, 300))
    if battery is None:
        battery = (
            draw(st.integers(0, 3000).map(lambda x: x if x > 150 else 0)) * load_mw / 1000 / 3.6e6 * 10
        )  # up to 30 s of load
    low = draw(st.integers(0, 60)) / 100
    high = draw(st.integers(int(low * 100) + 1, 100)) / 100
    assume(battery == 0 or (high - low) * battery * 3.6e6 >= load_mw * 1.01)
    return PowerModel(
        panel_w=panel_mw / 1000,
        battery_wh=battery,
        load_w=load_mw / 1000,
        idle_w=idle_mw / 1000,
        charge_efficiency=draw(st.integers(1, 100)) / 100,
        min_soc=low,
        resume_soc=high,
        initial_soc=draw(st.integers(0, 100)) / 100,
    )


def by_the_millisecond(pieces, model):
    """Live through every millisecond alone: the definition, with nothing clever."""
    capacity = round(Fraction(str(model.battery_wh)) * 3600 * 10**15)
    floor, resume, stored = (
        round(Fraction(str(x)) * capacity) for x in (model.min_soc, model.resume_soc, model.initial_soc)
    )
    panel, load, idle = (round(x * 1e6) for x in (model.panel_w, model.load_w, model.idle_w))
    efficiency = round(model.charge_efficiency * PPM)

    def after(draw, yielded):
        net = yielded - draw
        return min(capacity, stored + net * efficiency) if net >= 0 else stored + net * PPM

    on, running, charge = stored >= floor, [], [stored]
    for piece in pieces:
        for i in range(piece.length_ms):
            yielded = piece.harvest(i, panel)
            carried = yielded >= load or after(load, yielded) >= floor
            on = carried and (on or (stored >= resume and (capacity > 0 or yielded >= load)))
            stored = max(0, after(load if on else idle, yielded))
            running.append(on)
            charge.append(stored)
    return np.array(running), np.array(charge, object), capacity


@given(st.data(), models())
@MODEST
def test_equals_the_simulation_of_every_millisecond(data, model):
    span = data.draw(st.integers(1, 20_000))
    shadows = data.draw(shadow_tables(span))
    energy, profile = energy_trace(Trace("x", span, []), shadows, model)
    running, charge, capacity = by_the_millisecond(sunlight(shadows, span), model)
    assert np.array_equal(energy.is_available(np.arange(span)), running)
    expected = charge[profile.time_ms].astype(float) / max(capacity, 1)
    assert np.allclose(profile.soc, expected, rtol=0, atol=1e-12)
    assert profile.final_fj == charge[-1]


@given(st.data(), models())
@MODEST
def test_energy_is_conserved_to_the_last_unit_and_the_battery_keeps_its_bounds(data, model):
    span = data.draw(st.integers(1, 10**7))
    shadows = data.draw(shadow_tables(span))
    energy, p = energy_trace(Trace("x", span, []), shadows, model)
    panel, load, idle = (round(x * 1e6) for x in (model.panel_w, model.load_w, model.idle_w))
    assert p.harvested_fj == PPM * sum(s.total(0, s.length_ms, panel) for s in sunlight(shadows, span))
    assert p.load_fj == PPM * load * energy.active_total_ms
    assert p.idle_fj == PPM * idle * (span - energy.active_total_ms)
    gained, spent = p.harvested_fj + p.initial_fj + p.unmet_fj, p.load_fj + p.idle_fj
    assert gained == spent + p.unstored_fj + p.final_fj
    assert p.unstored_fj >= 0
    assert p.unmet_fj >= 0
    assert p.soc.min() >= 0
    assert p.soc.max() <= 1
    assert np.all(np.diff(p.time_ms) > 0)
    assert (p.time_ms[0], p.time_ms[-1]) == (0, span)


@given(st.data(), models())
@MODEST
def test_payload_never_runs_below_the_least_charge_nor_starts_before_the_resume_charge(data, model):
    assume(model.battery_wh > 0)
    span = data.draw(st.integers(1, 10**6))
    energy, profile = energy_trace(Trace("x", span, []), data.draw(shadow_tables(span)), model)
    for start, stop in energy.windows.tolist():
        inside = (profile.time_ms >= start) & (profile.time_ms <= stop)
        assert profile.soc[inside].min() >= model.min_soc - 1e-12
        if start > 0:
            assert profile.at(start) >= model.resume_soc - 1e-12


@given(st.data(), st.integers(1, 10**6), st.floats(0.5, 5000))
@MODEST
def test_without_a_battery_it_is_the_sunlight_trace(data, span, load_w):
    load_w = round(load_w, 3)
    shadows = data.draw(shadow_tables(span))
    depth, start, stop = (np.array(shadows[name]) for name in ("depth", "start_ms", "stop_ms"))
    halves = np.stack([start, stop], 1)[depth == "half"].astype(np.int64).reshape(-1, 2)
    model = PowerModel(panel_w=2 * load_w, battery_wh=0, load_w=load_w, idle_w=0)
    energy, _ = energy_trace(Trace("x", span, []), shadows, model)
    assert np.array_equal(energy.gaps, Trace("x", span, halves).gaps)


@given(st.data(), models())
@MODEST
def test_a_huge_battery_leaves_no_gap(data, model):
    span = data.draw(st.integers(1, 10**6))
    shadows = data.draw(shadow_tables(span))
    huge = model.load_w * span / 3.6e6 / (1 - model.min_soc) * 1.001 + 1
    full = PowerModel(
        model.panel_w, huge, model.load_w, model.idle_w, min_soc=model.min_soc, resume_soc=1, initial_soc=1
    )
    assert energy_trace(Trace("x", span, []), shadows, full)[0].is_control


def two_loads(data, battery=None, taxed=False):
    """Run a heavy load and a lighter one; ``taxed`` keeps the lighter one below the charging loss."""
    span = data.draw(st.integers(1, 200_000))
    heavy = data.draw(models(battery=battery))
    share = (heavy.charge_efficiency if taxed else 1) * data.draw(st.integers(1, 99)) / 100
    light = replace(heavy, load_w=heavy.idle_w + share * (heavy.load_w - heavy.idle_w))
    shadows = data.draw(shadow_tables(span))
    runs = [energy_trace(Trace("x", span, []), shadows, model) for model in (light, heavy)]
    return span, light, *runs


@given(st.data())
@MODEST
def test_without_a_battery_more_load_never_gives_more_availability(data):
    span, _, (light, _), (heavy, _) = two_loads(data, battery=0)
    t = np.arange(span)
    assert not np.any(heavy.is_available(t) & ~light.is_available(t))


@given(st.data())
@MODEST
def test_a_lighter_load_never_pauses_first(data):
    span, _, (light, _), (heavy, _) = two_loads(data)
    first = [energy.gaps[0, 0] if energy.gap_count else span + 1 for energy in (light, heavy)]
    assert first[0] >= first[1]


@given(st.data())
@settings(max_examples=80, deadline=None)
def test_a_heavier_load_runs_longer_by_at_most_the_band_between_the_thresholds(data):
    span, light, (a, charge_a), (b, charge_b) = two_loads(data, taxed=True)
    spread = light.load_w - light.idle_w
    assume(light.battery_wh > 0)
    full = charge_a.time_ms[charge_a.soc >= 1]
    empty = charge_b.time_ms[charge_b.soc <= 0]
    until = min([span, *full[:1].tolist(), *empty[:1].tolist()])
    band_ms = (light.resume_soc - light.min_soc) * light.battery_wh * 3.6e6 / spread
    t = np.unique([0, until, *a.gaps.ravel(), *b.gaps.ravel()])
    t = t[t <= until]
    assert np.all(b.active_ms(t) - a.active_ms(t) <= band_ms + 1)


def test_a_heavier_load_can_be_available_for_longer():
    """Why the law above needs its bound: 66 W pauses in the first night, then outruns 60 W."""
    rows = [
        ("earth", depth, start, stop, 1.0)
        for start, stop in ((7_000, 24_000), (29_000, 43_000))
        for depth in ("penumbra", "half", "umbra")
    ]
    common = {"panel_w": 200, "battery_wh": 0.5, "idle_w": 0, "charge_efficiency": 1, "min_soc": 0.4}
    active = []
    for load_w in (60, 66):
        model = PowerModel(load_w=load_w, resume_soc=0.85, **common)
        active.append(energy_trace(Trace("x", 63_000, []), table(rows), model)[0].active_total_ms)
    assert active == [57_616, 58_313]


def test_night_by_hand():
    """1 Wh at 50 W: 30% of 3600 J last 21.6 s; 10 W for the other 28.4 s; 90 W then need 11.1556 s to 90%."""
    night = table([("earth", depth, 40_000, 90_000, 1.0) for depth in ("penumbra", "half", "umbra")])
    model = PowerModel(panel_w=100, battery_wh=1, load_w=50, idle_w=10, charge_efficiency=1)
    energy, profile = energy_trace(Trace("demo", 120_000, []), night, model)
    assert energy.gaps.tolist() == [[61_600, 101_156]]
    assert profile.at(90_000) == pytest.approx((0.7 * 3600 - 284) / 3600, abs=1e-12)


@given(st.integers(0, 400), st.integers(-(10**7), 10**7), st.integers(-(10**9), 10**9), st.integers(1, 10**5))
@example(0, 3, 1, 4)
@settings(max_examples=200, deadline=None)
def test_floor_sum_is_the_sum(n, slope, offset, scale):
    assert floor_sum(n, slope, offset, scale) == sum((slope * i + offset) // scale for i in range(n))


@given(st.data(), st.integers(1, 3000))
@MODEST
def test_sunlight_fills_the_span_and_takes_the_deeper_shadow(data, span):
    shadows = data.draw(shadow_tables(span))
    pieces = sunlight(shadows, span)
    assert [p.start_ms for p in pieces] == [0, *[p.stop_ms for p in pieces][:-1]]
    assert pieces[-1].stop_ms == span
    alone = []
    for occluder in ("earth", "moon"):
        rows = np.array(shadows["occluder"]) == occluder
        one = {name: np.array(column, object)[rows] for name, column in shadows.items()}
        alone.append([p.harvest(i, PPM) for p in sunlight(one, span) for i in range(p.length_ms)])
    both = [p.harvest(i, PPM) for p in pieces for i in range(p.length_ms)]
    assert both == [min(pair) for pair in zip(*alone, strict=True)]


def test_line_through_the_contacts_is_near_a_straight_edge_over_a_disc():
    """The bound and the equal integral that the module states."""
    x = np.linspace(-1, 1, 20_001)
    disc = np.array([(acos(v) - v * sqrt(1 - v * v)) / pi for v in x])
    straight = (1 - x) / 2
    assert 0.057 < np.abs(disc - straight).max() < 0.058
    assert np.trapezoid(disc, x) == pytest.approx(np.trapezoid(straight, x), abs=1e-9)


def test_line_meets_its_ends():
    piece = line(10, 1010, PPM, 0)
    assert piece.total(0, 1000, 1000) == pytest.approx(500_000, abs=1000)
    assert piece.harvest(0, PPM) == 999_500


def test_two_half_lit_intervals_in_one_penumbra():
    rows = [("moon", "penumbra", 0, 100, 0.7), ("moon", "half", 20, 40, None), ("moon", "half", 60, 70, None)]
    pieces = sunlight(table(rows), 100)
    starts = [p.start_ms for p in pieces]
    darkest = [pieces[bisect_right(starts, t) - 1] for t in (29, 50, 65)]
    assert [p.harvest(t - p.start_ms, PPM) for p, t in zip(darkest, (29, 50, 65), strict=True)] == [
        310_000,
        500_000,
        499_999,
    ]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("earth", "penumbra", 0, 101, 1.0)], "outside the span"),
        ([("earth", "half", 0, 10, None)], "lies in no lighter one"),
        ([("earth", "penumbra", 10, 50, 1.0), ("earth", "half", 5, 40, None)], "not inside"),
        ([("earth", "penumbra", 10, 50, 1.0), ("earth", "umbra", 20, 40, None)], "lies in no lighter one"),
        ([("earth", "penumbra", 10, 50, float("nan"))], "must lie in"),
    ],
)
def test_shadows_that_are_not_nested_are_refused(rows, message):
    with pytest.raises(ShadowTableError, match=message):
        sunlight(table(rows), 100)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"panel_w": 0}, "panel_w must lie"),
        ({"battery_wh": -1}, "0 for no battery"),
        ({"idle_w": 33}, r"load_w = 33\) W"),
        ({"charge_efficiency": 1.1}, "charge_efficiency"),
        ({"resume_soc": 0.7}, "raise resume_soc"),
        ({"min_soc": 0.9, "resume_soc": 0.7}, r"resume_soc must lie in \(min_soc = 0.9, 1\], got 0.7"),
        ({"resume_soc": 0.7000001}, "feeds the load for"),
        ({"battery_wh": 10**400}, "finite"),
        ({"name": "\udcff"}, "printable"),
        ({"name": ""}, "printable"),
        ({"load_w": float("nan")}, "finite"),
        ({"load_w": True}, "finite"),
        ({"sun_angle_deg": 90}, "degrees"),
    ],
)
def test_impossible_power_systems_are_refused(change, message):
    given = {"panel_w": 44, "battery_wh": 40, "load_w": 33, "idle_w": 8, **change}
    with pytest.raises(PowerModelError, match=message):
        PowerModel(**given)


def test_shipped_spacecraft_are_read_and_a_copy_reads_the_same(tmp_path):
    for name in shipped_spacecraft():
        model = PowerModel.read(name)
        copy = tmp_path / f"{name}.toml"
        copy.write_bytes(files("orbittrace_data").joinpath("spacecraft", f"{name}.toml").read_bytes())
        assert PowerModel.read(copy) == model


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[power]\npanel_w=1\nbattery_wh=0\nload_w=1\nidle_w=0\ncolour=1", "colour"),
        ("[power]\npanel_w = 1", "x.toml: battery_wh is missing, load_w is missing, idle_w is missing"),
        ("power = 3", r"x.toml has no table \[power\]"),
        (
            '[power]\npanel_w="1"\nbattery_wh=0\nload_w=1\nidle_w=0',
            "x.toml: panel_w must be a finite number, got '1'",
        ),
        ("[power]\npanel_w=1" + "0" * 400 + "\nbattery_wh=0\nload_w=1\nidle_w=0", "panel_w must be a finite"),
        ("[power]\npanel_w=1" + "0" * 5000 + "\nbattery_wh=0\nload_w=1\nidle_w=0", "no TOML"),
        ("a=" + "[" * 5000, "nested too deeply"),
        ("not toml", "no TOML"),
    ],
)
def test_files_that_are_no_power_system_are_refused(tmp_path, text, message):
    path = tmp_path / "x.toml"
    path.write_text(text)
    with pytest.raises(PowerModelError, match=message):
        PowerModel.read(path)
    with pytest.raises(PowerModelError, match="cubesat-6u"):
        PowerModel.read(tmp_path / "absent.toml")
    with pytest.raises(PowerModelError, match="neither a readable file"):
        PowerModel.read(tmp_path)


def test_rows_of_one_trace_are_taken_from_a_table_of_many():
    night = table([("earth", depth, 400, 900, 1.0) for depth in ("penumbra", "half", "umbra")])
    many = pa.table({"trace_id": ["a", "a", "a", "b", "b", "b"]} | {k: v * 2 for k, v in night.items()})
    model = PowerModel(panel_w=2, battery_wh=0, load_w=1, idle_w=0, name="bare")
    energy, _ = energy_trace(Trace("a", 1000, []), many, model)
    assert energy.trace_id == "a@bare"
    assert energy.gaps.tolist() == [[400, 900]]
    assert energy_trace(Trace("c", 1000, []), many, model)[0].is_control
    with pytest.raises(ShadowTableError, match="no row of c, which has gaps"):
        energy_trace(Trace("c", 1000, [[1, 2]]), many, model)


def test_thresholds_that_are_met_exactly_count_as_met():
    """Down to exactly 70% the payload runs; at exactly 90% it starts: 720 J at 100 W take 7200 ms."""
    model = PowerModel(panel_w=100, battery_wh=1, load_w=50, idle_w=0, charge_efficiency=1)
    for dawn, gaps in ((31_600, []), (41_600, [[31_600, 48_800]])):
        night = table([("earth", depth, 10_000, dawn, 1.0) for depth in ("penumbra", "half", "umbra")])
        assert energy_trace(Trace("x", 60_000, []), night, model)[0].gaps.tolist() == gaps


def test_released_shadows_without_a_battery_give_every_released_trace():
    bare = PowerModel(panel_w=100, battery_wh=0, load_w=50, idle_w=0)
    shadows = load_table("shadows")
    for trace in load_traces():
        energy, profile = energy_trace(trace, shadows, bare)
        assert np.array_equal(energy.gaps, trace.gaps), trace.trace_id
        assert energy.start == trace.start
        assert not profile.soc.any()


def test_a_fixed_panel_yields_the_cosine_of_the_suns_angle():
    night = table([("earth", depth, 400_000, 900_000, 1.0) for depth in ("penumbra", "half", "umbra")])
    trace = Trace("x", 2_000_000, [])
    common = {"battery_wh": 10, "load_w": 40, "idle_w": 5}
    turned, profile = energy_trace(trace, night, PowerModel(panel_w=100, sun_angle_deg=60, **common))
    facing, same = energy_trace(trace, night, PowerModel(panel_w=50, **common))
    assert np.array_equal(turned.gaps, facing.gaps)
    assert turned.gap_count == 1
    assert profile.harvested_fj == same.harvested_fj
