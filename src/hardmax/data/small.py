"""Small problems by name: the data of figures, those of part D, and the files of ``examples``."""

from __future__ import annotations

import difflib
import json
from os import PathLike
from pathlib import Path
from typing import Any

from hardmax._lib.arguments import check_arguments
from hardmax.problem import Problem

_TRIANGLE = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]

# One draw of three inputs: the best token near (1, 0), three near (-1, 1), three near (-0.5, -0.5).
_CLUSTERS = [
    [
        [0.774832, -0.230472],
        [-1.0867758, 1.1697421],
        [-1.0632025, 0.5769562],
        [-1.252667, 1.0699966],
        [-0.4760317, -0.2524684],
        [-0.5494556, -0.7705308],
        [-0.3866699, -0.3412983],
    ],
    [
        [0.6889809, -0.0682721],
        [-0.8499621, 0.8829005],
        [-0.9633044, 1.2778733],
        [-0.8107404, 0.8312646],
        [-0.4936815, -0.5985354],
        [-0.4120608, -0.4775178],
        [-0.4117687, -0.5204619],
    ],
    [
        [0.9420664, 0.0105015],
        [-0.5395589, 0.7062212],
        [-1.1138496, 1.1839943],
        [-0.7420251, 0.7043651],
        [-0.594624, -0.234945],
        [-0.6099488, -0.5959669],
        [-0.7133961, -0.2770121],
    ],
]

# The third input of B-FIG-3, whose scores come from a head.
_THIRD = {"readout": [0.5, 1.0], "readout-slack": [0.5, 1.5]}

# Keys and scores: of paper B's figures, and of part D.
_SCORED: dict[str, tuple[Any, Any]] = {
    "triangle": (_TRIANGLE, [[1.0, 0.9, 0.9]]),
    "triangle-local": (_TRIANGLE, [[1.0, 0.9, 0.0]]),
    "clusters": (_CLUSTERS, [[1.0] + [0.5] * 6] * 3),
    "two-inputs": ([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]]),
    "skew": ([[[2.0, 1.0], [0.0, 0.0]], [[1.0, 3.0], [0.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]]),
    "flat": ([[[1.0, 1.0, 0.0], [0.0, 0.0, 0.0]]], [[1.0, 0.0]]),
    "plane": (
        [[[-0.5, 1.0], [-1.0, -1.5], [2.0, 0.5]], [[0.5, 0.5], [0.0, -1.5], [-0.5, 1.0]]],
        [[0.0, 2.0, 1.0], [0.0, 1.0, 2.0]],
    ),
    "space-a": (
        [
            [[-1.5, -2.0, -1.0], [-0.5, -2.0, -1.0], [2.0, 1.0, -1.5]],
            [[-1.0, 1.0, 1.5], [-0.5, 1.0, -1.5], [0.0, 0.5, 1.0]],
        ],
        [[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]],
    ),
    "space-b": (
        [
            [[0.5, 0.0, 1.5], [-0.5, -0.5, -1.5], [-0.5, 1.0, -1.0]],
            [[-0.5, -1.0, 0.0], [2.0, 2.0, 0.0], [0.5, -1.5, -1.0]],
        ],
        [[2.0, 0.0, 1.0], [1.0, 2.0, 0.0]],
    ),
    "triple": (
        [
            [[0.5, 1.5, 1.0], [-1.0, -1.0, 1.5]],
            [[-2.0, 1.5, 1.0], [0.0, -1.0, -1.0]],
            [[-1.0, 0.0, 0.0], [0.0, 2.0, 1.0]],
        ],
        [[0.0, 1.0], [1.0, 0.0], [1.0, 0.0]],
    ),
    "ragged": (
        [
            [[-1.5, -1.0, 1.0, 0.5], [-1.5, -0.5, 0.0, -1.5]],
            [[1.0, -1.5, -0.5, 0.0], [-0.5, 0.5, 1.0, 2.0], [-1.0, 0.5, 1.0, -1.0]],
            [[-2.0, 2.0, -1.0, -0.5], [1.5, 0.5, 0.0, 1.0]],
            [[-2.0, 1.0, -0.5, -1.5], [0.5, 1.5, -1.0, 0.5], [-1.0, 1.0, 1.0, -1.0], [1.5, 0.5, 0.5, 1.5]],
        ],
        [[0.0, 1.0], [1.0, 2.0, 0.0], [0.0, 1.0], [1.0, 0.0, 2.0, 3.0]],
    ),
}

