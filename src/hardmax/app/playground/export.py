"""Write the playground as one file that needs neither Python nor a network.

The file holds answers that Python gave when it was written: about the exported state, the guided tour and the
examples of sentences and texts. A planar engine in JavaScript answers what a visitor changes in the plane.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from hardmax._lib.files import whole
from hardmax._lib.json import plain
from hardmax._lib.result import Result
from hardmax.app.playground import page
from hardmax.app.playground.engine import answer
from hardmax.app.playground.links import state_of
from hardmax.app.playground.plane import FIELDS, FINEST, NORMS, RULES
from hardmax.app.playground.scenes import tour

LARGEST = 1_000_000  # bytes


@dataclass(frozen=True, repr=False)
class ExportedPage(Result):
    """A page that was written.

    >>> from hardmax.app.playground.export import ExportedPage
    >>> ExportedPage("page.html", 400_000)
    <ExportedPage: page.html: 400,000 bytes>
    """

    schema: ClassVar[str] = "hardmax.play/1"
    json_fields: ClassVar = ("file", "bytes")

    file: str
    bytes: int

    def table(self) -> str:
        """Return what the command prints."""
        return f"{self.file}: {self.bytes:,} bytes"


def export_page(path: str | os.PathLike[str], what: Any = None) -> ExportedPage:
    """Write the playground as one file that opens in any browser without a network.

    Args:
        path: The file to write, usually with the ending .html.
        what: A planar `Problem`, a file of one, sentences, a link, or a state; the guided tour by default.

    Returns:
        The name and size of the file.
    """
    state = what if isinstance(what, dict) else state_of(what)
    content = _page(state).encode()
    if len(content) > LARGEST:
        raise ValueError(
            f"the page would have {len(content):,} bytes, more than {LARGEST:,}; export a smaller state"
        )
    with whole(Path(path)) as file:
        file.write(content)
    return ExportedPage(os.fspath(path), len(content))


def _page(state: dict[str, Any] | None) -> str:
    guided = tour()
    states = [scene["state"] for scene in guided["scenes"]] + [guided["sentences"], guided["words"]]
    questions = [question for example in states for question in _questions(example, wide=False)]
    if state is not None:
        questions += _questions(state, wide=True)
    answers: list[Any] = [({"ask": "tour"}, guided)]
    for question in {json.dumps(question): question for question in questions}.values():
        level = {"level": FINEST} if question["ask"] == "field" else {}
        answers.append((question, answer({**question, **level})))
    record = json.dumps(plain({"state": state, "answers": answers}), separators=(",", ":"), allow_nan=False)
    script, style = page.script() + page.template("exported.js"), page.style()
    policy = (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; "
        "img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'"
    )
    packed = base64.b64encode(gzip.compress(record.encode(), mtime=0)).decode()
    head = f"""<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="generator" content="hardmax {guided["version"]}">
<style>{style}</style>"""
    scripts = f"""<script type="application/json" id="record">{packed}</script>
<script type="module">{script}</script>"""
    return page.document(head, scripts)


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _questions(state: dict[str, Any], *, wide: bool) -> Iterator[dict[str, Any]]:
    """Yield the questions that the page asks about a state; ``wide``: also with other rules and norms."""
    yield {"ask": "python", "state": state}
    if state["scene"] == "sentences":
        data = {"sentences": state["sentences"]}
        yield {"ask": "check", **data}
        if answer({"ask": "check", **data})["learnable"]:
            yield {"ask": "learn", **data}
            if state["prompt"].strip():
                yield {"ask": "predict", **data, "prompt": state["prompt"]}
    elif state["scene"] == "words":
        yield {"ask": "words", **{name: state[name] for name in ("texts", "epochs", "rate", "least")}}
        yield {"ask": "file", "state": state}
    else:
        for norm in NORMS if wide else (state["norm"],):
            data = {"problem": state["problem"], "norm": norm, "span": state["span"]}
            every = wide and norm == state["norm"]
            yield {"ask": "solve", **data}
            for rule in RULES if every else state["rules"]:
                for start in state["starts"]:
                    yield {"ask": "train", **data, "rules": [rule], "rate": state["rate"], "starts": [start]}
            yield from (
                {"ask": "field", **data, "rule": rule}
                for rule in (FIELDS if every else (state["field"],))
                if rule
            )
            if state["needles"] or every:
                yield {"ask": "gradients", **data}
