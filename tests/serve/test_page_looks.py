"""The page is usable by keyboard, on a phone's width, in light and dark, and without motion."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.services.page_browser import Page, Windows, expect

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


def test_nothing_scrolls_sideways(windows: Windows, server: ScriptedServer):
    width = 360
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
    options = {"order": "increasing", "max_gap": "6h", "hold": "9m", "filter": "?x != ?z"}
    options |= {"sources": ["ann", "bob", "cho", "dan"]}
    with ScriptedServer(columns=["x", "y", "z"], window="7d", slide="1h", options=options) as server:
        server.time = "2023-11-14T22:13:20"
        server.change(("+", "ann", "bob", LONG), ("+", LONG, LONG, LONG))
        page = windows.open(server.address, width=width, height=844)
        kind = page.locator(".query-kind")
        for phrase in ("each edge later", "gaps up to 6h", "held for 9m", "ann, bob, cho and 1 more", "where ?x != ?z"):
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


def test_nothing_moves_where_motion_is_not_wanted(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address, reduced_motion="reduce")
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
    assert drawings <= 3
