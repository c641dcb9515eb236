"""Every public name and the package it belongs to, for the API reference."""

import ast
import functools
import importlib
from pathlib import Path
from typing import Any

import hardmax

STUB = ast.parse(Path(hardmax.__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
IMPORTS = [node for node in STUB.body if isinstance(node, ast.ImportFrom)]
NAMES = {alias.name: node.module for node in IMPORTS if node.module for alias in node.names}
MODULES = [alias.name for node in IMPORTS if not node.module for alias in node.names]


def homes() -> dict[str, str]:
    """Public names with their dots, and where each lives; what two packages share counts once.

    >>> found = homes()
    >>> found["hardmax.flow"], found["hardmax.data.sphere"]
    ('hardmax.dynamics.flow', 'hardmax.data')
    >>> "hardmax.Corpus" in found, "hardmax.embeddings.Corpus" in found
    (True, False)
    """
    found = {f"hardmax.{name}": f"hardmax.{home}" for name, home in NAMES.items()}
    for name in MODULES:
        package, home = importlib.import_module(f"hardmax.{name}"), name
        for inner in package.__all__:
            # what stands in hm.torch stands there alone, and is not asked for: PyTorch may be absent
            own = name == "torch" or inner not in NAMES
            if own or getattr(hardmax, inner) is not getattr(package, inner):
                found[f"hardmax.{name}.{inner}"] = f"hardmax.{home}"
    return found


def names_of(place: str) -> list[str]:
    """The public names of a package or module, but for those of a public package inside it.

    >>> "hardmax.Problem" in names_of("hardmax.problem")
    True
    >>> sorted(names_of("hardmax.readouts"))[-2:]
    ['hardmax.readouts.Readout', 'hardmax.readouts.Scores']
    """
    packages = [f"hardmax.{home}." for home in MODULES]
    inner = tuple(each for each in packages if each.startswith(f"{place}.") and each != f"{place}.")
    dotted = {name: f"{home}." for name, home in homes().items()}
    return [
        name for name, home in dotted.items() if home.startswith(f"{place}.") and not home.startswith(inner)
    ]


def thing_of(name: str) -> Any:
    """What a dotted name stands for, reached as a user reaches it.

    >>> thing_of("hardmax.readouts.Scores").__name__
    'Scores'
    """
    return functools.reduce(getattr, name.split(".")[1:], hardmax)
