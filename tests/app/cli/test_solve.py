"""`hardmax solve` as a user meets it: results by contract, budgets, interrupts, mistakes."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hardmax as hm
from hardmax._lib.arrays import cosine_distance
from hardmax.app import cli
from hardmax.data import example, sphere
from hardmax.margin.certificates import certify
from hardmax.problem import Problem

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "three-inputs.json"


@pytest.fixture
def solve(tmp_path, capsys, validated):
    """Run the command on a problem (or a file); return exit code, the JSON and standard error."""

    def run(problem: Any, *options: str) -> tuple[int, Any, str]:
        file = problem
        if isinstance(problem, Problem):
            file = tmp_path / "problem.npz"
            problem.save(file)
        elif isinstance(problem, str):
            file = tmp_path / "problem.json"
            file.write_text(problem)
        code = cli.run(["solve", str(file), "--json", *options])
        out, err = capsys.readouterr()
        return code, validated(out), err

    return run


def test_locally_optimal_by_default_and_all_on_request(solve):
    code, answer, err = solve(example("B-FIG-8"))
    assert (code, err) == (0, "")
    assert (answer["status"], answer["feasible"], answer["qps"]) == ("complete", 4, 4)
    assert {tuple(s["selection"]) for s in answer["selections"]} == {(0, 0), (0, 1)}
    best = next(s for s in answer["selections"] if s["globally_optimal"])
    assert best["direction"] == pytest.approx([1 / np.sqrt(10), 3 / np.sqrt(10)])
    assert best["norm"] == pytest.approx(np.sqrt(10))
    assert best["support"] == [[0, 1], [1, 1]]
    low, high = best["margin_interval"]
    assert low <= 1 / np.sqrt(10) <= high
    assert best["kkt"] <= 1e-12
    assert answer["global"] == [{"selection": [0, 0], "feasible": True}]
    assert answer["flow"] is None
    _, answer, _ = solve(example("B-FIG-8"), "--all")
    assert len(answer["selections"]) == 4
    assert sum(s["locally_optimal"] for s in answer["selections"]) == 2


def test_exact(solve):
    _, answer, _ = solve(example("B-FIG-8"), "--exact")
    assert {s["certificate"] for s in answer["selections"]} == {"exact"}
    assert all(s["kkt"] == 0 for s in answer["selections"])


SMALL_SLACK = '{"keys": [[[1, 0], [0, 0], [-5e-7, 0]]], "scores": [[1, 0, 2]]}'


@pytest.mark.parametrize("options", [(), ("--exact",)])
def test_a_small_slack_is_no_tight_row(solve, options):
    """Issue: this printed "attracts no, proof exact"; token 0 is locally optimal."""
    code, answer, _ = solve(SMALL_SLACK, "--all", *options)
    assert (code, answer["norm_name"], answer["multiplicities"]) == (0, "l2", [])
    first = next(s for s in answer["selections"] if s["selection"] == [0])
    assert first["locally_optimal"] is True
    assert first["support"] == [[0, 1]]
    assert first["certificate"] == ("exact" if options else "float")


def test_a_doubtful_verdict_is_said(solve, monkeypatch, tmp_path, capsys):
    """With exact arithmetic out of reach a row that may be tight leaves it open; --exact settles it."""
    monkeypatch.setattr("hardmax.margin.solve.EXACT_ROWS", 0)
    problem = Problem([[[0.0, 0.0], [-3.0, 0.0], [-3.0, 7.0]]], [[1.0, 0.0, 2.0]])
    code, answer, _ = solve(problem)
    assert (code, answer["status"]) == (3, "truncated")
    open_one = next(s for s in answer["selections"] if s["selection"] == [0])
    assert (open_one["locally_optimal"], open_one["status"]) == (None, "doubtful")
    problem.save(tmp_path / "open.json")
    assert cli.run(["solve", str(tmp_path / "open.json")]) == 3
    assert "doubtful" in capsys.readouterr().out
    code, answer, _ = solve(problem, "--exact")
    assert code == 0
    assert all(s["locally_optimal"] is not None for s in answer["selections"])


def test_repeated_tokens_have_a_multiplicity(solve, tmp_path, capsys):
    text = '{"keys": [[[1, 0], [0, 0], [1, 0], [1, 0]]], "scores": [[1, 0, 1, 1]]}'
    code, answer, _ = solve(text, "--flow")
    assert code == 0
    assert answer["multiplicities"] == [{"token": [0, 0], "count": 3}]
    assert [s["selection"] for s in answer["selections"]] == [[0]]
    assert (answer["flow"]["selection"], answer["flow"]["nearest"]) == ([0], 0)
    assert cli.run(["solve", str(tmp_path / "problem.json")]) == 0
    assert "repeated tokens (i, t), each one token: (0, 0) 3 times" in capsys.readouterr().out


@pytest.mark.parametrize("d", [1, 2, 3, 4, 12])
def test_tables_fit_80_columns(d, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    for n in (2, 9):
        sphere(n=n, T=3, d=d, rng=0).save(tmp_path / "wide.npz")
        cli.run(["solve", str(tmp_path / "wide.npz"), "--all", "--limit", "20", "--no-color"])
        lines = capsys.readouterr().out.splitlines()
        assert max(map(len, lines)) <= 80 or str(tmp_path) in max(lines, key=len)


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("n, d", [(5, 3), (12, 6)])
def test_selections_and_directions_are_whole(n, d, width, tmp_path, monkeypatch, solve, capsys):
    """At n = 5, d = 3 and 80 columns rows once read `0 3 3...` twice."""
    monkeypatch.setenv("COLUMNS", str(width))
    problem = sphere(n=n, T=4, d=d, rng=0)
    _, answer, _ = solve(problem, "--limit", "60")
    cli.run(["solve", str(tmp_path / "problem.npz"), "--limit", "60", "--no-color"])
    out = capsys.readouterr().out
    table = out[out.index("#") : out.index("best-scoring")]
    rows = re.split(r"(?m)^(?=\d)", table)[1:]
    assert len(rows) == len(answer["selections"]) > 1
    for row in rows:
        each = answer["selections"][int(row.split()[0])]
        cells = " ".join(row.split())
        assert " ".join(map(str, each["selection"])) in cells
        assert " ".join(f"{x:+.4f}" for x in each["direction"]) in cells
    assert "..." not in table
    assert max(map(len, table.splitlines())) <= width


def test_the_best_is_first_and_the_number_is_that_of_the_json(solve, capsys):
    """The picture's panels have the same order."""
    _, answer, _ = solve(EXAMPLE, "--all")
    cli.run(["solve", str(EXAMPLE), "--all", "--no-color"])
    rows = re.findall(r"(?m)^(\d+) +([\d ]+?)  +[+-]", capsys.readouterr().out)
    listed = [answer["selections"][int(k)] for k, _ in rows]
    assert [" ".join(map(str, each["selection"])) for each in listed] == [tokens for _, tokens in rows]
    assert len(rows) == 11
    ranks = [(not s["locally_optimal"], not s["globally_optimal"], s["norm"]) for s in listed]
    assert ranks == sorted(ranks)
    assert listed[0]["globally_optimal"]
    found = hm.solve(EXAMPLE, all=True)
    titles = [panel.get_title() for panel in found.plot().axes[1:]]
    for title, (_, each) in zip(titles, found.ranked, strict=False):
        assert f"tokens {' '.join(map(str, each.selection))}" in title.replace(",", "")


