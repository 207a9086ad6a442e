"""Everything a server can say, said: one conversation with all features at a revision, and each message of it.

For whoever holds messages to the official definitions of their revision. A server with one of everything is asked for all
of it, changed while it serves, asked wrongly, and drained; what it sent is returned, each message with what it is about.
It knows no model and no schema.
"""

from typing import Any, NamedTuple

from chaos.servers_own.conversation import STATELESS, Message, Peer, talking
from jackstay.server import Audio, Context, Image, Server
from jackstay.types import EmbeddedResource, ResourceLink, TextResourceContents

CAPABILITIES = {
    "elicitation": {"form": {}, "url": {}},
    "sampling": {"tools": {}},
    "roots": {"listChanged": True},
}


class Said(NamedTuple):
    """One message: a result or an error with the method that was asked, a notification or a request with its own.

    `is_exempt`: an error without a readable id, which has `"id": null` up to 2025-06-18 (design, section 6).
    """

    kind: str
    method: str
    message: Message
    is_exempt: bool = False


def everything() -> Server:
    """One of everything."""
    server = Server(
        "everything",
        version="1.0",
        title="Everything",
        instructions="All of it.",
        website_url="https://example.org",
        icons=["https://example.org/i.png"],
        page_size=3,
    )

    @server.tool(
        title="Text", read_only=True, idempotent=True, icons=["https://example.org/i.png"], meta={"a/b": 1}
    )
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
    async def asking(ctx: Context) -> str:
        schema = {"type": "object", "properties": {"name": {"type": "string"}}}
        await ctx.elicit("who?", schema, key="user_name")
        await ctx.sample("Capital of France?", key="capital_question")
        await ctx.roots(key="client_roots")
        return "asked"

    @server.tool
    async def asking_of_old(ctx: Context) -> str:
        await ctx.sample("Capital of France?", key="capital_question")
        await ctx.roots(key="client_roots")
        return "asked"

    server.resource("x://text", title="Text", size=4, mime_type="text/plain")(lambda: "text")
    server.resource("x://blob")(lambda: b"blob")
    server.resource("x://{number}/data", title="Data")(lambda number: {"number": number})
    server.prompt(name="say", title="Say")(lambda words: words)
    server.completion("say", "words")(lambda typed: [typed])
    return server


ASKED: list[tuple[str, Message]] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    *(("tools/call", {"name": name}) for name in ("text", "blocks", "structured", "numbers", "failing")),
    ("tools/call", {"name": "text", "arguments": {"no": 1}}),
    *(("resources/read", {"uri": uri}) for uri in ("x://text", "x://blob", "x://7/data")),
    ("prompts/get", {"name": "say", "arguments": {"words": "hi"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "say"}, "argument": {"name": "words", "value": "h"}}),
]  # fmt: skip

OF_THE_HANDSHAKE: list[tuple[str, Message]] = [
    ("ping", {}),
    ("logging/setLevel", {"level": "debug"}),
    ("resources/subscribe", {"uri": "x://text"}),
    ("resources/unsubscribe", {"uri": "x://blob"}),
]

REFUSED: list[tuple[str, Message]] = [
    ("tools/call", {"name": "nothing"}),
    ("tools/list", {"cursor": "made up"}),
    ("resources/read", {"uri": "x://nothing"}),
    ("prompts/get", {"name": "nothing"}),
    ("prompts/get", {"name": "say"}),
    ("no/such", {}),
    ("initialize", {"protocolVersion": "2025-11-25"}),
]

UNREADABLE = (b"{", b"[1]", b'{"jsonrpc":"2.0"}', b"\xff")

ANSWERS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
    },
    "roots/list": {"roots": []},
}


