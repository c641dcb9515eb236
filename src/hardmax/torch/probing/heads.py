"""Measurements on heads: hardness, closeness to the max margin compared with chance, kind; and their table.

Chance is a head rotated at random, W O with O a rotation of the whitened query space: its queries have the
mean and the covariance of the head's, and its keys are the head's, but queries and keys are unrelated. The
mean stays, so that a head that sends all queries to one token is compared with others that do so.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from hardmax._lib.notebook import table
from hardmax.margin.engines import Span, part, pivoted, seen_by, span_of
from hardmax.margin.measure import measure
from hardmax.margin.solve import EXACT_ROWS, proves, solve
from hardmax.torch.probing.inputs import (
    HARD,
    QUERIES,
    Bools,
    Choices,
    Floats,
    HeadWeights,
    Inputs,
    Ints,
    QueryRows,
    choices,
    hard_queries,
    rows_of,
    softmax,
)

NARROW = 1e-6  # intervals this narrow need no second opinion
WRITTEN_OUT = 2 * 10**7  # numbers of rows that the exact solver writes out


@dataclass(frozen=True, eq=False)
class Margin:
    """W_mm as weights of rows, scaled to margin 1, with an interval for the margin.

    ``status`` is "certified", "infeasible" (``farkas`` are weights of rows that cancel: no W of any rank) or
    "undecided".
    """

    status: str
    weights: Floats
    interval: tuple[float, float]
    farkas: Floats | None = None

    @property
    def margin(self) -> float:
        """The middle of the interval: 0 if no W separates, nan if nothing is known."""
        low, high = self.interval
        return (low + high) / 2 if high < np.inf else np.nan

    @property
    def squared(self) -> float:
        """|W_mm|^2, which is the sum of its weights."""
        return float(self.weights.sum())


def by_gram(gram: Floats, span: Span | None = None) -> Margin:
    """Compute the max margin of rows by their Gram matrix."""
    weights = pivoted(gram, span)
    assert weights is not None, "its steps always end"
    return _measured(gram, weights)


def _measured(gram: Floats, weights: Floats) -> Margin:
    """Bound the margin by weights, including rounding of the Gram matrix."""
    if not weights.any():
        return Margin("undecided", weights, (0.0, np.inf))
    along, norm, lengths, terms = seen_by(gram, weights, np.sqrt(np.diag(gram)))
    none, ones = np.zeros(len(gram), dtype=bool), np.ones(len(gram))
    bounds = measure(along, ones, none, weights, lengths, norm, norm, 0.0, terms)
    ends = float(bounds.lower), float(bounds.upper)
    return Margin("certified" if proves(bounds) else "undecided", weights, ends)


def margin_of(rows: QueryRows, gram: Floats, span: Span | None = None) -> Margin:
    """Compute the max margin of rows by pivoting, or by the exact solver on the rows that matter."""
    first = by_gram(gram, span)
    low, high = first.interval
    matter = np.flatnonzero(first.weights > 1e-9 * first.weights.max(initial=0.0))
    if not len(matter) and rows.count <= EXACT_ROWS:
        matter = np.arange(rows.count)
    size = len(matter) * rows.inputs.x.shape[2] * rows.inputs.z.shape[2]
    narrow = low >= (1 - NARROW) * high > 0
    if narrow or rows.inputs.angles is not None or not 0 < len(matter) <= EXACT_ROWS or size > WRITTEN_OUT:
        return first
    best = solve(rows.constraints().subset(matter))
    weights = np.zeros(rows.count)
    if best.status == "infeasible":
        assert best.farkas is not None
        weights[matter] = best.farkas
        return Margin("infeasible", np.zeros(rows.count), (0.0, 0.0), weights)
    if best.multipliers is None or not best.is_certified:
        return first
    weights[matter] = best.multipliers
    better = _measured(gram, weights)
    return better if better.interval[0] / better.interval[1] > (low / high if high > 0 else 0.0) else first


def rotated(head: HeadWeights, rng: np.random.Generator, count: int) -> Iterator[Floats]:
    """Yield queries (S, T, h) of ``count`` rotated heads.

    With Z = 1 mean' + U B (U orthonormal) the rotation R turns U B W_Q' into U R B W_Q'. Only the image of
    B W_Q' under R matters, so a random frame of that many columns is drawn, not a whole rotation.
    """
    inputs = head.inputs
    mean, U, B, there = inputs.whitened
    middle = mean @ head.query_factor.T
    frame, triangle = np.linalg.qr(B @ head.query_factor.T)
    for _ in range(count):
        turned, signs = np.linalg.qr(rng.standard_normal(frame.shape))
        turned *= np.sign(np.diag(signs))  # else QR does not draw evenly
        queries = np.zeros((*there.shape, triangle.shape[1]))
        queries[there] = middle + U @ (turned @ triangle)
        yield queries


def random_tokens(inputs: Inputs, queries: Ints, rng: np.random.Generator) -> Ints:
    """Draw one of the tokens that each query can see, with equal probability; twins are one token."""
    per = inputs.length
    visible = inputs.visible.reshape(-1, per)[queries] & inputs.representative[queries // per]
    return np.where(visible, rng.random(visible.shape), -1.0).argmax(axis=1)


def rank_p(value: float, null: Floats) -> float:
    """Return the share of random values that are at least as large, this one counted: at least 1/(n + 1)."""
    finite = null[~np.isnan(null)]
    if np.isnan(value) or not finite.size:
        return np.nan
    return float((1 + (finite >= value).sum()) / (1 + finite.size))


def benjamini_hochberg(p: Floats) -> Floats:
    """Return the smallest false discovery rate at which each p is a discovery; nan does not count."""
    q = np.full(len(p), np.nan)
    finite = np.flatnonzero(~np.isnan(p))
    order = finite[np.argsort(-p[finite], kind="stable")]
    ranks = np.arange(len(order), 0, -1)
    q[order] = np.minimum.accumulate(np.minimum(p[order] * len(order) / ranks, 1.0))
    return q


LEAST = 0.5  # mean weight from which a head has the name
KINDS = {
    "first": "the first token (a sink)",
    "last": "the last token",
    "previous": "the token before",
    "next": "the token after",
    "same": "the same token, itself or an equal one",
    "induction": "what followed the same token before",
}


def scores(weights: Floats, visible: Bools, ids: Ints | None = None) -> dict[str, float]:
    """Compute mean weights of the first, last, previous, next and same token, over queries with a choice.

    A kind counts where it is distinct: the token before is not the first, and none of them is the
    query itself. Kinds that the mask does not allow are left out.
    """
    asks = visible.sum(axis=2) > 1
    place = np.arange(weights.shape[1])
    query, token = place[:, None], place[None, :]
    last = np.where(visible.any(axis=1), place, -1).max(axis=1)[:, None, None]
    where = {
        "first": (token == 0) & (query > 0),
        "last": (token == last) & (query < last),
        "previous": (token == query - 1) & (query > 1),
        "next": (token == query + 1) & (query + 1 < last),
        "same": (token == query) | (False if ids is None else ids[:, :, None] == ids[:, None, :]),
    }
    means = {}
    for name, spots in where.items():
        spots = spots & visible
        counted = spots.any(axis=2) & asks
        if counted.any():
            means[name] = float((weights * spots).sum(axis=2)[counted].mean())
    return means


def induction(weights: Floats, visible: Bools, period: Ints) -> float:
    """Compute the weight on the token that followed a token before, in texts of period ``period[s]``."""
    total, count = 0.0, 0
    for s, step in enumerate(period):
        length = int(visible[s].any(axis=1).sum())
        here = np.arange(int(step) + 1, length)  # the first token of the copy is left out: it may be a marker
        there = here - int(step) + 1
        allowed = visible[s][here, there] & (there < here)
        total += float(weights[s][here, there][allowed].sum())
        count += int(allowed.sum())
    return total / count if count else np.nan


def main_kinds(kinds: dict[str, float]) -> tuple[str, ...]:
    """Return the kinds with half of the weight or more, largest first: a head may be of several kinds."""
    return tuple(sorted((kind for kind in kinds if kinds[kind] >= LEAST), key=lambda kind: -kinds[kind]))


QUANTILE = 0.1  # of row margins: the smallest one is noise


@dataclass(frozen=True, eq=False)
class Closeness:
    """A head compared with the max margin of its selection.

    ``efficiency``: the 10 % quantile of the row margins over |Pi W|, over the max margin; ``cosine`` of Pi W
    and W_mm; ``agreement``: how often W_mm of one half of the texts picks the token of the other half's
    queries, next to ``chance``. Numbers are nan where they have no meaning.
    """

    queries: int
    rows: int
    rank: int
    independent: bool  # the queries are
    margin: Margin
    efficiency: float
    cosine: float
    agreement: float
    chance: float
    problem: QueryRows

    @property
    def vacuous(self) -> bool:
        """Separability is generic here: of independent queries, or of fewer rows than twice their rank.

        Where queries are independent, W z_i may be chosen one by one, so every selection of exposed keys is
        separable; the head itself shows that the keys are exposed.
        """
        return self.margin.status != "infeasible" and (self.independent or self.rows < 2 * self.rank)


def closeness(inputs: Inputs, choice: Choices, bilinear: Floats, queries: Ints) -> Closeness:
    """Measure a head with these bilinear logits on the rows of its choice for some queries."""
    rows = rows_of(inputs, queries, choice.top.ravel()[queries])
    gram = rows.gram()
    along = rows.gaps(bilinear)
    span = span_of(gram)
    best = margin_of(rows, gram, span)
    size = span.length(along)
    efficiency = cosine = np.nan
    if best.margin > 0 and size > 0:
        efficiency = float(np.quantile(along, QUANTILE)) / (size * best.margin)
        cosine = float(best.weights @ along) / (size * best.squared**0.5)
    agreement, chance = held_out(choice, rows, gram)
    independent = span_of(inputs.query_gram[np.ix_(queries, queries)]).rank == len(queries)
    counts = len(queries), rows.count, span.rank
    return Closeness(*counts, independent, best, efficiency, cosine, agreement, chance, rows)


def held_out(choice: Choices, rows: QueryRows, gram: Floats) -> tuple[float, float]:
    """Test W_mm of half of the texts on the other half, both ways; return its accuracy and that of chance."""
    per, odd = rows.inputs.length, np.arange(rows.inputs.texts) % 2 == 1
    right, count, blind = 0, 0, 0.0
    for half in (odd, ~odd):
        chosen = half[rows.query // per]
        train, test = rows.of_texts(half), rows.queries[~half[rows.queries // per]]
        if not train.count or not len(test):
            continue
        best = margin_of(train, part(gram, np.flatnonzero(chosen)))
        if not best.margin > 0:
            continue
        picked, options = picks(train, best.weights, test)
        right += int((picked == choice.top.ravel()[test]).sum())
        count += len(test)
        blind += float((1.0 / options).sum())
    return (right / count, blind / count) if count else (np.nan, np.nan)


def picks(train: QueryRows, weights: Floats, queries: Ints) -> tuple[Ints, Ints]:
    """Return the token that sum_j weights_j row_j selects for each query, and the number of choices."""
    inputs, per = train.inputs, train.inputs.length
    visible = inputs.visible.reshape(-1, per)[queries] & inputs.representative[queries // per]
    which, token = np.nonzero(visible)
    place = queries[which]
    used = weights != 0
    few = QueryRows(inputs, train.queries, train.query[used], train.plus[used], train.minus[used])
    values = weights[used] @ few.products(place, place // per * per + token, np.full(len(place), -1))
    logits = np.full(visible.shape, -np.inf)
    logits[which, token] = values
    return logits.argmax(axis=1), visible.sum(axis=1)


def nuclear(best: Margin, rows: QueryRows) -> dict[str, float] | None:
    """Compute |W_mm| in the nuclear norm, and an interval for the max margin in that norm.

    W_mm (margin 1) shows a margin of 1/|W_mm|_*; its weights l bound every other by |sum l_j R_j|_2 / sum
    l_j, the dual norm. Singular values come from Gram matrices of queries and of their gathered keys.
    """
    if not best.margin > 0 or rows.inputs.angles is not None:
        return None
    used = np.unique(rows.query)
    where = np.searchsorted(used, rows.query)
    gathered = np.zeros((len(used), len(rows.inputs.token_gram)))
    np.add.at(gathered, (where, rows.plus), best.weights)
    np.add.at(gathered, (where, rows.minus), -best.weights)
    left = gathered @ rows.inputs.token_gram @ gathered.T
    values, vectors = np.linalg.eigh(rows.inputs.query_gram[np.ix_(used, used)])
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    singular = np.sqrt(np.maximum(np.linalg.eigvalsh(root.T @ left @ root), 0.0))
    return {
        "nuclear": float(singular.sum()),
        "low": 1.0 / float(singular.sum()),
        "high": float(singular[-1]) / best.squared,
    }


NULL = 99  # rotated heads
FEWEST = 4  # hard queries that a margin needs
STATISTICS = ("efficiency", "cosine", "agreement")


@dataclass(frozen=True)
class Against:
    """A number and that of random heads: their median, 5 and 95 %, the rank p-values and q over all heads.

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
        """Compare a value with those of random heads, nan left out."""
        finite = null[~np.isnan(null)]
        low, median, high = np.quantile(finite, [0.05, 0.5, 0.95]) if finite.size else (np.nan,) * 3
        ends = float(low), float(high)
        return Against(value, float(median), *ends, rank_p(value, null), rank_p(-value, -null))