@pytest.mark.parametrize("n, d", [(60, 3), (5, 60), (120, 2)])
def test_rows_that_differ_look_different(n, d, monkeypatch):
    """Where a selection of 60 tokens is cut, the inputs that tell it from the other rows are named."""
    monkeypatch.setenv("COLUMNS", "80")
    found = hm.solve(sphere(n=n, T=3, d=d, rng=1), all=True, limit=50, seconds=20)
    text = str(found)
    table = text[text.index("#") : text.index("more selections")]
    rows = re.split(r"(?m)^(?=\d+ +[\d.]+)", table)[1:]
    assert len(rows) == min(len(found.selections), 40) > 1
    names = set()
    for row in rows:
        each = found.selections[int(row.split()[0])]
        name = re.search(r"(?s)kkt (?:< )?\S+ +(.*?)[+-]\d\.", row)
        names.add(" ".join(name[1].split()))
        for i, t in re.findall(r"(\d+):(\d+)", row):
            assert each.selection[int(i)] == int(t)
    assert len(names) == len(rows)
    assert max(map(len, text.splitlines())) <= 80


def test_infeasible_data_come_with_a_proof(solve):
    code, answer, _ = solve('{"keys": [[[1], [0]], [[-1], [0]]], "scores": [[1, 0], [1, 0]]}')
    assert code == 0
    assert (answer["feasible"], answer["selections"]) == (2, [])
    (only,) = answer["global"]
    assert not only["feasible"]
    assert [f["row"] for f in only["farkas"]] == [[0, 1], [1, 1]]
    assert len({f["weight"] for f in only["farkas"]}) == 1


