"""One engine in a separate process, which runs ``main`` and answers frames until its end.

The first frame decides how the engine runs: by compiled kernels, loaded from a folder where that is not the
usual one, or by their plain source, which is slower, while they are being compiled. A frame is four bytes of
length, most significant first, then that many bytes. A program is started, not a fork or a spawned copy, so
that nothing of the user's main module is imported again.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
from typing import IO

READY = b"ready"

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


def send(stream: IO[bytes], content: bytes) -> None:
    """Write one frame."""
    stream.write(struct.pack(">I", len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None at the end."""
    head = stream.read(4)
    if len(head) < 4:
        return None
    size = struct.unpack(">I", head)[0]
    content = stream.read(size)
    return content if len(content) == size else None


def settings(plain: bool, folder: str | None) -> bytes:
    """Return the first frame that a process gets."""
    return json.dumps({"plain": plain, "folder": folder}).encode()


def main() -> None:
    """Get ready as the first frame demands, report that, then answer what comes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which ends this process
    inward = sys.stdin.buffer
    outward = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what a library prints is not an answer
    import numba

    first = receive(inward)
    if first is None:
        return
    wanted = json.loads(first)
    if wanted["plain"]:
        import numpy as np

        numba.config.DISABLE_JIT = 1
        np.seterr(all="ignore")  # as compiled arithmetic
    elif wanted["folder"]:
        os.environ["NUMBA_CACHE_DIR"] = numba.config.CACHE_DIR = wanted["folder"]
    from hardmax.app.playground.engine import reply

    for message in _FIRST[:1] if wanted["plain"] else _FIRST:
        reply(json.dumps({"v": 1, **message}).encode())
    send(outward, READY)
    while (raw := receive(inward)) is not None:
        try:
            answered = reply(raw)
        except Exception as error:  # a mistake of ours must not end the page
            from hardmax.app.playground.protocol import refused

            answered = refused(
                f"the engine failed ({type(error).__name__}: {error!s:.200}); try another setting"
            )
        send(outward, answered)
