"""The small data sets of paper B's figures, by figure id."""

from __future__ import annotations

from hardmax.problem import Problem

_TRIANGLE = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]


def named(name: str, loss: str = "logistic") -> Problem:
    """The data of a figure: B-FIG-1a, B-FIG-1b, B-FIG-3a, B-FIG-3b or B-FIG-8.

    >>> import hardmax as hm
    >>> hm.data.named("B-FIG-8").keys.tolist()
    [[1.0, 0.0], [0.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]
    """
    scored = {
        "B-FIG-1a": (_TRIANGLE, [[1.0, 0.9, 0.9]]),
        "B-FIG-1b": (_TRIANGLE, [[1.0, 0.9, 0.0]]),
        "B-FIG-8": ([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]]),
    }
    if name in scored:
        return Problem.from_scores(*scored[name], loss=loss)
    third = {"B-FIG-3a": [0.5, 1.0], "B-FIG-3b": [0.5, 1.5]}
    if name in third:
        inputs = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], third[name]]]
        return Problem.from_tokens(inputs, [1, -1, 1], head=[-1.0, 0.0], loss=loss)
    raise ValueError(f"name must be one of {', '.join([*scored, *third])}, got {name!r}")
