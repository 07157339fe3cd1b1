"""Student's t, from the incomplete beta function's continued fraction (DLMF 8.17.22), with ``math`` only."""

from __future__ import annotations

import math
from functools import cache


def _beta_fraction(a: float, b: float, x: float) -> float:
    """The continued fraction by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > tiny else tiny)
    result = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1.0 + step * d
            d = 1.0 / (d if abs(d) > tiny else tiny)
            c = 1.0 + step / c
            c = c if abs(c) > tiny else tiny
            result *= c * d
        if abs(c * d - 1.0) < 1e-14:
            break
    return result


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Regularised I_x(a, b) for 0 <= x <= 1."""
    if x <= 0.0 or x >= 1.0:
        return 0.0 if x <= 0.0 else 1.0
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    if x < (a + 1) / (a + b + 2):
        return math.exp(log_front) * _beta_fraction(a, b, x) / a
    return 1.0 - math.exp(log_front) * _beta_fraction(b, a, 1.0 - x) / b


def t_tail(t: float, degrees: float) -> float:
    """P(T > t) for t >= 0."""
    return 0.5 * incomplete_beta(degrees / 2, 0.5, degrees / (degrees + t * t))


@cache
def t_quantile(tail: float, degrees: float) -> float:
    """The t >= 0 with P(T > t) = tail, 0 < tail < 1/2, by bisection."""
    low, high = 0.0, 1.0
    while t_tail(high, degrees) > tail:
        low, high = high, high * 2
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_tail(middle, degrees) > tail else (low, middle)
    return high
