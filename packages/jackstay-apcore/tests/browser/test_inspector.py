"""The inspector in a browser: list, forms, calls, approval, history, live updates, keys, keyboard, themes."""

import json
import os
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Registry
from playwright.sync_api import Page, expect

from apcore_mcp.redaction import REDACTED
from jackstay.server.http import keys
from scripted.chromium import violations

# `conftest.Served`: fixtures are found by name, and test files cannot import each other.
Serve = Any

KEY = "alice-0123456789abcdef"


def open_tool(page: Page, url: str, tool: str) -> None:
    """Open a tool in the inspector."""
    page.goto(f"{url}#{tool}")
    expect(page.locator("#tool h2")).to_have_text(tool)
    expect(page.locator("#live")).to_have_text("live")


def field(page: Page, path: str) -> Any:
    """Return the control of the field at a path."""
    return page.locator(f'.field[data-path="{path}"] > .widget').locator("input, textarea, select").first


def fill(page: Page, values: dict[str, str]) -> None:
    for path, value in values.items():
        field(page, path).fill(value)


def send(page: Page, path: str) -> None:
    """Check "send" of an optional field."""
    page.locator(f'.field[data-path="{path}"] > .head .send input').check()


def run(page: Page) -> None:
    page.keyboard.press("Control+Enter")


def expect_outcome(page: Page, outcome: str) -> None:
    expect(page.locator(".result [role=status] .badge")).to_have_text(outcome)


def result(page: Page) -> Any:
    """Return the value of the JSON view."""
    expect_outcome(page, "done")
    page.locator(".result").get_by_role("tab", name="JSON").click()
    return json.loads(page.locator(".result [role=tabpanel]:visible pre").inner_text())


# --- list and search --------------------------------------------------------------------------------------------------


def test_keyboard_navigation_of_the_list(page: Page, served: Serve) -> None:
    page.goto(served())
    expect(page.locator("#count")).to_have_text("9 tools")
    page.keyboard.press("/")
    page.keyboard.type("note delete")
    expect(page.locator("#count")).to_have_text("1 of 9 tools")
    page.keyboard.press("Control+A")
    page.keyboard.type("#")
    expect(page.locator("#count")).to_have_text("0 of 9 tools")
    page.keyboard.press("Control+A")
    page.keyboard.type("notes")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#tools button").nth(1)).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#tool h2")).to_have_text("notes.delete")
    expect(page.locator("#tools [aria-current=true] .name")).to_have_text("notes.delete")
    expect(page).to_have_url(f"{page.url.split('#')[0]}#notes.delete")


def test_call_with_the_keyboard(page: Page, served: Serve) -> None:
    page.goto(served())
    expect(page.locator("#count")).to_have_text("9 tools")
    page.keyboard.press("/")
    page.keyboard.type("text.count")
    page.keyboard.press("Enter")
    expect(field(page, "text")).to_be_focused()
    page.keyboard.type("tea for two, Tea for me")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    expect(page.locator('.field[data-path="ignore_case"] > .head .send input')).to_be_checked()
    for _ in range(10):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.classList.contains('run')"):
            break
    page.keyboard.press("Enter")
    assert result(page) == {"characters": 23, "words": 6, "different_words": 4, "lines": 1}


