"""Annotations as tests: functions that check and convert an argument, for `check_arguments`."""

from __future__ import annotations

import ast
import builtins
import inspect
import math
import os
import types
import typing
from collections import abc
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from numbers import Real
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from hardmax._lib.expect import _short, detached
from hardmax._lib.refusals import AnyInteger, WrongType

LARGEST = 2**63  # kernels count with 64 bits; seeds may be larger
PLURAL = {"Constraints", "Orders", "Samples", "Sentences"}
TOP_LEVEL = {"Constraints", "Corpus", "LossFunction", "MaxMargin", "Problem", "Run", "Selection", "Sweep"}
# What to pass where a class of hardmax is wanted, and how to get it.
WORDS = {"Optimizer": "an optimizer such as hm.optim.GD(lr=0.1)", "Module": "a torch.nn.Module"}
SOURCES = {
    "Analysis": "make one with hm.nexttoken.analyze",
    "AttentionClassifier": "fit one with hm.text.AttentionClassifier().fit(texts, labels)",
    "Corpus": "make one with Corpus.from_sequences; a TextCorpus has a .corpus",
    "GramState": "make one with GramState.from_vectors",
    "KqStar": "make one with KqStar.of",
    "MaxMargin": "make one with hm.max_margin",
    "Module": "load the model first",
    "Orders": "make them with hm.nexttoken.relations.orders",
    "Predictor": "train one with hm.train(samples.model(), ...), or read a file with Predictor.load",
    "Problem": "make one with Problem(keys, scores), or read a file with Problem.load",
    "Samples": "make them with Samples.from_sentences",
    "Sentences": "read them with hm.nexttoken.read_sentences",
    "Optimizer": "see hm.optim",
    "TokenSelection": "make one with hm.embeddings.patterns.score_selection",
    "TwoLayerGram": "make one with TwoLayerGram.from_vectors",
    "Unmerged": "make one with Unmerged.random",
}


class Kind(NamedTuple):
    """One alternative of an annotation: a test, words for one and for many, a remedy, and a reader."""

    fits: Callable[[Any], bool]
    words: str
    many: str = ""
    remedy: str = ""
    read: Callable[[str, Any], Any] | None = None


class _Absent:
    """Base of stand-ins for classes that a module imports only for type checkers."""


