"""Hostile command lines and files, drawn by a seed: mutations of what hardmax itself reads and writes."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import random
import shutil
import sqlite3
import struct
import zipfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

SENTENCES = "S V O P\nV O P\nO P P\nP S V\n"
PLAN = 'experiment = "sphere"\ntrials = 1\nseed = 0\n[grid]\nd = [2]\n[parameters]\nn = 2\nT = 2\n'
PROBLEM = {"keys": [[[1, 0], [0, 0]], [[-1, 1], [1, 0], [0, 2]]], "scores": [[1, 0], [1, 0, 0]]}
LINEAR = {"keys": [[[1.0], [0.0]]], "values": [[[1.0], [0.5]]], "labels": [1], "head": [2.0]}
VALUES: list[Any] = [
    None,
    True,
    "x",
    "1",
    "",
    "\x1b[31m\n",
    -1,
    0,
    2,
    1e308,
    -1e308,
    1e-320,
    1e160,
    float("nan"),
    float("inf"),
    10**400,
    2**63,
    [],
    {},
    [[]],
    [[[]]],
    {"a": 1},
    [1, 2],
    "1e9999999",
    "0x1p99999",
    "1/0",
    "nan",
    500 * "9",
    0.5,
    [None],
    "<script>",
    "\ud800",
]
NUMBERS = [
    "0",
    "-1",
    "1",
    "2",
    "1e9",
    "nan",
    "inf",
    "-inf",
    "1e-300",
    "9" * 25,
    "0.5",
    "",
    "x",
    "1e400",
    "0x10",
]
NAMES = [
    "\x1b[31mred",
    "a\nb",
    "[bold]x",
    "no/such/folder/x",
    "é" * 10,
    "x" * 300,
    "-",
    ".",
    "..",
    "~",
    "loop",
]


def good_files(folder: Path) -> None:
    """One whole file of every kind."""
    from hardmax import Problem
    from hardmax.app import cli
    from hardmax.data import example
    from hardmax.margin.att_svm import max_margin
    from hardmax.nexttoken import Samples
    from hardmax.nexttoken.training import train

    (folder / "problem.json").write_text(json.dumps(PROBLEM))
    (folder / "linear.json").write_text(json.dumps(LINEAR))
    Problem.load(folder / "problem.json").save(folder / "problem.npz")
    Problem.load(folder / "linear.json").save(folder / "linear.npz")
    for exact, chosen in ((True, [0, 0]), (False, [0, 0])):
        max_margin(example("B-FIG-8"), chosen, exact=exact).save(folder / f"proof-{exact}.json")
    run = train(Samples.from_sentences(SENTENCES.splitlines()), steps=5)
    run.predictor.save(folder / "model.npz", reached=run.reached())
    (folder / "words.txt").write_text(SENTENCES)
    (folder / "words.json").write_text(json.dumps([line.split() for line in SENTENCES.splitlines()]))
    (folder / "plan.toml").write_text(PLAN)
    (folder / "start.json").write_text("[1, 0]")
    np.save(folder / "start.npy", np.array([1.0, 0.0]))
    if cli.run(["sweep", str(folder / "plan.toml"), "--json", "--quiet"]):
        raise AssertionError("the sweep to tamper with did not run")


class Hostile:
    """The files of one case: ``folder`` holds nothing else."""

    def __init__(self, seed: int, good: Path, folder: Path) -> None:
        self.rng, self.good, self.folder = random.Random(seed), good, folder
        self.outputs: list[str] = []
        os.symlink("loop", folder / "loop")

    def file(self, *names: str) -> str:
        """A file of one of these names, mostly not as it was."""
        name = self.rng.choice(names)
        path = self.folder / name
        kind = self.rng.random()
        if kind < 0.06:
            return self.rng.choice(NAMES)
        if kind < 0.09:
            path.mkdir()
            return name
        shutil.copy(self.good / name, path)
        if kind < 0.25:
            return name
        structured = {".json": self._json, ".npz": self._npz, ".toml": self._toml, ".sqlite": self._sqlite}
        if self.rng.random() < 0.7 and path.suffix in structured:
            structured[path.suffix](path)
        else:
            path.write_bytes(self.bytes(path.read_bytes()))
        if path.suffix == ".txt" and self.rng.random() < 0.4:
            path = path.rename(path.with_name(name + self.rng.choice([".gz", ".bz2", ".xz"])))
            pack: Callable[[bytes], bytes] = {".gz": gzip.compress, ".bz2": bz2.compress}.get(
                path.suffix, bytes
            )
            path.write_bytes(pack(path.read_bytes()))
        return path.name

    def output(self, *names: str) -> str:
        """A place to write to."""
        name = self.rng.choice([*names, *NAMES])
        self.outputs.append(name)
        return name

    def number(self) -> str:
        return self.rng.choice(NUMBERS)

    def some(self, **options: Callable[[], str] | None) -> list[str]:
        """Some of the options, with values where they take one."""
        found = []
        for name, value in options.items():
            if self.rng.random() < 0.3:
                found.append("--" + name.replace("_", "-"))
                found += [] if value is None else [value()]
        return found

    def bytes(self, content: bytes) -> bytes:
        rng, data = self.rng, bytearray(content)
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(data) + 1)
            kind = rng.randrange(8)
            if kind == 0 and data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            elif kind == 1:
                del data[at:]
            elif kind == 2:
                data[at:at] = rng.randbytes(rng.randint(1, 20))
            elif kind == 3:
                data = bytearray()
            elif kind == 4:
                data[:0] = rng.choice([b"\xef\xbb\xbf", b"\xff\xfe", b"\0", b"PK\x03\x04", b"\x93NUMPY"])
            elif kind == 5:
                data = bytearray(rng.choice([b"[", b"(", b'{"a":', b"a=["]) * rng.choice([1, 60, 100_000]))
            elif kind == 6:
                data[at:at] = rng.choice(["\u2028", "\u200b", "é", "\x1b[2J", "\r", "\x00"]).encode()
            else:
                data += data[:at]
        return bytes(data)

    def _json(self, path: Path) -> None:
        content = json.loads(path.read_text())
        for _ in range(self.rng.randint(1, 2)):
            content = self._changed(content)
        path.write_text(json.dumps(content))

    def _changed(self, value: Any) -> Any:
        rng = self.rng
        if isinstance(value, dict | list) and value and rng.random() < 0.85:
            keys = list(value) if isinstance(value, dict) else range(len(value))
            key = rng.choice(list(keys))
            if rng.random() < 0.15:
                del value[key]
            elif rng.random() < 0.1 and isinstance(value, list):
                value.append(value[key])
            else:
                value[key] = self._changed(value[key])
            return value
        if rng.random() < 0.05:
            return json.loads("[" * 300 + "]" * 300)
        return rng.choice(VALUES)

    def _npz(self, path: Path) -> None:
        with np.load(path) as stored:
            arrays = {name: stored[name] for name in stored.files}
        rng, name = self.rng, self.rng.choice(list(arrays))
        old = arrays[name]
        made: list[Callable[[], Any]] = [
            lambda: old.astype(complex),
            lambda: old.astype(str),
            lambda: old[None],
            lambda: old.ravel()[:-1],
            lambda: np.empty(0),
            lambda: np.array("text"),
            lambda: old * 0 - 1,
            lambda: old.astype("float16"),
            lambda: old * np.nan,
            lambda: old.astype(float) * 1e308 * 1e308,
            lambda: old.astype("<M8[s]"),
            lambda: np.array([{"a": 1}]),
            lambda: old.astype(np.uint64)[::-1],
            lambda: np.zeros((3, 0)),
            lambda: old.astype(float) * 1e300,
        ]
        kind = rng.random()
        try:
            with np.errstate(all="ignore"):
                arrays[name] = rng.choice(made)()
        except (ValueError, TypeError, IndexError):
            del arrays[name]
        if kind < 0.1:
            arrays["more\x1b"] = np.ones(2)
        rng.choice([np.savez, np.savez_compressed])(path, **arrays)
        if kind > 0.9:
            with zipfile.ZipFile(path, "w") as archive:
                archive.writestr(f"{name}.npy", b"\x93NUMPY\x01\x00" + struct.pack("<H", 2) + b"(\n")

    def _toml(self, path: Path) -> None:
        lines = path.read_text().splitlines()
        at, rng = self.rng.randrange(len(lines)), self.rng
        name = lines[at].split("=")[0].strip()
        values = [
            "-1",
            "0",
            "1e9",
            "nan",
            "[]",
            '"x"',
            "{}",
            "9" * 30,
            "true",
            "[1, 'a']",
            "[" * 2000,
            "1979-05-27",
            '"subprocess:call"',
            '"os:system"',
            "[[1]]",
            '"\\u001b"',
            "[2, 2]",
            "[nan]",
            "0.5",
        ]
        lines[at] = rng.choice(
            [f"{name} = {rng.choice(values)}", "", f"x{name} = 1", "function = 'os:getcwd'"]
        )
        path.write_text("\n".join(lines))

    def _sqlite(self, path: Path) -> None:
        with closing(sqlite3.connect(path)) as store, store:
            tables = [row[0] for row in store.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            table = self.rng.choice(tables)
            columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})")]
            value = self.rng.choice(
                ["[1]", "{}", "text", "", None, -1, b"\xff", "[" * 100_000, "null", 1e300]
            )
            try:
                store.execute(f"UPDATE {table} SET {self.rng.choice(columns)} = ?", (value,))
            except sqlite3.Error:
                store.execute(f"DROP TABLE {table}")

    # -- one command line of every command ----------------------------------------------------------------

    def solve(self) -> list[str]:
        problem = self.file("problem.json", "linear.json", "problem.npz", "linear.npz")
        options = self.some(
            all=None,
            exact=None,
            flow=None,
            limit=self.number,
            seconds=self.number,
            start=lambda: self.file("start.json", "start.npy"),
            plot=lambda: self.output("o.svg", "o.gif"),
            certificates=lambda: self.output("proofs"),
        )
        return ["solve", problem, "--limit", "20", "--seconds", "5", *options]

    def certify(self) -> list[str]:
        return ["certify", self.file("proof-True.json", "proof-False.json", "problem.json")]

    def check(self) -> list[str]:
        return [
            "ntp",
            "check",
            self.file("words.txt", "words.json"),
            *self.some(
                uniform=None,
                max_length=self.number,
                repair=None,
                save_realizable=lambda: self.output("o.txt", "o.json"),
            ),
        ]

    def train(self) -> list[str]:
        words, model = self.file("words.txt", "words.json"), self.output("o.npz")
        return [
            "ntp",
            "train",
            words,
            "--steps",
            "3",
            "--stage1",
            "3",
            "--out",
            model,
            *self.some(
                uniform=None,
                max_length=self.number,
                repair=None,
                anyway=None,
                resume=None,
                rate=self.number,
                first_rate=self.number,
                stage1=lambda: self.rng.choice(["0", "1", "9" * 25, "x"]),
            ),
        ]

    def resume(self) -> list[str]:
        model = self.file("model.npz")
        self.outputs.append(model)
        shutil.copy(self.good / "words.txt", self.folder)
        return [
            "ntp",
            "train",
            "words.txt",
            "--out",
            model,
            "--resume",
            "--steps",
            self.rng.choice(["5", "8", "1"]),
        ]

    def predict(self) -> list[str]:
        words = ["S V", "", "X", "[]", '["S"]', "[1]", "[" * 100_000, "S " * 500, "\x1b", "{}", '["\\ud800"]']
        return ["ntp", "predict", self.file("model.npz"), self.rng.choice(words), *self.some(limit=None)]

    def generate(self) -> list[str]:
        return [
            "ntp",
            "generate",
            *self.some(
                vocabulary=self.number,
                lag0=self.number,
                max_lag=self.number,
                max_length=self.number,
                multiplicity=lambda: self.rng.choice(["0", "1", "3", "9" * 25]),
                seed=self.number,
                truncate=None,
                no_assumption3=None,
                permutation=lambda: self.rng.choice(["cycle", "derangement", "x", ""]),
                out=lambda: self.output("o.txt", "o.json", "o.gz"),
            ),
        ]

    def sweep(self) -> list[str]:
        plan = self.file("plan.toml")
        self.outputs += ["plan.sqlite", "plan.sqlite-wal", "plan.sqlite-shm", "plan.sqlite.lock"]
        shutil.copy(self.good / "plan.sqlite", self.folder / "store.sqlite")
        if self.rng.random() < 0.7:
            (self.folder / "store.sqlite").unlink()
            store = self.file("plan.sqlite")
        else:
            store = "store.sqlite"
        self.outputs += [store, f"{store}.lock"]
        return [
            "sweep",
            plan,
            "--store",
            store,
            "--seconds",
            "0",
            *self.some(
                of=lambda: self.rng.choice(["x", "", "event"]),
                csv=lambda: self.output("o.csv"),
                backend=lambda: self.rng.choice(["local", "x"]),
                retry_failed=None,
                allow_changes=None,
                trial=lambda: self.rng.choice(["0:0", "0", "9:9", "x:y", "-1:0", "0:" + "9" * 25]),
            ),
        ]

    def verify(self) -> list[str]:
        ids = self.rng.sample(["B-THM-99", "", "\x1b", "b-thm-l1", "A", "C-THM", "*"], 2)
        return ["verify", *ids, *self.some(on=lambda: self.file("problem.json", "problem.npz"))]

    def reproduce(self) -> list[str]:
        return [
            "reproduce",
            self.rng.choice(["B-FIG-99", "x\ny", "", "A-THM-1"]),
            *self.some(
                scale=lambda: self.rng.choice(["x", "quick", ""]),
                paper=lambda: self.rng.choice(["Z", "", "b"]),
                out=lambda: self.output("figures"),
                data=lambda: self.file("words.txt"),
            ),
        ]

    def nothing(self) -> list[str]:
        return self.rng.choice(
            [[], ["x"], ["ntp"], ["ntp", "x"], ["--x"], ["solve"], ["--version"], ["doctor", "x"]]
        )


COMMANDS = (
    Hostile.solve,
    Hostile.solve,
    Hostile.solve,
    Hostile.certify,
    Hostile.certify,
    Hostile.check,
    Hostile.check,
    Hostile.train,
    Hostile.resume,
    Hostile.predict,
    Hostile.predict,
    Hostile.generate,
    Hostile.sweep,
    Hostile.sweep,
    Hostile.verify,
    Hostile.reproduce,
    Hostile.nothing,
)


def hostile_case(seed: int, good: Path, folder: Path) -> tuple[list[str], list[str]]:
    """The arguments of case ``seed`` and the names that they may write to."""
    case = Hostile(seed, good, folder)
    arguments = case.rng.choice(COMMANDS)(case)
    if case.rng.random() < 0.7:
        arguments.append("--json")
    if case.rng.random() < 0.1:
        arguments.append("--quiet")
    return arguments, case.outputs
