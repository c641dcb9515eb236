"""How many threads a process takes."""

import pytest

from hardmax._lib.parallel import cores


def test_a_worker_of_a_sweep_takes_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_NUM_THREADS", "1")
    assert cores() == 1


def test_the_variable_only_lowers_the_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NUMBA_NUM_THREADS", raising=False)
    machine = cores()
    assert machine >= 1
    for text in ("100000", "", "many"):
        monkeypatch.setenv("NUMBA_NUM_THREADS", text)
        assert cores() == machine
