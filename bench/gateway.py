"""Gateways in front of 20 servers with 50 tools each: lists, calls, added latency and memory, in one interleaved run.

python bench/gateway.py        or: make bench ONLY=gateway
"""

# The servers are `programs/limit_server.py` over stdio, 20 processes for each gateway. The load is raw HTTP on one
# kept connection, with revision 2025-11-25. mcp-proxy has no catalogue: a list is the sum of 20 lists.

import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from _measure import Sample, format_seconds, interleave, print_platform
from _peers import python_of

HERE = Path(__file__).resolve().parent
PROGRAMS = HERE / "programs"
LIMIT = [sys.executable, str(PROGRAMS / "limit_server.py"), "--tools", "49"]
ROUNDS = int(os.environ.get("ROUNDS", "5"))
SERVERS, TOOLS = 20, 50
CALLS = 50
START_TIMEOUT = 180.0


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


class Session:
    """A session of the handshake era with one endpoint, over one kept connection."""

    def __init__(self, port: int, path: str) -> None:
        self.port, self.path = port, path
        self._connect()
        self.headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            "Host": f"127.0.0.1:{port}",
        }
        info = {"name": "bench", "version": "1"}
        self.request("initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": info})
        self.headers["MCP-Protocol-Version"] = "2025-11-25"
        self._post({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _connect(self) -> None:
        # A socket, because `http` is the name of another benchmark.
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.stream = connection.makefile("rwb")

    def _post(self, message: dict[str, Any]) -> bytes:
        body = json.dumps(message).encode()
        headers = "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        head = f"POST {self.path} HTTP/1.1\r\n{headers}Content-Length: {len(body)}\r\n\r\n"
        try:
            status_line = self._send(head.encode() + body)
        except OSError:
            status_line = b""
        if not status_line:  # uvicorn closes idle connections after 5 s
            self._connect()
            status_line = self._send(head.encode() + body)
        status = int(status_line.split()[1])
        found: dict[str, str] = {}
        while (line := self.stream.readline().strip()) != b"":
            name, _, value = line.decode().partition(":")
            found[name.lower()] = value.strip()
        answer = self._read_body(found)
        if "mcp-session-id" in found:
            self.headers["Mcp-Session-Id"] = found["mcp-session-id"]
        if status >= 400:
            raise SystemExit(f"{self.path}: HTTP {status}: {answer[:200]!r}")
        return answer

    def _send(self, request: bytes) -> bytes:
        self.stream.write(request)
        self.stream.flush()
        return self.stream.readline()

    def _read_body(self, headers: dict[str, str]) -> bytes:
        if headers.get("transfer-encoding") != "chunked":
            return self.stream.read(int(headers.get("content-length", "0")))
        body = b""
        while size := int(self.stream.readline(), 16):
            body += self.stream.read(size)
            self.stream.readline()
        self.stream.readline()
        return body

    def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Return the result of a request."""
        body = self._post({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        if not body.startswith(b"{"):  # an event stream: the last event has the response
            body = [line[5:] for line in body.splitlines() if line.startswith(b"data:") and len(line) > 6][-1]
        message = json.loads(body)
        if "result" not in message:
            raise SystemExit(f"{self.path}: {message}")
        result: dict[str, Any] = message["result"]
        return result

    def tools(self) -> list[str]:
        """Return the names of all tools, of all pages."""
        names: list[str] = []
        params: dict[str, Any] = {}
        while True:
            page = self.request("tools/list", params)
            names += [tool["name"] for tool in page["tools"]]
            if not page.get("nextCursor"):
                return names
            params = {"cursor": page["nextCursor"]}

    def call(self, name: str) -> None:
        """Call echo."""
        result = self.request("tools/call", {"name": name, "arguments": {"text": "hello"}})
        if result.get("isError") or result["content"][0]["text"] != "hello":
            raise SystemExit(f"{self.path}: {result}")


class Gateway:
    """A gateway process with its servers. `paths` are the endpoints whose lists are the whole catalogue."""

    def __init__(self, command: list[str], port: int, paths: list[str], echo: str) -> None:
        # Not in this folder: `http` there is a benchmark.
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, cwd=HERE.parent)
        self.port, self.echo = port, echo
        self._wait_until_up()
        self.sessions = [Session(port, path) for path in paths]
        self.started = time.perf_counter()
        while len(self.list()) < SERVERS * TOOLS:
            if time.perf_counter() - self.started > START_TIMEOUT:
                raise SystemExit(f"{command}: {len(self.list())} tools are listed, not {SERVERS * TOOLS}")

    def _wait_until_up(self) -> None:
        end = time.monotonic() + START_TIMEOUT
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > end or self.child.poll() is not None:
                    raise SystemExit(f"{self.child.args} does not listen") from None
                time.sleep(0.05)

    def list(self) -> "list[str]":
        """Return the names of all tools."""
        return [name for session in self.sessions for name in session.tools()]

    def rss(self) -> float:
        """Return the resident memory of the gateway itself in MiB, without its servers."""
        status = Path(f"/proc/{self.child.pid}/status").read_text(encoding="ascii")
        return int(status.split("VmRSS:")[1].split()[0]) / 1024

    def stop(self) -> None:
        self.child.terminate()
        try:
            self.child.wait(20)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()


class Direct:
    """One of the servers, without a gateway: the base of the added latency."""

    def __init__(self) -> None:
        self.child = subprocess.Popen(LIMIT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        params = {"name": "echo", "arguments": {"text": "hello"}}
        self.frame = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode() + b"\n"

    def call(self) -> None:
        assert self.child.stdin is not None
        assert self.child.stdout is not None
        self.child.stdin.write(self.frame)
        self.child.stdin.flush()
        self.child.stdout.readline()

    def stop(self) -> None:
        self.child.kill()
        self.child.wait()


def start(folder: Path) -> dict[str, Gateway]:
    """Start all gateways, one after the other."""
    names = [f"s{number}" for number in range(SERVERS)]
    file = folder / "mcp.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": LIMIT[0], "args": LIMIT[1:]} for name in names}}))
    gateways: dict[str, Gateway] = {}
    port = free_port()
    jackstay = [sys.executable, "-m", "jackstay", "gateway", str(file), "--http", str(port)]
    gateways["jackstay"] = Gateway(jackstay, port, ["/mcp"], "s7_echo")
    port = free_port()
    fastmcp = [python_of("fastmcp-4.1.2"), str(PROGRAMS / "gateway_fastmcp.py"), str(file), str(port)]
    gateways["fastmcp 4.1.2"] = Gateway(fastmcp, port, ["/mcp"], "s7_echo")
    port = free_port()
    command = [python_of("mcp-proxy-0.13.0"), "-m", "mcp_proxy", "--port", str(port), "--log-level", "CRITICAL"]
    paths = [f"/servers/{name}/mcp" for name in names]
    gateways["mcp-proxy 0.13.0"] = Gateway([*command, "--named-server-config", str(file)], port, paths, "echo")
    return gateways


def per_call(gateway: Gateway | Direct) -> Sample:
    """Return a sample of the seconds of one call after the other."""

    def call() -> None:
        if isinstance(gateway, Direct):
            gateway.call()
        else:
            gateway.sessions[7 % len(gateway.sessions)].call(gateway.echo)

    def sample() -> float:
        call()  # not counted: it may have to connect again
        began = time.perf_counter()
        for _ in range(CALLS):
            call()
        return (time.perf_counter() - began) / CALLS

    return sample


def per_list(gateway: Gateway) -> Sample:
    """Return a sample of the seconds of a list of all tools."""

    def sample() -> float:
        for session in gateway.sessions:
            session.request("ping", {})  # not counted: it may have to connect again
        began = time.perf_counter()
        found = gateway.list()
        elapsed = time.perf_counter() - began
        if len(found) != SERVERS * TOOLS:
            raise SystemExit(f"{len(found)} tools are listed")
        return elapsed

    return sample


def main() -> None:
    print_platform()
    with tempfile.TemporaryDirectory() as folder:
        direct = Direct()
        gateways = start(Path(folder))
        try:
            programs = {f"call {name}": per_call(gateway) for name, gateway in gateways.items()}
            programs |= {f"list {name}": per_list(gateway) for name, gateway in gateways.items()}
            found = interleave({**programs, "call direct": per_call(direct)}, ROUNDS)
            base = found["call direct"].middle
            print(f"\n{SERVERS} servers with {TOOLS} tools each; a call without a gateway: {format_seconds(base)}")
            print(f"  {'':18} {'call':>9} {'added':>9} {'list':>9} {'memory':>9}  noise")
            for name, gateway in gateways.items():
                call, listed = found[f"call {name}"], found[f"list {name}"]
                noise = max(call.noise, listed.noise)
                added = format_seconds(max(call.middle - base, 0.0))
                print(
                    f"  {name:18} {format_seconds(call.middle):>9} {added:>9} {format_seconds(listed.middle):>9}"
                    f" {gateway.rss():>5.0f} MiB  {noise:.0%}"
                )
        finally:
            direct.stop()
            for gateway in gateways.values():
                gateway.stop()


if __name__ == "__main__":
    main()
