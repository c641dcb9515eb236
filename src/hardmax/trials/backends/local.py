"""Local processes, each with a thread of the driver that talks to it.

Workers are fresh interpreters rather than forks: they never inherit the threads of compiled code. A worker's
death is known to the one batch that it held. It ends with its driver, however the driver ends: the operating
system closes the pipe, and the thread that reads it ends the process.
"""

from __future__ import annotations

import concurrent.futures as futures
import contextlib
import os
import pickle
import queue
import subprocess
import threading
from collections.abc import Collection
from typing import Any, BinaryIO

from hardmax._lib.children import command, search_path
from hardmax._lib.compiling import Compiled
from hardmax._lib.parallel import cores
from hardmax.trials.backends import WorkerDied
from hardmax.trials.provenance import Function
from hardmax.trials.work import ONE_THREAD, Batch, Job, Report, run_batch, run_job

Handle = futures.Future[Report]


class Local:
    """Workers on this machine, one for each core by default."""

    def __init__(self, job: Job, workers: int | None) -> None:
        self.job = job
        self.workers = workers or cores()
        self.threads = futures.ThreadPoolExecutor(self.workers, thread_name_prefix="hardmax-sweep")
        self.mine = threading.local()
        self.lock = threading.Lock()
        self.processes: set[subprocess.Popen[bytes]] = set()
        self.closed = False

    @property
    def capacity(self) -> int:
        """Twice the workers: the next batch is there when one is finished."""
        return 2 * self.workers

    def submit(self, batch: Batch) -> Handle:
        """Queue a batch for the next free worker."""
        return self.threads.submit(self._run, batch)

    def wait(self, handles: Collection[Handle], seconds: float | None = None) -> list[Handle]:
        """The finished ones, as soon as there is one."""
        return list(futures.wait(handles, seconds, futures.FIRST_COMPLETED).done)

    def report(self, handle: Handle) -> Report:
        """What the worker answered."""
        return handle.result()

    def close(self) -> None:
        """Kill the workers, whatever they are doing, and wait for the threads."""
        with self.lock:
            self.closed = True
            for process in self.processes:
                process.kill()
        self.threads.shutdown(cancel_futures=True)
        for process in self.processes:
            _reap(process)

    def _run(self, batch: Batch) -> Report:
        process: subprocess.Popen[bytes] | None = getattr(self.mine, "process", None)
        if process is None:
            process = self.mine.process = self._start()
        try:
            answer = _exchange(process, (self.job, batch))
        except (EOFError, OSError, pickle.UnpicklingError):
            self.mine.process = None
            with self.lock:
                self.processes.discard(process)
            raise WorkerDied(_reap(process)) from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _start(self) -> subprocess.Popen[bytes]:
        with self.lock:
            if self.closed:
                raise WorkerDied("the sweep is closing")
            process = subprocess.Popen(
                command("hardmax.trials.backends.local"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=os.environ | ONE_THREAD | {"PYTHONPATH": search_path()},
                process_group=0,  # Ctrl-C is for the driver, which decides; a worker may still be starting
            )
            self.processes.add(process)
        try:
            ready = _exchange(process)
        except (EOFError, OSError):
            ready = None
        if ready != READY and not self.closed:
            raise RuntimeError(f"a worker could not start ({_reap(process)}); its message is above")
        return process


def _exchange(process: subprocess.Popen[bytes], message: Any = None) -> Any:
    assert process.stdin is not None
    assert process.stdout is not None
    if message is not None:
        pickle.dump(message, process.stdin)
        process.stdin.flush()
    return pickle.load(process.stdout)


def _reap(process: subprocess.Popen[bytes]) -> str:
    """Wait for a process that is dead or dying, close its pipes and say how it ended."""
    process.kill()
    code = process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with contextlib.suppress(OSError):  # what was buffered for a dead process
                pipe.close()
    return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


class Here:
    """The plain loop behind the same seam, for debugging and for notebooks."""

    capacity = 1

    def __init__(self, function: Function, batched: bool, seed: int) -> None:
        self.function = function
        self.batched = batched
        self.seed = seed

    def submit(self, batch: Batch) -> Handle:
        """Run the batch now."""
        handle: Handle = futures.Future()
        handle.set_result(run_batch(self.function, self.batched, self.seed, batch))
        return handle

    def wait(self, handles: Collection[Handle], seconds: float | None = None) -> list[Handle]:
        """All of them."""
        return list(handles)

    def report(self, handle: Handle) -> Report:
        """What became of the batch."""
        return handle.result()

    def close(self) -> None:
        """Nothing was started."""


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
