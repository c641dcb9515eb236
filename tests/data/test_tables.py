"""Keys and scores as CSV: what is read, and what is refused with the line and the page that says how."""

import re

import pytest

import hardmax as hm
from hardmax.app import cli

GOOD = "input,token,score,k1,k2\n0,a,0.2,-0.3,0.8\n1,a,0.3,-0.6,0.3\n0,b,0.1,0.1,1.4\n1,b,0.5,0.3,-0.1\n"


@pytest.fixture
def file(tmp_path):
    def write(text, name="mine.csv"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_a_table_is_a_problem(file):
    problem = hm.Problem.load(file(GOOD))
    assert problem.keys.tolist() == [[-0.3, 0.8], [0.1, 1.4], [-0.6, 0.3], [0.3, -0.1]]
    assert problem.scores.tolist() == [0.2, 0.1, 0.3, 0.5]
    assert problem.sizes.tolist() == [2, 2]


@pytest.mark.parametrize("mark", [";", "\t"])
def test_semicolons_tabs_marks_and_blank_lines(file, mark):
    text = "\ufeff" + GOOD.replace(",", mark).replace("input", "Input").replace("\n", "\r\n") + "\r\n"
    assert hm.Problem.load(file(text, "mine.tsv")).scores.tolist() == [0.2, 0.1, 0.3, 0.5]


def test_numbers_keep_all_their_digits(file):
    exact = "0.1234567890123456789"
    problem = hm.Problem.load(file(f"score,input,x\n{exact},one,1\n0,one,{exact}\n"))
    assert problem.scores[0] == problem.keys[1, 0] == float(exact)


@pytest.mark.parametrize(
    "text, words",
    [
        ("", "must name the columns input, score"),
        ("input,score\n0,1\n", "must name the columns input, score"),
        ("input,k1,k2\n0,1,2\n", "got input, k1, k2"),
        ("input,score,k,k\n0,1,2,3\n", "must name the columns"),
        ("input,score,k\n", "holds no token"),
        ("input,score,k\n0,1\n", "line 2 must have 3 fields, got 2"),
        ("input,score,k\n0,1,2\n0,high,2\n", "line 3 must hold numbers"),
        ("input,score,k\n0,1,inf\n", "finite"),
        ("input,score,k\n0,nan,1\n", "finite"),
        (b"input,score,k\n\xff,1,2\n", "not a table in UTF-8"),
    ],
)
def test_what_is_no_table_is_refused(file, text, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        hm.Problem.load(file(text))


def test_the_command_line_takes_a_table(file, capsys):
    assert cli.run(["solve", str(file(GOOD))]) == 0
    assert "n = 2 inputs, T = 2 tokens each, d = 2" in " ".join(capsys.readouterr().out.split())
    assert cli.run(["solve", str(file("a,b\n1,2\n"))]) == 2
    assert "docs/reference/files.md" in capsys.readouterr().err
    assert cli.run(["solve", str(file(GOOD, "mine.txt"))]) == 2
    assert "docs/reference/files.md" in capsys.readouterr().err
