"""The cache of compiled kernels: never stale, shared by environments, safe against damage and company."""

import ast
import os
import shutil
import stat
import subprocess
import sys

import numba
import pytest

from hardmax._lib import caching
from hardmax._lib.compiling import MESSAGE

pytestmark = pytest.mark.compiled

INNER = """from hardmax._lib.compiled import float64, njit

@njit(float64(float64), cache=True)
def inner(x):
    return x + 1.0
"""
OUTER = """from hardmax._lib.compiled import float64, njit
from hardmax.constants import FACTOR
from hardmax.inner import inner

@njit(float64(float64), cache=True)
def outer(x):
    return FACTOR * inner(x)
"""
RUN = """
import numba
from numba.core import event
names = []
class Listener(event.Listener):
    def on_start(self, event): names.append(event.data["dispatcher"].py_func.__name__)
    def on_end(self, event): pass
event.register("numba:compile", Listener())
from hardmax.outer import outer
print(outer(1.0), *sorted(set(names) & {"inner", "outer"}))
"""


@pytest.fixture
def tree(tmp_path):
    """Return a small package of two kernels with hardmax's own cache."""
    return _tree(tmp_path / "one")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Return a cache in which the kernels of such a package are compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    expected = ["4.0", "inner", "outer"], MESSAGE + "\n"
    assert _run(_tree(folder / "tree"), folder / "cache") == expected
    return folder / "cache"


@pytest.fixture
def cache(compiled, tmp_path):
    """Return a copy of that cache."""
    return shutil.copytree(compiled, tmp_path / "cache")


def _tree(folder):
    package = folder / "hardmax"
    shutil.copytree(caching.PACKAGE / "_lib", package / "_lib", ignore=shutil.ignore_patterns("__pycache__"))
    (package / "__init__.py").write_text("__version__ = '0'\n")
    (package / "constants.py").write_text("FACTOR = 2.0\n")
    (package / "inner.py").write_text(INNER)
    (package / "outer.py").write_text(OUTER)
    return folder


def _start(tree, cache, **environment):
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA", "XDG"))}
    environment = {"NUMBA_CACHE_DIR": str(cache), "PYTHONPATH": str(tree), **environment}
    # python -P: the tree comes before the installed package, which an editable installation puts on the path
    command = [sys.executable, "-P", "-c", f"import sys; sys.path.insert(0, {str(tree)!r})\n{RUN}"]
    return subprocess.Popen(
        command, env=kept | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def _end(started):
    out, err = started.communicate()
    assert started.returncode == 0, err
    return out.split(), err


def _run(tree, cache, **environment):
    return _end(_start(tree, cache, **environment))


def test_an_edited_inner_kernel_recompiles_the_outer_one(tree, cache):
    (tree / "hardmax" / "inner.py").write_text(INNER.replace("1.0", "5.0"))
    assert _run(tree, cache)[0] == ["12.0", "inner", "outer"]


def test_a_constant_of_another_file_recompiles_what_reads_it(tree, cache):
    (tree / "hardmax" / "constants.py").write_text("FACTOR = 10.0\n")
    assert _run(tree, cache)[0] == ["20.0", "outer"]


def test_a_second_environment_compiles_nothing(tree, cache):
    assert _run(tree, cache) == (["4.0"], "")


def test_two_processes_may_compile_at_once(tree, tmp_path):
    cache = tmp_path / "cache"
    both = [_start(tree, cache) for _ in range(2)]
    assert [_end(each)[0][0] for each in both] == ["4.0", "4.0"]
    files = list(cache.rglob("*.kernel"))
    assert {path.name.split("-")[0] for path in files} >= {"inner.inner", "outer.outer"}
    assert all(caching.unsealed(path.read_bytes()) for path in files)
    assert not list(cache.rglob("*.compiling"))
    assert _run(tree, cache) == (["4.0"], "")


@pytest.mark.parametrize("damage", [b"", b"not a kernel", None], ids=["empty", "foreign", "cut"])
def test_a_damaged_file_is_replaced(tree, cache, damage):
    (file,) = cache.rglob("outer.outer-*.kernel")
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] if damage is None else damage)
    assert _run(tree, cache)[0] == ["4.0", "outer"]
    assert caching.unsealed(file.read_bytes())


def test_a_cache_that_cannot_be_written_costs_one_warning(tree, tmp_path):
    file = tmp_path / "file"
    file.touch()
    answer, err = _run(tree, file / "cache", HOME=str(file), XDG_CACHE_HOME=str(file), TMPDIR=str(tmp_path))
    assert answer == ["4.0", "inner", "outer"]
    first, second = err.splitlines()
    assert first.startswith(f"hardmax: compiled kernels are not kept: {file}")
    assert first.endswith(caching.ADVICE)
    assert second == MESSAGE
    assert not list(tmp_path.glob(f"{caching.PREFIX}*"))  # the temporary folder is gone


def test_a_full_cache_costs_one_warning(tree, cache):
    for file in cache.rglob("*.kernel"):
        file.unlink()
        file.mkdir()
        (file / "in the way").touch()
    answer, err = _run(tree, cache)
    assert (answer[0], err.count("are not kept"), err.count("\n")) == ("4.0", 1, 2)


