"""A trained model as one .npz file, and back."""

from __future__ import annotations

import io
import json
import struct
import zipfile
import zlib
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from hardmax._files import whole
from hardmax.nexttoken.orders import Orders
from hardmax.nexttoken.output_value import OutputValue
from hardmax.nexttoken.predict import Predictor
from hardmax.nexttoken.reached import Reached

FORMAT = "hardmax.ntp-model/1"

# What zipfile, numpy and json raise for other files and for damaged ones.
_DAMAGED = (
    ValueError, LookupError, TypeError, AttributeError, RuntimeError, EOFError, OSError, OverflowError,
    zipfile.BadZipFile, zlib.error, struct.error,
)  # fmt: skip


def save_model(path: str | PathLike[str], model: Predictor, reached: Reached | None = None) -> None:
    """Write a model; the name may end in anything. With ``reached``, training can go on from the file.

    A file of this name is replaced when the new one is whole, so that an interrupt leaves one or the other.

    >>> import pathlib, tempfile
    >>> from hardmax.nexttoken import Samples
    >>> from hardmax.nexttoken.model_file import load_model, save_model
    >>> from hardmax.nexttoken.training import train
    >>> model = train(Samples.from_sentences(["a b b", "b a"])).predictor
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(pathlib.Path(folder, "model.npz"), model)
    ...     load_model(pathlib.Path(folder, "model.npz")).predict("a b").next(1)[0][0]
    'b'
    """
    head: dict[str, Any] = {
        "format": FORMAT, "vocabulary": model.vocabulary, "margin": model.W_ov.margin
    }  # fmt: skip
    if reached is not None:
        head["reached"] = asdict(reached)
    arrays: dict[str, Any] = {
        "head": np.frombuffer(json.dumps(head).encode(), dtype=np.uint8),
        "collocation": model.W_ov.collocation,
        "token": model.token,
        "query": model.query,
        "values": model.values,
        "orders": np.stack([model.orders.query, model.orders.above, model.orders.below]),
    }
    optional = {"W_ov": model.W_ov.entries, "star": model.star, "residual": model.residual}
    arrays |= {name: array for name, array in optional.items() if array is not None}
    with whole(path) as file:
        np.savez_compressed(file, **arrays)


def load_model(path: str | PathLike[str]) -> Predictor:
    """Read what `save_model` wrote.

    >>> import pathlib, tempfile
    >>> from hardmax.nexttoken.model_file import load_model
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = pathlib.Path(folder, "notes.txt").write_text("no model")
    ...     load_model(pathlib.Path(folder, "notes.txt"))
    Traceback (most recent call last):
    ...
    ValueError: .../notes.txt: expected a model written by hardmax ntp train, got another file
    """
    return load_reached(path)[0]


def load_reached(path: str | PathLike[str]) -> tuple[Predictor, Reached | None]:
    """The model of a file and how far it was trained; None if the file does not say.

    >>> import pathlib, tempfile
    >>> from hardmax.nexttoken import Samples, save_model, train
    >>> from hardmax.nexttoken.model_file import load_reached
    >>> from hardmax.nexttoken.reached import Reached
    >>> run = train(Samples.from_sentences(["a b b", "b a"]), steps=450)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(pathlib.Path(folder, "half.npz"), run.predictor, Reached.by(run))
    ...     load_reached(pathlib.Path(folder, "half.npz"))[1].steps
    450
    """
    content = io.BytesIO(Path(path).read_bytes())
    try:
        with np.load(content, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
        head = json.loads(arrays["head"].tobytes())
        if head["format"] != FORMAT:
            raise ValueError
        reached = Reached(**head["reached"]) if "reached" in head else None
        query, above, below = arrays["orders"]
        V = len(head["vocabulary"])
        W_ov = OutputValue(arrays["collocation"], head["margin"], arrays.get("W_ov"))
        found = Orders(V, query, above, below, np.full(len(query), -1))
        model = Predictor(
            tuple(head["vocabulary"]), W_ov, arrays["token"], arrays["query"], arrays["values"], found,
            arrays.get("star"), arrays.get("residual"),
        )  # fmt: skip
        return model, reached
    except _DAMAGED:
        raise ValueError(f"{path}: expected a model written by hardmax ntp train, got another file") from None
