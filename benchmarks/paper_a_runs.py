"""The trainings of paper A that take CPU hours: by name, with checkpoints, one line of results each.

    python benchmarks/paper_a_runs.py --list                          # the names and what they mean
    python benchmarks/paper_a_runs.py DATA yelp-2-scaled-seed0 --keep DIR
    python benchmarks/paper_a_runs.py DATA all --keep DIR             # all that have no line yet, in order
    python benchmarks/paper_a_runs.py --merge FILE                    # takes over the lines of another file

DATA holds the reviews, DIR the checkpoints; the same command goes on where one was stopped. A line goes to
the file that `hardmax reproduce --ledger` reads (--results FILE: another); a run that has one is passed over.
Every run has batches of 128, AdamW and weight decay 1e-8 (A-TRAIN-1). "printed" has no factor before the
logits, "scaled" has 1/sqrt(d) in both softmaxes, which the paper does not print. Mass is the mean over the
reviews of the largest share of the attention of the readout that one token has.
"""

from __future__ import annotations

import json
import platform
import resource
import time
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import report

import hardmax as hm
from hardmax._lib.scales import BY_WIDTH
from hardmax.embeddings.minibatch import EmbeddingTraining
from hardmax.papers.stored import RUNS, read_runs

LONGEST = 512  # tokens of a review that two layers see, and one layer beside them (A-DATA-6)


@dataclass(frozen=True)
class Planned:
    """A training of this list; ``every`` is the number of epochs between two checkpoints."""

    data: str  # "yelp" or "imdb"
    layers: int
    seed: int
    scale: str | None = BY_WIDTH
    first_scale: str | None = None
    d: int = 2048
    rate: float = 1e-2
    batch: int = 128
    epochs: int = 500
    milestones: tuple[int, ...] = (100, 200)
    most: int | None = None  # tokens of a review
    every: int = 25


def _two(data: str, seed: int, **other: Any) -> Planned:
    return Planned(data, 2, seed, **{"first_scale": BY_WIDTH, "most": LONGEST, **other})


_PRINTED = {"scale": None, "first_scale": None}
_EARLIER = {"d": 256, "epochs": 28, "milestones": (4, 25), "most": LONGEST, **_PRINTED}
PLANNED = {
    "yelp-2-scaled-seed0": _two("yelp", 0),
    **{f"yelp-1-scaled-seed{seed}": Planned("yelp", 1, seed) for seed in range(3)},
    **{f"yelp-2-scaled-seed{seed}": _two("yelp", seed) for seed in (1, 2)},
    "imdb-1-printed-d256-seed0": Planned("imdb", 1, 0, **_EARLIER),
    "imdb-2-printed-d256-seed0": Planned("imdb", 2, 0, **{**_EARLIER, "every": 4}),
    **{f"imdb-1-scaled-seed{seed}": Planned("imdb", 1, seed) for seed in range(2)},
    "yelp-1-printed-seed0": Planned("yelp", 1, 0, **_PRINTED),
    "yelp-2-printed-seed0": _two("yelp", 0, **_PRINTED),
    "imdb-2-scaled-30-epochs-seed0": _two("imdb", 0, epochs=30, milestones=(6, 12), every=2),
    "imdb-1-printed-100-epochs-seed0": Planned("imdb", 1, 0, epochs=100, milestones=(20, 40), **_PRINTED),
}


class Clock:
    """CPU and wall seconds of a training, those before an interruption too."""

    def __init__(self, path: Path) -> None:
        self.path = path
        before = json.loads(path.read_text()) if path.exists() else {"cpu": 0.0, "wall": 0.0}
        self._before, self._wall, self._cpu = before, time.perf_counter(), self._used()

    @staticmethod
    def _used() -> float:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return used.ru_utime + used.ru_stime

    @property
    def seconds(self) -> dict[str, float]:
        """So far."""
        return {
            "cpu": self._before["cpu"] + self._used() - self._cpu,
            "wall": self._before["wall"] + time.perf_counter() - self._wall,
        }

    def keep(self) -> None:
        """Note the seconds beside a checkpoint."""
        self.path.write_text(json.dumps(self.seconds))


