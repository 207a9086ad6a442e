"""The inspector of any server in a browser: its sections, questions, faults, recordings, access, and accessibility."""

import asyncio
import contextlib
import json
import queue
import re
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from scripted.chromium import TIMEOUT, screenshot, violations
from scripted.oauth import AuthorizationSite, GuardedSite
from scripted.places import ROOT


def open_page(page: Page, url: str, section: str = "Tools", row: str = "") -> None:
    page.goto(url)
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#state")).to_have_text("ready")
    if section != "Tools":
        page.locator("#sections button", has_text=section).click()
    if row:
        page.locator("#tools button", has=page.locator(f'.name:text-is("{row}")')).click()
        expect(page.locator("#tool h2")).to_have_text(row)


def fill(page: Page, **values: str) -> None:
    for path, value in values.items():
        field = page.locator(f'#tool .field[data-path="{path}"] > .widget')
        field.locator("input, textarea").first.fill(value)


def call(page: Page) -> None:
    page.keyboard.press("Control+Enter")


@contextlib.contextmanager
def guarded_server() -> Iterator[str]:
    """A server that requires a sign-in, and its authorization server, which redirects at once. Yields its endpoint."""
    endpoints: queue.Queue[str] = queue.Queue()
    loop = asyncio.new_event_loop()
    ended = asyncio.Event()

    async def serve() -> None:
        async with AuthorizationSite() as issuing, GuardedSite(issuing) as server:
            endpoints.put(server.endpoint)
            await ended.wait()

    thread = threading.Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        yield endpoints.get(timeout=60)
    finally:
        loop.call_soon_threadsafe(ended.set)
        thread.join(60)
        loop.close()


# A server whose tool returns a link to a resource that is not listed.
LINKS = """
from jackstay import Server
from jackstay.types import ResourceLink

server = Server("links")


@server.tool
def find() -> list[ResourceLink]:
    return [ResourceLink(uri="note://7", name="seven")]


@server.resource("note://{number}")
def note(number: str) -> str:
    return f"text of note://{number}"


server.run()
"""


# A server whose tool requests that the user visits a URL.
URLS = """
from jackstay import Context, Server

server = Server("urls")


@server.tool
async def visit(url: str, ctx: Context) -> str:
    return (await ctx.elicit_url("Please visit this page", url)).action


server.run()
"""

# A server whose tool requests the roots of the client.
ROOTS = """
from jackstay import Context, Server

server = Server("roots")


@server.tool
async def show_roots(ctx: Context) -> str:
    return " ".join(root.uri for root in await ctx.list_roots())


server.run()
"""


def expect_outcome(page: Page, outcome: str) -> None:
    expect(page.locator(".result [role=status] .badge")).to_have_text(outcome)


# --- what a server has ------------------------------------------------------------------------------------------------


def test_the_first_screen(page: Page, url: str) -> None:
    open_page(page, url)
    expect(page.locator("#server")).to_have_text("everything 1.0")
    expect(page.locator("#start")).to_contain_text("MCP 2026-07-28")
    expect(page.locator("#start")).to_contain_text("One of everything, to try a client with.")
    assert page.url.partition("#")[0] == url.partition("#")[0]
    assert "key=" not in page.url


def test_a_tool_with_its_result_and_history(page: Page, url: str) -> None:
    open_page(page, url, row="add")
    fill(page, a="40", b="2")
    call(page)
    expect_outcome(page, "done")
    expect(page.locator(".result .tree")).to_contain_text("42")
    screenshot(page, "tools")
    # What was entered and returned is still there after another tool was opened.
    page.locator("#tools button", has_text="test_simple_text").click()
    expect(page.locator("#tool h2")).to_have_text("test_simple_text")
    page.go_back()
    expect(page.locator("#tool h2")).to_have_text("add")
    expect(page.locator(".result .tree")).to_contain_text("42")
    expect(page.locator("#calls li")).to_contain_text('{"a":40,"b":2}')


