"""ray: a node on this machine, or the cluster at an address.

Whoever reaches a port of ray can have it run code, so a node that is started here listens on the loopback
interface only and asks for a token that no file holds.
"""

from __future__ import annotations

import logging
import os
import pickle
import re
import secrets
import socket
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any

os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # before ray is imported
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # what ray warns to become its default

import ray

from hardmax._lib.parallel import cores
from hardmax._lib.pool import WorkerDied, search_path
from hardmax.trials.work import ONE_THREAD, Batch, Job, TrialOutcome, kept_environment, run_packed

WITH_TOKENS = (2, 59)  # the first version that asks for a token on a node of this machine by default
PATIENCE = 10  # seconds to wait for a cluster, where ray itself waits for minutes
NEEDED = ("gcs_server", "raylet")  # processes of a node without which it does nothing
OBJECT_STORE = 100 * 2**20  # bytes; reports are small


class Ray:
    """A driver of a ray cluster; hardmax has to be installed on its nodes."""

    def __init__(self, job: Job, workers: int | None, address: str | None) -> None:
        self.job, self.workers = job, workers
        self.started = not ray.is_initialized()
        is_own = self.started and address is None
        environment = ONE_THREAD | ({"PYTHONPATH": search_path()} if is_own else {})
        if self.started:
            options: dict[str, Any] = {"address": address}
            if address is None:
                options = {"address": "local", "include_dashboard": False, "num_cpus": workers or cores()}
                options["object_store_memory"] = OBJECT_STORE
            options |= {"logging_level": logging.ERROR, "log_to_driver": False, "job_config": _job_config()}
            try:
                _connect(address)
                with _shut_off() if address is None else nullcontext():
                    ray.init(**options)
            except ImportError:
                raise
            except Exception as error:  # ray has no class for this: a bare Exception if its node is late
                ray.shutdown()
                raise ValueError(_trouble(address, error)) from error
        # Retries are the sweep's: it halves a batch that kills its worker.
        settings = {"num_cpus": 1, "max_retries": 0, "runtime_env": {"env_vars": environment}}
        self.remote = ray.remote(**settings)(run_packed)
        self.node = ray._private.worker._global_node if is_own else None

    @property
    def capacity(self) -> int:
        """Twice the number of processors, so that the next batch is there when one is finished."""
        self._refuse_dead()
        return 2 * (self.workers or max(1, int(ray.cluster_resources().get("CPU", 1))))

    def submit(self, batch: Batch) -> Future[bytes]:
        """Hand a batch to ray."""
        return self.remote.remote(self.job, batch).future()

    def report(self, handle: Future[bytes]) -> list[TrialOutcome]:
        """Return the outcomes that the worker sent."""
        try:
            return pickle.loads(handle.result())
        except ray.exceptions.RayTaskError as error:
            raise error.cause from error
        except ray.exceptions.RayError as error:
            self._refuse_dead()
            raise WorkerDied(f"ray: {type(error).__name__}") from error

    def close(self) -> None:
        """Disconnect; a node that was started here is stopped."""
        if self.started:
            ray.shutdown()

    def _refuse_dead(self) -> None:
        """Raise before ray does: after a minute without its own node it ends the process with code 1."""
        for name, process in [] if self.node is None else self.node.dead_processes():
            if name in NEEDED:
                raise OSError(f"ray's own node has ended ({name}: exit code {process.returncode})")


class _DriverPath(list[str]):
    """The folders that ray's workers put first on their path: only those that this process imports from."""

    def extend(self, paths: Iterable[str]) -> None:
        """Add what ray wants to add, without the current folder unless this process has it too."""
        folders = search_path().split(os.pathsep)
        super().extend(path for path in paths if os.path.abspath(path) in folders)


def _job_config() -> Any:
    config = ray.job_config.JobConfig()
    config._py_driver_sys_path = _DriverPath()
    return config


@contextmanager
def _shut_off() -> Iterator[None]:
    """Start a node of this machine where only its owner's processes reach it.

    On Linux ray takes even 127.0.0.1 for the machine's public address, unless it is configured without
    clusters; it reads that when it is imported, and its own processes when they start.
    """
    if tuple(map(int, ray.__version__.split(".")[:2])) < WITH_TOKENS:
        raise ImportError(f"ray {ray.__version__} starts a node without a token; version 2.59 or newer")
    if not ray._raylet.AuthenticationTokenLoader.instance().has_token(ignore_auth_mode=True):
        os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)  # ray would put one where others may read it
    constants = ray._private.ray_constants
    before, constants.ENABLE_RAY_CLUSTER = constants.ENABLE_RAY_CLUSTER, False
    try:
        with kept_environment((), **{constants.ENABLE_RAY_CLUSTERS_ENV_VAR: "0"}):
            yield
    finally:
        constants.ENABLE_RAY_CLUSTER = before


def _connect(address: str | None) -> None:
    """Raise an OSError if nobody listens at an address that names a host and a port."""
    match = re.fullmatch(r"(?:\w+://)?(?P<host>.+):(?P<port>\d{1,5})", address or "")
    if match:
        socket.create_connection((match["host"].strip("[]"), int(match["port"])), PATIENCE).close()


def _trouble(address: str | None, error: Exception) -> str:
    """Return the message about a node that does not start, or a cluster that cannot be joined."""
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    if address is None:
        return f"ray cannot start here ({reason}); try the backend local, which needs no services"
    return (
        f"cannot join the ray cluster at address {address} ({reason}); is it running? If it asks for a "
        "token, as new versions of ray do, export RAY_AUTH_MODE=token first"
    )
