"""The page in a real browser: each scene, its numbers compared with the Python API; the keyboard alone."""

import json
import math
import os
import re
import subprocess
import sys

import pytest

import hardmax as hm
from hardmax.app.playground.links import decoded, encoded

pytestmark = [pytest.mark.extra, pytest.mark.slow]
playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

READY, IDLE = ".hmx[data-ready]", ".hmx[data-idle='yes']"
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
WATCH = """window.shifts = []; new PerformanceObserver(list => window.shifts.push(...list.getEntries()))
    .observe({type: "layout-shift", buffered: true})"""


@pytest.fixture
def opened(browser, address):
    """Opens the page in a window of some size; nothing may be complained about on its console."""
    pages = []

    def open_page(size=(1280, 860), scheme="light", link="", touch=False):
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, has_touch=touch
        )
        page = context.new_page()
        page.complaints = []
        page.on("console", lambda message: page.complaints.append(message.text))
        page.on("pageerror", lambda error: page.complaints.append(str(error)))
        page.add_init_script(WATCH)
        page.goto(address + link)
        page.wait_for_selector(READY, timeout=120_000)
        settle(page)
        pages.append(page)
        return page

    yield open_page
    for page in pages:
        assert page.complaints == []
        page.context.close()


def settle(page):
    """Wait until nothing is asked for."""
    page.wait_for_timeout(400)
    page.wait_for_selector(IDLE, timeout=120_000)


def told(page):
    """What the plane shows, and its state."""
    return page.evaluate(
        "(() => { const p = document.querySelector('.hmx').playground; "
        "return { state: p.app.state, ...p.scenes.plane.told() }; })()"
    )


def centre(page, selector):
    box = page.locator(selector).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


@pytest.mark.parametrize(
    "state",
    [
        {"scene": "sentences", "sentences": ["a b", "b a"], "prompt": 5},
        {"scene": "sentences", "sentences": ["a b", "b a"], "prompt": ["a"]},
        {"scene": "words", "texts": None, "epochs": "many"},
        {"scene": "plane", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]], "loss": 3}},
        {"scene": "plane", "problem": {"keys": [[[1, 0], [0, 0]]], "scores": [[1, 0]]}, "norm": [2]},
    ],
)
def test_a_link_with_a_value_of_another_kind_is_refused(opened, state):
    """A prompt that is not text once stopped the script; `opened` fails on any error of the page."""
    page = opened(link=encoded(state))
    assert page.locator(".hmx-problem").inner_text().endswith("The default scene is shown.")
    assert page.locator("[data-step='0'][aria-current='step']").count() == 1


def test_a_file_leads_to_the_page(browser, address, tmp_path):
    """As `hardmax play` opens it: the browser names a foreign site, the token lets it in."""
    file = tmp_path / "open.html"
    file.write_text(f'<!doctype html><meta http-equiv="refresh" content="0; url={address}">')
    page = browser.new_page()
    page.goto(file.as_uri())
    page.wait_for_selector(READY, timeout=120_000)
    assert page.url.startswith(address.partition("?")[0])
    page.close()


