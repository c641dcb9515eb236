"""The page in a notebook cell: an anywidget whose messages go to the same engine."""

from __future__ import annotations

import atexit
import os
import threading
from functools import cache
from typing import Any

import anywidget
import traitlets

from hardmax.app.playground import page, protocol
from hardmax.app.playground.export import ExportedPage, export_page
from hardmax.app.playground.links import state_of
from hardmax.app.playground.workers import Workers


@cache
def shared() -> Workers:
    """Return the engines of this kernel, which all its widgets share."""
    workers = Workers()
    atexit.register(workers.close)
    return workers


class Playground(anywidget.AnyWidget):  # type: ignore[misc]
    """The playground as a widget; ``state`` is what the page shows, and can be set."""

    _esm = page.script() + page.template("widget.js")
    _css = page.style()
    state = traitlets.Dict(allow_none=True, default_value=None).tag(sync=True)

    def __init__(self, what: Any = None) -> None:
        super().__init__(state=state_of(what))
        shared()  # ready by the time the first question comes
        self.on_msg(self._receive)

    def export(self, path: str | os.PathLike[str]) -> ExportedPage:
        """Write what the page shows as one file that needs neither Python nor a network."""
        return export_page(path, self.state)

    def _receive(self, _: Any, content: Any, __: Any) -> None:
        """Ask a question in a thread, so that the notebook goes on meanwhile."""
        if isinstance(content, dict) and isinstance(content.get("raw"), str):
            threading.Thread(
                target=self._answer, args=(content.get("id"), content["raw"]), daemon=True
            ).start()

    def _answer(self, name: Any, raw: str) -> None:
        limit = f"a message must have at most {protocol.MOST_BYTES:,} bytes, got more"
        is_long = len(raw) > protocol.MOST_BYTES
        reply = protocol.pack_refusal(limit) if is_long else shared().ask(raw.encode(), self.model_id or "")
        self.send({"id": name, "reply": reply.decode()})
