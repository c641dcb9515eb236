"""An audit of attention functions: outputs and gradients against the truth, where attention is hard."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, cast

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from hardmax._lib import expect, notebook
from hardmax._lib.arguments import check_arguments
from hardmax._lib.result import Result
from hardmax._lib.terminal import DONE, INCOMPLETE, NOT_AS_EXPECTED
from hardmax.torch.operator import dense, dense_logits, dense_weights, precision

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import RenderableType

Attention = Callable[..., Any]
Numbers = tuple[float | None, float | None, float | None, float | None]
NOTHING: Numbers = (None, None, None, None)

QUANTITIES = ("out", "dq", "dk", "dv")
DTYPES = ("float64", "float32", "bfloat16", "float16")
LEVELS = ("usual", "exact")
USUAL = 4.0  # times the error of PyTorch's math path
EXACT = 16.0  # units of rounding
PASSES, FAILS, NOT_RUN = "passes", "fails", "not run"


@dataclass(frozen=True)
class AuditCase:
    """One quantity in one regime and dtype, compared with the truth row by row.

    Attributes:
        regime: What is special about the inputs.
        dtype: Precision of the inputs.
        quantity: "out", "dq", "dk" or "dv".
        cosine_distance: Largest 1 - cos of a row.
        length_ratio: Length of a row over its true length, of the row where it is farthest from 1.
        max_error: Largest error of an entry, relative to the largest entry of its row with terms of one sign.
        bias: Mean of the errors along their leading direction over their spread, over draws.
        allowed: The largest `max_error` that passes.
        verdict: "passes", "fails" or "not run".
        detail: Why a case fails or did not run; empty otherwise.

    >>> import torch, hardmax as hm
    >>> result = hm.torch.audit(hm.torch.scaled_dot_product_attention, dtypes=["float32"], regimes=["gap 40"])
    >>> [case.verdict for case in result.cases]
    ['passes', 'passes', 'passes', 'passes']
    """

    regime: str
    dtype: str
    quantity: str
    cosine_distance: float | None
    length_ratio: float | None
    max_error: float | None
    bias: float | None
    allowed: float
    verdict: str
    detail: str = ""


@dataclass(frozen=True, repr=False)
class AuditResult(Result):
    """The result of `hm.torch.audit`: cases, table, heat map, JSON and exit code.

    >>> import torch, hardmax as hm
    >>> attend = hm.torch.scaled_dot_product_attention
    >>> hm.torch.audit(attend, ["float32"], regimes=["gap 40", "causal"])
    AuditResult(scaled_dot_product_attention, level usual: 8 of 8 cases pass)
    """

    schema: ClassVar[str] = "hardmax.audit/1"
    row_field: ClassVar[str] = "cases"

    attention: str
    level: str
    seed: int
    cases: tuple[AuditCase, ...]

    @property
    def failures(self) -> tuple[AuditCase, ...]:
        """Cases whose error is larger than allowed."""
        return tuple(case for case in self.cases if case.verdict == FAILS)

    @property
    def not_run(self) -> tuple[AuditCase, ...]:
        """Cases in which the function raised an error."""
        return tuple(case for case in self.cases if case.verdict == NOT_RUN)

    @property
    def exit_code(self) -> int:
        """0 if all cases pass, 1 if one fails, 3 if none fails but one did not run."""
        if self.failures:
            return NOT_AS_EXPECTED
        return INCOMPLETE if self.not_run else DONE

    @property
    def headline(self) -> str:
        """Number of cases that pass."""
        return f"{self.attention}, level {self.level}: {self._summary()}"

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return asdict(self)

    def table(self) -> RenderableType:
        """Return the table that ``hardmax audit`` prints: the largest error per regime and dtype."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
        table.add_column("regime", no_wrap=True)
        dtypes = list(dict.fromkeys(case.dtype for case in self.cases))
        for dtype in dtypes:
            table.add_column(dtype)
        for regime, row in self._by_regime().items():
            cells = [_cell([case for case in row if case.dtype == dtype]) for dtype in dtypes]
            table.add_row(regime, *(Text(text, style="" if good else "bold") for text, good in cells))
        lines = [f"Largest error relative to its row, then the quantities that fail level {self.level}."]
        details = dict.fromkeys(f"{case.regime}: {case.detail}" for case in self.cases if case.detail)
        lines += [*list(details)[:12], *([f"and {len(details) - 12} more"] if len(details) > 12 else [])]
        return Group(table, Text("\n".join([*lines, self._summary()])))

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw a heat map: regimes down, dtypes and quantities across, errors in units of rounding.

        Args:
            ax: Axes to draw in; a new figure by default.

        Returns:
            The axes.
        """
        import numpy as np
        from matplotlib.colors import LogNorm

        rows = self._by_regime()
        columns = list(dict.fromkeys((case.dtype, case.quantity) for case in self.cases))
        if ax is None:
            size = (1.9 + 0.33 * len(columns), 1.2 + 0.19 * len(rows))
            ax = notebook.picture(size).add_subplot()
        units = np.full((len(rows), len(columns)), np.nan)
        for y, cases in enumerate(rows.values()):
            for case in cases:
                x = columns.index((case.dtype, case.quantity))
                if case.max_error is not None:
                    units[y, x] = case.max_error / rounding(case.dtype)
                if case.verdict != PASSES:
                    mark = "x" if case.verdict == FAILS else "-"
                    color = "white" if units[y, x] > 1e4 else "black"
                    ax.text(x, y, mark, color=color, ha="center", va="center", fontsize=7)
        image = ax.imshow(np.clip(units, 1, 1e9), norm=LogNorm(1, 1e9), cmap="cividis_r", aspect="auto")
        ax.set_xticks(range(len(columns)), [quantity for _, quantity in columns], fontsize=7)
        ax.set_yticks(range(len(rows)), list(rows), fontsize=7)
        ax.tick_params(length=0)
        dtypes = [dtype for dtype, _ in columns]
        for dtype in dict.fromkeys(dtypes):
            first, count = dtypes.index(dtype), dtypes.count(dtype)
            ax.text(first + (count - 1) / 2, -0.8, dtype, ha="center", va="bottom", fontsize=8)
            if first:
                ax.axvline(first - 0.5, color="white", lw=2)
        ax.set_title(f"{self.attention}: x fails level {self.level}, - did not run", fontsize=9, pad=16)
        bar = ax.figure.colorbar(image, ax=ax, fraction=0.05, pad=0.02, extend="max")
        bar.ax.tick_params(labelsize=7)
        bar.set_label("error in units of rounding", fontsize=8)
        return ax

    def _by_regime(self) -> dict[str, list[AuditCase]]:
        rows: dict[str, list[AuditCase]] = {}
        for case in self.cases:
            rows.setdefault(case.regime, []).append(case)
        return rows

    def _summary(self) -> str:
        passed = sum(case.verdict == PASSES for case in self.cases)
        parts = [f"{passed} of {len(self.cases)} cases pass"]
        parts += [f"{len(self.failures)} fail"] if self.failures else []
        return ", ".join(parts + ([f"{len(self.not_run)} did not run"] if self.not_run else []))

    def __repr__(self) -> str:
        return f"AuditResult({self.headline})"

    def _picture(self) -> Figure:
        return cast("Figure", self.plot().figure)


def _cell(cases: list[AuditCase]) -> tuple[str, bool]:
    """The worst of some quantities as text, and whether all pass."""
    if not cases:
        return "", True
    failed = [case for case in cases if case.verdict == FAILS]
    if any(case.verdict == NOT_RUN for case in cases) and not failed:
        return "not run", False
    errors = [case.max_error for case in failed or cases]
    finite = [x for x in errors if x is not None]
    text = f"{max(finite):.1e}" if len(finite) == len(errors) else "nan"
    if not failed:
        return text, True
    names = "all" if len(failed) == len(QUANTITIES) else " ".join(case.quantity for case in failed)
    return f"{text} {names}", False


@check_arguments
def audit(
    attention: Attention,
    dtypes: Sequence[str | torch.dtype] = DTYPES,
    level: str = "usual",
    *,
    full: bool = False,
    regimes: Iterable[str] | None = None,
    rng: int = 0,
    device: str = "cpu",
    progress: Callable[[int, int], None] | None = None,
) -> AuditResult:
    """Measure the accuracy of an attention function and of its gradients where attention is hard.

    Each regime varies one factor from a base case: the gap of the logits, exact and near ties, sinks, the
    scale of the logits, masks, grouped queries, lengths, widths, memory layout. The truth is the zero-sum
    gradient in float64 of the same rounded inputs. An error in one regime does not end the audit. PyTorch
    uses one thread meanwhile; a function that must be tested with more sets their number itself.

    Args:
        attention: A function with the signature of `torch.nn.functional.scaled_dot_product_attention`.
        dtypes: Precisions of the inputs.
        level: "usual" allows 4 times the error of PyTorch's math path in the same dtype; "exact" allows 16
            units of rounding, plus 16 units of the precision of the logits times the largest logit.
        full: Audit the product of all factors instead of one factor at a time; takes minutes.
        regimes: Names of the regimes to audit; all by default.
        rng: Seed of the inputs.
        device: Device of the inputs.
        progress: Called with the number of finished cases and their total.

    Returns:
        An `AuditResult`.

    Raises:
        TypeError: If ``attention`` is not callable.
        ValueError: If a dtype, the level or a regime is unknown.

    See also:
        hm.torch.assert_accurate: The same as one line in a test.

    >>> import torch, hardmax as hm
    >>> def by_hand(q, k, v):
    ...     return torch.softmax(q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5, dim=-1) @ v
    >>> result = hm.torch.audit(by_hand, ["float32"], "exact", regimes=["base", "gap 40"])
    >>> result
    AuditResult(by_hand, level exact: 6 of 8 cases pass, 2 fail)
    >>> [(case.regime, case.quantity) for case in result.failures]
    [('gap 40', 'dq'), ('gap 40', 'dk')]
    """
    expect.one_of("level", level, LEVELS)
    names = [str(kind).removeprefix("torch.") for kind in dtypes]
    _check_names("dtypes", names, DTYPES)
    if not names:
        raise ValueError(f"dtypes must name at least one of {', '.join(DTYPES)}, got none")
    by_name = {regime.name: regime for regime in all_regimes(full)}
    if regimes is not None:
        chosen = [regimes] if isinstance(regimes, str) else list(regimes)
        _check_names("regimes", chosen, tuple(by_name))
        by_name = {name: by_name[name] for name in chosen}
    rng = expect.whole("rng", rng)
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(f"device must be one that PyTorch has here, got {device!r}") from error
    cases: list[AuditCase] = []
    pairs = list(itertools.product(by_name.values(), names))
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # on tensors this small, several threads mostly wait for each other
    try:
        for number, (regime, name) in enumerate(pairs, 1):
            cases += _cases(attention, regime, inputs_of(regime, getattr(torch, name), rng).to(device), level)
            if progress is not None:
                progress(number, len(pairs))
    finally:
        torch.set_num_threads(threads)
    title = getattr(attention, "__name__", type(attention).__name__)
    return AuditResult(title, level, rng, tuple(cases))


@check_arguments
def assert_accurate(attention: Attention, level: str = "usual", **options: Any) -> None:
    """Raise an AssertionError that names the regimes in which an attention function is not accurate.

    Args:
        attention: A function with the signature of `torch.nn.functional.scaled_dot_product_attention`.
        level: "usual" or "exact", as in `hm.torch.audit`.
        options: Other arguments of `hm.torch.audit`.

    >>> import hardmax as hm
    >>> hm.torch.assert_accurate(hm.torch.scaled_dot_product_attention, "exact", regimes=["gap 40"])
    """
    result = audit(attention, level=level, **options)
    if result.exit_code != DONE:
        bad = [case for case in result.cases if case.verdict != PASSES]
        lines = [repr(result)]
        for case in bad[:20]:
            reason = case.detail or f"error {case.max_error:.1e}, allowed {case.allowed:.1e}"
            lines.append(f"  {case.regime}, {case.dtype}, {case.quantity}: {reason}")
        if len(bad) > 20:
            lines.append(f"  and {len(bad) - 20} more")
        raise AssertionError("\n".join(lines))


def math_path(*args: Any, **options: Any) -> Any:
    """Compute PyTorch's attention by its math path, with which the level "usual" compares."""
    with sdpa_kernel(SDPBackend.MATH):
        return F.scaled_dot_product_attention(*args, **options)


