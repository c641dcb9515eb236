"""Functions that the tests sweep over; workers read this file. Kept light, since they read it often."""

import math
import os
import signal
import time
from pathlib import Path

import hardmax as hm


def rows(parameters, seed):
    """All kinds of results, some of them failures, as a function of the seed alone."""
    if seed % 23 == 0:
        raise RuntimeError(f"seed {seed} is a multiple of 23")
    kinds = (seed / 7, math.nan, -math.inf, -0.0, 1e-320)
    return {
        "x": kinds[seed % 5] if seed % 3 else parameters["a"],
        "even": seed % 2 == 0,
        "count": seed,
        "word": "ü" * (seed % 4),
        "nothing": None,
    }


def logged(parameters, seed):
    """The same, slowly, with a line in a file for each run: process, cell, seed."""
    with open(os.environ["SWEEP_LOG"], "a") as log:
        log.write(f"{os.getpid()} {parameters['a']} {seed}\n")
    time.sleep(0.01)
    return rows(parameters, seed)


def together(parameters, seeds):
    """The same for several seeds; one that fails takes the others with it."""
    return [rows(parameters, seed) for seed in seeds]


def forgetful(parameters, seeds):
    """Leaves out rows unless it is asked for one."""
    return [rows(parameters, seed) for seed in seeds][: max(1, len(seeds) // 2)]


def deadly(parameters, seed):
    """Kills its worker at one trial in 11, every time."""
    if seed % 11 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"x": seed}


def environment(parameters, seed):
    """How many threads a worker has."""
    import numba
    import threadpoolctl

    pools = [pool["num_threads"] for pool in threadpoolctl.threadpool_info()]
    return {
        "numba": numba.get_num_threads(),
        "pools": max(pools, default=1),
        "variable": os.environ["OMP_NUM_THREADS"],
    }


if __name__ == "__main__":
    backend, store = os.environ["SWEEP_BACKEND"], Path(os.environ["SWEEP_STORE"])
    trials = int(os.environ.get("SWEEP_TRIALS", "60"))
    hm.sweep(
        logged,
        {"a": [1, 2.5]},
        trials,
        store=store,
        backend=backend,
        workers=2,
        batch=4,
        allow_changes=True,  # somebody may edit a file of hardmax while this runs
    )
