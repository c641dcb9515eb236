"""All heads of a model: sorted by hardness, with rates of false discoveries, and as a tidy table."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hardmax._lib.notebook import table
from hardmax.torch.probing.heads import NULL, STATISTICS, ProbedHead, Selected, benjamini_hochberg

KINDS = ("all", "inner")
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
    for kind in KINDS:
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
    for kind in KINDS:
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
