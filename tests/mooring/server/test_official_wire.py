"""Every result and notification of a conversation is what the official models of its revision say."""

import json
from types import ModuleType
from typing import Any

import mcp_types._v2025_11_25 as v2025
import mcp_types._v2026_07_28 as v2026
import pydantic
import pytest

from chaos.servers_own.conversation import STATELESS, Peer, run, talking
from mooring.protocol import METHODS
from mooring.server import Audio, Context, Image, Server
from mooring.types import EmbeddedResource, ResourceLink, TextResourceContents

MODELS = {"2025-11-25": v2025, STATELESS: v2026}
CAPABILITIES = {"elicitation": {"form": {}, "url": {}}, "sampling": {}, "roots": {}}


def everything() -> Server:
    """One of everything."""
    server = Server("everything", version="1.0", title="Everything", instructions="All of it.")

    @server.tool(title="Text", read_only=True, icons=["https://example.org/i.png"])
    async def text(ctx: Context) -> str:
        ctx.progress(1, 2, "half")
        ctx.log("info", {"n": 1}, logger="mine")
        return "text"

    @server.tool
    def blocks() -> list[Any]:
        contents = TextResourceContents(uri="x://y", text="y")
        link = ResourceLink(uri="x://y", name="y")
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
    async def failing() -> None:
        raise ValueError("x")

    @server.tool
    async def asking(ctx: Context) -> str:
        await ctx.elicit(
            "who?", {"type": "object", "properties": {"name": {"type": "string"}}}, key="user_name"
        )
        await ctx.sample("Capital of France?", key="capital_question")
        await ctx.roots(key="client_roots")
        return "asked"

    server.resource("x://text", title="Text", size=4)(lambda: "text")
    server.resource("x://blob")(lambda: b"blob")
    server.resource("x://{number}/data")(lambda number: {"number": number})
    server.prompt(name="say", title="Say")(lambda words: words)
    server.completion("say", "words")(lambda typed: [typed])
    return server


ASKED: list[tuple[str, dict[str, Any]]] = [
    ("tools/list", {}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("prompts/list", {}),
    *(("tools/call", {"name": name}) for name in ("text", "blocks", "structured", "failing")),
    *(("resources/read", {"uri": uri}) for uri in ("x://text", "x://blob", "x://7/data")),
    ("prompts/get", {"name": "say", "arguments": {"words": "hi"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "say"}, "argument": {"name": "words", "value": "h"}}),
]  # fmt: skip

ANSWERS: dict[str, Any] = {
    "elicitation/create": {"action": "accept", "content": {"name": "Ada"}},
    "sampling/createMessage": {
        "role": "assistant",
        "content": {"type": "text", "text": "Paris"},
        "model": "m",
    },
    "roots/list": {"roots": []},
}


def check(models: ModuleType, name: str, value: Any) -> None:
    pydantic.TypeAdapter(getattr(models, name)).validate_json(json.dumps(value))


async def ask_everything(peer: Peer, models: ModuleType) -> None:
    params: dict[str, Any] = {"name": "asking"}
    if peer.version != STATELESS:
        id = peer.ask("tools/call", params)
        for _ in ANSWERS:
            question = await peer.question()
            check(models, METHODS[question["method"]].params, question.get("params", {}))
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": ANSWERS[question["method"]]})
        check(models, "CallToolResult", (await peer.answer(id))["result"])
        return
    result = await peer.result("tools/call", params)
    for _ in ANSWERS:
        check(models, "InputRequiredResult", result)
        responses = {key: ANSWERS[asked["method"]] for key, asked in result["inputRequests"].items()}
        again = {**params, "inputResponses": responses, "requestState": result["requestState"]}
        result = await peer.result("tools/call", again)
    check(models, "CallToolResult", result)


@pytest.mark.parametrize("version", MODELS)
def test_everything_that_is_sent_is_official(version: str) -> None:
    models = MODELS[version]

    async def test() -> None:
        server = everything()
        async with talking(server, version, CAPABILITIES, is_fresh=True) as peer:
            if version == STATELESS:
                check(models, "DiscoverResult", await peer.result("server/discover"))
                peer.ask("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, id="s")
                await peer.until(lambda: peer.notes)
            else:
                check(models, "InitializeResult", await peer.initialize())
            for method, params in ASKED:
                meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
                result = await peer.result(method, {**params, "_meta": meta})
                check(models, METHODS[method].result, result)
            await ask_everything(peer, models)
            server.remove_tool("text")
            await peer.until(lambda: [n for n in peer.notes if "list_changed" in n["method"]])
            server.drain()
            if version == STATELESS:
                check(models, "SubscriptionsListenResult", (await peer.answer("s"))["result"])
            heard = {note["method"] for note in peer.notes}
            assert {
                "notifications/progress",
                "notifications/message",
                "notifications/tools/list_changed",
            } <= heard
            for note in peer.notes:
                check(models, METHODS[note["method"]].params, note.get("params", {}))

    run(test)
