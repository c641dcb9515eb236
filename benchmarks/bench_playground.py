"""The playground in a browser: how soon it answers a drag, and how much of a frame its script takes.

    python benchmarks/bench_playground.py            # table
    python benchmarks/bench_playground.py --json F   # the same numbers as JSON in F ("-" for standard output)

`hardmax play` is started and its page opened in chromium, with 40 tokens in 5 inputs (and once with the two
inputs of B-FIG-8). A token is dragged about for some seconds. An answer is timed from the event of the
pointer to the moment when the list of directions has changed; basins from the question to the coarse field
(13 x 13 starts). Script on the main thread is summed per frame from chromium's own trace: event handlers,
callbacks of frames, promises. Clock times are those of a machine as busy as it is; the processor time of the
engine is given too. Aims: 50 ms to the first answer, 300 ms to the coarse basins, 8 ms of script at the
95th percentile.

The exported file (`hardmax play --export`) is opened from file:// without a network, with 12 tokens in 3
inputs: time to the first paint, answers to a drag, basins, and the longest task of the main thread meanwhile.
Aims: 1 s to the first paint, 30 ms to an answer.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import report
from playwright.sync_api import Browser, Page, sync_playwright
from rich.table import Table

import hardmax as hm
from hardmax.app.playground.export import export_page
from hardmax.app.playground.links import encoded
from hardmax.app.playground.scenes import plane_state

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
MOVES, PAUSE = 150, 0.016
SCRIPT = {
    "EventDispatch",
    "FireAnimationFrame",
    "RunMicrotasks",
    "FunctionCall",
    "TimerFire",
    "EvaluateScript",
}

WATCH = """() => {
  const list = document.querySelector(".hmx-directions");
  window.waits = [];
  let moved = null;
  addEventListener("pointermove", (event) => { if (moved === null) moved = event.timeStamp; }, true);
  new MutationObserver(() => {
    if (moved !== null) { window.waits.push(performance.now() - moved); moved = null; }
  }).observe(list, { childList: true });
}"""


def forty() -> hm.Problem:
    """Five inputs of eight tokens in the plane."""
    rng = np.random.default_rng(1)
    return hm.Problem(rng.normal(size=(5, 8, 2)).round(2), rng.random((5, 8)).round(2))


def opened(browser: Browser, address: str, problem: hm.Problem) -> Page:
    """The page with a problem, when it has nothing left to ask."""
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.goto(address + encoded(plane_state(problem, rules=["flow", "normalized"])))
    page.wait_for_selector(".hmx[data-ready][data-engine='ready']", timeout=600_000)  # all is compiled
    time.sleep(0.3)
    page.wait_for_selector(".hmx[data-idle='yes']", timeout=120_000)
    return page


def dragged(page: Page) -> None:
    """Move the first token in a spiral."""
    box = page.locator("[data-token='0.0']").bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    for k in range(MOVES):
        page.mouse.move(x + 0.6 * k * math.cos(k / 9), y + 0.6 * k * math.sin(k / 9))
        time.sleep(PAUSE)
    page.mouse.up()
    page.wait_for_selector(".hmx[data-idle='yes']", timeout=120_000)


def script_per_frame(trace: bytes) -> list[float]:
    """Milliseconds of script, by the thread's own clock, in each frame of the page's main thread."""
    events = [e for e in json.loads(trace)["traceEvents"] if e.get("ph") == "X" and e["name"] in SCRIPT]
    frames = [e for e in events if e["name"] == "FireAnimationFrame"]
    threads = [(e["pid"], e["tid"]) for e in frames]
    main = max(set(threads), key=threads.count)
    own = sorted(
        (e for e in events if (e["pid"], e["tid"]) == main), key=lambda e: (e["ts"], -e.get("dur", 0))
    )
    edges = np.array(sorted(e["ts"] for e in frames if (e["pid"], e["tid"]) == main))
    total = np.zeros(len(edges) + 1)
    reached = 0.0
    for event in own:
        if event["ts"] >= reached:  # what is nested in it is part of it
            reached = event["ts"] + event.get("dur", 0)
            total[np.searchsorted(edges, event["ts"], side="right")] += event.get("tdur", event.get("dur", 0))
    return (total[1:-1] / 1000).tolist()


def measured(browser: Browser, address: str, problem: hm.Problem) -> dict[str, float]:
    """All numbers for one problem."""
    page = opened(browser, address, problem)
    basins = page.evaluate("document.querySelector('.hmx').playground.latency.field")
    for _ in range(4):  # the first one may have found engines that were not ready
        page.close()
        page = opened(browser, address, problem)
        basins += page.evaluate("document.querySelector('.hmx').playground.latency.field")
    page.evaluate(WATCH)
    dragged(page)
    waits = page.evaluate("window.waits")
    solved = page.evaluate("document.querySelector('.hmx').playground.latency.solve")
    browser.start_tracing(page=page, categories=["devtools.timeline", "v8"])
    dragged(page)
    frames = script_per_frame(browser.stop_tracing())
    page.close()
    return {
        "answers": len(waits),
        "answer_ms": float(np.median(waits)),
        "answer_ms_95": float(np.percentile(waits, 95)),
        "answer_cpu": float(np.median([each["cpu"] for each in solved])),
        "basins_ms": float(np.median([each["clock"] for each in basins])),
        "basins_cpu": float(np.median([each["cpu"] for each in basins])),
        "frames": len(frames),
        "script_ms_95": float(np.percentile(frames, 95)),
        "script_ms_worst": float(np.max(frames)),
    }


def twelve() -> hm.Problem:
    """Three inputs of four tokens in the plane."""
    return hm.data.example("three-inputs")


PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
LONG = """() => {
  window.tasks = [];
  new PerformanceObserver((list) => list.getEntries().forEach((each) => window.tasks.push(each.duration)))
    .observe({ type: "longtask" });
}"""


def exported(browser: Browser) -> dict[str, float]:
    """Measure the exported file: its size, first paint, and answers to a drag."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "page.html"
        export_page(file, twelve())
        size = file.stat().st_size
        paints, ready = [], []
        for _ in range(5):
            context = browser.new_context(viewport={"width": 1280, "height": 860}, offline=True)
            page = context.new_page()
            began = time.perf_counter()
            page.goto(file.as_uri())
            page.wait_for_selector(".hmx[data-ready]")
            ready.append(1000 * (time.perf_counter() - began))
            page.wait_for_timeout(300)
            paints.append(page.evaluate(PAINT))
            if len(paints) < 5:
                context.close()
        page.wait_for_selector(".hmx[data-idle='yes']")
        page.evaluate("document.querySelector('.hmx').playground.latency.field = []")
        page.evaluate(WATCH)
        page.evaluate(LONG)
        dragged(page)
        waits = page.evaluate("window.waits")
        basins = page.evaluate("document.querySelector('.hmx').playground.latency.field")
        longest = page.evaluate("Math.max(0, ...window.tasks)")
        context.close()
    return {
        "bytes": size,
        "paint_ms": float(np.median(paints)),
        "ready_ms": float(np.median(ready)),
        "answers": len(waits),
        "answer_ms": float(np.median(waits)),
        "answer_ms_95": float(np.percentile(waits, 95)),
        "basins_ms": float(np.median([each["clock"] for each in basins])) if basins else math.nan,
        "longest_task_ms": float(longest),
    }