def rounding(dtype: str) -> float:
    """Return half a unit in the last place of 1: the largest relative error of rounding to a dtype."""
    return float(torch.finfo(getattr(torch, dtype)).eps) / 2


def _check_names(argument: str, names: Sequence[str], allowed: Sequence[str]) -> None:
    for name in names:
        if name not in allowed:
            raise ValueError(f"{argument} must be among {', '.join(allowed)}, got {name!r}")


@dataclass(frozen=True, eq=False)
class _Truth:
    """A quantity in float64, and for each row the size of the terms that it adds up."""

    value: torch.Tensor  # (draws, heads, rows, width)
    size: torch.Tensor  # (draws, heads, rows)


def _cases(attention: Attention, regime: Regime, case: RegimeInputs, level: str) -> list[AuditCase]:
    dtype = str(case.query.dtype).removeprefix("torch.")
    truth, largest = _truth(case)
    inner = torch.finfo(precision(case.query)).eps / 2
    exact = EXACT * (rounding(dtype) + inner * largest)
    usual, _ = _run(math_path, case) if level == "usual" else ({}, "")
    results, error = _run(attention, case)
    cases = []
    for quantity, true in truth.items():
        allowed = exact
        if quantity in usual:
            allowed = max(exact, USUAL * (_error(usual[quantity], true) or 0.0))
        if quantity in results:
            numbers, problem = _compared(results[quantity], true)
            passes = numbers[2] is not None and numbers[2] <= allowed
            ending = (PASSES if passes else FAILS, f"{quantity} {problem}" if problem else "")
        else:
            numbers, ending = NOTHING, (NOT_RUN, error)
        cases.append(AuditCase(regime.name, dtype, quantity, *numbers, allowed, *ending))
    return cases


