"""The first use says on standard error that kernels are being compiled, later ones say nothing."""

import subprocess
import sys

import pytest

from hardmax._lib import compiling
from hardmax._lib.compiling import MESSAGE, Compiled
from hardmax.app import cli
from hardmax.app.results.doctor import DoctorReport, Finding

COLD = "import hardmax as hm; hm.train(hm.data.example('B-FIG-1a'), hm.optim.Normalized(0.1), steps=2)"


@pytest.fixture
def fresh(monkeypatch):
    monkeypatch.setattr(Compiled, "count", 0)
    monkeypatch.setattr(Compiled, "may_say", True)


@pytest.mark.compiled
def test_a_cold_cache_is_announced_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    with subprocess.Popen(
        [sys.executable, "-c", COLD], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as started:
        assert started.stderr is not None
        first = started.stderr.readline()
        started.kill()
        out = started.communicate()[0]
    assert (first, out) == (MESSAGE + "\n", "")


def test_it_is_said_once_and_of_own_kernels_only(fresh, capsys):
    compiling.note("someone.elses")
    compiling.note("__main__")
    assert capsys.readouterr().err == ""
    compiling.note("hardmax.dynamics.loop")
    compiling.note("hardmax.dynamics.softmax")
    assert capsys.readouterr().err == MESSAGE + "\n"
    assert Compiled.count == 2


@pytest.mark.parametrize("arguments", [["doctor", "--quiet"], ["--quiet", "doctor"]])
def test_quiet_takes_it_back(fresh, capsys, monkeypatch, arguments):
    def examined() -> DoctorReport:
        compiling.note("hardmax.dynamics.loop")
        return DoctorReport((Finding("cores", True, "2"),))

    monkeypatch.setattr("hardmax.app.results.doctor.doctor", examined)
    assert cli.run(arguments) == 0
    assert (capsys.readouterr().err, Compiled.count) == ("", 1)
