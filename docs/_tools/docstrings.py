"""Docstrings as reStructuredText; ours are plain text, where a bar or a star means itself."""

import inspect
import re
from typing import Any

CODE = re.compile(r"(``.+?``|`[^`]+`)")


def escape(lines: list[str]) -> list[str]:
    r"""A docstring's lines with what reStructuredText would misread escaped; examples stay as they are.

    >>> print(*escape(["|p| and W* of `flow`, with ``rate``; x_ too"]))
    \|p\| and W\* of :py:obj:`flow`, with ``rate``; x\_ too
    >>> escape([">>> 2 * 3", "6", "", "2 * 3"])
    ['>>> 2 * 3', '6', '', '2 \\* 3']
    >>> print(*escape(["Args:", "    a: one", "        line", "    b, c: two", "", "end"]), sep="\n")
    Arguments:
    <BLANKLINE>
    - ``a``: one
      line
    - ``b``, ``c``: two
    <BLANKLINE>
    end
    """
    made, example = [], False
    for line in _listed(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        made.append(line if example else "".join(map(_escaped, CODE.split(line))))
    return made


def _listed(lines: list[str]) -> list[str]:
    """Lines below "Args:" as the items of a list, which reStructuredText would run together."""
    made, inside = [], False
    for line in lines:
        inside = inside and line.startswith("    ")
        item = re.match(r"    (\w+(?:, \w+)*): (.*)", line)
        if line == "Args:":
            made, inside = [*made, "Arguments:", ""], True
        elif inside and item:
            names = ", ".join(f"``{name}``" for name in item[1].split(", "))
            made.append(f"- {names}: {item[2]}")
        else:
            made.append(f"  {line.strip()}" if inside else line)
    return made


def _escaped(part: str) -> str:
    if part.startswith("``"):
        return part
    if part.startswith("`"):
        return f":py:obj:{part}"
    return re.sub(r"([\\*|_])", r"\\\1", part)


def summary(thing: Any) -> str:
    """The first sentence of a docstring, escaped.

    >>> import hardmax as hm
    >>> summary(hm.loss)
    "Mean loss over the inputs, or the sum of losses with the inputs' weights (B-DEF-1)."
    """
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return escape([re.split(r"(?<=\.)\s+(?=[A-Z])", paragraph)[0]])[0]
