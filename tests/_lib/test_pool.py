"""Processes that hardmax starts: deaths, deadlines, what is printed, and an end with their driver."""

import pickle
import subprocess
import sys
import time

import pytest

from hardmax._lib.pool import READY, Child, Pool, WorkerDied, receive, search_path, send

# Adds one to what it is sent; "die" ends it, "sleep" makes it late.
ADDER = """
import os, pickle, sys, time
from hardmax._lib.pool import serve
def answer(raw):
    message = pickle.loads(raw)
    if message == "die":
        os._exit(7)
    if message == "sleep":
        time.sleep(600)
    if message == "print":
        print("to standard error")
        return pickle.dumps(sys.stdin.read())
    if message == "who":
        return pickle.dumps((os.getpid(), os.environ["MINE"]))
    return pickle.dumps(message + 1)
serve(answer)
"""
COMMAND = [sys.executable, "-P", "-c", ADDER]


def test_a_worker_that_dies_is_replaced_and_its_message_alone_is_lost():
    with Pool(1, COMMAND, {"MINE": "yes"}) as pool:
        asked = [pool.submit(message) for message in (1, "die", 2, "who", "who")]
        assert asked[0].result() == 2
        with pytest.raises(WorkerDied, match=r"^exit code 7$"):
            asked[1].result()
        assert asked[2].result() == 3
        assert asked[3].result() == asked[4].result()
        assert asked[3].result()[1] == "yes"


def test_answers_do_not_mix_with_what_is_printed(capfd):
    with Pool(2, COMMAND) as pool:
        assert pool.submit("print").result() == ""
        assert [pool.submit(k).result() for k in range(5)] == [1, 2, 3, 4, 5]
    assert "to standard error" in capfd.readouterr().err


def test_a_worker_that_cannot_start_is_told():
    with (
        Pool(1, [sys.executable, "-c", "raise SystemExit(3)"]) as pool,
        pytest.raises(RuntimeError, match=r"a worker could not start \(exit code 3\)"),
    ):
        pool.submit(1).result()


def test_closing_ends_what_is_under_way():
    pool = Pool(1, COMMAND)
    assert pool.submit(1).result() == 2
    asked = pool.submit("sleep")
    time.sleep(0.2)
    pool.close()
    with pytest.raises(WorkerDied, match=r"^killed by signal 9$"):
        asked.result()


def test_a_child_is_ended_at_its_deadline_and_not_before():
    child = Child(COMMAND)
    try:
        assert child.hear() == READY
        assert pickle.loads(child.ask(pickle.dumps(1), 60.0)) == 2
        assert child.status is None
        assert child.ask(pickle.dumps("sleep"), 0.1) is None
        assert child.is_late
    finally:
        assert child.close() == "killed by signal 9"
    assert child.status == -9
    assert child.ask(b"") is None


def test_a_child_ends_with_its_driver():
    """Its standard input is closed while it works."""
    process = subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PYTHONPATH": search_path(), "PATH": ""}
    )
    with process:
        assert receive(process.stdout) == READY
        send(process.stdin, pickle.dumps("sleep"))
        process.stdin.close()
        assert process.wait(60) == 0
        assert receive(process.stdout) is None
