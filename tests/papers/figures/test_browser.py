"""The report in a browser: it loads alone, shows every figure, marks what fails, and fits the window."""

import pytest

pytestmark = pytest.mark.extra

RED = """element => {
    const [r, g, b] = getComputedStyle(element).color.match(/[0-9.]+/g).map(Number);
    return r > 1.5 * g && r > 1.5 * b;
}"""
OVERFLOW = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(params=[(1400, 900, "light"), (900, 700, "dark"), (360, 740, "light")], ids=str)
def shown(browser, request, reproduction):
    """The report in a window of some size, with what it requested and complained about."""
    width, height, scheme = request.param
    page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    page.requested, page.complaints = [], []
    page.on("request", lambda request: page.requested.append(request.url))
    page.on("console", lambda message: page.complaints.append(message.text))
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.goto(reproduction.report.as_uri())
    yield page
    page.close()


@pytest.mark.slow
def test_it_loads_by_itself(shown, reproduction):
    shown.wait_for_load_state("networkidle")
    outside = [url for url in shown.requested if not url.startswith("data:")]
    assert outside == [reproduction.report.as_uri()]
    assert shown.complaints == []
    assert shown.title() == "hardmax: 3 of 5 claims hold, 1 figure could not be made"


@pytest.mark.slow
def test_every_figure_is_visible_and_nothing_overflows(shown):
    assert shown.evaluate(OVERFLOW) == 0
    width = shown.viewport_size["width"]
    pictures = shown.locator("figure img")
    assert pictures.count() == 2
    for picture in pictures.all():
        assert picture.evaluate("image => image.complete && image.naturalWidth > 0")
        box = picture.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["width"] > 200
        natural = picture.evaluate("image => image.naturalWidth / image.naturalHeight")
        assert box["width"] / box["height"] == pytest.approx(natural, rel=0.01)


@pytest.mark.slow
def test_what_fails_is_marked_in_red_and_in_words(shown):
    rows = shown.locator("tr.fails")
    assert rows.count() == 2
    for row in rows.all():
        verdict = row.locator(".verdict")
        assert "fails" in verdict.inner_text()
        assert verdict.is_visible()
        assert verdict.evaluate(RED)
        assert row.locator("th").evaluate(RED)
    held = shown.locator("tr.holds .verdict")
    assert held.count() == 3
    assert not any(each.evaluate(RED) for each in held.all())
    assert "could not be made" in shown.locator("#C-FIG-92 .error").inner_text()


@pytest.mark.slow
def test_links_to_failures_lead_there(shown):
    shown.get_by_role("link", name="B-FIG-91.nothing").click()
    shown.wait_for_function("location.hash == '#B-FIG-91.nothing'")
    row = shown.locator("[id='B-FIG-91.nothing']")
    playwright = pytest.importorskip("playwright.sync_api")
    playwright.expect(row).to_be_in_viewport()


@pytest.mark.slow
def test_the_claims_stay_a_table_for_screen_readers(shown):
    tables = shown.get_by_role("table")
    assert tables.count() == 2
    first = tables.first
    assert first.get_by_role("columnheader").count() == 5
    assert first.get_by_role("rowheader").count() == 2
