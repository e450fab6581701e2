"""Ten thousand live answers, hundreds of which change at a time, do not freeze the page; a thousand drawn ones move."""

from __future__ import annotations

import random
import threading

import pytest

from tests.services.page_browser import Windows, expect

pytest.importorskip("starlette", reason="the extra [serve] is not installed")

from tests.serve.scripted_server import ScriptedServer

ANSWERS, CHANGED, FRAMES = 10_000, 200, 60

FRAMES_TO_ANSWER = """() => new Promise((done) => {
    // From the key that is pressed next to the frame in which the page has answered it.
    const find = document.getElementById("find");
    let frames = null;
    addEventListener("keydown", () => { frames = 0; }, { capture: true, once: true });
    const each = () => {
        if (frames !== null) frames += 1;
        const told = document.getElementById("graph-count").textContent;
        if (frames !== null && find.value !== "" && told.includes("found")) done(frames);
        else requestAnimationFrame(each);
    };
    requestAnimationFrame(each);
})"""

SOME_FRAMES = """(frames) => new Promise((done) => {
    const each = () => (frames-- > 0 ? requestAnimationFrame(each) : done());
    each();
})"""

COUNT_NODES = """async (frames) => {
    // How many nodes of the document come, go or change while so many frames are drawn.
    let nodes = 0;
    const count = (records) => {
        for (const { addedNodes, removedNodes } of records) nodes += 1 + addedNodes.length + removedNodes.length;
    };
    const observer = new MutationObserver(count);
    observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
    while (frames-- > 0) await new Promise(requestAnimationFrame);
    count(observer.takeRecords());
    observer.disconnect();
    return nodes;
}"""

COUNT_DRAWINGS = """async (frames) => {
    // How many times the picture is drawn in so many frames, and how many calls of the canvas this takes in all.
    const canvas = CanvasRenderingContext2D.prototype;
    const properties = Object.entries(Object.getOwnPropertyDescriptors(canvas));
    const whole = properties.filter(([, one]) => typeof one.value === "function");
    const counted = { drawings: 0, calls: 0 };
    for (const [name, { value }] of whole) {
        canvas[name] = function (...values) {
            counted.calls += 1;
            if (name === "clearRect") counted.drawings += 1;
            return value.apply(this, values);
        };
    }
    while (frames-- > 0) await new Promise(requestAnimationFrame);
    for (const [name, one] of whole) Object.defineProperty(canvas, name, one);
    return counted;
}"""


def draws_each_answer_once(counted: dict[str, int], answers: int) -> None:
    # An edge is a line with an arrow and its label, its ends are circles with names.
    assert counted["calls"] <= 20 * answers * counted["drawings"]


def test_ten_thousand_answers_do_not_freeze_it(windows: Windows):
    draw = random.Random(7)
    stop = threading.Event()

    def pair() -> tuple[str, str]:
        return f"u{draw.randrange(3000)}", f"u{draw.randrange(3000)}"

    def some_other(number: int, taken: dict[tuple[str, str], int]) -> list[tuple[str, str]]:
        found: set[tuple[str, str]] = set()
        while len(found) < number:
            if (one := pair()) not in taken:
                found.add(one)
        return sorted(found)

    with ScriptedServer() as server:
        server.change(*[("+", *answer) for answer in some_other(ANSWERS, {})])
        page = windows.open(server.address)
        expect(page.locator("#graph-count")).to_have_text("300 of 10,000 answers drawn")

        def keep_changing() -> None:
            while not stop.wait(0.1):
                leaving = draw.sample(sorted(server.answers), CHANGED)
                coming = some_other(CHANGED, server.answers)
                server.change(*[("-", *one) for one in leaving], *[("+", *one) for one in coming])

        changing = threading.Thread(target=keep_changing)
        changing.start()
        try:
            page.evaluate(SOME_FRAMES, 10)
            # Work is counted, not timed: other tests may run beside this one.
            assert page.evaluate(COUNT_NODES, FRAMES) / FRAMES < ANSWERS / 4, "the page is made anew"
            draws_each_answer_once(page.evaluate(COUNT_DRAWINGS, FRAMES), 300)
            page.locator("#find").focus()
            answered = page.evaluate_handle(f"({{ frames: ({FRAMES_TO_ANSWER})() }})")
            page.keyboard.press("7")
            assert page.evaluate("(answered) => answered.frames", answered) <= 10
        finally:
            stop.set()
            changing.join()
        page.locator("#find").fill("")
        expect(page.locator("#graph-count")).to_have_text("300 of 10,000 answers drawn")
        page.locator("#limit").select_option("1000")
        expect(page.locator("#graph-count")).to_have_text("1,000 of 10,000 answers drawn")
        # They come, and look for their places for seconds.
        page.evaluate(SOME_FRAMES, 10)
        counted = page.evaluate(COUNT_DRAWINGS, FRAMES)
        assert counted["drawings"] >= FRAMES / 2, "nothing moves"
        draws_each_answer_once(counted, 1000)
