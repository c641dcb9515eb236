"""The problem: keys, tokens with multiplicities, inputs, and a readout that scores them."""

from typing import Any

from hardmax.problem.problem import Problem

__all__ = ["Problem", "need_problem"]


def need_problem(problem: Any) -> None:
    """Refuse what is not a Problem, before some attribute of it is missed."""
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a hardmax.Problem, got {type(problem).__name__}; make one with "
            "Problem(keys, scores), or read a file with Problem.load"
        )
