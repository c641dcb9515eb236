"""What a terminal and a shell are told: exit codes, safe characters, pages as wide as the window.

Nothing heavy is imported at the top, so that errors can be told from the first moment on.
"""

from __future__ import annotations

import io
import re
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text

# What `page` and `html` draw: a text, a pair of a text and its style, something of rich, or a list of these.
Page: TypeAlias = Any

# how a command ends
DONE = 0
NOT_AS_EXPECTED = 1
BAD_INPUT = 2
INCOMPLETE = 3
INTERRUPTED = 130


def ending(*, interrupted: bool = False, wrong: bool = False, incomplete: bool = False) -> int:
    """Return the exit code of a command that has a result."""
    if interrupted:
        return INTERRUPTED
    if wrong:
        return NOT_AS_EXPECTED
    return INCOMPLETE if incomplete else DONE


COMMAND = "hardmax "  # in a line that a reader may copy
NARROWEST = 60  # columns; a narrower terminal breaks the lines, where a table would leave columns out
LONGEST = 80  # characters of a user's sentence
LONG_NAME = 200  # characters of a path or another name in a message

# What steers a terminal, breaks a line unseen or turns the direction of reading; tabs and line feeds stay.
_CONTROLS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def visible(text: str) -> str:
    """Return a text with its control characters spelled out, as names of files may contain some."""
    return _CONTROLS.sub(lambda found: found.group().encode("unicode_escape").decode(), text)


def shown(value: Any) -> Any:
    """Return texts as a terminal can show them, also in lists and dictionaries: spelled out and shortened."""
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    if not isinstance(value, str):
        return value
    value, half = spelled(value), LONGEST // 2 - 3
    return value if len(value) <= LONGEST else f"{value[:half]} ... {value[-half:]}"


def spelled(text: str) -> str:
    """Escape a text if it has control characters, or characters that the terminal lacks."""
    encoding = sys.stdout.encoding or "utf-8"
    known = text.encode(encoding, "replace").decode(encoding) == text
    return text if known and text.isprintable() else ascii(text)


def brief(message: str, names: Iterable[str] = ()) -> str:
    """Cut the middle of a message's long words, and of those ``names`` that are long.

    What follows a command of hardmax stays whole, because a reader may copy it.

    >>> from hardmax._lib.terminal import brief
    >>> len(brief("/" + 3000 * "long/" + "name.json: no such file"))
    212
    >>> brief("a short name")
    'a short name'
    """
    text, command, rest = message.partition(COMMAND)
    for name in sorted(names, key=len, reverse=True):
        if len(name) > LONG_NAME:
            text = text.replace(name, _middle_cut(name))
    return re.sub(rf"\S{{{LONG_NAME + 1},}}", lambda found: _middle_cut(found.group()), text) + command + rest


def _middle_cut(name: str) -> str:
    half = LONG_NAME // 2 - 3
    return f"{name[:half]} ... {name[-half:]}"


def others(count: int) -> str:
    """Return how many others there are, in words."""
    return f"{count:,} other" + "s" * (count != 1)


def command_line(*words: Any, **options: Any) -> str:
    """Return a command of hardmax for a reader to copy; options that are None or False are left out.

    >>> from hardmax._lib.terminal import command_line
    >>> command_line("ntp", "train", "my notes.txt", max_length=8, resume=True, rate=None)
    "hardmax ntp train 'my notes.txt' --max-length 8 --resume"
    """
    written = [COMMAND.strip(), *map(str, words)]
    for name, value in options.items():
        option = f"--{name.replace('_', '-')}"
        if value is True:
            written.append(option)
        elif value is not None and value is not False:
            values = value if isinstance(value, list | tuple) else [value]
            written += [word for each in values for word in (option, str(each))]
    return shlex.join(written)


def columns() -> int:
    """Return the width of a page: that of the terminal, or 80 columns where there is none."""
    from rich.console import Console

    return max(Console().width, NARROWEST)


def fitted(text: Text, width: int) -> Text:
    """Continue lines that are too wide below, indented; a line with a command stays whole, to be copied.

    >>> from rich.text import Text
    >>> print(fitted(Text("  what is too wide goes on below"), 20).plain)
      what is too wide
        goes on below
    """
    from rich.text import Text

    lines: list[Text] = []
    for line in text.split("\n", allow_blank=True):
        if line.cell_len <= width or COMMAND in line.plain:
            lines.append(line)
            continue
        inset = len(line.plain) - len(line.plain.lstrip()) + 2
        breaks, column = [], 0
        for word in re.finditer(r"\s*\S+\s*?", line.plain):  # a word is never cut, as rich would
            if column + len(word.group()) > width:
                breaks.append(word.end() - len(word.group().lstrip()))
                column = inset - (len(word.group()) - len(word.group().lstrip()))
            column += len(word.group())
        first, *rest = line.divide(breaks)
        lines += [first, *(Text(" " * inset) + more for more in rest)]
    for line in lines:
        line.rstrip()
    return Text("\n").join(lines)


def grid(
    names: Sequence[str],
    rows: Iterable[Sequence[str]],
    styles: Iterable[str] = (),
    *,
    numbers: Sequence[str] = (),
    wrapped: Sequence[str] | None = None,
    widths: Sequence[int] | None = None,
    head: bool = True,
) -> Table:
    """Return a table without lines, of texts without markup.

    Columns of ``numbers`` are aligned to the right. Lines of ``wrapped`` columns may break; by default those
    of the last column. ``widths`` fix those of the columns.
    """
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=head)
    for name, width in zip_longest(names, widths or ()):
        align: Any = "right" if name in numbers else "left"
        no_wrap = name not in (names[-1:] if wrapped is None else wrapped)
        table.add_column(Text(name), no_wrap=no_wrap, justify=align, overflow="fold", width=width)
    for row, style in zip_longest(rows, styles, fillvalue=""):
        table.add_row(*map(Text, row), style=style)
    return table


def page(content: Page, *, styled: bool | None = False) -> str:
    """Return a page as text; ``styled`` with colors, None with colors if they are forced."""
    stream = io.StringIO()  # rich itself ends the process where a pipe is closed
    _draw(content, _console(file=stream, force_terminal=styled))
    return stream.getvalue()


def html(content: Page) -> str:
    """Return a page as HTML, with its colors."""
    console = _console(file=io.StringIO(), record=True, force_terminal=True, color_system="truecolor")
    _draw(content, console)
    frame = '<pre style="line-height:normal;white-space:pre;overflow-x:auto">{code}</pre>'
    return console.export_html(inline_styles=True, code_format=frame)


def _console(**options: Any) -> Console:
    from rich.console import Console

    console = Console(highlight=False, force_jupyter=False, **options)
    console.width = columns()
    return console


def _draw(content: Page, console: Console) -> None:
    from rich.text import Text

    for part in content if isinstance(content, list) else [content]:
        part = Text(part) if isinstance(part, str) else Text(*part) if isinstance(part, tuple) else part
        part = fitted(part, console.width) if isinstance(part, Text) else part
        console.print(_Visible(part), soft_wrap=True)


@dataclass(frozen=True)
class _Visible:
    """What rich draws, with the control characters of its texts spelled out, not those of its styles."""

    table: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        from rich.segment import Segment

        for segment in console.render(self.table, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
