"""Training of a model as the paper prints it, with its tables, notes and picture, for figures 1 to 4.

The picture shows E p and E v of every token, and r_v, r_p and the loss over the epochs. A-FIG-2 is the
one-layer model on the K-level data, all parameters trained.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib.style import BLUE, GRAY, GREEN, INK, ORANGE, PURPLE, RED
from hardmax.dynamics.optim import AdamW
from hardmax.embeddings import Corpus, KLevel, initial_vectors
from hardmax.embeddings.minibatch import EmbeddingTraining, train_embeddings
from hardmax.papers.figures.claims import Claim, Claims, at_least
from hardmax.papers.figures.figure import Findings, Scale, Setting, recipe
from hardmax.papers.figures.tables import Axes, Canvas, FigureBase, Table, Tables, part, stacked

SEED = 0
BINS = 20  # of equally many tokens, for the line of medians through real text
CLEAR = 0.3  # a token beyond this distance from the mean label has a sign to speak of
WORDS = 6  # that the notes name for either sign
NOTED = (1, 5, 20, 100)  # epochs after which the notes give r_v and r_p, in addition to the last
EVERY = 5  # epochs between two checkpoints
THEORY = (
    "Trained with AdamW, which scales the step of every coordinate by itself. The theory is about gradient "
    "descent and flow in the l2 geometry; about AdamW it is silent."
)

Train = Callable[..., EmbeddingTraining]


@dataclass(frozen=True)
class Schedule:
    """How long and how fast a model is trained; the rate falls tenfold at each milestone."""

    d: int
    epochs: int
    rate: float
    weight_decay: float
    milestones: tuple[int, ...]

    def __str__(self) -> str:
        falls = " and ".join(map(str, self.milestones))
        return (
            f"d = {self.d}, {self.epochs} epochs in batches of 128, rate {self.rate:g} (times 0.1 from epoch "
            f"{falls} on), weight decay {self.weight_decay:g}"
        )


@dataclass(frozen=True, eq=False)
class Case:
    """A trained model and its data; ``drawn_from`` is None for real text, ``says`` is on the figure."""

    name: str
    says: str
    schedule: Schedule
    training: EmbeddingTraining
    drawn_from: KLevel | None = None

    @property
    def corpus(self) -> Corpus:
        """The data of the training."""
        return self.training.corpus


@dataclass(frozen=True)
class Share:
    """The part of a figure's work that one training is, from ``first`` to ``last`` of 0 to 1."""

    setting: Setting
    first: float = 0.0
    last: float = 1.0

    def report(self, what: str, done: int, epochs: int) -> None:
        """Pass on how many epochs are done."""
        reached = self.first + (self.last - self.first) * done / epochs
        self.setting.progress(reached, f"{what}, epoch {done:,} of {epochs:,}")

    def checkpoint(self, name: str) -> Path | None:
        """Where a training of the paper's size is kept; quick ones are not worth a file."""
        folder = self.setting.checkpoints
        if folder is None or self.setting.scale == "quick":
            return None
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{name}.npz"


def train(
    corpus: Corpus,
    schedule: Schedule,
    share: Share,
    name: str,
    *,
    by: Train = train_embeddings,
    **options: Any,
) -> EmbeddingTraining:
    """Train on a schedule by ``by``, the one-layer model as it comes; ``name`` is that of the checkpoint."""
    return by(
        corpus,
        schedule.d,
        AdamW(schedule.rate, weight_decay=schedule.weight_decay),
        epochs=schedule.epochs,
        milestones=schedule.milestones,
        rng=SEED,
        checkpoint=share.checkpoint(name),
        checkpoint_every=EVERY,
        progress=partial(share.report, name),
        **options,
    )


def training_tables(cases: Sequence[Case]) -> Tables:
    """Return the tables of some trainings: tokens, a line through them, r_v, r_p and the loss over epochs."""
    about = {"cases": _about, "tokens": _tokens, "lines": _line, "course": _course, "losses": _losses}
    return {
        name: stacked({"case": case.name, **columns(case)} for case in cases)
        for name, columns in about.items()
    }


def _about(case: Case) -> dict[str, Any]:
    """Return a row on the data and the training."""
    return {
        "says": case.says,
        "text": case.drawn_from is None,
        "n": case.corpus.n,
        "S": case.corpus.S,
        "d": case.schedule.d,
        "epochs": case.training.epochs,
        "mean_label": case.corpus.signs.mean(),
        "loss": case.training.loss,
    }


