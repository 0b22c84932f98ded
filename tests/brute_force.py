"""Shadow by brute force: angles between directions, second by second; nothing shared with the search.

Only positions come from the package (SGP4's, the Sun's and the Moon's): what is checked is geometry and search.
"""

import numpy as np

from orbittrace_data.builders.propagation import satrec, states
from orbittrace_data.builders.sun_moon import moon_teme, sun_teme

SUN_KM, EARTH_KM, MOON_KM = 695_700.0, 6_378.137, 1_737.4
STRETCH = np.array([1.0, 1.0, 1 / (1 - 1 / 298.257223563)])
DEPTHS = ("penumbra", "half", "umbra")


class Sky:
    """Sun and Moon over a span, straight lines between minutes."""

    def __init__(self, start_ms, span_s):
        self.start_ms, self.span_s = start_ms, span_s
        knots = np.arange(start_ms // 1000 - 120, start_ms // 1000 + int(span_s) + 240, 60)
        self.t_s = knots - start_ms / 1000
        self.sun, self.moon = sun_teme(knots), moon_teme(knots)

    def at(self, table, t_s):
        return np.stack([np.interp(t_s, self.t_s, table[:, i]) for i in range(3)], axis=-1)


def margins(sky, model, occluder, t_s, depths=DEPTHS):
    """How far each depth's boundary is, in radians (or covered fraction for half); negative inside."""
    _, r, _ = states(model, sky.start_ms, t_s)
    sun = sky.at(sky.sun, t_s)
    if occluder == "earth":
        to_sun, to_body, radius = (sun - r) * STRETCH, -r * STRETCH, EARTH_KM
    else:
        to_sun, to_body, radius = sun - r, sky.at(sky.moon, t_s) - r, MOON_KM
    sun_distance = np.sqrt((to_sun**2).sum(axis=1))
    distance = np.sqrt((to_body**2).sum(axis=1))
    a = np.arcsin(SUN_KM / sun_distance)
    b = np.arcsin(radius / distance)
    cross = np.cross(to_sun, to_body)
    c = np.arctan2(np.sqrt((cross**2).sum(axis=1)), (to_sun * to_body).sum(axis=1))
    found = {"penumbra": c - (a + b), "umbra": c - (b - a)}
    if "half" in depths:
        found["half"] = 0.5 - covered(a, b, c)
    return {depth: found[depth] for depth in depths}


def covered(a, b, c):
    """The fraction of a disc of radius a that a disc of radius b hides, by two circular segments."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sun_half = np.arccos(np.clip((c**2 + a**2 - b**2) / (2 * c * a), -1, 1))
        body_half = np.arccos(np.clip((c**2 + b**2 - a**2) / (2 * c * b), -1, 1))
    lens = a**2 * (sun_half - np.sin(2 * sun_half) / 2) + b**2 * (body_half - np.sin(2 * body_half) / 2)
    apart, within = c >= a + b, c <= np.abs(a - b)
    return np.where(apart, 0.0, np.where(within, np.minimum(1.0, (b / a) ** 2), lens / (np.pi * a**2)))


def contacts(sky, elements, occluder):
    """Every change of side: a scan in steps of 1 s, one of 0.01 s in between, a chord at last.

    Gives, for each depth, whether the start is inside and the times [s].
    """
    model = satrec(elements)
    coarse = np.append(np.arange(0.0, sky.span_s), sky.span_s)
    margin = margins(sky, model, occluder, coarse)
    found = {}
    for depth in DEPTHS:
        inside = margin[depth] < 0
        times = []
        for i in np.flatnonzero(inside[1:] != inside[:-1]):
            fine = np.linspace(coarse[i], coarse[i + 1], 101)
            close = margins(sky, model, occluder, fine, (depth,))[depth]
            for k in np.flatnonzero((close[1:] < 0) != (close[:-1] < 0)):
                share = close[k] / (close[k] - close[k + 1])
                times.append(fine[k] + share * (fine[k + 1] - fine[k]))
        found[depth] = bool(inside[0]), np.array(times)
    return found
