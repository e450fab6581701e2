"""A headless Chromium for the tests of the page: the system's own, driven by Playwright.

`RPQ_CHROMIUM` names another program; `RPQ_NEEDS_CHROMIUM` lets tests fail where there is none, in place of being skipped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest

__all__ = ["PATIENCE", "Browser", "Error", "Page", "Windows", "chromium_running", "expect", "expect_answers", "until"]

try:
    from playwright.sync_api import Browser, Error, Page, expect, sync_playwright
except ImportError as missing:
    if os.environ.get("RPQ_NEEDS_CHROMIUM"):
        raise
    pytest.skip(f"no browser: {missing}", allow_module_level=True)

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PATIENCE = 180_000
"""Milliseconds: the machine may be busy with other tests, and kernels may be compiled for a query that is new."""

MISSING = "Failed to load resource"
"""How the console tells of a response that is no success: the page asks for what may not be there, such as a playback."""

expect.set_options(timeout=PATIENCE)


def expect_answers(page: Page, number: int) -> None:
    """Wait until the page shows a number of answers."""
    expect(page.locator("#canvas-box")).to_have_attribute("data-answers", str(number))


def until(page: Page, holds: Callable[[], object]) -> None:
    """Wait until something holds; what Playwright has for that evaluates text in the page, which the page forbids."""
    end = time.monotonic() + PATIENCE / 1000
    while not holds():
        assert time.monotonic() < end
        page.wait_for_timeout(50)


class NoBrowser(Exception):
    """There can be no browser here; says why."""


def program() -> str:
    """Return the path of Chromium."""
    given = os.environ.get("RPQ_CHROMIUM")
    found = given or next(filter(None, map(shutil.which, PROGRAMS)), None)
    if not found:
        raise NoBrowser(f"none of {', '.join(PROGRAMS)} is on the PATH (apt-get install chromium)")
    return found


@contextlib.contextmanager
def chromium_running() -> Iterator[Browser]:
    """A browser, the tests that want it being skipped where there is none, but failing where `RPQ_NEEDS_CHROMIUM` is set."""
    try:
        path = program()
    except NoBrowser as missing:
        if os.environ.get("RPQ_NEEDS_CHROMIUM"):
            raise
        pytest.skip(f"no browser: {missing}")
    with sync_playwright() as playwright:
        # Root, as which continuous integration often runs, may have no sandbox; /dev/shm may be small.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Windows:
    """Opens pages in windows of their own, and sees what none of them may do: fail, or ask another host."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._contexts: list[Any] = []
        self.problems: list[str] = []
        self.hosts: set[str] = set()

    def open(self, address: str, *, width: int = 1360, height: int = 840, **options: Any) -> Page:
        """A page that shows an address; `options` are those of a context of Playwright."""
        context = self._browser.new_context(viewport={"width": width, "height": height}, **options)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("console", self._heard)
        page.on("request", lambda request: self.hosts.add(urlsplit(request.url).netloc))
        page.goto(address)
        return page

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning") and MISSING not in message.text and "net::ERR" not in message.text:
            self.problems.append(message.text)

    def close(self) -> None:
        """Close all pages; nothing may have gone wrong in them."""
        for context in self._contexts:
            context.close()
        assert self.problems == []
