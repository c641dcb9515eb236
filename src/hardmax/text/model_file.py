"""A fitted classifier as one .npz file, and back: arrays and JSON with a digest, never a pickle."""

from __future__ import annotations

import re
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax import __version__
from hardmax._lib.archive import Arrays, decoded, demand, digest, encoded, read_arrays, refused, write_arrays
from hardmax.text.counting.vectorizer import Level, NgramVectorizer

if TYPE_CHECKING:
    from hardmax.text.classifier import AttentionClassifier

FORMAT = "hardmax.text-model/1"
FAMILY = FORMAT.rpartition("/")[0]
NAMES = {"lr": "rate", "attention_lr": "attention_rate"}  # parameters that files name as 0.2 did
ARRAYS = {
    "attention": "attention_",
    "values": "values_",
    "background": "background_",
    "counts": "_counts",
    "shares": "_shares",
}
SLACK = 16  # times that the type of texts may be wider than the longest of them, which was left out


def save(model: AttentionClassifier, path: str | PathLike[str]) -> None:
    """Write a fitted classifier, whole or not at all; a vectorizer other than ours needs joblib instead."""
    vectorizer = getattr(model, "vectorizer_", None)
    if vectorizer is not None and not isinstance(vectorizer, NgramVectorizer):
        raise ValueError(
            f"vectorizer must be an NgramVectorizer to be saved without pickles, got "
            f"{type(vectorizer).__name__}; use joblib.dump, and load only files that you trust"
        )
    params = {NAMES.get(name, name): value for name, value in model.get_params(deep=False).items()}
    del params["vectorizer"], params["top_k"], params["entropy_penalty"]
    params["sparse"] = model.top_k if model.entropy_penalty is None else float(model.entropy_penalty)
    head: dict[str, Any] = {"format": FORMAT, "version": __version__}
    head["params"] = {name: _plain(value) for name, value in params.items()}
    classes = model.classes_.tolist()
    head |= {"classes": classes, "kind": model.classes_.dtype.str if model.classes_.dtype != object else "O"}
    head["passes"], head["losses"] = model.n_iter_, model.loss_curve_
    arrays = {name: getattr(model, attribute) for name, attribute in ARRAYS.items()}
    if vectorizer is not None:
        settings = vectorizer.get_params(deep=False)
        settings |= {"ngram_range": list(settings["ngram_range"]), "dtype": np.dtype(settings["dtype"]).str}
        head["vectorizer"] = settings
        head["words"] = vectorizer.words_
        for k, level in enumerate(vectorizer.levels_):
            arrays |= {f"keys{k}": level.keys, f"frequency{k}": level.frequency}
    elif hasattr(model, "feature_names_in_"):
        head["names"] = model.feature_names_in_.tolist()
    coded = encoded(head)
    write_arrays(path, {"head": coded, "digest": np.frombuffer(_digest(coded, arrays), np.uint8), **arrays})


def _plain(setting: Any) -> Any:
    """A setting as JSON holds it; a generator, which has no text, is left out."""
    if isinstance(setting, PathLike):
        return fspath(setting)
    if isinstance(setting, tuple):
        return list(setting)
    return setting if isinstance(setting, str | int | float | None) else None


def _digest(head: np.ndarray, arrays: Arrays) -> bytes:
    parts: list[str | np.ndarray] = [head]
    for name, array in sorted(arrays.items()):
        parts += [f"{name} {array.dtype.str} {array.shape} ", array]
    return bytes.fromhex(digest(*parts))


