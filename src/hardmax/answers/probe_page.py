"""The page of `hardmax probe`: one file, no network; words of the texts are data, never markup."""

from __future__ import annotations

import json
from html import escape
from importlib import resources
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib.json import plain

if TYPE_CHECKING:
    from hardmax.answers.probed import Probed


def page(answer: Probed) -> str:
    """The template with the answer in it."""
    told = answer.json()
    heads = {(head.layer, head.head): head for head in answer.heads.heads}
    data: dict[str, Any] = {**told, "words": _words(answer)}
    for each in data["heads"]:
        head = heads[each["layer"], each["head"]]
        each["top"] = head.top.tolist()
        each["gaps"] = plain(np.round(head.gaps, 2).tolist())
    # "<" may not appear inside a script; the browser reads \u003c as the same character
    inside = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    lines = "".join(f"<p>{escape(line)}</p>" for line in answer.findings("inner" if answer.inner else "all"))
    template = resources.files("hardmax.answers").joinpath("probe_page.html").read_text("utf-8")
    return template.replace("<!-- SENTENCES -->", lines).replace("/* DATA */", inside)


def _words(answer: Probed) -> list[list[str]]:
    """The tokens; those without words, such as patches of images, by their numbers."""
    found = []
    for s, words in enumerate(answer.heads.words):
        length = int(np.isfinite(answer.heads.heads[0].gaps[s]).sum()) + 1
        found.append(list(words) or [str(t) for t in range(length)])
    return found
