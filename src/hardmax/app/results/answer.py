"""Answer: what a command says, which knows its JSON, its exit code, its table and how a notebook shows it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from hardmax import __version__
from hardmax._lib.json import plain
from hardmax._lib.notebook import image
from hardmax._lib.terminal import DONE, html, page

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from rich.console import RenderableType


class Answer(ABC):
    """What every command prints and every verb of the same name returns.

    ``str`` and ``print`` give the table of the command, a notebook shows it with its picture, if it has one;
    `json` is the object of ``--json``, `exit_code` what the command ends with. The classes that inherit from
    it are frozen dataclasses.

    >>> import hardmax as hm
    >>> found = hm.certify(hm.max_margin(hm.data.example("B-FIG-8"), [0, 0]).to_dict())
    >>> isinstance(found, hm.answers.Answer), found.exit_code, found.json()["schema"]
    (True, 0, 'hardmax.certify/1')
    """

    schema: ClassVar[str]

    @abstractmethod
    def fields(self) -> Mapping[str, Any]:
        """The fields of the JSON, as the schema of the command names them."""

    @abstractmethod
    def table(self) -> RenderableType:
        """What the command prints, for rich to draw: as wide as the terminal, with colours."""

    @property
    def exit_code(self) -> int:
        """What the command ends with: 0 done, 1 not as expected, 3 incomplete, 130 interrupted."""
        return DONE

    def json(self) -> dict[str, Any]:
        """The object that ``--json`` prints: lists and plain numbers, None for what JSON lacks."""
        return plain({"schema": self.schema, "version": __version__, **self.fields()})

    def _picture(self) -> Figure | None:
        """What a notebook shows below the table, if anything."""
        return None

    def __str__(self) -> str:
        return page(self.table()).removesuffix("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        picture = self._picture()
        return html(self.table()) + ("" if picture is None else image(picture))
