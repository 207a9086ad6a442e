"""A small MCP server in plain Python that misbehaves on request: `working.py MODE [DIRECTORY]`.

Its tools misbehave by name, its modes from the start. In DIRECTORY it keeps a ledger, one line per run of `record`, and
writes its process id to `pid`.
"""

import json
import os
import signal
import sys

MODE = sys.argv[1]
DIRECTORY = sys.argv[2] if len(sys.argv) > 2 else ""


LATE: list[object] = []  # ids of calls that are answered after their cancellation


def send(message: object) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(1, data) :]


def answer(id: object, text: str) -> None:
    send({"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}]}})


def run(id: object, name: str, arguments: dict[str, str]) -> None:
    if name in ("record", "record_and_hang"):
        ledger = os.open(f"{DIRECTORY}/ledger", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(ledger, arguments["nonce"].encode() + b"\n")
        os.close(ledger)
        if name == "record":
            answer(id, arguments["nonce"])
    elif name == "answer_and_die":
        answer(id, "last result")
        os._exit(3)
    elif name == "die":
        os.write(2, b"Traceback: internal failure\n")
        os._exit(7)
    elif name == "die_in_a_frame":
        os.write(1, b'{"jsonrpc":"2.0","id":')
        os.kill(os.getpid(), signal.SIGKILL)
    elif name == "leave_a_grandchild_and_die":
        reader, writer = os.pipe()
        if os.fork() == 0:
            with open(f"{DIRECTORY}/grandchild", "w") as file:
                file.write(str(os.getpid()))
            os.close(writer)
            signal.pause()
        os.close(writer)
        os.read(reader, 1)
        os._exit(5)
    elif name == "flood_stderr":
        for _ in range(1024):
            os.write(2, b"e" * 1023 + b"\n")
        answer(id, "still here")
    elif name == "print":
        os.write(1, b"Warning: this is not JSON\n\x1b[31mnor this\x1b[0m\n\xff\xfe\n")
        answer(id, "printed")
    elif name == "long":
        answer(id, "x" * int(arguments["size"]))
    elif name == "twice":
        answer(id, "first")
        answer(id, "second")
    elif name != "hang":
        answer_badly(id, name, arguments)


def answer_badly(id: object, name: str, arguments: dict[str, str]) -> None:
    if name == "exit_at_byte":
        text = {"content": [{"type": "text", "text": "half"}]}
        frame = json.dumps({"jsonrpc": "2.0", "id": id, "result": text}).encode() + b"\n"
        size = int(arguments["at"]) % (len(frame) + 1)  # -1: all of it
        while size:
            size -= os.write(1, frame[:size])
        os._exit(4)
    elif name == "trickle":
        text = {"content": [{"type": "text", "text": "byte by byte"}]}
        for byte in json.dumps({"jsonrpc": "2.0", "id": id, "result": text}).encode() + b"\n":
            os.write(1, bytes([byte]))
    elif name == "late":
        LATE.append(id)
    elif name == "close_stdout":
        os.close(1)
    elif name == "stop_reading":
        answer(id, "not reading any more")
        signal.pause()
    else:
        answer(id, name)


def main() -> None:
    if MODE == "exits":
        os.write(2, b"no configuration found\n")
        os._exit(2)
    if MODE == "ignores_sigterm":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if MODE == "prints":
        os.write(1, b"Listening on stdio\n" * 5)
    if MODE == "reads_nothing":
        signal.pause()
    if DIRECTORY:
        with open(f"{DIRECTORY}/pid.new", "w") as file:
            file.write(str(os.getpid()))
        os.rename(f"{DIRECTORY}/pid.new", f"{DIRECTORY}/pid")
    for line in sys.stdin.buffer:
        message = json.loads(line)
        method, id = message.get("method"), message.get("id")
        if MODE == "never_answers" or (MODE == "ignores_the_probe" and method == "server/discover"):
            continue
        if MODE == "stateless" and method == "server/discover":
            found = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            send({"jsonrpc": "2.0", "id": id, "result": {"resultType": "complete", **found}})
        elif method == "initialize" and MODE != "stateless":
            info = {"name": "working", "version": "1"}
            version = message["params"]["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            send({"jsonrpc": "2.0", "id": id, "result": result})
        elif method == "tools/call":
            run(id, message["params"]["name"], message["params"].get("arguments", {}))
        elif method == "notifications/cancelled" and LATE:
            answer(LATE.pop(), "too late")
        elif method == "ping":
            send({"jsonrpc": "2.0", "id": id, "result": {}})
        elif id is not None and MODE != "dies_of_the_probe":
            send({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no such method"}})
        elif id is not None:
            os._exit(1)
    if MODE == "ignores_sigterm":
        while True:
            signal.pause()


main()
