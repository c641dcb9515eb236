"""D-FIG-FACTORS: training K and Q in the place of W changes the norm, and maybe the tokens (D-CONJ-1)."""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, RED
from hardmax.papers.figures.claims import listed, near
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes, name_lines
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.geometry.figures.methods import at, deficits, marks

STEPS = {"quick": 10_000, "paper": 100_000}
MUON = {"quick": 1000, "paper": 100_000}  # a rule of matrices is not compiled
DATA = {"w33": 3, "w44": 4}  # with the columns of K and Q
RULE = hm.optim.Normalized(0.03, decay=0.5)
WAYS: dict[str, tuple[Any, str]] = {  # the rule of the factors, and the norm of W that it should minimize
    "joint": (RULE, "nuclear"),
    "block": ((RULE, RULE), "nuclear"),
    "Muon": (hm.optim.Spectral(0.03, decay=0.5), "spectral"),
}
COLORS = {"joint": BLUE, "block": GREEN, "Muon": RED, "one column": GRAY}
ORACLE = {
    ("w33", "joint"): (0.8231, 0.06257),
    ("w33", "block"): (0.3241, 0.02449),
    ("w33", "Muon"): (0.3035, 0.01929),
    ("w44", "joint"): (0.1885, 0.024),
    ("w44", "block"): (0.1017, 0.014),
    ("w44", "Muon"): (0.06057, 0.0093),
}
MARGINS = {"w33": (1.24239347539, 1.13811289364), "w44": (1.60843583619, 3.4999094897)}


def draw_factors(tables: Tables, canvas: Canvas) -> None:
    """Deficits on both data sets, and the singular values of W at the end on the second."""
    *panels, right = canvas.subplots(1, 3, width_ratios=(1, 1, 0.9))
    titles = ("(a) three inputs, 3 × 3", "(b) four inputs, 4 × 4")
    for panel, data, title in zip(panels, DATA, titles, strict=True):
        looks = {name: {"color": color} for name, color in COLORS.items()}
        draw_lines(panel, part(tables["deficits"], "data", data), "way", "step", "deficit", looks)
        limits = {"xlim": (10, tables["deficits"]["step"].max()), "ylim": (5e-3, 3)}
        name_axes(panel, title, "step", "", "xy", **limits)
    panels[0].set_ylabel("deficit in its norm")
    texts = (
        "K, Q together: nuclear",
        "each by itself: nuclear",
        "Muon on each: spectral",
        "one column: nuclear",
    )
    name_lines(panels[0], dict(zip(texts, COLORS.values(), strict=True)), 0.33, 0.085)
    values = part(tables["values"], "data", "w44")
    width = 0.2
    for shift, name in enumerate(("W itself", "joint", "block", "Muon")):
        rows = part(values, "way", name)
        places = rows["index"] + (shift - 1.5) * width
        right.bar(places, rows["value"], width * 0.9, label=name, color=COLORS.get(name, INK))
    name_axes(right, "(c) spectrum of W in (b)", "singular value of W", "over the largest", ylim=(0, 1.32))
    right.set(xticks=range(1, 5), yticks=(0, 0.5, 1))
    right.legend(loc="upper right", handlelength=0.8, fontsize=6.5, ncols=2)


