"""One engine in a separate process, which runs ``main`` and answers frames until its end.

The first frame decides how the engine runs: by compiled kernels, loaded from a folder where that is not the
usual one, or by their plain source, which is slower, while they are being compiled.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable

import numpy as np

from hardmax._lib.pool import READY, serve
from hardmax.app.playground.protocol import refused

_WARM = {"keys": [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], "scores": [[1.0, 0.0], [1.0, 0.0]]}
_FIRST = (
    {"ask": "solve", "problem": _WARM},
    {"ask": "solve", "problem": _WARM, "norm": "linf"},
    {
        "ask": "train",
        "problem": _WARM,
        "starts": [[1.0, 1.0]],
        "rules": ["flow", "gd", "normalized", "sign", "adam"],
    },
    {"ask": "field", "problem": _WARM, "level": 0},
    {"ask": "check", "sentences": ["a b", "b a"]},
    {"ask": "words", "texts": [["a b", 1], ["b a", -1]], "epochs": 1},
)


def settings(plain: bool, folder: str | None) -> bytes:
    """Return the first frame that a process gets."""
    return json.dumps({"plain": plain, "folder": folder}).encode()


def main() -> None:
    """Get ready as the first frame demands, report that, then answer what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    serve(_Engine().answer, greet=False)


class _Engine:
    """What answers, once the first frame has decided how."""

    reply: Callable[[bytes], bytes] | None = None

    def answer(self, raw: bytes) -> bytes:
        if self.reply is None:
            self.reply = _prepared(**json.loads(raw))
            return READY
        try:
            return self.reply(raw)
        except Exception as error:  # a mistake of ours must not end the page
            what = f"{type(error).__name__}: {error!s:.200}"
            return refused(f"the engine failed ({what}); try another setting")


def _prepared(plain: bool, folder: str | None) -> Callable[[bytes], bytes]:
    import numba

    if plain:
        numba.config.DISABLE_JIT = 1
        np.seterr(all="ignore")  # as compiled arithmetic
    elif folder:
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = folder
    from hardmax.app.playground.engine import reply

    for message in _FIRST[:1] if plain else _FIRST:
        reply(json.dumps({"v": 1, **message}).encode())
    return reply
