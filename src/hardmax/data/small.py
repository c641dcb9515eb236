"""Small problems by name, each a file of the folder ``examples``."""

from __future__ import annotations

import difflib
import json
from os import PathLike
from pathlib import Path

from hardmax._lib.arguments import check_arguments
from hardmax.problem import Problem

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
    >>> examples = hm.data.examples()
    >>> examples, examples["opposed"]
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
    key = _OLDER.get(name, name)
    if key not in _EXAMPLES:
        raise ValueError(f"unknown example {name!r}.{_hint(name)} hm.data.examples() lists all names")
    content = json.loads((FILES / f"{key}.json").read_text())
    content["loss"] = loss or content.get("loss", "logistic")
    if "readout" in content:
        return Problem.from_tokens(**content)
    return Problem.from_queries(**content) if "queries" in content else Problem(**content)


def _hint(name: str) -> str:
    """Return a question about the examples whose names begin with or resemble this one; it may be empty."""
    near = [key for key in _EXAMPLES if key.startswith(name)] if name else []
    near = near or difflib.get_close_matches(name, [*_EXAMPLES, *_OLDER], 1)
    return f" Did you mean {' or '.join(map(repr, near[:3]))}?" if near else ""


def load_problem(file: str | PathLike[str]) -> Problem:
    """Make the example of this name, or read a problem from a file: files have endings, and names do not."""
    name = str(file)
    if name in _EXAMPLES or name in _OLDER:
        return example(name)
    if not Path(name).suffix and not Path(name).exists():
        raise FileNotFoundError(
            f"no example and no file is called {name!r}.{_hint(name)} The examples are "
            f"{', '.join(_EXAMPLES)}; files of problems end in .json, .npz or .csv"
        )
    return Problem.load(Path(name))
