"""Problems on disk: npz with flat arrays and offsets, a JSON object a person can write, or a CSV table."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hardmax._lib import expect
from hardmax._lib.archive import Arrays, read_arrays, write_arrays
from hardmax._lib.files import whole_text
from hardmax._lib.reading import LARGEST_JSON, read_bytes, read_json
from hardmax.problem.keys import Dense, Gram, Keys, OneHot, Products
from hardmax.problem.losses import LOSSES, as_loss
from hardmax.problem.readouts import CrossEntropy, LinearReadout, OutputValue, Readout, scored

if TYPE_CHECKING:
    from hardmax.problem.problem import Problem

_JSON_NAMES = {"keys", "tokens", "queries", "scores", "values", "labels", "head", "loss", "counts", "weights"}
_NEXT_TOKEN = {"collocation", "words", "targets", "queries", "margin", "entries"}
_PRODUCTS = ("token_table", "query_table", "token_of", "query_of")
MOST_ONE_HOT = 2**27  # entries of p: 1 GiB
_ARRAY_NAMES = _JSON_NAMES | _NEXT_TOKEN | {"offsets", "W", "gram", "one_hot", *_PRODUCTS}


def read_problem(kind: type[Problem], path: Path) -> Problem:
    """The problem in an .npz, .json or .csv file, or a ValueError that names the missing part."""
    if path.suffix == ".npz":
        return problem_of_arrays(kind, read_arrays(path), path)
    if path.suffix == ".json":
        return _from_json(kind, path)
    if path.suffix in (".csv", ".tsv"):
        return _from_table(kind, path)
    raise ValueError(
        f"{path}: a problem is an .npz, .json or .csv file (docs/reference/files.md), got {path.suffix!r}"
    )


def write_problem(problem: Problem, path: Path) -> None:
    """Write what `read_problem` reads back; the ending decides the format."""
    if path.suffix == ".npz":
        write_arrays(path, problem_arrays(problem))
    elif path.suffix == ".json":
        content = json.dumps(_as_json(problem)) + "\n"
        with whole_text(path) as text:
            text.write(content)
    else:
        raise ValueError(f"{path}: a problem is written as .npz or .json, got the ending {path.suffix!r}")


def problem_arrays(problem: Problem) -> dict[str, Any]:
    """The flat arrays that make a problem; losses are saved by name, so only the built-in ones can be."""
    arrays: dict[str, Any] = {
        "tokens": problem.tokens,
        "offsets": problem.offsets,
        "loss": np.array(_saved_loss(problem)),
    }
    if isinstance(problem.table, OneHot):
        arrays["one_hot"] = np.array(problem.table.size)
    elif isinstance(problem.table, Products):
        keys = problem.table
        arrays |= zip(_PRODUCTS, (keys.left, keys.right, keys.token, keys.query), strict=True)
    else:
        arrays["keys"] = problem.keys
    for name in ("W", "gram", "counts", "weights"):
        if getattr(problem, name) is not None:
            arrays[name] = getattr(problem, name)
    return arrays | problem.readout.arrays()


def _saved_loss(problem: Problem) -> str:
    if LOSSES.get(problem.loss.name) is not problem.loss:
        raise ValueError(f"loss {problem.loss.name!r} is your own function and cannot be saved in a file")
    return problem.loss.name


def problem_of_arrays(kind: type[Problem], arrays: Arrays, path: Path) -> Problem:
    """The problem made of the arrays that `problem_arrays` gives; ``path`` is named in refusals."""
    _check_names(arrays.keys(), _ARRAY_NAMES, path)
    heads = ({"scores"}, {"values", "labels", "head"}, {"collocation", "words", "targets"})
    has_readout = any(names <= arrays.keys() for names in heads)
    if "offsets" not in arrays or not arrays.keys() & {"keys", "one_hot", "token_table"} or not has_readout:
        raise ValueError(
            f"{path} must hold keys, offsets and either scores or values, labels and head; "
            f"it holds {', '.join(map(ascii, sorted(arrays))) or 'nothing'}"
        )
    _check_heads(arrays.keys(), path)
    table = _table(arrays, path)
    N = table.shape[0]
    if "one_hot" in arrays and not ("tokens" in arrays and N <= MOST_ONE_HOT):
        raise ValueError(f"{path}: one_hot must be at most {MOST_ONE_HOT:,} and come with tokens, got {N:,}")
    tokens = arrays["tokens"] if "tokens" in arrays else np.arange(N)
    offsets = _offsets(arrays["offsets"], len(tokens))
    if tokens.ndim != 1 or tokens.dtype.kind not in "iu" or (tokens < 0).any() or (tokens >= N).any():
        raise ValueError(f"{path}: tokens must be row numbers of keys, from 0 to {N - 1}")
    if isinstance(table, Products):
        query = table.query[tokens]
        if (query != np.repeat(query[offsets[:-1]], np.diff(offsets))).any():
            raise ValueError(
                f"{path}: query_of must be one query in each input, got several; give an input each"
            )
    head = _head(arrays, table, tokens, offsets)
    W = _map(arrays, head, table, path)
    problem = kind._flat(table, tokens.astype(np.intp), offsets, head, W)
    return problem.weighted(arrays.get("weights"), arrays.get("counts"))


def _table(arrays: Arrays, path: Path) -> Keys:
    if "one_hot" in arrays:
        return OneHot(expect.whole("one_hot", arrays["one_hot"].tolist(), 1))
    if "token_table" in arrays:
        return _products(arrays, path)
    keys = expect.finite_array("keys", arrays["keys"], (None, None))
    if not keys.size:
        raise ValueError(f"{path}: keys must hold at least one token of one number, got {keys.shape}")
    gram = _gram(arrays, keys, path)
    return Dense(keys) if gram is None else Gram(keys, gram)


def _products(arrays: Arrays, path: Path) -> Products:
    """Outer products of tokens and queries, and which of them every key is made of."""
    if not set(_PRODUCTS) <= arrays.keys():
        raise ValueError(f"{path} must hold all of {', '.join(_PRODUCTS)} where inputs have queries")
    tables = [expect.finite_array(name, arrays[name], (None, None)) for name in _PRODUCTS[:2]]
    which = [expect.ids(name, arrays[name], len(arrays["token_of"])) for name in _PRODUCTS[2:]]
    for name, table, rows in zip(_PRODUCTS[2:], tables, which, strict=True):
        if not (table.size and rows.size) or (rows < 0).any() or (rows >= len(table)).any():
            raise ValueError(f"{path}: {name} must be row numbers of its table, from 0 to {len(table) - 1}")
    return Products(*tables, *(rows.astype(np.intp) for rows in which))


def _head(arrays: Arrays, table: Keys, tokens: np.ndarray, offsets: np.ndarray) -> Readout:
    loss = str(arrays.get("loss", "logistic"))
    if "scores" in arrays:
        return scored(expect.finite_array("scores", arrays["scores"], (len(tokens),)), offsets, loss)
    if "targets" in arrays:
        return _cross_entropy(arrays, table.shape[0], len(offsets) - 1)
    values = expect.finite_array("values", arrays["values"], (table.shape[0], None))
    labels = expect.signs("labels", arrays["labels"], len(offsets) - 1)
    v = expect.finite_array("head", arrays["head"], (values.shape[1],))
    return LinearReadout(values, labels, v, as_loss(loss))


def _cross_entropy(arrays: Arrays, N: int, n: int) -> Readout:
    """The head of a next-token problem."""
    collocation = arrays["collocation"]
    if ("margin" in arrays) == ("entries" in arrays):
        raise ValueError("give either margin, for a multiple of W_ov*, or entries, a table B[v, x]")
    if "margin" in arrays:
        W_ov = OutputValue.aligned(collocation, float(expect.finite_array("margin", arrays["margin"], ())))
    else:
        W_ov = OutputValue.of_table(collocation, arrays["entries"])
    sizes = {"words": N, "targets": n} | ({"queries": N} if "queries" in arrays else {})
    tokens = {name: expect.ids(name, arrays[name], size).astype(np.intp) for name, size in sizes.items()}
    for name, numbers in tokens.items():
        if (numbers < 0).any() or (numbers >= W_ov.V).any():
            raise ValueError(f"{name} must be tokens from 0 to {W_ov.V - 1}, got {numbers.tolist()!r:.60}")
    return CrossEntropy(W_ov, tokens["words"], tokens["targets"], tokens.get("queries"))


def _map(arrays: Arrays, head: Readout, table: Keys, path: Path) -> Any:
    """W, where the file has one: the map from values to keys."""
    if "W" not in arrays:
        return None
    if head.values is None:
        raise ValueError(f"{path}: W maps values to keys, and a file of scores has no values; leave it out")
    keys = table.dense()
    W = expect.finite_array("W", arrays["W"], (keys.shape[1], head.values.shape[1]))
    if not np.allclose(head.values @ W.T, keys, rtol=1e-9, atol=1e-9 * np.abs(keys).max()):
        raise ValueError(f"{path}: keys must be W x of the values x, got other keys; leave one of them out")
    return W


def _gram(arrays: Arrays, keys: np.ndarray, path: Path) -> np.ndarray | None:
    """The inner products of the tokens, where the file has them: those of the keys, up to rounding.

    That makes them semidefinite up to rounding too.
    """
    if "gram" not in arrays:
        return None
    gram = expect.finite_array("gram", arrays["gram"], (len(keys), len(keys)))
    if not np.allclose(gram, gram.T, rtol=1e-12, atol=0):
        raise ValueError(f"{path}: gram must be a symmetric matrix, got another; leave it out")
    with np.errstate(over="ignore", invalid="ignore"):
        rounding = 10 * len(keys) * np.finfo(float).eps * np.sum(keys * keys)
        difference = np.abs(keys @ keys.T - gram).max()
    if not difference <= rounding < np.inf:
        raise ValueError(f"{path}: gram must hold the inner products of keys, got others; leave it out")
    gram = gram if (gram == gram.T).all() else gram / 2 + gram.T / 2
    gram.setflags(write=False)
    return gram


def _offsets(offsets: np.ndarray, slots: int) -> np.ndarray:
    is_index = offsets.ndim == 1 and offsets.dtype.kind in "iu" and offsets.size > 1
    signed = offsets.astype(np.intp) if is_index else offsets  # unsigned numbers never seem to fall
    if not (is_index and signed[0] == 0 and signed[-1] == slots and (np.diff(signed) > 0).all()):
        raise ValueError(f"offsets must rise from 0 to the number of tokens ({slots}), one step per input")
    return signed


def _from_json(kind: type[Problem], path: Path) -> Problem:
    content = read_json(path, "a problem, as docs/reference/files.md shows one")
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object with keys and scores, got {type(content).__name__}")
    _check_names(content.keys(), _JSON_NAMES, path)
    _check_heads(content.keys(), path)
    loss = content.get("loss", "logistic")
    if not isinstance(loss, str):
        raise ValueError(f"{path}: loss must be a name, one of {', '.join(LOSSES)}, got {loss!r:.60}")
    problem = _posed(kind, content, loss)
    if problem is None:
        raise ValueError(
            f"{path} must hold keys and either scores or values, labels and head, or tokens, queries and "
            f"either scores or labels and head; it holds {', '.join(sorted(content)) or 'nothing'}"
        )
    counts = content.get("counts")
    if counts is not None:  # one for each token of each input
        counts, offsets = expect.ragged("counts", counts, width=False)
        expect.same_tokens("counts", offsets, problem.offsets)
    return problem.weighted(content.get("weights"), counts)


def _posed(kind: type[Problem], content: dict[str, Any], loss: str) -> Problem | None:
    """The problem of a JSON object, by the names it has; None if they make none."""
    names = content.keys() - {"loss", "counts", "weights"}
    if names == {"keys", "scores"}:
        return kind(content["keys"], content["scores"], loss)
    if names == {"keys", "values", "labels", "head"}:
        return kind.from_values(content["keys"], content["values"], content["labels"], content["head"], loss)
    if names in ({"tokens", "queries", "scores"}, {"tokens", "queries", "labels", "head"}):
        arguments = {"readout" if name == "head" else name: content[name] for name in names}
        return kind.from_queries(**arguments, loss=loss)
    return None


def _check_names(names: Iterable[str], allowed: set[str], path: Path) -> None:
    unknown = set(names) - allowed
    if unknown:
        raise ValueError(f"{path}: unknown name {min(unknown)!a}; known are {', '.join(sorted(allowed))}")


def _check_heads(names: Iterable[str], path: Path) -> None:
    if "scores" in names and {"values", "labels", "head"} & set(names):
        raise ValueError(f"{path}: give either scores, or values, labels and head, not both")


def _as_json(problem: Problem) -> dict[str, Any]:
    def rows(table: np.ndarray) -> list[Any]:
        return [part.tolist() for part in problem.split(table[problem.tokens])]

    table, linear = problem.table, problem.readout.linear
    if isinstance(table, Products):
        queries = table.right[table.query[problem.tokens[problem.offsets[:-1]]]]
        content: dict[str, Any] = {"tokens": rows(table.left[table.token]), "queries": queries.tolist()}
    else:
        content = {"keys": rows(problem.keys)}
    content["loss"] = _saved_loss(problem)
    if problem.counts is not None:
        content["counts"] = [part.tolist() for part in problem.split(problem.counts)]
    if problem.weights is not None:
        content["weights"] = problem.weights.tolist()
    if linear is not None:
        content |= {"labels": linear.labels.tolist(), "head": linear.v.tolist()}
        return content if isinstance(table, Products) else content | {"values": rows(linear.values)}
    problem.readout.arrays()  # refuses what no file can hold
    if problem.readout.moves:
        raise ValueError("scores that move with the attention have no form in JSON; save the problem as .npz")
    return content | {"scores": [part.tolist() for part in problem.split(problem.scores)]}


_PAGE = "docs/reference/files.md shows such a table"
_OWN = ("input", "score", "token")


def _from_table(kind: type[Problem], path: Path) -> Problem:
    """The problem in a table with the columns input, score and the coordinates of the keys."""
    try:
        text = read_bytes(path, LARGEST_JSON).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not a table in UTF-8 ({error.reason}); {_PAGE}") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        names = [name.strip().lower() for name in next(rows, [])]
        return _of_rows(kind, path, names, [(rows.line_num, row) for row in rows if any(map(str.strip, row))])
    except csv.Error as error:
        raise ValueError(f"{path}, line {rows.line_num}: {error}; {_PAGE}") from None


def _of_rows(kind: type[Problem], path: Path, names: list[str], rows: list[tuple[int, list[str]]]) -> Problem:
    coordinates = [at for at, name in enumerate(names) if name not in _OWN]
    if not {"input", "score"} <= set(names) or len(set(names)) < len(names) or not coordinates:
        raise ValueError(
            f"{path}: the first line must name the columns input, score and one for each coordinate, "
            f"got {', '.join(names) or 'nothing'}; {_PAGE}"
        )
    keys: dict[str, list[list[float]]] = {}
    scores: dict[str, list[float]] = {}
    for line, row in rows:
        if len(row) != len(names):
            raise ValueError(f"{path}, line {line} must have {len(names)} fields, got {len(row)}; {_PAGE}")
        name = row[names.index("input")].strip()
        try:
            key = [float(row[at]) for at in coordinates]
            score = float(row[names.index("score")])
        except ValueError as error:
            raise ValueError(
                f"{path}, line {line} must hold numbers, got another text ({error}); {_PAGE}"
            ) from None
        keys.setdefault(name, []).append(key)
        scores.setdefault(name, []).append(score)
    if not keys:
        raise ValueError(f"{path} holds no token: the first line is followed by none; {_PAGE}")
    return kind(list(keys.values()), list(scores.values()))
