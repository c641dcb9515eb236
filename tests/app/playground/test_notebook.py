"""The page in a notebook: JupyterLab executes the cell, a browser moves a token, the kernel hears of it."""

import json
import os
import re
import socket
import subprocess
import sys
import time

import pytest

import hardmax as hm

pytestmark = [pytest.mark.extra, pytest.mark.slow]
pytest.importorskip("anywidget", reason="anywidget is not installed: make test-extras installs it")
pytest.importorskip("jupyterlab", reason="jupyterlab is not installed: make test-extras installs it")

CELLS = [
    'import hardmax as hm\nwidget = hm.play(hm.data.example("B-FIG-8"))\nwidget',
    'print("KEYS", widget.state["problem"]["keys"])',
]
TOKEN = "secret"


@pytest.fixture
def lab(tmp_path):
    """JupyterLab with one notebook; settings and kernels are the test's own."""
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{k}",
            "metadata": {},
            "execution_count": None,
            "outputs": [],
            "source": text,
        }
        for k, text in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": kernel, "cells": cells}
    (tmp_path / "play.ipynb").write_text(json.dumps(notebook))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    places = {name: str(tmp_path / name.lower()) for name in names}
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        "--no-browser",
        "--allow-root",
        f"--port={port}",
        "--ip=127.0.0.1",
        f"--IdentityProvider.token={TOKEN}",
        f"--notebook-dir={tmp_path}",
    ]
    with (tmp_path / "log.txt").open("w") as log:
        environment = {**os.environ, **places}
        server = subprocess.Popen(command, env=environment, stdout=log, stderr=log, cwd=tmp_path)
        for _ in range(600):
            with socket.socket() as there:
                if there.connect_ex(("127.0.0.1", port)) == 0:
                    break
            assert server.poll() is None, (tmp_path / "log.txt").read_text()
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/lab/tree/play.ipynb?token={TOKEN}"
        server.terminate()
        server.wait(30)


def test_a_notebook_shows_the_widget_and_learns_of_changes(lab, browser):
    page = browser.new_page(viewport={"width": 1500, "height": 1200})
    page.goto(lab)
    page.wait_for_selector(".jp-Notebook .jp-CodeCell", timeout=120_000)
    page.get_by_text("| Idle").wait_for(timeout=120_000)  # the kernel is there
    page.locator(".jp-CodeCell .cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    page.wait_for_selector(".hmx[data-ready]", timeout=180_000)
    page.wait_for_timeout(500)
    page.wait_for_selector(".hmx[data-idle='yes']", timeout=120_000)
    assert page.locator(".hmx-direction").count() == 2
    found = hm.solve(hm.data.example("B-FIG-8"))
    shown = page.locator(".hmx-direction").first.inner_text()
    assert f"{found.selections[0].max_margin.margin:.4g}" in shown
    token = page.locator("[data-token='1.0']")
    token.focus()
    for _ in range(5):
        page.keyboard.press("ArrowLeft")
    page.wait_for_timeout(600)
    page.wait_for_selector(".hmx[data-idle='yes']", timeout=120_000)
    told = page.evaluate("document.querySelector('.hmx').playground.scenes.plane.told().solved.selections")
    keys = page.evaluate("document.querySelector('.hmx').playground.app.state.problem.keys")
    assert keys[1][0][0] == pytest.approx(-1.0 - 5 * 3.2 / 50, abs=1e-3)
    moved = hm.solve(hm.Problem(keys, [[1.0, 0.0], [1.0, 0.0]]))
    assert [each["margin"] for each in told] == [each.max_margin.margin for each in moved.selections]
    page.locator(".jp-CodeCell .cm-content").nth(1).click()
    page.keyboard.press("Shift+Enter")
    output = page.locator(".jp-RenderedText.jp-OutputArea-output", has_text="KEYS")
    output.wait_for(timeout=60_000)
    heard = json.loads(re.search(r"KEYS (.+)", output.inner_text())[1])
    assert heard == keys
    page.close()