def _tokens(case: Case) -> dict[str, np.ndarray]:
    """Every token that occurs; ``sign`` is 0 for an irrelevant one, in text for one that is not clear."""
    corpus, training = case.corpus, case.training
    tokens = np.flatnonzero(corpus.statistics.total)
    return {
        "token": np.array([corpus.word(s) for s in tokens.tolist()]),
        "count": corpus.statistics.total[tokens],
        "sign": signs_of(case)[tokens],
        "level": (np.zeros(len(tokens), int) if case.drawn_from is None else case.drawn_from.level[tokens]),
        "posterior_difference": corpus.posterior_difference[tokens],
        "E_p": training.a[tokens],
        "E_v": training.c[tokens],
    }


def signs_of(case: Case) -> np.ndarray:
    """+1, -1 or 0 for every token: what the generator made it, or its side beyond 0.3 of the mean label."""
    if case.drawn_from is not None:
        return case.drawn_from.sign
    x = case.training.x
    return np.where(np.abs(x) > CLEAR, np.sign(x), 0.0).astype(int)


def _line(case: Case) -> dict[str, np.ndarray]:
    """Means over the tokens of each level and sign, or in text medians over bins of equally many tokens."""
    x, a, c = case.corpus.posterior_difference, case.training.a, case.training.c
    tokens = np.flatnonzero(case.corpus.statistics.total)
    if case.drawn_from is None:
        groups = np.array_split(tokens[np.argsort(x[tokens], kind="stable")], min(BINS, len(tokens)))
        points = [(0, *(np.median(y[group]) for y in (x, a, c))) for group in groups]
    else:
        kinds = case.drawn_from.sign * case.drawn_from.level
        groups = [tokens[kinds[tokens] == kind] for kind in np.unique(kinds[tokens])]
        points = [(np.sign(kinds[g[0]]), *(y[g].mean() for y in (x, a, c))) for g in groups]
    names = ("sign", "posterior_difference", "E_p", "E_v")
    return {name: np.array(column) for name, column in zip(names, zip(*points, strict=True), strict=True)}


def _course(case: Case) -> dict[str, np.ndarray]:
    """Return the statistics of every snapshot."""
    rows = [
        (s.epochs, s.r_v, s.r_p, s.sign_accuracy(CLEAR), s.deciles.top, s.deciles.bottom)
        for s in case.training.snapshots
    ]
    names = ("epoch", "r_v", "r_p", "sign_accuracy", "top_decile", "bottom_decile")
    return {name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)}


def _losses(case: Case) -> dict[str, np.ndarray]:
    curve = case.training.epoch_losses
    return {"epoch": np.arange(1, len(curve) + 1), "loss": curve}


def rises(means: np.ndarray, sizes: tuple[int, ...], together: int) -> np.ndarray:
    """Differences of neighboring level means, with ``together`` levels at a time taken as one."""
    weights = np.array(sizes, dtype=float).reshape(-1, together)
    return np.diff((means.reshape(-1, together) * weights).sum(axis=1) / weights.sum(axis=1))


def course_note(case: Case) -> str:
    """How the model was trained, r_v and r_p on the way, as they are, and the loss."""
    last = case.training.snapshots[-1].epochs
    shown = [x for x in case.training.snapshots if x.epochs in (*NOTED, last)]
    epochs, r_v, r_p = (
        ", ".join(words)
        for words in zip(*((f"{x.epochs}", f"{x.r_v:.2f}", f"{x.r_p:.2f}") for x in shown), strict=True)
    )
    return (
        f"{case.name}: {case.schedule}. After {epochs} epochs r_v is {r_v}, r_p is {r_p}; the loss ends at "
        f"{case.training.loss:.2g}."
    )


def words_note(case: Case) -> str:
    """The tokens of text that get most attention, by the side on which they are."""
    order = np.argsort(-case.training.a, kind="stable")
    sides = [order[signs_of(case)[order] == sign][:WORDS].tolist() for sign in (1, -1)]
    positive, negative = (", ".join(map(case.corpus.word, side)) for side in sides)
    return (
        f"{case.name}: E p is largest for {positive} among the mostly positive tokens, and for {negative} "
        "among the mostly negative ones."
    )


