"""`probe`: how sharp each attention head is, and how close to max margin compared with random heads."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax._lib.arguments import check_arguments
from hardmax._lib.extras import install
from hardmax._lib.files import whole_text
from hardmax._lib.json import attributes, plain
from hardmax._lib.notebook import picture
from hardmax._lib.result import Result
from hardmax._lib.terminal import Page, grid, shown
from hardmax.app.results.session import session, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from hardmax.torch.probing.heads import Heads, ProbedHead, Selected


SHOWN = 24  # heads in the table
LEVEL = 0.05


@dataclass(frozen=True, eq=False, repr=False)
class ProbeResult(Result):
    """The heads of a model, hardest first, each compared with random ones; ``shown`` of them are printed."""

    schema: ClassVar[str] = "hardmax.probe/1"

    model: str
    heads: Heads
    shown: int = SHOWN
    inner: bool = False

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {
            **attributes(self.heads, "seed", "texts", "queries", "null", "rotary", "notes"),
            "model": self.model,
            "heads": [*map(_head, self.heads.ranked)],
            "summary": {kind: self.heads.summary(kind) for kind in ("all", "inner")},
        }

    def table(self) -> Page:
        """Return what `hardmax probe` prints."""
        kind = "inner" if self.inner else "all"
        numbers = ("gap", "top", "hard", "constraints", "efficiency", "cosine", "held out")
        rows = []
        for head in self.heads.ranked[: self.shown]:
            problem = getattr(head, kind)
            cells = ["", "", "", ""] if problem is None else _cells(problem)
            hard = f"{100 * head.hard_share:.0f}%" if head.measured else ""
            numbers_of_head = (_number(head.gap, 1), _number(head.mass, 2), hard)
            kinds = ", ".join(f"{name} {head.kinds[name]:.2f}" for name in head.named)
            rows.append((f"{head.layer}.{head.head}", *numbers_of_head, *cells, head.why or kinds))
        heads = grid(("head", *numbers, "kind"), rows, numbers=numbers)
        return [heads, "", *self._legend(kind), "", *self.findings(kind)]

    def _legend(self, kind: str) -> list[str]:
        heads = self.heads
        count = len(heads.heads) - min(self.shown, len(heads.heads))
        more = f"; {count} more heads are in the JSON" if count else ""
        texts = "1 text" if heads.texts == 1 else f"{heads.texts} texts"
        also = " without first token and self" if kind == "inner" else ""
        return [
            f"{shown(self.model)}: {len(heads.heads)} heads, hardest first, on {texts}{more}",
            "gap: median in nats between the selected token and the next; top: mean weight of the selected; "
            "hard: queries with 2 nats or more; constraints: of the "
            f"{heads.queries} hardest queries{also}, "
            "v where separability says nothing; after the slash the median of "
            f"{heads.null} random heads, * where the head is above them at a false discovery rate of {LEVEL}",
        ]

    def findings(self, kind: str = "all") -> list[str]:
        """Return the findings, a sentence each; all closeness is relative to random heads."""
        heads = self.heads
        hard = sum(head.hard_share >= 0.5 for head in heads.heads if head.measured)
        lines = [f"{hard} of {len(heads.heads)} heads are hard for half of their queries or more"]
        for name, row in heads.summary(kind).items():
            if row["heads"]:
                value = row["spearman"]
                rank = f"; Spearman of rank among them and hardness {value:.2f}" if value == value else ""
                label = "held-out agreement" if name == "agreement" else name
                lines.append(
                    f"{label}: {row['above']} of {row['heads']} heads above "
                    f"their random heads, {row['below']} below (false discovery rate {LEVEL}); median "
                    f"{row['median']:.2f}, of random heads {row['null_median']:.2f}{rank}"
                )
        pairs = [(head, getattr(head, kind)) for head in heads.heads]
        impossible = [head for head, problem in pairs if problem is not None and problem.feasible is False]
        if impossible:
            lines.append(
                f"no head, of any rank, can select what {len(impossible)} heads select by position terms: "
                + ", ".join(f"{head.layer}.{head.head}" for head in impossible[:8])
            )
        return lines

    def page(self) -> str:
        """Return a self-contained page: a map of layers and heads, and the texts with the selected tokens."""
        import numpy as np

        heads = {(head.layer, head.head): head for head in self.heads.heads}
        words = []  # tokens without words, such as patches of images, have their numbers instead
        for s, tokens in enumerate(self.heads.words):
            length = int(np.isfinite(self.heads.heads[0].gaps[s]).sum()) + 1
            words.append(list(tokens) or [str(t) for t in range(length)])
        data: dict[str, Any] = {**self.json(), "words": words}
        for row in data["heads"]:
            head = heads[row["layer"], row["head"]]
            row["top"] = head.top.tolist()
            row["gaps"] = plain(np.round(head.gaps, 2).tolist())
        # "<" may not appear inside a script; the browser reads \u003c as the same character
        inside = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
        lines = "".join(f"<p>{escape(line)}</p>" for line in self.findings("inner" if self.inner else "all"))
        template = resources.files("hardmax.app.results").joinpath("probe_page.html").read_text("utf-8")
        return template.replace("<!-- SENTENCES -->", lines).replace("/* DATA */", inside)

    @property
    def headline(self) -> str:
        """The model, and how many of its heads are sharp."""
        return f"{shown(self.model)}: {self.findings('inner' if self.inner else 'all')[0]}"

    def records(self) -> list[dict[str, Any]]:
        """Return a row per head."""
        return [
            {name: value for name, value in _head(head).items() if not isinstance(value, dict | list | tuple)}
            for head in self.heads.ranked
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page."""
        with whole_text(path) as file:
            file.write(self.page())

    def plot(self) -> Figure:
        """Draw the map of layers and heads: the median gap, and the rank of efficiency among random heads."""
        import numpy as np

        layers = 1 + max(head.layer for head in self.heads.heads)
        width = 1 + max(head.head for head in self.heads.heads)
        maps = np.full((2, layers, width), np.nan)
        for head in self.heads.heads:
            problem = head.inner if self.inner else head.all
            maps[0, head.layer, head.head] = head.gap
            if problem is not None:
                maps[1, head.layer, head.head] = 1 - problem.null["efficiency"].p
        figure = picture((7.0, 1.0 + 0.16 * layers))
        titles = ("median gap (nats)", None), ("efficiency: rank among random heads", 1.0)
        for k, (title, top) in enumerate(titles):
            axes = figure.add_subplot(1, 2, k + 1)
            image = axes.imshow(maps[k], aspect="auto", vmin=0.0, vmax=top, interpolation="nearest")
            axes.set(title=title, xlabel="head", ylabel="layer")
            figure.colorbar(image, ax=axes)
        return figure

    def _picture(self) -> Figure:
        return self.plot()


