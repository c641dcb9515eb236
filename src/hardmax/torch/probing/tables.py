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
        """How many texts were looked at."""
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
        """One flat dictionary per head, hardest first: what pandas makes a table of."""
        return [_row(head) for head in self.ranked]

    def summary(self, kind: str = "all", level: float = LEVEL) -> dict[str, dict[str, Any]]:
        """Of each statistic: how many heads have it, how many are above and below their random heads, the
        medians, and Spearman's correlation of the median gap with the rank among them.

        Above and below are counted at the level, by false discovery rate and by plain p.
        """
        found = {}
        for each in STATISTICS:
            pairs = [(head.gap, getattr(head, kind)) for head in self.heads]
            told = [(gap, one.null[each]) for gap, one in pairs if one is not None]
            known = [(gap, beside) for gap, beside in told if not np.isnan(beside.p)]
            gaps = np.array([gap for gap, _ in known])
            p, p_low = (np.array([getattr(beside, side) for _, beside in known]) for side in ("p", "p_low"))
            found[each] = {
                "heads": len(known),
                "above": sum(beside.q <= level for _, beside in known),
                "below": int((benjamini_hochberg(p_low) <= level).sum()),
                "p_above": int((p <= level).sum()),
                "p_below": int((p_low <= level).sum()),
                "median": float(np.median([beside.value for _, beside in known])) if known else np.nan,
                "null_median": float(np.median([beside.median for _, beside in known])) if known else np.nan,
                "spearman": _spearman(gaps, -p),
            }
        return found

    def __repr__(self) -> str:
        beside = f"{self.null} random heads each, seed {self.seed}"
        return f"Heads({len(self.heads)} heads on {self.texts} texts, {beside})"

    def _repr_html_(self) -> str:
        names = ["layer", "head", "gap", "top_mass", "hard", "kind"]
        names += [f"{each}{end}" for each in STATISTICS for end in ("", "_null", "_q")]
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
        found: Selected | None = getattr(head, kind)
        lead = "" if kind == "all" else "inner_"
        row[f"{lead}queries"] = 0 if found is None else found.queries
        row[f"{lead}rows"] = 0 if found is None else found.rows
        row[f"{lead}rank"] = 0 if found is None else found.rank
        row[f"{lead}margin"] = np.nan if found is None else sum(found.margin_interval) / 2
        row[f"{lead}vacuous"] = None if found is None else found.vacuous
        for each in STATISTICS:
            beside = None if found is None else found.null[each]
            row[f"{lead}{each}"] = np.nan if beside is None else beside.value
            row[f"{lead}{each}_null"] = np.nan if beside is None else beside.median
            row[f"{lead}{each}_p"] = np.nan if beside is None else beside.p
            row[f"{lead}{each}_q"] = np.nan if beside is None else beside.q
    return row


def corrected(heads: Iterable[ProbedHead]) -> tuple[ProbedHead, ...]:
    """The same heads with Benjamini and Hochberg's q of every statistic, over all of them."""
    made = list(heads)
    for kind in KINDS:
        for each in STATISTICS:
            found = [getattr(head, kind) for head in made]
            p = np.array([np.nan if one is None else one.null[each].p for one in found])
            for n, q in enumerate(benjamini_hochberg(p)):
                if found[n] is not None:
                    beside = {**found[n].null, each: replace(found[n].null[each], q=float(q))}
                    made[n] = replace(made[n], **{kind: replace(found[n], null=beside)})
    return tuple(made)


def _spearman(a: Any, b: Any) -> float:
    """The correlation of ranks, ties sharing theirs; nan of fewer than three, or where all are equal."""
    if len(a) < 3:
        return np.nan
    ranks = []
    for values in (a, b):
        _, place, count = np.unique(values, return_inverse=True, return_counts=True)
        ranks.append((np.cumsum(count) - (count - 1) / 2)[place])
    if min(np.ptp(each) for each in ranks) == 0:
        return np.nan
    return float(np.asarray(np.corrcoef(np.stack(ranks)))[0, 1])
