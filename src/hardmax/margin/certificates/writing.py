"""The certificate of a solution: data and proof as one dictionary, which `certify` checks by itself."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax.margin.norms.definition import norm

if TYPE_CHECKING:
    from hardmax.margin.solution import MaxMargin

LARGEST = 4_000_000  # numbers of a certificate whose tokens are not stored: what `certify` reads in a minute
MOST_SIDE = 100  # rows or columns of a matrix in the nuclear or the spectral norm


def certificate_of(best: MaxMargin) -> dict[str, Any]:
    """Numbers are hexadecimal floats or fractions "a/b"; a digest tells a changed file."""
    c, exact = best.constraints, best.exact
    tokens = c.table
    if c.entries is not None:
        width = math.prod(c.entries)
        if max(c.count, width) * width > LARGEST:
            raise ValueError(
                f"max_margin must have at most {LARGEST:,} numbers in its rows to be saved, got "
                f"{c.count} rows of {width}; save a smaller part"
            )
        tokens = np.eye(width)
    proof = None if best.multipliers is None else _texts(best.multipliers)
    p = None if best.p is None else _texts(best.p)
    if exact is not None:
        weights = [str(x) for x in exact.multipliers]
        proof, p = (weights, None if exact.p is None else [str(x) for x in exact.p])
    infeasible = best.status == "infeasible"
    content: dict[str, Any] = {
        "schema": "hardmax.certificate/1",
        "status": best.status,
        "certificate": best.certificate,
        "norm_name": best.norm_name,
        "table": None if tokens is None else [_texts(row) for row in tokens],
        "gram": None if c.token_gram is None else [_texts(row) for row in c.token_gram],
        "plus": c.plus.tolist(),
        "minus": c.minus.tolist(),
        "right": None if c.right is None else [_texts(row) for row in c.right],
        "right_of": None if c.right_of is None else c.right_of.tolist(),
        "h": _texts(c.h),
        "equal": c.equal.tolist(),
        "labels": [str(c.label(j)) for j in range(c.count)],
        "p": p,
        "multipliers": None if infeasible else proof,
        "farkas": proof if infeasible else None,
        "norm_squared": None if exact is None or infeasible else str(exact.norm_squared),
        "margin_interval": _texts(best.margin_interval),
    }
    if norm(best.norm_name).of_matrix:
        content |= {"shape": [*c.shape], "factors": _factors(best)}
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def _factors(best: MaxMargin) -> dict[str, list[list[str]]] | None:
    """K and Q whose product is near p or, in the spectral norm, near what the multipliers combine.

    They prove a bound of its nuclear norm, |KQ'| <= (|K|^2 + |Q|^2)/2, which is sharp for these.
    """
    c = best.constraints
    if max(c.shape) > MOST_SIDE:
        raise ValueError(
            f"max_margin must be of a matrix of at most {MOST_SIDE} rows and columns to be saved in the norm "
            f"{best.norm_name}, got {c.shape[0]} x {c.shape[1]}; its margin_interval is what it proves"
        )
    if best.p is None or best.multipliers is None or not best.p.any():
        return None
    matrix = best.p if best.norm_name == "nuclear" else best.multipliers @ c.rows()
    U, values, Vt = np.linalg.svd(np.reshape(matrix, c.shape), full_matrices=False)
    roots = np.sqrt(values)
    return {"left": [_texts(row) for row in U * roots], "right": [_texts(row) for row in Vt.T * roots]}


def _texts(values: Any) -> list[str]:
    return [float(x).hex() for x in np.ravel(values)]
