"""B-FIG-RHO: where p goes in joint training depends on how fast v grows with it (B-NEW-1, B-NEW-1b)."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED
from hardmax.papers.figures.claims import listed, near
from hardmax.papers.figures.figure import Axes, Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import DOTTED, name_axes
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.max_margin.figures.plane import RATE, degrees
from hardmax.papers.max_margin.figures.trained_head import BEST, START
from hardmax.papers.max_margin.statements.instances import switching

RHO = r"$\rho = \eta_v/\eta_p$"
LONG = 20_000  # steps of joint training
RATIOS = (0.5, 0.75, 1.0, 2.0)  # drawn over the steps, from the paper's start
SMALL = (0.1, 0.25)  # from the paper's start these select other tokens
OTHERS = (0.9, 1.25, 1.5)
TABLE = {0.0: 11.310, 0.1: 10.186, 0.25: 8.500, 0.5: 5.683, 0.75: 2.852, 1.0: 0.0, 2.0: 0.0}
PATH = {0.1: 10.61, 0.25: 8.95, 0.5: 6.19, 0.75: 3.43, 1.0: 0.94, 1.5: 0.00}  # at R = 30
JUMP = (0.1, 0.25, 0.5, 1.0, 2.0, 3.0, 4.0, 4.6, 4.8, 5.0, 6.0, 8.0)


def draw_rho(tables: Tables, canvas: Canvas) -> None:
    """Angles over training, the limit against rho, and the data whose selection depends on rho."""
    first, second, third = canvas.subplots(1, 3)
    for ratio, color in zip(RATIOS, (GREEN, ORANGE, BLUE, PURPLE), strict=True):
        rows = part(tables["training"], "ratio", ratio)
        first.plot(rows["norm"], rows["degrees"], color=color, label=f"{ratio:g}")
        first.axhline(float(rows["limit"][0]), color=color, linewidth=0.8, linestyle=DOTTED, zorder=1)
    first.set(xscale="log", xlim=(4, 2000), ylim=(-1, 13), xlabel="$|p|$", ylabel="angle of $p$ (degrees)")
    first.legend(loc="upper right", title=r"$\eta_v/\eta_p$", ncols=2, columnspacing=0.8, title_fontsize=7)
    first.set_title("(a) training, data of figure 3(b)")
    _limits(second, tables, "fig3b")
    least = tables["paths"]
    second.plot(least["rho"], least["degrees"], "x", color=GRAY, markersize=4, label="least risk, $R = 30$")
    angle = "limit angle (degrees)"
    name_axes(second, "(b) limit on the same data", RHO, angle, xlim=(0, 2.05), ylim=(-0.7, 13))
    second.text(0.06, 11.4, "$p^{mm}$", fontsize=7)
    second.text(2.03, 0.5, "$p^{relax}$", fontsize=7, ha="right")
    second.legend(loc="upper right", bbox_to_anchor=(1.0, 0.92))
    _limits(third, tables, "switching")
    ramp = tables["balance"]["rho"]
    third.axvspan(ramp.min(), ramp.max(), color=GRAY, alpha=0.25, linewidth=0, label="gain balances loss")
    name_axes(third, r"(c) the selection depends on $\rho$", RHO, angle, xlim=(0, 8.2), ylim=(22, 56))
    third.set_xticks(range(0, 9, 2))
    third.legend(loc="upper right")


def _limits(panel: Axes, tables: Tables, data: str) -> None:
    curve = part(tables["limits"], "data", data)
    panel.plot(curve["rho"], curve["degrees"], color=RED, label="interpolated SVM", zorder=2)
    ends = part(tables["ends"], "data", data)
    for start, face, label in (("paper", INK, "trained"), ("other", "white", "trained, $v(0) = (0, 1)$")):
        rows = part(ends, "start", start)
        if len(rows["rho"]):
            look: dict[str, Any] = {"color": INK, "markerfacecolor": face, "markeredgewidth": 0.8}
            panel.plot(rows["rho"], rows["degrees"], "o", label=label, markersize=3.4, zorder=4, **look)


@recipe(
    "B-FIG-RHO",
    "The limit of p in joint training against rho, the growth of v over that of p",
    draw=draw_rho,
    size=(7.0, 2.5),
    errata=("B-ERR-02",),
    claims=f"""
    rho-star | rho from which the limit is the relaxed direction | 1.0 ± 1e-9
    closed-form | limit angle for rho = 0, 0.1, 0.25, 0.5, 0.75, 1, 2 | {listed(list(TABLE.values()))} ± 5e-4
    trained | angle after 20,000 steps for eta_v/eta_p = 0.5, 0.75, 1, 2 | 5.678, 2.851, 0.0086, 0.0 ± 5e-4
    agreement | largest difference of training and closed form, rho of 0.5 and more but not 1 | ≤ 0.01
    other-basin | tokens selected for rho = 0.1 and 0.25 from the paper's start | not the best tokens
    restarted | the same difference for rho = 0.1 and 0.25 with v(0) = (0, 1) | ≤ 0.01
    path | angle of the least risk at R = 30 for rho = 0.1, 0.25, 0.5, 0.75, 1, 1.5
        | {listed(list(PATH.values()))} ± 6e-3
    fixed-r | the same for a fixed r = 2 at R = 10, 20, 30, 35, on its way to p_mm | 10.48, 10.87, 11.01,
        11.05 ± 6e-3
    switch-angles | limit angle for rho = 1 and 8 where the selection depends on rho | 39.8, 26.6 ± 0.05
    switch-tokens | tokens selected for rho = 1 and 8 | (1, 1, 1) and (1, 1, 0)
    switch-trained | largest difference of training and closed form there | ≤ 0.25
    ramp-ends | rho at which the ramp begins and ends: 7/sqrt(2.44) and 11/sqrt(5)
        | {7 / np.sqrt(2.44)}, {11 / np.sqrt(5)} ± 1e-9
    """,
)
def fig_rho(setting: Setting) -> Findings:
    """The closed form of B-NEW-1 compared with training and the regularization path, on two data sets."""
    problem = hm.data.example("B-FIG-3b")
    keys = problem.split(problem.keys[problem.tokens])
    upright = hm.Problem.from_tokens(keys, [1, -1, 1], readout=[0.0, 1.0])
    shown = np.unique(np.geomspace(10, LONG, 160).astype(int)).tolist()
    runs = {rho: _train(problem, rho, shown) for rho in sorted((*RATIOS, *SMALL, *OTHERS))}
    restarted = {rho: _train(upright, rho, ()) for rho in SMALL}
    setting.progress(0.2)
    paths = {rho: hm.limits.joint_path(problem, [30.0], rho=rho, starts=3).points[-1] for rho in PATH}
    fixed = hm.limits.joint_path(problem, [10.0, 20.0, 30.0, 35.0], r=2.0, starts=2)
    setting.progress(0.6)
    jumpy = switching()  # its third input's tokens differ in label margin
    jumps = {rho: _train(jumpy, rho, ()) for rho in JUMP}
    ramp = _balance(jumpy)
    ends = (("fig3b", "paper", runs), ("fig3b", "other", restarted), ("switching", "paper", jumps))
    tables = {
        "training": stacked(
            {
                "ratio": rho,
                "step": runs[rho].times,
                "norm": runs[rho].p_norms,
                "degrees": degrees(runs[rho].points),
                "limit": _limit(problem, rho),
            }
            for rho in RATIOS
        ),
        "limits": _curves(problem, jumpy, ramp),
        "ends": stacked(
            {"data": data, "start": start, "rho": rho, "degrees": degrees(path.p)}
            for data, start, each in ends
            for rho, path in each.items()
        ),
        "paths": {"rho": np.array(list(paths)), "degrees": degrees(np.array(list(paths.values())))},
        "balance": ramp,
    }
    claims = _measured_3b(problem, runs, restarted, paths, fixed) | _measured_switching(jumpy, jumps, ramp)
    notes = (
        "From the paper's start, rho = 0.1 and 0.25 fall into another basin and are not drawn in (b); with "
        "v(0) = (0, 1) they go where B-NEW-1 says.",
        "Equal rates, as in B-FIG-3b, are the critical ratio: there the distance to the limit shrinks like "
        "1/|p| only.",
        f"(c) Between rho = {ramp['rho'].min():.3f} and {ramp['rho'].max():.3f} the third input keeps a "
        "token whose rival has the larger label margin. Attention on the rival is then a gain, not a loss, "
        "and p settles where the two balance: what B-NEW-1 alone would make a jump is a steep ramp.",
    )
    return Findings(tables, claims, notes)


def _train(problem: hm.Problem, rho: float, record: list[int] | tuple[int, ...]) -> hm.Run:
    both = hm.optim.Normalized(RATE), hm.optim.Normalized(rho * RATE)
    return hm.train(problem.joint(), both, steps=LONG, start=START, record=record)


def _limit(problem: hm.Problem, rho: float) -> float:
    return float(degrees(hm.directions.interpolated_max_margin(problem, rho, "best").direction))


def _curves(problem: hm.Problem, jumpy: hm.Problem, ramp: Table) -> Table:
    """The closed form on both data sets, with the corners of the ramp on the second."""
    corners = np.array([ramp["rho"].min(), ramp["rho"].max()])
    fine = np.concatenate([np.linspace(0.02, 8.2, 60), corners, np.linspace(corners[0], corners[1], 20)])
    both = [("fig3b", problem, np.linspace(0.0, 2.05, 42)), ("switching", jumpy, np.sort(fine))]
    return stacked(
        {"data": data, "rho": grid, "degrees": [_limit(each, rho) for rho in grid]}
        for data, each, grid in both
    )


def _balance(problem: hm.Problem) -> Table:
    """Directions at which the third input's gain and the support inputs' loss are of one order.

    With token 0 selected, its rival's attention lowers the risk by exp(-(rho Gamma nu + d.q) R), and the
    support inputs raise it by exp(-m(q) R). From where the two tokens tie to the relaxed direction, rho is
    (m(q) - d.q) / (Gamma nu).
    """
    chosen = hm.directions.interpolated_max_margin(problem, 8.0, "best")
    keys = problem.split(problem.keys[problem.tokens])
    d = keys[2][0] - keys[2][1]
    rows = np.array([keys[i][1] - keys[i][0] for i in (0, 1)])
    tie = np.degrees(np.arctan2(d[0], -d[1]))
    turn = np.radians(np.linspace(float(degrees(chosen.direction)), tie, 60))
    q = np.array([np.cos(turn), np.sin(turn)])
    label = chosen.label
    assert label is not None
    assert label.slack is not None
    delay = label.margin * float(label.slack[2])
    return {"degrees": np.degrees(turn), "rho": ((rows @ q).min(axis=0) - d @ q) / delay}


def _measured_3b(
    problem: hm.Problem,
    runs: dict[float, hm.Run],
    restarted: dict[float, hm.Run],
    paths: dict[float, np.ndarray],
    fixed: hm.limits.JointPath,
) -> dict[str, Any]:
    limit = hm.directions.interpolated_max_margin(problem, 1.0, BEST)
    others = [float(degrees(runs[rho].p)) - _limit(problem, rho) for rho in (0.5, 0.75, 0.9, 1.25, 1.5, 2.0)]
    return {
        "rho-star": limit.rho_star,
        "closed-form": [_limit(problem, rho) for rho in TABLE],
        "trained": [float(degrees(runs[rho].p)) for rho in RATIOS],
        "agreement": np.abs(others),
        "other-basin": (
            all(runs[rho].selection.tokens != BEST for rho in SMALL),
            [runs[rho].selection.tokens for rho in SMALL],
        ),
        "restarted": [abs(degrees(path.p) - _limit(problem, rho)) for rho, path in restarted.items()],
        "path": [float(degrees(p)) for p in paths.values()],
        "fixed-r": degrees(fixed.points),
    }


def _measured_switching(problem: hm.Problem, runs: dict[float, hm.Run], ramp: Table) -> dict[str, Any]:
    low, high = (hm.directions.interpolated_max_margin(problem, rho, "best") for rho in (1.0, 8.0))
    selections = [low.selection, high.selection]
    apart = [float(degrees(runs[rho].p)) - _limit(problem, rho) for rho in JUMP]
    inside = [rho for rho in JUMP if ramp["rho"].min() < rho < ramp["rho"].max()]
    expected = np.interp(inside, ramp["rho"][::-1], ramp["degrees"][::-1])
    return {
        "switch-angles": degrees(np.array([low.direction, high.direction])),
        "switch-tokens": (selections == [(1, 1, 1), (1, 1, 0)], selections),
        "switch-trained": np.abs(apart),
        "ramp-closed-form": near(
            "B-FIG-RHO.ramp-closed-form",
            "limit angle for rho = 4.6 and 4.8, where gain and loss balance",
            [_limit(problem, rho) for rho in inside],
            expected,
            0.01,
        ),
        "ramp-ends": [ramp["rho"].min(), ramp["rho"].max()],
        "ramp-trained": near(
            "B-FIG-RHO.ramp-trained",
            "trained angles for the same rho",
            [float(degrees(runs[rho].p)) for rho in inside],
            expected,
            0.02,
        ),
    }