def course(trained: EmbeddingTraining) -> list[dict[str, float]]:
    """Mean loss, r_v, r_p and sign accuracy after each recorded epoch."""
    return [
        {
            "epochs": each.epochs,
            "mean_loss": round(float(trained.epoch_losses[each.epochs - 1]), 8),
            "r_v": round(each.r_v, 4),
            "r_p": round(each.r_p, 4),
            "sign_accuracy": round(each.sign_accuracy(), 4),
        }
        for each in trained.snapshots[1:]
    ]


def run(name: str, data: Path, keep: Path) -> dict[str, Any]:
    """Train, or go on, to the end; returns the line of results."""
    plan, clock = PLANNED[name], Clock(keep / f"{name}.json")
    read = hm.embeddings.yelp_corpus if plan.data == "yelp" else hm.embeddings.imdb_corpus
    corpus = read(data, **({} if plan.most is None else {"max_tokens": plan.most})).corpus

    def report(done: int, total: int) -> None:
        if done % plan.every == 0:  # the checkpoint was written before
            clock.keep()
            print(f"{name}: epoch {done} of {total}, {clock.seconds['cpu']:.0f} CPU s", flush=True)

    scales = {} if plan.layers == 1 else {"first_scale": plan.first_scale, "layers": 2}
    trained = hm.embeddings.minibatch.train_embeddings(
        corpus,
        plan.d,
        hm.optim.AdamW(plan.rate, weight_decay=1e-8),
        epochs=plan.epochs,
        batch=plan.batch,
        milestones=plan.milestones,
        rng=plan.seed,
        workers=1,
        checkpoint=keep / f"{name}.npz",
        checkpoint_every=plan.every,
        progress=report,
        scale=plan.scale,
        **scales,
    )
    packages = ("numpy", "numba", *(["torch"] if plan.layers == 2 else []))
    return {
        "name": name,
        **asdict(plan),
        "reviews": corpus.n,
        "tokens": corpus.S,
        "epochs_done": trained.epochs,
        "event": trained.event,
        "loss": trained.loss,
        "mass": trained.mass,
        "r_v": trained.r_v,
        "r_p": trained.r_p,
        "sign_accuracy": trained.sign_accuracy(),
        "course": course(trained),
        "cpu_seconds": round(clock.seconds["cpu"], 1),
        "wall_seconds": round(clock.seconds["wall"], 1),
        "version": hm.__version__,
        "versions": {"Python": platform.python_version(), **{each: version(each) for each in packages}},
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "command": f"python benchmarks/paper_a_runs.py DATA {name} --keep DIR",
    }


def append(path: Path, lines: list[dict[str, Any]]) -> None:
    """Add lines of results."""
    with path.open("a") as file:
        file.writelines(json.dumps(line, sort_keys=True) + "\n" for line in lines)


def main() -> None:
    options = report.parser(__doc__)
    options.add_argument("data", metavar="DATA", type=Path, nargs="?", help="folder with the reviews")
    options.add_argument("names", metavar="NAME", nargs="*", help='names, or "all"')
    options.add_argument("--list", action="store_true", help="print the names and what they mean")
    options.add_argument("--keep", metavar="DIR", type=Path, help="folder of the checkpoints")
    options.add_argument("--results", metavar="FILE", type=Path, default=RUNS)
    options.add_argument("--merge", metavar="FILE", type=Path, help="take over the lines of this file")
    asked = options.parse_args()
    if asked.list:
        for name, plan in PLANNED.items():
            print(name, json.dumps(asdict(plan)))
        return
    done = read_runs(asked.results)
    if asked.merge is not None:
        new = [line for name, line in read_runs(asked.merge).items() if name not in done]
        append(asked.results, new)
        print(f"{len(new)} lines taken over")
        return
    names = list(PLANNED) if asked.names == ["all"] else asked.names
    unknown = [name for name in names if name not in PLANNED]
    if asked.data is None or not names or unknown or asked.keep is None:
        options.error(f"give DATA, names of --list and --keep DIR{f', not {unknown}' if unknown else ''}")
    asked.keep.mkdir(parents=True, exist_ok=True)
    for name in names:
        if name in read_runs(asked.results):
            print(f"{name}: has a line")
            continue
        found = run(name, asked.data, asked.keep)
        append(asked.results, [found])
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