def test_images_progress_and_errors(page: Page, url: str) -> None:
    open_page(page, url, row="test_image_content")
    call(page)
    expect_outcome(page, "done")
    assert page.locator(".result img").evaluate("(image) => image.decode().then(() => image.naturalWidth)") == 1
    page.locator("#tools button", has_text="test_tool_with_progress").click()
    expect(page.locator("#tool h2")).to_have_text("test_tool_with_progress")
    call(page)
    expect_outcome(page, "done")
    expect(page.locator(".result .chunks li").last).to_have_text("100 of 100")
    page.locator("#tools button", has_text="test_error_handling").click()
    expect(page.locator("#tool h2")).to_have_text("test_error_handling")
    call(page)
    expect_outcome(page, "error")


def test_resources_templates_and_subscriptions(page: Page, url: str) -> None:
    open_page(page, url, "Resources")
    page.locator("#tools button", has_text="test://static-text").click()
    page.locator("#tool .main").click()
    expect(page.locator(".result pre").first).to_contain_text("This is the content of the static text resource.")
    page.locator("#tools button", has_text="{id}").click()
    fill(page, id="7")
    page.locator("#tool .main").click()
    expect(page.locator(".result pre").first).to_contain_text("7")
    page.locator("#tools button", has_text="test://watched-resource").click()
    page.get_by_role("button", name="Subscribe").click()
    expect(page.get_by_role("button", name="Unsubscribe")).to_have_attribute("aria-pressed", "true")
    page.locator("#sections button", has_text="Tools").click()
    page.locator("#tools button", has_text="touch").click()
    fill(page, uri="test://watched-resource")
    call(page)
    expect_outcome(page, "done")
    page.locator("#sections button", has_text="Connection").click()
    expect(page.locator("#notifications")).to_contain_text("notifications/resources/updated")


def test_prompts_with_completion(page: Page, url: str) -> None:
    open_page(page, url, "Prompts", "test_prompt_with_arguments")
    page.locator("#tool .widget input").first.fill("ha")
    options = page.locator("#tool datalist").first.locator("option")
    expect(options).to_have_count(2)
    assert [option.get_attribute("value") for option in options.all()] == ["hawser", "halyard"]
    fill(page, arg1="one", arg2="two")
    page.locator("#tool .main").click()
    expect(page.locator(".result .message").first).to_contain_text("one")


def test_a_tool_is_opened_without_another_request(page: Page, start_inspector: Any) -> None:
    server = str(ROOT / "examples" / "everything.py")
    open_page(page, start_inspector("inspect", "--no-browser", "--", sys.executable, server), row="add")
    page.locator("#tools button", has=page.locator('.name:text-is("greet")')).click()
    expect(page.locator("#tool h2")).to_have_text("greet")
    page.locator("#sections button", has_text="Messages").click()
    rows = page.locator("#wire .wire > summary code", has_text="tools/list")
    before = rows.count()
    page.locator("#sections button", has_text="Tools").click()
    for row in ("add", "greet", "add"):
        page.locator("#tools button", has=page.locator(f'.name:text-is("{row}")')).click()
        expect(page.locator("#tool h2")).to_have_text(row)
    fill(page, a="1", b="2")
    call(page)
    expect_outcome(page, "done")
    page.locator("#sections button", has_text="Messages").click()
    expect(page.locator("#wire .wire > summary code", has_text="tools/call")).to_have_count(1)
    assert rows.count() == before