def _number(value: float, digits: int) -> str:
    return "" if value != value else f"{value:.{digits}f}"


def _cells(problem: Selected) -> list[str]:
    count = f"{problem.rows}{'v' if problem.vacuous else ''}"
    if problem.feasible is False:
        return [count, "none can", "", ""]
    cells = [count]
    for name in ("efficiency", "cosine", "agreement"):
        against = problem.null[name]
        mark = "*" if against.q <= LEVEL else " "
        cells.append(f"{_number(against.value, 2)}/{_number(against.median, 2)}{mark}")
    return cells


def _head(head: ProbedHead) -> dict[str, Any]:
    names = ("layer", "head", "name", "gap", "entropy", "hard", "measured", "norms", "named", "kinds")
    return {
        **attributes(head, *names),
        "top_mass": head.mass,
        "status": head.why or "bilinear",
        "all": None if head.all is None else _selected(head.all),
        "inner": None if head.inner is None else _selected(head.inner),
    }


def _selected(problem: Selected) -> dict[str, Any]:
    names = ("queries", "rows", "rank", "vacuous", "status", "margin_interval", "separable")
    row = ("text", "query", "token", "weight")
    return {
        **attributes(problem, *names),
        "farkas": [dict(zip(row, values, strict=True)) for values in problem.farkas],
        **{name: against and asdict(against) for name, against in problem.null.items()},
        "blind": problem.chance,
        "random_margin": problem.random and asdict(problem.random),
        "nuclear_margin_interval": problem.nuclear_margin,
        "nuclear_margin": problem.nuclear_reached,
    }


