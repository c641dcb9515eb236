"""Engines in processes: deadlines, deaths, compiling next to them, and the status that the page shows."""

import json
import os
import sys
import threading
import time

import pytest

from hardmax.app.playground import workers as module
from hardmax.app.playground.engine import reply
from hardmax.app.playground.preparation import COMPILER
from hardmax.app.playground.scenes import tour
from hardmax.app.playground.workers import PLAIN, RETRIES, WORKER, Workers

LONG = {"v": 1, "ask": "words", "epochs": 200, "rate": 0.01, "least": 1}
STATUS = b'{"v": 1, "ask": "status"}'

# A process that compiles for longer than any deadline of these tests: until a file is there.
SLOW = """
import os, sys, time
print('{"done": 0, "total": 7}', flush=True)
print('{"done": 3, "total": 7}', flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.05)
print('{"ready": true, "folder": null}', flush=True)
"""
WAITING = """
import sys
print('{"done": 1, "total": 4}', flush=True)
sys.stdin.read()
"""
READY = [sys.executable, "-c", """print('{"ready": true}')"""]
FAILED = [sys.executable, "-c", """print('{"failed": "margins: out of memory"}')"""]
# A worker that answers with what it is: plain or compiled; "sleep" makes a plain one take very long.
ECHO = """
import json, sys, time
from hardmax._lib.pool import READY, receive, send
kind = json.loads(receive(sys.stdin.buffer))
send(sys.stdout.buffer, READY)
while (raw := receive(sys.stdin.buffer)) is not None:
    if b"sleep" in raw and kind["plain"]:
        time.sleep(600)
    if b"die" in raw:
        sys.exit(5)
    send(sys.stdout.buffer, json.dumps(kind).encode())
"""
FAKE = [sys.executable, "-c", ECHO]


def still_compiling():
    """The command of a process that compiles until it is ended."""
    return [sys.executable, "-c", WAITING]


def until(condition, seconds=60.0):
    """Wait for a condition; fail if it does not come true."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return found


def status(workers):
    return json.loads(workers.ask(STATUS))["answer"]


def test_a_question_that_takes_too_long_is_ended_and_the_next_one_answered(honest):
    texts = [[" ".join(f"w{(7 * k + j) % 2900}" for j in range(60)), 1 - 2 * (k % 2)] for k in range(5000)]
    long = json.dumps({**LONG, "texts": texts}).encode()
    with Workers(seconds=60.0, compiler=READY) as workers:
        until(lambda: status(workers)["state"] == "ready")
        first = json.loads(workers.ask(json.dumps(honest).encode(), "a"))
        assert first["ok"], first
        workers.seconds = 1.0
        refused = json.loads(workers.ask(long, "a"))
        assert refused == {
            "v": 1,
            "ok": False,
            "error": "this took longer than 1 seconds and was stopped; ask for less",
        }
        workers.seconds = 60.0
        again = json.loads(workers.ask(json.dumps(honest).encode(), "a"))
        assert again["answer"] == first["answer"]
    assert not json.loads(workers.ask(b"{}"))["ok"]


def test_plain_engines_answer_while_kernels_are_compiled(honest, tmp_path):
    """However long compiling takes: no deadline includes it, and the answer is the compiled one."""
    done = tmp_path / "done"
    raw = json.dumps(honest).encode()
    with Workers(seconds=0.5, compiler=[sys.executable, "-c", SLOW, str(done)]) as workers:
        found = json.loads(workers.ask(raw, "a"))
        assert found["answer"] == json.loads(reply(raw))["answer"]
        until(lambda: status(workers)["done"] == 3)
        assert status(workers) == {
            "state": "compiling",
            "done": 3,
            "total": 7,
            "text": "compiling, 3 of 7: answers are slower for now",
        }
        time.sleep(0.6)  # longer than the deadline
        assert json.loads(workers.ask(raw, "a"))["answer"] == found["answer"]
        assert status(workers)["state"] == "compiling"


def test_compiled_engines_replace_plain_ones_also_at_work(tmp_path):
    """A question that a plain engine has not answered by then is asked again."""
    done = tmp_path / "done"
    with Workers(worker=FAKE, compiler=[sys.executable, "-c", SLOW, str(done)]) as workers:
        assert json.loads(workers.ask(b"who?")) == {"plain": True, "folder": None}
        until(lambda: status(workers)["state"] == "compiling")
        done.touch()
        began = time.monotonic()
        assert json.loads(workers.ask(b"sleep")) == {"plain": False, "folder": None}
        assert time.monotonic() - began < 30.0
        assert status(workers)["state"] == "ready"
        assert status(workers)["text"] == ""
        assert until(lambda: workers._all and all(engine.plain is False for engine in list(workers._all)))


def test_a_plain_engine_has_a_longer_deadline():
    with Workers(seconds=0.1, worker=FAKE, compiler=still_compiling()) as workers:
        began = time.monotonic()
        told = json.loads(workers.ask(b"sleep"))
        assert told["error"] == "this took longer than 1 seconds and was stopped; ask for less"
        assert time.monotonic() - began >= 0.1 * PLAIN
        assert json.loads(workers.ask(b"who?"))["plain"] is True


def test_a_worker_that_is_killed_while_starting_is_replaced(tmp_path):
    note = tmp_path / "killed"
    script = """
