"""The page is usable by keyboard, on a phone's width, in light and dark, and without motion."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.services.page_browser import Page, Windows, expect, until

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from tests.serve.scripted_server import ScriptedServer

LONG = "a-name-without-a-blank-that-is-longer-than-any-telephone-is-wide-" * 3

FOCUSED = """() => {
    const element = document.activeElement;
    const style = getComputedStyle(element);
    return {
        name: element.id || element.className || element.tagName,
        outline: style.outlineStyle === "none" ? 0 : parseFloat(style.outlineWidth),
        seen: element.getClientRects().length > 0,
    };
}"""


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(expression="<http://example.org/a/rather/long/name>/knows*") as running:
        running.change(("+", "ann", "bob"), ("+", "bob", "cho"), ("+", "cho", "dan"), ("+", "dan", "ann"))
        yield running


def beyond(page: Page) -> int:
    """Pixels by which the page is wider than its window."""
    width: int = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    return width


@pytest.mark.parametrize("width", [360, *(pytest.param(width, marks=pytest.mark.long) for width in (700, 820, 1080))])
def test_nothing_scrolls_sideways(windows: Windows, server: ScriptedServer, width: int):
    page = windows.open(server.address, width=width, height=740)
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    assert beyond(page) <= 0
    server.change(("+", LONG, "bob"))
    expect(page.locator("#changes-rows tr")).to_have_count(1)
    page.locator("#changes-rows tr").first.click()
    expect(page.locator("#answer .steps")).to_be_visible()
    assert beyond(page) <= 0
    page.get_by_role("button", name="New query").first.click()
    page.locator("#expression").fill(f"{LONG}/{LONG}")
    assert beyond(page) <= 0
    box = page.locator("#writer").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= width
    assert page.locator("#writer").evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")


@pytest.mark.ci
@pytest.mark.parametrize("width", [390, 1280])
def test_everything_has_its_place(windows: Windows, width: int):
    options = {"order": "increasing", "max_gap": "6h", "sources": ["ann", "bob", "cho", "dan"], "filter": "?x != ?z"}
    with ScriptedServer(columns=["x", "y", "z"], window="7d", slide="1h", options=options) as server:
        server.time = "2023-11-14T22:13:20"
        server.change(("+", "ann", "bob", LONG), ("+", LONG, LONG, LONG))
        page = windows.open(server.address, width=width, height=844)
        kind = page.locator(".query-kind")
        for phrase in ("each edge later", "gaps up to 6h", "ann, bob, cho and 1 more", "where ?x != ?z"):
            expect(kind).to_contain_text(phrase)
        # The answers that hold are rows before anything changes, and changes stand above them.
        expect(page.locator("#held-rows td:last-child")).to_have_text([LONG, LONG])
        server.change(("+", LONG, LONG, "new"))
        expect(page.locator("#changes-rows td:last-child")).to_have_text(["new"])
        assert page.locator("#changes-scroll").evaluate("element => element.scrollWidth <= element.clientWidth")
        assert box_of(page, "#changes-rows")["y"] < box_of(page, "#held-rows")["y"]
        page.locator("#held-rows td").last.click()
        expect(page.locator("#answer dd").first).to_have_text(LONG)

        # No time of the stream moves what stands beside it.
        controls = ["#theme", "#connection", "#query-list"]
        expect(page.locator("#stream-time")).to_have_text("2023-11-14 22:13:20")
        places = [box_of(page, control) for control in controls]
        server.time = "2023-11-14T22:13:20.123456789"
        expect(page.locator("#stream-time")).to_have_text("2023-11-14 22:13:20.123456789")
        assert [box_of(page, control) for control in controls] == places

        curve, label = box_of(page, ".plot svg"), box_of(page, ".axis.most")
        assert label["height"] > 0 and label["y"] + label["height"] <= curve["y"]
        assert box_of(page, ".axis.span")["y"] >= curve["y"] + curve["height"]

        # A new query has the window of the one that is followed, and can be registered without scrolling.
        page.get_by_role("button", name="New query").first.click()
        expect(page.locator("#window")).to_have_value("7d")
        expect(page.locator("#slide")).to_have_value("1h")
        page.locator("#order").select_option("increasing")
        expect(page.locator("#register")).to_be_in_viewport(ratio=1)


def box_of(page: Page, selector: str) -> dict[str, float]:
    box = page.locator(selector).first.bounding_box()
    assert box is not None, selector
    return {**box}


@pytest.mark.long
def test_without_answers_it_says_what_to_do(windows: Windows, server: ScriptedServer):
    server.answers.clear()
    server.position = 0
    page = windows.open(server.address, width=360, height=740)
    expect(page.get_by_role("heading", name="No answers yet")).to_be_visible()
    text = page.locator("#empty-code").inner_text()
    assert text.startswith(f"curl {server.address}tuples") and '"label":"http://example.org/a/rather/long/name"' in text
    assert beyond(page) <= 0
    server.change(("+", "ann", "bob"))
    expect(page.locator("#stage-empty")).to_be_hidden()


@pytest.mark.long
def test_light_and_dark(windows: Windows, server: ScriptedServer):
    def ground(page: Page) -> int:
        red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor"))[:3])
        return red + green + blue

    light = windows.open(server.address, color_scheme="light")
    dark = windows.open(server.address, color_scheme="dark")
    assert ground(light) > 600 and ground(dark) < 150
    light.get_by_role("button", name="Switch to the dark theme").click()
    assert ground(light) == ground(dark)
    light.reload()
    assert ground(light) == ground(dark)
    light.get_by_role("button", name="Switch to the light theme").click()
    assert ground(light) > 600


def contrast(page: Page, selector: str) -> float:
    """Return the contrast of a text to its background, as defined by WCAG."""
    ratio: float | None = page.locator(selector).first.evaluate(
        """(element) => {
            if (!element.isConnected) return null;  // it was drawn anew since it was found, and has no style
            // rgb() counts to 255, color(srgb …), which mixed colours are told as, to 1.
            const whole = (colour) => (colour.startsWith("color(") ? 255 : 1);
            const numbers = (colour) => colour.match(/[\\d.]+/g).map((part, at) => (at < 3 ? whole(colour) : 1) * part);
            const bright = (colour) => {
                const parts = colour.map((one) => (one /= 255) < 0.04 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4);
                return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
            };
            let behind = element;
            const colour = (at) => numbers(getComputedStyle(at).backgroundColor);
            while (behind.parentElement && colour(behind)[3] === 0) behind = behind.parentElement;
            const text = bright(numbers(getComputedStyle(element).color).slice(0, 3));
            const ground = bright(colour(behind).slice(0, 3));
            return (Math.max(text, ground) + 0.05) / (Math.min(text, ground) + 0.05);
        }"""
    )
    return contrast(page, selector) if ratio is None else ratio


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_texts_can_be_read(windows: Windows, server: ScriptedServer, scheme: str):
    page = windows.open(server.address, color_scheme=scheme)
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    server.change(("+", "x", "y"), ("-", "ann", "bob"))
    expect(page.locator("#changes-rows tr")).to_have_count(2)
    page.locator("#changes-rows tr.plus").click()
    expect(page.locator("#answer .steps")).to_be_visible()
    texts = (
        "#graph-title", "#graph-count", "#new-query", ".query-kind", ".plus td", ".minus td", ".plus td:nth-child(2)",
        ".edge-label", ".when", ".curve-head .label", ".axis.most", "#connection", "#let-go", ".legend li",
    )  # fmt: skip
    assert {text: contrast(page, text) for text in texts if contrast(page, text) < 4.5} == {}


@pytest.mark.parametrize("block", [0, 1], ids=["light", "dark"])
def test_new_and_old_are_told_apart_by_every_eye(block: int):
    """Colours as they look without one kind of cones (Machado et al. 2009), compared by their distance in CIELAB."""
    sheet = (Path(__file__).parents[2] / "rpq/serve/page/base.css").read_text().split("}")[block]
    colours = dict(re.findall(r"--([\w-]+): (#\w{6})", sheet))
    for eye, matrix in EYES.items():
        for one, other in (("new", "node"), ("new", "link"), ("removed", "node"), ("witness", "node")):
            apart = math.dist(cielab(colours[one], matrix), cielab(colours[other], matrix))
            assert apart > 25, (eye, one, other, round(apart))
    assert abs(cielab(colours["new"], EYES["all"])[0] - cielab(colours["node"], EYES["all"])[0]) > 20, "without any colour"


EYES = {
    "all": ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)),
    "no long": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "no middle": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "no short": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}


def cielab(colour: str, matrix: tuple[tuple[float, ...], ...]) -> tuple[float, float, float]:
    """A colour #rrggbb, seen through a matrix, as lightness and two hues."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    red, green, blue = (min(1.0, max(0.0, sum(map(operator.mul, row, linear)))) for row in matrix)
    x = (0.4124 * red + 0.3576 * green + 0.1805 * blue) / 0.9505
    y = 0.2126 * red + 0.7152 * green + 0.0722 * blue
    z = (0.0193 * red + 0.1192 * green + 0.9505 * blue) / 1.089
    a, b, c = (one ** (1 / 3) if one > 0.008856 else 7.787 * one + 16 / 116 for one in (x, y, z))
    return 116 * b - 16, 500 * (a - b), 200 * (b - c)


