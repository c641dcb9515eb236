"""D-FIG-NORMS and D-FIG-FACTORS: the norm decides which selections attract, and factors change the norm.

Which selections attract depends on the norm (D-THM-4); training K and Q in the place of W changes the norm,
and maybe the tokens (D-CONJ-1).
"""

from __future__ import annotations

from typing import Any

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, GRAY, GREEN, INK, RED
from hardmax.papers.figures.claims import listed, near
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.panels import draw_lines, name_axes, name_lines
from hardmax.papers.figures.tables import Table, Tables, part, stacked
from hardmax.papers.geometry.figures.optimizers import COLORS, NAMES, STEPS, at, deficits, marks
from hardmax.trials.summary import Proportion

BALLS = ("l1", "l2", "linf")
POWERS = tuple(COLORS)
PROBLEMS = {"quick": 60, "paper": 300}
DIMENSIONS = (2, 3, 4)
CHANGES = {"1 1": ("strong", "strong", "strong", "no", "no"), "0 2": ("no", "no", "no", "no", "strong")}
MARGINS = {  # of the five norms, from the spec
    "1 1": (2.0, 2.0103628792945, 2.0615528128088, 2.1633743554611, 2.25),
    "0 2": (0.78571428571429, 0.98491285834266, 1.1, 1.2227815917384, 1.5),
}  # fmt: skip


def half_integers(n: int, T: int, d: int, seed: int) -> hm.Problem:
    """Keys uniform on half-integers from -2 to 2, scores of every input a permutation of 0 to T - 1."""
    rng = np.random.default_rng(seed)
    keys = rng.integers(-4, 5, (n, T, d)) / 2
    return hm.Problem(keys, [rng.permutation(T).astype(float) for _ in range(n)])


def draw_norms(tables: Tables, canvas: Canvas) -> None:
    """The balls of three norms with the optima of plane, the words by norm, and shares of random data."""
    left, middle, right = canvas.subplots(1, 3, width_ratios=(1.25, 0.95, 0.8))
    # unit balls, and on each the direction that every feasible selection has there
    angle = np.linspace(0, 2 * np.pi, 361)
    circle = np.stack([np.cos(angle), np.sin(angle)])
    for name, power in (("l1", 1), ("l2", 2), ("linf", np.inf)):
        x, y = circle / np.linalg.norm(circle, power, axis=0)
        left.plot(x, y, color=COLORS[name], linewidth=0.9, zorder=1)
        for row in zip(*(part(tables["words"], "norm", name)[c] for c in ("x", "y", "word")), strict=True):
            face = COLORS[name] if row[2] == "strong" else "white"
            left.plot(*row[:2], "o", color=COLORS[name], markersize=4.5, zorder=3, markerfacecolor=face)
    for x, y in zip(tables["borders"]["x"], tables["borders"]["y"], strict=True):
        left.plot([0, 2 * x], [0, 2 * y], color=GRAY, linewidth=0.6, linestyle=(0, (1, 1.5)), zorder=0)
    euclidean = part(tables["words"], "norm", "l2")
    for x, y, tokens in zip(euclidean["x"], euclidean["y"], euclidean["selection"], strict=True):
        far = 1.33 / max(abs(x), abs(y))
        text = f"({str(tokens).replace(' ', ', ')})"
        left.text(far * x, far * y, text, ha="center", va="center", fontsize=7, color=INK)
    left.set(xlim=(-1.55, 1.55), ylim=(-1.5, 1.5), aspect="equal", xticks=[], yticks=[])
    left.set_title("(a) directions in three norms")
    for side in left.spines.values():
        side.set_visible(False)
    words = tables["words"]
    chosen = list(dict.fromkeys(words["selection"].tolist()))
    for place, name in enumerate(POWERS):
        column = part(words, "norm", name)
        for height, selection in enumerate(reversed(chosen)):
            word = str(part(column, "selection", selection)["word"][0])
            face = COLORS[name] if word == "strong" else "white"
            look = {"color": COLORS[name], "markerfacecolor": face}
            middle.plot(place, height, "o", markersize=7, markeredgewidth=0.9, **look)
    middle.set(xlim=(-0.5, len(POWERS) - 0.5), ylim=(-0.6, len(chosen) - 0.4))
    middle.set_title("(b) full if it attracts")
    middle.set_xticks(range(len(POWERS)), [NAMES[name] for name in POWERS])
    middle.set_yticks(range(len(chosen)), [f"({tokens.replace(' ', ', ')})" for tokens in reversed(chosen)])
    middle.tick_params(length=0)
    for side in middle.spines.values():
        side.set_visible(False)
    shares = tables["shares"]
    widths = np.abs([shares["low"], shares["high"]] - shares["share"])
    right.errorbar(shares["d"], shares["share"], widths, fmt="o", color=BLUE, markersize=4)
    name_axes(right, "(c) norms disagree", "dimension", "share of problems", ylim=(0, 1), xlim=(1.5, 4.5))
    right.set_xticks(DIMENSIONS)


