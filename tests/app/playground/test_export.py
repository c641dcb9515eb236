"""The playground as one file: what it holds, what it computes by itself, and that it needs no network."""

import base64
import gzip
import json
import re
import shutil
import subprocess
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import hardmax as hm
from hardmax._lib.json import plain
from hardmax.app import cli
from hardmax.app.playground import page
from hardmax.app.playground.engine import answer
from hardmax.app.playground.export import export_page
from hardmax.app.playground.links import encoded, state_of
from hardmax.app.playground.scenes import plane_state

ROOT = Path(__file__).parents[3]
PROBLEMS = 1000
ASK = """
const engine = new Function(process.argv[1] + "; return planarEngine();")();
for (const line of require("fs").readFileSync(0, "utf8").split("\\n").filter(Boolean)) {
  const question = JSON.parse(line), run = engine.flow(engine.read(question), [0, 0], question.end);
  const { selections } = engine.solve(question);
  const found = selections.map((each) => [each.selection, each.direction, each.margin]);
  console.log(JSON.stringify({ found, p: run.points[run.points.length - 1], event: run.event }));
}
"""


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """The page of the two inputs of figure 8 of the max-margin paper."""
    path = tmp_path_factory.mktemp("page") / "page.html"
    export_page(path, hm.data.example("B-FIG-8"))
    return path


@pytest.fixture(scope="session")
def axe(tmp_path_factory):
    """The accessibility checker axe-core, from npm."""
    folder = tmp_path_factory.mktemp("axe")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed, which fetches axe-core")
    command = ["npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", str(folder), "axe-core"]
    if subprocess.run(command, capture_output=True).returncode != 0:
        pytest.skip("npm cannot fetch axe-core here")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text()


def record(path):
    found = re.search(r'id="record">([^<]*)<', path.read_text())
    return json.loads(gzip.decompress(base64.b64decode(found[1])))


@pytest.mark.slow
@pytest.mark.compiled
def test_the_file_is_small_and_holds_what_python_answers(exported):
    assert exported.stat().st_size < 1_000_000
    kept = record(exported)
    assert kept["state"]["problem"]["scores"] == [[1.0, 0.0], [1.0, 0.0]]
    asked = {json.dumps(question): given for question, given in kept["answers"]}
    question = {"ask": "solve", "problem": kept["state"]["problem"], "norm": "linf", "span": 3.2}
    assert asked[json.dumps(question)] == json.loads(json.dumps(plain(answer(question))))
    kinds = {question["ask"] for question, _ in kept["answers"]}
    assert kinds == {
        "tour", "solve", "train", "field", "gradients", "python", "check", "learn", "predict", "words", "file"
    }  # fmt: skip
    text = exported.read_text()
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "")
    assert "https://" not in text
    assert "script-src 'sha256-" in text


@pytest.mark.slow
@pytest.mark.extra
def test_the_command_and_its_schema(capsys, tmp_path):
    file = tmp_path / "page.html"
    line = ["play", "--export", str(file), str(ROOT / "examples" / "opposed.json"), "--json"]
    code, told = cli.run(line), json.loads(capsys.readouterr().out)
    jsonschema.validate(
        told, json.loads((ROOT / "docs" / "reference" / "schemas" / "play.schema.json").read_text())
    )
    assert (code, told["bytes"]) == (0, file.stat().st_size)


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(ValueError, match="2 dimensions"):
        export_page(tmp_path / "page.html", hm.data.sphere(n=2, T=3, d=4, rng=0))
    assert not (tmp_path / "page.html").exists()


def draw(rng, k):
    sizes = rng.integers(2, 6, size=int(rng.integers(1, 4)))
    keys = [rng.normal(size=(T, 2)).round(3).tolist() for T in sizes]
    scores = [rng.random(T).round(2).tolist() for T in sizes]
    return {"keys": keys, "scores": scores, "loss": ("logistic", "exponential", "correlation")[k % 3]}