@pytest.mark.long
def test_a_curve_begins_at_the_left_with_its_first_values(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address)
    expect(page.locator(".curve .span").nth(1)).to_have_text(re.compile(r"^since start, [2-9] s$"))
    line, room = page.evaluate(
        """[...document.querySelectorAll(".curve:nth-child(2) .curve-line, .curve:nth-child(2) svg")].map(
            (one) => one.getAttribute("d") ?? one.getAttribute("viewBox")).reverse()"""
    )
    places = [float(place) for place in re.findall(r"[ML]([\d.]+) ", line)]
    assert room == "0 0 59 100" and places[0] == 0 and max(places) < 10


@pytest.mark.long
def test_the_legend_says_what_sizes_mean(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address)
    expect(page.locator(".legend .sizes")).to_contain_text("of the answers drawn")
    width = "parseFloat(getComputedStyle(document.querySelector('.legend .many'), '::before').width)"
    until(page, lambda: page.locator("#canvas-box").get_attribute("style"))
    before = page.evaluate(width)
    for _ in range(6):
        page.locator("#zoom-out").click()
    until(page, lambda: page.evaluate(width) < 0.7 * before)


@pytest.mark.long
def test_a_witness_is_brought_into_view(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address, width=360, height=740)
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    server.change(("+", "eve", "ann"))
    # On a telephone it lies between the graph and the table.
    page.locator("#changes-rows tr").first.click()
    expect(page.locator("#answer .steps")).to_be_in_viewport(ratio=1)
    page.locator("#let-go").click()
    page.locator("#graph").focus()
    page.evaluate("scrollTo(0, 0)")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#answer .steps")).to_be_visible()
    # Who goes from answer to answer by keys looks at the graph.
    assert page.evaluate("scrollY") == 0