KINDS = {0: (GRAY, "o"), 1: (BLUE, "^"), -1: (ORANGE, "v")}  # by sign: color and marker
LABELS = {"E_p": r"$E_s \cdot p$", "E_v": r"$E_s \cdot v$"}
DASHES = (0, (2.5, 1.5))
FAR = 1.06  # the common range of x is -FAR to FAR
LOOKS = {500: (9.0, 0.6), 3000: (6.0, 0.4), np.inf: (2.5, 0.35)}  # size, opacity for up to this many tokens


def draw_training(
    canvas: FigureBase,
    tables: Tables,
    case: str,
    names: Mapping[int, str],
    *,
    letters: str = "abcd",
    control: str | None = None,
    stored: Table | None = None,
) -> None:
    """A row of panels: E p, E v, and over the epochs r_v, r_p and the loss, with a control's in dashes.

    ``names`` are what tokens of the signs +1, -1 and 0 are called; ``stored`` is the course of stored runs,
    which have a separate panel.
    """
    parts = canvas.add_gridspec(2, 3 if stored is None else 4, height_ratios=(1.6, 1))
    attention, value = (canvas.add_subplot(parts[:, column]) for column in (0, 1))
    upper = canvas.add_subplot(parts[0, 2])
    lower = canvas.add_subplot(parts[1, 2], sharex=upper)
    mean = float(part(tables["cases"], "case", case)["mean_label"][0])
    tokens, line = (part(tables[name], "case", case) for name in ("tokens", "lines"))
    _draw_tokens(attention, tokens, line, "E_p", mean)
    _draw_tokens(value, tokens, line, "E_v", mean)
    for sign, name in names.items():
        if (tokens["sign"] == sign).any():
            color, marker = KINDS[sign]
            value.scatter([], [], s=12, c=color, marker=marker, linewidths=0, label=name)
    # a white ground, for the legend may cover tokens
    ground = {"frameon": True, "facecolor": "white", "edgecolor": "none", "framealpha": 0.8}
    value.legend(loc="upper left", handletextpad=0.1, borderaxespad=0.1, borderpad=0.1, **ground)
    _draw_course(upper, lower, tables, [case] if control is None else [case, control])
    panels = {"attention": attention, "value": value, "over training": upper}
    if stored is not None:
        title = f"stored runs, {stored['source'][0]}"  # of reviews, also where the others are of stand-ins
        panels[title] = canvas.add_subplot(parts[:, 3])
        _draw_stored(panels[title], stored)
    for letter, (title, panel) in zip(letters, panels.items(), strict=False):
        panel.set_title(f"({letter}) {title}")


def _draw_stored(panel: Axes, stored: Table) -> None:
    """Draw the loss over the epochs of each stored run, by reading and width."""
    looks = {"as printed": (RED, "o"), "logits over sqrt(d)": (BLUE, "s")}
    labels: set[str] = set()
    for name in dict.fromkeys(stored["run"].tolist()):
        rows = part(stored, "run", name)
        reading, d = str(rows["reading"][0]), int(rows["d"][0])
        color, marker = looks[reading]
        label = f"{reading.replace('sqrt(d)', '√d')}, {d}"
        look: dict[str, Any] = {"markersize": 2.6, "markeredgewidth": 0, "linewidth": 0.9}
        look |= {"color": color, "marker": marker, "linestyle": "-" if d == 2048 else DASHES}
        panel.plot(rows["epoch"], rows["loss"], label=None if label in labels else label, **look)
        labels.add(label)
    # room for the legend below the lowest run
    panel.set(xscale="log", yscale="log", xlabel="epochs", ylim=(min(stored["loss"]) / 100, None))
    panel.set_ylabel("mean loss of the epoch")
    panel.legend(loc="lower left", title="reading, d", alignment="left", fontsize=6.5, title_fontsize=6.5)