@dataclass(frozen=True, eq=False)
class Selected:
    """The max-margin problem of a head's hard queries, and chance.

    ``null`` has efficiency, cosine and agreement; ``random`` the margin next to those of random selections of
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
    nuclear_reached: float  # the margin of the head, by its quantile

    @property
    def feasible(self) -> bool | None:
        """False: no W of any rank selects these tokens."""
        return {"certified": True, "infeasible": False}.get(self.status)


@dataclass(frozen=True, eq=False)
class ProbedHead:
    """Measurements on one head.

    ``all`` is its max-margin problem, ``inner`` that without the first token and the query's own, to which
    many heads give all they do not need; None where too few queries are hard. ``gap`` is the median and
    ``mass`` and ``entropy`` are means over all queries.

    >>> import torch, hardmax as hm
    >>> from hardmax.torch.prober import probe
    >>> layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    >>> head = probe(layer, torch.randn(6, 5, 8), null=19).ranked[0]
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
        return main_kinds(self.kinds)

    @property
    def hard_share(self) -> float:
        """The share of queries that are hard."""
        return self.hard / self.measured if self.measured else np.nan


@dataclass(frozen=True)
class ProbeSettings:
    """Number of hardest queries, number of random heads, and the seed."""

    queries: int = QUERIES
    null: int = NULL
    seed: int = 0