import os, signal, sys
if not os.path.exists(sys.argv[1]):
    open(sys.argv[1], "w").close()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    dies_once = [sys.executable, "-c", script + ECHO, str(note)]
    with Workers(worker=dies_once, compiler=READY) as workers:
        assert json.loads(workers.ask(b"who?"))["folder"] is None
        assert note.exists()
        until(lambda: status(workers)["state"] == "ready")


def test_workers_that_never_start_are_tried_a_few_times_and_then_reported(tmp_path, monkeypatch):
    """A question is refused with the reason, not as busy; later attempts find an engine that starts."""
    monkeypatch.setattr(module, "PAUSE", 0.05)
    monkeypatch.setattr(module, "REST", 0.5)
    note, cured = tmp_path / "starts", tmp_path / "cured"
    script = """
import os, sys
with open(sys.argv[1], "a") as file:
    file.write("x")
if not os.path.exists(sys.argv[2]):
    sys.exit(7)
"""
    broken = [sys.executable, "-c", script + ECHO, str(note), str(cured)]
    with Workers(worker=broken, compiler=still_compiling()) as workers:
        told = json.loads(workers.ask(b"who?"))
        assert told["error"].startswith("the engine cannot be started (its process ended with status 7)")
        assert len(note.read_text()) == RETRIES
        found = status(workers)
        assert found["state"] == "failed"
        assert found["text"] == told["error"]
        assert json.loads(workers.ask(b'{"v": 1, "ask": "tour"}'))["ok"]  # the page is shown all the same
        cured.touch()
        until(lambda: status(workers)["state"] == "compiling")
        assert json.loads(workers.ask(b"who?"))["plain"] is True


def test_an_engine_that_dies_is_replaced_whether_idle_or_at_work():
    with Workers(worker=FAKE, compiler=READY) as workers:
        until(lambda: status(workers)["state"] == "ready")
        told = json.loads(workers.ask(b"die"))
        assert told["error"] == (
            "the engine died (its process ended with status 5); ask for less, or once more"
        )
        assert json.loads(workers.ask(b"who?"))["plain"] is False
        for engine in list(workers._ready):
            engine.end()
            engine._process.wait()
        assert json.loads(workers.ask(b"who?"))["plain"] is False


def test_busy_is_said_of_busy_engines_only(monkeypatch):
    """Waiting for an engine to start takes as long as it takes."""
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    slow_start = [sys.executable, "-c", "import time; time.sleep(1)\n" + ECHO]
    with Workers(most=1, worker=slow_start, compiler=still_compiling()) as workers:
        assert workers.crowded() == "the engine is starting; ask again in a moment"
        assert json.loads(workers.ask(b"who?"))["plain"] is True
        assert workers.crowded() == "the engine is busy with other questions; ask again in a moment"
        workers._take("another page")
        told = json.loads(workers.ask(b"who?"))
        assert told["error"] == "the engine is busy with other questions; ask again in a moment"