def readers_of(function: Callable[..., Any]) -> tuple[tuple[str, ...], dict[str, Callable[[Any], Any]]]:
    """Return the names of the positional arguments, and the readers of checked arguments by name."""
    scope = {*vars(builtins), *inspect.unwrap(function).__globals__}
    texts = [text for text in function.__annotations__.values() if isinstance(text, str)]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text, mode="eval"))]
    absent = {node.id for node in nodes if isinstance(node, ast.Name)} - scope
    stand_ins = {name: type(name, (_Absent,), {}) for name in absent}
    hints = typing.get_type_hints(function, localns=stand_ins or None, include_extras=True)
    parameters = inspect.signature(function).parameters
    single = [p for p in parameters.values() if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    positional = tuple(p.name for p in single if p.kind is not p.KEYWORD_ONLY)
    readers = {p.name: _reader(p.name, hints[p.name]) for p in single if p.name in hints}
    return positional, {name: reader for name, reader in readers.items() if reader is not None}


def _reader(name: str, hint: Any) -> Callable[[Any], Any] | None:
    """Return the function that checks and converts an argument; None if everything is allowed."""
    kinds = _kinds(name, hint)
    if kinds is None:
        return None

    def read(value: Any) -> Any:
        for kind in kinds:
            if kind.fits(value):
                return value if kind.read is None else kind.read(name, value)
        raise _refusal(name, kinds, value)

    return read


def _kinds(name: str, hint: Any) -> list[Kind] | None:
    """Return the kinds of argument that an annotation allows; None if it allows all or cannot be tested."""
    alternatives = _alternatives(hint)
    if hint is ArrayLike or any(part in (Any, object) or _is_protocol(part) for part in alternatives):
        return None
    has_paths = any(_is_path(part) for part in alternatives)
    alternatives.sort(key=lambda part: part is float)  # a Fraction is a number, too
    if np.random.Generator in alternatives:
        alternatives = [AnyInteger if part is int else part for part in alternatives]
    return [_kind(name, part, has_paths) for part in alternatives]


def _alternatives(hint: Any) -> list[Any]:
    """Return the parts of a union, or the hint itself."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return [part for member in typing.get_args(hint) for part in _alternatives(member)]
    return [hint]


def _is_protocol(hint: Any) -> bool:
    return getattr(hint, "_is_protocol", False) and not getattr(hint, "_is_runtime_protocol", False)


def _is_path(hint: Any) -> bool:
    origin = typing.get_origin(hint) or hint
    return inspect.isclass(origin) and issubclass(origin, os.PathLike)


def _kind(name: str, hint: Any, has_paths: bool) -> Kind:
    """Return the kind of argument that one alternative of an annotation allows."""
    origin, parts = typing.get_origin(hint) or hint, typing.get_args(hint)
    if origin is Literal:
        return Kind(lambda x: isinstance(x, str) and x in parts, "one of " + ", ".join(map(str, parts)))
    if origin is str:
        words = "the name of a file" if has_paths else "a text"
        return Kind(lambda x: isinstance(x, str), words, "texts", read=read_path if has_paths else None)
    if hint in (int, AnyInteger):
        return Kind(_is_integer, "an integer", "integers", read=_integer if hint is int else None)
    if origin in SIMPLE:
        return SIMPLE[origin]
    if _is_path(hint):
        return Kind(lambda x: isinstance(x, os.PathLike), "a path", "paths", read=read_path)
    if origin is np.ndarray:
        return _array(hint)
    if origin is tuple and parts and Ellipsis not in parts:
        return _tuple(name, parts)
    if origin in (abc.Iterable, abc.Collection, abc.Sequence, list, tuple):
        return _several(name, parts[0] if parts else Any, is_ordered=origin in (abc.Sequence, list, tuple))
    return _instance(origin)


def _instance(origin: type) -> Kind:
    """Return the kind of objects of a class; one that only type checkers import is known by its name."""
    name, remedy = origin.__name__, SOURCES.get(origin.__name__, "")
    article = "" if name in PLURAL else "an " if name[0] in "AEIOU" else "a "
    spelled = f"hardmax.{name}" if name in TOP_LEVEL else name
    words = WORDS.get(name, article + spelled)
    if not issubclass(origin, _Absent):
        return Kind(lambda x: isinstance(x, origin), words, spelled, remedy)

    def fits(value: Any) -> bool:
        return name in [c.__name__ for c in type(value).__mro__ if c.__module__.startswith("hardmax.")]

    return Kind(fits, words, spelled, remedy)


def _several(name: str, inner: Any, *, is_ordered: bool) -> Kind:
    """Return the kind of lists, arrays, tensors and other iterables, whose values are tested as well."""
    kinds = _kinds(name, inner)
    numeric = "iuf" if float in _alternatives(inner) else "iu" if inner is int else None

    def fits(value: Any) -> bool:
        if isinstance(value, str) and inner is str and not is_ordered:  # its letters are texts
            return True
        if not (
            _is_sequence(value) or isinstance(value, abc.Iterator) if is_ordered else _is_iterable(value)
        ):
            return False
        if kinds is None or isinstance(value, abc.Iterator):
            return True
        if numeric and any(hasattr(value, name) for name in ("dtype", "detach", "__array__")):
            array = np.asarray(detached(value))
            return array.dtype.kind in numeric and array.shape in ((len(array),), (len(array), 1))
        return all(any(kind.fits(item) for kind in kinds) for item in value)

    many = (kinds or [Kind(callable, "")])[0].many
    words = f"a list of {many}" if many else "a list"

    def drain(name: str, value: Any) -> Any:
        if not isinstance(value, abc.Iterator):
            return value
        listed = tuple(value)
        if not fits(listed):
            raise _refusal(name, [kind], listed)
        return listed

    streams = any(typing.get_args(part) == (Any,) for part in _alternatives(inner))  # texts may not fit here
    read = None if kinds is None or streams else drain
    kind = Kind(fits, words, words.replace("a list", "lists", 1), read=read)
    return kind


def _array(hint: Any) -> Kind:
    """Return the kind of arrays of booleans, integers or real numbers; a list is read as one."""
    letters, values = "iuf", "numbers"
    if np.dtype[np.int64] in typing.get_args(hint):
        letters, values = "iu", "integers"
    elif np.dtype[np.bool_] in typing.get_args(hint):
        letters, values = "b", "booleans"

    def fits(value: Any) -> bool:
        try:
            array = np.asarray(detached(value))
        except (TypeError, ValueError, OverflowError):  # lists of several lengths
            return False
        return array.ndim > 0 and array.dtype.kind in letters

    return Kind(fits, f"an array of {values}", read=lambda _, value: np.asarray(detached(value)))


def _tuple(name: str, parts: tuple[Any, ...]) -> Kind:
    """Return the kind of tuples and lists with one value for each part."""
    readers = [_reader(name, part) for part in parts]

    def fits(value: Any) -> bool:
        if not isinstance(value, tuple | list) or len(value) != len(parts):
            return False
        try:
            for reader, item in zip(readers, value, strict=True):
                if reader is not None:
                    reader(item)
        except ValueError:
            return False
        return True

    first = [_alternatives(part)[0] for part in parts]
    inner = {_kind(name, hint, False).words for hint in first if hint is not Any}
    return Kind(
        fits, f"a tuple of {len(parts)} values" + (f", each {inner.pop()}" if len(inner) == 1 else "")
    )


def _is_integer(value: Any) -> bool:
    return type(value) is int or (isinstance(value, (int, np.integer)) and not isinstance(value, bool))


def _integer(name: str, value: Any) -> Any:
    if not -LARGEST <= value < LARGEST:
        raise ValueError(f"{name} must be an integer below 2**63, got {_short(value)}")
    return value


def _is_number(value: Any) -> bool:
    """Return whether a value is a real number, also of another library, or an array or tensor of shape ()."""
    if type(value) is float or isinstance(value, (Real, Decimal)):
        return True
    return getattr(value, "shape", None) == () and np.asarray(detached(value)).dtype.kind in "biuf"


def _number(name: str, value: Any) -> Any:
    try:
        number = float(value)
    except OverflowError:
        raise ValueError(f"{name} must be a number of at most 1e308, got {_short(value)}") from None
    if math.isnan(number):
        raise ValueError(f"{name} must be a number, got nan")
    return value if isinstance(value, (int, float, np.number)) else number


def read_path(name: str, value: Any) -> Any:
    if not str(value) or "\0" in str(value):
        raise ValueError(f"{name} must be the name of a file or folder, got {_short(value)}")
    return value


def _is_iterable(value: Any) -> bool:
    try:
        iter(value)
    except TypeError:
        return False
    return not isinstance(value, (str, bytes))


def _is_sequence(value: Any) -> bool:
    ordered = (
        hasattr(value, "__len__") and hasattr(value, "__getitem__") and not isinstance(value, abc.Mapping)
    )
    return ordered and _is_iterable(value)


def _refusal(name: str, kinds: list[Kind], value: Any) -> Exception:
    """Return the error for a value of none of the kinds."""
    words = " or ".join(kind.words for kind in kinds).replace(
        "the name of a file or a path", "the name of a file"
    )
    words = words.replace(f" values, each {kinds[0].words}", " of them")
    remedy = "".join(f"; {kind.remedy}" for kind in kinds if kind.remedy)
    if name == "problem" and isinstance(value, (list, tuple)) and len(kinds) == 1:
        remedy = "; pass several to train or max_margin"
    is_object = any(kind.remedy for kind in kinds)  # its content does not matter
    value_text = type(value).__name__ if is_object and value is not None else _short(value)
    text = f"{name} must be {words}, got {value_text}{remedy}"
    is_choice = isinstance(value, str) and any(kind.words.startswith("one of ") for kind in kinds)
    return ValueError(text) if is_choice else WrongType(text)


SIMPLE = {
    type(None): Kind(lambda x: x is None, "None"),
    bool: Kind(lambda x: isinstance(x, bool | np.bool_), "True or False"),
    float: Kind(_is_number, "a number", "numbers", read=_number),
    Fraction: Kind(lambda x: isinstance(x, Fraction), "a fraction", "fractions"),
    abc.Callable: Kind(callable, "a function", "functions"),
    abc.Mapping: Kind(lambda x: isinstance(x, abc.Mapping), "a dict", "dicts"),
    dict: Kind(lambda x: isinstance(x, dict), "a dict", "dicts"),
    np.random.Generator: Kind(lambda x: isinstance(x, np.random.Generator), "a numpy Generator"),
}
