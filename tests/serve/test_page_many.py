"""Ten thousand live answers, hundreds of which change at a time, do not freeze the page; a thousand drawn ones move."""

from __future__ import annotations

import random
import threading

import pytest

from tests.page_browser import Windows, expect

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

COUNT_DRAWINGS = """async (frames) => {
    const { clearRect } = CanvasRenderingContext2D.prototype;
    let drawn = 0;
    CanvasRenderingContext2D.prototype.clearRect = function (...box) {
        drawn += 1;
        return clearRect.apply(this, box);
    };
    while (frames-- > 0) await new Promise(requestAnimationFrame);
    CanvasRenderingContext2D.prototype.clearRect = clearRect;
    return drawn;
}"""


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
            # Time of the page's own thread, not of the clock: other tests may run beside this one.
            measure = page.context.new_cdp_session(page)
            measure.send("Performance.enable", {"timeDomain": "threadTicks"})

            def busy() -> float:
                metrics = measure.send("Performance.getMetrics")["metrics"]
                return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

            before = busy()
            page.evaluate(SOME_FRAMES, FRAMES)
            assert (busy() - before) / FRAMES < 0.1, "a frame takes the page's thread a tenth of a second"
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
        # They come, and look for their places for seconds. Forty frames a second are wanted, of whose time the thread of the
        # page, with what it draws in software here, takes a part.
        page.evaluate(SOME_FRAMES, 10)
        before = busy()
        drawn = page.evaluate(COUNT_DRAWINGS, FRAMES)
        assert drawn >= FRAMES / 2, "nothing moves"
        assert (busy() - before) / drawn < 1 / 60