async def all_that_is_said(version: str) -> list[Said]:
    """The conversation, and every message that the server sent in it."""
    server, methods = everything(), {}
    async with talking(server, version, CAPABILITIES, is_fresh=True) as peer:
        heard = peer.heard

        async def ask(method: str, params: Message, id: Any = None) -> Message:
            meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
            sent = peer.ask(method, {**params, "_meta": meta}, id=id)
            methods[sent] = method
            return await peer.answer(sent)

        await begin(peer, methods)
        for method, params in ASKED + (OF_THE_HANDSHAKE if version != STATELESS else []):
            answer = await ask(method, params)
            assert "result" in answer, (method, answer)
            if "nextCursor" in answer["result"]:
                await ask(method, {"cursor": answer["result"]["nextCursor"]})
        await ask_back(peer, ask, "asking" if version >= "2025-06-18" else "asking_of_old")
        for method, params in REFUSED:
            assert "error" in await ask(method, params), method
        before = len(heard)
        for frame in UNREADABLE:
            peer.say(frame)
        if version == "2025-03-26":
            methods["b1"] = methods["b2"] = "ping"
            peer.say([{"jsonrpc": "2.0", "id": id, "method": "ping"} for id in ("b1", "b2")])
        await ask("tools/list", {})
        assert len(heard) >= before + len(UNREADABLE) + 1
        server.remove_tool("text")
        server.remove_prompt("say")
        server.notify_resource_updated("x://text")
        server.remove_resource("x://text")
        wanted = {"tools/list_changed", "prompts/list_changed", "resources/list_changed", "resources/updated"}
        await peer.until(
            lambda: wanted <= {note["method"].removeprefix("notifications/") for note in peer.notes}
        )
        running = (
            peer.ask("tools/call", {"name": "asking_of_old"}, id="last") if version != STATELESS else None
        )
        if running is not None:
            methods[running] = "tools/call"
            await peer.question()
        server.drain()
        if running is not None:
            assert "error" in await ask("tools/list", {}, "refused")
            peer.notify("notifications/cancelled", {"requestId": running})
        await peer.ended()
    return [said for frame in heard for said in classify(frame, methods)]


async def begin(peer: Peer, methods: dict[Any, str]) -> None:
    """The handshake; or discovery, a request that is not supported, and a subscription to everything."""
    if peer.version != STATELESS:
        await peer.initialize()
        methods["r1"] = "initialize"
        return
    for id, params in (
        ("d", {}),
        ("u", {"_meta": {"io.modelcontextprotocol/protocolVersion": "1999-01-01"}}),
    ):
        methods[id] = "server/discover"
        await peer.answer(peer.ask("server/discover", params, id=id))
    wanted = {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["x://text"],
    }
    methods["s"] = "subscriptions/listen"
    peer.ask("subscriptions/listen", {"notifications": wanted}, id="s")
    await peer.until(lambda: peer.notes)
    declared, peer.capabilities = peer.capabilities, {}
    methods["undeclared"] = "tools/call"
    await peer.answer(peer.ask("tools/call", {"name": "asking"}, id="undeclared"))
    peer.capabilities = declared
    methods["bare"] = "tools/list"
    peer.say({"jsonrpc": "2.0", "id": "bare", "method": "tools/list"})
    await peer.answer("bare")


async def ask_back(peer: Peer, ask: Any, tool: str) -> None:
    """A tool that asks the client: by requests, or by results that want an answer."""
    params: Message = {"name": tool}
    if peer.version == STATELESS:
        answer = await ask("tools/call", params)
        while "inputRequests" in answer["result"]:
            asked = answer["result"]["inputRequests"]
            responses = {key: ANSWERS[one["method"]] for key, one in asked.items()}
            state = answer["result"]["requestState"]
            answer = await ask("tools/call", {**params, "inputResponses": responses, "requestState": state})
    else:
        id = peer.ask("tools/call", params, id="asks")
        for _ in range(3 if tool == "asking" else 2):
            question = await peer.question()
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": ANSWERS[question["method"]]})
        answer = await peer.answer(id)
    assert answer["result"]["content"][0]["text"] == "asked"


def classify(frame: Any, methods: dict[Any, str]) -> list[Said]:
    """What a frame is; of an array, each of its members."""
    if isinstance(frame, list):
        return [said for member in frame for said in classify(member, methods)]
    if "method" in frame:
        return [Said("request" if "id" in frame else "notification", frame["method"], frame)]
    method = methods.get(frame.get("id"), "tools/call" if frame.get("id") == "asks" else "")
    if "result" in frame:
        return [Said("result", method, frame)]
    return [Said("error", method, frame, is_exempt=frame.get("id") is None)]