def test_signing_in(page: Page, start_inspector: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with guarded_server() as endpoint:
        page.goto(start_inspector("inspect", "--no-browser", endpoint))
        expect(page.locator("#sign-in")).to_contain_text("The server requires you to sign in.")
        assert violations(page) == []
        with page.context.expect_page() as opened:
            page.get_by_role("link", name="Open the sign-in page").click()
        expect(opened.value.locator("h1")).to_have_text("You can close this window")
        opened.value.close()
        expect(page.locator("#state")).to_have_text("ready")
        expect(page.locator("#sign-in")).to_be_hidden()
        page.reload()
        expect(page.locator("#live")).to_have_text("live")
        expect(page.locator("#sign-in")).to_be_hidden()


# --- questions of the server ------------------------------------------------------------------------------------------


def test_elicitation_is_answered_by_hand(page: Page, url: str) -> None:
    open_page(page, url, row="test_elicitation")
    fill(page, message="Who are you?")
    call(page)
    dialog = page.locator("#question")
    expect(dialog).to_contain_text("Who are you?")
    screenshot(page, "elicitation")
    for row in dialog.locator(".widget input, .widget textarea").all():
        row.fill("ann@example.org")
    assert violations(page) == []
    page.locator("#question-accept").click()
    expect_outcome(page, "done")
    expect(page.locator(".result")).to_contain_text("ann@example.org")
    call(page)
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(page.locator(".result")).to_contain_text("cancel")


def test_the_url_of_an_elicitation_is_shown_with_its_host(page: Page, start_inspector: Any, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(URLS)
    open_page(page, start_inspector("inspect", "--no-browser", "--", sys.executable, str(program)), row="visit")
    dialog = page.locator("#question")
    for number, (url, shown, button) in enumerate(
        [
            ("https://x.example@evil.test/", "Host: evil.test", "accept"),
            ("http://g\u043e\u043egle.com/", "Host: xn--ggle-55da.com. Its name has letters outside ASCII", "decline"),
            ("javascript:alert(1)", "This is not the address of a web page.", "decline"),
            ("https://[", "This is not the address of a web page.", "decline"),
        ]
    ):
        fill(page, url=url)
        call(page)
        expect(dialog).to_contain_text(shown)
        expect(dialog.locator("pre")).to_have_text(url)
        expect(dialog.get_by_role("link")).to_have_count(int(shown.startswith("Host")))
        assert violations(page) == []
        page.locator(f"#question-{button}").click()
        expect(page.locator("#calls li")).to_have_count(number + 1)
        expect(page.locator(".result pre").first).to_contain_text(button)


def test_the_form_of_a_question_begins_with_its_defaults(page: Page, url: str) -> None:
    open_page(page, url, row="test_elicitation_sep1034_defaults")
    call(page)
    dialog = page.locator("#question")
    expect(dialog.locator('[data-path="name"] textarea')).to_have_value("John Doe")
    dialog.locator('[data-path="age"] .widget input').fill("31")
    page.locator("#question-accept").click()
    expect_outcome(page, "done")
    sent = {"name": "John Doe", "age": 31, "score": 95.5, "status": "active", "verified": True}
    expect(page.locator(".result pre").first).to_contain_text(json.dumps(sent))


def test_choices_have_their_titles(page: Page, url: str) -> None:
    open_page(page, url, row="test_elicitation_sep1330_enums")
    call(page)
    dialog = page.locator("#question")
    dialog.locator('[data-path="titledSingle"] select').select_option("Second Option")
    dialog.locator('[data-path="legacyEnum"] select').select_option("Option Three")
    dialog.locator('[data-path="titledMulti"]').get_by_label("Third Choice").check()
    dialog.locator('[data-path="titledMulti"]').get_by_label("First Choice").check()
    screenshot(page, "choices")
    assert violations(page) == []
    page.locator("#question-accept").click()
    expect_outcome(page, "done")
    sent = {"titledSingle": "value2", "legacyEnum": "opt3", "titledMulti": ["value1", "value3"]}
    expect(page.locator(".result pre").first).to_contain_text(json.dumps(sent))


def test_sampling_is_answered_by_hand(page: Page, url: str) -> None:
    open_page(page, url, row="test_sampling")
    fill(page, prompt="Write a poem")
    call(page)
    expect(page.locator("#question")).to_contain_text("Write a poem")
    page.get_by_label("The message of the model").fill("Roses are red")
    page.locator("#question-accept").click()
    expect_outcome(page, "done")
    expect(page.locator(".result")).to_contain_text("Roses are red")


# --- tasks and apps ---------------------------------------------------------------------------------------------------


def test_a_task_is_watched_and_cancelled(page: Page, url: str) -> None:
    # Not negotiated: a server that starts slowly may be tried with an older revision, which has no tasks.
    open_page(page, url, "Connection")
    page.locator("#connect-version").select_option("2026-07-28")
    page.locator("#connect .main").click()
    page.goto(url.partition("#")[0])
    expect(page.locator("#start")).to_contain_text("MCP 2026-07-28")
    page.locator("#tools button", has=page.locator('.name:text-is("slow_compute")')).click()
    fill(page, seconds="600")
    page.get_by_role("button", name="Start as a task").click()
    expect(page.locator("#tool")).to_contain_text("Started: see the section Tasks.")
    page.locator("#sections button", has_text="Tasks").click()
    row = page.locator("#task-list > li").first
    expect(row.locator(".badge")).to_have_text("working")
    screenshot(page, "tasks")
    row.get_by_role("button", name="Cancel").click()
    expect(row.locator("[role=status]")).to_have_text("cancelled")
    expect(row.locator(".ran")).to_have_text("may have run")


def test_an_app_is_shown_without_an_origin_and_calls_tools_only_if_allowed(page: Page, start_inspector: Any) -> None:
    example = ROOT / "examples" / "apps" / "server.py"
    open_page(page, start_inspector("inspect", "--no-browser", "--", sys.executable, str(example)), row="roll")
    call(page)
    expect_outcome(page, "done")
    app = page.frame_locator("iframe.app")
    dice = re.compile("^[⚀⚁⚂⚃⚄⚅]{2}$")
    expect(app.locator("output")).to_have_text(dice)
    app.get_by_role("button", name="Roll again").click()
    expect(app.locator("output")).to_have_text("the user has not allowed the app to use its server")
    page.get_by_label("The app may call tools").check()
    app.get_by_role("button", name="Roll again").click()
    expect(app.locator("output")).to_have_text(dice)
    screenshot(page, "app")
    assert violations(page) == []
    frame = page.frames[1]
    assert frame.evaluate("window.origin") == "null"
    seen = "(() => { try { return parent.document.title } catch { return 'blocked' } })()"
    assert frame.evaluate(seen) == "blocked"
    assert (
        frame.evaluate("fetch(new URL('/api/about', location.href)).then(() => 'sent', () => 'blocked')") == "blocked"
    )
    problems = page.problems  # type: ignore[attr-defined]  # of the fixture
    assert problems
    assert all("Content Security Policy" in text or "Failed to fetch" in text for text in problems)
    problems.clear()


# --- messages, states and faults --------------------------------------------------------------------------------------


def test_messages_with_their_responses(page: Page, url: str) -> None:
    open_page(page, url, row="greet")
    fill(page, name="Ann Example")
    call(page)
    expect_outcome(page, "done")
    page.locator("#sections button", has_text="Messages").click()
    page.locator("#wire-search").fill("tools/call greet")
    row = page.locator(".wire.request:visible").last
    expect(row).to_contain_text("done")
    expect(row.locator(".subject")).to_have_text("greet")
    row.locator("summary").click()
    expect(row.locator("pre").first).to_contain_text("Ann Example")
    expect(row.locator("h3").nth(1)).to_have_text("Response")
    screenshot(page, "messages")


def test_a_killed_server(page: Page, url: str) -> None:
    open_page(page, url, row="hold")
    call(page)
    expect(page.locator(".result .chunks li")).to_be_visible()
    page.locator("#sections button", has_text="Connection").click()
    expect(page.locator('#machine [data-state="ready"]')).to_have_class("current")
    page.locator("#kill").click()
    expect(page.locator("#transitions")).to_contain_text("ready → backoff")
    expect(page.locator("#transitions")).to_contain_text("[signal 9]")
    expect(page.locator("#state")).to_have_text("ready")
    expect(page.locator("#calls li").first).to_be_attached()
    expect(page.locator("#history")).to_be_hidden()  # it belongs to the tools
    screenshot(page, "connection")
    page.locator("#sections button", has_text="Tools").click()
    expect_outcome(page, "outcome unknown")
    expect(page.locator(".result .ran")).to_have_text("may have run")
    page.locator("#sections button", has_text="Messages").click()
    expect(page.locator(".wire .ran").last).to_have_text("may have run")


def test_an_injected_fault(page: Page, url: str) -> None:
    open_page(page, url, "Connection")
    expect(page.locator("#connect-headers")).to_be_hidden()  # only over HTTP
    page.locator("#fault").select_option("delay")
    expect(page.locator("#fault-seconds")).to_be_visible()
    page.locator("#fault").select_option("garble")
    expect(page.locator("#fault-seconds")).to_be_hidden()
    page.get_by_role("button", name="Inject").click()
    expect(page.locator("#fault-status")).to_contain_text("Armed")
    page.locator("#sections button", has_text="Tools").click()
    page.locator("#tools button", has_text="test_simple_text").click()
    expect(page.locator("#tool h2")).to_have_text("test_simple_text")
    call(page)
    expect_outcome(page, "done")
    page.locator("#sections button", has_text="Messages").click()
    expect(page.locator(".wire.mark", has_text="injected fault")).to_be_attached()
    expect(page.locator(".wire.garbage")).to_be_attached()


def test_only_the_form_scrolls(page: Page, url: str) -> None:
    """Labels for screen readers are not visible, and must not extend the page either."""
    page.set_viewport_size({"width": 1360, "height": 300})
    open_page(page, url, row="json_schema_2020_12_tool")
    assert page.evaluate("document.querySelector('main').scrollHeight") > 300
    assert page.evaluate("document.documentElement.scrollHeight") == 300


def test_a_link_to_a_resource_leads_to_it(page: Page, start_inspector: Any, tmp_path: Path) -> None:
    program = tmp_path / "server.py"
    program.write_text(LINKS)
    open_page(page, start_inspector("inspect", "--no-browser", "--", sys.executable, str(program)), row="find")
    call(page)
    page.get_by_role("link", name="Show the resource").click()
    page.locator("#tool .main").click()
    expect(page.locator(".result pre").first).to_contain_text("text of note://7")  # it is in no list


def test_a_narrow_screen_shows_the_current_state(page: Page, url: str) -> None:
    page.set_viewport_size({"width": 400, "height": 800})
    open_page(page, url, "Connection")
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    expect(page.locator('#machine [data-state="ready"]')).to_be_in_viewport()


def test_another_revision_of_the_protocol(page: Page, url: str) -> None:
    open_page(page, url, "Connection")
    for version in ("2025-06-18", "2026-07-28"):
        page.locator("#connect-version").select_option(version)
        page.locator("#connect .main").click()
        page.locator("#sections button", has_text="Tools").click()
        page.goto(page.url.partition("#")[0])
        expect(page.locator("#start")).to_contain_text(f"MCP {version}")
        page.locator("#sections button", has_text="Connection").click()
        expect(page.locator("#state")).to_have_text("ready")


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_server_gets_the_roots_of_the_page(page: Page, start_inspector: Any, tmp_path: Path, version: str) -> None:
    program = tmp_path / "server.py"
    program.write_text(ROOTS)
    open_page(page, start_inspector("inspect", "--no-browser", "--", sys.executable, str(program)), "Connection")
    page.locator("#connect-version").select_option(version)
    page.locator("#connect-roots").fill("file:///project\nfile:///data")
    with page.expect_response("**/api/connect"):
        page.locator("#connect .main").click()
    expect(page.locator("#start")).to_contain_text(f"MCP {version}")
    expect(page.locator("#state")).to_have_text("ready")
    page.locator("#sections button", has_text="Tools").click()
    page.locator("#tools button", has=page.locator('.name:text-is("show_roots")')).click()
    expect(page.locator("#tool h2")).to_have_text("show_roots")
    call(page)
    expect(page.locator(".result pre").first).to_contain_text("file:///project file:///data")


def test_a_recording_is_saved_and_replayed(page: Page, start_inspector: Any, tmp_path: Path) -> None:
    url = start_inspector("inspect", "--no-browser", "--", sys.executable, str(ROOT / "examples" / "weather.py"))
    open_page(page, url)
    page.locator("#tools button").first.click()
    expect(page.locator("#tool h2")).to_be_visible()
    page.locator("#sections button", has_text="Messages").click()
    with page.expect_download() as download:
        page.locator("#save").click()
    path = tmp_path / "session.jsonl"
    download.value.save_as(path)
    assert json.loads(path.read_text("utf-8").splitlines()[0])["jackstay"] == "recording"
    page.locator("#replay").set_input_files(path)
    expect(page.locator("#notice")).to_have_text("Connected to the recording session.jsonl.")


def test_a_request_is_copied(browser: Browser, url: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(TIMEOUT)
    open_page(page, url, row="add")
    fill(page, a="1", b="2")
    page.locator(".copy-as select").select_option("pytest")
    expect(page.locator(".copy-as [role=status]")).to_have_text("Copied as pytest")
    text = page.evaluate("navigator.clipboard.readText()")
    assert "def test_add() -> None:" in text
    assert "client.tools.call('add', {'a': 1, 'b': 2}" in text
    page.locator(".copy-as select").select_option("curl")
    expect(page.locator(".copy-as [role=status]")).to_contain_text("this one is a command")
    context.close()


# --- access and appearance --------------------------------------------------------------------------------------------


def test_without_the_key(page: Page, url: str) -> None:
    page.goto(url.partition("#")[0])
    expect(page.locator("#key")).to_be_visible()
    assert page.locator("#tools button").count() == 0
    page.keyboard.type(url.rpartition("=")[2])
    page.keyboard.press("Enter")
    expect(page.locator("#live")).to_have_text("live")
    # The key in the URL is kept for a reload, and only in this tab.
    page.goto(url)
    page.reload()
    expect(page.locator("#live")).to_have_text("live")


def test_everything_is_reached_with_the_keyboard(page: Page, url: str) -> None:
    open_page(page, url)
    page.locator("#theme").focus()
    page.keyboard.press("Tab")
    expect(page.locator("#sections button").first).to_be_focused()
    for name in ("Resources", "Prompts", "Tasks", "Messages", "Connection"):
        page.keyboard.press("Tab")
        expect(page.locator("#sections button:focus")).to_have_text(name)
    page.keyboard.press("Enter")
    expect(page.locator("#connection")).to_be_visible()
    page.go_back()
    expect(page.locator("#connection")).to_be_hidden()
    page.keyboard.press("/")
    page.keyboard.type("simple_text")
    page.keyboard.press("Enter")
    expect(page.locator("#tool h2")).to_have_text("test_simple_text")
    call(page)
    expect_outcome(page, "done")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1360), ("dark", 400)])
def test_accessibility(page: Page, url: str, scheme: Any, width: int) -> None:
    """No serious finding of axe-core in any section, and no horizontal scrolling (WCAG 1.4.10)."""
    page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": 860})
    open_page(page, url, row="json_schema_2020_12_tool")
    for path in ("name", "address"):
        page.locator(f'.field[data-path="{path}"] > .head .send input').check()
    call(page)
    expect(page.locator(".result [role=status] .badge")).to_be_visible()
    for section in ("Tools", "Resources", "Prompts", "Tasks", "Messages", "Connection"):
        if section != "Tools":
            page.locator("#sections button", has_text=section).click()
        if section in ("Resources", "Prompts"):
            page.locator("#tools button").first.click()
            expect(page.locator("#tool h2")).to_be_visible()
        if section == "Messages":
            page.locator(".wire.request summary").first.click()
        screenshot(page, f"{section.lower()}-{scheme}-{width}")
        assert violations(page) == [], section
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth") is True
        assert page.locator("main").evaluate("(main) => main.scrollWidth <= main.clientWidth") is True, section
