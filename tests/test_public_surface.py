"""The public surface: one lazy table of names, a stub that agrees, and a docstring whose example runs."""

import ast
import contextlib
import doctest
import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import typer
from tests.contract import names

import hardmax
from hardmax.app.cli.commands import typer_app

ROOT = Path(__file__).parents[1]
NEEDS = {"play": "anywidget"}  # what make test does not install
NEEDS |= {f"torch.{name}": "torch" for name in hardmax.torch.__all__}
ABSENT = set() if importlib.util.find_spec("torch") else {name for name in NEEDS if name.startswith("torch.")}
HEAVY = ("numba", "scipy", "matplotlib", "torch")


def public_objects():
    """Yield (dotted name, object) for every public name; a public module adds what it lists in __all__."""
    for name in sorted({*hardmax.__all__} - {"__version__"}):
        thing = getattr(hardmax, name)
        yield name, thing
        if isinstance(thing, ModuleType):
            wanted = (inner for inner in thing.__all__ if f"{name}.{inner}" not in ABSENT)
            yield from ((f"{name}.{inner}", getattr(thing, inner)) for inner in wanted)


def stub_imports(package: str):
    """Return what the stub of a package imports: public name -> (module, name there)."""
    tree = ast.parse((Path(hardmax.__file__).parent / package / "__init__.pyi").read_text())
    whole = f"hardmax.{package}".rstrip(".")
    found = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = importlib.util.resolve_name("." * node.level + (node.module or ""), whole)
            found |= {alias.asname or alias.name: (module, alias.name) for alias in node.names}
    return found


PUBLIC = dict(public_objects())


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.extra] if name in NEEDS else []) for name in PUBLIC]
)
@pytest.mark.no_cover
def test_docstring_has_an_example_that_runs(name):
    thing = PUBLIC[name]
    if isinstance(thing, ModuleType):
        assert inspect.getdoc(thing), f"hardmax.{name} has no docstring"
        return
    if name in NEEDS:
        pytest.importorskip(NEEDS[name], reason=f"the example needs {NEEDS[name]}: make test-extras runs it")
    assert ">>>" in (inspect.getdoc(thing) or ""), f"hardmax.{name} has no docstring with a >>> example"
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    report: list[str] = []
    # No names are given: a pasted example must work too. Methods are found through their class.
    for test in finder.find(thing, f"hardmax.{name}", globs={}):
        runner.run(test, out=report.append)
    assert runner.summarize(verbose=False).failed == 0, "".join(report)


def test_all_and_dir_agree():
    assert set(hardmax.__all__) - {"__version__"} <= set(dir(hardmax))


def test_the_top_level_is_small():
    """A newcomer reads it in one sitting; the rest stands in public packages, each with one sentence."""
    assert len(set(hardmax.__all__) - {"__version__"} - names.results()) <= 50


def test_the_whole_surface_is_small():
    """Classes that are only returned are not counted: nobody types their names."""
    counted = {name for name, thing in PUBLIC.items() if not isinstance(thing, ModuleType)} - names.results()
    assert len(counted) <= 170, sorted(counted)


MARKS = {"torch": [pytest.mark.extra]}
STUBS = sorted(path.parent.name for path in Path(hardmax.__file__).parent.glob("*/__init__.pyi"))


@pytest.mark.parametrize("package", ["", *(pytest.param(each, marks=MARKS.get(each, [])) for each in STUBS)])
def test_stub_and_table_agree(package):
    if package in MARKS:
        pytest.importorskip(package)
    home = importlib.import_module(f"hardmax.{package}".rstrip("."))
    stub = {name: target for name, target in stub_imports(package).items() if not name.startswith("_")}
    assert set(stub) == set(home.__all__) - {"__version__"}
    for name, (module, original) in stub.items():
        thing = getattr(home, name)
        if isinstance(thing, ModuleType):
            assert thing.__name__ == f"{module}.{original}"
        else:
            assert thing is getattr(importlib.import_module(module), original)


# One word for one thing: `rate` (of a first step or stage `first_rate`), `workers`, `tolerance`, `rng`.
OTHER_WORDS = {
    "eta",
    "eta0",
    "rate0",
    "rate_0",
    "learning_rate",
    "step_size",
    "threads",
    "n_jobs",
    "n_workers",
    "processes",
    "tol",
    "random_state",
}


def parameters(thing):
    """Names of all arguments of a function, or of a class and its methods."""
    inside = []
    if inspect.isclass(thing):
        inside = [f for name, f in inspect.getmembers(thing, callable) if not name.startswith("_")]
    for each in [thing, *inside] if callable(thing) else []:
        with contextlib.suppress(TypeError, ValueError):  # a class of another library
            yield from inspect.signature(each).parameters


def test_one_word_for_one_thing():
    """Estimators of scikit-learn speak its language, n_jobs and random_state, which its tools ask for."""
    ours = [name for name in PUBLIC if not hasattr(PUBLIC[name], "get_params")]
    assert len(PUBLIC) - len(ours) == 2
    assert {name: found for name in ours if (found := OTHER_WORDS & {*parameters(PUBLIC[name])})} == {}
    commands = [*typer.main.get_command(typer_app()).commands.values()]
    commands += [inner for each in commands for inner in getattr(each, "commands", {}).values()]
    assert len(commands) > 10
    options = {word for each in commands for option in each.params for word in option.opts}
    assert {f"--{word.replace('_', '-')}" for word in OTHER_WORDS} & options == set()


def test_one_signature_of_cosine_distance():
    """1 - cos to another direction; what is predicted, or to a direction of its own, has another name."""
    classes = [thing for thing in PUBLIC.values() if inspect.isclass(thing)]
    methods = [each.cosine_distance for each in classes if callable(getattr(each, "cosine_distance", None))]
    found = [inspect.signature(each).parameters for each in methods]
    assert len(found) > 5
    assert {tuple(each)[:2] for each in found} == {("self", "other")}
    assert {tuple(each)[2:] for each in found} <= {("at",), ()}


@pytest.mark.parametrize(
    "name", sorted(name for name in PUBLIC if isinstance(PUBLIC[name], ModuleType) and "." not in name)
)
def test_public_modules_are_imported_by_the_name_they_have(name):
    assert importlib.import_module(f"hardmax.{name}") is getattr(hardmax, name)


def test_no_two_public_things_have_one_name():
    """Some stand in two places, as hm.check_statement and hm.papers.check do; they are one thing."""
    homes: dict[str, set[int]] = {}
    for name, thing in PUBLIC.items():
        if not isinstance(thing, ModuleType):
            homes.setdefault(name.rpartition(".")[2], set()).add(id(thing))
    assert [name for name, found in homes.items() if len(found) > 1] == []


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = hardmax.no_such_name


def test_importing_hardmax_is_light():
    code = f"import hardmax.nexttoken, sys; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_citation_names_the_version():
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert citation
    assert citation[1] == hardmax.__version__


def test_without_pytorch_a_sentence_says_how_to_get_it():
    """What is named in hm.torch can be seen without it; what is asked for says what to install."""
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import hardmax as hm\n"
        "assert 'softmax' in dir(hm.torch)\n"
        "try: hm.torch.softmax\n"
        "except ImportError as told: print(told)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert re.match(r"hm\.torch\.softmax needs PyTorch \(.*torch.*\): pip install \"", done.stdout)