def test_a_state_that_is_too_long_for_an_address_opens(browser, tmp_path):
    file = tmp_path / "notes.txt"
    wide = "\u8a9e" * 350
    lines = [f"{wide} eat{k} bread{k}" for k in range(55)]
    file.write_text("\n".join(lines), encoding="utf-8")
    command = [sys.executable, "-m", "hardmax", "play", str(file), "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    address = json.loads(server.stdout.readline())["address"]
    assert len(address) < 100
    page = browser.new_page()
    page.goto(address)
    page.wait_for_selector(READY, timeout=120_000)
    assert "too large for a link" in page.locator(".hmx-problem").inner_text()
    assert page.locator("textarea").first.input_value().split("\n") == lines
    settle(page)
    page.reload()
    page.wait_for_selector(READY, timeout=120_000)
    assert page.locator("textarea").first.input_value().split("\n") == lines
    page.close()
    server.terminate()
    assert "too large for an address" in server.communicate(timeout=30)[1]


def test_a_fresh_installation_answers_while_it_compiles(browser, tmp_path):
    """The page shows tokens and how far compiling is; a drag is answered by plain source, to the bit."""
    cache = {"XDG_CACHE_HOME": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "hardmax", "play", "--no-browser", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **cache})
    page = browser.new_page(viewport={"width": 1280, "height": 860})
    page.goto(json.loads(server.stdout.readline())["address"])
    page.wait_for_selector(READY, timeout=120_000)
    assert page.locator("[data-token]").count() == 3
    page.wait_for_selector(".hmx[data-engine='compiling']", timeout=120_000)
    line = page.locator(".hmx-status").inner_text()
    assert re.fullmatch(r"Compiling, \d+ of 8: answers are slower for now", line)
    page.wait_for_selector(".hmx-direction", timeout=120_000)
    page.locator("[data-token='0.0']").focus()
    page.keyboard.press("ArrowLeft")
    settle(page)
    shown = told(page)
    moved = shown["state"]["problem"]
    assert moved["keys"][0][0] != [-0.1, 1.0]
    found = hm.solve(hm.Problem(moved["keys"], moved["scores"]))
    assert [each["margin"] for each in shown["solved"]["selections"]] == [
        each.max_margin.margin for each in found.selections
    ]
    assert page.locator(".hmx[data-engine='compiling']").count() == 1
    assert page.locator(".hmx-problem:not([hidden])").count() == 0
    page.close()
    server.terminate()
    assert server.wait(30) == 130
    server.stdout.close()


def test_the_status_disappears_when_all_is_compiled(opened):
    page = opened()
    page.wait_for_selector(".hmx[data-engine='ready']", timeout=400_000)
    assert page.locator(".hmx-status").is_hidden()


def test_a_dragged_token_changes_the_directions(opened):
    page = opened()
    page.click("[data-step='3']")
    settle(page)
    assert page.locator(".hmx-direction").count() == 2
    x, y = centre(page, "[data-token='1.0']")
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 120, y + 90, steps=6)
    page.mouse.up()
    settle(page)
    shown = told(page)
    moved = shown["state"]["problem"]
    assert moved["keys"][1][0] != [-1.0, 1.0]
    found = hm.solve(hm.Problem(moved["keys"], moved["scores"]))
    assert [each["selection"] for each in shown["solved"]["selections"]] == [
        list(s.selection) for s in found.selections
    ]
    for each, own in zip(shown["solved"]["selections"], found.selections, strict=True):
        assert each["direction"] == own.direction.tolist()
        assert each["margin"] == own.max_margin.margin
    row = page.locator(".hmx-direction").first
    assert f"{found.selections[0].max_margin.margin:.4g}" in row.inner_text()
    assert "✓ proved" in row.inner_text()
    run = next(run for run in shown["runs"] if run["rule"] == "adam")
    again = hm.train(
        hm.Problem(moved["keys"], moved["scores"]),
        hm.optim.Adam(0.1),
        steps=10_000,
        start=shown["state"]["starts"][0],
    )
    assert run["norm"] == again.p_norm
    assert run["selection"] == list(again.selection)


def test_press_and_hold_starts_training_there(opened):
    page = opened()
    page.click("[data-step='1']")
    settle(page)
    x, y = centre(page, ".hmx-svg")
    page.mouse.move(x + 150, y + 160)
    page.mouse.down()
    page.wait_for_timeout(400)
    page.mouse.move(x + 160, y + 180)
    page.mouse.up()
    settle(page)
    shown = told(page)
    (start,) = shown["state"]["starts"]
    assert start[0] > 0 > start[1]
    flow = hm.flow(hm.data.example("B-FIG-1b"), until_log_time=1e6, start=start)
    (run,) = shown["runs"]
    assert run["selection"] == list(flow.selection) == [1]
    assert run["norm"] == flow.p_norm
    assert shown["field"]["cells"] == 96
    assert {k for row in shown["field"]["grid"] for k in row} == {0, 1}


