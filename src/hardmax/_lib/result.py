"""Result: what a function returns and its command prints, as JSON, table, line, HTML, frame and LaTeX."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax import __version__
from hardmax._lib.json import attributes, plain
from hardmax._lib.notebook import image
from hardmax._lib.terminal import DONE, Page, html, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

_LATEX = {c: f"\\{c}" for c in "&%$#_{}"} | {"\\": r"\textbackslash{}", "^": r"\^{}", "~": r"\~{}"}


class Shown(ABC):
    """Base of objects with a table: ``repr`` is one line, ``print`` and a notebook show the table."""

    @abstractmethod
    def table(self) -> Page:
        """Return what is printed, as wide as the terminal and with colors."""

    @property
    def headline(self) -> str:
        """The result in one line."""
        return next((line for line in str(self).splitlines() if line.strip()), "")

    def __str__(self) -> str:
        return page(self.table()).removesuffix("\n")

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.headline}>"

    def _repr_html_(self) -> str:
        return html(self.table())


class Tabular(ABC):
    """Base of objects with rows that become a data frame or a LaTeX table."""

    @abstractmethod
    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows, each with the same columns."""

    def to_frame(self) -> DataFrame:
        """Return `records` as a pandas DataFrame.

        Raises:
            ImportError: If pandas is not installed.
        """
        try:
            import pandas
        except ImportError as error:
            raise ImportError("to_frame needs pandas: pip install pandas") from error
        return pandas.DataFrame([*self.records()])

    def to_latex(self) -> str:
        r"""Return `records` as a LaTeX tabular.

        >>> import hardmax as hm
        >>> print(hm.verify("B-ASM-B").to_latex().splitlines()[0])
        \begin{tabular}{lllll}
        """
        rows = [*self.records()]
        names = [*rows[0]] if rows else []
        lines = [" & ".join(map(_latex, cells)) for cells in (names, *(row.values() for row in rows))]
        begin = rf"\begin{{tabular}}{{{'l' * len(names)}}}"
        return "\n".join([begin, *(rf"{line} \\" for line in lines), r"\end{tabular}"])


class Result(Shown, Tabular):
    """Base of the results of commands; the classes that inherit from it are frozen dataclasses.

    A notebook shows the table with its picture, if there is one.

    >>> import hardmax as hm
    >>> result = hm.certify(hm.max_margin(hm.data.example("B-FIG-8"), [0, 0]).to_dict())
    >>> result.exit_code, result.json()["schema"]
    (0, 'hardmax.certify/1')
    """

    schema: ClassVar[str]
    json_fields: ClassVar[tuple[str, ...]] = ()  # attributes that the JSON object has under the same names
    row_field: ClassVar[str] = ""  # the field of the JSON object that lists the rows of the result

    def fields(self) -> Mapping[str, Any]:
        """Return the fields of the JSON object, named as in the schema of the command."""
        return attributes(self, *self.json_fields)

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 done, 1 not as expected, 3 incomplete, 130 interrupted."""
        return DONE

    @property
    def interruption(self) -> str | None:
        """After an interrupt: what is kept, and the command that resumes."""
        return None

    def json(self) -> dict[str, Any]:
        """Return the object that the command prints as JSON: lists and numbers, None for what JSON lacks."""
        return plain({"schema": self.schema, "version": __version__, **self.fields()})

    def records(self) -> Sequence[Mapping[str, Any]]:
        """Return the rows of the result, each with the same columns; by default one of all plain fields."""
        if self.row_field:
            rows: list[dict[str, Any]] = self.json()[self.row_field]
            return rows
        simple = {name: x for name, x in self.json().items() if not isinstance(x, dict | list)}
        return [{name: x for name, x in simple.items() if name not in ("schema", "version")}]

    def _picture(self) -> Figure | None:
        """Return what a notebook shows below the table."""
        return None

    def _repr_html_(self) -> str:
        picture = self._picture()
        return super()._repr_html_() + ("" if picture is None else image(picture))


def _latex(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | tuple):
        return " ".join(map(_latex, value))
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return "".join(_LATEX.get(letter, letter) for letter in text)
