"""A stdio MCP server in plain Python that records every call and misbehaves on request: `server.py LEDGER`.

`tools/call` carries a nonce and a fault; the nonce is appended to LEDGER before anything else, so that outcomes can be
compared with it. It supports connections with and without a handshake.
"""

import json
import os
import random
import signal
import sys
import threading

LEDGER = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
LARGE_LINE = 200_000  # above the frame limit of the clients
GARBAGE = (b"DEBUG: entering handler", b"{not json", b"[]", b"\xff\xfe\x00garbage", b'{"jsonrpc":"2.0"}', b"")
RNG = random.Random(os.getpid())
WRITING = threading.Lock()


def send(message: object) -> None:
    write(json.dumps(message).encode() + b"\n")


def write(data: bytes) -> None:
    with WRITING:
        while data:
            data = data[os.write(1, data) :]


def answer(id: object, text: str) -> None:
    send(
        {
            "jsonrpc": "2.0",
            "id": id,
            "result": {"content": [{"type": "text", "text": text}], "resultType": "complete"},
        }
    )


def run(id: object, nonce: str, fault: str) -> None:
    """Record the call, then respond according to its fault."""
    if fault == "ignored":
        return
    os.write(LEDGER, nonce.encode() + b"\n")
    if fault == "never":
        return
    if fault == "half_line":
        write(b'{"jsonrpc":"2.0","id":')
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "exit":
        os._exit(3)
    elif fault == "garbage":
        write(RNG.choice(GARBAGE) + b"\n")
    elif fault == "too_much_garbage":
        write(b"this is not JSON\n" * 30)
    elif fault == "oversize":
        write(b'"' + b"x" * LARGE_LINE + b'"\n')
    elif fault == "stderr":
        os.write(2, (b"e" * 99 + b"\n") * 2_000)
    elif fault == "unknown_id":
        answer(987_654_321, nonce)
    elif fault == "reset":
        send({"jsonrpc": "2.0", "method": "notifications/reset"})
    elif fault == "second_initialize":
        send({"jsonrpc": "2.0", "id": "again", "method": "initialize", "params": {}})
    elif fault == "close_stdout":
        os.close(1)
        return
    elif fault == "close_stdin":
        os.close(0)
    elif fault == "slow":
        threading.Timer(RNG.uniform(0.05, 0.6), answer, (id, nonce)).start()
        return
    elif fault == "answer_and_exit":
        answer(id, nonce)
        os._exit(0)
    if fault == "trickle":
        frame = {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": nonce}]}}
        for byte in json.dumps(frame).encode() + b"\n":
            os.write(1, bytes([byte]))
        return
    answer(id, nonce)
    if fault == "twice":
        answer(id, nonce + " again")


TOOL = {"name": "record", "inputSchema": {"type": "object"}}
TOOLS = [TOOL, {**TOOL, "name": "read", "annotations": {"readOnlyHint": True}}]


def main() -> None:
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id, params = message.get("method"), message.get("id"), message.get("params") or {}
        if method == "tools/call":
            run(id, params["arguments"]["nonce"], params["arguments"].get("fault", ""))
        elif method == "initialize":
            result = {"protocolVersion": params["protocolVersion"], "capabilities": {"tools": {}},
                      "serverInfo": {"name": "ledger", "version": "1"}}  # fmt: skip
            send({"jsonrpc": "2.0", "id": id, "result": result})
        elif method == "server/discover":
            result = {
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {}},
                "resultType": "complete",
            }
            send({"jsonrpc": "2.0", "id": id, "result": result})
        elif method == "tools/list":
            send({"jsonrpc": "2.0", "id": id, "result": {"tools": TOOLS, "resultType": "complete"}})
        elif method == "ping":
            send({"jsonrpc": "2.0", "id": id, "result": {}})
        elif id is not None and method is not None:
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})


try:
    main()
except OSError:
    os._exit(1)  # a descriptor that a fault has closed
