"""Contacts refined on SGP4 itself."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import FailedError
from .batches import Array, Batch, Ints
from .propagation import acceleration
from .shadow import Depth, Occluder, Vector, distance_rates

TOLERANCE_S = 1e-9
SLOPE_ERROR = 2e-8  # of the distances' first derivatives: the Sun's own motion along the axis is left out


class ContactError(FailedError):
    """Contacts that cannot be found where they were expected, or do not alternate."""


_State = tuple[Array, Vector, Vector, Vector]  # time, position, velocity, acceleration


def refine(
    batch: Batch,
    occluder: Occluder,
    named: Sequence[Depth],
    which: Ints,
    satellite: Ints,
    entering: NDArray[np.bool_],
    guess_s: Array,
    low_s: Array,
    high_s: Array,
) -> Array:
    """Refine contacts on SGP4 to 1e-9 s, rows sorted by satellite and time.

    SGP4's velocity is not quite the derivative of its position (up to 1e-5 of it in low orbits), which alone
    would cost each contact another evaluation. The contacts of penumbra, half and umbra lie seconds
    apart: the chord to the nearest one corrects the velocity, and one evaluation each is enough.

    Returns
    -------
    ndarray, shape (n,)
        Times [s].
    """
    t_s, low, high = guess_s.copy(), low_s.copy(), high_s.copy()
    sign = np.where(entering, 1.0, -1.0)
    seen_low, seen_high = np.zeros(len(t_s), bool), np.zeros(len(t_s), bool)
    active = np.arange(len(t_s))
    last: _State | None = None
    for _ in range(70):
        if not len(active):
            break
        now = t_s[active]
        r, v = batch.propagate(satellite[active], now)
        a = acceleration(*r)
        here = (now, r, v, a)
        if last is None:
            partner = _nearest(satellite, now)
            there = _rows(here, partner)
        else:
            there = last
        v, doubt = _corrected_velocity(here, there)
        x, q, sun = occluder.motion(batch.start_ms, now, r, v, a)
        g, g1, g2 = distance_rates(occluder, named, which[active], x, q, sun)
        before = sign[active] * g > 0
        a_low, a_high = np.where(before, now, low[active]), np.where(before, high[active], now)
        low[active], high[active] = a_low, a_high
        seen_low[active] |= before
        seen_high[active] |= ~before
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -g / g1
            step = step - g2 * step * step / (2 * g1)
            pull = np.sqrt(a[0] * a[0] + a[1] * a[1] + a[2] * a[2])
            length = np.abs(step)
            error = length * (doubt / np.abs(g1) + SLOPE_ERROR + length * 1e-3 * pull / np.abs(g1))
        new = now + step
        wild = ~((new >= a_low) & (new <= a_high))
        t_s[active] = np.where(wild, (a_low + a_high) / 2, new)
        done = ~wild & (error < TOLERANCE_S / 2)
        narrow = a_high - a_low < TOLERANCE_S / 2
        lost = active[
            ~done & narrow & ~(seen_low[active] & seen_high[active])
        ]  # SGP4 differs from its polynomial
        if len(lost):
            raise ContactError(
                f"no contact with the {occluder.name}'s shadow near {t_s[lost[0]]:.3f} s, where one was "
                "expected; please report the element sets and the span"
            )
        done |= narrow
        more = np.flatnonzero(~done)
        last = _rows(here, more)
        active = active[more]
    return t_s


def _rows(state: _State, index: Ints) -> _State:
    t_s, *vectors = state
    r, v, a = ((x[index], y[index], z[index]) for x, y, z in vectors)
    return t_s[index], r, v, a


def _nearest(satellite: Ints, t_s: Array) -> Ints:
    """Find each row's neighbour in time of the same satellite, itself if it has none."""
    n = len(t_s)
    index = np.arange(n)
    gap = np.full(n + 1, np.inf)
    if n > 1:
        gap[1:-1] = np.where(satellite[1:] == satellite[:-1], t_s[1:] - t_s[:-1], np.inf)
    index = np.where(gap[:-1] <= gap[1:], index - 1, index + 1)
    return np.where(np.isinf(np.minimum(gap[:-1], gap[1:])), np.arange(n), index)


def _corrected_velocity(here: _State, there: _State) -> tuple[Vector, Array]:
    """Correct SGP4's velocity by the chord to a near state; and how far it may still be off [km/s]."""
    delta = there[0] - here[0]
    (_, r, v, a), (_, r_there, v_there, a_there) = here, there
    pull2 = a[0] * a[0] + a[1] * a[1] + a[2] * a[2]
    radius2 = r[0] * r[0] + r[1] * r[1] + r[2] * r[2]
    turn = np.sqrt(np.sqrt(pull2 / radius2)) * np.abs(delta)  # [rad]
    usable = (turn < 0.1) & (np.abs(delta) > 1e-5)
    over = 1 / np.where(usable, delta, 1.0)
    speed = np.sqrt(v[0] * v[0] + v[1] * v[1] + v[2] * v[2])
    corrected, miss2 = [], np.zeros_like(delta)
    for i in range(3):
        miss = (r_there[i] - r[i]) * over - (v[i] + v_there[i]) / 2 + (a_there[i] - a[i]) * delta / 12
        miss = np.where(usable, miss, 0.0)
        corrected.append(v[i] + miss)
        miss2 = miss2 + miss * miss
    turn2 = turn * turn
    doubt = np.where(
        usable,
        np.sqrt(miss2) * turn + speed * turn2 * turn2 / 500 + 1e-11 * np.abs(over),
        1e-3 * speed,
    )
    return (corrected[0], corrected[1], corrected[2]), doubt
