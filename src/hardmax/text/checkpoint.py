"""A file with the state after some passes of one training, from which the same training goes on."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._lib.files import whole
from hardmax._lib.reading import parse_json, read_arrays

FORMAT = "hardmax.text-checkpoint/1"
Arrays = tuple[np.ndarray, ...]


def identity(rows: Arrays, y: np.ndarray, weights: np.ndarray, settings: Any, seed: int) -> str:
    """A digest of all that decides a training."""
    seen = hashlib.sha256(json.dumps([asdict(settings), seed]).encode())
    for each in (*rows, y, weights):
        seen.update(np.ascontiguousarray(each).tobytes())
    return seen.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """A file with the state after some passes of one training."""

    path: Path
    identity: str

    def write(self, state: Arrays, losses: list[float]) -> None:
        """Replace the file, whole or not at all."""
        head = json.dumps({"format": FORMAT, "identity": self.identity, "losses": losses}).encode()
        with whole(self.path) as file:
            np.savez(file, np.frombuffer(head, np.uint8), *state)

    def found(self, state: Arrays) -> tuple[list[float], Arrays]:
        """The losses and the state of the file, or the given state if there is none yet."""
        if not self.path.exists():
            return [], state
        try:
            arrays = list(read_arrays(self.path).values())
            head = parse_json(arrays[0].tobytes())
            losses, mine = [float(each) for each in head["losses"]], head["identity"] == self.identity
            fits = head["format"] == FORMAT and len(arrays) == 3
            pairs = zip(arrays[1:], state, strict=True)
            fits = fits and (not mine or all(a.shape == b.shape and a.dtype == b.dtype for a, b in pairs))
        except (ValueError, LookupError, TypeError):
            fits = mine = False
        if not fits:
            raise ValueError(
                f"checkpoint {self.path} must be one of a text training, got another file; delete it"
            )
        if not mine:
            raise ValueError(
                f"checkpoint {self.path} must be of the same texts and settings, got another training's; "
                "give another name, or delete it"
            )
        return losses, tuple(np.require(each, requirements=("C", "W")) for each in arrays[1:])