def _compared(result: Any, true: _Truth) -> tuple[Numbers, str]:
    """Distance of directions, ratio of lengths, largest error and bias, or why there are none."""
    if not isinstance(result, torch.Tensor):
        return NOTHING, f"is of the type {type(result).__name__}, not a tensor"
    if result.shape != true.value.shape:
        return NOTHING, f"has the shape {tuple(result.shape)} instead of {tuple(true.value.shape)}"
    error = _error(result, true)
    if error is None:
        return NOTHING, "is not finite"
    return (*_direction(result.double(), true), error, _bias(result.double() - true.value)), ""


def _truth(case: RegimeInputs) -> tuple[dict[str, _Truth], float]:
    """Compute all quantities from the zero-sum form in float64, and the largest logit."""
    mask = case.options.get("attn_mask")
    if mask is not None:
        mask = (mask if mask.dtype == torch.bool else mask.double())[None, None]
    scale = case.options.get("scale", case.query.shape[-1] ** -0.5)
    causal = case.options.get("is_causal", False)
    wide = [x.detach().double().requires_grad_() for x in (case.query, case.key, case.value)]
    g = case.by_out.double()
    query, key, value = wide
    out = dense(query, key, value, mask, None, None, causal, scale, 0.0)
    values = (out.detach(), *torch.autograd.grad(out, wide, g))
    q, k, v = (x.detach() for x in wide)
    weights = dense_weights(q, k, mask, None, causal, scale)
    sizes = _sizes(q, k, v, g, weights, scale)
    floor = float(torch.finfo(case.query.dtype).tiny)  # below this a dtype may flush to zero
    logits, bias = dense_logits(q, k, mask, causal, scale)
    logits = logits if bias is None else logits + bias
    largest = float(logits.masked_fill(logits == -torch.inf, 0.0).abs().amax())
    pairs = zip(QUANTITIES, values, sizes, strict=True)
    return {name: _Truth(value, size.clamp(min=floor)) for name, value, size in pairs}, largest


