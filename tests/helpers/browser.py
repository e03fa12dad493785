"""Headless Chromium for the tests of pages, as Debian and others ship it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Any]:
    """Give a browser; skip the test with a message where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("no Chromium: apt-get install -y chromium")
    with api.sync_playwright() as play:
        browser = play.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


class Page:
    """A page from disk, without a network, that keeps what goes wrong on it."""

    def __init__(self, browser: Any, file: Path, ready: str, **options: Any) -> None:
        """`ready`: a selector that is there when the page has been built."""
        options = {"viewport": {"width": 1200, "height": 900}, **options}
        self.context = browser.new_context(offline=True, **options)
        self.page = self.context.new_page()
        self.problems: list[str] = []
        self.asked: list[str] = []
        self.page.on("console", self._heard)
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.goto(file.resolve().as_uri())
        self.page.wait_for_selector(ready, state="attached", timeout=60_000)

    def _heard(self, message: Any) -> None:
        # the tests themselves read pixels back
        if message.type in ("error", "warning") and "willReadFrequently" not in message.text:
            self.problems.append(message.text)

    def settle(self) -> None:
        """Wait until what was asked for is painted."""
        self.page.evaluate(
            "() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
        )

    def data(self, name: str, selector: str = "canvas.gantt") -> Any:
        """Return a data attribute of an element."""
        return self.page.locator(selector).first.evaluate("(e, n) => e.dataset[n]", name)

    def close(self) -> None:
        """Close the page."""
        self.context.close()
