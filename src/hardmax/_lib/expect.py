"""Readers of arguments: every error names the argument, the expected value and the value passed."""

from __future__ import annotations

import math
import reprlib
from numbers import Real
from typing import Any

import numpy as np


def finite_array(name: str, x: Any, shape: tuple[int | None, ...]) -> np.ndarray:
    """Return x as a new read-only float64 array of finite numbers; None in the shape is any size."""
    try:
        array = np.array(_real(x), dtype=np.float64, order="C")
    except OverflowError:
        raise ValueError(f"{name} must be finite, got a number too large to convert to a float") from None
    except (TypeError, ValueError):
        raise ValueError(f"{name} must be numbers of shape {_shape(shape)}, got {_short(x)}") from None
    fits = array.ndim == len(shape) and all(
        s is None or s == a for s, a in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise ValueError(f"{name} must have shape {_shape(shape)}, got {_shape(array.shape)}")
    if not np.isfinite(array).all():
        where = tuple(int(i) for i in np.argwhere(~np.isfinite(array))[0])
        raise ValueError(f"{name} must be finite, got {array[where]} at index {where}")
    array.setflags(write=False)
    return array


def _real(x: Any) -> np.ndarray:
    """Return x as an array of numbers: numpy itself would read texts and dates, and drop imaginary parts."""
    array = np.asarray(detached(x))
    is_real = array.dtype.kind != "O" or all(isinstance(value, Real) for value in array.flat)
    if array.dtype.kind not in "biufO" or not is_real:
        raise TypeError
    return array


def detached(x: Any) -> Any:
    """Return x without gradients if it is a tensor or a list of tensors, without importing PyTorch."""
    if isinstance(x, list | tuple):
        return [detached(item) for item in x] if any(hasattr(item, "detach") for item in x) else x
    return x.detach().cpu() if hasattr(x, "detach") else x


def ids(name: str, x: Any, n: int) -> np.ndarray:
    """Return n integers; a column (n, 1), as top-k functions return it, is accepted as well."""
    numbers = _as_array(x)
    if numbers.shape == (n, 1):
        numbers = numbers[:, 0]
    if numbers.shape != (n,) or numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be {n} token numbers, one per input, got {_short(x)}")
    return numbers


def _as_array(x: Any) -> np.ndarray:
    """Return x as an array; an empty one of floats for lists of several lengths."""
    try:
        return np.asarray(detached(x))
    except (TypeError, ValueError, OverflowError):
        return np.empty(0)


def classes(name: str, x: Any, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the sorted labels of at least two classes, and the number of the label of each of n samples."""
    samples = values(x)
    if samples is None or len(samples) != n:
        got = "no list" if samples is None else f"{len(samples)}"
        raise ValueError(f"{name} must hold {n} labels, one for each sample, got {got}")
    numeric = all(isinstance(label, Real) and label == label for label in samples)
    if not numeric and not all(isinstance(label, str) for label in samples):
        raise ValueError(f"{name} must be numbers or strings, all of one kind, got {_short(x)}")
    labels, numbers = np.unique(np.asarray(samples), return_inverse=True)
    if len(labels) < 2:
        raise ValueError(f"{name} must hold at least two classes, got {_short(labels.tolist())} only")
    return labels, numbers


def whole_array(name: str, x: Any) -> np.ndarray:
    """Return integers as an array of any shape."""
    numbers = _as_array(x)
    if numbers.dtype.kind not in "iu":
        raise ValueError(f"{name} must be integers, got {_short(x)}")
    return numbers.astype(np.int64)


def real_array(name: str, x: Any) -> np.ndarray:
    """Return real numbers as a new float64 array of any shape."""
    try:
        return np.array(_real(x), dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be numbers, got {_short(x)}") from None


def ragged(name: str, x: Any, width: bool) -> tuple[np.ndarray, np.ndarray]:
    """Return n lists of T_i rows (numbers if not ``width``) as one flat array and n+1 offsets."""
    if isinstance(x, np.ndarray) and x.dtype != object and x.ndim == 2 + width and x.size:
        sizes = np.full(len(x), x.shape[1])
        flat = finite_array(name, x.reshape(-1, *x.shape[2:]), (None, None)[: 1 + width])
        return flat, _offsets(sizes)
    content = "T_i lists of d numbers each" if width else "T_i numbers each"
    if isinstance(x, (str, bytes)) or not hasattr(x, "__len__") or not hasattr(x, "__iter__"):
        raise ValueError(f"{name} must be n inputs with {content}, got {_short(x)}")
    if len(x) == 0:
        raise ValueError(f"{name} must hold at least one input, got none")
    first = detached(x[0]) if isinstance(x, list | tuple | np.ndarray) else None
    if isinstance(first, Real) or (width and _is_flat(first)):
        raise ValueError(
            f"{name} must be n inputs with {content}, got {_short(x)}, which is one input; did you forget "
            "the outer list of inputs?"
        )
    inputs = []
    for i, rows in enumerate(x):
        if hasattr(rows, "__len__") and len(rows) == 0:
            raise ValueError(f"{name}[{i}] is empty: every input needs at least one token")
        inputs.append(finite_array(f"{name}[{i}]", rows, (None, None)[: 1 + width]))
        if width and not inputs[i].shape[1]:
            raise ValueError(f"{name}[{i}] must have at least one number per token, got none")
        if width and inputs[i].shape[1] != inputs[0].shape[1]:
            width_0, width_i = inputs[0].shape[1], inputs[i].shape[1]
            raise ValueError(f"{name}[{i}] must have {width_0} numbers per token as {name}[0], got {width_i}")
    flat = np.concatenate(inputs)
    flat.setflags(write=False)
    return flat, _offsets(np.array([len(rows) for rows in inputs]))


def _is_flat(rows: Any) -> bool:
    """Return whether this is a list of numbers."""
    is_list = isinstance(rows, list | tuple) and len(rows) > 0
    return isinstance(rows[0], Real) if is_list else isinstance(rows, np.ndarray) and rows.ndim == 1


def _offsets(sizes: np.ndarray) -> np.ndarray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
    offsets.setflags(write=False)
    return offsets


def same_tokens(name: str, offsets: np.ndarray, expected: np.ndarray, other: str = "keys") -> None:
    """Refuse ragged data whose inputs do not match those of the keys, or of ``other``, one to one."""
    if len(offsets) != len(expected):
        raise ValueError(f"{name} must have {len(expected) - 1} inputs as {other}, got {len(offsets) - 1}")
    if not np.array_equal(offsets, expected):
        i = int(np.flatnonzero(np.diff(offsets) != np.diff(expected))[0])
        raise ValueError(
            f"{name}[{i}] must have {np.diff(expected)[i]} tokens as {other}[{i}], got {np.diff(offsets)[i]}"
        )


def sequences(name: str, x: Any) -> Any:
    """Return sequences to iterate over, from a list, an array, a tensor, or one column of a table."""
    if hasattr(x, "columns") and hasattr(x, "iloc"):  # iterating over a table gives the names of its columns
        if len(x.columns) != 1:
            few = ", ".join(map(repr, list(x.columns)[:4]))
            raise ValueError(f"{name} must be one column of a table, got all of {few}; choose one")
        x = x.iloc[:, 0]
    if isinstance(x, str | bytes) or not hasattr(x, "__iter__"):
        raise ValueError(f"{name} must be a list of sequences, got {_short(x)}")
    return x.tolist() if hasattr(x, "tolist") else x


def values(x: Any) -> list[Any] | None:
    """Return the values of a list, array, tensor or series, also of shape (T, 1); None for anything else."""
    if isinstance(x, str | bytes) or not hasattr(x, "__iter__"):
        return None
    listed = x.tolist() if hasattr(x, "tolist") else list(x)
    if not isinstance(listed, list):  # an array without axes
        return None
    listed = [item.tolist() if hasattr(item, "tolist") else item for item in listed]
    if listed and all(isinstance(item, list) and len(item) == 1 for item in listed):
        return [item[0] for item in listed]
    return listed


def signs(name: str, x: Any, n: int) -> np.ndarray:
    """Return n labels, each +1 or -1; a column of shape (n, 1) is accepted too."""
    x = detached(x)
    shape = getattr(x, "shape", ())
    labels = finite_array(name, np.asarray(x)[:, 0] if tuple(shape) == (n, 1) else x, (n,))
    bad = np.flatnonzero(np.abs(labels) != 1)
    if bad.size:
        raise ValueError(f"{name} must be +1 or -1, got {labels[bad[0]]:g} at index {bad[0]}")
    return labels


def positive(name: str, x: Any) -> float:
    """Return a number above zero."""
    try:
        value = math.nan if isinstance(x, str | bytes) else float(x)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    if not 0 < value < math.inf:
        raise ValueError(f"{name} must be a positive number, got {_short(x)}")
    return value


def positives(name: str, x: Any, size: int) -> np.ndarray:
    """Return ``size`` numbers above zero."""
    array = finite_array(name, x, (size,))
    if (array <= 0.0).any():
        where = int(np.argmin(array))
        raise ValueError(f"{name} must be positive, got {array[where]:g} at index {where}; drop zeros")
    return array


def nonnegative(name: str, x: Any) -> float:
    """Return a number of at least zero."""
    if not isinstance(x, Real) or not 0.0 <= float(x) < np.inf:
        raise ValueError(f"{name} must be a number of at least 0, got {_short(x)}")
    return float(x)


def one_of(name: str, x: str, choices: tuple[str, ...]) -> str:
    """Return a word that must be one of ``choices``."""
    if not isinstance(x, str) or x not in choices:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {_short(x)}")
    return x


def whole(name: str, x: Any, least: int = 0) -> int:
    """Return an integer of at least ``least``."""
    if isinstance(x, bool) or not isinstance(x, (int, np.integer)) or x < least:
        raise ValueError(f"{name} must be an integer of at least {least}, got {_short(x)}")
    return int(x)


def generator(rng: int | np.random.Generator) -> np.random.Generator:
    """Return a Generator from a seed or a Generator, one of which is always explicit."""
    if isinstance(rng, np.random.Generator):
        return rng
    return np.random.default_rng(whole("rng", rng))


def _shape(shape: tuple[int | None, ...]) -> str:
    names = iter("abcdefgh")
    sizes = ", ".join(next(names) if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"


_BRIEF = reprlib.Repr()  # a list may be long, and nested deeper than Python can follow
_BRIEF.maxstring = _BRIEF.maxother = _BRIEF.maxlong = 60


def _short(x: Any) -> str:
    """Return the representation of a value in at most 60 characters."""
    try:
        text = _BRIEF.repr(x)
    except Exception:  # an integer of thousands of digits, or an object that cannot be printed
        text = f"a value of type {type(x).__name__}"
    return text if len(text) <= 60 else text[:57] + "..."