def test_time_goes_to_e_to_the_million(opened):
    page = opened()
    slider = page.get_by_label("Time, on a scale of log t")
    assert slider.get_attribute("aria-valuetext") == "t = e^1,000,000"
    assert "above its limit by e^−1,000,0" in page.locator("[data-told='loss']").inner_text()
    slider.fill("0")
    shares = [row.get_attribute("aria-label") for row in page.locator(".hmx-row").all()]
    start = told(page)["state"]["starts"][0]
    (own,) = hm.attention(hm.data.example("B-FIG-1a"), start)
    assert shares == ["input 0: " + ", ".join(f"token {t} {round(100 * s)}%" for t, s in enumerate(own))]


def test_tokens_are_added_deleted_recoloured_and_scored(opened):
    page = opened()
    x, y = centre(page, ".hmx-svg")
    page.mouse.dblclick(x - 150, y + 100)
    settle(page)
    problem = told(page)["state"]["problem"]
    assert [len(own) for own in problem["keys"]] == [4]
    page.get_by_role("button", name="a new input").click()
    settle(page)
    assert [len(own) for own in told(page)["state"]["problem"]["keys"]] == [3, 1]
    page.get_by_label("Score", exact=True).fill("0.8")
    settle(page)
    assert told(page)["state"]["problem"]["scores"][1] == [0.8]
    page.get_by_role("button", name="Delete", exact=True).click()
    settle(page)
    assert [len(own) for own in told(page)["state"]["problem"]["keys"]] == [3]
    for _ in range(4):
        page.get_by_role("button", name="Undo").click()
    settle(page)
    shown = told(page)
    assert [len(own) for own in shown["state"]["problem"]["keys"]] == [3]
    assert len(shown["state"]["starts"]) == 8  # a double click did not move the starts
    page.get_by_role("button", name="Redo").click()
    settle(page)
    assert [len(own) for own in told(page)["state"]["problem"]["keys"]] == [4]


def test_controls_change_what_is_asked(opened):
    page = opened()
    page.click("[data-step='3']")
    page.get_by_label("Norm", exact=True).select_option("linf")
    page.get_by_label("Loss", exact=True).select_option("exponential")
    page.click("[data-rule='sign']")
    settle(page)
    shown = told(page)
    assert shown["state"]["rules"] == ["gd", "normalized", "adam"]
    found = hm.solve(hm.data.example("B-FIG-8", loss="exponential"), norm="linf")
    assert shown["solved"]["norm_name"] == "linf"
    assert [each["margin"] for each in shown["solved"]["selections"]] == [
        s.max_margin.margin for s in found.selections
    ]


def test_a_link_is_the_state(opened):
    page = opened()
    page.click("[data-step='3']")
    settle(page)
    page.wait_for_timeout(400)
    state = decoded(page.url)
    assert state["rules"] == ["gd", "normalized", "sign", "adam"]
    state["problem"]["keys"][1][0] = [-1.5, 0.5]
    again = opened(link=encoded(state))
    assert told(again)["state"] == state
    again.get_by_role("button", name="Share").click()
    again.get_by_role("menuitem", name="Copy as Python").click()
    lines = again.get_by_label("The same in Python").input_value()
    room = {}
    exec(lines.replace("plt.show()", ""), room)
    assert room["problem"].keys[2].tolist() == [-1.5, 0.5]
    again.get_by_role("button", name="Close").click()
    again.get_by_role("button", name="Share").click()
    with again.expect_download() as saved:
        again.get_by_role("menuitem", name="Download file").click()
    content = json.loads(saved.value.path().read_text())
    assert content["keys"][1][0] == [-1.5, 0.5]


