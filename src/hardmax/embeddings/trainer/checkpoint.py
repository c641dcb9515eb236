"""Checkpoints that survive a kill: written beside the old one, then renamed over it in one step.

A file holds all that the next epoch depends on: parameters, moments, a and c, the number of steps, the seed
of the shuffles, the losses so far, and the settings with a digest of the corpus, which must match on
resuming.
"""

from __future__ import annotations

import hashlib
import json
import os
import zipfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from hardmax.embeddings.trainer.step import State


@dataclass(eq=False)
class Progress:
    """Where a training stands at the end of an epoch."""

    state: State
    seed: int  # of the shuffles
    losses: list[float]  # one per step


def digest(*arrays: np.ndarray) -> str:
    """SHA-256 of the arrays' shapes and bytes."""
    found = hashlib.sha256()
    for array in arrays:
        found.update(repr((array.shape, array.dtype.str)).encode())
        found.update(np.ascontiguousarray(array).tobytes())
    return found.hexdigest()


def save(path: Path, progress: Progress, settings: dict[str, Any]) -> None:
    """Write the checkpoint; at any moment the path holds the old one or the new one, whole."""
    part = path.with_name(path.name + ".part")
    arrays = {field.name: getattr(progress.state, field.name) for field in fields(State)}
    with part.open("wb") as file:
        np.savez(
            file,
            settings=json.dumps(settings, sort_keys=True),
            seed=progress.seed,
            losses=np.array(progress.losses),
            **arrays,
        )
        file.flush()
        os.fsync(file.fileno())
    os.replace(part, path)


def load(path: Path, settings: dict[str, Any]) -> Progress:
    """Read a checkpoint of a training with these settings; refuse any other."""
    try:
        with np.load(path) as file:
            held = {name: file[name] for name in file.files}
        theirs = json.loads(str(held["settings"]))
        state = State(**{f.name: held[f.name] for f in fields(State) if f.name != "steps"})
        state.steps = int(held["steps"])
        progress = Progress(state, int(held["seed"]), held["losses"].tolist())
    except (OSError, KeyError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(
            f"checkpoint must be a file that train_embeddings wrote, got {path} ({error}); name another file"
        ) from None
    ours = json.loads(json.dumps(settings))
    changed = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
    if changed:
        what = ", ".join(f"{name}: {theirs.get(name)} there, {ours.get(name)} here" for name in changed)
        raise ValueError(f"checkpoint must come from the same training, {path} does not ({what}); remove it")
    return progress