def strain() -> float:
    """Clock over processor time of a busy loop: how much of a core is left for one process."""
    clock, own = time.perf_counter(), time.process_time()
    while time.process_time() - own < 0.5:
        math.sqrt(2.0)
    return (time.perf_counter() - clock) / (time.process_time() - own)


def main() -> None:
    """Measure, print, and write JSON if asked."""
    options = report.parser(__doc__).parse_args()
    out = report.console(options.json)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("bench_playground: there is no chromium on the path")
    before = strain()
    command = [sys.executable, "-m", "hardmax", "play", "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        address = json.loads(server.stdout.readline())["address"]
        with sync_playwright() as driver:
            browser = driver.chromium.launch(executable_path=chromium, args=ARGUMENTS)
            problems: dict[str, Any] = {"B-FIG-8": hm.data.example("B-FIG-8"), "40 tokens": forty()}
            found = {name: measured(browser, address, problem) for name, problem in problems.items()}
            file = exported(browser)
            browser.close()
    finally:
        server.terminate()
        server.wait()
    table = Table("", *found, title="The playground in chromium")
    rows = {
        "answer to a drag, median": ("answer_ms", "ms, aim 50"),
        "answer to a drag, 95 of 100": ("answer_ms_95", "ms"),
        "  processor time of that": ("answer_cpu", "ms"),
        "coarse basins, median": ("basins_ms", "ms, aim 300"),
        "  processor time of the engine in it": ("basins_cpu", "ms"),
        "script per frame while dragging, 95 of 100": ("script_ms_95", "ms, aim 8"),
        "frames counted": ("frames", ""),
    }
    for title, (key, unit) in rows.items():
        table.add_row(title, *(f"{each[key]:.3g} {unit}" for each in found.values()))
    out.print(table)
    table = Table("", "12 tokens", title="The exported file in chromium, from file://")
    rows = {
        "size": ("bytes", "bytes, aim 1e6"),
        "first paint, median of 5": ("paint_ms", "ms, aim 1000"),
        "ready, median of 5": ("ready_ms", "ms"),
        "answer to a drag, median": ("answer_ms", "ms, aim 30"),
        "answer to a drag, 95 of 100": ("answer_ms_95", "ms"),
        "coarse basins, median": ("basins_ms", "ms"),
        "longest task of the main thread": ("longest_task_ms", "ms"),
    }
    for title, (key, unit) in rows.items():
        table.add_row(title, f"{file[key]:.6g} {unit}")
    out.print(table)
    after = strain()
    out.print(f"A second of processor time took {before:.1f} s on the clock before, {after:.1f} s after.")
    report.write({**found, "file": file, "strain": [before, after]}, options.json)


if __name__ == "__main__":
    main()
