"""The page follows the changes of a query: what it shows is what holds, through breaks, gaps and silence."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.services.page_browser import Error, Page, Windows, expect, expect_answers, until

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from tests.serve.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def expect_state(page: Page, state: str) -> None:
    expect(page.locator("#connection")).to_have_text(state)


def rows(page: Page) -> list[str]:
    """The table of changes: op and values of each row."""
    found = page.eval_on_selector_all(
        "#changes-rows tr", "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return [" ".join([cells[0], *cells[2:]]) for cells in found]


def test_answers_come_and_go(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"), ("+", "bob", "cho"))
    page = windows.open(server.address)
    expect_answers(page, 2)
    expect(page.locator("#graph-count")).to_have_text("2 answers")
    server.change(("+", "cho", "dan"), ("-", "ann", "bob"))
    server.change(("+", "dan", "eve"))
    expect_answers(page, 3)
    expect(page.locator("#changes-rows tr")).to_have_count(3)
    assert rows(page) == ["+ dan eve", "− ann bob", "+ cho dan"]
    expect(page.locator(".query-answers")).to_have_text("3")
    assert windows.hosts == {f"127.0.0.1:{server.port}"}


def test_it_goes_on_where_the_stream_broke_off(windows: Windows, server: ScriptedServer):
    server.counts = False  # so that on a slow machine nothing but the stream has the answers read
    server.change(("+", "ann", "bob"))
    page = windows.open(server.address)
    expect_state(page, "live")
    server.change(("+", "bob", "cho"))
    expect_answers(page, 2)
    reads = server.requests.count("/queries/q/answers")
    server.cut()
    server.change(("-", "ann", "bob"))
    server.change(("+", "cho", "dan"), ("+", "dan", "eve"))
    expect_answers(page, 3)
    expect(page.locator("#changes-rows tr")).to_have_count(4)
    assert rows(page) == ["+ dan eve", "+ cho dan", "− ann bob", "+ bob cho"]
    assert server.requests.count("/queries/q/answers") == reads
    assert server.requests.count("/changes") == 2


@pytest.mark.long
def test_answers_that_expire_in_silence_leave_too(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"), ("+", "bob", "cho"))
    page = windows.open(server.address)
    expect_answers(page, 2)
    del server.answers["ann", "bob"]
    expect_answers(page, 1)


@pytest.mark.long
def test_the_time_of_the_stream_does_not_go_back(windows: Windows, server: ScriptedServer):
    waiting: list[Any] = []
    server.change(("+", "ann", "bob"))
    page = windows.open(server.address)
    expect_answers(page, 1)
    page.route("**/statistics", lambda route: route.continue_() if waiting else waiting.append((route, route.fetch())))
    until(page, lambda: waiting)
    server.change(("+", "bob", "cho"))
    expect(page.locator("#stream-time")).to_have_text("2")
    route, late = waiting[0]
    assert late.json()["time"] == 1
    route.fulfill(response=late)
    for _ in range(10):
        page.wait_for_timeout(20)
        assert page.locator("#stream-time").inner_text() == "2"


def test_after_a_gap_the_answers_are_read_anew(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"))
    page = windows.open(server.address)
    expect_state(page, "live")
    server.change(("+", "bob", "cho"))
    expect_answers(page, 2)
    reads = server.requests.count("/queries/q/answers")
    server.kept_from = 100
    server.cut()
    server.change(("-", "ann", "bob"), ("-", "bob", "cho"), ("+", "x", "y"))
    expect_answers(page, 1)
    assert server.requests.count("/queries/q/answers") > reads
    expect(page.locator("#said")).to_contain_text("missed")
    server.change(("+", "y", "z"))
    expect_answers(page, 2)


def test_a_token_is_asked_for_and_kept_out_of_the_address(windows: Windows):
    with ScriptedServer(token="secret&more") as server:
        server.change(("+", "ann", "bob"))
        page = windows.open(server.address)
        expect(page.get_by_role("alert")).to_contain_text("asks for a token")
        page.get_by_label("Token").fill("wrong")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("does not know this token")
        page.get_by_label("Token").fill("secret&more")
        page.keyboard.press("Enter")
        expect_answers(page, 1)
        expect(page.get_by_role("alert")).to_be_hidden()
        other = windows.open(f"{server.address}#token=secret%26more")
        expect_answers(other, 1)
        assert "secret" not in other.url
        other.reload()
        expect_answers(other, 1)


@pytest.mark.long
def test_the_table_can_be_held_and_a_row_chosen(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address)
    expect_state(page, "live")
    server.change(("+", "ann", "bob"), ("+", "bob", "cho"))
    expect(page.locator("#changes-rows tr")).to_have_count(2)
    page.get_by_role("button", name="Pause").click()
    server.change(("+", "cho", "dan"))
    expect(page.locator("#changes-waiting")).to_have_text("1 wait")
    assert rows(page) == ["+ bob cho", "+ ann bob"]
    page.get_by_role("button", name="Go on").click()
    expect(page.locator("#changes-rows tr")).to_have_count(3)
    server.witnesses["bob", "cho"] = [
        {"source": "bob", "target": "between", "label": "a", "timestamp": 1, "properties": {"amount": 1500, "by": "ü"}},
        {"source": "cho", "target": "between", "label": "b", "timestamp": 2},
    ]
    page.evaluate(
        """() => {
          globalThis.drawn = new Set();
          const draw = CanvasRenderingContext2D.prototype.fillText;
          CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
            drawn.add(text);
            draw.call(this, text, ...place);
          };
        }"""
    )
    page.locator("#changes-rows tr", has_text="bob cho").or_(page.locator("#changes-rows tr").nth(1)).first.click()
    expect(page.locator("#answer .steps")).to_be_visible()
    assert page.locator("#answer .vertex").all_inner_texts() == ["bob", "between", "cho"]
    assert page.locator("#answer .edge-label").all_inner_texts() == ["a", "^b"]
    assert page.locator("#answer .edge-values").all_inner_texts() == ["amount: 1500, by: ü"]
    until(page, lambda: {"a", "amount: 1500", "by: ü", "b"} <= {*page.evaluate("() => [...drawn]")})  # in the graph
    server.change(("-", "bob", "cho"))
    expect(page.locator("#answer")).to_contain_text("ceased to hold")


@pytest.mark.long
def test_an_error_goes_with_the_text_that_it_is_about(windows: Windows, server: ScriptedServer):
    requests: list[Any] = []
    page = windows.open(server.address)
    expect_state(page, "live")

    def hold(route: Any) -> None:
        requests.append(route)

    page.route("**/check", hold)

    def answer(number: int, body: dict[str, Any], status: int = 200) -> None:
        with contextlib.suppress(Error):  # The page may have let go of it.
            requests[number].fulfill(status=status, content_type="application/json", body=json.dumps(body))

    wrong = {"error": {"type": "ExpressionError", "message": "unexpected '/'", "line": 1, "column": 3, "length": 1}}
    right = {"language": "path", "columns": ["source", "target"], "text": "", "svg": None}
    page.get_by_role("button", name="New query").click()
    page.locator("#expression").fill("a//b")
    expect(page.locator("#checking")).to_be_visible()
    until(page, lambda: requests)
    answer(0, wrong, 400)
    expect(page.locator("#query-error")).to_have_text("unexpected '/'")
    expect(page.locator("#checking")).to_be_hidden()

    # While another text is checked, nothing of the one before is said.
    page.locator("#expression").fill("a/b")
    assert page.locator("#query-error").inner_text() == ""
    assert page.locator("#expression").get_attribute("aria-invalid") == "false"
    expect(page.locator("#checking")).to_be_visible()
    until(page, lambda: len(requests) == 2)

    # A late answer to it says nothing about the text that stands there now.
    page.locator("#expression").fill("a/b/c")
    answer(1, wrong, 400)
    page.wait_for_timeout(100)
    assert page.locator("#query-error").inner_text() == ""
    until(page, lambda: len(requests) == 3)
    answer(2, right)
    expect(page.locator("#language")).to_have_text("path")
    expect(page.locator("#checking")).to_be_hidden()


HARMFUL = '<script>window.harmed = 1</script>'
IMAGE = '<img src="x" onerror="window.harmed = 1">'


def test_names_are_text_whatever_they_say(windows: Windows):
    with ScriptedServer(expression=f"{IMAGE}/b") as server:
        server.change(("+", HARMFUL, IMAGE), ("+", IMAGE, "\N{RIGHT-TO-LEFT OVERRIDE}<b>"))
        page = windows.open(server.address)
        expect_answers(page, 2)
        server.witnesses[HARMFUL, IMAGE] = [{"source": HARMFUL, "target": IMAGE, "label": HARMFUL, "timestamp": IMAGE}]
        server.change(("-", HARMFUL, IMAGE))
        server.change(("+", HARMFUL, IMAGE))
        expect(page.locator("#changes-rows tr")).to_have_count(2)
        page.locator("#changes-rows tr").first.click()
        expect(page.locator("#answer .edge-label")).to_have_text(HARMFUL)
        page.locator("#answer").get_by_role("button", name=IMAGE).click()
        expect(page.locator("#find")).to_have_value(IMAGE)
        expect(page.locator("#graph-count")).to_have_text("2 found")
        assert page.locator("img:not([src^='page/']), script:not([src^='page/']), b").count() == 0
        assert page.evaluate("window.harmed") is None
        assert re.search(r"script", page.inner_text("#changes-rows"))


OVERRIDE, ISOLATE = "\N{RIGHT-TO-LEFT OVERRIDE}", "\N{RIGHT-TO-LEFT ISOLATE}"
SHOWN = {
    f"{OVERRIDE}bob": "‹U+202E›bob",
    f"a{ISOLATE}b": "a‹U+2067›b",
    "": "‹empty›",
    " ": "‹U+0020›",
    "a  b ": "a ‹U+0020›b‹U+0020›",
    "\N{ZERO WIDTH SPACE}": "‹U+200B›",
    "ann\N{SOFT HYPHEN}": "ann‹U+00AD›",
    "a\N{NO-BREAK SPACE}b": "a‹U+00A0›b",
    "tab\there": "tab‹U+0009›here",
    "\N{HANGUL FILLER}": "‹U+3164›",
    "\N{BRAILLE PATTERN BLANK}": "‹U+2800›",
    "\U000e0041": "‹U+E0041›",
    "Ada L.": "Ada L.",
    "שלום": "שלום",
    "Zoë": "Zoë",
}
"""Names, and what is written for them."""


def test_names_are_shown_whatever_is_invisible_in_them(windows: Windows):
    from rpq.serve.query_checks import PictureNode, draw_graph

    with ScriptedServer(expression=f"<{OVERRIDE}knows>/b") as server:
        page = windows.open(server.address)
        expect(page.locator(".query-choose code bdi")).to_have_text("<‹U+202E›knows>/b")
        # Who copies the line posts the same name.
        expect(page.locator("#empty-code")).to_contain_text('"label":"\\u202eknows"')
        expect_state(page, "live")
        page.evaluate(
            """() => {
                const { fillText } = CanvasRenderingContext2D.prototype;
                window.written = new Set();
                CanvasRenderingContext2D.prototype.fillText = function (text, x, y) {
                    window.written.add(text);
                    return fillText.call(this, text, x, y);
                };
            }"""
        )
        server.change(*[("+", name, "x") for name in reversed(SHOWN)])
        expect(page.locator("#changes-rows tr")).to_have_count(len(SHOWN))
        cells = page.locator("#changes-rows td:nth-child(3) > bdi")
        assert cells.evaluate_all("cells => cells.map(cell => cell.textContent)") == [*SHOWN.values()]
        expect(page.locator("#changes-rows tr").first.locator(".escape")).to_have_text("‹U+202E›")
        # In the graph there is always room for the names of the answer that is chosen.
        page.locator("#changes-rows tr").first.click()
        until(page, lambda: page.evaluate("window.written.has('‹U+202E›')"))

        # The empty name as well is chosen, said, and found.
        page.locator("#changes-rows tr").nth(2).click()
        expect(page.locator("#answer .vertex").first).to_have_text("‹empty›")
        until(page, lambda: page.evaluate("window.written.has('‹empty›')"))
        written = page.evaluate("[...window.written].join('')")
        assert not {OVERRIDE, ISOLATE, "\N{ZERO WIDTH SPACE}"} & {*written}
        expect(page.locator("#answer dd bdi").first).to_have_text("‹empty›")
        page.locator("#answer dd button").first.click()
        expect(page.locator("#graph-count")).to_have_text("1 found")

    # The drawings that the server makes say the same.
    for name, shown in SHOWN.items():
        picture = draw_graph([PictureNode(name, 0, 0, "box")], [], title="one")
        assert shown in re.sub(r"<[^>]*>", "", picture), name
