"""Real workers: the same rows from each backend, one thread each, deaths that cost one trial."""

import contextlib
import os
import sys
from pathlib import Path

import pytest

import hardmax as hm

TASKS = Path(__file__).with_name("tasks.py")
GRID = {"a": [1, 2.5], "b": ["x", None]}


def comparable(result):
    return [{name: repr(value) for name, value in row.items()} for row in result.rows()]


def check_threads(result):
    for row in result.rows():
        assert (row["numba"], row["pools"], row["variable"]) == (1, 1, "1")


def check_deaths(result):
    """One trial in 11 kills its worker whenever it is run: these fail, the others do not notice."""
    guilty = [row["seed"] % 11 == 0 for row in result.rows()]
    assert [row["status"] == "failed" for row in result.rows()] == guilty
    assert result.remaining == 0
    assert result.failed == sum(guilty) > 0
    for failure in result.failures():
        assert failure.error == "the worker died while it ran this trial"
        assert failure.attempts >= 2


@pytest.mark.parametrize("function, batch", [("rows", None), ("together", 7)])
def test_local_rows_are_those_of_a_plain_loop(function, batch):
    plain = hm.sweep(f"{TASKS}:rows", GRID, 50, workers=0)
    call = {"batched": function == "together", "batch": batch, "workers": 2}
    result = hm.sweep(f"{TASKS}:{function}", GRID, 50, **call)
    assert comparable(result) == comparable(plain)


@pytest.mark.slow
def test_local_workers_have_one_thread():
    check_threads(hm.sweep(f"{TASKS}:environment", {}, 2, workers=1))


def test_local_deaths_cost_one_trial_each():
    result = hm.sweep(f"{TASKS}:deadly", {"a": 1}, 20, workers=2, batch=10, retries=1)
    check_deaths(result)
    assert all(failure.traceback == "killed by signal 9" for failure in result.failures())


def test_what_a_trial_prints_goes_to_standard_error(capfd, tmp_path):
    noisy = tmp_path / "noisy.py"
    noisy.write_text("def f(parameters, seed):\n    print('hello')\n    return {'x': 1}\n")
    assert hm.sweep(f"{noisy}:f", {}, 3, workers=1).done == 3
    assert capfd.readouterr() == ("", "hello\n" * 3)


def test_a_trial_cannot_read_what_the_driver_sends(tmp_path):
    curious = tmp_path / "curious.py"
    curious.write_text(
        "import subprocess, sys\n"
        "def f(parameters, seed):\n"
        "    return {'own': sys.stdin.read(), 'of a program': subprocess.check_output('cat', text=True)}\n"
    )
    result = hm.sweep(f"{curious}:f", {}, 3, workers=1)
    assert [(row["own"], row["of a program"]) for row in result.rows()] == [("", "")] * 3


def test_a_worker_with_other_code_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("hardmax.trials.sweep.source_hash", lambda function: "other")
    with pytest.raises(ValueError, match=r"the worker's copy of .* differs from the driver's"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, workers=1)


def test_a_worker_that_cannot_start_is_not_a_trial_that_failed(monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="a worker could not start"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, workers=1)


@pytest.mark.slow
@pytest.mark.extra
def test_dask_joins_a_cluster_and_leaves_it_running():
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0", silence_logs="ERROR"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        plain = hm.sweep(f"{TASKS}:rows", GRID, 50, workers=0)
        result = hm.sweep(f"{TASKS}:rows", GRID, 50, backend="dask", address=cluster.scheduler_address)
        assert comparable(result) == comparable(plain)
        assert client.submit(sum, [1, 2]).result() == 3


@pytest.mark.slow
@pytest.mark.extra
def test_dask_deaths_and_threads():
    before = dict(os.environ)
    check_deaths(hm.sweep(f"{TASKS}:deadly", {"a": 1}, 20, backend="dask", workers=2, batch=4, retries=1))
    check_threads(hm.sweep(f"{TASKS}:environment", {}, 2, backend="dask", workers=1))
    left = {name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name)}
    assert left <= {"KMP_DUPLICATE_LIB_OK", "PYTEST_CURRENT_TEST"}  # which numba's import sets


@pytest.mark.slow
@pytest.mark.extra
def test_a_ray_node_of_this_machine_listens_on_loopback_and_leaves_no_token(tmp_path, monkeypatch):
    psutil = pytest.importorskip("psutil")
    pytest.importorskip("ray")
    monkeypatch.setenv("HOME", str(tmp_path))
    heard = set()

    def listen(*_):
        family = psutil.Process().children(recursive=True)
        for process in [psutil.Process(), *family]:
            with contextlib.suppress(psutil.NoSuchProcess):  # one that has just ended listens to nobody
                for each in process.net_connections("inet"):
                    heard.update([each.laddr.ip] if each.status == psutil.CONN_LISTEN else [])

    hm.sweep(f"{TASKS}:rows", {"a": 1, "b": 2}, 5, backend="ray", workers=1, progress=listen)
    assert heard
    assert {ip.removeprefix("::ffff:") for ip in heard} <= {"127.0.0.1", "::1"}
    assert not list(tmp_path.rglob("*token*"))


@pytest.mark.slow
@pytest.mark.extra
def test_ray_uses_what_is_running_and_leaves_it_running():
    from hardmax.trials.backends.ray import ray  # with its usage statistics off

    ray.init(address="local", num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        check_deaths(hm.sweep(f"{TASKS}:deadly", {"a": 1}, 20, backend="ray", batch=4, retries=1))
        check_threads(hm.sweep(f"{TASKS}:environment", {}, 2, backend="ray"))
        assert ray.is_initialized()
    finally:
        ray.shutdown()


@pytest.mark.extra
def test_ray_that_cannot_start_or_be_joined_is_a_sentence(monkeypatch):
    ray = pytest.importorskip("hardmax.trials.backends.ray").ray

    def broken(**options):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", broken)
    with pytest.raises(ValueError, match=r"ray cannot start here \(Exception: The current node timed out"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend="ray", workers=1)
    with pytest.raises(ValueError, match=r"cannot join the ray cluster at address 127.0.0.1:9 \(Connection"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend="ray", address="127.0.0.1:9")
    monkeypatch.setattr(ray, "__version__", "2.58.1")
    with pytest.raises(ImportError, match=r"without a token; version 2\.59 or newer.*pip install"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend="ray", workers=1)


@pytest.mark.parametrize("backend, module", [("dask", "distributed"), ("ray", "ray")])
def test_a_missing_package_names_the_extra(backend, module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.delitem(sys.modules, f"hardmax.trials.backends.{backend}", raising=False)
    with pytest.raises(ImportError, match=r'pip install ".*\[cluster\]"'):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend=backend)


@pytest.mark.extra
def test_dask_that_cannot_start_names_the_guard(monkeypatch):
    def broken(**options):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr("hardmax.trials.backends.dask.distributed.LocalCluster", broken)
    with pytest.raises(ValueError, match='start the sweep under if __name__ == "__main__":'):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend="dask", workers=1)


@pytest.mark.extra
def test_no_dask_at_the_address(monkeypatch):
    monkeypatch.setattr("hardmax.trials.backends.dask.PATIENCE", 0.3)
    with pytest.raises(ValueError, match=r"no dask scheduler answers at tcp://127\.0\.0\.1:9"):
        hm.sweep(f"{TASKS}:rows", GRID, 5, backend="dask", address="tcp://127.0.0.1:9")
