"""How close a head is to the max-margin direction of what it selects, through inner products alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hardmax.torch.probing.inputs import Floats, Ints
from hardmax.torch.probing.margins import Margin, margin_of, part, span_of
from hardmax.torch.probing.rows import Choices, Rows

QUANTILE = 0.1  # of row margins: the smallest one is noise


@dataclass(frozen=True, eq=False)
class Closeness:
    """A head beside the max margin of its selection.

    ``efficiency``: the 10 % quantile of the row margins over |Pi W|, over the max margin; ``cosine`` of Pi W
    and W_mm; ``agreement``: how often W_mm of one half of the texts picks the token of the other half's
    queries, beside ``chance``. Numbers are nan where they have no meaning.
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
    problem: Rows

    @property
    def vacuous(self) -> bool:
        """Separability is generic here: of independent queries, or of fewer rows than twice their rank.

        Where queries are independent, W z_i may be chosen one by one, so every selection of exposed keys is
        separable; that the keys are exposed is what the head itself shows.
        """
        return self.margin.status != "infeasible" and (self.independent or self.rows < 2 * self.rank)


def closeness(found: Choices, bilinear: Floats, rows: Rows) -> Closeness:
    """Measure a head with these bilinear logits on the rows of its selection."""
    gram = rows.gram()
    along = rows.gaps(bilinear)
    span = span_of(gram)
    best = margin_of(rows, gram, span)
    size = span.length(along)
    efficiency = cosine = np.nan
    if best.margin > 0 and size > 0:
        efficiency = float(np.quantile(along, QUANTILE)) / (size * best.margin)
        cosine = float(best.weights @ along) / (size * best.squared**0.5)
    agreement, chance = held_out(found, rows, gram)
    among = rows.inputs.query_gram[np.ix_(rows.queries, rows.queries)]
    independent = span_of(among).rank == len(rows.queries)
    counts = len(rows.queries), rows.count, span.rank
    return Closeness(*counts, independent, best, efficiency, cosine, agreement, chance, rows)


def held_out(found: Choices, rows: Rows, gram: Floats) -> tuple[float, float]:
    """W_mm of every other text, tried on the texts between, both ways; and what a blind guess would get."""
    per, odd = rows.inputs.length, np.arange(rows.inputs.texts) % 2 == 1
    right, asked, blind = 0, 0, 0.0
    for half in (odd, ~odd):
        chosen = half[rows.query // per]
        train, test = rows.of_texts(half), rows.queries[~half[rows.queries // per]]
        if not train.count or not len(test):
            continue
        best = margin_of(train, part(gram, np.flatnonzero(chosen)))
        if not best.margin > 0:
            continue
        picked, options = picks(train, best.weights, test)
        right += int((picked == found.top.ravel()[test]).sum())
        asked += len(test)
        blind += float((1.0 / options).sum())
    return (right / asked, blind / asked) if asked else (np.nan, np.nan)


def picks(train: Rows, weights: Floats, queries: Ints) -> tuple[Ints, Ints]:
    """The token (its place in the text) that sum_j weights_j row_j gives each query, and of how many."""
    inputs, per = train.inputs, train.inputs.length
    seen = inputs.visible.reshape(-1, per)[queries] & inputs.representative[queries // per]
    which, token = np.nonzero(seen)
    place = queries[which]
    used = weights != 0
    few = Rows(inputs, train.queries, train.query[used], train.plus[used], train.minus[used])
    values = weights[used] @ few.products(place, place // per * per + token, np.full(len(place), -1))
    logits = np.full(seen.shape, -np.inf)
    logits[which, token] = values
    return logits.argmax(axis=1), seen.sum(axis=1)


def nuclear(best: Margin, rows: Rows) -> dict[str, float] | None:
    """|W_mm| in the nuclear and spectral norm, and the interval for the max margin in the nuclear norm.

    W_mm (margin 1) shows a margin of 1/|W_mm|_*; its weights l bound every other by |sum l_j R_j|_2 / sum
    l_j, the dual norm. Singular values come from Gram matrices of queries and of what W_mm gathers for each.
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