def test_questions_wait_in_line():
    """Directions are asked for before basins, which take longer, so they must come first."""
    found = []
    slow_start = [sys.executable, "-c", "import time; time.sleep(1)\n" + ECHO]
    with Workers(most=1, worker=slow_start, compiler=still_compiling()) as workers:

        def ask(name):
            workers.ask(name.encode(), "page")
            found.append(name)

        threads = [threading.Thread(target=ask, args=(name,)) for name in "abcdef"]
        for count, thread in enumerate(threads, 1):
            thread.start()
            until(lambda count=count: len(workers._line) == count)
        for thread in threads:
            thread.join()
    assert found == list("abcdef")


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        (FAILED, "margins: out of memory"),
        ([sys.executable, "-c", "raise SystemExit(3)"], "the process that compiles ended with status 3"),
    ],
)
def test_plain_engines_stay_if_compiling_fails(compiler, why):
    with Workers(worker=FAKE, compiler=compiler) as workers:
        assert json.loads(workers.ask(b"who?"))["plain"] is True
        until(lambda: status(workers)["state"] == "slow")
        found = status(workers)
        assert found["text"] == f"the kernels could not be compiled ({why}): answers stay slower"


def questions():
    """What the page asks in its scenes, training apart; basins are coarse."""
    told = tour()
    for each in told["scenes"]:
        state = each["state"]
        if state["scene"] == "plane":
            posed = {"problem": state["problem"], "norm": state["norm"], "span": state["span"]}
            yield {"ask": "solve", **posed}
            yield {"ask": "field", **posed, "rule": state["field"] or "flow", "level": 0}
        else:
            yield {"ask": "check", "sentences": state["sentences"]}
    lines = told["sentences"]
    for name in ("check", "learn", "predict"):
        yield {"ask": name, "sentences": lines["sentences"], "prompt": lines["prompt"]}


@pytest.mark.compiled
def test_plain_answers_are_the_compiled_ones_to_the_bit():
    """Of what is proved or decided: directions, basins, verdicts, predictions."""
    with Workers(seconds=60.0, compiler=still_compiling()) as workers:
        for question in questions():
            raw = json.dumps({"v": 1, **question}).encode()
            plain, compiled = json.loads(workers.ask(raw)), json.loads(reply(raw))
            assert plain["ok"], plain
            assert plain["answer"] == compiled["answer"], question
        assert status(workers)["state"] == "compiling"


@pytest.mark.compiled
def test_plain_training_is_the_compiled_one_to_rounding(scenes):
    """Compiled sums may be reordered and contracted, so the last digits of training may differ."""
    state = scenes[3]
    question = {"v": 1, "ask": "train", "problem": state["problem"], "rules": ["flow", "gd", "adam"]}
    raw = json.dumps({**question, "starts": [[2.0, 0.5]]}).encode()
    with Workers(seconds=60.0, compiler=still_compiling()) as workers:
        plain, compiled = json.loads(workers.ask(raw))["answer"], json.loads(reply(raw))["answer"]
    assert [run["rule"] for run in plain["runs"]] == ["flow", "gd", "adam"]
    for own, other in zip(plain["runs"], compiled["runs"], strict=True):
        assert own["selection"] == other["selection"]
        assert own["norm"] == pytest.approx(other["norm"], rel=1e-12)
        assert own["misalignment"] == pytest.approx(other["misalignment"], rel=1e-6, abs=1e-12)


@pytest.mark.skipif(os.name != "posix", reason="POSIX permissions")
def test_a_cache_that_cannot_be_written_to_is_replaced_by_a_folder_of_the_session(tmp_path, monkeypatch):
    """The process that compiles names the folder, workers use it, and it goes when they end."""
    script = """
import sys, tempfile
from pathlib import Path
from hardmax._lib import caching
from hardmax.app.results import compilation
from hardmax.app.playground import preparation

def compiled(parts, report):
    report(0, len(parts))
    (caching.place().folder / "some.kernel").touch()
    return compilation.Compilation(1, {})

caching.unwritable = lambda folder: f"{folder}: Read-only file system"
compilation.remaining = lambda: ["text classifier", "flow"]
compilation.compile_parts = compiled
preparation.main()
"""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    with Workers(worker=FAKE, compiler=[sys.executable, "-c", script]) as workers:
        until(lambda: status(workers)["state"] == "ready")
        assert status(workers)["total"] == 1  # the other part is not for the playground
        folder = json.loads(workers.ask(b"who?"))["folder"]
        assert os.path.dirname(folder) == str(tmp_path / "temporary")
        assert os.listdir(folder) == ["some.kernel"]
    assert not os.path.exists(folder)


def test_the_usual_processes_are_modules_of_the_package():
    assert WORKER[-1] == "from hardmax.app.playground.workers import main; main()"
    assert COMPILER[-1] == "from hardmax.app.playground.preparation import main; main()"
