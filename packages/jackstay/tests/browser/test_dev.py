"""`jackstay dev` in a browser: a saved file restarts the server, and the page and its inputs are kept."""

from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from scripted.chromium import screenshot, violations

SERVER = """
from jackstay import Server
server = Server("demo", version="{version}")

@server.tool
def greet(name: str) -> str:
    "{version}"
    return "hello " + name
"""


RAISING = """
from jackstay import Server
server = Server("demo")

@server.tool
def divide(by: int) -> float:
    return 1 / by
"""


def save(page: Page, path: Path, text: str, selector: str, shown: str) -> None:
    """Save the file until the page shows the change: the first time, it may not be watched yet."""
    for _ in range(60):
        path.write_text(text)
        try:
            expect(page.locator(selector)).to_contain_text(shown, timeout=3000)
        except AssertionError:
            continue
        return
    raise AssertionError(shown)


def test_a_saved_file_restarts_the_server(page: Page, start_inspector: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text(SERVER.format(version="one"))
    page.goto(start_inspector("dev", "--no-browser", str(path)))
    page.locator("#tools button", has_text="greet").click()
    page.locator("#tool .field textarea").fill("Ann")
    save(page, path, SERVER.format(version="two"), "#tool .description", "two")
    expect(page.locator("#tool .field textarea")).to_have_value("Ann")
    save(page, path, "from jackstay import Nothing\n", "#ended pre", "ImportError: cannot import name 'Nothing'")
    expect(page.locator("#ended pre")).to_contain_text("Traceback (most recent call last):")
    screenshot(page, "traceback")
    save(page, path, SERVER.format(version="three"), "#tool .description", "three")
    expect(page.locator("#ended")).to_be_hidden()
    expect(page.locator("#tool .field textarea")).to_have_value("Ann")
    # A file that was saved twice restarts the server twice: the call may have to be repeated.
    for _ in range(60):
        page.keyboard.press("Control+Enter")
        expect(page.locator(".result .badge").first).to_be_visible()
        if "hello Ann" in page.locator(".result").inner_text():
            return
    raise AssertionError(page.locator(".result").inner_text())


def test_the_traceback_of_a_tool_is_shown_with_its_error(
    page: Page, start_inspector: Callable[..., str], tmp_path: Path
) -> None:
    path = tmp_path / "server.py"
    path.write_text(RAISING)
    page.goto(start_inspector("dev", "--no-browser", str(path)))
    page.locator("#tools button", has_text="divide").click()
    page.locator("#tool .field input").first.fill("0")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".result .debug pre")).to_contain_text("ZeroDivisionError: division by zero")
    assert violations(page) == []
    # A call without an error has none, and the lines of the last one are gone.
    page.locator("#tool .field input").first.fill("2")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".result")).to_contain_text("0.5")
    expect(page.locator(".result .debug")).to_have_count(0)
