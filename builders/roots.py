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
        new = np.where((new > a) & (new < b), new, (a + b) / 2)
        u[rows] = new
        rows = rows[(np.abs(new - at) > tolerance) & (b - a > 1e-10)]
    return u


def golden_minimum(height: Callable[[Array], Array], low: Array, high: Array, rounds: int) -> Array:
    """Narrow down the least values between ``low`` and ``high`` by golden section, 0.62 a round.

    Examples
    --------
    >>> bool(abs(golden_minimum(lambda u: (u - 0.3) ** 2, np.zeros(1), np.ones(1), 30)[0] - 0.3) < 1e-6)
    True
    """
    ratio = (np.sqrt(5.0) - 1) / 2
    a, b = high - ratio * (high - low), low + ratio * (high - low)
    at_a, at_b = height(a), height(b)
    for _ in range(rounds):
        left = at_a < at_b
        low, high = np.where(left, low, a), np.where(left, b, high)
        new = np.where(left, high - ratio * (high - low), low + ratio * (high - low))
        at_new = height(new)
        a, b = np.where(left, new, b), np.where(left, a, new)
        at_a, at_b = np.where(left, at_new, at_b), np.where(left, at_a, at_new)
    return np.where(at_a < at_b, a, b)
