"""A small stdio MCP server without dependencies, for tests of the command line and the APIs.

Its revision is 2025-11-25, or with `--stateless` 2026-07-28; it has well-behaved and misbehaving tools.
`--ledger=FILE` gets a line for each received message; a named pipe makes a test wait for it.
"""

import json
import os
import signal
import sys
import threading

STATELESS = "--stateless" in sys.argv
LEDGER = next((argument[9:] for argument in sys.argv if argument.startswith("--ledger=")), None)
LOCK = threading.Lock()
ESCAPE = "\x1b[31mred\x1b[0m"


def schema(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required)}


STRING, INTEGER = {"type": "string"}, {"type": "integer"}
TOOLS = [
    {
        "name": "greet",
        "description": "Greets somebody.\n\nIn a few words.",
        "inputSchema": schema(["who"], who=STRING),
    },
    {
        "name": "echo",
        "title": "Echo",
        "description": "Gives back what it was given. " + "It does so without a change of any kind. " * 4,
        "inputSchema": schema(
            ["text"],
            text=STRING,
            count=INTEGER,
            ratio={"type": "number"},
            flag={"type": "boolean"},
            tags={"type": "array", "items": STRING},
            more={"anyOf": [STRING, {"type": "null"}]},
        ),
    },
    {"name": "fail", "description": f"Fails, {ESCAPE}.", "inputSchema": schema(why=STRING)},
    {"name": "refuse", "inputSchema": schema()},
    {"name": "work", "description": "Reports progress.", "inputSchema": schema(steps=INTEGER)},
    {"name": "hang", "description": "Never answers.", "inputSchema": schema()},
    {"name": "die", "description": "Ends the process.", "inputSchema": schema()},
    {"name": "picture", "description": "Gives many kinds.", "inputSchema": schema()},
    {"name": "data", "description": "Gives structure only.", "inputSchema": schema()},
    {"name": "nothing", "description": "Gives nothing.", "inputSchema": schema()},
    {"name": "change", "description": "Changes the list of tools.", "inputSchema": schema()},
    {"name": "environment", "description": "Names its variables.", "inputSchema": schema()},
]
RESOURCES = [
    {"uri": "note://1", "name": "first", "description": "A note.", "mimeType": "text/plain", "size": 5},
    {"uri": "bytes://1", "name": "bytes"},
]
TEMPLATES = [{"uriTemplate": "note://{id}", "name": "notes", "description": "Any note."}]
PROMPTS = [
    {
        "name": "review",
        "description": "Reviews code.",
        "arguments": [{"name": "code", "required": True}, {"name": "style"}],
    }
]
CAPABILITIES = {
    "tools": {"listChanged": True},
    "resources": {"subscribe": True},
    "prompts": {},
    "logging": {},
}
for name in [argument[10:] for argument in sys.argv if argument.startswith("--without=")]:
    CAPABILITIES.pop(name)


class Refusal(Exception):
    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


def send(message):
    with LOCK:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def text(value, **more):
    return {"content": [{"type": "text", "text": value}], **more}


def call(params, token):
    name, given = params["name"], params.get("arguments", {})
    if name == "greet":
        return text(f"{os.environ.get('PEER_GREETING', 'hi')}, {given['who']}")
    if name == "echo":
        return text(json.dumps(given, sort_keys=True))
    if name == "fail":
        return text(f"it failed: {given.get('why', 'no reason')}", isError=True)
    if name == "work":
        for step in range(given.get("steps", 2)):
            report = {
                "progressToken": token,
                "progress": step,
                "total": given.get("steps", 2),
                "message": f"step {step}",
            }
            send({"method": "notifications/progress", "params": report})
        return text("worked")
    if name == "hang":
        return None
    if name == "die":
        print("out of memory", "killed", sep="\n", file=sys.stderr, flush=True)
        os._exit(9)
    if name == "picture":
        blocks = [
            {"type": "text", "text": ESCAPE},
            {"type": "image", "data": "AAAA", "mimeType": "image/png"},
            {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "note://1", "name": "first"},
            {"type": "resource", "resource": {"uri": "note://2", "text": "inside"}},
            {"type": "resource", "resource": {"uri": "bytes://2", "blob": "AAAA"}},
            {"type": "hologram", "x": 1},
        ]
        return {"content": blocks}
    if name == "data":
        return {"content": [], "structuredContent": {"a": [1, 2]}}
    if name == "nothing":
        return {"content": []}
    if name == "change":
        send({"method": "notifications/tools/list_changed"})
        send(
            {
                "method": "notifications/message",
                "params": {"level": "warning", "logger": "peer", "data": ESCAPE},
            }
        )
        return text("changed")
    if name == "environment":
        return text(str(os.getpid()) if given.get("pid") else " ".join(sorted(os.environ)))
    raise Refusal(-32602, f"cannot do {name}")


