"""The inspector with servers that cannot be started, send too much, or what is invalid."""

import json
import sys
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Page, expect

from scripted.chromium import violations

# A server on the bare protocol. `{more}` changes its results and what it does after a call.
SERVER = """
import json
import sys
import threading

lock = threading.Lock()
RESULTS = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "prompts": {}, "logging": {}},
        "serverInfo": {"name": "hostile", "version": "1"},
    },
    "tools/list": {"tools": [{"name": name, "inputSchema": {"type": "object"}} for name in ("start", "other")]},
    "tools/call": {"content": [{"type": "text", "text": "called"}]},
    "prompts/list": {"prompts": [{"name": "hello"}]},
}


def send(text):
    with lock:
        print(text, flush=True)


def respond(id, result):
    send('{"jsonrpc": "2.0", "id": %d, "result": %s}' % (id, result))


def called(name):
    pass

#more#
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method = message["method"]
    result = RESULTS.get(method)
    if result is None:
        send(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}))
    else:
        respond(message["id"], result if isinstance(result, str) else json.dumps(result))
    if method == "tools/call":
        called(message["params"]["name"])
"""

DEEP = """
RESULTS["tools/list"] = (
    '{"tools": [{"name": "a", "inputSchema": ' + '{"a":' * 200 + "1" + "}" * 200 + "}]}"
)
"""

FLOOD = """
def flood():
    for number in range(100_000):
        params = {"level": "info", "data": number}
        send(json.dumps({"jsonrpc": "2.0", "method": "notifications/message", "params": params}))


def called(name):
    if name == "start":
        threading.Thread(target=flood, daemon=True).start()
"""


def open_page(page: Page, start_inspector: Callable[..., str], directory: Path, more: str) -> None:
    program = directory / "server.py"
    program.write_text(SERVER.replace("#more#", more))
    page.goto(start_inspector("inspect", "--no-browser", "--", sys.executable, str(program)))
    expect(page.locator("#live")).to_have_text("live")
    expect(page.locator("#state")).to_have_text("ready")


def call(page: Page, tool: str) -> None:
    page.locator("#tools button", has=page.locator(f'.name:text-is("{tool}")')).click()
    expect(page.locator("#tool h2")).to_have_text(tool)
    page.keyboard.press("Control+Enter")
    expect(page.locator(".result [role=status] .badge")).to_have_text("done")


def test_a_list_that_cannot_be_read_is_not_empty(
    page: Page, start_inspector: Callable[..., str], tmp_path: Path
) -> None:
    open_page(page, start_inspector, tmp_path, DEEP)
    expect(page.locator("#count")).to_have_text("The tools could not be listed.")
    expect(page.locator("#list-failed")).to_contain_text("nested more than 128 deep at $.result.tools[0]")
    expect(page.locator("#list-failed .badge")).to_have_text("may have run")
    assert violations(page) == []
    page.locator("#sections button", has_text="Prompts").click()
    expect(page.locator("#count")).to_have_text("1 prompt")
    expect(page.locator("#list-failed")).to_be_hidden()


def test_a_server_that_floods_does_not_stop_the_page(
    page: Page, start_inspector: Callable[..., str], tmp_path: Path
) -> None:
    open_page(page, start_inspector, tmp_path, FLOOD)
    call(page, "start")
    page.locator("#sections button", has_text="Messages").click()
    expect(page.locator("#wire-count")).to_have_text("the newest 500 messages")
    page.locator("#sections button", has_text="Tools").click()
    call(page, "other")
    expect(page.locator("#live")).to_have_text("live")


def test_a_server_that_cannot_be_started_is_not_shown_as_the_one_before(
    page: Page, start_inspector: Callable[..., str], tmp_path: Path
) -> None:
    program, config = tmp_path / "server.py", tmp_path / "mcp.json"
    program.write_text(SERVER)
    good = {"command": sys.executable, "args": [str(program)]}
    config.write_text(json.dumps({"mcpServers": {"good": good, "missing": {"command": str(tmp_path / "missing")}}}))
    page.goto(start_inspector("inspect", "--no-browser", str(config)))
    expect(page.locator("#server")).to_have_text("hostile 1")
    page.locator("#sections button", has_text="Connection").click()
    page.locator("#connect-server").select_option("missing")
    page.get_by_role("button", name="Connect again").click()
    expect(page.locator("#ended")).to_be_in_viewport()
    expect(page.locator("#ended")).to_contain_text("no such file")
    expect(page.locator("#server")).to_have_text("")
    page.locator("#sections button", has_text="Tools").click()
    expect(page.locator("#count")).to_have_text("0 tools")
    page.locator("#sections button", has_text="Connection").click()
    page.locator("#connect-server").select_option("good")
    page.get_by_role("button", name="Connect again").click()
    expect(page.locator("#server")).to_have_text("hostile 1")
    expect(page.locator("#ended")).to_be_hidden()
