"""Making many figures: one that breaks or an interrupt costs nothing of the rest."""

import pytest

from hardmax.figures import figure as module
from hardmax.figures.figure import Findings, recipe
from hardmax.figures.record import read_records
from hardmax.figures.reproduce import Job, reproduce


def test_a_figure_that_breaks_leaves_the_others(reproduction):
    good, fails, broken = reproduction.figures
    assert (good.holds, fails.holds, broken.holds, reproduction.holds) == (True, False, False, False)
    assert [claim.id for claim in reproduction.failed] == ["B-FIG-91.end", "B-FIG-91.nothing"]
    assert (broken.error, broken.claims, broken.files) == ("ZeroDivisionError: division by zero", (), ())
    assert "return 1 / 0" in broken.trace
    folder = reproduction.report.parent
    assert all((folder / name).is_file() for record in (good, fails) for name in record.files)


def test_a_figure_without_its_data_says_what_to_do(table, tmp_path):
    (record,) = reproduce(["C-FIG-92"], out=tmp_path).figures
    assert record.error == "this figure needs real data; give its folder with --data"
    assert record.trace is None


def test_a_picture_that_cannot_be_drawn_leaves_its_numbers(table, tmp_path):
    @recipe("B-FIG-93", "no picture", draw=lambda tables, canvas: canvas.no_such_verb())
    def compute(setting):
        return Findings({"path": {"t": [1, 2]}}, ())

    (record,) = reproduce(["B-FIG-93"], out=tmp_path).figures
    assert "no_such_verb" in record.error
    assert (tmp_path / "B-FIG-93.path.csv").read_text() == "t\n1\n2\n"


def test_an_interrupt_keeps_what_is_done(table, tmp_path):
    @recipe("B-FIG-93", "for ever", draw=lambda tables, canvas: None)
    def compute(setting):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        reproduce(["B-FIG-90", "B-FIG-93", "B-FIG-91"], out=tmp_path)
    assert [record.id for record in read_records(tmp_path)] == ["B-FIG-90"]
    assert "2 of 2 claims hold" in (tmp_path / "index.html").read_text()


def test_going_on_completes_the_page(table, tmp_path):
    reproduce(["B-FIG-91"], out=tmp_path)
    done = reproduce(["B-FIG-90"], out=tmp_path)
    assert [record.id for record in done.figures] == ["B-FIG-90"]
    assert "3 of 5 claims hold" in done.report.read_text()
    assert [record.id for record in read_records(tmp_path)] == ["B-FIG-90", "B-FIG-91"]


@pytest.mark.parametrize(
    "ids, words",
    [
        (["B-FIG-90", "B-FIG-91", "C-FIG-92"], "hardmax reproduce --scale paper --data 'my data' --out "),
        (["B-FIG-90", "B-FIG-91"], "hardmax reproduce --paper B --scale"),
        (["B-FIG-91", "B-FIG-90"], "hardmax reproduce B-FIG-91 B-FIG-90 --scale"),
    ],
)
def test_the_command_that_makes_figures(table, tmp_path, ids, words):
    chosen = [module.recipes()[id] for id in ids]
    job = Job(chosen, "paper", tmp_path / "my data", tmp_path)
    assert job.command(chosen).replace(f"{tmp_path}/my data", "my data").startswith(words)
