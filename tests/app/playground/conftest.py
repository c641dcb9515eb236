"""What the tests of the playground share: honest questions, a real server, a real browser."""

import json
import subprocess
import sys
import time
import urllib.request

import pytest

from hardmax.app.playground.scenes import tour

TWO = {"keys": [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 1.0], [1.0, 0.0]]], "scores": [[1.0, 0.0], [1.0, 0.0]]}


@pytest.fixture(scope="session")
def scenes():
    """The states of the tour, by their place."""
    return [each["state"] for each in tour()["scenes"]]


@pytest.fixture(scope="session")
def honest():
    """A question that is answered in milliseconds."""
    return {"v": 1, "ask": "solve", "problem": TWO}


@pytest.fixture(scope="session")
def address():
    """`hardmax play` in a process of its own; what it printed is the address."""
    pytest.importorskip("starlette", reason="starlette is not installed: make test-extras installs it")
    command = [sys.executable, "-m", "hardmax", "play", "--no-browser", "--json", "--timeout", "8"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = json.loads(server.stdout.readline())
    assert line["schema"] == "hardmax.play/1"
    url, _, token = line["address"].partition("?t=")
    question = urllib.request.Request(f"{url}ask", b'{"v": 1, "ask": "status"}', {"X-Hardmax-Token": token})
    state = ""
    while state != "ready":  # compiled, with the usual deadlines
        time.sleep(0.2)
        with urllib.request.urlopen(question) as told:
            state = json.load(told)["answer"]["state"]
    yield line["address"]
    server.terminate()
    assert server.wait(20) == 130
    server.stdout.close()