def _draw_tokens(panel: Axes, tokens: Table, line: Table, column: str, mean: float) -> None:
    panel.axhline(0.0, color=GRAY, linewidth=0.5, zorder=0)
    panel.axvline(mean, color=GRAY, linewidth=0.5, zorder=0)
    size, alpha = next(look for most, look in LOOKS.items() if len(tokens["sign"]) <= most)
    for sign, (color, marker) in KINDS.items():
        rows = part(tokens, "sign", sign)
        # thousands of markers would make an SVG of megabytes: they are drawn as an image, the rest as lines
        look: dict[str, Any] = {"s": size, "c": color, "marker": marker, "alpha": alpha, "linewidths": 0}
        x, y = rows["posterior_difference"], rows[column]
        panel.scatter(x, y, rasterized=True, zorder=1 + abs(sign), **look)
    look = {"linestyle": "-" if (line["sign"] == 0).all() else "", "linewidth": 0.8, "marker": "o"}
    look |= {"markersize": 2.8, "markerfacecolor": "white", "markeredgewidth": 0.8}
    panel.plot(line["posterior_difference"], line[column], color=INK, zorder=4, **look)
    panel.set(xlim=(-FAR, FAR), xticks=(-1, -0.5, 0, 0.5, 1), xlabel="posterior difference $x$")
    panel.set_xticklabels(("−1", "−½", "0", "½", "1"))
    panel.set_ylabel(LABELS[column])


def _draw_course(upper: Axes, lower: Axes, tables: Tables, cases: Sequence[str]) -> None:
    for name in reversed(cases):
        rows, curve = part(tables["course"], "case", name), part(tables["losses"], "case", name)
        first = name == cases[0]
        line = "-" if first else DASHES
        for column, color, marker in (("r_v", GREEN, "o"), ("r_p", PURPLE, "s")):
            look: dict[str, Any] = {"color": color, "linestyle": line, "marker": marker}
            look |= {"markersize": 2.6, "markeredgewidth": 0, "clip_on": False}
            upper.plot(rows["epoch"], rows[column], label=f"${column}$" if first else None, **look)
        label = None if first else name
        lower.plot(curve["epoch"], curve["loss"], color=INK, linestyle=line, label=label)
    last = int(part(tables["course"], "case", cases[0])["epoch"].max())
    ticks = [0, *(tick for tick in (1, 10, 100) if tick <= 0.4 * last), last]
    lower.set_xscale("symlog", linthresh=1, linscale=0.4)
    lower.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
    if len(cases) > 1:
        lower.legend(loc="lower left")
    upper.tick_params(labelbottom=False)
    upper.axhline(0.0, color=GRAY, linewidth=0.5, zorder=0)
    upper.set(ylim=(-0.25, 1.0), yticks=(0, 0.5, 1), ylabel="rank correlation")
    upper.legend(loc="best", ncols=1)
    least = min(part(tables["losses"], "case", name)["loss"].min() for name in cases)
    low, high = (10.0 ** np.floor(np.log10(least)), 2.0)
    lower.set(xlim=(0, last), yscale="log", ylim=(low, high), xlabel="epochs", ylabel="loss")
    lower.set_yticks(10.0 ** np.arange(np.log10(low), 1.0, 2 if low < 1e-3 else 1))
    lower.minorticks_off()


SEQUENCES: dict[Scale, int] = {"quick": 1024, "paper": 4096}
WIDTHS: dict[Scale, int] = {"quick": 512, "paper": 2048}
# Neighboring levels that are looked at together: with 1,024 sequences a relevant token occurs about twelve
# times and the first levels have a dozen tokens, so that single levels may change places by chance.
TOGETHER: dict[Scale, int] = {"quick": 2, "paper": 1}
CONTROL_WIDTHS: dict[Scale, int] = {"quick": 128, "paper": 512}
KLEVEL, LARGE = "K-level data", "N(0, 1) start"
NAMES = {1: "positive", -1: "negative", 0: "irrelevant"}


def schedule_of(d: int) -> Schedule:
    """Return the printed schedule; its milestone 200 is beyond the last epoch (A-ERR-4)."""
    return Schedule(d, epochs=196, rate=1e-4, weight_decay=1e-4, milestones=(100, 200))


