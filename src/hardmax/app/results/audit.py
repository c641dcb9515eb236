"""`audit`: how accurate an attention function and its gradients are where attention is hard."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, cast

from hardmax._lib.result import Result
from hardmax.app.results.session import session, writable

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType

    from hardmax.torch.auditing import AuditResult


@dataclass(frozen=True, eq=False, repr=False)
class AuditReport(Result):
    """The result of ``hardmax audit``: that of `hm.torch.audit`.

    >>> from hardmax.app.results.audit import AuditReport
    >>> AuditReport.schema
    'hardmax.audit/1'
    """

    schema: ClassVar[str] = "hardmax.audit/1"

    audit: AuditResult

    @property
    def exit_code(self) -> int:
        """0 if all cases pass, 1 if one fails, 3 if none fails but one did not run."""
        return self.audit.exit_code

    @property
    def headline(self) -> str:
        """How many cases pass."""
        return repr(self.audit)

    def fields(self) -> dict[str, Any]:
        """Return the fields of the JSON object."""
        return {name: x for name, x in self.audit.json().items() if name not in ("schema", "version")}

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the cases."""
        return self.fields()["cases"]

    def table(self) -> RenderableType:
        """Return the largest error per regime and dtype."""
        return self.audit.table()

    def plot(self) -> Figure:
        """Return the heat map of the errors."""
        return cast("Figure", self.audit.plot().figure)

    def _picture(self) -> Figure:
        return self.plot()


def audit_file(
    function: str,
    *,
    dtypes: Sequence[str] | None = None,
    level: str = "usual",
    full: bool = False,
    rng: int = 0,
    plot: str | os.PathLike[str] | None = None,
) -> AuditReport:
    """Measure errors of an attention function at hard attention.

    The function has the signature of torch.nn.functional.scaled_dot_product_attention.

    Args:
        function: An attention function of an installed module, or FILE.py:FUNCTION.
        dtypes: Precision of the inputs; may be repeated. By default float64, float32, bfloat16 and float16.
        level: usual allows 4 times the error of PyTorch's math path, exact allows 16 units of rounding.
        full: Audit the product of all factors instead of one factor at a time; takes minutes.
        rng: Random seed of the inputs.
        plot: Draw a heat map of the errors as .svg, .png or .pdf.

    Raises:
        ImportError: If the extra `torch` is not installed.
    """
    from hardmax import torch
    from hardmax._lib.notebook import save_picture
    from hardmax.trials.provenance import load

    if plot is not None:
        writable("plot", plot)
    measure = torch.audit
    attention = load(function)
    with session().progress("auditing", 1) as bar:
        options: dict[str, Any] = {} if not dtypes else {"dtypes": dtypes}
        result = AuditReport(measure(attention, level=level, full=full, rng=rng, progress=bar.to, **options))
    if plot is not None:
        save_picture(result.plot(), Path(plot))
    return result
