"""The doctor reports what is there, and says what to do about what is not."""

import json
import sys
from importlib import metadata
from pathlib import Path

import jsonschema
import numba
import pytest

import hardmax as hm
from hardmax._lib import caching, extras
from hardmax._lib.compiling import Compiled
from hardmax.app import cli
from hardmax.app.results import compilation
from hardmax.app.results import doctor as diagnosis
from hardmax.app.results.compilation import Compilation
from hardmax.app.results.doctor import DoctorReport, Finding

SCHEMAS = Path(__file__).parents[3] / "docs" / "reference" / "schemas"


def test_numerics_self_test_passes():
    found = diagnosis.numerics()
    assert found.ok, found.detail


def test_numerics_reports_a_wrong_gradient(monkeypatch):
    import hardmax as hm

    true = hm.gradient

    def wrong(problem, p):
        return true(problem, (-p[0], p[1]))

    monkeypatch.setattr(hm, "gradient", wrong)
    found = diagnosis.numerics()
    assert not found.ok
    assert "1e-12" in found.detail


def test_numerics_reports_an_exception(monkeypatch):
    import hardmax as hm

    def broken(problem, p):
        raise RuntimeError("no\nkernel")

    monkeypatch.setattr(hm, "gradient", broken)
    found = diagnosis.numerics()
    assert not found.ok
    assert found.detail.endswith("RuntimeError: no kernel")


def test_every_finding_has_its_own_name_and_one_line():
    found = diagnosis.doctor().checks
    assert len({each.name for each in found}) == len(found)
    assert all(each.detail and "\n" not in each.detail for each in found)


def test_a_package_that_cannot_be_imported():
    found = diagnosis._package("no-such-distribution", "no_such_module")
    assert not found.ok
    assert "pip install" in found.detail


def test_extras_come_from_the_package_metadata():
    found = {each.name: each for each in diagnosis.extras()}
    assert set(found) == {f"extra {name}" for name in metadata.metadata("hardmax").get_all("Provides-Extra")}
    assert found["extra dev"].detail == "installed"


def test_extras_are_unknown_when_hardmax_is_not_installed(monkeypatch):
    monkeypatch.setattr(diagnosis, "_is_installed", lambda distribution: False)
    (found,) = diagnosis.extras()
    assert not found.ok
    assert "pip install" in found.detail


def test_an_absent_extra_is_fine_and_says_how_to_get_it():
    found = diagnosis._extra("torch", ["no-such-distribution"])
    assert found.ok
    assert found.detail == f"absent (no-such-distribution); {extras.install('torch')}"


def test_blas_threads_without_threadpoolctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    for name in diagnosis.BLAS_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert "not limited" in diagnosis._blas_threads().detail
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "1")
    assert diagnosis._blas_threads().detail == "OPENBLAS_NUM_THREADS=1"


@pytest.mark.compiled
def test_compile_cache_goes_where_it_is_asked_to(tmp_path, monkeypatch):
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    found = diagnosis.compile_cache()
    assert found.ok
    assert found.detail.startswith(str(tmp_path))


@pytest.mark.compiled
def test_compile_cache_that_cannot_be_written(tmp_path, monkeypatch):
    blocked = tmp_path / "a file, not a folder"
    blocked.touch()
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(blocked))
    found = diagnosis.compile_cache()
    assert not found.ok
    assert "NUMBA_CACHE_DIR" in found.detail


@pytest.mark.compiled
def test_no_compile_cache_at_all(monkeypatch, tmp_path):
    lent = caching.Place(tmp_path, False, ("/a: Read-only file system",))
    monkeypatch.setattr(caching, "place", lambda: lent)
    found = diagnosis.compile_cache()
    assert not found.ok
    assert "compiles its kernels again, up to half a minute (/a: Read-only file system)" in found.detail
    assert "set NUMBA_CACHE_DIR" in found.detail
    assert diagnosis.kernels().detail.startswith("not compiled beforehand")


def test_compile_cache_without_the_compiler(monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", 1)
    assert diagnosis.compile_cache().ok


def test_without_numba_the_doctor_still_speaks(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    assert not diagnosis.compile_cache().ok
    assert not diagnosis.threads()[0].ok


@pytest.mark.compiled
def test_the_doctor_compiles_what_is_not_compiled_and_lists_what_remains(monkeypatch, capsys):
    made = Compilation(0, {})
    monkeypatch.setattr(compilation, "compile_parts", lambda report: made)
    assert diagnosis.kernels() == Finding("kernels", True, "compiled")
    made = Compilation(2, {})
    assert diagnosis.kernels().detail.startswith("2 compiled now, in ")
    made = Compilation(0, {"flow": "RuntimeError: no LLVM", "probe": "MemoryError"})
    listed = "compiled; not compiled: flow (RuntimeError: no LLVM), probe (MemoryError)"
    assert diagnosis.kernels() == Finding("kernels", False, listed)
    assert capsys.readouterr().err == ""  # nothing was compiled, so nothing announces it


@pytest.mark.compiled
def test_after_the_doctor_nothing_that_commands_use_is_left_to_compile(command, tmp_path):
    assert compilation.compile_parts().remaining == {}
    assert compilation.remaining() == []
    before = Compiled.count
    problem = hm.data.sphere(n=3, T=4, d=2, rng=1)
    hm.flow(problem, until_norm=10.0)
    list(hm.selections(problem))
    hm.train(problem, hm.optim.Normalized(0.1), steps=3)
    hm.critical_directions(problem)
    hm.train([problem] * 2, hm.optim.Adam(0.1), steps=3)
    assert Compiled.count == before


def test_long_findings_fit_80_columns(monkeypatch, capsys):
    detail = "absent (" + ", ".join(f"package-{k}" for k in range(12)) + ")"
    found = DoctorReport((Finding("extra docs", True, detail),))
    monkeypatch.setattr(diagnosis, "doctor", lambda: found)
    monkeypatch.setenv("COLUMNS", "80")
    cli.run(["doctor"])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) > 1
    assert " ".join("\n".join(lines).split()) == f"ok extra docs {detail}"


def test_a_path_that_is_too_long_stays_beside_its_name(monkeypatch, capsys):
    path = "/" + "x" * 90
    found = DoctorReport((Finding("compile cache", True, f"{path} (good)"),))
    monkeypatch.setattr(diagnosis, "doctor", lambda: found)
    monkeypatch.setenv("COLUMNS", "80")
    cli.run(["doctor"])
    assert capsys.readouterr().out.splitlines()[0] == f"ok   compile cache  {path}"


def test_json_obeys_its_schema(capsys):
    assert cli.run(["doctor", "--json"]) == 0
    schema = json.loads((SCHEMAS / "doctor.schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(json.loads(capsys.readouterr().out), schema, cls=jsonschema.Draft202012Validator)


def test_text_and_exit_code(monkeypatch, capsys):
    found = DoctorReport((Finding("good", True, "1.0"), Finding("bad [one]", False, "fix it")))
    monkeypatch.setattr(diagnosis, "doctor", lambda: found)
    assert cli.run(["doctor"]) == found.exit_code == 1
    assert capsys.readouterr().out == "ok   good       1.0\nFAIL bad [one]  fix it\n"


def test_a_package_that_is_missing_is_a_finding_and_not_the_end(monkeypatch, tmp_path):
    """Compilation imports all kernels, so it fails as a whole where one of their packages is absent."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setitem(sys.modules, "hardmax.app.results.compilation", None)
    monkeypatch.delattr("hardmax.app.results.compilation")
    finding = diagnosis.kernels()
    assert not finding.ok
    assert finding.detail.startswith("not compiled: ")
