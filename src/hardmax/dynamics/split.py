"""Training beside the finite part: p = p_fin + r, where r moves by the separable rows alone (D-ALG-2).

On data that do not separate, the pulls of bound rows cancel to rounding near p_fin, while those of separable
rows weigh e^-margin: beyond margins of about 36 the gradient of the whole problem is noise. The problem that
`hm.decompose` calls ``late`` has no bound rows, so nothing cancels in it at any norm.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from hardmax.dynamics.run import Run
from hardmax.dynamics.steps import Step
from hardmax.problem import Problem


class Split(Protocol):
    """What training needs of a decomposition; see `hm.decompose`."""

    @property
    def problem(self) -> Problem:
        """What was decomposed."""

    @property
    def late(self) -> Problem:
        """What is left to train."""

    @property
    def p_fin(self) -> np.ndarray | None:
        """The finite part."""

    def parts(self, p: Any) -> tuple[np.ndarray, np.ndarray]:
        """The part of p among the bound rows, and the rest."""


def beside(split: Split, problem: Problem, start: Any) -> np.ndarray | None:
    """Where r begins: what a start has besides its bound part, which is p_fin from now on."""
    if getattr(split, "problem", None) is not problem:
        raise ValueError(
            f"split must be hm.decompose(problem) of this problem, got {type(split).__name__} of another; "
            "decompose it"
        )
    return None if start is None else split.parts(start)[1]


def need_span(step: Step) -> Step:
    """A rule that moves r without leaving its space."""
    if not step.in_span:
        raise ValueError(
            f"step must stay in the span of the keys with split, got {type(step).__name__}, which would move "
            "the finite part too; choose GD or Normalized, or leave split out"
        )
    return step


def lifted(split: Split, run: Run) -> Run:
    """The run of r as one of p = p_fin + r on the whole problem."""
    assert split.p_fin is not None, "a problem has a late one only with its p_fin"
    points = np.asarray(run.points) + split.p_fin
    return replace(run, source=split.problem, points=points, method=f"{run.method} beside p_fin")
