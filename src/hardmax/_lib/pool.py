"""Python processes that hardmax starts, one at a time or a pool of them, and their messages.

They are fresh interpreters rather than forks, which would inherit the threads of compiled code, and import
what this process would import, and nothing else: without ``-P`` Python puts the current folder first on the
path of ``-c`` and ``-m``, so that a file there named as a module would be run in its place. Questions and
answers are frames: eight bytes of length, most significant first, then that many bytes. A process ends with
the one that started it, however that ends: the operating system closes the pipe, and the thread that reads it
ends the process. This module imports nothing but the standard library, so that a process starts at once.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import queue
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO, Any, cast

READY = b"ready"


class WorkerDied(Exception):
    """A worker ended while it held a batch: killed, out of memory, or crashed in compiled code."""


def command(module: str) -> list[str]:
    """Return the command that runs ``main()`` of a module in another process."""
    return [sys.executable, "-P", "-c", f"from {module} import main; main()"]


_folders: set[str] = set()


def append_folder(folder: str) -> None:
    """Let this process import from the folder of a file that it runs, after everything else."""
    if folder not in sys.path:
        sys.path.append(folder)
        _folders.add(folder)


def search_path() -> str:
    """Return the import path of this process, as the ``PYTHONPATH`` of another.

    Without the folders of files that this process runs: there Python would find a sitecustomize.py and run
    it at once. Who runs such a file in another process appends its folder there again.
    """
    return os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry not in _folders)


def send(stream: IO[bytes], content: bytes) -> None:
    """Write one frame."""
    stream.write(struct.pack(">Q", len(content)) + content)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read one frame; None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    size = struct.unpack(">Q", head)[0]
    content = stream.read(size)
    return content if len(content) == size else None


def serve(answer: Callable[[bytes], bytes], *, greet: bool = True) -> None:
    """Answer frames from standard input until it is closed.

    What is printed meanwhile goes to standard error, and what reads standard input finds it empty.

    Args:
        answer: makes the answer to a frame.
        greet: whether to send `READY` first.
    """
    outward = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    inward = os.fdopen(os.dup(0), "rb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    frames: queue.SimpleQueue[bytes] = queue.SimpleQueue()

    def listen() -> None:
        try:
            while (frame := receive(inward)) is not None:
                frames.put(frame)
        finally:
            os._exit(0)

    threading.Thread(target=listen, daemon=True).start()
    try:
        if greet:
            send(outward, READY)
        while True:
            reply = answer(frames.get())
            with contextlib.suppress(OSError):
                print(end="", flush=True)  # the process may end by os._exit, which flushes nothing
            send(outward, reply)
    except BrokenPipeError:
        os._exit(0)  # a normal end would flush the pipe


class Child:
    """A process that answers one frame at a time.

    Args:
        command: the program and its arguments.
        environment: variables in addition to those of this process.
        flags: how Windows creates the process.
    """

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str] | None = None, *, flags: int = 0
    ) -> None:
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": search_path(), **(environment or {})},
            start_new_session=os.name == "posix",  # Ctrl-C is for the process that started it
            creationflags=flags,
        )
        self._in, self._out = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)
        self.is_late = False

    def hear(self) -> bytes | None:
        """Return the next frame; None if the process died."""
        with contextlib.suppress(OSError, ValueError):
            return receive(self._out)
        return None

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that a process writes in place of frames, until it ends."""
        yield from self._out

    def ask(self, content: bytes, seconds: float | None = None) -> bytes | None:
        """Return the answer; None if the process died, or was ended at its deadline."""
        timer = None
        if seconds is not None:
            timer = threading.Timer(seconds, self._expire)
            timer.daemon = True
            timer.start()
        try:
            send(self._in, content)
            return self.hear()
        except (OSError, ValueError):
            return None
        finally:
            if timer is not None:
                timer.cancel()

    def _expire(self) -> None:
        self.is_late = True
        self.end()

    @property
    def status(self) -> int | None:
        """How the process ended, below zero by a signal; None if it has not."""
        return self._process.poll()

    def end(self) -> None:
        """End the process, at once."""
        with contextlib.suppress(OSError):
            self._process.kill()

    def release(self, seconds: float) -> None:
        """Close its standard input, at which it may end by itself; end it after some seconds."""
        with contextlib.suppress(OSError):
            self._in.close()
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.end()
            self._process.wait()

    def close(self) -> str:
        """End it, let go of its pipes and return how it ended."""
        self.end()
        code = self._process.wait()
        for stream in (self._in, self._out):
            with contextlib.suppress(OSError):  # what was buffered for a process that is gone
                stream.close()
        return f"killed by signal {-code}" if code < 0 else f"exit code {code}"


class Pool:
    """Processes that answer pickled messages, each started when there is work for it.

    A process that dies is replaced, and its death is known to the one message that it held.

    Args:
        size: largest number of processes.
        command: the program of each of them, which ends in `serve`, and its arguments.
        environment: variables in addition to those of this process.
    """

    def __init__(
        self, size: int, command: Sequence[str], environment: Mapping[str, str] | None = None
    ) -> None:
        self.size, self._command, self._environment = size, command, environment
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="hardmax-pool")
        self._mine = threading.local()
        self._lock = threading.Lock()
        self._children: set[Child] = set()
        self._closed = False

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def submit(self, message: Any) -> Future[Any]:
        """Queue a message for the next free process; the answer may be a `WorkerDied`."""
        return self._threads.submit(self._ask, message)

    def close(self) -> None:
        """End the processes, whatever they are doing, and wait for the threads."""
        with self._lock:
            self._closed = True
            for child in self._children:
                child.end()
        self._threads.shutdown(cancel_futures=True)
        for child in self._children:
            child.close()

    def _ask(self, message: Any) -> Any:
        child: Child | None = getattr(self._mine, "child", None)
        if child is None:
            child = self._mine.child = self._start()
        answer = child.ask(pickle.dumps(message))
        if answer is None:
            self._mine.child = None
            with self._lock:
                self._children.discard(child)
            raise WorkerDied(child.close())
        return pickle.loads(answer)

    def _start(self) -> Child:
        with self._lock:
            if self._closed:  # nobody would end it
                raise WorkerDied("the pool is closing")
            child = Child(self._command, self._environment)
            self._children.add(child)
        if child.hear() != READY and not self._closed:
            raise RuntimeError(f"a worker could not start ({child.close()}); its message is above")
        return child
