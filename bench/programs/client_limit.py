"""A minimal correct client, as the limit: lines, a dict of futures, msgspec."""

import asyncio
import subprocess

import msgspec
from _calling import arguments, measure


class Block(msgspec.Struct):
    text: str


class Result(msgspec.Struct):
    content: list[Block]


class Response(msgspec.Struct):
    id: int
    result: msgspec.Raw = msgspec.Raw(b"{}")


decode = msgspec.json.Decoder(Response).decode
decode_result = msgspec.json.Decoder(Result).decode
encode = msgspec.json.encode


class Reader(asyncio.Protocol):
    def __init__(self, pending: dict[int, asyncio.Future[msgspec.Raw]]) -> None:
        self.pending = pending
        self.rest: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.rest.append(data)
        if b"\n" not in data:  # joined once per line, not once per read
            return
        *lines, rest = b"".join(self.rest).split(b"\n")
        self.rest = [rest]
        for line in lines:
            response = decode(line)
            self.pending.pop(response.id).set_result(response.result)


async def main() -> None:
    calls, in_flight, server = arguments()
    loop = asyncio.get_running_loop()
    child = subprocess.Popen(server, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    pending: dict[int, asyncio.Future[msgspec.Raw]] = {}
    await loop.connect_read_pipe(lambda: Reader(pending), child.stdout)
    pipe, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, child.stdin)
    ids = iter(range(1, 1 << 60))

    async def request(method: str, params: object) -> msgspec.Raw:
        id = next(ids)
        response = pending[id] = loop.create_future()
        pipe.write(encode({"jsonrpc": "2.0", "id": id, "method": method, "params": params}) + b"\n")
        return await response

    async def call(text: str) -> str:
        raw = await request("tools/call", {"name": "echo", "arguments": {"text": text}})
        return decode_result(raw).content[0].text

    await request(
        "initialize",
        {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
    )
    pipe.write(b'{"jsonrpc":"2.0","method":"notifications/initialized"}\n')
    await measure(call, calls, in_flight)
    child.kill()
    child.wait()


asyncio.run(main())
