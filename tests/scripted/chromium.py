"""Fixtures for pages in a real browser: `from scripted.chromium import browser, page` in a `conftest.py`.

Not part of `make test`: they need Debian's `chromium` (or `CHROMIUM=/path/to/it`) and the package `playwright` without
its browsers. `make browser` installs both. With `SCREENSHOTS=folder` some tests save screenshots.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from scripted.places import ROOT

# axe-core, which checks accessibility; `tools/fetch_axe.py` downloads it.
AXE = ROOT / "build" / "axe-core" / "axe.min.js"

# For a machine with a high load.
TIMEOUT = 60_000
expect.set_options(timeout=TIMEOUT)


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, without a window."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium")
    assert found, "chromium is not installed: apt-get install chromium, or set CHROMIUM to its path"
    # The sandbox does not work in a container; the pages are trusted.
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """A page. The test fails after a console error, a dialog or a request to another host."""
    context = browser.new_context(viewport={"width": 1360, "height": 860}, color_scheme="light")
    made = context.new_page()
    made.set_default_timeout(TIMEOUT)
    problems: list[str] = []
    made.on(
        "console",
        lambda message: problems.append(message.text) if message.type in ("error", "warning") else None,
    )
    made.on("pageerror", lambda error: problems.append(str(error)))
    made.on("dialog", lambda dialog: problems.append(f"dialog {dialog.message}"))
    made.on(
        "request",
        lambda request: None if request.url.startswith("http://127.0.0.1:") else problems.append(request.url),
    )
    made.problems = problems  # type: ignore[attr-defined]  # for tests that expect problems
    yield made
    context.close()
    # Icons and images are data URLs, recordings are blobs, and Chromium logs lost connections.
    expected = ("data:", "blob:", "Failed to load resource")
    assert [text for text in problems if not text.startswith(expected)] == []


def violations(page: Page) -> list[str]:
    """Return the serious and critical findings of axe-core on the page as it is."""
    assert AXE.exists(), "axe-core is not installed: run `make browser`, or tools/fetch_axe.py"
    page.evaluate(AXE.read_text("utf-8"))
    found: list[dict[str, Any]] = page.evaluate("axe.run({ resultTypes: ['violations'] }).then((r) => r.violations)")
    return [
        f"{row['id']}: {node['html'][:200]}"
        for row in found
        if row["impact"] in ("serious", "critical")
        for node in row["nodes"]
    ]


def screenshot(page: Page, name: str) -> None:
    """Save a screenshot if `SCREENSHOTS` names a folder."""
    folder = os.environ.get("SCREENSHOTS")
    if folder:
        page.screenshot(path=Path(folder, f"{name}.png"))


__all__ = ["TIMEOUT", "browser", "page", "screenshot", "violations"]