@recipe(
    "D-FIG-NORMS",
    "Which selections attract depends on the norm",
    draw=draw_norms,
    size=(7.0, 2.7),
    errata=("D-ERR-5",),
    claims=f"""
    words | plane, l1 to linf: (1, 1) and (0, 2) | (1, 1) attracts up to l2, (0, 2) only in linf
    steady | the word of every other selection is the same in all norms | 1 2, 2 0, 2 1, 2 2
    margins | margins of (1, 1) and (0, 2) in the five norms | {listed(list(MARGINS.values()))} ± 1e-9
    monotone | margins grow with the power: least step | ≥ -1e-12
    random | 27 of 60 problems in the plane and 33 of 60 in space (the spec's counts, of other draws)
        are likely shares | 0.45 and 0.55 in the intervals
    often | lower ends of the intervals, d = 2, 3, 4 | ≥ 0.1
    """,
)
def fig_norms(setting: Setting) -> Findings:
    """All feasible selections of plane in five norms, and how often random data tell three norms apart."""
    problem = hm.data.example("plane")
    feasible = [row.selection for row in hm.selections(problem)]
    rows = []
    for name in POWERS:
        for tokens in sorted(feasible):
            best = hm.max_margin(problem, tokens, norm=name)
            x, y = best.need() * best.margin
            word = hm.attracts(problem, best).written
            row = {"norm": name, "selection": " ".join(map(str, tokens)), "word": word}
            rows.append({**row, "margin": best.margin, "x": x, "y": y})
    words = stacked(rows)
    count, differ = PROBLEMS[setting.scale], []
    for d in DIMENSIONS:
        differ.append(sum(_disagree(half_integers(2, 3, d, seed)) for seed in range(count)))
        setting.progress(len(differ) / len(DIMENSIONS))
    bounds = [Proportion(number, count).interval for number in differ]
    selections = sorted(set(words["selection"].tolist()))
    by_tokens = {tokens: part(words, "selection", tokens) for tokens in selections}
    changes = {tokens: tuple(by_tokens[tokens]["word"].tolist()) for tokens in CHANGES}
    steady = [tokens for tokens in by_tokens if tokens not in CHANGES]
    claims = {
        "words": (changes == CHANGES, changes),
        "steady": (all(len(set(by_tokens[tokens]["word"].tolist())) == 1 for tokens in steady), steady),
        "margins": [by_tokens[tokens]["margin"] for tokens in MARGINS],
        "monotone": [np.diff(by_tokens[tokens]["margin"]) for tokens in (*CHANGES, *steady)],
        "random": (
            all(low <= number / 60 <= high for number, (low, high) in zip((27, 33), bounds, strict=False)),
            [list(interval) for interval in bounds[:2]],
        ),
        "often": [low for low, _ in bounds],
    }
    tables = {
        "words": words,
        "borders": _borders(problem),
        "shares": {
            "d": np.array(DIMENSIONS),
            "problems": np.full(len(differ), count),
            "differ": np.array(differ),
            "share": np.array(differ) / count,
            "low": np.array([low for low, _ in bounds]),
            "high": np.array([high for _, high in bounds]),
        },
    }
    notes = (
        "(a) and (b) show the data set plane. In (a) a point is the max-margin direction of a selection in a "
        "norm, full if it attracts; dotted lines part the directions that select different tokens.",
        "(c) 2 inputs of 3 tokens, half-integer keys, ranks as scores; some selection attracts in one of "
        f"l1, l2, linf and not in another. {count} problems each, 95 % intervals.",
    )
    return Findings(tables, claims, notes, seed=0)


def _disagree(problem: hm.Problem) -> bool:
    """Whether some selection attracts in one of the three norms and not in another."""
    first, *others = (
        {row.selection: row.attracts.verdict for row in hm.selections(problem, norm=name)} for name in BALLS
    )
    return any(verdicts != first for verdicts in others)


def _borders(problem: hm.Problem) -> dict[str, np.ndarray]:
    """The directions of the plane at which the selected tokens change."""
    angle = np.linspace(0, 2 * np.pi, 3601)
    logits = problem.keys[problem.tokens] @ np.stack([np.cos(angle), np.sin(angle)])
    inputs = np.split(logits, problem.offsets[1:-1])
    tops = [part_logits.argmax(axis=0) for part_logits in inputs]
    at = np.flatnonzero(np.any(np.diff(tops, axis=1) != 0, axis=0))
    return {"x": np.cos(angle[at]), "y": np.sin(angle[at])}


