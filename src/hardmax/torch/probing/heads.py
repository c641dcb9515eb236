"""One head, probed: how hard it is, how close to its max margin, what chance would give, its name."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hardmax.torch.probing import names
from hardmax.torch.probing.closeness import QUANTILE, Closeness, closeness, nuclear
from hardmax.torch.probing.inputs import Bools, Floats, Head, Ints
from hardmax.torch.probing.margins import margin_of
from hardmax.torch.probing.null import random_tokens, rank_p, rotated
from hardmax.torch.probing.rows import HARD, QUERIES, Choices, choices, hard_queries, rows_of

NULL = 99  # rotated heads
FEWEST = 4  # hard queries, below which a margin says nothing
STATISTICS = ("efficiency", "cosine", "agreement")


@dataclass(frozen=True)
class Against:
    """A number beside that of random heads: their median, 5 and 95 %, the rank p-values and q over all heads.

    ``p`` is small where the head is above them, ``p_low`` where it is below.
    """

    value: float
    median: float
    low: float
    high: float
    p: float
    p_low: float
    q: float = np.nan

    @staticmethod
    def of(value: float, null: Floats) -> Against:
        known = null[~np.isnan(null)]
        low, median, high = np.quantile(known, [0.05, 0.5, 0.95]) if known.size else (np.nan,) * 3
        ends = float(low), float(high)
        return Against(value, float(median), *ends, rank_p(value, null), rank_p(-value, -null))


@dataclass(frozen=True, eq=False)
class Selected:
    """The max-margin problem of a head's hard queries, and chance.

    ``null`` has efficiency, cosine and agreement; ``random`` the margin beside those of random selections of
    the same queries, and ``separable`` the share of these that some W makes.
    """

    queries: int
    rows: int
    rank: int
    vacuous: bool
    status: str
    margin_interval: tuple[float, float]
    farkas: tuple[tuple[int, int, int, float], ...]  # text, query, token, weight
    chance: float
    null: dict[str, Against]
    random: Against | None
    separable: float
    nuclear_margin: tuple[float, float] | None  # the interval of the largest
    nuclear_reached: float  # what the head has, by its quantile

    @property
    def feasible(self) -> bool | None:
        """False: no W of any rank selects these tokens."""
        return {"certified": True, "infeasible": False}.get(self.status)


@dataclass(frozen=True, eq=False)
class ProbedHead:
    """What was found out about one head.

    ``all`` is its max-margin problem, ``inner`` that without the first token and the query's own, to which
    many heads give all they do not need; None where too few queries are hard. ``gap`` is the median and
    ``mass`` and ``entropy`` are means over all queries.

    >>> import torch, hardmax as hm
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> head = hm.torch.probe(layer, torch.randn(6, 5, 8), null=9).ranked[0]
    >>> head.name, head.measured, head.hard <= head.measured
    ('self_attn', 30, True)
    """

    layer: int
    head: int
    name: str  # of the layer's module
    gap: float
    mass: float
    entropy: float
    hard: int  # queries at HARD nats or more
    measured: int  # queries with something to choose
    norms: dict[str, float]
    kinds: dict[str, float]
    why: str  # hardness only, and the reason
    all: Selected | None
    inner: Selected | None
    top: Ints = field(repr=False)  # (S, T)
    gaps: Floats = field(repr=False)

    @property
    def named(self) -> tuple[str, ...]:
        """Kinds of heads that are known, as far as it is one."""
        return names.named(self.kinds)

    @property
    def hard_share(self) -> float:
        """The share of queries that are hard."""
        return self.hard / self.measured if self.measured else np.nan


@dataclass(frozen=True)
class Settings:
    """How many queries and random heads, from which gap on, and the seed."""

    queries: int = QUERIES
    null: int = NULL
    hard: float = HARD
    seed: int = 0


def probe_head(
    head: Head,
    settings: Settings,
    place: tuple[int, int],
    name: str = "",
    ids: Ints | None = None,
    repeated: tuple[Floats, Bools, Ints] | None = None,
) -> ProbedHead:
    """Everything about one head; ``repeated`` are logits, mask and periods of texts said twice."""
    inputs = head.inputs
    found = choices(inputs, head.logits)
    measured = found.measured
    kinds = names.scores(found.weights, inputs.visible, ids)
    if repeated is not None:
        logits, visible, period = repeated
        peak = logits.max(axis=2, keepdims=True)
        weights = np.exp(logits - np.where(np.isfinite(peak), peak, 0.0))
        weights /= np.maximum(weights.sum(axis=2, keepdims=True), 1e-300)
        kinds["induction"] = names.induction(weights, visible, period)
    hard = hard_queries(found, None, settings.hard)
    selected: dict[str, Selected | None] = {"all": None, "inner": None}
    if not head.why and measured.any():
        selected = probe_selection(head, settings, place)
    count = int(measured.sum())
    return ProbedHead(
        *place,
        name,
        float(np.median(found.gap[measured])) if count else np.nan,
        float(found.mass[measured].mean()) if count else np.nan,
        float(found.entropy[measured].mean()) if count else np.nan,
        len(hard),
        count,
        head.norms,
        kinds,
        head.why,
        selected["all"],
        selected["inner"],
        found.top,
        found.gap,
    )


def probe_selection(head: Head, settings: Settings, place: tuple[int, int]) -> dict[str, Selected | None]:
    """The problems with and without first-token sink and self, each beside the same rotated heads."""
    inputs = head.inputs
    own = head.bilinear(inputs.z @ head.query_factor.T)
    views, real = {"all": head, "inner": head.inner}, {}
    for kind, view in views.items():
        found = choices(view.inputs, view.logits)
        queries = hard_queries(found, settings.queries, settings.hard)
        if len(queries) >= FEWEST:
            real[kind] = _closeness(view, found, own, queries)
    null: dict[str, list[Closeness]] = {kind: [] for kind in real}
    rng = np.random.default_rng([settings.seed, *place])
    for theirs in rotated(head, rng, settings.null if real else 0):
        bilinear = head.bilinear(theirs)
        for kind, mine in real.items():
            view = views[kind]
            found = choices(view.inputs, view.masked(bilinear))
            hardest = hard_queries(found, mine.queries, 0.0)
            if len(hardest) >= FEWEST:
                null[kind].append(_closeness(view, found, bilinear, hardest))
    made = {kind: _selected(views[kind], real[kind], null[kind], own, rng, settings) for kind in real}
    return {kind: made.get(kind) for kind in views}


def _closeness(head: Head, found: Choices, bilinear: Floats, queries: Ints) -> Closeness:
    return closeness(found, bilinear, rows_of(head.inputs, queries, found.top.ravel()[queries]))


def _selected(
    head: Head,
    real: Closeness,
    null: list[Closeness],
    own: Floats,
    rng: np.random.Generator,
    settings: Settings,
) -> Selected:
    rows, per = real.problem, head.inputs.length
    against: dict[str, Against] = {}
    for each in STATISTICS:
        values = np.array([getattr(one, each) for one in null])
        against[each] = Against.of(getattr(real, each), values)
    margins = []
    for _ in range(settings.null // 5):
        drawn = rows_of(head.inputs, rows.queries, random_tokens(head.inputs, rows.queries, rng))
        margins.append(margin_of(drawn, drawn.gram()).margin)
    drawn_margins = np.array(margins)
    known = drawn_margins[~np.isnan(drawn_margins)]
    bound = nuclear(real.margin, rows)
    reached = float(np.quantile(rows.gaps(own), QUANTILE)) / head.nuclear
    farkas: tuple[tuple[int, int, int, float], ...] = ()
    if real.margin.farkas is not None:
        used = np.flatnonzero(real.margin.farkas)
        text, query, token = rows.query[used] // per, rows.query[used] % per, rows.minus[used] % per
        weight = real.margin.farkas[used]
        farkas = tuple(zip(text.tolist(), query.tolist(), token.tolist(), weight.tolist(), strict=True))
    return Selected(
        real.queries,
        real.rows,
        real.rank,
        real.vacuous,
        real.margin.status,
        real.margin.interval,
        farkas,
        real.chance,
        against,
        Against.of(real.margin.margin, drawn_margins) if margins else None,
        float((known > 0).mean()) if known.size else np.nan,
        None if bound is None else (bound["low"], bound["high"]),
        reached,
    )
