"""A run as one npz file: its problem, its points and what it observed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.files import whole
from hardmax._lib.reading import read_arrays
from hardmax.margin.norms import norm
from hardmax.problem.files import problem_arrays, problem_of_arrays
from hardmax.train.run import Run
from hardmax.train.steps.text import as_text, from_text


def save(run: Run, points: np.ndarray | None, path: str | Path) -> None:
    """Write what every run has, its points as the problem takes them, whole or not at all."""
    arrays: dict[str, Any] = {f"problem_{name}": a for name, a in problem_arrays(run.problem).items()}
    arrays |= {f"observed_{name}": a for name, a in run.observed.items()}
    arrays |= {"times": run.times, "clock": run.clock, "method": run.method}
    arrays |= {"event": run.event or "", "step": as_text(run.step), "batch": run.batch or 0}
    arrays["flow_norm"] = run.flow_norm
    arrays |= {"end": run.final} if points is None else {"points": points}
    if run.heads is not None:
        arrays["heads"] = run.heads
    with whole(path) as file:
        np.savez(file, **arrays)


def load(path: str | Path) -> Run:
    """Read what `save` wrote, of whatever training."""
    arrays = read_arrays(path)
    named = {"times", "clock", "event", "method"} <= arrays.keys()
    if not named or not arrays.keys() & {"points", "end"}:
        raise ValueError(f"{path} does not hold a run; it holds {', '.join(sorted(arrays)) or 'nothing'}")

    def of(prefix: str) -> dict[str, np.ndarray]:
        return {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}

    problem = problem_of_arrays(of("problem_"), Path(path))
    times = expect.finite_array("times", arrays["times"], (None,))
    points, heads, end = (arrays.get(name) for name in ("points", "heads", "end"))
    if points is not None:
        points = expect.finite_array("points", points, (len(times), problem.d))
        if not len(times):
            raise ValueError(f"{path} does not hold a run: it has no points")
    if end is not None:
        end = expect.finite_array("end", end, (problem.d,))
    if heads is not None:
        heads = expect.finite_array("heads", heads, (len(times), None))
    return Run(
        problem,
        str(arrays["clock"]),
        arrays["times"],
        points,
        str(arrays["event"]) or None,
        heads,
        str(arrays["method"]),
        of("observed_"),
        end,
        from_text(str(arrays.get("step", ""))),
        int(arrays.get("batch", 0)) or None,
        norm(str(arrays.get("flow_norm", "l2"))).name,
    )