@pytest.mark.slow
@pytest.mark.compiled
@pytest.mark.skipif(
    shutil.which("node") is None, reason="node is not installed, which runs the planar engine"
)
def test_the_planar_engine_agrees_with_python_on_random_problems():
    rng = np.random.default_rng(7)
    asked, known = [], []
    for k in range(PROBLEMS):
        drawn = draw(rng, k)
        problem = hm.Problem(drawn["keys"], drawn["scores"], drawn["loss"])
        run = hm.flow(problem, until_norm=1e4, until_log_time=1e6)
        known.append((list(hm.attractors(problem)), run))
        asked.append({"problem": drawn, "end": float(run.times[-1])})
    engine = (ROOT / "src/hardmax/app/playground/front/engine.js").read_text()
    lines = "\n".join(map(json.dumps, asked))
    done = subprocess.run(
        ["node", "-e", ASK, engine], input=lines, capture_output=True, text=True, check=True
    )
    for k, (line, (found, run)) in enumerate(zip(done.stdout.splitlines(), known, strict=True)):
        got = json.loads(line)
        theirs = {tuple(selection): (direction, margin) for selection, direction, margin in got["found"]}
        assert set(theirs) == {tuple(map(int, each.selection)) for each in found}, f"seed 7, problem {k}"
        for each in found:
            direction, margin = theirs[tuple(map(int, each.selection))]
            assert np.abs(each.direction - direction).max() < 1e-9, f"seed 7, problem {k}"
            assert abs(each.max_margin.margin - margin) < 1e-9, f"seed 7, problem {k}"
        if run.event in ("stationary point", "precision exhausted"):
            continue  # Python's flow stopped there; the page's goes on to the same time
        assert hm.cosine_distance(np.array(got["p"]), run.p) < 1e-12, f"seed 7, problem {k}"


