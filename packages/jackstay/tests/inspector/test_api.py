"""The API of `jackstay inspect`: access control, and everything that the page requests."""

import json
from typing import Any

import pytest

from jackstay.inspector._api import REPLAY
from peers.asgi import request_app
from scripted.inspected import KEY, Inspected, with_inspected

ROUTES = [
    ("GET", "about"), ("GET", "events"), ("GET", "tools"), ("GET", "tools/add"), ("POST", "call"),
    ("DELETE", "call/x"), ("GET", "resources"), ("POST", "read"), ("POST", "subscribe"), ("GET", "prompts"),
    ("POST", "prompt"), ("POST", "complete"), ("POST", "answer"), ("POST", "connect"), ("POST", "log-level"),
    ("POST", "kill"), ("POST", "fault"), ("GET", "messages/1"), ("GET", "recording"), ("POST", "replay"),
    ("POST", "snippet"), ("POST", "start"), ("POST", "cancel-task"), ("GET", "app/x"), ("POST", "app-call"),
]  # fmt: skip

# headers: the status of the response.
FOREIGN: list[tuple[dict[str, str], int]] = [
    ({"authorization": ""}, 401),
    ({"authorization": "Bearer "}, 401),
    ({"authorization": f"Bearer {KEY}x"}, 401),
    ({"authorization": f"bearer {KEY}é"}, 401),
    ({"host": "evil.example"}, 403),
    ({"host": "127.0.0.1.evil.example:80"}, 403),
    ({"host": ""}, 400),
    ({"origin": "https://evil.example"}, 403),
    ({"origin": "http://localhost:9"}, 403),
    ({"origin": "null"}, 403),
    ({"sec_fetch_site": "cross-site"}, 403),
    ({"sec_fetch_site": "same-site"}, 403),
]


@with_inspected
async def test_every_route_needs_the_key_and_the_own_page(inspected: Inspected, subtests: pytest.Subtests) -> None:
    assert {("/".join((resource, "x")) if named else resource) for resource, named in inspected.api._routes()} == {
        path.partition("/")[0] + ("/x" if "/" in path else "") for _, path in ROUTES
    }
    for method, path in ROUTES:
        for headers, status in FOREIGN:
            with subtests.test(path=path, headers=headers):
                response = await inspected.request(method, f"/api/{path}", {} if method == "POST" else None, **headers)
                assert response.status == status
                assert set(response.json) == {"error"}
    assert inspected.events("fault") == []


@with_inspected
async def test_the_page_contains_no_data_and_needs_no_key(inspected: Inspected) -> None:
    response = await request_app(inspected.app, "GET", "/")
    assert (response.status, response.headers["cache-control"]) == (200, "no-store")
    assert "script-src 'self'" in response.headers["content-security-policy"]
    assert b"add" not in response.body.replace(b"addTransition", b"").replace(b"padding", b"")
    assert (await request_app(inspected.app, "GET", "/", host="evil.example")).status == 403
    assert (await request_app(inspected.app, "GET", "/assets/page.js")).status == 200
    assert (await request_app(inspected.app, "GET", "/assets/none.js")).status == 401
    assert (await inspected.request("GET", "/assets/none.js")).status == 404
    assert (await request_app(inspected.app, "POST", "/")).status == 405


@with_inspected
async def test_only_json_of_the_own_page(inspected: Inspected) -> None:
    assert (await inspected.request("POST", "/api/kill")).status == 200
    response = await inspected.request("POST", "/api/fault", None, content_type="text/plain")
    assert (response.status, response.json) == (415, {"error": "the body must be application/json"})
    assert (await inspected.request("GET", "/api/nothing")).status == 404
    assert (await inspected.request("GET", "/api/call")).status == 405


@with_inspected
async def test_about(inspected: Inspected) -> None:
    about = await inspected.get("about")
    assert about["state"] == "ready"
    assert (about["server"]["name"], about["server"]["version"], about["server"]["instructions"]) == (
        "demo",
        "1.2",
        "Use add.",
    )
    assert about["servers"] == [{"name": "demo", "display": "a server in memory", "isHttp": False}]
    assert "drop" in about["faults"]
    await inspected.inspection.close()
    assert (await inspected.get("about"))["server"] is None


@with_inspected
async def test_tools(inspected: Inspected) -> None:
    listing = await inspected.get("tools")
    assert [row["name"] for row in listing["tools"]] == ["add", "count", "broken", "survey", "write"]
    assert listing["tools"][0]["hints"] == {"read-only": True}
    details = await inspected.get("tools/add")
    assert details["input_schema"]["required"] == ["a"]
    assert details["raw"]["name"] == "add"
    response = await inspected.request("GET", "/api/tools/none")
    assert (response.status, response.json) == (404, {"error": "the server has no tool 'none'"})
    await inspected.inspection.client.stop()
    assert await inspected.get("tools/add") == details, "a tool of the list is shown while the server is not connected"


