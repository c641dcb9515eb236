"""The first minutes of an installation: commands with an empty cache of kernels, in seconds and CPU-seconds.

Every command runs in a fresh process with a fresh cache folder, and once more with the cache that it filled.
CPU time of dask and ray is that of their processes as far as they end with the command. `play` is measured
until a dragged token is answered, over HTTP as the page asks; a line reports when all was compiled.
The last rows show that a second environment compiles nothing after `doctor`.

    python benchmarks/first_minutes.py                        # all
    python benchmarks/first_minutes.py doctor "solve --flow"  # some
    python benchmarks/first_minutes.py --count                # functions that are compiled, by part
    python benchmarks/first_minutes.py --count flow           # of one part alone
"""

import json
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"
AIMS = {
    "doctor": 60,
    "solve --flow": 8,
    "ntp check": 8,
    "text train": 8,
    "play": 5,
    "sweep dask": 30,
    "sweep ray": 30,
}
TRIAL = """
import hardmax as hm

def trial(parameters, seed):
    problem = hm.data.sphere(n=4, T=6, d=3, rng=seed)
    return {"norm": float(hm.train(problem, hm.optim.Normalized(0.1), steps=50).points[-1].sum())}
"""


def commands(folder):
    """Return the arguments of each command; their files are made in a folder."""
    rng = random.Random(0)
    words = [f"word{k}" for k in range(400)]
    lines = ["review,sentiment"]
    for k in range(2000):
        told = [*rng.choices(words, k=rng.randint(20, 120)), ("good", "bad")[k % 2]]
        rng.shuffle(told)
        lines.append(f"{' '.join(told)},{('positive', 'negative')[k % 2]}")
    (folder / "reviews.csv").write_text("\n".join(lines) + "\n")
    (folder / "own.py").write_text(TRIAL)
    found = {
        "doctor": ["doctor"],
        "solve --flow": ["solve", str(EXAMPLES / "three-inputs.json"), "--flow"],
        "ntp check": ["ntp", "check", str(EXAMPLES / "svop.txt")],
        "text train": ["text", "train", "reviews.csv", "--text", "review", "--label", "sentiment"],
        "play": ["play", "--no-browser", "--json"],
    }
    (folder / "own.toml").write_text('function = "own.py:trial"\ntrials = 400\n')
    for backend in ("dask", "ray"):
        found[f"sweep {backend}"] = ["sweep", "own.toml", "--backend", backend]
    return found


def measure(arguments, cache, folder):
    """Run a command with a cache; return seconds, CPU-seconds and whether it compiled something."""
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment |= {"XDG_CACHE_HOME": str(cache), "NUMBA_CACHE_DIR": str(cache)}
    for store in folder.glob("*.sqlite*"):
        store.unlink()
    files = len(list(cache.rglob("*.kernel")))
    if arguments[0] == "play":
        seconds, cpu = drag(arguments, environment, folder)
        return seconds, cpu, len(list(cache.rglob("*.kernel"))) - files
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [sys.executable, "-m", "hardmax", *arguments]
    done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{' '.join(arguments)} failed:\n{done.stderr}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return seconds, cpu, len(list(cache.rglob("*.kernel"))) - files


def drag(arguments, environment, folder):
    """Start the playground, return seconds and CPU-seconds until a drag is answered; then let it compile."""
    start = time.perf_counter()
    command = [sys.executable, "-m", "hardmax", *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, env=environment, cwd=folder, text=True, **pipes) as server:
        address = json.loads(server.stdout.readline())["address"]
        url, token = address.partition("?")[0], urlsplit(address).query.removeprefix("t=")

        def ask(**question):
            body = json.dumps({"v": 1, **question}).encode()
            request = urllib.request.Request(f"{url}ask", body, {"X-Hardmax-Token": token})
            with urllib.request.urlopen(request) as reply:
                return json.load(reply)["answer"]

        problem = ask(ask="tour")["scenes"][0]["state"]["problem"]
        ask(ask="solve", problem=problem)
        problem["keys"][0][0] = [0.4, 0.8]
        ask(ask="solve", problem=problem)
        seconds, cpu = time.perf_counter() - start, cpu_of(server.pid)
        print(f"  a drag was answered after {seconds:.1f} s, {cpu:.1f} CPU-s", flush=True)
        while ask(ask="status")["state"] != "ready":
            time.sleep(0.5)
        taken = time.perf_counter() - start
        print(f"  all was compiled after {taken:.0f} s, {cpu_of(server.pid):.0f} CPU-s", flush=True)
        server.terminate()
    return seconds, cpu


