"""Outcomes in the inspector of calls that were rejected or whose end was not received."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from apcore_mcp.redaction import REDACTED
from scripted.places import ROOT

DEMO = ROOT / "examples" / "apcore_demo" / "extensions"


class Server:
    """The demo in a subprocess."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/inspector"
        options = ("--transport", "streamable-http", "--port", str(port), "--explorer", "--log-level", "ERROR")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "apcore_mcp", "--extensions-dir", str(DEMO), *options],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(120)


@pytest.fixture
def server(port: int, listening: Callable[[int], bool]) -> Iterator[Server]:
    made = Server(port)
    assert listening(port)
    yield made
    made.kill()


def open_tool(page: Page, url: str, tool: str) -> None:
    page.goto(f"{url}#{tool}")
    expect(page.locator("#tool h2")).to_have_text(tool)
    expect(page.locator("#live")).to_have_text("live")


def field(page: Page, path: str) -> Any:
    return page.locator(f'.field[data-path="{path}"] > .widget').locator("input, textarea, select").first


def run(page: Page) -> None:
    page.locator(".run").click()


def badge(page: Page) -> Any:
    return page.locator(".result [role=status] .badge")


def last_call(page: Page) -> Any:
    """Return the newest call in the history."""
    stored = page.evaluate("Object.values(sessionStorage)")
    return json.loads(stored[0])[0]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_killed_server_leaves_an_unknown_outcome(page: Page, server: Server, scheme: Any) -> None:
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    open_tool(page, server.url, "report.build")
    field(page, "title").fill("Harbour")
    field(page, "sections").fill("50")
    field(page, "seconds_each").fill("0.2")
    run(page)
    expect(page.locator(".chunks li").nth(2)).to_be_visible()
    server.kill()
    expect(badge(page)).to_have_text("outcome unknown")
    expect(page.locator(".result")).to_contain_text("may have run, wholly or in part")
    expect(page.locator(".result .trace")).to_be_visible()
    assert page.locator(".chunks li").count() >= 3
    expect(page.locator("#calls li").first).to_contain_text("outcome unknown")
    row = last_call(page)
    assert row["shown"] == {"title": "Harbour", "sections": 50, "seconds_each": 0.2}
    assert len(row["output"]["received"]) >= 3
    assert "not made" not in page.content().split("<script")[0]
    if screenshots := os.environ.get("SCREENSHOTS"):
        page.screenshot(path=Path(screenshots, f"unknown-{scheme}.png"))


def test_failed_request_is_unknown_and_redacted(page: Page, server: Server) -> None:
    """After a failed fetch, the client does not know whether the request was sent."""
    open_tool(page, server.url, "payments.charge")
    field(page, "amount").fill("3")
    field(page, "card").fill("4111111111111111")
    server.kill()
    run(page)
    expect(badge(page)).to_have_text("outcome unknown")
    row = last_call(page)
    assert row["shown"]["amount"] == 3
    assert row["shown"]["card"] == REDACTED
    assert "4111111111111111" not in page.evaluate("JSON.stringify(sessionStorage) + JSON.stringify(localStorage)")


# Status and body of the response, and the badge: "not run" only if this server rejected the call.
RESPONSES = [
    (400, '{"error": "a call is an object"}', "not run"),
    (404, '{"error": "Module not found: x"}', "not run"),
    (503, '{"error": "the server is shutting down"}', "not run"),
    (500, '{"error": "broken"}', "outcome unknown"),
    (502, "<html>Bad Gateway</html>", "outcome unknown"),
    (503, "<html>Service Unavailable</html>", "outcome unknown"),
    (504, "<html>Gateway Timeout</html>", "outcome unknown"),
    (200, '{"type": "began", "call": "c", "shown": {"text": "x"}, "trace_id": "t"}', "outcome unknown"),
    (200, "", "outcome unknown"),
    (200, "{no json", "outcome unknown"),
]


@pytest.mark.parametrize(("status", "body", "shown"), RESPONSES)
def test_not_run_only_after_a_rejection(page: Page, server: Server, status: int, body: str, shown: str) -> None:
    open_tool(page, server.url, "text.count")

    def respond(route: Route) -> None:
        route.fulfill(status=status, body=body)

    page.route("**/api/call", respond)
    field(page, "text").fill("x")
    run(page)
    expect(badge(page)).to_have_text(shown)
    assert last_call(page)["shown"]["text"] == "x"


def test_unconfirmed_cancellation_is_unknown(page: Page, server: Server) -> None:
    open_tool(page, server.url, "report.build")
    field(page, "sections").fill("50")
    field(page, "seconds_each").fill("0.2")
    page.route("**/api/call/*", lambda route: route.abort())
    run(page)
    expect(page.locator(".chunks li").nth(0)).to_be_visible()
    page.keyboard.press("Escape")
    expect(badge(page)).to_have_text("outcome unknown")
    expect(page.locator(".result")).to_contain_text("did not confirm that the call was cancelled")


RATIO = """(node) => {
  const parse = (text) => {
    const c = document.createElement("canvas").getContext("2d");
    c.fillStyle = text;
    c.fillRect(0, 0, 1, 1);
    return [...c.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const style = getComputedStyle(node);
  const [a, b] = [light(parse(style.color)), light(parse(style.backgroundColor))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_contrast_of_the_main_button(page: Page, server: Server, scheme: Any) -> None:
    """WCAG 1.4.3: contrast 4.5 : 1, also on hover."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    open_tool(page, server.url, "text.count")
    button = page.locator(".run")
    resting = button.evaluate("(node) => getComputedStyle(node).backgroundColor")
    button.hover()
    assert button.evaluate("(node) => node.matches(':hover')")
    assert button.evaluate("(node) => getComputedStyle(node).backgroundColor") != resting
    assert button.evaluate(RATIO) >= 4.5
    for other in page.locator(".card button:visible").all():
        other.hover()
        ratio = other.evaluate(
            RATIO.replace("parse(style.backgroundColor)", "parse(ground(node))").replace(
                "const style",
                "const ground = (node) => { for (; node; node = node.parentElement) {"
                " const c = getComputedStyle(node).backgroundColor; if (parse(c)[3] === 255) return c; }"
                " return 'white'; };"
                " const style",
            )
        )
        assert ratio >= 4.5, other.inner_text()
    if screenshots := os.environ.get("SCREENSHOTS"):
        button.hover()
        page.screenshot(path=Path(screenshots, f"hover-{scheme}.png"))


def test_empty_string_is_pointed_out(page: Page, server: Server) -> None:
    """An empty field is sent, which is easily overlooked."""
    open_tool(page, server.url, "text.count")
    assert field(page, "text").get_attribute("placeholder") == "empty string"