@with_inspected
async def test_resources(inspected: Inspected) -> None:
    found = await inspected.get("resources")
    assert [row["uri"] for row in found["resources"]] == ["note://today"]
    assert [row["uriTemplate"] for row in found["templates"]] == ["note://{day}"]
    assert (await inspected.post("read", uri="note://today"))["raw"]["contents"][0]["text"] == "buy milk"
    expanded = await inspected.post("read", template="note://{day}", values={"day": "monday"})
    assert (expanded["uri"], expanded["raw"]["contents"][0]["text"]) == ("note://monday", "note of monday")
    failed = (await inspected.post("read", uri="note://"))["failed"]
    assert (failed["error"], failed["code"]) == ("JsonRpcError", -32602)
    assert "no variable" in (await inspected.post("read", 400, template="{day}", values={"dai": "x"}))["error"]
    assert await inspected.post("read", 400) == {"error": "template must be a string"}


@with_inspected
async def test_subscriptions(inspected: Inspected) -> None:
    assert await inspected.post("subscribe", uri="note://today") == {}
    assert (await inspected.get("resources"))["subscribed"] == ["note://today"]
    assert await inspected.post("subscribe", uri="note://today", on=False) == {}
    assert (await inspected.get("resources"))["subscribed"] == []


@with_inspected
async def test_prompts_and_completion(inspected: Inspected) -> None:
    assert [row["name"] for row in (await inspected.get("prompts"))["prompts"]] == ["greet"]
    got = await inspected.post("prompt", name="greet", arguments={"name": "Ann"})
    assert got["raw"]["messages"][0]["content"]["text"] == "Greet Ann"
    body: dict[str, Any]
    for body in ({"prompt": "greet"}, {"template": "note://{day}"}):
        answer = await inspected.post("complete", argument="name", value="A", **body)
        assert answer["failed"]["error"] == "CapabilityError"


@with_inspected
async def test_connect_with_another_revision(inspected: Inspected) -> None:
    await inspected.post("connect", server="demo", version="2025-06-18", roots=["file:///project"])
    await inspected.inspection.client.ready(60)
    about = await inspected.get("about")
    assert about["server"]["protocol"] == "2025-06-18"
    assert about["options"]["roots"] == ["file:///project"]
    assert await inspected.post("log-level", level="debug") == {}


@with_inspected
async def test_a_connection_that_is_not_possible(inspected: Inspected) -> None:
    failed = (await inspected.post("connect", server="other"))["failed"]
    assert failed["message"] == "unknown server 'other'; use one of demo"
    assert "versions" in (await inspected.post("connect", server="demo", version="1999-01-01"))["failed"]["message"]
    assert "Expected `str`" in (await inspected.post("connect", 400, server=1))["error"]
    assert inspected.inspection.state == "ready"


@with_inspected
async def test_faults_of_the_page(inspected: Inspected) -> None:
    assert await inspected.post("fault", fault="garble") == {}
    assert "unknown fault" in (await inspected.post("fault", 400, fault="fire"))["error"]
    assert await inspected.post("fault", 400, fault="delay", seconds="x") == {"error": "seconds must be a number"}
    assert await inspected.post("kill") == {"killed": False}
    inspected.inspection.faults = None
    assert "started as a command" in (await inspected.post("fault", 400, fault="drop"))["error"]


@with_inspected
async def test_messages_and_events(inspected: Inspected) -> None:
    await inspected.call("add", a=1)
    (called,) = [
        number for number, event in inspected.inspection.events.after(0) if b'"method":"tools/call","id"' in event
    ]
    line = await inspected.get(f"messages/{called}")
    assert line["message"]["method"] == "tools/call"
    assert (await inspected.request("GET", "/api/messages/x")).status == 404
    inspected.inspection.events.close()
    body = (await inspected.request("GET", "/api/events")).body
    assert body.startswith(b"event: open\n")
    assert b'"method":"tools/call"' in body


@with_inspected
async def test_replay_of_a_recording(inspected: Inspected) -> None:
    await inspected.call("add", a=1)
    recording = (await inspected.request("GET", "/api/recording")).body.decode()
    assert await inspected.post("replay", recording=recording) == {}
    await inspected.inspection.client.ready(60)
    assert inspected.inspection.options.server == REPLAY
    assert (await inspected.call("add", a=1))[-1]["structured"] == {"result": 3}
    error = (await inspected.post("replay", 400, recording="{}"))["error"]
    assert error.startswith("the recording: line 1 is not the header of a recording")


@with_inspected
async def test_snippets_of_the_page(inspected: Inspected) -> None:
    made = await inspected.post("snippet", format="json-rpc", method="tools/call", params={"name": "add"})
    assert json.loads(made["text"])["params"] == {"name": "add"}
    assert "unknown format" in (await inspected.post("snippet", 400, format="x", method="ping"))["error"]
    await inspected.post("connect", server="demo", version="2025-06-18")
    made = await inspected.post("snippet", format="python", method="tools/list", params={})
    assert "versions=('2025-06-18',)" in made["text"]
