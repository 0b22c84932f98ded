"""Polynomials of degree seven between two instants where a function and three derivatives are known."""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def septic(step: Array, left: list[Array], right: list[Array]) -> list[Array]:
    """Fit each cell's polynomial in the fraction of the cell (two-point Hermite interpolation).

    Parameters
    ----------
    step : ndarray, shape (n,)
        Length of each cell.
    left, right : list of four ndarray, shape (n,)
        Value and three derivatives at the cell's two ends.

    Returns
    -------
    list of eight ndarray, shape (n,)
        Coefficients of the powers 0 to 7.
    """
    half = step * step / 2
    sixth = half * step / 3
    c0, c1, c2, c3 = left[0], left[1] * step, left[2] * half, left[3] * sixth
    a = right[0] - (c0 + c1 + c2 + c3)
    b = right[1] * step - (c1 + 2 * c2 + 3 * c3)
    c = right[2] * half - (c2 + 3 * c3)
    d = right[3] * sixth - c3
    return [
        c0,
        c1,
        c2,
        c3,
        35 * a - 15 * b + 5 * c - d,
        -84 * a + 39 * b - 14 * c + 3 * d,
        70 * a - 34 * b + 13 * c - 3 * d,
        -20 * a + 10 * b - 4 * c + d,
    ]


def value(c: list[Array], u: Array | float) -> Array:
    """Evaluate polynomials at the fraction ``u`` of their cells.

    Examples
    --------
    >>> one = np.ones(1)
    >>> left, right = [0 * one, 0 * one, 2 * one, 0 * one], [4 * one, 4 * one, 2 * one, 0 * one]
    >>> value(septic(2 * one, left, right), 0.5)
    array([1.])
    """
    return ((((((c[7] * u + c[6]) * u + c[5]) * u + c[4]) * u + c[3]) * u + c[2]) * u + c[1]) * u + c[0]


def value_and_slopes(c: list[Array], u: Array) -> tuple[Array, Array, Array]:
    """Evaluate polynomials and their first two derivatives in ``u``.

    Examples
    --------
    >>> cubic = [0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0]
    >>> [float(v) for v in value_and_slopes(cubic, 2.0)]
    [8.0, 12.0, 12.0]
    """
    p, first, half_second = c[7] * u + c[6], c[7], 0.0 * u
    for k in range(5, -1, -1):
        half_second = half_second * u + first
        first = first * u + p
        p = p * u + c[k]
    return p, first, 2 * half_second
