"""A whole session with the page of `rpq serve`: from writing a query to the witness of an answer.

With `RPQ_SCREENSHOTS=FOLDER` the last test writes the pictures of the docs there.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.services.page_browser import PATIENCE, Page, Windows, expect, expect_answers, until

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from rpq.serve.operations import Admission, parse_tokens
from tests.services.served import Command, Served

ROOT = Path(__file__).parents[2]
HARMFUL = "<script>window.harmed = 1</script>"


@pytest.fixture
def server() -> Iterator[Served]:
    with Served() as running:
        yield running


def open_page(windows: Windows, server: Served | Command, **options) -> Page:
    return windows.open(f"{server.url}/", **options)


def write(page: Page, expression: str, **fields: str) -> None:
    """Open the dialog and write a query into it."""
    page.get_by_role("button", name="New query").click()
    page.locator("#expression").fill(expression)
    for name, value in fields.items():
        page.locator(f"#{name}").fill(value)


def registered(page: Page, name: str) -> None:
    """Register what is written, and wait until it is followed."""
    page.keyboard.press("Control+Enter")
    expect(page.locator("#graph-title")).to_have_text(name)
    expect(page.locator("#connection")).to_have_text("live")


def test_from_writing_a_query_to_its_witness(windows: Windows, server: Served):
    page = open_page(windows, server)
    page.get_by_role("button", name="Write a query").click()

    # An error is underlined where it is, and what is wrong is said below.
    page.locator("#expression").press_sequentially("knows//worksAt*")
    mark = page.get_by_test_id("underlined")
    expect(mark).to_have_text("/")
    expect(page.locator("#query-error")).to_contain_text("unexpected '/'")
    expect(page.locator("#expression")).to_have_attribute("aria-invalid", "true")
    places = page.evaluate(
        """() => {
            // Where the mark lies, and where the second slash of the text does: behind six letters of the same width.
            const mark = document.querySelector("#underlined mark").getBoundingClientRect();
            const box = document.getElementById("expression").getBoundingClientRect();
            const padding = parseFloat(getComputedStyle(document.getElementById("expression")).paddingLeft);
            return [mark.left - box.left - padding - 1, mark.width];
        }"""
    )
    assert abs(places[0] - 6 * places[1]) < 2

    # Corrected, it is understood and drawn.
    page.locator("#expression").fill("knows/worksAt*")
    expect(mark).to_have_count(0)
    expect(page.locator("#language")).to_have_text("path")
    expect(page.locator("#drawing svg")).to_contain_text("worksAt")  # not that of the expression before, half typed
    assert {"knows", "worksAt"} <= {*page.locator("#drawing svg text").all_text_contents()}
    expect(page.locator("#columns")).to_have_text("Answers have source, target")
    expect(page.locator("#query-error")).to_be_empty()
    page.locator("#window").fill("100")
    page.locator("#slide").fill("10")
    page.locator("#query-name").fill("work")
    registered(page, "work")

    # There are no answers, and a line to paste that brings one.
    expect(page.get_by_role("heading", name="No answers yet")).to_be_visible()
    done = subprocess.run([*shlex.split(page.locator("#empty-code").inner_text()), "-s"], capture_output=True, text=True)
    assert '"tuples":1' in done.stdout, done.stderr
    expect_answers(page, 1)
    server.post(("bob", "acme", "worksAt", 2), (HARMFUL, "bob", "knows", 3))
    expect_answers(page, 4)

    # An answer is chosen, and its witness lit.
    page.locator("#changes-rows tr", has_text="acme").filter(has_text="ann").click()
    expect(page.locator("#answer .vertex")).to_have_text(["ann", "bob", "acme"])
    expect(page.locator("#answer .edge-label")).to_have_text(["knows", "worksAt"])
    page.get_by_role("button", name="Let go").click()
    page.locator("#graph").focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#answer .steps")).to_be_visible()
    assert page.evaluate("window.harmed") is None

    # The window moves on, and answers leave with it.
    server.post(("x", "y", "knows", 119))
    expect_answers(page, 1)
    expect(page.locator("#changes-rows tr.minus")).to_have_count(4)
    assert windows.hosts == {server.url.removeprefix("http://")}


@pytest.mark.long
def test_patterns_and_sparql_are_told_apart(windows: Windows, server: Served):
    page = open_page(windows, server)
    write(page, "?x knows ?y . ?y worksAt+ acme", window="50", slide="5")
    expect(page.locator("#language")).to_have_text("pattern")
    assert {"?x", "?y", "acme", "knows", "worksAt+"} <= {*page.locator("#drawing svg text").all_text_contents()}
    page.locator("#expression").fill("SELECT ?x (COUNT(?y) AS ?n)\nWHERE { ?x <knows> ?y }\nGROUP BI ?x")
    expect(page.locator("#language")).to_have_text("pattern")  # as it was understood last
    expect(page.get_by_test_id("underlined")).to_have_text("BI")
    page.locator("#expression").fill("SELECT ?x (COUNT(?y) AS ?n)\nWHERE { ?x <knows> ?y }\nGROUP BY ?x")
    expect(page.locator("#language")).to_have_text("SPARQL")
    expect(page.locator("#columns")).to_have_text("Answers have x, n")
    page.locator("#query-name").fill("friends")
    registered(page, "friends")
    server.post(("ann", "bob", "knows", 1), ("ann", "cho", "knows", 2))
    expect_answers(page, 1)
    expect(page.locator("#changes-rows tr").first).to_contain_text("2")

    write(page, "?x knows ?y . ?y knows ?z", window="50", slide="5")
    page.locator("#query-name").fill("chain")
    registered(page, "chain")
    server.post(("bob", "dan", "knows", 3))
    expect_answers(page, 1)
    expect(page.locator("#connection")).to_have_text("live")
    page.locator("#graph").focus()
    while not page.locator("#answer .values dd").count():  # nothing can be chosen before it is drawn
        page.keyboard.press("ArrowUp")
        page.wait_for_timeout(100)
    expect(page.locator("#answer .values dd")).to_have_text(["ann", "bob", "dan"])
    expect(page.locator("#answer .atom")).to_have_count(2)


def test_queries_are_listed_explained_and_dropped(windows: Windows, server: Served):
    server.register("a/b", name=HARMFUL, window=10)
    server.register("a", name="other/one", window=10)
    page = open_page(windows, server)
    expect(page.locator(".query-name")).to_have_text([HARMFUL, "other/one"])
    page.get_by_role("button", name="Explain").first.click()
    expect(page.locator("#reader-text")).to_contain_text("Concatenation")
    expect(page.locator("#reader-drawing svg")).to_be_visible()
    page.keyboard.press("Escape")
    write(page, "a", window="10")
    page.locator("#query-name").fill("other/one")
    page.get_by_role("button", name="Register").click()
    expect(page.locator("#query-error")).to_contain_text("already")
    page.keyboard.press("Escape")
    page.locator(".query-choose").nth(1).click()
    expect(page.locator("#graph-title")).to_have_text("other/one")
    server.post(("x", "y", "a", 1))
    expect_answers(page, 1)
    page.get_by_role("button", name="Drop other/one").click()
    page.get_by_role("dialog").get_by_role("button", name="Drop", exact=True).click()
    expect(page.locator(".query-name")).to_have_text([HARMFUL])
    expect(page.locator("#graph-title")).to_have_text(HARMFUL)
    assert server.client.get("/queries").json()["queries"][0]["name"] == HARMFUL
    assert page.evaluate("window.harmed") is None
    # What another client registers and drops is seen too.
    server.register("b", name="of another", window=10)
    expect(page.locator(".query-name")).to_have_text([HARMFUL, "of another"])


@pytest.mark.long
def test_the_token_of_the_address_opens_a_server_that_asks_for_it(windows: Windows):
    admission = Admission(tokens=parse_tokens(["open sesame"]))
    with Served(admission=admission, headers={"authorization": "Bearer open sesame"}) as server:
        server.register("a", name="q", window=10)
        page = windows.open(f"{server.url}/#token=open%20sesame")
        expect(page.locator("#connection")).to_have_text("live")
        assert "sesame" not in page.url
        server.post(("x", "y", "a", 1))
        expect_answers(page, 1)
        shut = windows.open(f"{server.url}/")
        expect(shut.get_by_role("alert")).to_contain_text("asks for a token")


@pytest.mark.long
def test_a_file_is_played_back(windows: Windows, tmp_path: Path):
    stream = tmp_path / "stream.tsv"
    rows = [f"u{number}\tu{number + 1}\ta\t{1_700_000_000 + number}\n" for number in range(5000)]
    stream.write_text("source\ttarget\tlabel\ttimestamp\n" + "".join(rows))
    options = ["a", "--window", "1h", "--slide", "1m", "--time-unit", "s", "--semantics", "explicit"]
    with Command(*options, "--input", stream, "--playback-speed", "5", log=tmp_path / "log") as server:
        server.client.post("/queries", json={"expression": "b", "window": 86_400, "slide": 90})
        page = open_page(windows, server)
        expect(page.locator("#stream-time")).to_contain_text("2023-11-14 22:1")
        expect(page.locator(".query-kind")).to_have_text(["path · 1h, slide 1m", "path · 1d, slide 90s"])
        expect(page.locator("#speed")).to_have_value("5")
        expect(page.locator("#speed option:checked")).to_have_text("5 s/s")
        page.get_by_role("button", name="Pause", exact=True).first.click()
        expect(page.get_by_role("button", name="Play")).to_be_visible()
        assert server.client.get("/playback").json()["state"] == "paused"
        page.locator("#speed").select_option("full")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("#stream-time")).to_have_text("2023-11-14 23:36:39")
        expect(page.locator("#play")).to_be_disabled()
        expect_answers(page, 3600 + 39)  # of the last hour and of the minute that has begun
        assert server.end() == 0


@pytest.mark.long
def test_without_a_file_there_is_nothing_to_play(windows: Windows, server: Served):
    page = open_page(windows, server)
    expect(page.locator("#connection")).to_have_text("live")
    expect(page.locator("#playback")).to_be_hidden()


PICTURES = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "phone": {"color_scheme": "light", "width": 360, "height": 780},
}


def test_the_demo_shows_itself_on_the_page(windows: Windows):
    command = [sys.executable, "-m", "rpq.cli", "demo", "--page", "--edges", "20000"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[2]
            wait_for(address)
            pages = {name: windows.open(address, **options) for name, options in PICTURES.items()}
            for name, page in pages.items():
                # Queries say in a sentence what they ask, and vertices have names of people.
                expect(page.locator(".query-name")).to_have_text([re.compile(r"^Who.*\?$")] * 3)
                cell = page.locator("#changes-rows tr").first.locator("td:nth-child(3)")
                expect(cell).to_have_text(re.compile(r"^\w+ [A-Z]\.$"))
                expect(page.get_by_role("button", name="Pause", exact=True).first).to_be_visible()
                until(page, lambda: page.evaluate("Number(document.getElementById('canvas-box').dataset.answers) > 50"))
                if folder := os.environ.get("RPQ_SCREENSHOTS"):
                    take_picture(page, Path(folder) / f"page-{name}.png")
        finally:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=PATIENCE / 1000)
    assert process.returncode == 0


def wait_for(address: str) -> None:
    """Until the server answers: kernels may be compiled first."""
    import httpx

    end = time.monotonic() + 900
    while True:
        try:
            httpx.get(f"{address}readyz", timeout=60)
            return
        except httpx.TransportError:
            assert time.monotonic() < end, "the demo does not serve"
            time.sleep(0.2)


def take_picture(page: Page, path: Path) -> None:
    """A picture with an answer chosen whose witness has several edges, once the graph has come to rest."""
    page.locator("#speed").select_option("3600")  # slow enough not to come to the end
    until(page, lambda: page.evaluate("document.querySelectorAll('.curve-line')[1].getAttribute('d').length > 250"))
    page.locator("#speed").select_option("600")  # slow enough to see something come and go
    page.wait_for_timeout(6000)
    page.get_by_role("button", name="Pause", exact=True).last.click()
    begun = page.locator("#changes-rows tr.plus")
    for number in range(begun.count()):
        begun.nth(number).click()
        page.wait_for_timeout(600)
        if page.locator("#answer .step").count() in (3, 4) and not page.locator("#answer .left").count():
            break
    page.get_by_role("button", name="Go on").click()
    page.evaluate("document.activeElement.blur(); document.getElementById('changes-scroll').scrollTop = 0")
    page.wait_for_timeout(8000)
    page.screenshot(path=path)
    page.locator("#speed").select_option("3600")
    assert path.stat().st_size < 300_000


@pytest.mark.long
def test_a_query_is_followed_whose_list_was_asked_for_again(windows: Windows, server: Served):
    """The page reads the list after it has registered, and again as it hears of another query, before that is answered."""
    page = open_page(windows, server)
    write(page, "knows+", window="50", slide="5")
    page.locator("#query-name").fill("friends")
    statistics: list[Any] = []
    readings: list[Any] = []

    def delay_statistics(route: Any) -> None:
        if readings:
            route.continue_()
        else:
            statistics.append(route)

    def delay_reading(route: Any) -> None:
        if route.request.method != "GET":
            route.continue_()
            return
        readings.append(route)
        for waiting in statistics:
            waiting.continue_()  # they name the query, so the list is asked for again
        statistics.clear()
        if len(readings) == 2:
            readings[0].continue_()  # the answer that is out of date comes first

    page.route("**/statistics", delay_statistics)
    page.route("**/queries", delay_reading)
    page.keyboard.press("Control+Enter")
    expect(page.locator("#said")).to_have_text("Registered friends")
    expect(page.locator("#graph-title")).to_have_text("Answers")
    page.unroute("**/queries", delay_reading)
    for waiting in readings[1:]:
        waiting.continue_()
    expect(page.locator("#graph-title")).to_have_text("friends")
    expect(page.locator("#connection")).to_have_text("live")