# The same where no direction separates every label: the log loss of labels.
_LABELED: dict[str, tuple[Any, Any]] = {
    "cycle": (
        [
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]],
            [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        ],
        [[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0, 0.0]],
    ),
    "dependent": (
        [
            [[1.0, 0.0], [0.0, 0.0]],
            [[1.0, 0.0], [0.0, 0.0]],
            [[1.0, 0.0], [2.0, 0.0]],
            [[0.0, 1.0], [0.0, 0.0]],
        ],
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0]],
    ),
    "plane-plus": (
        [
            [[0.0, 0.0, 0.0, 0.0], [-1.0, -0.5, 0.0, 0.0]],
            [[0.0, 0.0, 0.0, 0.0], [1.0, -1.0, 0.0, 0.0]],
            [[0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]],
            [[0.0, 0.0, 0.0, 0.0], [-1.0, 0.0, -1.0, 0.0], [0.0, -1.0, -0.5, -1.0]],
        ],
        [[1.0, 0.0], [1.0, 0.0], [1.0, 0.0], [1.0, 0.0, 0.0]],
    ),
    "two-scc": (
        [
            [
                [1.0, 0.0, 0.0, 0.0, 0.0],
                [0.0, 1.0, 0.0, 0.0, 0.0],
                [0.0, 0.0, 1.0, 0.0, 0.0],
                [0.0, 0.0, 0.0, 1.0, 0.0],
            ],
            [[1.0, 0.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0, 0.0]],
            [[0.0, 1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]],
            [[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]],
            [[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0]],
            [[0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0, 0.0]],
            [[0.0, 0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 0.0, 1.0]],
        ],
        [
            [1.0, 0.0, 0.0, 0.0],
            [0.0, 1.0],
            [0.0, 1.0],
            [1.0, 0.0],
            [1.0, 0.0],
            [0.0, 0.0, 1.0],
            [0.0, 1.0, 0.0],
        ],
    ),
}

# Tokens, queries and scores: what is trained is a matrix.
_QUERIED: dict[str, tuple[Any, Any, Any]] = {
    "w22": (
        [[[1.0, 1.0], [0.0, -1.0], [-2.0, -0.5]], [[-0.5, -2.0], [-2.0, 2.0], [0.5, -1.0]]],
        [[-0.5, 2.0], [1.5, 1.5]],
        [[1.0, 0.0, 2.0], [2.0, 0.0, 1.0]],
    ),
    "w44": (
        [
            [[0.0, 2.0, -1.5, 2.0], [-1.0, -0.5, 1.5, -0.5], [0.0, -2.0, 1.0, 0.0]],
            [[-0.5, 1.0, -1.0, 0.0], [-1.5, -0.5, -1.0, -1.0], [1.0, -1.0, 0.0, 2.0]],
            [[2.0, 1.0, 0.0, -1.0], [-1.5, 2.0, 0.0, -1.5], [0.5, 1.0, 0.5, 1.5]],
            [[-2.0, 0.0, 0.0, -2.0], [0.5, 1.5, 0.5, -1.0], [1.5, 0.0, 0.0, 1.0]],
        ],
        [[-1.5, 1.5, 0.5, 1.0], [-1.0, 1.0, -1.0, -1.5], [1.5, 1.5, 1.5, 0.0], [-1.0, -2.0, 0.5, 1.0]],
        [[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 2.0, 1.0], [2.0, 1.0, 0.0]],
    ),
}


FILES = Path(__file__).with_name("examples")

