"""`audit`: how accurate an attention function and its gradients are where attention is hard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from hardmax import torch
from hardmax._lib.notebook import save_picture
from hardmax.app.results.session import session, writable
from hardmax.trials.provenance import load

if TYPE_CHECKING:
    from hardmax.torch.auditing import AuditResult


def audit_file(
    function: str,
    *,
    dtypes: Sequence[str] | None = None,
    level: Literal["usual", "exact"] = "usual",
    full: bool = False,
    rng: int = 0,
    plot: str | os.PathLike[str] | None = None,
) -> AuditResult:
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
    writable("plot", plot, picture=True)
    options: dict[str, Any] = {"dtypes": dtypes} if dtypes else {}
    measure = torch.audit  # before the function is loaded: without PyTorch nothing else matters
    attention = load(function)
    with session().progress("auditing", 1) as bar:
        result: AuditResult = measure(attention, level=level, full=full, rng=rng, progress=bar.to, **options)
    if plot is not None:
        save_picture(result._picture(), Path(plot))
    return result
