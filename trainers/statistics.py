"""The statistics of the comparison: paired differences, Student's t, Holm, Fieller; nothing but NumPy.

Every function takes one number a seed. How the numbers come about is the subject of `claims`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InputError

LEVEL = 0.95


class StatisticsError(InputError):
    """Numbers from which nothing can be estimated."""


def t_probability(t: float, freedom: int) -> float:
    """Return P(|T| > t) of Student's t: the two-sided p-value.

    Source: Abramowitz and Stegun (1964), 26.7.3 and 26.7.4: finite sums, exact for whole degrees of freedom.

    Parameters
    ----------
    t : float
        Its sign does not matter.
    freedom : int
        Degrees of freedom, at least 1.

    Examples
    --------
    >>> round(t_probability(2.776445, 4), 6), t_probability(0.0, 7)
    (0.05, 1.0)
    """
    if freedom < 1:
        raise StatisticsError(f"Student's t needs at least 1 degree of freedom, got {freedom}")
    if math.isinf(t):
        return 0.0
    angle = math.atan(abs(t) / math.sqrt(freedom))
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = freedom % 2
    term, total = (cosine, cosine if freedom > 1 else 0.0) if odd else (1.0, 1.0)
    for k in range(2 + odd, freedom, 2):
        term *= cosine**2 * (k - 1) / k
        total += term
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(1.0, max(0.0, 1 - inside))


@lru_cache
def t_quantile(freedom: int, level: float = LEVEL) -> float:
    """Return the t that |T| stays below with probability ``level``, by bisection.

    Examples
    --------
    >>> [round(t_quantile(n), 3) for n in (1, 2, 4, 9, 30)]
    [12.706, 4.303, 2.776, 2.262, 2.042]
    """
    low, high = 0.0, 1.0
    while t_probability(high, freedom) > 1 - level:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, freedom) > 1 - level else (low, middle)
    return (low + high) / 2


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds with its 95% interval; infinitely wide where there is one seed."""

    mean: float
    low: float
    high: float
    seeds: int

    @property
    def excludes_zero(self) -> bool:
        """Whether 0 lies outside the interval."""
        return self.low > 0 or self.high < 0


def estimate(values: ArrayLike) -> Estimate:
    """Estimate the mean of one value a seed, with Student's interval.

    Examples
    --------
    >>> e = estimate([1.0, 2.0, 3.0])
    >>> round(e.low, 3), e.mean, round(e.high, 3)
    (-0.484, 2.0, 4.484)
    """
    x = _finite(values)
    mean = math.fsum(x) / len(x)
    if len(x) == 1:
        return Estimate(mean, -math.inf, math.inf, 1)
    half = t_quantile(len(x) - 1) * _standard_error(x)
    return Estimate(mean, mean - half, mean + half, len(x))


def p_against(values: ArrayLike, border: float) -> float:
    """Return the two-sided p-value of the mean being ``border``; 1 where there is one seed.

    Where all values are equal, there is nothing to estimate from: 0, or 1 where they lie on the border.
    """
    x = _finite(values)
    distance = math.fsum(x) / len(x) - border
    if len(x) == 1 or distance == 0:
        return 1.0
    error = _standard_error(x)
    return t_probability(distance / error, len(x) - 1) if error else 0.0


def region_test(values: ArrayLike, low: float = -math.inf, high: float = math.inf) -> tuple[bool, float]:
    """Test whether the mean lies in the open region (low, high).

    Inside, both borders must be ruled out (two one-sided tests, Schuirmann 1987), so the greater p counts;
    outside, the border that lies between.

    Returns
    -------
    inside : bool
        Whether the sample's mean lies in the region.
    p : float
        Two-sided, of the opposite.

    Examples
    --------
    >>> region_test([0.9, 1.0, 1.1], low=0)[0], region_test([0.9, 1.0, 1.1], high=0)[0]
    (True, False)
    """
    mean = estimate(values).mean
    if low < mean < high:
        borders = [b for b in (low, high) if math.isfinite(b)]
        return True, max((p_against(values, b) for b in borders), default=0.0)
    return False, p_against(values, low if mean <= low else high)


def holm(p_values: Sequence[float]) -> list[float]:
    """Correct p-values for their number (Holm 1979), in the order given.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    adjusted = [0.0] * len(p_values)
    worst = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = worst
    return adjusted


def ratio(numerators: ArrayLike, denominators: ArrayLike) -> Estimate | None:
    """Estimate the ratio of two means that are paired by seed, with Fieller's 95% interval.

    The interval holds each r for which numerator - r denominator could have mean 0. Source: Fieller (1954),
    Some problems in interval estimation, JRSS B 16(2).

    Returns
    -------
    Estimate or None
        None where the denominator's own interval includes 0: then the set of such r is not bounded.

    Examples
    --------
    >>> ratio([1.0, 1.1, 0.9], [0.1, -0.2, 0.1]) is None
    True
    """
    n, d = _finite(numerators), _finite(denominators)
    if len(n) != len(d):
        raise StatisticsError(f"a ratio is paired by seed, got {len(n)} numerators and {len(d)} denominators")
    if not estimate(d).excludes_zero:
        return None
    square = t_quantile(len(n) - 1) ** 2 / len(n)
    (nn, nd), (_, dd) = np.cov(n, d)
    a = d.mean() ** 2 - square * dd
    b = n.mean() * d.mean() - square * nd
    c = n.mean() ** 2 - square * nn
    root = math.sqrt(max(0.0, b * b - a * c))
    return Estimate(n.mean() / d.mean(), (b - root) / a, (b + root) / a, len(n))


@dataclass(frozen=True)
class NoiseFloor:
    """Standard deviation between data orders, and the degrees of freedom that it was estimated with."""

    sd: float
    freedom: int


def noise_floor(orders: Sequence[Sequence[float]]) -> NoiseFloor:
    """Pool the variance between data orders over seeds.

    Parameters
    ----------
    orders : sequence of sequence of float
        For each seed the measures of runs that differ in their data order alone.

    Raises
    ------
    StatisticsError
        If no seed has two orders.

    Examples
    --------
    >>> noise_floor([[1.0, 3.0], [5.0, 5.0]])
    NoiseFloor(sd=1.0, freedom=2)
    """
    groups = [_finite(values) for values in orders if len(values) > 1]
    freedom = sum(len(group) - 1 for group in groups)
    if not freedom:
        raise StatisticsError("a noise floor needs two data orders of one seed at least")
    squares = math.fsum(float(((group - group.mean()) ** 2).sum()) for group in groups)
    return NoiseFloor(math.sqrt(squares / freedom), freedom)


def _finite(values: ArrayLike) -> np.ndarray:
    x = np.asarray(values, np.float64)
    if x.ndim != 1 or not x.size or not np.isfinite(x).all():
        raise StatisticsError(f"one finite number a seed is needed, got {values!r}")
    return x


def _standard_error(x: np.ndarray) -> float:
    return float(x.std(ddof=1)) / math.sqrt(len(x)) if np.ptp(x) else 0.0
