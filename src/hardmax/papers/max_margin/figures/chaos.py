"""B-FIG-CHAOS: above eta_c late normalized descent doubles its period until there is none (B-NEW-3)."""

from __future__ import annotations

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, INK, RED
from hardmax.limits.late import LateMap, period
from hardmax.papers.figures.claims import listed
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Tables
from hardmax.papers.max_margin.figures import plane

SPAN = (0.8, 3.8)  # rates over eta_c
PERIODS = {0.97: 1, 1.5: 2, 2.5: 4, 2.9: 8, 3.0: 16, 3.5: None}
DOUBLINGS = (1.00, 2.08, 2.80, 2.98)
FAR = 300.0  # descent starts at this multiple of p_mm


def problem() -> hm.Problem:
    """One input, two neighbors at unequal distances across p_mm."""
    return hm.Problem([[[0, 0], [-1, -1], [-1, 3]]], [[1, 0, 0]])


def draw_chaos(tables: Tables, canvas: Canvas) -> None:
    """The residuals visited against the rate, above the Lyapunov exponent."""
    top, bottom = canvas.subplots(2, sharex=True, height_ratios=(2.0, 1.0))
    visits, runs, lyapunov = tables["late map"], tables["descent"], tables["exponents"]
    top.plot(visits["rate"], visits["residual"], ",", color=GRAY, rasterized=True, zorder=1)
    top.plot(runs["rate"], runs["residual"], ".", color=RED, markersize=2.0, markeredgewidth=0, zorder=3)
    bottom.plot(lyapunov["rate"], lyapunov["exponent"], color=BLUE, linewidth=0.7)
    bottom.axhline(0.0, color=INK, linewidth=0.6)
    for panel in (top, bottom):
        for each in tables["doublings"]["rate"]:
            panel.axvline(each, color="#DDDDDD", linewidth=0.6, zorder=0)
    top.set(ylabel="residual orthogonal to $p_{mm}$", xlim=SPAN)
    bottom.set(ylabel="Lyapunov exponent", xlabel=r"rate / $\eta_c$", ylim=(-1.5, 0.6))
    top.text(0.02, 0.95, "late map", color="#777777", transform=top.transAxes, va="top")
    top.text(0.02, 0.86, "normalized descent", color=RED, transform=top.transAxes, va="top")


@recipe(
    "B-FIG-CHAOS",
    "Above eta_c late descent doubles its period until there is none",
    draw=draw_chaos,
    size=(3.4, 3.4),
    errata=("B-NEW-3",),
    claims=f"""
    eta-c | eta_c | 2/3 ± 1e-12
    periods | periods of the late map up to 128, by rate over eta_c | 1, 2, 4, 8, 16, None
    descent | the same of normalized descent itself | 1, 2, 4, 8, 16, None
    doublings | rates over eta_c at which the period doubles | {listed(DOUBLINGS)} ± 0.01
    chaos | largest Lyapunov exponent at 3.5 eta_c | ≥ 0.1
    settled | the exponent below eta_c | ≤ 0.0
    agreement | distance of points visited by descent and by the map, to 3 eta_c | ≤ 1e-6
    """,
)
def fig_chaos(setting: Setting) -> Findings:
    """The late map at many rates, its exponent by the Jacobian, and full descent at a few rates."""
    late = hm.limits.late_residual(problem(), hm.max_margin(problem()))
    late_map = LateMap(late)
    assert late.w is not None
    start = late.w @ late.span + 0.01
    fine = setting.scale == "paper"
    rates = np.linspace(*SPAN, 1200 if fine else 600)
    z = np.tile(start, (len(rates), 1))
    for _ in range(2000):
        z = late_map.step(z, rates * late.eta_c)
    visits = []
    for _ in range(120):
        visits.append(z[:, 0])
        z = late_map.step(z, rates * late.eta_c)
    exponents = late_map.exponents(rates * late.eta_c, start, 1000, 2000)
    setting.progress(0.5)
    seen, orbits, residuals = {}, {}, []
    far = FAR * late.max_margin.need() + late.w + 0.01 * late.span[:, 0]
    for rate in PERIODS:
        orbits[rate] = late_map.orbit(rate * late.eta_c, start, 6000, 400)
        step = hm.optim.Normalized(rate * late.eta_c)
        path = hm.train(problem(), step, steps=8000, start=far, record=range(7600, 8001))
        seen[rate] = path.points[1:] @ late.span  # the first point is the start
        residuals.append(seen[rate][-128:, 0])
    by_map = {rate: period(orbit) for rate, orbit in orbits.items()}
    by_descent = {rate: period(orbit) for rate, orbit in seen.items()}
    doublings = [_doubling(late_map, late.eta_c, start, k, about) for k, about in enumerate(DOUBLINGS)]
    orderly = [rate for rate, p in PERIODS.items() if p is not None]
    apart = [float(np.abs(np.sort(seen[r][-128:, 0]) - np.sort(orbits[r][-128:, 0])).max()) for r in orderly]
    chaotic = late_map.exponents(np.array([3.5 * late.eta_c]), start, 2000, 10_000)
    claims = {
        "eta-c": late.eta_c,
        "periods": (by_map == PERIODS, [str(p) for p in by_map.values()]),
        "descent": (by_descent == PERIODS, [str(p) for p in by_descent.values()]),
        "doublings": doublings,
        "chaos": chaotic,
        "settled": exponents[rates < 0.99],
        "agreement": apart,
    }
    tables = {
        "late map": {"rate": np.tile(rates, len(visits)), "residual": np.concatenate(visits)},
        "descent": {"rate": np.repeat(list(PERIODS), 128), "residual": np.concatenate(residuals)},
        "exponents": {"rate": rates, "exponent": exponents},
        "doublings": {"rate": np.array(doublings)},
    }
    notes = (
        "Keys (0, 0), (-1, -1), (-1, 3), scores 1, 0, 0.",
        f"Descent starts at {FAR:.0f} p_mm; its last 128 of 8,000 steps are shown.",
    )
    return Findings(tables, claims, notes)


def _doubling(late_map: LateMap, eta_c: float, start: np.ndarray, k: int, about: float) -> float:
    """Bisect around a rate for the one at which the period grows beyond 2^k."""

    def is_beyond(rate: float) -> bool:
        return period(late_map.orbit(rate * eta_c, start, 4000, 80), 2**k, 1e-3) is None

    return plane.bisect(is_beyond, about - 0.05, about + 0.03, 1e-3)
