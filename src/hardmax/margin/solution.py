"""The answer to a hard-margin problem, which measures and proves itself."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hardmax._lib.arrays import as_matrix, polar
from hardmax._lib.files import whole_text
from hardmax._lib.notebook import table
from hardmax.margin.constraints import Bools, Constraints, Floats, Label
from hardmax.margin.exact import Exact
from hardmax.margin.measure import Tight
from hardmax.margin.rationals import bracket, root, to_float
from hardmax.margin.registry import norm
from hardmax.problem.selection import Selection

if TYPE_CHECKING:
    from hardmax.margin.norms.polyhedral import Face


LARGEST = (
    4_000_000  # numbers of a certificate whose tokens are not stored: as many as `certify` reads in a minute
)


def texts(values: Any) -> list[str]:
    """Numbers as a certificate has them."""
    return [float(x).hex() for x in np.ravel(values)]


LEAST = 1e-290  # floats below may have lost digits
SHOWN = 8  # labels of the support in a notebook


@dataclass(frozen=True, eq=False)
class MaxMargin:
    """Minimum-norm ``p`` with its proof, or a proof that there is none.

    ``status``: "certified" (p is optimal to a relative 1e-9, or exactly), "infeasible" (``farkas`` proves
    it) or "undecided" (only ``margin_interval`` is known). ``arithmetic``: "exact" if rational numbers
    back the status (``exact``), else "float". ``p`` is None in Gram form, where ``coefficients`` hold the
    solution; where a matrix is unknown, p is that matrix read row by row, and ``W`` the matrix itself.
    ``kkt`` is the largest relative residual of primal feasibility, stationarity and complementarity; 0 for
    exact certificates. ``selection`` is its selection, one token per input, or a `Selection` of sets where
    several tie; None for a solution of `Constraints`. `need` returns p or raises an error with the reason.
    ``norm`` is the norm that is least; in l1 and linf several p may be optimal: p is the
    shortest of them in l2, and ``face`` describes all.

    >>> import hardmax as hm
    >>> best = hm.max_margin(hm.Constraints.dense([[1.0, 1.0], [1.0, -1.0], [0.5, 1.0]]))
    >>> best
    MaxMargin(certified, margin=0.727607, support=((1,), (2,)))
    >>> [round(float(x), 12) for x in best.p]
    [1.333333333333, 0.333333333333]
    """

    constraints: Constraints
    status: Literal["certified", "infeasible", "undecided"]
    arithmetic: Literal["float", "exact"]
    p: Floats | None
    multipliers: Floats | None
    margin_interval: tuple[float, float]
    kkt: float
    farkas: Floats | None = None
    exact: Exact | None = None
    selection: tuple[int, ...] | Selection | None = None
    norm: str = "l2"

    def __repr__(self) -> str:
        tight = f", support={self.support}" if self.is_certified and len(self.support) <= 8 else ""
        norm = "" if self.norm == "l2" else f"{self.norm} "
        return f"MaxMargin({self.status}, {norm}margin={self.margin:.6g}{tight})"

    def _repr_html_(self) -> str:
        rows: list[tuple[str, Any]] = [("status", f"{self.status} ({self.arithmetic})")]
        if self.farkas is not None:
            rows.append(("rows that cancel", int(np.count_nonzero(self.farkas))))
        else:
            low, high = self.margin_interval
            rows += [("margin", self.margin), ("proved to lie in", f"{low!r} to {high!r}")]
            rows += [("|p|" if self.norm == "l2" else f"|p| in {self.norm}", self.p_norm)]
            support = [*map(str, self.support[:SHOWN]), *["..."][: len(self.support) > SHOWN]]
            rows += [("residual (kkt)", self.kkt), ("support", ", ".join(support))]
        return table("MaxMargin", ["", ""], rows)

    @property
    def is_certified(self) -> bool:
        """Whether p is proved to be optimal."""
        return self.status == "certified"

    @property
    def is_feasible(self) -> bool | None:
        """True or False if proved (an undecided problem may still be known to be feasible), else None."""
        if self.status == "infeasible":
            return False
        return True if self.status == "certified" or self.margin_interval[0] > 0 else None

    def need(self) -> Floats:
        """The certified p; a ValueError with the reason if there is none.

        >>> import hardmax as hm
        >>> hm.max_margin(hm.Constraints.dense([[1.0], [-1.0]])).need()
        Traceback (most recent call last):
        ValueError: max_margin must have a certified p, got infeasible: 2 rows contradict each other
        """
        if self.is_certified and self.p is not None:
            return self.p
        if self.farkas is not None:
            why = f"infeasible: {np.count_nonzero(self.farkas)} rows contradict each other"
        elif self.is_certified:
            why = "coefficients of the rows of a Gram matrix; give the tokens themselves"
        else:
            low, high = self.margin_interval
            why = f"undecided: only a margin in [{low:.6g}, {high:.6g}] is proved; ask for exact=True"
        raise ValueError(f"max_margin must have a certified p, got {why}")

    def only_l2(self) -> MaxMargin:
        """This solution; a ValueError in another norm than l2, for statements that are about l2 alone."""
        if self.norm != "l2":
            raise ValueError(f"max_margin must be in l2, got {self.norm}; leave norm out of max_margin")
        return self

    @property
    def fractions(self) -> NDArray[Any] | None:
        """p, or W, as rational numbers; None if only floats are known, or coefficients."""
        if self.exact is None or self.exact.p is None:
            return None
        numbers = np.empty(len(self.exact.p), dtype=object)
        numbers[:] = self.exact.p
        return numbers.reshape(self.constraints.shape)

    @cached_property
    def p_norm(self) -> float:
        """|p| in its norm: 0 if all bounds are 0, inf if infeasible, nan if nothing is known."""
        if self.status == "infeasible":
            return math.inf
        if self.exact is not None:
            return root(self.exact.norm_squared)
        solution = self.multipliers if self.p is None else self.p
        if solution is None or (self.status == "undecided" and not solution.any()):
            return math.nan
        if self.p is not None:
            shaped = self.p.reshape(self.constraints.shape)
            return norm(self.norm).value(shaped) if np.isfinite(shaped).all() else math.inf
        gram = self.constraints.gram()
        return math.sqrt(max(float(solution @ gram @ solution), 0.0))

    @property
    def margin(self) -> float:
        """1/|p|: inf if all bounds are 0, 0 if infeasible."""
        if math.isinf(self.p_norm):  # it may be too long for a float where the margin is not too small
            return self.margin_interval[0]
        return math.inf if self.p_norm == 0 else 1 / self.p_norm

    @cached_property
    def direction(self) -> Floats | None:
        """The unit vector p/|p|; None if p is not certified, 0, or only known by coefficients."""
        if not self.is_certified or self.p is None or self.p_norm == 0:
            return None
        if self.exact is not None and self.exact.p and not LEAST < np.abs(self.p).max() < math.inf:
            largest = max(map(abs, self.exact.p))
            return polar(np.array([to_float(x / largest) for x in self.exact.p]))[1]
        return polar(self.p)[1]

    @property
    def W(self) -> Floats | None:
        """The solution as a matrix; None where p is, and refused where p is a vector.

        >>> import hardmax as hm
        >>> rows = hm.Constraints.pairs([[1.0], [3.0]], [1], [0], right=[[1.0, 1.0]], right_of=[0])
        >>> hm.max_margin(rows).W.round(12).tolist()
        [[0.25, 0.25]]
        """
        return None if self.p is None else as_matrix(self.p, self.constraints.shape)

    @property
    def coefficients(self) -> Floats | None:
        """Weights of the rows with ``p = sum_j c_j row_j``: the multipliers; the solution in Gram form.

        None in other norms than l2, where p is not a combination of the rows.
        """
        return self.multipliers if self.norm == "l2" else None

    def selecting(self, tokens: tuple[int, ...] | Selection) -> MaxMargin:
        """Return the solution marked as that of a selection, with all that was computed for it so far.

        >>> import hardmax as hm
        >>> hm.max_margin(hm.Constraints.dense([[1.0, 1.0]])).selecting((0,)).selection
        (0,)
        """
        marked = replace(self, selection=tokens)
        marked.__dict__.update(self.__dict__ | marked.__dict__)
        return marked

    @cached_property
    def face(self) -> Face | None:
        """All optimal p, in l1 and linf up to 200 rows and 40 entries of p; else None.

        It is computed in fractions: with the solution by `max_margin`, and else at its first use.
        """
        return norm(self.norm).face(self) if self.is_certified and self.p_norm != 0 else None

    @cached_property
    def unique(self) -> bool | None:
        """Whether no other p is optimal; None if that is not known."""
        if self.face is not None:
            return self.face.unique
        return True if self.is_certified and norm(self.norm).strictly_convex else None

    def margin_gap(self, u: ArrayLike) -> float:
        """How far the direction u is from optimal: 1 - min_j row_j.u / (h_j |u| margin), in its norm.

        Zero exactly if u is optimal; above 1 if u violates a row.

        >>> import hardmax as hm
        >>> hm.max_margin(hm.Constraints.dense([[1.0, 1.0]]), norm="linf").margin_gap([1.0, 0.5])
        0.25
        """
        positive = self.constraints.h > 0
        values = np.asarray(u, dtype=np.float64).ravel()
        direction = polar(np.where(np.isfinite(values).all(), values, 0.0))[1]
        size = math.prod(self.constraints.shape)
        if direction.size != size or not direction.any() or self.margin in (0.0, math.inf):
            raise ValueError(
                f"margin_gap needs a direction u of {size} numbers, finite and not all zero, and a margin, "
                f"got {np.asarray(u)!s:.60} and a margin of {self.margin:.6g}"
            )
        reach = float((self.constraints.along(direction)[positive] / self.constraints.h[positive]).min())
        length = norm(self.norm).value(direction.reshape(self.constraints.shape))
        return 1 - reach / (length * self.margin)

    @cached_property
    def slack(self) -> Floats | None:
        """``row_j . p - h_j`` for every row."""
        if self.exact is not None and self.exact.slack:
            return np.array([to_float(s) for s in self.exact.slack])
        if self.p is not None and self.p.size:
            return self.constraints.along(self.p) - self.constraints.h
        if self.multipliers is None:
            return None
        return self.constraints.gram() @ self.multipliers - self.constraints.h

    @cached_property
    def enclosure(self) -> Tight:
        """Which rows are tight, and which may be, by this solution alone (`margin.measure`)."""
        return norm(self.norm).enclose(self)

    @cached_property
    def decided(self) -> MaxMargin:
        """This solution or, if it leaves open which rows are tight, the rational one, up to 200 rows."""
        return norm(self.norm).decide(self)

    @property
    def tight(self) -> Bools:
        """Rows met with equality, whatever their multiplier (B-ERR-13); with any that `doubtful` names."""
        return self.decided.enclosure.possible

    @property
    def doubtful(self) -> tuple[Label, ...]:
        """Labels of rows that may be tight or not; none up to 200 rows of vectors."""
        return tuple(self.constraints.label(int(j)) for j in np.flatnonzero(self.decided.enclosure.doubtful))

    @cached_property
    def support(self) -> tuple[Label, ...]:
        """Labels of the tight inequality rows."""
        rows = np.flatnonzero(self.tight & ~self.constraints.equal).tolist()
        return tuple(self.constraints.label(j) for j in rows)

    def save(self, path: str | Path) -> None:
        """Write a self-contained JSON certificate that `hm.certify` can check.

        >>> import tempfile, os, hardmax as hm
        >>> file = os.path.join(tempfile.mkdtemp(), "proof.json")
        >>> hm.max_margin(hm.Constraints.dense([[1.0], [-1.0]])).save(file)
        >>> hm.certify(file).what
        'infeasible: the Farkas vector combines rows into 0 >= 2'
        """
        with whole_text(path) as file:
            file.write(json.dumps(self.to_dict(), indent=1))

    def to_dict(self) -> dict[str, Any]:
        """The certificate: data and proof as hexadecimal floats or fractions "a/b", with a digest.

        >>> import hardmax as hm
        >>> hm.max_margin(hm.Constraints.dense([[2.0]]), exact=True).to_dict()["p"]
        ['1/2']
        """
        c, exact = self.constraints, self.exact
        tokens = c.table
        if c.entries is not None:
            width = math.prod(c.entries)
            if max(c.count, width) * width > LARGEST:
                raise ValueError(
                    f"max_margin must have at most {LARGEST:,} numbers in its rows to be saved, got "
                    f"{c.count} rows of {width}; save a smaller part"
                )
            tokens = np.eye(width)
        if exact is not None:
            proof: list[str] | None = [str(x) for x in exact.multipliers]
            p = None if exact.p is None else [str(x) for x in exact.p]
        elif all(x is None or np.isfinite(x).all() for x in (self.p, self.multipliers)):
            proof, p = (None if x is None else texts(x) for x in (self.multipliers, self.p))
        else:
            raise ValueError(
                "max_margin must have a p within the floats to be saved, got numbers beyond 1.8e308; scale "
                "the tokens"
            )
        infeasible = self.status == "infeasible"
        content: dict[str, Any] = {
            "schema": "hardmax.certificate/1",
            "status": self.status,
            "certificate": self.arithmetic,
            "norm_name": self.norm,
            "table": None if tokens is None else [texts(row) for row in tokens],
            "gram": None if c.token_gram is None else [texts(row) for row in c.token_gram],
            "plus": c.plus.tolist(),
            "minus": c.minus.tolist(),
            "right": None if c.right is None else [texts(row) for row in c.right],
            "right_of": None if c.right_of is None else c.right_of.tolist(),
            "h": texts(c.h),
            "equal": c.equal.tolist(),
            "labels": [str(c.label(j)) for j in range(c.count)],
            "p": p,
            "multipliers": None if infeasible else proof,
            "farkas": proof if infeasible else None,
            "norm_squared": None if exact is None or infeasible else str(exact.norm_squared),
            "margin_interval": texts(self.margin_interval),
        }
        content |= norm(self.norm).certificate(self)
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return {**content, "digest": hashlib.sha256(text.encode()).hexdigest()}


def from_exact(constraints: Constraints, exact: Exact) -> MaxMargin:
    """The result of a rational answer."""
    if not exact.feasible:
        top = max(exact.multipliers, key=abs)
        weights = np.array([to_float(x / top) for x in exact.multipliers])
        return MaxMargin(constraints, "infeasible", "exact", None, None, (0.0, 0.0), 0.0, weights, exact)
    weights = np.array([to_float(x) for x in exact.multipliers])
    p = None if exact.p is None else np.array([to_float(x) for x in exact.p])
    interval = bracket(exact.norm_squared)
    return MaxMargin(constraints, "certified", "exact", p, weights, interval, 0.0, exact=exact)