@pytest.mark.extra
@pytest.mark.slow
class TestInABrowser:
    """The file from its folder, in a browser without a network."""

    @pytest.fixture
    def opened(self, browser, exported):
        contexts = []

        def open_page(link="", size=(1280, 860), scheme="light"):
            context = browser.new_context(
                viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, offline=True
            )
            contexts.append(context)
            opened = context.new_page()
            opened.complaints = []
            opened.on("pageerror", lambda error: opened.complaints.append(str(error)))
            opened.on("console", lambda message: opened.complaints.append(message.text))
            opened.goto(exported.as_uri() + link)
            opened.wait_for_selector(".hmx[data-ready]", timeout=30_000)
            opened.wait_for_timeout(400)
            opened.wait_for_selector(".hmx[data-idle='yes']", timeout=30_000)
            return opened

        yield open_page
        for each in contexts:
            each.close()

    def told(self, opened):
        return opened.evaluate(
            "(() => { const p = document.querySelector('.hmx').playground; "
            "return { state: p.app.state, ...p.scenes.plane.told() }; })()"
        )

    def test_recorded_answers_are_proved_and_changed_ones_are_not(self, opened):
        opened = opened()
        shown = self.told(opened)
        assert [each["certified"] for each in shown["solved"]["selections"]] == [True, True]
        box = opened.locator('[data-token="0.0"]').bounding_box()
        x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
        opened.mouse.move(x, y)
        opened.mouse.down()
        opened.mouse.move(x + 40, y + 30, steps=6)
        opened.mouse.up()
        opened.wait_for_timeout(800)
        opened.wait_for_selector(".hmx[data-idle='yes']")
        shown = self.told(opened)
        posed = shown["state"]["problem"]
        problem = hm.Problem(posed["keys"], posed["scores"], posed["loss"])
        expected = {tuple(each.selection): each.max_margin.margin for each in hm.attractors(problem)}
        got = {tuple(each["selection"]): each["margin"] for each in shown["solved"]["selections"]}
        assert got.keys() == expected.keys()
        assert all(abs(got[each] - expected[each]) < 1e-9 for each in got)
        assert not any(each["certified"] for each in shown["solved"]["selections"])
        assert "not proved here" in opened.inner_text(".hmx-directions")
        assert opened.complaints == []

    @pytest.mark.parametrize(
        "size, scheme", [((390, 844), "light"), ((390, 844), "dark"), ((1280, 860), "dark")]
    )
    def test_every_size_keeps_its_labels(self, opened, size, scheme):
        opened = opened(size=size, scheme=scheme)
        assert "margin" in opened.inner_text(".hmx-directions")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert opened.evaluate(wide) <= 0

    def test_tour_and_tabs_answer_without_an_engine(self, opened):
        opened = opened()
        for step in range(6):
            opened.click(f'[data-step="{step}"]')
            opened.wait_for_timeout(300)
            opened.wait_for_selector(".hmx[data-idle='yes']")
            assert opened.is_hidden(".hmx-problem"), step
        for scene in ("sentences", "words"):
            opened.click(f'[data-scene="{scene}"]')
            opened.wait_for_timeout(300)
            opened.wait_for_selector(".hmx[data-idle='yes']")
            assert opened.is_hidden(".hmx-problem"), scene
        assert opened.complaints == []

    def test_a_link_carries_its_state_and_a_damaged_one_a_message(self, opened):
        state = plane_state(hm.data.example("B-FIG-1b"))
        shown = opened(encoded(state))
        assert self.told(shown)["state"]["problem"] == state["problem"]
        broken = opened("#eyJzY2Vu")
        assert "state of the playground" in broken.inner_text(".hmx-problem")
        script = {**state, "problem": {**state["problem"], "loss": "<img src=x onerror=alert(1)>"}}
        hostile = opened(encoded(script))
        assert hostile.query_selector("img") is None

    @pytest.mark.parametrize(
        "change, message",
        [
            ({"scene": "volume"}, "another version"),
            ({"rules": ["lion"]}, "another version"),
            ({"problem": {"keys": [[[0, 1]] * 300], "scores": [[1] * 300]}}, "too large"),
            ({"problem": {"keys": [[[0, 1], [1, 0]]], "scores": [[1e300, 0]]}}, "too large"),
            ({"scene": "sentences", "sentences": ["word " * 20_000]}, "too large"),
        ],
    )
    def test_a_state_that_cannot_be_shown_gives_a_message_and_the_default_scene(
        self, opened, scenes, change, message
    ):
        shown = opened(encoded({**scenes[1], **change}))
        text = shown.inner_text(".hmx-problem")
        assert message in text
        assert text.endswith("The default scene is shown.")
        assert self.told(shown)["state"] == json.loads(json.dumps(scenes[0]))
        assert shown.complaints == []

    def test_every_scene_of_the_tour_survives_a_link(self, opened, scenes):
        """From Python to the file, from its address to a notebook and to another file."""
        for k, state in enumerate(scenes):
            shown = opened(encoded(state))
            assert self.told(shown)["state"] == json.loads(json.dumps(state)), k
            assert shown.get_attribute(f'[data-step="{k}"]', "aria-current") == "step"
            assert shown.is_hidden(".hmx-problem")
            shown.wait_for_function("location.hash.length > 1")
            assert state_of(shown.url) == self.told(shown)["state"], k

    @pytest.mark.parametrize("scheme", ["light", "dark"])
    @pytest.mark.parametrize("size", [(1280, 860), (390, 844)])
    def test_axe_finds_nothing(self, browser, exported, axe, size, scheme):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, bypass_csp=True, offline=True
        )
        shown = context.new_page()
        shown.goto(exported.as_uri())
        shown.wait_for_selector(".hmx[data-ready]", timeout=30_000)
        shown.evaluate(axe)
        for scene in ("plane", "sentences", "words"):
            shown.click(f"[data-scene='{scene}']")
            shown.wait_for_timeout(600)
            shown.wait_for_selector(".hmx[data-idle='yes']")
            found = shown.evaluate("axe.run()")
            assert len(found["passes"]) > 20
            violations = [
                (each["id"], [node["html"][:90] for node in each["nodes"]]) for each in found["violations"]
            ]
            assert violations == [], scene
        context.close()

    @pytest.mark.parametrize("kind", ["svg", "png"])
    def test_pictures_are_saved(self, opened, kind, tmp_path):
        opened = opened()
        opened.click(".hmx-share")
        with opened.expect_download() as waiting:
            opened.click(f"text=Save picture ({kind.upper()})")
        file = tmp_path / f"picture.{kind}"
        waiting.value.save_as(file)
        content = file.read_bytes()
        assert len(content) > 5_000
        assert content.startswith(b"\x89PNG" if kind == "png" else b"<svg")

    def test_the_keyboard_reaches_and_moves_everything(self, opened):
        """Tab visits every control; arrows move a token, which undo takes back; Escape closes the menu."""
        opened = opened()
        reached = set()
        for _ in range(60):
            opened.keyboard.press("Tab")
            reached.add(opened.evaluate("document.activeElement.outerHTML.slice(0, 120)"))
        for part in ("data-scene", "data-step", "hmx-share", "data-token", "hmx-direction", "<summary"):
            assert any(part in each for each in reached), part
        before = self.told(opened)["state"]["problem"]["keys"]
        opened.focus('[data-token="0.0"]')
        opened.keyboard.press("ArrowRight")
        opened.wait_for_timeout(300)
        assert self.told(opened)["state"]["problem"]["keys"] != before
        opened.keyboard.press("Control+z")
        assert self.told(opened)["state"]["problem"]["keys"] == before
        opened.focus(".hmx-share")
        opened.keyboard.press("Enter")
        assert opened.is_visible(".hmx-menu")
        opened.keyboard.press("Escape")
        assert opened.is_hidden(".hmx-menu")
        assert opened.evaluate("document.activeElement.className").startswith("hmx-tool hmx-share")

    def test_the_page_answers_what_people_ask(self, opened):
        text = opened().text_content(".hmx-questions")
        for question in ("What is the black line?", "Why does the star not win?", "proved"):
            assert question in text


def test_the_engine_has_no_dependencies_and_is_short():
    text = (ROOT / "src/hardmax/app/playground/front/engine.js").read_text()
    assert "import " not in text
    assert len(text.splitlines()) <= 600
    assert "engine.js" in page.PARTS