def test_sentences(opened):
    page = opened()
    page.click("[data-step='5']")
    settle(page)
    assert page.locator(".hmx-verdict").inner_text().startswith("✗ Not realizable")
    assert "[we eat] is followed by fresh, bread" in page.locator(".hmx-faults").inner_text()
    area = page.get_by_label("Sentences, one on each line")
    area.fill("\n".join(area.input_value().split("\n")[:-1]))
    settle(page)
    assert page.locator(".hmx-verdict").inner_text().startswith("✓ Realizable")
    assert page.locator(".hmx-graph").count() == 4
    sentences = ["we eat fresh bread", "eat fresh bread", "fresh bread bread", "bread we eat"]
    run = hm.nexttoken.training.train(hm.nexttoken.Samples.from_sentences(sentences), steps=4000, rate=0.05)
    page.get_by_label("Prompt").fill("we eat bread")
    settle(page)
    told = run.predict("we eat bread")
    first = page.locator(".hmx-option").first.inner_text().split()
    assert first[0] == told.next(1)[0][0]
    assert told.reason in page.locator(".hmx-reason").inner_text()
    page.get_by_label("Prompt").fill("we eat cake")
    page.wait_for_selector(".hmx-problem:not([hidden])")
    assert "does not know 'cake'" in page.locator(".hmx-problem").inner_text()


def test_words(opened):
    page = opened()
    page.click("[data-scene='words']")
    settle(page)
    area = page.get_by_label("Labeled texts")
    area.fill("+ a good film\n- a bad film\n" * 8)
    page.get_by_role("button", name="Train on these").click()
    settle(page)
    found = page.evaluate("document.querySelector('.hmx').playground.scenes.words.told().found")
    corpus = hm.Corpus.from_sequences(["a good film", "a bad film"] * 8, [1, -1] * 8)
    trained = hm.embeddings.minibatch.train_embeddings(
        corpus, 64, hm.optim.AdamW(0.01), epochs=50, batch=64, rng=0
    )
    assert found["words"] == list(corpus.vocabulary)
    assert found["loss"] == trained.loss
    assert all(
        math.isclose(a, b, abs_tol=1e-5) for a, b in zip(found["frames"][-1]["value"], trained.c, strict=True)
    )
    page.get_by_label("Search a word").fill("bad")
    assert "“bad” occurs in 8 texts, 0 of them positive" in page.locator(".hmx-words").inner_text()


def test_script_in_users_text_is_text(opened):
    script = "<img/src=x/onerror=document.title='hacked'>"
    page = opened(
        link=encoded({"scene": "sentences", "sentences": [f"{script} b", f"b {script}"], "prompt": script})
    )
    page.wait_for_timeout(300)
    assert page.title() == "hardmax playground"
    assert page.locator(".hmx img").count() == 0
    assert script in page.locator(".hmx-nexts").inner_text()
    assert script in page.get_by_label("Sentences, one on each line").input_value()
    page.click("[data-scene='words']")
    page.get_by_label("Labeled texts").fill(f"+ {script} good\n- {script} bad\n" * 3)
    page.get_by_role("button", name="Train on these").click()
    settle(page)
    assert page.title() == "hardmax playground"
    assert page.locator(".hmx img").count() == 0


def test_a_link_that_holds_no_state_says_so(opened):
    plane = {"scene": "plane", "problem": {"keys": [[[0, 0], [1, 0]]], "scores": [[0, 1]]}}
    bad = [
        {"scene": "plane"},
        {**plane, "problem": {"keys": [[[0, 0]]], "scores": [[1, 2]]}},
        {**plane, "rules": ["none"]},
        {**plane, "starts": []},
        {"scene": "sentences", "sentences": 3},
        {"scene": "words", "texts": [3]},
    ]
    for link in ["#nonsense", *(encoded(state) for state in bad)]:
        page = opened(link=link)
        assert page.locator(".hmx-problem").inner_text().endswith("The default scene is shown.")
        assert page.locator(".hmx-direction").count() == 1  # the tour begins
    page = opened(link=encoded(plane))  # what is left out is as usual
    assert told(page)["state"]["rules"] == ["flow"]
    assert told(page)["solved"]["selections"][0]["selection"] == [1]


