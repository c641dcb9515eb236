"""D-FIG-FACTORS: training K and Q in the place of W changes the norm, and maybe the tokens (D-CONJ-1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, RED
from hardmax.papers.figures.claims import at_least, at_most, near, true
from hardmax.papers.figures.figure import Findings, Setting, recipe
from hardmax.papers.figures.tables import Tables, part
from hardmax.papers.geometry.figures.methods import at, deficits, marks

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

STEPS = {"quick": 10_000, "paper": 100_000}
MUON = {"quick": 1000, "paper": 100_000}  # a rule of matrices is not compiled
DATA = {"w33": 3, "w44": 4}  # with the columns of K and Q
RULE = hm.optim.Normalized(0.03, decay=0.5)
WAYS: dict[str, tuple[Any, str]] = {  # the rule of the factors, and the norm of W that it should minimise
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
    for panel, data in zip(panels, DATA, strict=True):
        for name, color in COLORS.items():
            rows = part(part(tables["deficits"], "data", data), "way", name)
            panel.plot(rows["step"], rows["deficit"], color=color)
        panel.set(
            xscale="log",
            yscale="log",
            xlabel="step",
            xlim=(10, tables["deficits"]["step"].max()),
            ylim=(5e-3, 3),
            title=data,
        )
    panels[0].set_ylabel("deficit in its norm")
    told = {
        "joint": "K, Q together: nuclear",
        "block": "each by itself: nuclear",
        "Muon": "Muon on each: spectral",
        "one column": "one column: nuclear",
    }
    for height, (name, text) in enumerate(told.items()):
        panels[0].text(
            0.05,
            0.33 - 0.085 * height,
            text,
            transform=panels[0].transAxes,
            fontsize=7,
            color=COLORS[name],
            va="top",
        )
    values = part(tables["values"], "data", "w44")
    width = 0.2
    for shift, name in enumerate(("W itself", "joint", "block", "Muon")):
        rows = part(values, "way", name)
        right.bar(
            rows["index"] + (shift - 1.5) * width,
            rows["value"],
            width * 0.9,
            label=name,
            color=COLORS.get(name, INK),
        )
    right.set(
        xticks=range(1, 5),
        yticks=(0, 0.5, 1),
        ylim=(0, 1.32),
        xlabel="singular value of W",
        ylabel="over the largest",
        title="w44",
    )
    right.legend(loc="upper right", handlelength=0.8, fontsize=6.5, ncols=2)


@recipe(
    "D-FIG-FACTORS",
    "Training K and Q in the place of W changes the norm, and may change the tokens",
    draw=draw_factors,
    size=(7.0, 2.5),
    errata=("D-ERR-5", "D-ERR-8"),
)
def fig_factors(setting: Setting) -> Findings:
    """Factors trained in three ways from one small start, and with one column; W by itself beside them."""
    rows: dict[str, list[Any]] = {"data": [], "way": [], "step": [], "deficit": []}
    spectra: dict[str, list[Any]] = {"data": [], "way": [], "index": [], "value": []}
    tokens: dict[tuple[str, str], tuple[int, ...]] = {}
    found: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
    margins: dict[tuple[str, str], float] = {}
    for data, columns in DATA.items():
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
            steps, values = found[data, name]
            told = (np.full(len(steps), data), np.full(len(steps), name), steps, values)
            for column, each in zip(rows.values(), told, strict=True):
                column.append(each)
            _spectrum(spectra, data, name, run.W)
        last = STEPS[setting.scale]
        whole = hm.train(problem, hm.optim.Normalized(0.1), steps=last, record=[])
        tokens[data, "W itself"] = whole.selection.tokens
        _spectrum(spectra, data, "W itself", whole.W)
        setting.progress((list(DATA).index(data) + 1) / len(DATA))
    tables = {
        "deficits": {column: np.concatenate(values) for column, values in rows.items()},
        "values": {column: np.concatenate(values) for column, values in spectra.items()},
    }
    small = [
        part(part(tables["values"], "data", data), "way", way)["value"][2:]
        for data in DATA
        for way in ("joint", "block")
    ]
    third = part(part(tables["values"], "data", "w44"), "way", "Muon")["value"][2]
    long = [each for each in ORACLE if found[each][0][-1] >= 10_000]
    name = "D-FIG-FACTORS."
    claims = (
        near(
            name + "early",
            "deficits after 1,000 steps: joint, block, Muon on w33, then on w44",
            [at(*found[each], 1000) for each in ORACLE],
            [early for early, _ in ORACLE.values()],
            2e-3,
        ),
        near(
            name + "late",
            "the same after 10,000, where they were taken",
            [at(*found[each], 10_000) for each in long],
            [ORACLE[each][1] for each in long],
            5e-4,
        ),
        near(
            name + "margins",
            "nuclear and spectral margins of what is selected",
            [[margins[data, norm] for norm in ("nuclear", "spectral")] for data in DATA],
            list(MARGINS.values()),
            1e-7,
        ),
        true(
            name + "tokens",
            "on w33 factors select (2, 2, 2), W itself and Muon the best, (2, 0, 2)",
            [tokens["w33", way] for way in ("joint", "block", "W itself", "Muon")]
            == [(2, 2, 2), (2, 2, 2), (2, 0, 2), (2, 0, 2)],
            {way: list(tokens["w33", way]) for way in ("joint", "block", "W itself", "Muon")},
            "(2, 2, 2) twice, (2, 0, 2) twice",
        ),
        at_most(
            name + "rank",
            "third singular value over the first, joint and block: rank two",
            np.concatenate(small),
            0.03,
        ),
        at_least(name + "full", "third singular value over the first, Muon on w44", third, 0.3),
        at_least(
            name + "one-column",
            "one column cannot have rank two: deficits at the end",
            [found[data, "one column"][1][-1] for data in DATA],
            0.6,
        ),
    )
    notes = (
        "Rate 0.03/sqrt(t + 1) from small random K and Q; one column of K and Q gives W of rank one.",
        "W itself: normalised gradient descent of W, which minimises its Frobenius norm. At quick scale Muon "
        "takes 1,000 steps: a rule of matrices is not compiled.",
    )
    return Findings(tables, claims, notes, seed=0)


def _start(problem: hm.Problem, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Small random factors, rounded as those of the spec's runs are."""
    high, wide = problem.shape
    drawn = 0.01 * np.random.default_rng(seed).normal(size=(high + wide) * columns).round(2)
    return drawn[: high * columns].reshape(high, columns), drawn[high * columns :].reshape(wide, columns)


def _spectrum(spectra: dict[str, list[Any]], data: str, way: str, W: np.ndarray) -> None:
    """Enter the singular values of W over the largest."""
    values = np.linalg.svd(W, compute_uv=False)
    count = len(values)
    told = (np.full(count, data), np.full(count, way), np.arange(1, count + 1), values / values[0])
    for column, each in zip(spectra.values(), told, strict=True):
        column.append(each)
