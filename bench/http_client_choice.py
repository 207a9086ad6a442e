"""Compare HTTP client libraries for our transport (docs/design/http-client.md).

    python bench/http_client_choice.py

Measures CPU time per call, import time, and whether cancelling a request closes its connection immediately.
"""

import asyncio
import contextlib
import importlib.metadata
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

from _measure import Sample, format_seconds, interleave, print_platform

HERE = Path(__file__).resolve().parent
sys.path.remove(str(HERE))  # `http.py` here would shadow the module of the standard library
HEADERS = [
    ("Content-Type", "application/json"),
    ("Accept", "application/json, text/event-stream"),
    ("MCP-Protocol-Version", "2025-11-25"),
    ("Mcp-Session-Id", "0123456789abcdef0123456789abcdef"),
]
BODY = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}'
CANDIDATES = ("raw", "jackstay", "aiohttp", "httpx", "httpx2")
LIBRARIES = CANDIDATES[2:]
ROUNDS = 5

Post = Callable[[str, bytes], Awaitable[bytes]]
Use = contextlib.AbstractAsyncContextManager[Post]


# --- the candidates ---------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def use_jackstay() -> Any:
    from jackstay.transport import default_http_client

    client = default_http_client(proxy="")

    async def post(url: str, body: bytes) -> bytes:
        response = await client.send("POST", url, HEADERS, body)
        try:
            assert response.headers["content-type"] == "application/json"
            return b"".join([chunk async for chunk in response.chunks()])
        finally:
            await response.close()

    yield post
    await client.close()


@contextlib.asynccontextmanager
async def use_aiohttp() -> Any:
    import aiohttp
    from yarl import URL

    timeout = aiohttp.ClientTimeout(total=None, connect=10.0)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), timeout=timeout, cookie_jar=jar
    ) as session:

        async def post(url: str, body: bytes) -> bytes:
            parsed = URL(url, encoded=True)
            async with session.post(parsed, headers=HEADERS, data=body, allow_redirects=False) as response:
                assert response.content_type == "application/json"
                parts = [chunk async for chunk in response.content.iter_any()]
                return b"".join(parts)

        yield post


@contextlib.asynccontextmanager
async def use_httpx(name: str = "httpx") -> Any:
    httpx = __import__(name)
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    timeout = httpx.Timeout(None, connect=10.0)
    async with httpx.AsyncClient(limits=limits, timeout=timeout, follow_redirects=False) as client:

        async def post(url: str, body: bytes) -> bytes:
            request = client.build_request("POST", url, headers=HEADERS, content=body)
            response = await client.send(request, stream=True)
            try:
                assert response.headers["content-type"] == "application/json"
                parts = [chunk async for chunk in response.aiter_bytes()]
                return b"".join(parts)
            finally:
                await response.aclose()

        yield post


@contextlib.asynccontextmanager
async def use_raw() -> Any:
    free: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
    lines = "".join(f"{name}: {value}\r\n" for name, value in HEADERS)

    async def post(url: str, body: bytes) -> bytes:
        authority, _, path = url.removeprefix("http://").partition("/")
        host, port = authority.split(":")
        reader, writer = free.pop() if free else await asyncio.open_connection(host, int(port))
        is_complete = False
        try:
            head = f"POST /{path} HTTP/1.1\r\nHost: {authority}\r\n{lines}Content-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
            response_head = (await reader.readuntil(b"\r\n\r\n")).lower()
            size = int(response_head.split(b"content-length:")[1].split(b"\r\n")[0])
            found = await reader.readexactly(size)
            is_complete = True
            return found
        finally:
            if is_complete:
                free.append((reader, writer))
            else:
                writer.close()

    yield post
    for _, writer in free:
        writer.close()


def use(name: str) -> Use:
    own = {"raw": use_raw, "jackstay": use_jackstay}.get(name)
    if own is not None:
        return own()
    return use_aiohttp() if name == "aiohttp" else use_httpx(name)


# --- one run, in a separate process -----------------------------------------------------------------------------------


async def run(name: str, url: str, calls: int, in_flight: int) -> float:
    """Return the CPU seconds per call."""
    left = iter(range(calls))
    async with use(name) as post:

        async def work() -> None:
            for number in left:
                answer = await post(url, BODY % number)
                assert b'"hello"' in answer

        await post(url, BODY % 0)
        started = time.process_time()
        await asyncio.gather(*(work() for _ in range(in_flight)))
        return (time.process_time() - started) / calls


async def closes_on_cancel(name: str, url: str) -> bool:
    """Return whether cancelling a pending request closes its connection, as seen by the server."""
    async with use(name) as post:
        before = int(await read(url + "ended"))
        task = asyncio.ensure_future(post(url + "stall", BODY % 1))
        await asyncio.sleep(0.3)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        for _ in range(50):
            if int(await read(url + "ended")) > before:
                return True
            await asyncio.sleep(0.02)
        return False


async def read(url: str) -> bytes:
    authority, _, path = url.removeprefix("http://").partition("/")
    host, port = authority.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /{path} HTTP/1.1\r\nHost: {authority}\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    body = await reader.readexactly(int(head.split(b"content-length:")[1].split(b"\r\n")[0]))
    writer.close()
    return body


# --- the comparison ---------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def limit_server() -> Iterator[str]:
    command = [sys.executable, str(HERE / "programs" / "raw_http.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdin is not None
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/"
        server.stdin.close()


def run_in_process(*arguments: str) -> str:
    command = [sys.executable, __file__, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if done.returncode:
        raise SystemExit(done.stderr[-2000:])
    return done.stdout.strip()


def sample(name: str, url: str, calls: int, in_flight: int) -> Sample:
    return lambda: float(run_in_process("run", name, url, str(calls), str(in_flight)))


def import_sample(name: str) -> Sample:
    program = f"import asyncio, ssl, time; t = time.perf_counter(); import {name}; print(time.perf_counter() - t)"
    command = [sys.executable, "-c", program]
    return lambda: float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> int:
    print_platform()
    for name in LIBRARIES:
        print(f"  {name} {importlib.metadata.version(name)}")
    with limit_server() as url:
        for in_flight, calls in ((32, 1500), (1, 500)):
            series = interleave({name: sample(name, url, calls, in_flight) for name in CANDIDATES}, rounds=ROUNDS)
            print(f"\nCPU per call, {in_flight} in flight")
            for name, row in series.items():
                samples = row.samples + row.control
                spread = f"({format_seconds(min(samples))} .. {format_seconds(max(samples))})"
                ratio = row.middle / series["aiohttp"].middle
                print(
                    f"  {name:8} {format_seconds(row.middle):>9} {spread:>22}  "
                    f"{ratio:5.2f} x aiohttp  noise {row.noise:.0%}"
                )
        modules = ("jackstay.transport.http._pool", *LIBRARIES)
        imports = interleave({name: import_sample(name) for name in modules}, rounds=ROUNDS)
        print("\nimport, after asyncio and ssl")
        for name, row in imports.items():
            print(f"  {name:28} {format_seconds(row.middle):>9}")
        print("\ncancelling a request closes its connection")
        for name in CANDIDATES:
            print(f"  {name:8} {run_in_process('cancel', name, url)}")
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"]:
        print(asyncio.run(run(sys.argv[2], sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))))
    elif sys.argv[1:2] == ["cancel"]:
        print("yes" if asyncio.run(closes_on_cancel(sys.argv[2], sys.argv[3])) else "NO")
    else:
        sys.exit(main())
