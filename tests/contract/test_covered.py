"""Every public name is reached by a test that asserts a value, and every word of `names.py` is used."""

import ast
import functools
import importlib.util
from pathlib import Path

from . import names

HERE = Path(__file__).parent


def chains(tree, root):
    """Yield what follows `root.` in a piece of source: "margin.norm" of hm.margin.norm."""
    for node in ast.walk(tree):
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if parts and isinstance(node, ast.Name) and node.id == root:
            yield ".".join(reversed(parts))


def asserts(function):
    raising = ("raises", "warns")
    return any(
        isinstance(node, ast.Assert) or (isinstance(node, ast.Attribute) and node.attr in raising)
        for node in ast.walk(function)
    )


def used_words():
    """Return the words that occur in tests with an assertion, and in what the tests of a file share."""
    found = set()
    for file in HERE.glob("test_*.py"):
        tree = ast.parse(file.read_text(encoding="utf-8"))
        for node in tree.body:
            is_test = isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
            if not is_test or asserts(node):
                found |= {chain.split(".")[0] for chain in chains(node, "n")}
    return found


SOURCE = ast.parse((HERE / "names.py").read_text(encoding="utf-8"))
FUNCTIONS = {node.name: node for node in SOURCE.body if isinstance(node, ast.FunctionDef)}


@functools.cache
def reached(word):
    """Return the public names behind a word, also through the functions that it calls."""
    if word in names.WORDS:
        return {names.WORDS[word]}
    if word not in FUNCTIONS:
        return set()
    tree = FUNCTIONS[word]
    called = {
        node.func.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    return {*chains(tree, "hm")}.union(*(reached(each) for each in called - {word}))


def prefixes(name):
    parts = name.split(".")
    return {".".join(parts[: k + 1]) for k in range(len(parts))}


def needs_torch(name):
    """Whether a public name cannot be imported here, because it needs PyTorch and that is absent."""
    return name.startswith("torch.") and importlib.util.find_spec("torch") is None


def test_every_public_name_is_asserted():
    found = set().union(*(prefixes(name) for word in used_words() for name in reached(word)))
    everything = {id(names.public(name)) for name in found if not needs_torch(name)}
    missing = [
        name
        for name in names.public_names()
        if name not in names.results()
        and name not in found
        and (needs_torch(name) or id(names.public(name)) not in everything)
    ]
    assert missing == []


def test_every_constructor_is_asserted():
    """A public class that a user builds may have other constructors; each of them is used."""
    found = {name for word in used_words() for name in reached(word)}
    missing = []
    for name in set(names.public_names()) - names.results():
        if name.startswith("torch.") or not isinstance(thing := names.public(name), type):
            continue
        made = [each for each in vars(thing) if isinstance(vars(thing)[each], classmethod | staticmethod)]
        missing += [f"{name}.{each}" for each in made if each[0] != "_" and f"{name}.{each}" not in found]
    assert missing == []


def test_results_are_classes():
    known = [name for name in names.results() if not needs_torch(name)]
    assert [name for name in known if not isinstance(names.public(name), type)] == []


def test_every_word_is_used():
    words = {*names.WORDS, *names.ATTRIBUTES}
    assert words - used_words() == set()
