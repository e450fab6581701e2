"""The page follows the changes of a query: what it shows is what holds, through breaks, gaps and silence."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.page_browser import Page, Windows, expect

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from tests.scripted_server import ScriptedServer


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer() as running:
        yield running


def expect_answers(page: Page, number: int) -> None:
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", str(number))


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
    reads = server.asked.count("/queries/q/answers")
    server.cut()
    server.change(("-", "ann", "bob"))
    server.change(("+", "cho", "dan"), ("+", "dan", "eve"))
    expect_answers(page, 3)
    assert rows(page)[:4] == ["+ dan eve", "+ cho dan", "− ann bob", "+ bob cho"]
    assert server.asked.count("/queries/q/answers") == reads
    assert server.asked.count("/changes") == 2


def test_after_a_gap_the_answers_are_read_anew(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"))
    page = windows.open(server.address)
    expect_state(page, "live")
    server.change(("+", "bob", "cho"))
    expect_answers(page, 2)
    reads = server.asked.count("/queries/q/answers")
    server.kept_from = 100
    server.cut()
    server.change(("-", "ann", "bob"), ("-", "bob", "cho"), ("+", "x", "y"))
    expect_answers(page, 1)
    assert server.asked.count("/queries/q/answers") > reads
    expect(page.locator("#said")).to_contain_text("missed")
    server.change(("+", "y", "z"))
    expect_answers(page, 2)


def test_a_server_that_was_away_is_followed_again(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"))
    page = windows.open(server.address)
    expect_state(page, "live")
    server.stop()
    expect_state(page, "reconnecting")
    server.start()
    expect_state(page, "live")
    server.change(("+", "bob", "cho"))
    expect_answers(page, 2)


def test_answers_that_expire_in_silence_leave_too(windows: Windows, server: ScriptedServer):
    server.change(("+", "ann", "bob"), ("+", "bob", "cho"))
    page = windows.open(server.address)
    expect_answers(page, 2)
    del server.answers["ann", "bob"]
    expect_answers(page, 1)


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
        {"source": "bob", "target": "between", "label": "a", "timestamp": 1},
        {"source": "cho", "target": "between", "label": "b", "timestamp": 2},
    ]
    page.locator("#changes-rows tr", has_text="bob cho").or_(page.locator("#changes-rows tr").nth(1)).first.click()
    expect(page.locator("#answer .steps")).to_be_visible()
    assert page.locator("#answer .vertex").all_inner_texts() == ["bob", "between", "cho"]
    assert page.locator("#answer .edge-label").all_inner_texts() == ["a", "^b"]
    server.change(("-", "bob", "cho"))
    expect(page.locator("#answer")).to_contain_text("ceased to hold")


def test_a_long_table_stays_short(windows: Windows, server: ScriptedServer):
    page = windows.open(server.address)
    expect_state(page, "live")
    server.change(*[("+", f"u{number}", "v") for number in range(2000)])
    expect_answers(page, 2000)
    expect(page.locator("#changes-rows tr")).to_have_count(200)
    assert rows(page)[0] == "+ u1999 v"
    expect(page.locator("#graph-count")).to_have_text("300 of 2,000 answers drawn")


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
