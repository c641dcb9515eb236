"""D-FIG-SOFT: letters that follow j, q, x and z in Shakespeare; some logits tend to log-odds."""

from __future__ import annotations

import lzma
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np

import hardmax as hm
from hardmax._lib.style import BLUE, INK, RED
from hardmax.papers.figures.claims import Claims, on_stand_in
from hardmax.papers.figures.figure import Canvas, Findings, Setting, recipe
from hardmax.papers.figures.tables import Tables
from hardmax.papers.geometry.statements.classes import soft_labels

CONTEXTS = "jqxz"
NAMES = ("tinyshakespeare.txt", "tinyshakespeare.txt.xz")
UNTIL = {"quick": 12.0, "paper": 16.0}  # log of the time at which the flow ends
SEED = 0

CLAIMS = Claims(
    "D-FIG-SOFT",
    """
    log-odds | logits of the finite part, off the log-odds of the counts | ≤ 1e-7
    entropy | infimum of the cross-entropy, off the conditional entropy | ≤ 1e-9
    flow-logits | logits of the flow at its end, off the log-odds | ≤ 0.1
    flow-direction | 1 - cos of the rest to the max margin at the end | ≤ 0.05
    falls | 1 - cos at the end over that at log t of about 0 | ≤ 0.2
    """,
)


def bigrams(folder: Path | None) -> Counter[tuple[str, str]] | None:
    """Count the letters after j, q, x and z in the text of Shakespeare; None if the folder lacks it."""
    paths = [] if folder is None else [folder / name for name in NAMES if (folder / name).is_file()]
    if not paths:
        return None
    with (lzma.open if paths[0].suffix == ".xz" else open)(paths[0], "rt", encoding="utf-8") as file:
        text = file.read().lower()
    pairs = pairwise(text)
    return Counter((a, b) for a, b in pairs if a in CONTEXTS and "a" <= b <= "z")


def stand_in() -> Counter[tuple[str, str]]:
    """Draw counts of twelve letters after four contexts; about half of the pairs do not occur."""
    chance = np.random.default_rng(SEED)
    drawn = chance.geometric(0.02, size=(4, 12)) * (chance.random((4, 12)) < 0.5)
    return Counter({(CONTEXTS[i], "abcdefghilmn"[j]): int(n) for (i, j), n in np.ndenumerate(drawn) if n})


def draw_soft(tables: Tables, canvas: Canvas) -> None:
    """Draw logits against log-odds at the end of the flow, and both distances from the limit over time."""
    left, right = canvas.subplots(1, 2)
    ends, course = tables["ends"], tables["course"]
    span = [ends["log_odds"].min() - 0.5, ends["log_odds"].max() + 0.5]
    left.plot(span, span, color=INK, linewidth=0.6)
    left.plot(ends["log_odds"], ends["logit"], "o", color=BLUE, markersize=3.5, alpha=0.8)
    left.set(xlabel="log-odds of the counts", ylabel="difference of logits")
    left.set_title("a  Letters that follow the same letter")
    right.plot(course["log_time"], course["logits_off"], color=BLUE, label="logits: largest error")
    right.plot(course["log_time"], course["gap"], color=RED, label="the rest: 1 - cos to the max margin")
    right.set(yscale="log", xlabel="log t", ylabel="distance from the limit")
    right.set_title("b  Gradient flow")
    right.legend(fontsize=6.5)


@recipe(
    "D-FIG-SOFT",
    "Next letters with soft labels: finite logits are log-odds, the rest follows a max margin",
    draw=draw_soft,
    size=(7.0, 2.7),
)
def fig_soft(setting: Setting) -> Findings:
    """Integrate gradient flow on the counts of letter pairs and compare it with the decomposition."""
    real = bigrams(setting.data)
    counts = stand_in() if real is None else real
    chance = np.random.default_rng(SEED)
    features = {letter: chance.normal(size=len(CONTEXTS)) for letter in CONTEXTS}
    pairs = sorted(counts)
    problem = hm.nexttoken.linear(
        [a for a, _ in pairs], [b for _, b in pairs], [counts[pair] for pair in pairs], features=features
    )
    _, soft = soft_labels(problem)
    found = soft.decomposition
    setting.progress(0.2)
    run = hm.flow(problem, until_log_time=UNTIL[setting.scale])
    keep = np.flatnonzero(np.asarray(run.times) > 0)
    off = [float(np.abs(soft.rows @ run.points[k] - soft.log_odds).max()) for k in keep]
    gap = [hm.cosine_distance(found.parts(run.points[k])[1], found.p_mm) for k in keep]
    assert found.p_fin is not None
    assert found.inf_risk is not None
    claims = CLAIMS.judge(
        {
            "log-odds": float(np.abs(soft.rows @ found.p_fin - soft.log_odds).max()),
            "entropy": abs(found.inf_risk - soft.entropy),
            "flow-logits": off[-1],
            "flow-direction": gap[-1],
            "falls": gap[-1] / gap[0],
        }
    )
    tables = {
        "ends": {"log_odds": soft.log_odds, "logit": soft.rows @ run.p},
        "course": {
            "log_time": np.asarray(run.times)[keep],
            "logits_off": np.array(off),
            "gap": np.array(gap),
        },
    }
    what = "a draw that replaces the text" if real is None else "Shakespeare's plays"
    notes = (
        f"Counts of letters after j, q, x and z in {what}: {len(pairs)} pairs that occur, features of four "
        "random numbers for each of the four letters.",
    )
    return Findings(tables, on_stand_in(claims) if real is None else claims, notes, SEED)