def test_it_is_used_by_keyboard_alone(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address)
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    server.change(("+", "eve", "ann"))
    expect(page.locator("#changes-rows tr")).to_have_count(1)
    seen = []
    for _ in range(60):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused["name"] == "BODY":
            break
        assert focused["seen"] and focused["outline"] >= 1, focused
        seen.append(focused["name"])
    order = ["skip", "theme", "new-query", "query-choose", "find", "limit", "zoom-in", "fit", "graph", "pause-changes"]
    assert [name for name in seen if name in order] == order and seen.count("plot") == 4

    # Answers, by arrow keys in the graph.
    page.locator("#graph").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#answer .values dd")).to_have_count(2)
    expect(page.locator("#said")).to_have_text("Witness of 1 edges")
    chosen = {tuple(page.locator("#answer .values dd").all_inner_texts())}
    for key in ("ArrowLeft", "ArrowUp", "ArrowRight", "ArrowDown") * 4:
        page.keyboard.press(key)
        chosen.add(tuple(page.locator("#answer .values dd").all_inner_texts()))
    assert len(chosen) > 1 and chosen <= {*server.answers}
    page.keyboard.press("Escape")
    expect(page.locator("#answer .values")).to_have_count(0)

    # Rows of the table.
    server.change(("+", "fay", "ann"))
    expect(page.locator("#changes-rows tr")).to_have_count(2)
    page.locator("#changes-rows tr[tabindex='0']").focus()
    page.keyboard.press("ArrowDown")
    expect(page.get_by_role("button", name="Go on")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("#answer .values dd").first).to_have_text("eve")

    # A curve's values.
    page.locator(".plot").first.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".reading").first).to_have_text(re.compile(r"1 s ago$"))

    # The dialog: opened, closed by Escape, and the focus is back.
    page.locator("#new-query").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#expression")).to_be_focused()
    page.keyboard.press("Escape")
    expect(page.locator("#writer")).to_be_hidden()
    expect(page.locator("#new-query")).to_be_focused()