def cpu_of(pid):
    """Return the CPU-seconds of a process and of all that it has started (Linux)."""
    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    used = sum(map(int, stat[11:15])) / os.sysconf("SC_CLK_TCK")
    children = " ".join(each.read_text() for each in Path(f"/proc/{pid}/task").glob("*/children"))
    return used + sum(map(cpu_of, children.split()))


def main():
    """Measure the commands named on the command line, or all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        all_commands = commands(folder)
        chosen = sys.argv[1:] or list(all_commands)
        rows = []
        print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
        titles = f"{'first, s':>10}{'CPU-s':>8}{'kernels':>9}{'again, s':>10}{'CPU-s':>8}{'aim, s':>8}"
        print(f"{'command':<24}{titles}")
        for command in chosen:
            cache = folder / f"cache {command}"
            cache.mkdir()
            first = measure(all_commands[command], cache, folder)
            again = measure(all_commands[command], cache, folder)
            rows.append({"command": command, "first": first, "again": again, "aim": AIMS[command]})
            numbers = f"{first[0]:>10.1f}{first[1]:>8.1f}{first[2]:>9}{again[0]:>10.1f}{again[1]:>8.1f}"
            print(f"{command:<24}{numbers}{AIMS[command]:>8}", flush=True)
            if again[2]:
                print(f"  {again[2]} kernels were compiled again")
        if "doctor" in chosen:
            second_environment(folder, folder / "cache doctor", all_commands)
        print(json.dumps(rows))


def count(parts):
    """Compile parts in this process with an empty cache; print how many functions are whose."""
    with tempfile.TemporaryDirectory() as cache:
        os.environ["NUMBA_CACHE_DIR"] = cache
        from numba.core import event

        from hardmax._lib.compiling import Compiled
        from hardmax.app.results.compilation import PARTS, compile_part

        class Functions(event.Listener):
            own = foreign = 0

            def on_start(self, event):
                if event.data["name"].startswith("native_lowering"):
                    if (event.data["module"] or "").startswith("hardmax."):
                        self.own += 1
                    else:
                        self.foreign += 1

            def on_end(self, event):
                """Count nothing."""

        Compiled.may_say = False
        every, found = Functions(), {}
        event.register("numba:run_pass", every)
        print(f"{'part':<24}{'hardmax':>9}{'numba':>7}{'CPU-s':>8}")
        for part in parts or PARTS:
            before, start = (every.own, every.foreign), time.process_time()
            if (error := compile_part(part)) is not None:
                raise SystemExit(f"{part}: {error}")
            own, foreign = every.own - before[0], every.foreign - before[1]
            seconds = time.process_time() - start
            found[part] = {"hardmax": own, "numba": foreign, "cpu_seconds": seconds}
            print(f"{part:<24}{own:>9}{foreign:>7}{seconds:>8.1f}", flush=True)
        total = sum(each["cpu_seconds"] for each in found.values())
        print(f"{'together':<24}{every.own:>9}{every.foreign:>7}{total:>8.1f}")
        print(json.dumps(found))


def second_environment(folder, cache, all_commands):
    """Print how many kernels each command compiles after `doctor`, from a copy of the package elsewhere."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "hardmax", folder / "elsewhere" / "hardmax", ignore=ignored)
    os.environ["PYTHONPATH"] = str(folder / "elsewhere")
    for command, arguments in all_commands.items():
        seconds, cpu, kernels = measure(arguments, cache, folder)
        print(f"{'elsewhere: ' + command:<24}{seconds:>10.1f}{cpu:>8.1f}{kernels:>9}", flush=True)


if __name__ == "__main__":
    if "--count" in sys.argv[1:]:
        count([each for each in sys.argv[1:] if each != "--count"])
    else:
        main()