def read(params):
    uri = params["uri"]
    if uri == "bytes://1":
        return {"contents": [{"uri": uri, "blob": "AAECAwQ=", "mimeType": "application/octet-stream"}]}
    if uri.startswith("note://"):
        return {"contents": [{"uri": uri, "text": f"note {uri[7:]} {ESCAPE}"}]}
    raise Refusal(-32002, f"no resource {uri}")


def answer(method, params):
    if method == "initialize" and not STATELESS:
        info = {"name": "peer", "version": "1.0"}
        return {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "serverInfo": info}
    if method == "server/discover" and STATELESS:
        info = {"io.modelcontextprotocol/serverInfo": {"name": "peer", "version": "1.0"}}
        return {
            "supportedVersions": ["2026-07-28"],
            "capabilities": CAPABILITIES,
            "_meta": {} if "--nameless" in sys.argv else info,
            "ttlMs": 0,
            "cacheScope": "private",
        }
    if method == "tools/list":
        return {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"}
    if method == "tools/call":
        return call(params, params.get("_meta", {}).get("progressToken"))
    if method == "resources/list":
        resources = [] if "--no-resources" in sys.argv else RESOURCES
        return {"resources": resources, "ttlMs": 0, "cacheScope": "private"}
    if method == "resources/templates/list":
        for argument in sys.argv:
            if argument.startswith("--no-templates="):
                raise Refusal(int(argument[15:]), "no templates")
        return {"resourceTemplates": TEMPLATES, "ttlMs": 0, "cacheScope": "private"}
    if method == "resources/read":
        return {**read(params), "ttlMs": 0, "cacheScope": "private"}
    if method == "resources/subscribe" and not STATELESS:
        if "--chatty" in sys.argv:
            call({"name": "change"}, None)
        send({"method": "notifications/resources/updated", "params": {"uri": params["uri"]}})
        return {}
    if method == "prompts/list":
        prompts = [] if "--no-prompts" in sys.argv else PROMPTS
        return {"prompts": prompts, "ttlMs": 0, "cacheScope": "private"}
    if method == "ping" and not STATELESS:
        return {}
    raise Refusal(-32601, f"no method {method}")


def main():
    if "--silent" in sys.argv:
        signal.pause()
    if "--broken" in sys.argv:
        sys.exit("cannot find its settings")
    ledger = open(LEDGER or os.devnull, "a", buffering=1)  # noqa: SIM115 (as long as the process)
    for line in sys.stdin:
        message = json.loads(line)
        ledger.write(json.dumps(message) + "\n")
        if "--noisy" in sys.argv and message.get("method") == "notifications/initialized":
            print("Server started!", flush=True)
        if "id" not in message or "method" not in message:
            continue
        try:
            result = answer(message["method"], message.get("params", {}))
        except Refusal as refusal:
            send({"id": message["id"], "error": {"code": refusal.code, "message": str(refusal)}})
        else:
            if result is not None:
                if STATELESS:
                    result = {"resultType": "complete", **result}
                send({"id": message["id"], "result": result})
            if "--fragile" in sys.argv and message["method"] == "resources/subscribe":
                sys.exit("not again")


main()
