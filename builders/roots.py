"""Roots and least values of many functions at once."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]


def rising_root(
    function: Callable[[Array, Ints], tuple[Array, Array, Array]],
    low: Array,
    high: Array,
    start: Array,
    tolerance: float,
) -> Array:
    """Find where functions rise through zero: Halley's steps, bisection where one leads astray.

    Parameters
    ----------
    function : callable
        ``function(u, rows)`` gives values and two derivatives for those rows, shape (m,).
    low, high, start : ndarray, shape (n,)
        Negative at ``low``, positive at ``high``; where to begin.
    tolerance : float
        The size of a step after which a row rests. Steps shrink cubically: the error is far smaller.

    Returns
    -------
    ndarray, shape (n,)

    Examples
    --------
    >>> def cube_less_two(u, rows):
    ...     return u**3 - 2, 3 * u**2, 6 * u
    >>> one = np.ones(1)
    >>> rising_root(cube_less_two, 0 * one, 2 * one, one, 1e-4) ** 3
    array([2.])
    """
    low, high, u = low.copy(), high.copy(), start.copy()
    rows = np.arange(len(u))
    for _ in range(60):
        if not len(rows):
            break
        at = u[rows]
        g, g1, g2 = function(at, rows)
        under = g < 0
        a, b = np.where(under, at, low[rows]), np.where(under, high[rows], at)
        low[rows], high[rows] = a, b
        with np.errstate(divide="ignore", invalid="ignore"):
            step = -g / g1
            new = at + step / np.maximum(1 + 0.5 * g2 * step / g1, 0.5)
        new = np.where((new >= a) & (new <= b), new, (a + b) / 2)
        u[rows] = new
        rows = rows[(np.abs(new - at) > tolerance) & (b - a > 1e-10)]
    return u


def greatest_at(height: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """Find where functions are greatest between ``low`` and ``high``: three rounds of sampling, then a parabola.

    Parameters
    ----------
    height : callable
        Takes and gives shape (samples, n): smooth, with one hill that is wider than a sixteenth of the range.
    low, high : ndarray, shape (n,)

    Returns
    -------
    ndarray, shape (n,)

    Examples
    --------
    >>> bool(abs(greatest_at(lambda u: np.cos(u - 0.3), np.zeros(1), np.ones(1))[0] - 0.3) < 1e-6)
    True
    """
    share = np.linspace(0.0, 1.0, 17)[:, None]
    row = np.arange(len(low))
    for _ in range(3):
        u = low + (high - low) * share
        values = height(u)
        best = np.clip(np.argmax(values, axis=0), 1, 15)
        low, high = u[best - 1, row], u[best + 1, row]
    before, at, after = values[best - 1, row], values[best, row], values[best + 1, row]
    bend = 2 * at - before - after
    shift = np.where(bend > 0, (after - before) / (2 * np.where(bend > 0, bend, 1.0)), 0.0)
    return u[best, row] + np.clip(shift, -1.0, 1.0) * (high - low) / 2
