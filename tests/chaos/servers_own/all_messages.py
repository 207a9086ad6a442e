"""A conversation that uses all features of a server at one revision, and every message that the server sends in it.

For tests that validate the messages against the official schema of the revision: valid and invalid requests, changes of
the lists, requests to the client, and a drain.
"""

from typing import Any, NamedTuple

from chaos.servers_own.conversation import STATELESS, Message, Peer, connected
from jackstay.server import Audio, Context, Image, Server
from jackstay.types import EmbeddedResource, ResourceLink, TextResourceContents

CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}


class SentMessage(NamedTuple):
    """One message, with the method of its request if it is a result or an error.

    `is_exempt`: an error for an unreadable request, which has `"id": null` up to 2025-06-18.
    """

    kind: str
    method: str
    message: Message
    is_exempt: bool = False


def everything() -> Server:
    """Return a server with one of every feature."""
    server = Server(
        "everything",
        version="1.0",
        title="Everything",
        instructions="All of it.",
        website_url="https://example.org",
        icons=["https://example.org/i.png"],
        page_size=3,
    )

    @server.tool(title="Text", read_only=True, idempotent=True, icons=["https://example.org/i.png"], meta={"a/b": 1})
    async def text(ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        ctx.log("info", {"n": 1}, logger="mine")
        return "text"

    @server.tool
    def blocks() -> list[Any]:
        contents = TextResourceContents(uri="x://y", text="y")
        link = ResourceLink(uri="x://y", name="y", title="Y", mime_type="text/plain", size=1)
        return [
            "text",
            Image(b"1", "image/png"),
            Audio(b"2", "audio/wav"),
            EmbeddedResource(resource=contents),
            link,
        ]

    @server.tool
    async def structured() -> dict[str, int]:
        return {"a": 1}

    @server.tool
    async def numbers() -> list[int]:
        return [1, 2]

    @server.tool
    async def failing() -> None:
        raise ValueError("x")

    @server.tool
    async def request_all(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        await ctx.elicit("Your name?", schema, key="user_name")
        await ctx.sample("Capital of France?", key="capital_question")
        await ctx.list_roots(key="client_roots")
        return "done"

    @server.tool
    async def request_without_elicitation(ctx: Context) -> str:
        await ctx.sample("Capital of France?", key="capital_question")
        await ctx.list_roots(key="client_roots")
        return "done"

    server.resource("x://text", title="Text", size=4, mime_type="text/plain")(lambda: "text")
    server.resource("x://blob")(lambda: b"blob")
    server.resource("x://{number}/data", title="Data")(lambda number: {"number": number})
    server.prompt(name="repeat", title="Repeat")(lambda text: text)
    server.completion("repeat", "text")(lambda typed: [typed])
    return server


REQUESTS: list[tuple[str, Message]] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    *(("tools/call", {"name": name}) for name in ("text", "blocks", "structured", "numbers", "failing")),
    ("tools/call", {"name": "text", "arguments": {"no": 1}}),
    *(("resources/read", {"uri": uri}) for uri in ("x://text", "x://blob", "x://7/data")),
    ("prompts/get", {"name": "repeat", "arguments": {"text": "hi"}}),
    (
        "completion/complete",
        {"ref": {"type": "ref/prompt", "name": "repeat"}, "argument": {"name": "text", "value": "h"}},
    ),
]  # fmt: skip

HANDSHAKE_REQUESTS: list[tuple[str, Message]] = [
    ("ping", {}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "x://text"}),
    ("resources/unsubscribe", {"uri": "x://blob"}),
]

INVALID_REQUESTS: list[tuple[str, Message]] = [
    ("tools/call", {"name": "nothing"}),
    ("tools/list", {"cursor": "made up"}),
    ("resources/read", {"uri": "x://nothing"}),
    ("prompts/get", {"name": "nothing"}),
    ("prompts/get", {"name": "repeat"}),
    ("no/such", {}),
    ("initialize", {"protocolVersion": "2025-11-25"}),
]

UNREADABLE = (b"{", b"[1]", b'{"jsonrpc":"2.0"}', b"\xff")

RESPONSES: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
    },
    "roots/list": {"roots": []},
}