MUON = {"quick": 1000, "paper": 100_000}  # a rule of matrices is not compiled
DATA = {"w33": 3, "w44": 4}  # with the columns of K and Q
RULE = hm.optim.Normalized(0.03, decay=0.5)
WAYS: dict[str, tuple[Any, str]] = {  # the rule of the factors, and the norm of W that it should minimize
    "joint": (RULE, "nuclear"),
    "block": ((RULE, RULE), "nuclear"),
    "Muon": (hm.optim.Spectral(0.03, decay=0.5), "spectral"),
}
WAY_COLORS = {"joint": BLUE, "block": GREEN, "Muon": RED, "one column": GRAY}
ORACLE = {
    ("w33", "joint"): (0.8231, 0.06257),
    ("w33", "block"): (0.3241, 0.02449),
    ("w33", "Muon"): (0.3035, 0.01929),
    ("w44", "joint"): (0.1885, 0.024),
    ("w44", "block"): (0.1017, 0.014),
    ("w44", "Muon"): (0.06057, 0.0093),
}
OF_FACTORS = {"w33": (1.24239347539, 1.13811289364), "w44": (1.60843583619, 3.4999094897)}


def draw_factors(tables: Tables, canvas: Canvas) -> None:
    """Deficits on both data sets, and the singular values of W at the end on the second."""
    *panels, right = canvas.subplots(1, 3, width_ratios=(1, 1, 0.9))
    titles = ("(a) three inputs, 3 × 3", "(b) four inputs, 4 × 4")
    for panel, data, title in zip(panels, DATA, titles, strict=True):
        looks = {name: {"color": color} for name, color in WAY_COLORS.items()}
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
    name_lines(panels[0], dict(zip(texts, WAY_COLORS.values(), strict=True)), 0.33, 0.085)
    values = part(tables["values"], "data", "w44")
    width = 0.2
    for shift, name in enumerate(("W itself", "joint", "block", "Muon")):
        rows = part(values, "way", name)
        places = rows["index"] + (shift - 1.5) * width
        right.bar(places, rows["value"], width * 0.9, label=name, color=WAY_COLORS.get(name, INK))
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
    margins | nuclear and spectral margins of what is selected | {listed(list(OF_FACTORS.values()))} ± 1e-7
    tokens | on w33 factors select (2, 2, 2), W itself and Muon the best, (2, 0, 2) | (2, 2, 2) twice, (2,
        0, 2) twice
    rank | third singular value over the first, joint and block: rank two | ≤ 0.03
    full | third singular value over the first, Muon on w44 | ≥ 0.3
    one-column | one column cannot have rank two: deficits at the end | ≥ 0.6
    """,
)
def fig_factors(setting: Setting) -> Findings:
    """Factors trained in three ways from one small start, and with one column; W by itself next to them."""
    spectra: list[dict[str, Any]] = []
    tokens: dict[tuple[str, str], tuple[int, ...]] = {}
    gaps: dict[tuple[str, str], tuple[np.ndarray, np.ndarray]] = {}
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
            gaps[data, name] = deficits(run, best)
            spectra.append({"data": data, "way": name, **_spectrum(run.W)})
        whole = hm.train(problem, hm.optim.Normalized(0.1), steps=STEPS[setting.scale], record=[])
        tokens[data, "W itself"] = whole.selection.tokens
        spectra.append({"data": data, "way": "W itself", **_spectrum(whole.W)})
        setting.progress((place + 1) / len(DATA))
    tables = {
        "deficits": stacked(
            {"data": data, "way": way, "step": steps, "deficit": values}
            for (data, way), (steps, values) in gaps.items()
        ),
        "values": stacked(spectra),
    }
    values = {(row["data"], row["way"]): row["value"] for row in spectra}
    long = [key for key in ORACLE if gaps[key][0][-1] >= 10_000]
    selected = {way: list(tokens["w33", way]) for way in ("joint", "block", "W itself", "Muon")}
    claims = {
        "early": [at(*gaps[key], 1000) for key in ORACLE],
        "late": near(
            "D-FIG-FACTORS.late",
            "the same after 10,000, where they were taken",
            [at(*gaps[key], 10_000) for key in long],
            [ORACLE[key][1] for key in long],
            5e-4,
        ),
        "margins": [[margins[data, norm] for norm in ("nuclear", "spectral")] for data in DATA],
        "tokens": (list(selected.values()) == [[2, 2, 2], [2, 2, 2], [2, 0, 2], [2, 0, 2]], selected),
        "rank": np.concatenate([values[data, way][2:] for data in DATA for way in ("joint", "block")]),
        "full": values["w44", "Muon"][2],
        "one-column": [gaps[data, "one column"][1][-1] for data in DATA],
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
    factors = 0.01 * np.random.default_rng(seed).normal(size=sum(problem.shape) * columns).round(2)
    K, Q = np.split(factors.reshape(-1, columns), [problem.shape[0]])
    return K, Q


def _spectrum(W: np.ndarray) -> Table:
    """The singular values of W over the largest."""
    values = np.linalg.svd(W, compute_uv=False)
    return {"index": np.arange(1, len(values) + 1), "value": values / values[0]}