@recipe(
    "D-FIG-FACTORS",
    "Training K and Q in the place of W changes the norm, and may change the tokens",
    draw=draw_factors,
    size=(7.0, 2.5),
    errata=("D-ERR-5", "D-ERR-8"),
    claims=f"""
    early | deficits after 1,000 steps: joint, block, Muon on w33, then on w44
        | {listed([early for early, _ in ORACLE.values()])} ± 2e-3
    margins | nuclear and spectral margins of what is selected | {listed(list(MARGINS.values()))} ± 1e-7
    tokens | on w33 factors select (2, 2, 2), W itself and Muon the best, (2, 0, 2) | (2, 2, 2) twice, (2,
        0, 2) twice
    rank | third singular value over the first, joint and block: rank two | ≤ 0.03
    full | third singular value over the first, Muon on w44 | ≥ 0.3
    one-column | one column cannot have rank two: deficits at the end | ≥ 0.6
    """,
)
def fig_factors(setting: Setting) -> Findings:
    """Factors trained in three ways from one small start, and with one column; W by itself next to them."""
    spectra = []
    tokens: dict[tuple[str, str], tuple[int, ...]] = {}
    found: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    margins: dict[tuple[str, str], float] = {}
    for place, (data, columns) in enumerate(DATA.items()):
        problem = hm.data.example(data)
        ways = {name: (rule, norm, columns, 0) for name, (rule, norm) in WAYS.items()}
        for name, (rule, norm, m, seed) in (ways | {"one column": (RULE, "nuclear", 1, 1)}).items():
            last = (MUON if name == "Muon" else STEPS)[setting.scale]
            start = _start(problem, m, seed)
            run = hm.train(problem.factors(rank=m), rule, steps=last, record=marks(last), start=start)
            tokens[data, name] = run.selection.tokens
            best = hm.max_margin(problem, tokens[data, name], norm=norm)
            margins[data, norm] = best.margin
            found[data, name] = deficits(run, best)
            spectra.append({"data": data, "way": name, **_spectrum(run.W)})
        last = STEPS[setting.scale]
        whole = hm.train(problem, hm.optim.Normalized(0.1), steps=last, record=[])
        tokens[data, "W itself"] = whole.selection.tokens
        spectra.append({"data": data, "way": "W itself", **_spectrum(whole.W)})
        setting.progress((place + 1) / len(DATA))
    tables = {
        "deficits": stacked(
            {"data": data, "way": way, "step": steps, "deficit": values}
            for (data, way), (steps, values) in found.items()
        ),
        "values": stacked(spectra),
    }
    small = [
        part(part(tables["values"], "data", data), "way", way)["value"][2:]
        for data in DATA
        for way in ("joint", "block")
    ]
    third = part(part(tables["values"], "data", "w44"), "way", "Muon")["value"][2]
    long = [each for each in ORACLE if found[each][0][-1] >= 10_000]
    selected = {way: list(tokens["w33", way]) for way in ("joint", "block", "W itself", "Muon")}
    claims = {
        "early": [at(*found[each], 1000) for each in ORACLE],
        "late": near(
            "D-FIG-FACTORS.late",
            "the same after 10,000, where they were taken",
            [at(*found[each], 10_000) for each in long],
            [ORACLE[each][1] for each in long],
            5e-4,
        ),
        "margins": [[margins[data, norm] for norm in ("nuclear", "spectral")] for data in DATA],
        "tokens": (list(selected.values()) == [[2, 2, 2], [2, 2, 2], [2, 0, 2], [2, 0, 2]], selected),
        "rank": np.concatenate(small),
        "full": third,
        "one-column": [found[data, "one column"][1][-1] for data in DATA],
    }
    notes = (
        "The data sets are w33 in (a) and w44 in (b). Rate 0.03/sqrt(t + 1) from small random K and Q; one "
        "column of K and Q gives W of rank one.",
        "W itself: normalized gradient descent of W, which minimizes its Frobenius norm. At quick scale Muon "
        "takes 1,000 steps: a rule of matrices is not compiled.",
    )
    return Findings(tables, claims, notes, seed=0)


def _start(problem: hm.Problem, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Small random factors, rounded as those of the spec's runs are."""
    high, wide = problem.shape
    drawn = 0.01 * np.random.default_rng(seed).normal(size=(high + wide) * columns).round(2)
    return drawn[: high * columns].reshape(high, columns), drawn[high * columns :].reshape(wide, columns)


def _spectrum(W: np.ndarray) -> Table:
    """The singular values of W over the largest."""
    values = np.linalg.svd(W, compute_uv=False)
    return {"index": np.arange(1, len(values) + 1), "value": values / values[0]}
