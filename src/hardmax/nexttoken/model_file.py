"""A trained model as one .npz file, and back, with how far it was trained, and on what."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from os import PathLike
from typing import Any

import numpy as np

from hardmax._lib import archive, expect
from hardmax._lib.archive import Arrays, decoded, demand, encoded, read_arrays, refused, write_arrays
from hardmax.nexttoken.pairs import Ints, Pairs
from hardmax.nexttoken.predict import Predictor
from hardmax.nexttoken.relations import Orders
from hardmax.nexttoken.training import Training
from hardmax.problem.readouts import OutputValue


@dataclass(frozen=True)
class Reached:
    """``steps`` of stage 2 with the step ``rate``, ``signed_steps`` of them signed; W_ov = ``margin`` W_ov*.

    ``data`` is a digest of the samples, their frequencies and the collocation.
    """

    steps: int
    signed_steps: int
    rate: float
    margin: float | None
    data: str

    @classmethod
    def by(cls, run: Training, *, before: int = 0) -> Reached:
        """What a run reached; ``before`` signed steps were taken before it."""
        return cls(run.steps, before + run.signed_steps, run.rate, run.W_ov.margin, digest(run.pairs))

    def differs_from(self, other: Reached) -> list[str]:
        """What the two do not share, in words; nothing if one may go on where the other stopped."""
        mine, theirs = asdict(self), asdict(other)
        return [words for name, words in _SHARED.items() if mine[name] != theirs[name]]


_SHARED = {"data": "the sentences", "margin": "stage 1", "rate": "the step of stage 2"}


def digest(pairs: Pairs) -> str:
    """A digest of all that stage 2 sees of a dataset."""
    return archive.digest(
        "\n".join(pairs.samples.vocabulary),
        pairs.collocation,
        pairs.token,
        pairs.query,
        pairs.offsets,
        pairs.pair,
        pairs.count,
        pairs.target,
        pairs.log_weight,
        pairs.samples.weight,
    )


FORMAT = "hardmax.ntp-model/1"
LARGEST_VALUE = 1e100  # of W_kq, whose square is a number too; no training gets there


def save(path: str | PathLike[str], model: Predictor, reached: Reached | None = None) -> None:
    """Write a model atomically; with ``reached``, training can be resumed from the file."""
    head: dict[str, Any] = {"format": FORMAT, "vocabulary": model.vocabulary, "margin": model.W_ov.margin}
    if reached is not None:
        head["reached"] = asdict(reached)
    arrays: dict[str, Any] = {
        "head": encoded(head),
        "collocation": model.W_ov.collocation,
        "token": model.token,
        "query": model.query,
        "values": model.values,
        "orders": np.stack([model.orders.query, model.orders.above, model.orders.below]),
    }
    optional = {"W_ov": model.W_ov.entries, "star": model.star, "residual": model.residual}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    write_arrays(path, arrays, packed=True)


def load_reached(path: str | PathLike[str]) -> tuple[Predictor, Reached | None]:
    """The model of a file and how far it was trained; None if the file does not say."""
    with refused(f"{path} must be a model written by hardmax ntp train, got another file"):
        arrays = read_arrays(path)
        return _model(arrays, decoded(arrays["head"]))


def _model(arrays: Arrays, head: Any) -> tuple[Predictor, Reached | None]:
    """The model of arrays that may have been tampered with: each is looked at before it is used."""
    words, margin = head["vocabulary"], head["margin"]
    demand(head["format"] == FORMAT and isinstance(words, list) and len(words) > 1)
    demand(all(isinstance(word, str) for word in words) and len(set(words)) == len(words))
    V = len(words)
    token, query = (_numbers(arrays[name], V) for name in ("token", "query"))
    related = _numbers(arrays["orders"], V, ndim=2)
    demand(len(token) == len(query) and len(related) == 3)
    # pairs are looked up, and relations, by bisection
    demand(_rises(query * V + token) and _rises((related[0] * V + related[1]) * V + related[2]))
    entries = None
    if margin is None:
        entries = expect.finite_array("W_ov", arrays["W_ov"], (V, V))
    else:
        demand("W_ov" not in arrays and expect.nonnegative("margin", margin) is not None)
    values = {
        name: expect.finite_array(name, arrays[name], (len(token),))
        for name in ("values", "star", "residual")
        if name == "values" or name in arrays
    }
    demand(all(np.abs(each).max(initial=0.0) < LARGEST_VALUE for each in values.values()))
    model = Predictor(
        tuple(words),
        OutputValue(_numbers(arrays["collocation"], V, least=-1, size=V), margin, entries),
        token,
        query,
        values["values"],
        Orders(V, related[0], related[1], related[2], np.full(related.shape[1], -1)),
        values.get("star"),
        values.get("residual"),
    )
    return model, _reached(head["reached"]) if "reached" in head else None


def _reached(found: dict[str, Any]) -> Reached:
    for name in ("steps", "signed_steps"):
        expect.whole(name, found[name])
    expect.positive("rate", found["rate"])
    demand(isinstance(found["data"], str) and isinstance(found["margin"], float | int | None))
    return Reached(**found)


def _numbers(array: np.ndarray, V: int, *, least: int = 0, ndim: int = 1, size: int | None = None) -> Ints:
    """Numbers of tokens, from ``least`` to V - 1."""
    demand(array.ndim == ndim and array.dtype.kind in "iu" and (size is None or len(array) == size))
    found = array.astype(np.int64)
    demand(not found.size or least <= found.min() <= found.max() < V)
    return found


def _rises(keys: Ints) -> bool:
    return bool((np.diff(keys) > 0).all())
