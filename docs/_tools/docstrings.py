"""Docstrings as reStructuredText; ours are plain text, where a bar or a star means itself."""

import inspect
import re
from typing import Any

CODE = re.compile(r"(``.+?``|`[^`]+`)")
SECTIONS = {"Args:": "Arguments", "Returns:": "Returns", "Raises:": "Raises", "See also:": "See also"}


def escape(lines: list[str]) -> list[str]:
    r"""Return a docstring's lines with special characters escaped and sections as lists; examples are kept.

    >>> print(*escape(["|p| and W* of `flow`, with ``rate``; x_ too"]))
    \|p\| and W\* of :py:obj:`flow`, with ``rate``; x\_ too
    >>> escape([">>> 2 * 3", "6", "", "2 * 3"])
    ['>>> 2 * 3', '6', '', '2 \\* 3']
    >>> print(*escape(["Args:", "    a: one", "        line", "    b, c: two", "", "end"]), sep="\n")
    **Arguments**
    <BLANKLINE>
    - ``a``: one
      line
    - ``b``, ``c``: two
    <BLANKLINE>
    end
    >>> print(*escape(["See also: `hm.flow` for flows."]), sep="\n")
    **See also**
    <BLANKLINE>
    :py:obj:`hm.flow <hardmax.flow>` for flows.
    >>> print(*escape(["Returns:", "    A `Run`, or a", "    list of them."]), sep="\n")
    **Returns**
    <BLANKLINE>
    A :py:obj:`Run`, or a
    list of them.
    """
    result, example = [], False
    for line in _sections(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        kept = example or line.startswith("**")
        result.append(line if kept else "".join(map(_escaped, CODE.split(line))))
    return result


def _sections(lines: list[str]) -> list[str]:
    """Return the lines with each section under a bold title, its named entries as the items of a list."""
    result, inside, listed = [], False, False
    for line in lines:
        title = next((each for each in SECTIONS if line.startswith(each)), None)
        if title:
            rest = line.removeprefix(title).strip()
            result += [f"**{SECTIONS[title]}**", "", *([rest] if rest else [])]
            inside, listed = True, False
            continue
        inside = inside and (line.startswith("    ") or not line)
        if not inside or not line:
            result.append(line)
            continue
        item = re.match(r"    (\w+(?:, \w+)*): (.*)", line)
        if item:
            names = ", ".join(f"``{name}``" for name in item[1].split(", "))
            result.append(f"- {names}: {item[2]}")
            listed = True
        else:
            result.append(f"  {line.strip()}" if listed else line.strip())
    return result


def _escaped(part: str) -> str:
    if part.startswith("``"):
        return part
    if part.startswith("`"):
        name = part.strip("`")
        if re.fullmatch(r"hm(\.\w+)+", name):
            return f":py:obj:`{name} <{name.replace('hm', 'hardmax', 1)}>`"
        return f":py:obj:{part}"
    return re.sub(r"([\\*|_])", r"\\\1", part)


def summary(thing: Any) -> str:
    """Return the first sentence of a docstring, escaped.

    >>> import hardmax as hm
    >>> summary(hm.solve)
    'List the directions that attract training, each with a proof.'
    """
    paragraph = " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())
    return escape([re.split(r"(?<=\.)\s+(?=[A-Z])", paragraph)[0]])[0]