def large_start(S: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw E and p with entries N(0, 1), the usual default of embeddings, and v as always."""
    E, p, v = initial_vectors(S, d, rng=SEED)
    return math.sqrt(d) * E, math.sqrt(d) * p, v


def draw_2(tables: Tables, canvas: Canvas) -> None:
    """Draw E p, E v, and the course of the training with that of the control, dashed."""
    draw_training(canvas, tables, KLEVEL, NAMES, control=LARGE)


@recipe(
    "A-FIG-2",
    "Synthetic data, one layer: E p grows with a token's importance, E v with its sign too",
    draw=draw_2,
    size=(7.0, 2.6),
    errata=("A-ERR-1", "A-ERR-2", "A-ERR-3", "A-ERR-4"),
)
def fig_2(setting: Setting) -> Findings:
    """Train on the K-level data, from the printed start and from one that is too large."""
    model = KLevel()
    corpus = model.draw(SEQUENCES[setting.scale], rng=SEED)
    schedule, control = schedule_of(WIDTHS[setting.scale]), schedule_of(CONTROL_WIDTHS[setting.scale])
    share = Share(setting, 0.0, 0.7)
    case = Case(KLEVEL, "", schedule, train(corpus, schedule, share, "A-FIG-2"), model)
    start, share = large_start(corpus.S, control.d), Share(setting, 0.7, 1.0)
    from_large = train(corpus, control, share, "A-FIG-2.control", start=start)
    large = Case(LARGE, "", control, from_large, model)
    notes = (
        f"{corpus.n:,} sequences of {corpus.T} tokens, half of them positive; the paper does not say how "
        "many it drew.",
        THEORY,
        course_note(case),
        "White circles are means over the tokens of a level and sign. AdamW moves the cloud of irrelevant "
        "tokens up or down in (b) by an amount that depends on the run: nothing is claimed about it.",
        f"The scale of the start matters: dashed in (c) is the same training with d = {control.d} from E and "
        f"p with entries N(0, 1) in place of N(0, 1/d). E p then has the spread sqrt(d), the softmax sits on "
        f"one token of each sequence from the beginning, and the loss is {large.training.loss:.2f} at the "
        "end.",
    )
    tables = training_tables((case, large))
    return Findings(tables, judge(case, large, model, TOGETHER[setting.scale]), notes, SEED)


CLAIMS = Claims(
    "A-FIG-2",
    f"""
    vocabulary | tokens in the vocabulary, and sum of the probabilities (34) | 2048 and 1 | 1538 as printed
    frequency | frequency of irrelevant tokens over that of relevant ones | 21.37 ± 0.5 | equal
    r_v | Spearman correlation of the posterior difference and E v | ≥ 0.93
    r_p | Spearman correlation of its modulus and E p | ≥ 0.80
    pearson | Pearson correlation with E v over relevant tokens | ≥ 0.9
    signs | share of tokens beyond {CLEAR} whose E v has the right sign | ≥ 0.95 | separated
    irrelevant | mean E p of level 1, the least important, less that of irrelevant tokens | ≥ 1e-3
    loss | loss at the end | ≤ 0.05
    large-start | |r_v| from a start with entries N(0, 1) | ≤ 0.2
    large-start-loss | loss from that start | ≥ 0.3
    """,
)


def judge(case: Case, control: Case, model: KLevel, together: int) -> tuple[Claim, ...]:
    """Make the claims about a training and its control, with ``together`` levels taken as one."""
    result, counts = case.training, case.corpus.statistics.total
    means = result.level_means(model)
    levels = "neighboring levels" if together == 1 else f"neighboring groups of {together} levels"
    total = sum(model.probabilities(1))

    def levels_rise(name: str, what: str, values: np.ndarray) -> Claim:
        text = f"least rise of mean {what} between {levels}"
        rise = rises(values, model.sizes, together)
        return at_least(f"A-FIG-2.{name}", text, rise, 1e-3, paper="grows with importance")

    return CLAIMS.judge(
        {
            "vocabulary": ((model.S, total) == (2048, 1), [model.S, float(total)]),
            "frequency": float(counts[model.level == 0].mean() / counts[model.level > 0].mean()),
            "r_v": result.r_v,
            "r_p": result.r_p,
            "pearson": result.pearson(model.level > 0),
            "signs": result.sign_accuracy(CLEAR),
            "value-levels": levels_rise("value-levels", "sign E v", means.value),
            "attention-levels": levels_rise("attention-levels", "E p", means.logit),
            "irrelevant": means.logit[0] - means.irrelevant_logit,
            "loss": result.loss,
            "large-start": abs(control.training.r_v),
            "large-start-loss": control.training.loss,
        }
    )
