"""What `probe` says: how hard each head of a model is, and whether chance comes as close to max margin."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from hardmax._lib.arguments import check_arguments
from hardmax._lib.json import plain
from hardmax._lib.progress import Progress
from hardmax._lib.terminal import columns, fitted, shown
from hardmax.app.results.answer import Answer

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from hardmax.torch.probing.heads import Against, ProbedHead, Selected
    from hardmax.torch.probing.tables import Heads


def page(answer: Probed) -> str:
    """The template with the answer in it."""
    told = answer.json()
    heads = {(head.layer, head.head): head for head in answer.heads.heads}
    data: dict[str, Any] = {**told, "words": _words(answer)}
    for each in data["heads"]:
        head = heads[each["layer"], each["head"]]
        each["top"] = head.top.tolist()
        each["gaps"] = plain(np.round(head.gaps, 2).tolist())
    # "<" may not appear inside a script; the browser reads \u003c as the same character
    inside = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    lines = "".join(f"<p>{escape(line)}</p>" for line in answer.findings("inner" if answer.inner else "all"))
    template = resources.files("hardmax.app.results").joinpath("probe_page.html").read_text("utf-8")
    return template.replace("<!-- SENTENCES -->", lines).replace("/* DATA */", inside)


def _words(answer: Probed) -> list[list[str]]:
    """The tokens; those without words, such as patches of images, by their numbers."""
    found = []
    for s, words in enumerate(answer.heads.words):
        length = int(np.isfinite(answer.heads.heads[0].gaps[s]).sum()) + 1
        found.append(list(words) or [str(t) for t in range(length)])
    return found


SHOWN = 24  # heads in the table
LEVEL = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class Probed(Answer):
    """The heads of a model, hardest first, each beside random ones; ``shown`` of them are printed.

    >>> import numpy as np, hardmax as hm
    >>> hm.answers.Probed.schema
    'hardmax.probe/1'
    """

    schema: ClassVar[str] = "hardmax.probe/1"

    model: str
    heads: Heads
    shown: int = SHOWN
    inner: bool = False

    def fields(self) -> dict[str, Any]:
        """The fields of the JSON."""
        return {
            "seed": self.heads.seed,
            "model": self.model,
            "texts": self.heads.texts,
            "queries": self.heads.queries,
            "null": self.heads.null,
            "rotary": self.heads.rotary,
            "heads": [_head(each) for each in self.heads.ranked],
            "summary": {kind: self.heads.summary(kind) for kind in ("all", "inner")},
            "notes": self.heads.notes,
        }

    def table(self) -> RenderableType:
        """What `hardmax probe` prints."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        kind = "inner" if self.inner else "all"
        rows = Table(box=None, pad_edge=False, padding=(0, 1))
        rows.add_column("head", no_wrap=True)
        for name in ("gap", "top", "hard", "rows", "efficiency", "cosine", "held out"):
            rows.add_column(name, justify="right", no_wrap=True)
        rows.add_column("kind")
        for head in self.heads.ranked[: self.shown]:
            found = getattr(head, kind)
            cells = ["", "", "", ""] if found is None else _cells(found)
            rows.add_row(
                f"{head.layer}.{head.head}",
                _number(head.gap, 1),
                _number(head.mass, 2),
                f"{100 * head.hard_share:.0f}%" if head.measured else "",
                *cells,
                head.why or _kind(head),
            )
        told = Text("\n".join(["", *self._legend(kind), "", *self.findings(kind)]))
        return Group(rows, fitted(told, columns()))

    def _legend(self, kind: str) -> list[str]:
        heads = self.heads
        left = len(heads.heads) - min(self.shown, len(heads.heads))
        more = f"; {left} more heads with --show 0" if left else ""
        texts = "1 text" if heads.texts == 1 else f"{heads.texts} texts"
        also = " without first token and self" if kind == "inner" else ""
        return [
            f"{shown(self.model)}: {len(heads.heads)} heads, hardest first, on {texts}{more}",
            "gap: median in nats between the selected token and the next; top: mean weight of the selected; "
            "hard: queries with 2 nats or more; rows: of the "
            f"{heads.queries} hardest queries{also}, "
            "v where separability says nothing; after the slash the median of "
            f"{heads.null} random heads, * where the head is above them at a false discovery rate of {LEVEL}",
        ]

    def findings(self, kind: str = "all") -> list[str]:
        """What there is to say, a sentence each: every word about closeness is beside random heads."""
        heads, found = self.heads, self.heads.summary(kind)
        hard = sum(head.hard_share >= 0.5 for head in heads.heads if head.measured)
        lines = [f"{hard} of {len(heads.heads)} heads are hard for half of their queries or more"]
        for name, one in found.items():
            if one["heads"]:
                lines.append(
                    f"{_WORDS[name]}: {one['above']} of {one['heads']} heads above their random heads, "
                    f"{one['below']} below (false discovery rate {LEVEL}); median {one['median']:.2f}, of "
                    f"random heads {one['null_median']:.2f}{_correlation(one['spearman'])}"
                )
        pairs = [(head, getattr(head, kind)) for head in heads.heads]
        impossible = [head for head, found in pairs if found is not None and found.feasible is False]
        if impossible:
            lines.append(
                f"no head, of any rank, can select what {len(impossible)} heads select by position terms: "
                + ", ".join(f"{head.layer}.{head.head}" for head in impossible[:8])
            )
        return lines

    def page(self) -> str:
        """A page that needs nothing else: a map of layers and heads, the texts with what a head selects."""

        return page(self)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page."""
        from hardmax._lib.files import whole_text

        with whole_text(path) as file:
            file.write(self.page())

    def plot(self) -> Figure:
        """The map of layers and heads: the median gap, and the rank of the efficiency among random heads."""
        import numpy as np

        from hardmax._lib.notebook import picture

        layers = 1 + max(head.layer for head in self.heads.heads)
        width = 1 + max(head.head for head in self.heads.heads)
        maps = np.full((2, layers, width), np.nan)
        for head in self.heads.heads:
            found = head.inner if self.inner else head.all
            maps[0, head.layer, head.head] = head.gap
            if found is not None:
                maps[1, head.layer, head.head] = 1 - found.null["efficiency"].p
        figure = picture((7.0, 1.0 + 0.16 * layers))
        titles = ("median gap (nats)", None), ("efficiency: rank among random heads", 1.0)
        for k, (title, top) in enumerate(titles):
            axes = figure.add_subplot(1, 2, k + 1)
            drawn = axes.imshow(maps[k], aspect="auto", vmin=0.0, vmax=top, interpolation="nearest")
            axes.set(title=title, xlabel="head", ylabel="layer")
            figure.colorbar(drawn, ax=axes)
        return figure

    def _picture(self) -> Figure:
        return self.plot()


_WORDS = {"efficiency": "efficiency", "cosine": "cosine", "agreement": "held-out agreement"}


def _correlation(value: float) -> str:
    return "" if value != value else f"; Spearman of rank among them and hardness {value:.2f}"


def _number(value: float, digits: int) -> str:
    return "" if value != value else f"{value:.{digits}f}"


def _cells(found: Selected) -> list[str]:
    rows = f"{found.rows}{'v' if found.vacuous else ''}"
    if found.feasible is False:
        return [rows, "none can", "", ""]
    sides = [found.null[name] for name in ("efficiency", "cosine", "agreement")]
    marks = ["*" if each.q <= LEVEL else " " for each in sides]
    told = [f"{_number(each.value, 2)}/{_number(each.median, 2)}" for each in sides]
    return [rows, *(number + mark for number, mark in zip(told, marks, strict=True))]


def _kind(head: ProbedHead) -> str:
    return ", ".join(f"{kind} {head.kinds[kind]:.2f}" for kind in head.named)


def _head(head: ProbedHead) -> dict[str, Any]:
    return {
        "layer": head.layer,
        "head": head.head,
        "name": head.name,
        "gap": head.gap,
        "top_mass": head.mass,
        "entropy": head.entropy,
        "hard": head.hard,
        "measured": head.measured,
        "norms": head.norms,
        "named": head.named,
        "kinds": head.kinds,
        "status": head.why or "bilinear",
        "all": None if head.all is None else _selected(head.all),
        "inner": None if head.inner is None else _selected(head.inner),
    }


def _selected(found: Selected) -> dict[str, Any]:
    def beside(one: Against | None) -> dict[str, Any] | None:
        return None if one is None else asdict(one)

    return {
        "queries": found.queries,
        "rows": found.rows,
        "rank": found.rank,
        "vacuous": found.vacuous,
        "status": found.status,
        "margin_interval": found.margin_interval,
        "farkas": [
            dict(zip(("text", "query", "token", "weight"), each, strict=True)) for each in found.farkas
        ],
        **{name: beside(one) for name, one in found.null.items()},
        "blind": found.chance,
        "random_margin": beside(found.random),
        "separable": found.separable,
        "nuclear_margin_interval": found.nuclear_margin,
        "nuclear_margin": found.nuclear_reached,
    }


@check_arguments
def probe_file(
    model: str | os.PathLike[str],
    texts: str | os.PathLike[str] | list[str] | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> Probed:
    """Probe the heads of a model on disk: a folder of `transformers` with safetensors, or a GGUF file.

    Args:
        model: the folder or file.
        texts: a file with one text per line or a JSON list, or the texts; English sentences by default.
        progress: called as ``progress(done, total)`` with numbers of heads.
        options: those of `hm.torch.probe`.

    >>> import hardmax as hm
    >>> hm.answers.probe_file("no-such-model")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-model'
    """
    path = Path(model)
    if not path.exists():
        raise FileNotFoundError(2, "No such file or directory", str(path))
    try:
        from hardmax.torch.prober import probe
        from hardmax.torch.probing.loading import load, read_texts

        given = texts if texts is None or isinstance(texts, list) else read_texts(texts)
        loaded, tokenizer = load(path)
    except ModuleNotFoundError as missing:
        from hardmax._lib.extras import install

        raise ValueError(
            f"probe must have the extra 'probe' installed, got no {missing.name}: {install('probe')}"
        ) from missing
    if tokenizer is None:
        raise ValueError(
            f"{path} must hold a tokenizer, as tokenizer.json, got none; put the model's own beside it"
        )
    return Probed(str(path), probe(loaded, given, tokenizer, progress=progress, **options))