def test_every_control_has_an_accessible_name(page: Page, served: Serve) -> None:
    open_tool(page, served(), "test.kinds")
    for path in ("maybe", "either", "two", "pair", "map", "tree"):
        send(page, path)
    page.get_by_role("button", name="Add an entry").click()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("main input, main select, main textarea, main button, nav input")]
            .filter((node) => node.offsetParent && !node.labels?.length && !node.getAttribute("aria-label")
            && !node.getAttribute("aria-labelledby") && !node.textContent.trim()).map((node) => node.outerHTML)"""
    )
    assert unnamed == []


def test_search_in_a_thousand_tools(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    for number in range(1000):
        demo.register(f"many.tool{number}", kinds.Plain(lambda inputs, context: {}))
    page.goto(served())
    expect(page.locator("#count")).to_have_text("1009 tools")
    page.locator("#search").fill("tool99")
    expect(page.locator("#count")).to_have_text("11 of 1009 tools")


# --- forms ------------------------------------------------------------------------------------------------------------


def test_every_kind_of_field(page: Page, served: Serve) -> None:
    open_tool(page, served(), "test.kinds")
    fill(page, {"word": 'two\nlines "quoted"', "whole": "7"})
    field(page, "yes").check()
    field(page, "pick").select_option("null")
    fill(page, {"day": "2026-07-28", "secret": "hunter2hunter2", "nested.inner": "in"})
    for number in ("1", "2", "3"):
        page.locator('.field[data-path="list"]').get_by_role("button", name="Add an item").click()
        page.keyboard.type(number)
    page.get_by_role("button", name="Remove item 2").click()
    send(page, "maybe")
    page.locator('.field[data-path="maybe"] .variant textarea').fill("text")
    send(page, "either")
    field(page, "either").select_option("Named")
    field(page, "either.name").fill("root")
    send(page, "two")
    field(page, "two").select_option("null")
    send(page, "fixed")
    send(page, "pair")
    fill(page, {"pair.0": "left", "pair.1": "-4"})
    send(page, "map")
    page.get_by_role("button", name="Add an entry").click()
    page.keyboard.type("__proto__")
    page.locator('.field[data-path="map.*"] input').fill("1.5e3")
    send(page, "tree")
    field(page, "tree.name").fill("t")
    send(page, "tree.children")
    page.locator('.field[data-path="tree.children"]').get_by_role("button", name="Add an item").click()
    page.keyboard.type("leaf")
    fill(page, {"any": '{"a": [1, null]}', "__proto__": "polluted?"})
    run(page)
    assert result(page) == {
        "got": {
            "word": 'two\nlines "quoted"',
            "whole": 7,
            "yes": True,
            "pick": None,
            "day": "2026-07-28",
            "secret": "hunter2hunter2",
            "nested": {"inner": "in", "more": "x"},
            "list": [1, 3],
            "maybe": "text",
            "either": {"name": "root"},
            "two": None,
            "fixed": "always",
            "pair": ["left", -4],
            "map": {"__proto__": 1500},
            "tree": {"name": "t", "children": [{"name": "leaf"}]},
            "any": {"a": [1, None]},
            "__proto__": "polluted?",
            "real": 2.5,
        }
    }
    assert page.evaluate("({}).polluted === undefined && Object.prototype.toString !== 1500") is True


def test_untouched_optional_fields_are_not_sent(page: Page, served: Serve) -> None:
    open_tool(page, served(fill_defaults=False), "test.kinds")
    fill(page, {"word": "w", "whole": "1"})
    field(page, "pick").select_option("a")
    field(page, "nested.inner").fill("in")
    run(page)
    assert result(page)["got"] == {
        "word": "w", "whole": 1, "yes": False, "pick": "a", "nested": {"inner": "in"}, "list": [],
    }  # fmt: skip


def test_form_and_json_views(page: Page, served: Serve) -> None:
    open_tool(page, served(), "orders.quote")
    fill(page, {"items.0.article": "Rope", "items.0.price": "2"})
    page.locator(".form").get_by_role("tab", name="JSON").click()
    raw = page.get_by_label("Arguments as JSON")
    assert json.loads(raw.input_value()) == {"items": [{"article": "Rope", "price": 2}]}
    raw.fill("{")
    page.locator(".form").get_by_role("tab", name="Form").click()
    expect(page.locator(".form > .error")).to_contain_text("Not JSON")
    raw.fill(
        '{"items": [{"article": "Rope", "price": 2, "quantity": 3}, {"article": "Hook", "price": 1}],'
        ' "shipping": "pickup"}'
    )
    page.locator(".form").get_by_role("tab", name="Form").click()
    expect(field(page, "items.0.quantity")).to_have_value("3")
    expect(field(page, "items.1.article")).to_have_value("Hook")
    run(page)
    assert result(page)["total"] == 7


def test_large_integers_keep_their_digits(page: Page, served: Serve) -> None:
    """JavaScript numbers are exact only up to 2^53, and ids may be larger."""
    open_tool(page, served(), "test.kinds")
    fill(page, {"word": "w", "whole": "1152921504606846977"})
    field(page, "pick").select_option("a")
    fill(page, {"nested.inner": "in", "any": '{"id": 9007199254740993}'})
    page.locator(".form").get_by_role("tab", name="JSON").click()
    page.locator(".form").get_by_role("tab", name="Form").click()
    expect(field(page, "whole")).to_have_value("1152921504606846977")
    run(page)
    got = result(page)["got"]
    assert (got["whole"], got["any"]["id"]) == (1152921504606846977, 9007199254740993)
    page.locator(".result").get_by_role("tab", name="Structured").click()
    expect(page.locator(".result .tree")).to_contain_text("9007199254740993")


def test_recursive_types(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    """A schema may allow any JSON value: lists of lists, maps of maps."""
    anything = [
        {"type": "string"},
        {"type": "array", "items": {"$ref": "#/$defs/Any"}},
        {"type": "object", "additionalProperties": {"$ref": "#/$defs/Any"}},
    ]
    schema = {
        "type": "object",
        "required": ["value", "rows"],
        "properties": {
            "value": {"$ref": "#/$defs/Any"},
            "rows": {"$ref": "#/$defs/Rows"},
            "same": {"$ref": "#/$defs/Same"},
        },
        "$defs": {
            "Any": {"anyOf": anything},
            "Rows": {"type": "array", "items": {"$ref": "#/$defs/Rows"}},
            "Same": {"allOf": [{"$ref": "#/$defs/Same"}, {"type": "string"}]},
        },
    }
    demo.register("test.recursive", kinds.Plain(lambda inputs, context: {"got": inputs}, input_schema=schema))
    open_tool(page, served(), "test.recursive")
    expect(page.locator('.field[data-path="value"] > .head .kind')).to_have_text("string or list of Any or map of Any")
    page.locator(".form").get_by_role("tab", name="JSON").click()
    page.get_by_label("Arguments as JSON").fill('{"value": [{"a": ["b"]}], "rows": [[], [[]]]}')
    page.locator(".form").get_by_role("tab", name="Form").click()
    # Nested fields do not overflow the form, even on a phone.
    page.set_viewport_size({"width": 390, "height": 844})
    edge = "document.querySelector('.form').getBoundingClientRect().right"
    outside = f"[...document.querySelectorAll('.form *')].filter((node) => node.getBoundingClientRect().right > {edge})"
    assert page.evaluate(f"{outside}.length") == 0
    run(page)
    assert result(page) == {"got": {"value": [{"a": ["b"]}], "rows": [[], [[]]]}}
    page.get_by_role("tab", name="Schema", exact=True).click()
    expect(page.locator("#tool table")).to_contain_text("list of Rows")


def test_invalid_schema_is_reported(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "required": True, "properties": {}}}}
    demo.register("test.broken", kinds.Plain(lambda inputs, context: {}, input_schema=schema))
    page.goto(served())
    page.locator('#tools button[data-name="test.broken"]').click()
    expect(page.locator("#notice")).to_contain_text("test.broken cannot be shown")
    page.locator('#tools button[data-name="text.count"]').click()
    expect(page.locator("#tool h2")).to_have_text("text.count")
    expect(page.locator("#notice")).to_be_hidden()


# --- errors -----------------------------------------------------------------------------------------------------------


def test_client_side_errors_are_shown_at_the_field(page: Page, served: Serve) -> None:
    open_tool(page, served(), "test.kinds")
    field(page, "whole").fill("1.5")
    send(page, "any")
    run(page)
    errors = {path: page.locator(f'.field[data-path="{path}"] > .error') for path in ("whole", "pick", "any")}
    expect(errors["whole"]).to_have_text("not an integer")
    expect(errors["pick"]).to_have_text("choose one")
    expect(errors["any"]).to_have_text("expected a JSON value")
    expect(field(page, "whole")).to_be_focused()
    field(page, "whole").fill("1e30")
    run(page)
    expect(errors["whole"]).to_have_text("too large for a browser to send exactly")
    expect(page.locator(".result")).to_have_text("The result of a call is shown here.")


def test_server_side_errors_are_shown_at_the_field(page: Page, served: Serve) -> None:
    open_tool(page, served(), "orders.quote")
    fill(page, {"items.0.article": "Rope", "items.0.price": "-3"})
    send(page, "address")
    field(page, "address.postcode").fill("?")
    run(page)
    expect_outcome(page, "error")
    expect(page.locator('.field[data-path="items.0.price"] > .error')).to_contain_text("exclusiveMinimum 0")
    expect(page.locator('.field[data-path="address.postcode"] > .error')).to_contain_text("pattern")
    expect(field(page, "items.0.price")).to_be_focused()
    expect(field(page, "items.0.price")).to_have_attribute("aria-invalid", "true")
    expect(page.locator(".result")).to_contain_text("Input validation failed:")


def test_failure_shows_the_message_for_clients_and_no_secret(page: Page, served: Serve) -> None:
    open_tool(page, served(), "payments.charge")
    fill(page, {"amount": "3", "card": "4111111111111111"})
    assert field(page, "card").get_attribute("type") == "password"
    run(page)
    expect_outcome(page, "error")
    expect(page.locator(".result pre").last).to_have_text("Internal error occurred")
    expect(page.locator(".result .trace")).to_have_text(re.compile("^[0-9a-f]{32}$"))
    # The page is on the same machine, so it shows the traceback, without sensitive values.
    expect(page.locator(".result .debug")).to_contain_text(f"refused card {REDACTED}")
    assert "4111111111111111" not in page.locator(".result").inner_text()


# --- calls ------------------------------------------------------------------------------------------------------------


def test_progress_and_cancellation(page: Page, served: Serve) -> None:
    open_tool(page, served(), "report.build")
    fill(page, {"sections": "50", "seconds_each": "0.2"})
    run(page)
    expect(page.locator(".chunks li").nth(1)).to_contain_text("section 1")
    expect(page.locator(".run")).to_be_disabled()
    page.keyboard.press("Escape")
    expect_outcome(page, "cancelled")
    expect(page.locator(".run")).to_be_enabled()
    expect(page.locator("#calls li").first).to_contain_text("cancelled")


def test_another_tool_can_be_opened_during_a_call(page: Page, served: Serve) -> None:
    url = served()
    open_tool(page, url, "report.build")
    fill(page, {"sections": "50", "seconds_each": "0.2"})
    run(page)
    expect(page.locator(".chunks li").first).to_be_visible()
    page.goto(f"{url}#text.count")
    expect(page.locator("#tool h2")).to_have_text("text.count")
    expect(page.locator("#notice")).to_contain_text("report.build is still running")
    expect(page.locator(".run")).to_be_disabled()
    page.keyboard.press("Escape")
    expect(page.locator("#notice")).to_contain_text("report.build has ended: cancelled")
    expect(page.locator(".run")).to_be_enabled()


def test_streamed_result_views(page: Page, served: Serve) -> None:
    open_tool(page, served(), "report.build")
    fill(page, {"sections": "2", "seconds_each": "0"})
    page.get_by_role("button", name="Call", exact=True).click()
    assert result(page)["done"] == 2
    expect(page.locator(".result")).to_contain_text("in the server")
    page.locator(".result").get_by_role("tab", name="Structured").click()
    expect(page.locator(".result .tree")).to_contain_text("What happened in part 2")
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".result").get_by_role("tab", name="Text")).to_be_focused()
    expect(page.locator(".result [role=tabpanel]:visible pre")).to_contain_text('"done": 2')


@pytest.mark.parametrize(("way", "is_kept"), [("approve", False), ("deny", True), ("Escape", True)])
def test_destructive_tool_requires_approval(page: Page, served: Serve, tmp_path: Path, way: str, is_kept: bool) -> None:
    (tmp_path / "old.txt").write_text("x")
    open_tool(page, served(), "notes.delete")
    field(page, "name").fill("old")
    run(page)
    expect(page.locator("#approval")).to_be_visible()
    expect(page.locator("#deny")).to_be_focused()
    expect(page.locator("#approval-text")).to_contain_text('"name": "old"')
    if way == "Escape":
        page.keyboard.press(way)
    else:
        page.locator(f"#{way}").click()
    expect_outcome(page, "error" if is_kept else "done")
    assert (tmp_path / "old.txt").exists() is is_kept


def test_history(page: Page, served: Serve) -> None:
    open_tool(page, served(), "payments.charge")
    fill(page, {"amount": "3", "card": "4111111111111111"})
    run(page)
    expect_outcome(page, "error")
    stored = page.evaluate("JSON.stringify(sessionStorage) + JSON.stringify(localStorage)")
    assert "4111111111111111" not in stored
    assert REDACTED in stored
    page.reload()
    expect(page.locator("#calls li")).to_have_count(1)
    page.get_by_role("button", name="Details").click()
    expect(page.locator("#calls pre")).to_contain_text('"amount": 3')
    page.get_by_role("button", name="Use again").click()
    expect(field(page, "amount")).to_have_value("3")
    expect(field(page, "card")).to_have_value("")
    page.get_by_role("button", name="Clear").click()
    expect(page.locator("#history")).to_be_hidden()


# --- hostile data -----------------------------------------------------------------------------------------------------


def test_hostile_data_is_text(page: Page, served: Serve) -> None:
    open_tool(page, served(), "test.hostile")
    for tab in ("Schema", "Documentation", "Call"):
        page.get_by_role("tab", name=tab, exact=True).first.click()
    run(page)
    expect_outcome(page, "done")
    page.locator(".result").get_by_role("tab", name="Text").click()
    expect(page.locator("#tool .description")).to_contain_text("<script>document.title='pwned'</script>")
    escaped = "[U+202E]gnp.exe [U+E0041][U+E0042][U+E0141][U+00AD] end"
    expect(page.locator("#tool .description")).to_contain_text(escaped)
    assert "pwned" not in page.title()
    assert page.locator("main img, main script, main a, nav img, nav script, nav a").count() == 0


# --- live updates, keys -----------------------------------------------------------------------------------------------


def test_live_updates(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    page.goto(served())
    expect(page.locator("#live")).to_have_text("live")
    demo.register("new.tool", kinds.Plain(lambda inputs, context: {}, input_schema=kinds.Numbers))
    expect(page.locator("#count")).to_have_text("10 tools")
    page.locator("#tools button", has_text="new.tool").click()
    field(page, "a").fill("41")
    demo.unregister("new.tool")
    expect(page.locator("#notice")).to_have_text("new.tool is no longer available.")
    expect(page.locator("#count")).to_have_text("9 tools")
    demo.register("new.tool", kinds.Plain(lambda inputs, context: {}, input_schema=kinds.Numbers, description="Other"))
    expect(page.locator("#notice")).to_contain_text("has changed")
    expect(page.locator("#tool .description")).to_have_text("Other")
    expect(field(page, "a")).to_have_value("41")


def test_skipped_module_is_shown_with_its_reason(
    page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace
) -> None:
    page.goto(served())
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#skipped")).to_be_hidden()
    demo.register("test.broken", kinds.Plain(lambda inputs, context: {}, input_schema={"type": "array"}))
    expect(page.locator("#skipped summary")).to_have_text("1 module skipped")
    page.locator("#skipped summary").click()
    expect(page.locator("#skipped li")).to_contain_text("test.broken")
    expect(page.locator("#skipped li")).to_contain_text("must have type 'object'")
    demo.unregister("test.broken")
    expect(page.locator("#skipped")).to_be_hidden()


def test_hidden_tab_has_no_connection(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    """Six hidden tabs would use all connections of a browser to one server."""
    page.goto(served())
    expect(page.locator("#live")).to_have_text("live")
    set_visible = (
        "(visible) => { Object.defineProperty(document, 'hidden', {value: !visible, configurable: true});"
        " document.dispatchEvent(new Event('visibilitychange')); }"
    )
    page.evaluate(set_visible, False)
    expect(page.locator("#live")).to_have_text("paused")
    demo.register("new.tool", kinds.Plain(lambda inputs, context: {}))
    expect(page.locator("#count")).to_have_text("9 tools")
    page.evaluate(set_visible, True)
    expect(page.locator("#count")).to_have_text("10 tools")
    expect(page.locator("#live")).to_have_text("live")


def test_reconnects_to_a_restarted_server(page: Page, served: Serve) -> None:
    page.goto(served())
    expect(page.locator("#live")).to_have_text("live")
    served.stop()
    expect(page.locator("#live")).to_have_text("not connected, retrying")
    served()
    expect(page.locator("#live")).to_have_text("live")


def test_key_dialog(page: Page, served: Serve) -> None:
    page.goto(served(auth=keys({"alice": KEY})))
    expect(page.locator("#key")).to_be_visible()
    page.keyboard.type("wrong-0123456789abcdef")
    page.keyboard.press("Enter")
    expect(page.locator("#key-error")).to_contain_text("the token is unknown, expired or issued for another audience")
    page.keyboard.type(KEY)
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_have_text("9 tools")
    expect(page.locator("#live")).to_have_text("live")
    page.locator("#tools button", has_text="text.count").click()
    field(page, "text").fill("a b")
    run(page)
    assert result(page)["words"] == 2
    assert KEY not in page.evaluate("JSON.stringify(sessionStorage) + JSON.stringify(localStorage)")


def test_the_first_screen_helps(page: Page, served: Serve) -> None:
    url = served(metrics=True)
    page.goto(url)
    endpoint = url.removesuffix("/inspector") + "/mcp"
    expect(page.locator("#start")).to_contain_text(f"jackstay tools {endpoint}")
    page.locator("#sections button", has_text="Metrics").click()
    expect(page.locator("#samples")).to_contain_text("apcore_mcp_tools")
    assert violations(page) == []


def test_validate_and_traceback(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    def fail(inputs: Any, context: Any) -> Any:
        raise RuntimeError("the disk is full")

    demo.register("test.fails", kinds.Plain(fail, input_schema=kinds.Numbers))
    open_tool(page, served(), "test.fails")
    field(page, "a").fill("1")
    page.get_by_role("button", name="Validate").click()
    expect(page.get_by_text("The arguments are valid.")).to_be_visible()
    expect(page.locator(".result")).to_have_text("The result of a call is shown here.")
    run(page)
    expect_outcome(page, "error")
    expect(page.locator(".result .debug")).to_contain_text("RuntimeError: the disk is full")
    assert violations(page) == []
    # The label of the main button is readable under the mouse.
    page.locator(".run").hover()
    assert page.evaluate(CONTRAST) == []


# --- appearance -------------------------------------------------------------------------------------------------------

CONTRAST = """() => {
  const parse = (text) => {
    const c = document.createElement("canvas").getContext("2d");
    c.fillStyle = text;
    c.fillRect(0, 0, 1, 1);
    return [...c.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v / 255 <= 0.03928 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const ground = (node) => {
    for (; node; node = node.parentElement) {
      const c = parse(getComputedStyle(node).backgroundColor);
      if (c[3] === 255) return c;
    }
    return [255, 255, 255, 255];
  };
  const weak = [];
  for (const node of document.querySelectorAll("body *")) {
    if (!node.offsetParent || ![...node.childNodes].some((c) => c.nodeType === 3 && c.textContent.trim())) continue;
    if (node.closest(".off, :disabled, .hidden, script, style")) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(ground(node))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    const name = node.className || node.tagName;
    if (ratio < 4.5) weak.push(`${ratio.toFixed(2)} ${name}: ${node.textContent.slice(0, 30)}`);
  }
  return weak;
}"""


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 1360), ("light", 390), ("dark", 390)])
def test_contrast_and_reflow(page: Page, served: Serve, scheme: Any, width: int) -> None:
    """WCAG 1.4.3 (contrast 4.5 : 1) and 1.4.10 (no horizontal scrolling)."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 860})
    open_tool(page, served(), "orders.quote")
    fill(page, {"items.0.article": "Rope", "items.0.price": "2"})
    run(page)
    expect_outcome(page, "done")
    screenshots = os.environ.get("SCREENSHOTS")
    for view in ("Call", "Schema"):
        page.get_by_role("tab", name=view, exact=True).click()
        if screenshots:
            page.screenshot(path=Path(screenshots, f"{view.lower()}-{scheme}-{width}.png"))
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
        assert (
            page.evaluate("(main) => main.scrollWidth <= main.clientWidth", page.locator("main").element_handle())
            is True
        )
    if width < 760:
        page.get_by_role("button", name="Back to the list of tools").click()
        expect(page.locator("#search")).to_be_focused()
        assert page.evaluate(CONTRAST) == []


def test_resources_messages_and_log(page: Page, served: Serve, demo: Registry, kinds: SimpleNamespace) -> None:
    demo.register("test.broken", kinds.Plain(lambda inputs, context: 1 / 0, documentation="How to break it"))
    open_tool(page, served(), "test.broken")
    run(page)
    expect_outcome(page, "error")
    page.get_by_role("button", name="Messages").click()
    expect(page.locator("#wire summary").filter(has_text="tools/call")).to_contain_text("tool error")
    expect(page.get_by_text("Replay a recording")).to_be_hidden()
    page.get_by_role("button", name="Log", exact=True).click()
    expect(page.locator("#stderr")).to_contain_text("ZeroDivisionError")
    expect(page.locator("#log-title")).to_have_text("Log of the server")
    page.get_by_role("button", name="Resources").click()
    page.locator("#tools button").filter(has_text="test.broken").click()
    page.get_by_role("button", name="Read").click()
    expect(page.locator(".result")).to_contain_text("How to break it")


def test_key_can_be_changed(page: Page, served: Serve) -> None:
    page.goto(served(auth=keys({"alice": KEY, "bob": "bobby-0123456789abcdef"})))
    page.locator("#key-value").fill(KEY)
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#live")).to_have_text("live")
    page.get_by_role("button", name="Change the key").click()
    page.locator("#key-value").fill("wrong")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#key-error")).not_to_be_empty()
    page.locator("#key-value").fill("bobby-0123456789abcdef")
    page.get_by_role("button", name="Use this key").click()
    expect(page.locator("#live")).to_have_text("live")
