"""A table of figures small enough to test how figures are made, saved and shown."""

import os
import pickle
from dataclasses import replace
from functools import cache
from io import BytesIO

import numpy as np
import pytest

from hardmax.app.results.reproduce import reproduce
from hardmax.papers.figures import figure
from hardmax.papers.figures.claims import at_least, near, true
from hardmax.papers.figures.figure import Findings, recipe
from hardmax.papers.registry import Registry


def _draw(tables, canvas):
    panels = canvas.subplots(1, len(tables), squeeze=False)[0]
    for panel, (name, table) in zip(panels, tables.items(), strict=True):
        panel.plot(table["t"], table["cosine"], label=r"$\cos(p, p^{mm})$")
        panel.set(xlabel="step $t$", ylabel="cosine", title=name, xticks=[0, 4], yticks=[])
        panel.legend()


def _columns(rate):
    t = np.arange(5)
    return {"t": t, "cosine": 1 - np.exp(-rate * t) / 3, "start": np.array(list("abcde"))}


def _enter():
    @recipe("B-FIG-90", "A cosine that rises", draw=_draw, errata=("B-ERR-12",))
    def good(setting):
        setting.progress(0.5)
        claims = (
            at_least("B-FIG-90.rise", "cosine at the end", 0.99, 0.9, paper="0.98"),
            true("B-FIG-90.token", "selected <tokens>", True, [0, 1], "0 & 1"),
        )
        return Findings({"path": _columns(1.0)}, claims, notes=("A note with <b>brackets</b>.",), seed=7)

    @recipe("B-FIG-91", "Two cosines, one too low", draw=_draw, size=(7.0, 2.4), errata=("B-ERR-11",))
    def fails(setting):
        claims = (
            near("B-FIG-91.end", "cosine at the end", 0.99951234567, 1.0, 1e-6),
            at_least("B-FIG-91.nothing", "nothing was measured", [], 0.5),
            at_least("B-FIG-91.fine", "something fine", 1.0, 0.5),
        )
        return Findings({"slow": _columns(0.1), "fast": _columns(2.0)}, claims)

    @recipe("C-FIG-92", "No figure at all", draw=_draw)
    def broken(setting):
        if setting.data is None:
            raise ValueError("this figure needs real data; give its folder with --data")
        return 1 / 0

    return figure.recipes()


@pytest.fixture(scope="session")
def computed(tmp_path_factory):
    """A figure of a paper at quick scale, computed once in a run of the tests and shared by its processes."""
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent

    @cache
    def of(id):
        file = folder / f"{id}.pickle"
        if not file.exists():
            found = vars(figure.figure(id)).copy()
            del found["recipe"]
            part = folder / f"{id}.{os.getpid()}.part"
            part.write_bytes(pickle.dumps(found))
            part.rename(file)
        return figure.Figure(figure.recipes()[id], **pickle.loads(file.read_bytes()))

    return of


@pytest.fixture
def table(monkeypatch):
    """Three figures: one whose claims hold, one with failed claims, one that cannot be computed."""
    monkeypatch.setattr(figure, "RECIPES", Registry("figure", {}))
    return _enter()


@pytest.fixture(scope="session")
def reproduction(tmp_path_factory):
    """The three figures made into a folder, the last of them with a bug."""
    folder = tmp_path_factory.mktemp("results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(figure, "RECIPES", Registry("figure", {}))
        _enter()
        return reproduce(data=folder, out=folder)


def _pixels(figure):
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    agg = FigureCanvasAgg(figure.plot())
    agg.draw()
    return np.array(agg.buffer_rgba())


@pytest.fixture
def check_redrawn():
    """Tables, all that is drawn, go through a file unchanged; a picture is neither empty nor full of ink."""

    def check(figure):
        columns = {f"{table}/{name}": x for table, each in figure.tables.items() for name, x in each.items()}
        file = BytesIO()
        np.savez(file, **columns)
        file.seek(0)
        tables = {}
        with np.load(file, allow_pickle=False) as saved:
            for key in saved.files:
                table, name = key.split("/")
                tables.setdefault(table, {})[name] = saved[key]
        for name, columns in figure.tables.items():
            for column, values in columns.items():
                assert tables[name][column].dtype == values.dtype
                assert np.array_equal(tables[name][column], values, equal_nan=values.dtype.kind == "f")
        assert tables.keys() == figure.tables.keys()
        picture = _pixels(replace(figure, tables=tables))
        assert 0.01 < np.mean(picture[..., :3].min(axis=-1) < 200) < 0.6

    return check