def _sizes(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, g: torch.Tensor, weights: torch.Tensor, scale: float
) -> list[torch.Tensor]:
    """For each row of each quantity, its largest entry if all terms of the zero-sum form had the same sign.

    An error is large if it is large compared with this: where terms cancel, no arithmetic keeps all digits.
    A query with one visible token has gradients of zero; then the terms of the usual form are the measure.
    """
    heads, shared = q.shape[1], k.shape[1]
    group = heads // shared
    q, k, v, g = (x.abs() for x in (q, k.repeat_interleave(group, 1), v.repeat_interleave(group, 1), g))
    by_weights = g @ v.transpose(-2, -1)
    top = weights.argmax(dim=-1, keepdim=True)
    relative = (by_weights + by_weights.gather(-1, top)).scatter(-1, top, 0.0)
    zero_sum = weights * (relative + (weights * relative).sum(dim=-1, keepdim=True))
    usual = weights * by_weights

    def largest(rows: torch.Tensor) -> torch.Tensor:
        return rows.amax(dim=-1)

    def grouped(rows: torch.Tensor) -> torch.Tensor:
        return rows.unflatten(1, (shared, group)).sum(dim=2).amax(dim=-1)

    by_query, by_query_usual = (scale * largest(x @ k) for x in (zero_sum, usual))
    by_key, by_key_usual = (scale * grouped(x.transpose(-2, -1) @ q) for x in (zero_sum, usual))
    return [
        largest(weights @ v),
        torch.where(by_query > 0, by_query, by_query_usual),
        torch.where(by_key > 0, by_key, by_key_usual),
        grouped(weights.transpose(-2, -1) @ g),
    ]


