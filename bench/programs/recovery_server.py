"""A minimal handshake-era server: `where` returns the process id, `hang` writes to the ledger and never responds."""

import json
import os
import sys

TOOLS = [{"name": name, "inputSchema": {"type": "object"}} for name in ("where", "hang")]


def result_of(method: str, params: dict[str, object]) -> dict[str, object] | None:
    """Return the result of a request; None if there is never a response."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "recovery", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call" and params["name"] == "where":
        return {"content": [{"type": "text", "text": str(os.getpid())}]}
    if method == "tools/call":
        with open(sys.argv[1], "a", encoding="utf-8") as ledger:
            ledger.write("began\n")
        return None
    return {}


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    reply: dict[str, object] = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "server/discover":
        reply["error"] = {"code": -32601, "message": "Method not found"}
    else:
        answer = result_of(message["method"], message.get("params") or {})
        if answer is None:
            continue
        reply["result"] = answer
    print(json.dumps(reply), flush=True)