def probe_head(
    head: HeadWeights,
    settings: ProbeSettings,
    place: tuple[int, int],
    name: str = "",
    ids: Ints | None = None,
    repeated: tuple[Floats, Bools, Ints] | None = None,
) -> ProbedHead:
    """Measure one head; ``repeated`` are logits, mask and periods of repeated texts."""
    inputs = head.inputs
    choice = choices(inputs, head.logits)
    measured = choice.measured
    kinds = scores(choice.weights, inputs.visible, ids)
    if repeated is not None:
        logits, visible, period = repeated
        kinds["induction"] = induction(softmax(logits), visible, period)
    hard = hard_queries(choice, None, HARD)
    selected: dict[str, Selected | None] = {"all": None, "inner": None}
    if not head.why and measured.any():
        selected = probe_selection(head, settings, place)
    count = int(measured.sum())
    return ProbedHead(
        *place,
        name,
        float(np.median(choice.gap[measured])) if count else np.nan,
        float(choice.mass[measured].mean()) if count else np.nan,
        float(choice.entropy[measured].mean()) if count else np.nan,
        len(hard),
        count,
        head.norms,
        kinds,
        head.why,
        selected["all"],
        selected["inner"],
        choice.top,
        choice.gap,
    )


def probe_selection(
    head: HeadWeights, settings: ProbeSettings, place: tuple[int, int]
) -> dict[str, Selected | None]:
    """Compare the problems with and without first token and self with the same rotated heads."""
    inputs = head.inputs
    logits = head.bilinear(inputs.z @ head.query_factor.T)
    views = {"all": head, "inner": head.inner}
    real: dict[str, Closeness] = {}
    for kind, view in views.items():
        choice = choices(view.inputs, view.logits)
        queries = hard_queries(choice, settings.queries, HARD)
        if len(queries) >= FEWEST:
            real[kind] = closeness(view.inputs, choice, logits, queries)
    null: dict[str, list[Closeness]] = {kind: [] for kind in real}
    rng = np.random.default_rng([settings.seed, *place])
    for random_queries in rotated(head, rng, settings.null if real else 0):
        bilinear = head.bilinear(random_queries)
        for kind, reference in real.items():
            view = views[kind]
            choice = choices(view.inputs, view.masked(bilinear))
            queries = hard_queries(choice, reference.queries, 0.0)
            if len(queries) >= FEWEST:
                null[kind].append(closeness(view.inputs, choice, bilinear, queries))
    selected = {kind: _selected(views[kind], real[kind], null[kind], logits, rng, settings) for kind in real}
    return {kind: selected.get(kind) for kind in views}