@pytest.fixture
def place(monkeypatch):
    """Return a function that chooses the folder for settings of a user."""
    for name in ("NUMBA_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, "")  # undone after the test even where the variable was not set
        monkeypatch.delenv(name)
    monkeypatch.setattr(caching.atexit, "register", lambda *_: None)
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    return lambda asked="": caching._place.__wrapped__(asked)


@pytest.mark.skipif(sys.platform != "linux", reason="folders of Linux")
def test_the_folder_is_private_and_in_the_cache_of_the_user(place, monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    chosen = place()
    assert chosen == (tmp_path / ".cache" / "hardmax" / "kernels" / caching.digest(), True, ())
    for folder in (chosen.folder, chosen.folder.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "other"))
    assert place().folder.is_relative_to(tmp_path / "other")
    assert place(str(tmp_path / "asked")).folder.is_relative_to(tmp_path / "asked")


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_a_folder_that_others_can_write_to_is_not_used(place, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    first = place().folder
    first.parent.chmod(0o777)
    chosen = place()
    assert chosen.folder.parent == first.parent.with_name(f"kernels-{os.geteuid()}")
    assert chosen.refused == (f"{first.parent}: others can write to it",)
    first.parent.chmod(0o700)
    owner = os.geteuid()
    if owner != 0:
        pytest.skip("only root makes folders of another user")
    os.chown(first.parent, 4321, -1)
    assert place().refused == (f"{first.parent}: it belongs to another user",)


def test_without_a_home_a_temporary_folder_is_lent_and_shared(place, monkeypatch, tmp_path):
    def homeless():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(caching, "user_cache", homeless)
    monkeypatch.setattr(caching.tempfile, "tempdir", str(tmp_path))
    chosen = place()
    assert (chosen.folder.parent, chosen.lasts) == (tmp_path, False)
    assert os.environ["NUMBA_CACHE_DIR"] == numba.config.CACHE_DIR == str(chosen.folder)
    assert place(str(chosen.folder)) == (chosen.folder, False, ())  # in a process that is started from here
    monkeypatch.setattr(caching, "SPARE", tmp_path / "nothing")
    monkeypatch.setattr(caching.tempfile, "tempdir", str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="set NUMBA_CACHE_DIR"):
        place()


def test_old_folders_are_removed(place, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    root = tmp_path / "hardmax" / "kernels"
    for age in range(caching.KEPT + 3):
        folder = root / f"{age:032x}"
        folder.mkdir(parents=True)
        os.utime(folder, (1e9 - age, 1e9 - age))
    root.chmod(0o700)
    (root / "not ours").mkdir()
    place()
    names = {folder.name for folder in root.iterdir()}
    assert names == {caching.digest(), "not ours", *(f"{age:032x}" for age in range(caching.KEPT))}


def test_every_file_with_a_kernel_is_in_the_digest():
    known = {*caching.sources()}
    kernels = _kernels()
    assert len(kernels) > 100
    assert {path for path, _ in kernels} <= known
    assert caching.PACKAGE / "dynamics" / "lanes" / "vectors.py" in known  # what kernels are compiled with


DECORATORS = {"njit", "kernel", "uncounted", "inlined", "CompiledUpdate", "CompiledForce"}


def _kernels():
    """Return (file, function) of every kernel of the package."""
    found = []
    for path in caching.PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef):
                names = {each.func if isinstance(each, ast.Call) else each for each in node.decorator_list}
                if {getattr(each, "id", "") for each in names} & DECORATORS:
                    found.append((path, node))
    return found


SLOW_TO_COMPILE = ("sort", "argsort", "partition", "unique", "max", "min", "sum", "diag")


def test_kernels_are_cheap_to_compile():
    """No kernel assigns an array to a slice or sorts: numba compiles formatted errors and more for that."""
    wrong = []
    for path, function in _kernels():
        for node in ast.walk(function):
            if isinstance(node, (ast.JoinedStr, ast.Raise)):
                wrong.append((path.name, node.lineno))
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in SLOW_TO_COMPILE:
                wrong.append((path.name, node.lineno))
            if isinstance(node, ast.Assign):
                wrong += [
                    (path.name, node.lineno) for target in node.targets if _takes_array(target, node.value)
                ]
    assert wrong == []


def _takes_array(target, value):
    """Return whether an array may be assigned to a slice; numbers, and sums of elements, may."""
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        return any(map(_takes_array, target.elts, value.elts))
    if not isinstance(target, ast.Subscript):
        return False
    sliced = any(isinstance(each, ast.Slice) for each in ast.walk(target.slice))
    return sliced and isinstance(value, (ast.Subscript, ast.Name)) and not _is_scalar(value)


SCALARS = {"zero", "common"}


def _is_scalar(value):
    """Return whether a name is that of a number: one of these, or a constant of its module."""
    return isinstance(value, ast.Name) and (value.id in SCALARS or value.id.isupper())