@pytest.mark.long
def test_the_graph_takes_pointers_too(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address, reduced_motion="reduce")
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    box = page.locator("#graph").bounding_box()
    assert box is not None
    # Vertices change the pointer's shape: look for one on a grid, from the middle, where they are.
    places = [(x, y) for x in range(20, int(box["width"]), 8) for y in range(20, int(box["height"]), 8)]
    for x, y in sorted(places, key=lambda place: math.dist(place, (box["width"] / 2, box["height"] / 2))):
        page.mouse.move(box["x"] + x, box["y"] + y)
        if page.locator("#graph.over").count():
            break
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#answer .values dd")).to_have_count(2)
    assert tuple(page.locator("#answer .values dd").all_inner_texts()) in server.answers
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    page.mouse.wheel(0, -400)
    page.mouse.down()
    page.mouse.up()
    expect(page.locator("#answer .values dd")).to_have_count(0)


@pytest.mark.parametrize(
    ("motion", "moves"), [("reduce", False), pytest.param("no-preference", True, marks=pytest.mark.long)]
)
def test_nothing_moves_where_motion_is_not_wanted(windows: Windows, server: ScriptedServer, motion: str, moves: bool):
    page = windows.open(server.address, reduced_motion=motion)
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    drawings = page.evaluate(
        """async () => {
            // What the canvas shows in each of so many frames.
            const found = new Set();
            for (let frame = 0; frame < 20; frame += 1) {
                await new Promise(requestAnimationFrame);
                found.add(document.getElementById("graph").toDataURL());
            }
            return found.size;
        }"""
    )
    assert (drawings > 3) == moves


LABELS = """() => {
    // Texts that are drawn on the canvas, since it was cleared last, each with its box.
    const { fillText, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        window.drawn = [];
        return clearRect.apply(this, box);
    };
    CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
        const width = this.measureText(text).width;
        const left = this.textAlign === "center" ? x - width / 2 : x;
        window.drawn?.push({ text, left, right: left + width, top: y - 7, bottom: y + 7 });
        return fillText.call(this, text, x, y);
    };
}"""


@pytest.mark.long
def test_labels_of_a_witness_do_not_cover_each_other(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address, reduced_motion="reduce")
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", "4")
    page.evaluate(LABELS)
    there_and_back = [("ann", "bob", "knows"), ("bob", "ann", "follows"), ("ann", "bob", "likes"), ("bob", "cho", "knows")]
    server.witnesses["ann", "cho"] = [
        {"source": source, "target": target, "label": label, "timestamp": 1} for source, target, label in there_and_back
    ]
    server.change(("+", "ann", "cho"))
    page.locator("#changes-rows tr").first.click()
    expect(page.locator("#answer .step")).to_have_count(4)
    for _ in range(3):
        page.locator("#zoom-out").click()
    page.wait_for_timeout(300)
    labels = [one for one in page.evaluate("window.drawn") if one["text"] in ("knows, likes", "follows", "knows")]
    assert len(labels) == 3
    for place, one in enumerate(labels):
        for other in labels[:place]:
            apart = one["left"] > other["right"] or other["left"] > one["right"]
            assert apart or one["top"] > other["bottom"] or other["top"] > one["bottom"], (one, other)