# Name: a line about it, and the id of the figure or the older name that also finds it.
_EXAMPLES: dict[str, tuple[str, str]] = {
    "two-inputs": (
        "two inputs of two tokens in the plane; from some starts a worse token is kept",
        "B-FIG-8",
    ),
    "three-inputs": ("three inputs of four tokens in the plane; three directions attract", ""),
    "opposed": ("two inputs whose best tokens pull in opposite directions", ""),
    "saddle": ("one input in the plane with a critical direction between two basins", ""),
    "queries": ("three inputs of three tokens in space, a query each; a matrix is trained", "w33"),
    "triangle": ("one input of three tokens in the plane with two different scores", "B-FIG-1a"),
    "triangle-local": ("the triangle with three different scores; a worse token attracts too", "B-FIG-1b"),
    "clusters": ("three inputs of seven tokens in three clusters; only the best tokens attract", "B-FIG-1c"),
    "readout": ("three inputs of two tokens, scored by a readout v that can be trained", "B-FIG-3a"),
    "readout-slack": ("the same with one token moved, so that its input does not bind", "B-FIG-3b"),
    "skew": ("two inputs in the plane whose max margins differ between norms", ""),
    "flat": ("one input in space whose l1 max margin has many minimizers", ""),
    "plane": ("two inputs of three tokens in the plane on which optimizers differ", ""),
    "space-a": ("two inputs of three tokens in space; sign descent and Adam select other tokens", ""),
    "space-b": ("two inputs of three tokens in space on which optimizers differ", ""),
    "triple": ("three inputs of two tokens in space", ""),
    "ragged": ("four inputs of two to four tokens in four dimensions", ""),
    "cycle": ("labels that no direction separates: two tokens are preferred both ways", ""),
    "dependent": ("labels that no direction separates, with dependent keys", ""),
    "plane-plus": ("labels of which a plane's part does not separate and the rest does", ""),
    "two-scc": ("labels with two cycles of preferences", ""),
    "w22": ("two inputs of three tokens in the plane, a query each", ""),
    "w44": ("four inputs of three tokens in four dimensions, a query each", ""),
}
_OLDER = {older: name for name, (_, older) in _EXAMPLES.items() if older}


class Examples(dict[str, str]):
    """The names of the examples, each with a line about it.

    >>> import hardmax as hm
    >>> found = hm.data.examples()
    >>> found, found["opposed"]
    (Examples(23 names), 'two inputs whose best tokens pull in opposite directions')
    """

    def __repr__(self) -> str:
        return f"Examples({len(self)} names)"

    def __str__(self) -> str:
        width = max(map(len, self))
        return "\n".join(f"{name:<{width}}  {line}" for name, line in self.items())


def examples() -> Examples:
    """List the small problems that `example` makes.

    Returns:
        A dict from each name to a line about it; printing it shows a table.

    >>> import hardmax as hm
    >>> print(hm.data.examples())  # doctest: +ELLIPSIS
    two-inputs      two inputs of two tokens in the plane; from some starts a worse token is kept
    three-inputs    three inputs of four tokens in the plane; three directions attract
    ...
    """
    return Examples({name: line for name, (line, _) in _EXAMPLES.items()})


@check_arguments
def example(name: str, loss: str | None = None) -> Problem:
    """Make a small problem by its name.

    Args:
        name: one of `examples`; the id of a figure, such as "B-FIG-8", finds its data.
        loss: name of the loss; "logistic" by default, "log" for examples with labels, or that of the file.

    Returns:
        The problem.

    Raises:
        ValueError: if no example has this name.

    See also: `examples`, which lists the names.

    >>> import hardmax as hm
    >>> hm.data.example("two-inputs").keys.tolist()
    [[1.0, 0.0], [0.0, 0.0], [-1.0, 1.0], [1.0, 0.0]]
    >>> float(hm.max_margin(hm.data.example("skew"), norm="linf").margin), hm.data.example("cycle").loss.name
    (3.0, 'log')
    """
    own = _OLDER.get(name, name)
    if own not in _EXAMPLES:
        near = difflib.get_close_matches(name, [*_EXAMPLES, *_OLDER], 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"unknown example {name!r}.{hint} hm.data.examples() lists all names")
    if own in _SCORED:
        return Problem(*_SCORED[own], loss=loss or "logistic")
    if own in _LABELED:
        return Problem(*_LABELED[own], loss=loss or "log")
    if own in _QUERIED:
        return Problem.from_queries(*_QUERIED[own], loss=loss or "logistic")
    if own in _THIRD:
        inputs = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], _THIRD[own]]]
        return Problem.from_tokens(inputs, [1, -1, 1], readout=[-1.0, 0.0], loss=loss or "logistic")
    content = json.loads((FILES / f"{own}.json").read_text())
    content["loss"] = loss or content.get("loss", "logistic")
    return Problem.from_queries(**content) if "queries" in content else Problem(**content)


def load_problem(file: str | PathLike[str]) -> Problem:
    """Make the example of this name, or read a problem from a file: files have endings, and names do not."""
    return example(str(file)) if str(file) in _EXAMPLES else Problem.load(Path(file))