def _run(attention: Attention, case: RegimeInputs) -> tuple[dict[str, Any], str]:
    """Output and gradients, as far as they could be computed, and why the others could not."""
    results: dict[str, Any] = {}
    try:
        tensors = [x.clone().requires_grad_() for x in (case.query, case.key, case.value)]
        out = attention(*tensors, **case.options)
        results["out"] = out.detach() if isinstance(out, torch.Tensor) else out
        if not isinstance(out, torch.Tensor) or out.shape != case.by_out.shape:
            return results, "no gradients: the output is not a tensor of the right shape"
        gradients = torch.autograd.grad(out, tensors, case.by_out.to(out.dtype))
        results |= dict(zip(QUANTITIES[1:], gradients, strict=True))
    except Exception as error:  # of a function that is under test
        first = next(iter(str(error).splitlines()), "")
        return results, f"{type(error).__name__}: {first[:200]}"
    return results, ""


def _error(result: torch.Tensor, true: _Truth) -> float | None:
    """Largest error of an entry over the size of its row; None if it is not finite."""
    floor = float(torch.finfo(result.dtype).tiny)
    off = ((result.double() - true.value).abs().amax(dim=-1) - floor).clamp(min=0.0)
    error = float((off / true.size).amax())
    return error if math.isfinite(error) else None


def _direction(result: torch.Tensor, true: _Truth) -> tuple[float | None, float | None]:
    """Largest 1 - cos of a row that does not cancel, and the ratio of lengths that is farthest from 1."""
    rows = true.value.abs().amax(dim=-1) > 1e-3 * true.size
    if not rows.any():
        return None, None
    a, b = result[rows], true.value[rows]
    a_size, b_size = (x.abs().amax(dim=-1, keepdim=True) for x in (a, b))  # squares of small rows underflow
    a, b = a / torch.where(a_size > 0, a_size, 1.0), b / b_size
    a_norm, b_norm = a.norm(dim=-1, keepdim=True), b.norm(dim=-1, keepdim=True)
    unit = a / torch.where(a_norm > 0, a_norm, 1.0)
    cosine = torch.where(a_norm > 0, (unit - b / b_norm).square().sum(dim=-1, keepdim=True) / 2, 1.0)
    ratio = (a_size * a_norm / (b_size * b_norm)).flatten()
    return float(cosine.amax()), float(ratio[ratio.log().abs().argmax()])


def _bias(error: torch.Tensor) -> float | None:
    """Mean of the draws' errors along their leading direction, over the spread around that mean."""
    rows = error.flatten(1)
    largest = rows.abs().amax()
    if not largest > 0 or len(rows) < 2:
        return None
    rows = rows / largest
    along = torch.linalg.eigh(rows @ rows.T)[1][:, -1]  # of the draws: the error is `along` times a direction
    spread = along.std()
    return float(along.mean().abs() / spread) if spread > 0 else None


