"""A local worker process: batches come in by standard input, outcomes go out by standard output.

It is started by `hardmax.trials.backends.local` and ends with its driver, however the driver ends: the
operating system closes the pipe, and the thread that reads it ends the process.
"""

from __future__ import annotations

import os
import pickle
import queue
import threading
from typing import Any, BinaryIO

from hardmax._lib.compiling import Compiled
from hardmax.trials.work import Batch, Job, run_job

READY = "ready"


def main() -> None:
    """Answer batches until standard input is closed."""
    Compiled.may_say = False  # the driver has spoken
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a trial prints must not mix with the answers
    batches = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)  # nor may it, or a program it starts, read the batches
    tasks: queue.SimpleQueue[tuple[Job, Batch]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(batches, tasks), daemon=True).start()
    _send(answers, READY)
    while True:
        job, batch = tasks.get()
        try:
            answer: Any = run_job(job, batch)
        except Exception as error:  # not a trial's: those are outcomes
            answer = ValueError(f"a worker cannot load {job.name}: {error}")
        _send(answers, answer)


def _listen(stream: BinaryIO, tasks: queue.SimpleQueue[tuple[Job, Batch]]) -> None:
    try:
        while True:
            tasks.put(pickle.load(stream))
    finally:
        os._exit(0)


def _send(stream: BinaryIO, message: Any) -> None:
    pickle.dump(message, stream)
    stream.flush()
