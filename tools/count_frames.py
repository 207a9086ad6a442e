"""Count the Python frames of jackstay that one warm `tools/call` over stdio enters; `--client` counts the client's.

A frame is one 'call' event of `sys.setprofile`: a function call, or a resumed coroutine. The result is the difference
between a run with many calls and one with few, per call.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

from jackstay import Server, connect, stdio

SOURCE = f"{Path(sys.modules['jackstay'].__file__ or '').parent}/"
REVISIONS = ("2025-11-25", "2026-07-28")
WARM_UP, CALLS = 20, 20

INITIALIZE: dict[str, object] = {
    "protocolVersion": REVISIONS[0],
    "capabilities": {},
    "clientInfo": {"name": "count", "version": "1"},
}
META = {
    "io.modelcontextprotocol/protocolVersion": REVISIONS[1],
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "count", "version": "1"},
}


class Recorder:
    """Counts frames by file and function."""

    def __init__(self) -> None:
        self.frames: Counter[str] = Counter()

    def profile(self, frame: FrameType, event: str, _: object) -> None:
        """Count an event of `sys.setprofile`."""
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(SOURCE):
            self.frames[f"{code.co_filename.removeprefix(SOURCE)} {code.co_qualname}"] += 1


def serve() -> None:
    """Serve `echo` over stdio, and write the counted frames to stderr at the end."""
    server = Server("count")

    @server.tool
    async def echo(text: str) -> str:
        return text

    recorder = Recorder()
    sys.setprofile(recorder.profile)
    server.run()
    sys.setprofile(None)
    json.dump(recorder.frames, sys.stderr)


def run_server(revision: str, calls: int) -> Counter[str]:
    """Return the frames of a server for this many calls, one at a time."""
    child = subprocess.Popen(
        [sys.executable, __file__, "--serve"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert child.stdin is not None
    assert child.stdout is not None

    def send(message: dict[str, object]) -> None:
        assert child.stdin is not None
        child.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        child.stdin.flush()

    params: dict[str, object] = {"name": "echo", "arguments": {"text": "hello"}}
    if revision == REVISIONS[0]:
        send({"id": 0, "method": "initialize", "params": INITIALIZE})
        child.stdout.readline()
        send({"method": "notifications/initialized"})
    else:
        params["_meta"] = META
    for number in range(1, calls + 1):
        send({"id": number, "method": "tools/call", "params": params})
        assert b'"hello"' in child.stdout.readline()
    return Counter(json.loads(child.communicate()[1]))


async def run_client(revision: str, calls: int) -> Counter[str]:
    """Return the frames of a client for this many calls, one at a time."""
    recorder = Recorder()
    async with connect(stdio(sys.executable, __file__, "--serve"), versions=(revision,)) as client:
        sys.setprofile(recorder.profile)
        for _ in range(calls):
            await client.tools.call("echo", {"text": "hello"})
        sys.setprofile(None)
    return recorder.frames


def frames_per_call(side: str, revision: str) -> dict[str, float]:
    """Return the frames of one warm call on a side, `client` or `server`, by file and function."""
    few, many = (
        asyncio.run(run_client(revision, calls)) if side == "client" else run_server(revision, calls)
        for calls in (WARM_UP, WARM_UP + CALLS)
    )
    return {name: (count - few[name]) / CALLS for name, count in many.items() if count != few[name]}


def main(words: list[str]) -> int:
    """Count and print."""
    if words == ["--serve"]:
        serve()
        return 0
    side = "client" if "--client" in words else "server"
    for revision in REVISIONS:
        rows = frames_per_call(side, revision)
        files = {name.partition(" ")[0] for name in rows}
        print(f"{side}, {revision}: {sum(rows.values()):g} frames of {len(rows)} functions in {len(files)} files")
        for name, count in rows.items():
            print(f"  {count:5g}  {name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