DRAWS = 16  # inputs of a regime: keys and values are shared, queries and output gradients are drawn


@dataclass(frozen=True)
class Regime:
    """Recipe for inputs: random, except for the fields.

    Args:
        name: Name in tables.
        gap: Distance of the top logit of each query from the others; None leaves logits random.
        ties: Number of tokens at the top, which have the same key.
        near: Relative perturbation that turns exact ties into near ones.
        sink: All queries have the first token at their top, and its value is small.
        spread: Standard deviation of the logits.
        mask: "causal", "boolean", "additive" (both with a row that is all hidden), or "none".
        heads: Number of heads of queries, and of keys and values.
        lengths: Number of queries and of tokens.
        width: Width of a head.
        transposed: Tensors are views of (batch, tokens, heads, width), as models make them.
        scale: The argument of that name.
    """

    name: str
    gap: float | None = None
    ties: int = 1
    near: float = 0.0
    sink: bool = False
    spread: float = 1.0
    mask: str = "none"
    heads: tuple[int, int] = (2, 2)
    lengths: tuple[int, int] = (16, 80)
    width: int = 64
    transposed: bool = False
    scale: float | None = None


@dataclass(frozen=True, eq=False)
class RegimeInputs:
    """Query, key, value and the gradient of the output, and the options of the call."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    by_out: torch.Tensor
    options: dict[str, Any]

    def to(self, device: str) -> RegimeInputs:
        """Move all tensors to a device."""
        moved = {name: x.to(device) for name, x in vars(self).items() if isinstance(x, torch.Tensor)}
        masks = {name: x.to(device) for name, x in self.options.items() if isinstance(x, torch.Tensor)}
        return replace(self, **moved, options=self.options | masks)


BASE = Regime("base")
CONTENTS = (
    *(replace(BASE, name=f"gap {g}", gap=float(g)) for g in (0, 2, 4, 8, 12, 16, 20, 30, 40, 60, 80)),
    *(replace(BASE, name=f"{n} ties", gap=20.0, ties=n) for n in (2, 4, 16, 64)),
    *(replace(BASE, name=f"{n} near ties", gap=20.0, ties=n, near=0.02) for n in (2, 4, 16, 64)),
    *(replace(BASE, name=f"sink {g}", gap=float(g), sink=True) for g in (2, 4, 8, 16, 32)),
    *(replace(BASE, name=f"scale {s}", spread=float(s)) for s in (2, 5, 10, 20, 50)),
)
MASKS = (
    replace(BASE, name="causal", mask="causal", lengths=(48, 48)),
    replace(BASE, name="causal, fewer queries", mask="causal"),
    replace(BASE, name="boolean mask", mask="boolean"),
    replace(BASE, name="additive mask", mask="additive"),
)
SHAPES = (
    replace(BASE, name="grouped 4/2", heads=(4, 2)),
    replace(BASE, name="grouped 4/1", heads=(4, 1)),
    *(replace(BASE, name=f"length {t}", lengths=(t, t)) for t in (1, 7, 33, 129)),
    replace(BASE, name="length 1 x 65", lengths=(1, 65)),
    *(replace(BASE, name=f"width {w}", width=w) for w in (16, 32, 80, 96, 128)),
    replace(BASE, name="transposed", transposed=True),
    replace(BASE, name="scale argument", scale=0.3),
)


def all_regimes(full: bool) -> Iterator[Regime]:
    """Yield the regimes: one factor at a time from a base case, or the product of all factors."""
    if not full:
        yield from (BASE, *CONTENTS, *MASKS, *SHAPES)
        return
    changes = ("mask", "heads", "lengths", "width", "transposed", "scale")
    for content, mask, shape in itertools.product((BASE, *CONTENTS), (BASE, *MASKS), (BASE, *SHAPES)):
        pairs = ((name, getattr(part, name)) for part in (mask, shape) for name in changes)
        changed = {name: value for name, value in pairs if value != getattr(BASE, name)}
        names = [part.name for part in (content, mask, shape) if part is not BASE]
        yield replace(content, **changed, name=", ".join(names) or BASE.name)


def inputs_of(regime: Regime, kind: torch.dtype, rng: int) -> RegimeInputs:
    """Draw the inputs of a regime in float64 and round them to a dtype."""
    chance = torch.Generator().manual_seed(rng)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=chance, dtype=torch.float64)

    (heads, shared), (queries, tokens), width = regime.heads, regime.lengths, regime.width
    by = width**-0.5 if regime.scale is None else regime.scale
    # Keys of one length, so that each token is at the top of some query.
    key = F.normalize(draw(shared, tokens, width), dim=-1) * width**0.5
    value = draw(shared, tokens, width) + draw(shared, 1, width)
    ties = min(regime.ties, tokens)
    key[:, :ties] = key[:, :1] * (1 + regime.near * draw(shared, ties, width))
    if regime.sink:
        value[:, 0] *= 0.01
    query = draw(DRAWS, heads, queries, width) * (regime.spread / (by * width**0.5))
    options, bias, tops = _mask(regime, draw, ties)
    if regime.gap is not None:
        query = _with_gap(query, key, bias, tops, regime, by)
    by_out = draw(DRAWS, heads, queries, width) + draw(1, heads, 1, width)
    if regime.scale is not None:
        options["scale"] = regime.scale
    if heads != shared:
        options["enable_gqa"] = True
    mask = options.get("attn_mask")
    if mask is not None and mask.is_floating_point():
        options["attn_mask"] = mask.to(kind)
    q, k, v, g = (
        _laid_out(x.expand(DRAWS, *x.shape[-3:]).to(kind), regime.transposed)
        for x in (query, key, value, by_out)
    )
    return RegimeInputs(q, k, v, g, options)


def _mask(regime: Regime, draw: Any, ties: int) -> tuple[dict[str, Any], torch.Tensor, torch.Tensor]:
    """Options of the call, the mask as numbers to add, and the token that each query has at its top."""
    queries, tokens = regime.lengths
    places = torch.arange(queries)
    tops = torch.zeros_like(places) if regime.sink or ties > 1 else (7 * places) % tokens
    if regime.mask == "causal":
        tops = torch.minimum(tops, places % tokens)
        visible = places[:, None] >= torch.arange(tokens)
        return {"is_causal": True}, _hidden(~visible), tops
    if regime.mask == "none":
        return {}, torch.zeros(queries, tokens, dtype=torch.float64), tops
    visible = draw(queries, tokens) > -0.5
    visible[places, tops] = True
    visible[queries // 2] = False
    if regime.mask == "boolean":
        return {"attn_mask": visible}, _hidden(~visible), tops
    added = draw(queries, tokens) + _hidden(~visible)
    return {"attn_mask": added}, added, tops


def _hidden(hidden: torch.Tensor) -> torch.Tensor:
    return torch.zeros(hidden.shape, dtype=torch.float64).masked_fill(hidden, -torch.inf)


def _with_gap(
    query: torch.Tensor, key: torch.Tensor, bias: torch.Tensor, tops: torch.Tensor, regime: Regime, by: float
) -> torch.Tensor:
    """Move each query along the key of its top token until the others are ``gap`` below."""
    wide = key.repeat_interleave(query.shape[1] // len(key), dim=0)
    chosen = wide[:, tops]  # (heads, queries, width)
    step = chosen / (chosen.square().sum(dim=-1, keepdim=True) * by)  # raises the top logit by one
    rivals = torch.zeros(bias.shape, dtype=torch.float64)
    rivals[torch.arange(len(tops)), tops] = -torch.inf
    if regime.ties > 1:
        rivals[:, : regime.ties] = -torch.inf
    for _ in range(30):  # a contraction: a step along the key raises the others by less
        logits = query @ wide.transpose(-2, -1) * by + bias
        top = logits.gather(-1, tops.expand(*logits.shape[:2], -1)[..., None])
        gap = top - (logits + rivals).amax(dim=-1, keepdim=True)
        query = query + torch.where(torch.isfinite(gap), regime.gap - gap, 0.0) * step
    return query


def _laid_out(x: torch.Tensor, transposed: bool) -> torch.Tensor:
    return x.transpose(1, 2).contiguous().transpose(1, 2) if transposed else x.contiguous()