@check_arguments
def probe(
    model: Any,
    texts: Any = None,
    *,
    tokenizer: Any = None,
    queries: int = 64,
    null: int = 99,
    length: int = 12,
    lift: bool = False,
    layers: Sequence[str] | None = None,
    rng: int = 0,
    workers: int | None = None,
    show: int = SHOWN,
    inner: bool = False,
    page: str | os.PathLike[str] | None = None,
    progress: Callable[[int, int], object] | None = None,
    **options: Any,
) -> ProbeResult:
    """Compare attention heads with max margin and with chance.

    The result has the sharpness of each head, its selections, and its distance to max margin.

    Args:
        model: Folder of a transformers model with safetensors, or a GGUF file. In Python also a torch module.
        texts: File of texts, one per line or a JSON list; English sentences by default. In Python also a list
            of texts, or a tensor of inputs for a model without a tokenizer.
        tokenizer: The tokenizer of a torch module.
        queries: Number of hardest queries of a head that make up its problem.
        null: Number of random heads that each head is compared with; 19 or more.
        length: Number of tokens kept per text.
        lift: For rotary positions, relax to a matrix per distance.
        layers: Only this layer; may be repeated.
        rng: Random seed of the random heads.
        workers: Number of threads; by default all cores.
        show: Number of heads in the table; 0 shows all.
        inner: Show numbers without the first token and the query's own token.
        page: Write a page with a map of the heads, the texts and the selected tokens.
        progress: Called with the number of heads done and of all heads.
        options: Further arguments of a model in memory: `causal`, `heads`.

    Raises:
        ImportError: If the extra `probe` is not installed.

    >>> import hardmax as hm
    >>> hm.probe("no-such-model")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'no-such-model'
    """
    from hardmax._lib import expect

    expect.whole("queries", queries, 1)
    expect.whole("null", null, 1)
    expect.whole("length", length, 2)
    expect.whole("show", show, 0)
    is_file = isinstance(model, str | os.PathLike)
    if is_file and not os.fspath(model):
        raise ValueError("model must be the name of a folder or file, got an empty one")
    if is_file and not Path(model).exists():
        raise FileNotFoundError(2, "No such file or directory", os.fspath(model))
    writable("page", page, model, texts)
    try:
        from hardmax.torch.prober import probe as measure
        from hardmax.torch.probing.heads import null_notes
        from hardmax.torch.probing.loading import load, read_texts

        if isinstance(texts, str | os.PathLike):
            texts = read_texts(texts)
        loaded, tokenizer = load(Path(model)) if is_file else (model, tokenizer)
    except ModuleNotFoundError as missing:
        raise ImportError(f"probe needs {missing.name}: {install('probe')}") from missing
    if is_file and tokenizer is None:
        raise ValueError(f"{model} has no tokenizer; put the model's tokenizer.json into its folder")
    for note in null_notes(null):  # before a long run, not after it
        session().say(f"warning: {note}")
    options |= {"rotary": "lift"} if lift else {}
    with session().progress("probing", 1, progress) as bar, warnings.catch_warnings():
        if page is not None or is_file:
            warnings.filterwarnings("ignore", "[0-9]+ random head")  # the result has this note
        heads = measure(
            loaded,
            texts,
            tokenizer,
            queries=queries,
            null=null,
            length=length,
            layers=layers,
            rng=rng,
            workers=workers,
            progress=bar.to,
            **options,
        )
    name = os.fspath(model) if is_file else type(model).__name__
    result = ProbeResult(name, heads, show or len(heads.heads), inner)
    if page is not None:
        session().show(result)
        result.save(page)
        session().say(f"{page}: open it in a browser")
    return result