def _selected(
    head: HeadWeights,
    real: Closeness,
    null: list[Closeness],
    logits: Floats,
    rng: np.random.Generator,
    settings: ProbeSettings,
) -> Selected:
    rows, per = real.problem, head.inputs.length
    against = {
        name: Against.of(getattr(real, name), np.array([getattr(one, name) for one in null]))
        for name in STATISTICS
    }
    tokens = (random_tokens(head.inputs, rows.queries, rng) for _ in range(settings.null // 5))
    draws = (rows_of(head.inputs, rows.queries, selected) for selected in tokens)
    margins = np.array([margin_of(draw, draw.gram()).margin for draw in draws])
    finite = margins[~np.isnan(margins)]
    bound = nuclear(real.margin, rows)
    reached = float(np.quantile(rows.gaps(logits), QUANTILE)) / head.nuclear
    cancel = np.zeros(0) if real.margin.farkas is None else real.margin.farkas
    used = np.flatnonzero(cancel)
    columns = (rows.query[used] // per, rows.query[used] % per, rows.minus[used] % per, cancel[used])
    farkas = tuple(zip(*(column.tolist() for column in columns), strict=True))
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
        Against.of(real.margin.margin, margins) if margins.size else None,
        float((finite > 0).mean()) if finite.size else np.nan,
        None if bound is None else (bound["low"], bound["high"]),
        reached,
    )


SELECTIONS = ("all", "inner")
LEVEL = 0.05  # of p and of the false discovery rate


@dataclass(frozen=True, eq=False)
class Heads:
    """The heads that `hm.probe` measured, in the order of the model, and the tokens of each text.

    ``ranked`` has the hardest first; `table` a row per head.

    >>> import torch, hardmax as hm
    >>> from hardmax.torch.prober import probe
    >>> model = torch.nn.MultiheadAttention(8, 2, batch_first=True)
    >>> class Self(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.attention = model
    ...     def forward(self, x):
    ...         return self.attention(x, x, x)
    >>> probe(Self(), torch.randn(6, 5, 8), null=19)
    Heads(2 heads on 6 texts, 19 random heads each, seed 0)
    """

    heads: tuple[ProbedHead, ...]
    words: Sequence[Sequence[str]]
    queries: int
    null: int
    seed: int
    rotary: str

    @property
    def texts(self) -> int:
        """Number of texts."""
        return len(self.words)

    @property
    def notes(self) -> list[str]:
        """Warnings about the settings."""
        return null_notes(self.null)

    @property
    def ranked(self) -> tuple[ProbedHead, ...]:
        """The heads with the largest median gap first."""
        return tuple(sorted(self.heads, key=lambda head: -np.nan_to_num(head.gap, nan=-1.0)))

    def table(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per head, hardest first, for pandas."""
        return [_row(head) for head in self.ranked]

    def summary(self, kind: str = "all", level: float = LEVEL) -> dict[str, dict[str, Any]]:
        """Summarize each statistic over the heads.

        A summary has the number of heads with the statistic, how many are above and below their random heads,
        the medians, and Spearman's correlation of the median gap with the rank among the random heads. Above
        and below are counted at the level, by false discovery rate and by plain p.
        """
        statistics = {}
        for name in STATISTICS:
            pairs = [(head.gap, getattr(head, kind)) for head in self.heads]
            pairs = [(gap, one.null[name]) for gap, one in pairs if one and not np.isnan(one.null[name].p)]
            gaps = np.array([gap for gap, _ in pairs])
            p, p_low = (np.array([getattr(against, side) for _, against in pairs]) for side in ("p", "p_low"))
            statistics[name] = {
                "heads": len(pairs),
                "above": sum(against.q <= level for _, against in pairs),
                "below": int((benjamini_hochberg(p_low) <= level).sum()),
                "p_above": int((p <= level).sum()),
                "p_below": int((p_low <= level).sum()),
                "median": _median([against.value for _, against in pairs]),
                "null_median": _median([against.median for _, against in pairs]),
                "spearman": _spearman(gaps, -p),
            }
        return statistics

    def __repr__(self) -> str:
        chance = f"{self.null} random heads each, seed {self.seed}"
        return f"Heads({len(self.heads)} heads on {self.texts} texts, {chance})"

    def _repr_html_(self) -> str:
        names = ["layer", "head", "gap", "top_mass", "hard", "kind"]
        names += [f"{statistic}{end}" for statistic in STATISTICS for end in ("", "_null", "_q")]
        return table(repr(self), names, [[row[name] for name in names] for row in self.table()])


def null_notes(null: int) -> list[str]:
    """Return a warning if the rank among ``null`` random heads cannot reach the level of the summary."""
    fewest = round(1 / LEVEL) - 1
    if null >= fewest:
        return []
    heads = "1 random head" if null == 1 else f"{null} random heads"
    return [
        f"{heads} cannot reach p = {LEVEL}: the least p is 1/{null + 1}; "
        f"set null to {fewest} or more ({NULL} by default)"
    ]


def _row(head: ProbedHead) -> dict[str, Any]:
    row: dict[str, Any] = {
        "layer": head.layer,
        "head": head.head,
        "gap": head.gap,
        "top_mass": head.mass,
        "entropy": head.entropy,
        "hard": head.hard_share,
        "kind": ", ".join(head.named),
        **{f"{name}_norm": value for name, value in head.norms.items()},
        "note": head.why,
    }
    for kind in SELECTIONS:
        selected: Selected | None = getattr(head, kind)
        lead = "" if kind == "all" else "inner_"
        for name in ("queries", "rows", "rank"):
            row[lead + name] = 0 if selected is None else getattr(selected, name)
        row[f"{lead}margin"] = np.nan if selected is None else sum(selected.margin_interval) / 2
        row[f"{lead}vacuous"] = None if selected is None else selected.vacuous
        for statistic in STATISTICS:
            against = None if selected is None else selected.null[statistic]
            for ending, name in (("", "value"), ("_null", "median"), ("_p", "p"), ("_q", "q")):
                row[f"{lead}{statistic}{ending}"] = np.nan if against is None else getattr(against, name)
    return row


def corrected(heads: Iterable[ProbedHead]) -> tuple[ProbedHead, ...]:
    """Add Benjamini and Hochberg's q of every statistic, over all heads, to the heads."""
    result = list(heads)
    for kind in SELECTIONS:
        for statistic in STATISTICS:
            selections = [getattr(head, kind) for head in result]
            p = np.array([np.nan if one is None else one.null[statistic].p for one in selections])
            for n, q in enumerate(benjamini_hochberg(p)):
                if selections[n] is not None:
                    null = dict(selections[n].null)
                    null[statistic] = replace(null[statistic], q=float(q))
                    result[n] = replace(result[n], **{kind: replace(selections[n], null=null)})
    return tuple(result)


def _median(values: list[float]) -> float:
    return float(np.median(values)) if values else np.nan


def _spearman(a: Any, b: Any) -> float:
    """The correlation of ranks, ties sharing theirs; nan of fewer than three, or where all are equal."""
    if len(a) < 3:
        return np.nan
    from scipy.stats import rankdata

    ranks = [rankdata(a), rankdata(b)]
    if min(map(np.ptp, ranks)) == 0:
        return np.nan
    return float(np.asarray(np.corrcoef(np.stack(ranks)))[0, 1])
