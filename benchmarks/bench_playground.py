"""The playground in a browser: how soon it answers a drag, and how much of a frame its script takes.

    python benchmarks/bench_playground.py            # table
    python benchmarks/bench_playground.py --json F   # the same numbers as JSON in F ("-" for standard output)

`hardmax play` is started and its page opened in chromium, with 40 tokens in 5 inputs (and once with the two
inputs of B-FIG-8). A token is dragged about for some seconds. An answer is timed from the event of the
pointer to the moment when the list of directions has changed; basins from the question to the coarse field
(13 x 13 starts). Script on the main thread is summed per frame from chromium's own trace: event handlers,
callbacks of frames, promises. Clock times are those of a machine as busy as it is; the processor time of the
engine stands beside them. Aims: 50 ms to the first answer, 300 ms to the coarse basins, 8 ms of script at the
95th percentile.
"""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
import time
from typing import Any

import numpy as np
import report
from playwright.sync_api import Browser, Page, sync_playwright
from rich.table import Table

import hardmax as hm
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
    after = strain()
    out.print(f"A second of processor time took {before:.1f} s on the clock before, {after:.1f} s after.")
    report.write({**found, "strain": [before, after]}, options.json)


if __name__ == "__main__":
    main()
