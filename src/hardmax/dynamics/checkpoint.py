"""Checkpoints that survive a kill: written next to the old one, then renamed over it in one step.

A file holds all that the next epoch depends on, the losses and snapshots so far, and what identifies the
training: settings, seed, digests of the corpus and of the start, which must match on resuming.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib import archive, files

# Arguments behind entries of the identity that mean nothing to a reader.
_SET_BY = {"corpus": "other data", **dict.fromkeys(("seed", "start"), "another rng, d or start")}


# Values of entries that older files lack.
_PRINTED = {"scale": 1.0, "first_scale": 1.0}


def check_folder(path: Path) -> None:
    """Refuse a place that cannot be written now, rather than after the first epochs."""
    try:
        with tempfile.TemporaryFile(dir=path.parent):
            pass
    except OSError as error:
        raise ValueError(
            f"checkpoint must lie in a folder that can be written, {path.parent} cannot ({error.strerror}); "
            "make it or name another"
        ) from None


def digest(*arrays: np.ndarray) -> str:
    """SHA-256 of the arrays' shapes and bytes."""
    parts: list[str | np.ndarray] = []
    for array in arrays:
        parts += [repr((array.shape, array.dtype.str)), array]
    return archive.digest(*parts)


def save(path: Path, arrays: Mapping[str, np.ndarray], identity: dict[str, Any]) -> None:
    """Write the checkpoint; at any moment the path holds the old one or the new one, whole.

    Two trainings with one checkpoint never share a partial file: each writes a separate temporary file.
    """
    files.sweep(path.parent)
    archive.write_arrays(path, {"identity": json.dumps(identity, sort_keys=True), **arrays})


def load(path: Path, identity: dict[str, Any], like: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a checkpoint of the same training, of types and shapes as in ``like``.

    An empty array of ``like`` allows any length.
    """
    foreign = f"checkpoint must be a file that a training of hardmax wrote, {path} is not; name another file"
    try:
        arrays = archive.read_arrays(path)
        theirs = archive.decoded(arrays.pop("identity"))
    except (OSError, KeyError, ValueError):
        raise ValueError(foreign) from None
    if not isinstance(theirs, dict):
        raise ValueError(foreign)
    ours = json.loads(json.dumps(identity))
    theirs = {**{name: value for name, value in _PRINTED.items() if name in ours}, **theirs}
    changed = [name for name in sorted({*theirs, *ours}) if theirs.get(name) != ours.get(name)]
    if changed:
        reasons = (
            _SET_BY.get(name, f"{name}: {theirs.get(name)} there, {ours.get(name)} here") for name in changed
        )
        what = ", ".join(dict.fromkeys(reasons))
        raise ValueError(
            f"checkpoint must come from the same training, {path} does not ({what}); name another file, or "
            "remove this one"
        )
    if arrays.keys() != like.keys() or not all(_fits(arrays[name], like[name]) for name in like):
        raise ValueError(foreign)
    return arrays


def _fits(array: np.ndarray, like: np.ndarray) -> bool:
    start = 1 if like.ndim and not len(like) else 0
    same = array.ndim == like.ndim and array.shape[start:] == like.shape[start:]
    # a state may hold logarithms of zero
    return same and array.dtype == like.dtype and bool((array < np.inf).all())