def test_ties_are_all_listed(solve):
    problem = Problem([[[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]] * 2, [[1.0, 1.0, 0.0]] * 2)
    code, answer, _ = solve(problem)
    assert code == 0
    assert [(g["selection"], g["feasible"]) for g in answer["global"]] == [
        ([0, 0], True),
        ([0, 1], False),
        ([1, 0], False),
        ([1, 1], True),
    ]
    code, answer, _ = solve(problem, "--limit", "3")
    assert code == 3
    assert (len(answer["global"]), answer["status"]) == (3, "truncated")


@pytest.mark.parametrize("budget", [("--limit", "5"), ("--seconds", "1e-9")])
def test_a_budget_that_runs_out(solve, budget):
    code, answer, _ = solve(sphere(n=6, T=5, d=8, rng=0), "--all", *budget)
    assert code == 3
    assert (answer["status"], answer["feasible"]) == ("truncated", None)
    assert len(answer["selections"]) <= 5


def test_flow_names_where_it_goes(solve, tmp_path):
    code, answer, _ = solve(example("B-FIG-8"), "--flow")
    assert code == 0
    flow = answer["flow"]
    assert (flow["start"], flow["clock"], flow["event"]) == ("zero", "log t", None)
    assert flow["status"] == "complete"
    assert flow["selection"] == answer["selections"][flow["nearest"]]["selection"] == [0, 0]
    assert flow["norm"] == pytest.approx(1e6)
    assert flow["misalignment"] < 1e-12
    assert flow["misalignment"] == pytest.approx(cosine_distance(flow["direction"], [1.0, 3.0]), abs=1e-16)
    for name, write in (
        ("p.json", lambda f: f.write_text("[4, 0]")),
        ("p.npy", lambda f: np.save(f, [4.0, 0.0])),
    ):
        start = tmp_path / name
        write(start)
        _, answer, _ = solve(example("B-FIG-8"), "--flow", "--start", str(start))
        assert answer["flow"]["selection"] == [0, 1]
        assert answer["flow"]["start"] == str(start)


def test_flow_that_goes_nowhere(solve):
    code, answer, _ = solve('{"keys": [[[1, 2]]], "scores": [[1]]}', "--flow")
    assert code == 0
    (only,) = answer["selections"]
    assert (only["direction"], only["margin_interval"]) == (None, [None, None])
    assert "no token competes" in only["status"]
    flow = answer["flow"]
    assert (flow["selection"], flow["nearest"], flow["misalignment"]) == (None, None, None)
    assert flow["event"] == "no competing token"
    assert flow["status"] != "complete"


def test_flow_without_an_attractor_has_no_nearest(solve):
    _, answer, _ = solve('{"keys": [[[1], [0]], [[-1], [0]]], "scores": [[1, 0], [2, 0]]}', "--flow")
    assert answer["flow"]["event"] == "stationary point"
    assert answer["flow"]["nearest"] is None
    assert "no listed direction" in answer["flow"]["status"]


def test_certificates_are_valid(solve, tmp_path):
    folder = tmp_path / "proofs"
    _, _, err = solve(example("B-FIG-8"), "--all", "--certificates", str(folder))
    assert "certify" in err
    assert len(list(folder.iterdir())) == 4
    assert all(certify(file)["valid"] for file in folder.iterdir())
    solve('{"keys": [[[1], [0]], [[-1], [0]]], "scores": [[1, 0], [1, 0]]}', "--certificates", str(folder))
    assert "infeasible" in certify(folder / "global-0.json")["what"]


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_plot(solve, tmp_path, ending):
    picture = tmp_path / f"plane.{ending}"
    code, _, _ = solve(EXAMPLE, "--plot", str(picture), "--flow", "--all")
    assert code == 0
    head = {"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending]
    assert picture.read_bytes().startswith(head)
    if ending == "svg":
        again = tmp_path / "again.svg"
        solve(EXAMPLE, "--plot", str(again), "--flow", "--all")
        assert again.read_bytes() == picture.read_bytes()


def test_table_for_a_reader(capsys):
    assert cli.run(["solve", str(EXAMPLE), "--flow", "--no-color"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "feasible selections: 11, of which attract: 3" in out
    assert "selection  direction" in out
    assert "gradient flow from zero" in out
    assert "nearest is #" in out


def test_the_documented_example_is_true(capsys, monkeypatch):
    """Up to residuals, which are rounding."""

    def settled(text: str) -> list[str]:
        lines = [line.strip() for line in text.splitlines()]
        return [re.sub(r"kkt (< )?\S+|1 - cos = \S+|log t = \S+ ", "", line) for line in lines]

    monkeypatch.chdir(ROOT)
    documented = settled((ROOT / "docs" / "how-to" / "find-where-training-goes.md").read_text())
    for name in ("three-inputs", "opposed"):
        assert cli.run(["solve", f"examples/{name}.json", "--flow", "--no-color"]) == 0
        assert set(settled(capsys.readouterr().out)) <= set(documented)


def test_queries_in_a_file(solve, tmp_path):
    """examples/queries.json is w33 of part D: three selections attract, the flow from zero takes the best."""
    start = tmp_path / "start.json"
    start.write_text("[[0.1, 0, 0], [0, 0, 0], [0, 0, 0]]")
    code, answer, _ = solve(ROOT / "examples" / "queries.json", "--flow", "--start", str(start))
    assert code == 0
    assert [s["selection"] for s in answer["selections"]] == [[1, 0, 2], [2, 0, 2], [2, 2, 2]]
    assert answer["flow"]["selection"] == [2, 0, 2]
    best = answer["selections"][1]
    assert 1 / best["norm"] == pytest.approx(0.903322673716, rel=1e-11)
    assert len(best["direction"]) == 9


def test_table_for_a_reader_of_odd_cases(capsys, tmp_path):
    file = tmp_path / "odd.json"
    file.write_text('{"keys": [[[1], [0]], [[-1], [0]]], "scores": [[1, 0], [2, 0]]}')
    assert cli.run(["solve", str(file), "--flow"]) == 0
    out, _ = capsys.readouterr()
    assert "infeasible, constraints cancel: 1 x (0, 1), 1 x (1, 1)" in out
    assert "event: stationary point" in out
    problem = sphere(n=4, T=4, d=12, rng=0)
    problem.save(tmp_path / "large.npz")
    assert cli.run(["solve", str(tmp_path / "large.npz"), "--all", "--limit", "50"]) == 3
    out, _ = capsys.readouterr()
    assert "the limit was reached; raise the limit" in out
    assert "10 more selections are in the JSON" in out
    file.write_text('{"keys": [[[1, 2]]], "scores": [[1]]}')
    assert cli.run(["solve", str(file)]) == 0
    assert "none" in capsys.readouterr().out


@pytest.mark.parametrize(
    "content, options, words",
    [
        ('{"keys": [[[1, NaN], [0, 0]]], "scores": [[1, 0]]}', (), "finite"),
        ('{"keys": [[[1, 2], [0', (), "not valid JSON"),
        ('{"keys": ' + "[" * 100_000, (), "problem.json is not valid JSON: it is nested too deeply"),
        ('{"keys": [[[1' + "0" * 400 + ']]], "scores": [[1]]}', (), "too large to convert"),
        ('{"keys": [[[1, 2], [0, 0]]]}', (), "scores"),
        ('{"keys": [[[1, 2], [0, 0]]], "scores": [[1, 0]]}', ("--start", "zero"), "--flow"),
        ('{"keys": [[[1, 2], [0, 0]]], "scores": [[1, 0]]}', ("--seconds", "-1"), "seconds"),
        ('{"keys": [[[1, 2], [0, 0]]], "scores": [[1, 0]]}', ("--limit", "0"), "--limit"),
        ('{"keys": [[[1, 2], [0, 0]]], "scores": [[1, 0]]}', ("--plot", "picture.gif"), ".gif"),
        ('{"keys": [[[1, 2], [0, 0]]], "scores": [[1, 0]]}', ("--plot", "no/such/folder.svg"), "no/such"),
        ('{"keys": [[[1, 2, 3], [0, 0, 0]]], "scores": [[1, 0]]}', ("--plot", "picture.svg"), "2 dimensions"),
    ],
)
def test_mistakes_end_in_one_sentence(solve, content, options, words):
    code, answer, err = solve(content, *options)
    assert (code, answer["schema"], err) == (2, "hardmax.error/1", f"hardmax: {answer['error']}\n")
    assert words in err


def test_files_that_are_not_there(solve, tmp_path):
    code, _, err = solve(tmp_path / "absent.json")
    assert code == 2
    assert "absent.json" in err
    start = tmp_path / "start.json"
    code, _, err = solve(EXAMPLE, "--flow", "--start", str(start))
    assert code == 2
    for text in ("nonsense", "[1, 2, 3]", "[1, NaN]", "[" * 100_000):
        start.write_text(text)
        code, _, err = solve(EXAMPLE, "--flow", "--start", str(start))
        assert code == 2
        assert "start.json" in err


@pytest.mark.parametrize("where", ["search", "flow"])
def test_interrupt_keeps_what_was_found(solve, monkeypatch, where):
    from hardmax.directions.enumerate import SelectionList
    from hardmax.dynamics import flow as flows

    if where == "flow":
        monkeypatch.setattr(flows, "flow", _interrupt)
    else:
        original, count = SelectionList._advance, iter(range(100))
        monkeypatch.setattr(
            SelectionList, "_advance", lambda self: _interrupt() if next(count) == 2 else original(self)
        )
    code, answer, err = solve(example("B-FIG-8"), "--all", "--flow")
    assert code == 130
    assert answer["status"] == "truncated"
    assert answer["flow"] is None
    assert len(answer["selections"]) == (4 if where == "flow" else 2)
    assert "interrupted" in err


def _interrupt(*_: Any, **__: Any) -> Any:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_a_real_interrupt(tmp_path, validated):
    sphere(n=25, T=8, d=30, rng=0).save(tmp_path / "large.npz")
    script = """
import sys
import hardmax as hm
from hardmax.app import cli
from hardmax.app.results.session import Progress
to = Progress.to
says = iter([lambda: print("searching", file=sys.stderr, flush=True)])
Progress.to = lambda self, *counts: (next(says, bool)(), to(self, *counts))
cli.main()
"""
    command = [sys.executable, "-c", script, "solve", "large.npz", "--json", "--all", "--limit", "100000000"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        assert running.stderr is not None
        while (line := running.stderr.readline()) != b"searching\n":
            assert line.startswith(b"hardmax: compiling")
        running.send_signal(signal.SIGTERM)  # means the same as Ctrl-C, which the tests of sweep send
        out, err = running.communicate(timeout=120)
    assert running.returncode == 130, err
    assert validated(out)["status"] == "truncated"
    assert b"Traceback" not in err


def test_an_undecided_verdict_is_incomplete(solve, monkeypatch, tmp_path, capsys):
    """With exact arithmetic out of reach, a margin of 1e-17 stays open and is said to be."""
    monkeypatch.setattr("hardmax.margin.solve.EXACT_ROWS", 0)
    problem = Problem([[[0.0, 0.0, 0.0], [2.0, 0.0, 0.0], [1.0, 2.0**-60, 0.0]]], [[0.0, 0.0, 1.0]])
    code, answer, _ = solve(problem)
    assert code == 3
    assert answer["global"] == [{"selection": [2], "feasible": None, "status": "undecided"}]
    assert answer["feasible"] is None
    problem.save(tmp_path / "open.json")
    assert cli.run(["solve", str(tmp_path / "open.json")]) == 3
    out, _ = capsys.readouterr()
    assert "too large to decide exactly" in out
    assert "best-scoring tokens 2: undecided" in out


def test_critical_directions_with_their_index(solve, capsys):
    code, answer, _ = solve(example("B-FIG-1b"), "--critical")
    found = answer["critical"]
    assert (code, found["status"], found["sum"], found["degenerate"]) == (0, "complete", 1, [])
    assert [each["index"] for each in found["directions"]] == [0, 0, 1]
    saddle = found["directions"][-1]
    assert saddle["direction"] == pytest.approx([1 / np.sqrt(1.01), 0.1 / np.sqrt(1.01)])
    assert (saddle["selection"], saddle["rows"]) == ([1], [[0, 0], [0, 2]])
    assert saddle["multipliers"] == pytest.approx([-0.1, 1.11])
    code, answer, _ = solve(example("B-FIG-1a"), "--critical")
    assert (code, answer["critical"]["degenerate"][0]) == (0, "input 0: tokens 1 and 2 have one score")
    assert "critical" not in solve(example("B-FIG-1a"))[1]
    assert cli.run(["solve", str(ROOT / "examples" / "saddle.json"), "--critical"]) == 0
    out = capsys.readouterr().out
    assert "finite stationary points must sum to 1 - 1 = 0" in out
    assert max(map(len, out.splitlines())) <= 80
    code, answer, _ = solve(sphere(n=4, T=6, d=10, rng=0), "--critical", "--seconds", "0.5")
    assert (code, answer["critical"]["status"], answer["critical"]["sum"]) == (3, "truncated", None)


def test_the_time_counts_from_reading_on(solve, monkeypatch):
    """A million tokens took 75 s of --seconds 5: after it no input is looked at, no large problem solved."""
    code, answer, _ = solve(EXAMPLE, "--seconds", "1e-9")
    assert (code, answer["status"], answer["qps"], answer["selections"]) == (3, "truncated", 0, [])
    assert len(answer["global"]) == 1
    monkeypatch.setattr("hardmax.app.results.solve.LARGE", 1)
    assert solve(EXAMPLE, "--seconds", "1e-9")[1]["global"] == []