async def record_all_messages(version: str) -> list[SentMessage]:
    """Run the conversation and return every message that the server sent."""
    server, methods = everything(), {}
    async with connected(server, version, CAPABILITIES, is_fresh=True) as peer:
        received = peer.received

        async def request(method: str, params: Message, id: Any = None) -> Message:
            meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
            sent = peer.send_request(method, {**params, "_meta": meta}, id=id)
            methods[sent] = method
            return await peer.answer(sent)

        await begin(peer, methods)
        for method, params in REQUESTS + (HANDSHAKE_REQUESTS if version != STATELESS else []):
            answer = await request(method, params)
            assert "result" in answer, (method, answer)
            if "nextCursor" in answer["result"]:
                await request(method, {"cursor": answer["result"]["nextCursor"]})
        await answer_requests(
            peer, request, "request_all" if version >= "2025-06-18" else "request_without_elicitation"
        )
        for method, params in INVALID_REQUESTS:
            assert "error" in await request(method, params), method
        before = len(received)
        for frame in UNREADABLE:
            peer.send(frame)
        if version == "2025-03-26":
            methods["b1"] = methods["b2"] = "ping"
            peer.send([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("b1", "b2")])
        await request("tools/list", {})
        assert len(received) >= before + len(UNREADABLE) + 1
        server.remove_tool("text")
        server.remove_prompt("repeat")
        server.notify_resource_updated("x://text")
        server.remove_resource("x://text")
        changes = {"tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"}
        await peer.until(
            lambda: changes <= {sent["method"].removeprefix("notifications/") for sent in peer.notifications}
        )
        running = (
            peer.send_request("tools/call", {"name": "request_without_elicitation"}, id="last")
            if version != STATELESS
            else None
        )
        if running is not None:
            methods[running] = "tools/call"
            await peer.server_request()
        server.drain()
        if running is not None:
            assert "error" in await request("tools/list", {}, "refused")
            peer.notify("notifications/cancelled", {"requestId": running})
        await peer.ended()
    return [sent for frame in received for sent in classify(frame, methods)]


async def begin(peer: Peer, methods: dict[Any, str]) -> None:
    """Perform the handshake; or discovery, a request of an unsupported revision, and a subscription to everything."""
    if peer.version != STATELESS:
        await peer.initialize()
        methods["r1"] = "initialize"
        return
    for id, params in (
        ("d", {}),
        ("u", {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}),
    ):
        methods[id] = "server/discover"
        await peer.answer(peer.send_request("server/discover", params, id=id))
    changes = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["x://text"],
    }
    methods["s"] = "subscriptions/listen"
    peer.send_request("subscriptions/listen", {"notifications": changes}, id="s")
    await peer.until(lambda: peer.notifications)
    declared, peer.capabilities = peer.capabilities, {}
    methods["undeclared"] = "tools/call"
    await peer.answer(peer.send_request("tools/call", {"name": "request_all"}, id="undeclared"))
    peer.capabilities = declared
    methods["bare"] = "tools/list"
    peer.send({"jsonrpc": "2.0", "id": "bare", "method": "tools/list"})
    await peer.answer("bare")


async def answer_requests(peer: Peer, request: Any, tool: str) -> None:
    """Call a tool that sends requests to the client, or that returns results with `inputRequests`."""
    params: Message = {"name": tool}
    if peer.version == STATELESS:
        answer = await request("tools/call", params)
        while "inputRequests" in answer["result"]:
            requests = answer["result"]["inputRequests"]
            responses = {key: RESPONSES[input_request["method"]] for key, input_request in requests.items()}
            state = answer["result"]["requestState"]
            answer = await request("tools/call", {**params, "inputResponses": responses, "requestState": state})
    else:
        id = peer.send_request("tools/call", params, id="requests")
        for _ in range(3 if tool == "request_all" else 2):
            server_request = await peer.server_request()
            peer.send({"jsonrpc": "2.0", "id": server_request["id"], "result": RESPONSES[server_request["method"]]})
        answer = await peer.answer(id)
    assert answer["result"]["content"][0]["text"] == "done"


def classify(frame: Any, methods: dict[Any, str]) -> list[SentMessage]:
    """Classify a frame, or each member of a batch."""
    if isinstance(frame, list):
        return [sent for member in frame for sent in classify(member, methods)]
    if "method" in frame:
        return [SentMessage("request" if "id" in frame else "notification", frame["method"], frame)]
    method = methods.get(frame.get("id"), "tools/call" if frame.get("id") == "requests" else "")
    if "result" in frame:
        return [SentMessage("result", method, frame)]
    return [SentMessage("error", method, frame, is_exempt=frame.get("id") is None)]
