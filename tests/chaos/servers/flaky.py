"""A stdio server in plain Python that crashes at every 20th call, hangs in given calls, and prints invalid lines.

`python flaky.py DIRECTORY NONCE...`: the calls with these nonces hang, each once. Calls and faults are appended to
files in DIRECTORY, which outlive the process.
"""

import json
import os
import sys
import time
from pathlib import Path

DIRECTORY, HANGS = Path(sys.argv[1]), set(sys.argv[2:])
TOOLS = [
    {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
    {"name": "pay", "inputSchema": {"type": "object"}},
]


def record(name, line):
    """Append a line and flush it to disk."""
    with open(DIRECTORY / name, "a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())


def recorded(name):
    path = DIRECTORY / name
    return path.read_text().splitlines() if path.exists() else []


def call(params):
    nonce = params["arguments"]["nonce"]
    record("calls", nonce)
    number = len(recorded("calls"))
    is_hanging = nonce in HANGS and nonce not in recorded("faults")
    is_crashing = number % 20 == 0
    if is_hanging or is_crashing:
        record("faults", nonce)
    if (number // 20) % 2 or not is_crashing:  # every second crash happens before the call runs
        record("ran", nonce)
    if is_crashing:
        os._exit(3)
    if is_hanging:
        time.sleep(1_000)
    if number % 8 == 1:
        record("invalid_lines", nonce)
        print("DEBUG: entering handler, {not json", flush=True)
    return {"content": [{"type": "text", "text": nonce}]}


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        info = {"name": "flaky", "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        return {"tools": TOOLS}
    if method == "tools/call":
        return call(params)
    return {} if method == "ping" else None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result = answer(message)
    body = {"error": {"code": -32601, "message": "no such method"}} if result is None else {"result": result}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)