def test_errors_are_sentences_in_the_page(opened):
    problem = {"keys": [[[0, 0]] * 300], "scores": [[0] * 300]}
    rest = {"norm": "l2", "rules": ["flow"], "rate": 0.1, "starts": [[0, 0]], "span": 3, "field": "flow"}
    state = {"scene": "plane", "problem": problem, **rest, "needles": False}
    page = opened(link=encoded(state))
    assert "240 tokens" in page.locator(".hmx-problem").inner_text()
    page.click("[data-step='0']")
    settle(page)
    assert page.locator(".hmx-direction").count() == 1


def test_the_tour_by_keyboard_alone(opened):
    page = opened()
    titles = []
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Next →":
            break
    for _ in range(5):
        page.keyboard.press("Enter")
        settle(page)
        titles.append(page.locator("h1").inner_text())
    assert titles == [
        "Two basins",
        "Normalized against plain",
        "Adam chooses another token",
        "The usual gradient lies",
        "Sentences that cannot be learnt",
    ]
    page.wait_for_timeout(900)  # a scene is read out when nothing has changed for 700 milliseconds
    assert page.locator(".hmx-live").inner_text() != ""
    page.keyboard.press("Enter")  # round again
    settle(page)
    for _ in range(60):  # on to the first token
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.dataset.token") == "0.0":
            break
    before = told(page)["state"]["problem"]["keys"][0][0]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    settle(page)
    shown = told(page)["state"]["problem"]
    assert shown["keys"][0][0][0] == pytest.approx(before[0] + 2 * 3.2 / 50, abs=1e-3)
    assert shown["scores"][0][0] == 1.05
    assert page.evaluate("document.activeElement.getAttribute('aria-label')").startswith(
        "token 0 of input 0, at"
    )
    page.keyboard.press("Control+z")
    settle(page)
    assert told(page)["state"]["problem"]["scores"][0][0] == 1.0


def test_names_for_screen_readers(opened):
    page = opened()
    for scene in ("plane", "sentences", "words"):
        page.click(f"[data-scene='{scene}']")
        settle(page)
        nameless = page.evaluate(
            "[...document.querySelectorAll('.hmx :is(button, input, select, textarea, [role=button])')]"
            ".filter(e => e.offsetParent !== null || e.ownerSVGElement)"
            ".filter(e => !(e.getAttribute('aria-label') || e.textContent.trim()"
            " || (e.labels && e.labels.length)))"
            ".map(e => e.className)"
        )
        assert nameless == []


@pytest.mark.parametrize(
    ("size", "scheme"), [((1280, 860), "light"), ((820, 1100), "dark"), ((360, 740), "light")]
)
def test_it_fits_and_does_not_jump(opened, size, scheme):
    page = opened(size, scheme, touch=size[0] < 500)
    assert page.locator(".hmx").get_attribute("data-theme") == scheme
    for place in range(6):
        page.click(f"[data-step='{place}']")
        settle(page)
        assert page.evaluate(OVERFLOW) == 0
    shifted = page.evaluate("window.shifts.filter(s => !s.hadRecentInput).reduce((a, s) => a + s.value, 0)")
    assert shifted < 0.1  # what is called good


def test_two_pages_do_not_disturb_each_other(opened):
    one, two = opened(), opened()
    one.click("[data-step='1']")
    two.click("[data-step='4']")
    settle(one)
    settle(two)
    assert told(one)["state"]["problem"]["scores"] == [[1.0, 0.9, 0.0]]
    assert told(two)["state"]["needles"] is True
    assert len(told(one)["solved"]["selections"]) == 2
    assert len(told(two)["solved"]["selections"]) == 1


def test_nothing_is_fetched_from_elsewhere(opened):
    page = opened()
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.reload()
    page.wait_for_selector(READY)
    settle(page)
    own = page.url.split("/?")[0]
    assert len(asked) > 5
    assert all(url.startswith((own, "data:")) for url in asked)