def load(kind: type[AttentionClassifier], path: str | PathLike[str]) -> AttentionClassifier:
    """Read a file that `save` wrote, into a new object of a class.

    A damaged file, or one of another version, is refused with a message.
    """
    foreign = f"{path} must be a model that AttentionClassifier.save wrote, got another file"
    with refused(foreign):
        arrays = read_arrays(path)
        coded, seal = arrays.pop("head"), arrays.pop("digest")
        head = decoded(coded)
        form = head["format"]
        demand(form.startswith(FAMILY + "/"))
    if form != FORMAT:
        raise ValueError(
            f"{path} must be a model of the format {FORMAT}, got {form}, of hardmax "
            f"{head.get('version', 'unknown')!s:.20}; load it with that version, or train it again"
        )
    if seal.tobytes() != _digest(coded, arrays):
        raise ValueError(f"checksum mismatch: {path} is corrupted; copy or train it again")
    with refused(foreign):
        return _model(kind, head, arrays)


def _model(kind: type[AttentionClassifier], head: dict[str, Any], arrays: Arrays) -> AttentionClassifier:
    params = dict(head["params"])
    params["ngram_range"] = tuple(params["ngram_range"])
    sparse = params.pop("sparse")  # a whole number is top_k, another number the entropy penalty
    params["entropy_penalty" if isinstance(sparse, float) else "top_k"] = sparse
    params |= {name: params.pop(old) for name, old in NAMES.items()}
    model = kind(**params)
    model.classes_ = _classes(head["classes"], head["kind"])
    model._corpus = "the texts are not part of the file of a model"
    model.n_iter_, model.loss_curve_, model.validation_scores_ = head["passes"], head["losses"], []
    model.n_features_in_ = columns = len(arrays["attention"])
    classes = len(model.classes_)
    values = 1 if classes == 2 else classes
    shapes = (columns,), (columns, values), (values,), (columns, classes), (classes,)
    for (name, attribute), shape in zip(ARRAYS.items(), shapes, strict=True):
        array = arrays[name]
        demand(array.shape == shape and array.dtype == np.float64 and bool(np.isfinite(array).all()))
        setattr(model, attribute, array)
    if "vectorizer" in head:
        model.vectorizer_ = _vectorizer(head, arrays)
        demand(sum(map(len, model.vectorizer_._kept)) == columns)
    elif "names" in head:
        model.feature_names_in_ = np.array(head["names"], dtype=object)
    return model._ready()


def _classes(names: Any, kind: Any) -> np.ndarray:
    """The labels of the classes, in the type that they had: of texts, as wide as the longest of them."""
    demand(isinstance(names, list) and isinstance(kind, str) and len(names) > 1)
    if kind == "O" or re.fullmatch(r"[<>|=]?[biuf][1248]", kind):
        return np.array(names, dtype=object if kind == "O" else np.dtype(kind))
    demand(re.fullmatch(r"[<>|=]?[US]\d+", kind) is not None and all(isinstance(name, str) for name in names))
    classes = np.array(names)
    if classes.dtype.itemsize < np.dtype(kind).itemsize <= SLACK * max(classes.dtype.itemsize, 1):
        classes = classes.astype(kind)
    demand(classes.dtype == np.dtype(kind))
    return classes


def _vectorizer(head: dict[str, Any], arrays: Arrays) -> NgramVectorizer:
    params = dict(head["vectorizer"])
    demand(re.fullmatch(r"[<>|=]?[biuf][1248]", params["dtype"]) is not None)
    params |= {"ngram_range": tuple(params["ngram_range"]), "dtype": np.dtype(params["dtype"]).type}
    vectorizer = NgramVectorizer(**params)
    vectorizer.words_ = [str(word) for word in head["words"]]
    vectorizer.levels_ = []
    below = 0
    for k in range(params["ngram_range"][1]):
        level = Level(arrays[f"keys{k}"], arrays[f"frequency{k}"])
        parts = level.keys >> np.uint64(32), level.keys & np.uint64(0xFFFFFFFF)
        inside = k == 0 or all(part.size == 0 or int(part.max()) < below for part in parts)
        demand(level.keys.dtype == np.uint64 and level.keys.ndim == 1)
        demand(len(level.frequency) == len(level) and inside)
        vectorizer.levels_.append(level)
        below = len(level)
    demand(len(vectorizer.words_) == len(vectorizer.levels_[0]))
    return vectorizer
