"""The front end as it is written: nothing from elsewhere, no HTML made of text, all style below one class."""

import re
from importlib.resources import files

from hardmax.app.playground import page
from hardmax.app.playground.plane import RULES

FOLDER = files("hardmax.app.playground") / "front"


def test_every_part_is_joined_once():
    assert sorted(page.PARTS) == sorted(each.name for each in FOLDER.iterdir() if each.name.endswith(".js"))
    assert (page.script() + page.template("widget.js")).count("export default") == 1


def test_no_two_parts_declare_one_name():
    """They become one module, where that would be an error in the browser."""
    declared = re.findall(
        r"^(?:export )?(?:async )?(?:function|const|let|class) +(\w+)", page.script(), re.MULTILINE
    )
    assert len(declared) > 30
    assert len(set(declared)) == len(declared)
    assert "import " not in page.script()


def test_no_html_is_made_of_text():
    for word in (
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "Function(",
        "srcdoc",
    ):
        assert word not in page.script()
    assert "<" not in re.sub(r"=>|<=|<\s|// .*", "", "".join(re.findall(r'"[^"]*"', page.script())))


def test_nothing_is_loaded_from_elsewhere():
    texts = [page.template(name) for name in ("start.js", "widget.js", "exported.js")]
    for content in (page.script(), page.style(), page.document("", ""), *texts):
        assert set(re.findall(r"https?://[^\s\"']+", content)) <= {"http://www.w3.org/2000/svg"}
        assert "@import" not in content
        assert "url(" not in content.replace("createObjectURL(", "").replace("revokeObjectURL(", "")


def test_style_is_below_one_class():
    plain = re.sub(r"/\*.*?\*/", "", page.style(), flags=re.DOTALL)
    plain = re.sub(r"@(?:media|container)[^{]*\{", "", plain)
    for selectors in re.findall(r"([^{}]+)\{", plain):
        for each in re.split(r",(?![^()]*\))", selectors):
            assert re.match(r"(body)?\.hmx", each.strip()), each


def test_the_page_knows_every_rule():
    assert tuple(re.findall(r'\{ name: "(\w+)", label', page.script())) == RULES
