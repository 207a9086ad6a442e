"""A minimal correct server over stdio, as the limit: read lines, decode, echo, write. For 2025-11-25 and 2026-07-28.

Clients are measured with it, too.
"""

import asyncio
import sys

import msgspec
from _catalogue import ECHO, catalogue


class Request(msgspec.Struct):
    method: str
    id: int | str | None = None
    params: msgspec.Raw = msgspec.Raw(b"{}")


class Meta(msgspec.Struct):
    version: str = msgspec.field(default="", name="io.modelcontextprotocol/protocolVersion")
    capabilities: dict[str, msgspec.Raw] | None = msgspec.field(
        default=None, name="io.modelcontextprotocol/clientCapabilities"
    )


class Params(msgspec.Struct):
    meta: Meta | None = msgspec.field(default=None, name="_meta")


class Call(Params):
    arguments: dict[str, str] = {}


class Hello(msgspec.Struct, rename="camel"):
    protocol_version: str = "2025-11-25"


decode = msgspec.json.Decoder(Request).decode
decode_call = msgspec.json.Decoder(Call).decode
decode_params = msgspec.json.Decoder(Params).decode
decode_hello = msgspec.json.Decoder(Hello).decode
encode = msgspec.json.encode

INFO = b'{"protocolVersion":"%b","capabilities":{"tools":{}},"serverInfo":{"name":"limit","version":"1"}}'
COUNT = int(sys.argv[sys.argv.index("--tools") + 1]) if "--tools" in sys.argv else 0
TOOL = msgspec.json.encode({"tools": [ECHO, *catalogue(COUNT)]})


# What the result of a request in 2026-07-28 has besides, and a list.
HEAD = b'"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"limit","version":"1"}},'
MODERN_TOOLS = b'{%b"ttlMs":0,"cacheScope":"private",%b' % (HEAD, TOOL[1:])


def is_modern(meta: Meta | None) -> bool:
    if meta is None or not meta.version:  # other members of `_meta` are in all revisions
        return False
    if meta.version != "2026-07-28" or meta.capabilities is None:
        raise ValueError(meta.version)
    return True


def answer(line: bytes) -> bytes | None:
    request = decode(line)
    if request.id is None:
        return None
    id = encode(request.id)
    if request.method == "tools/call":
        call = decode_call(request.params)
        text = encode(call.arguments["text"])
        if call.meta is not None and is_modern(call.meta):
            content = b'{"jsonrpc":"2.0","id":%b,"result":{%b"content":[{"type":"text","text":%b}]}}\n'
            return content % (id, HEAD, text)
        return b'{"jsonrpc":"2.0","id":%b,"result":{"content":[{"type":"text","text":%b}]}}\n' % (id, text)
    if request.method == "initialize":
        version = decode_hello(request.params).protocol_version.encode()
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id, INFO % version)
    if request.method == "tools/list":
        tools = MODERN_TOOLS if is_modern(decode_params(request.params).meta) else TOOL
        return b'{"jsonrpc":"2.0","id":%b,"result":%b}\n' % (id, tools)
    if request.method == "ping":
        return b'{"jsonrpc":"2.0","id":%b,"result":{}}\n' % id
    return b'{"jsonrpc":"2.0","id":%b,"error":{"code":-32601,"message":"no"}}\n' % id


class Reader(asyncio.Protocol):
    def __init__(self, out: asyncio.WriteTransport, done: asyncio.Event) -> None:
        self.out, self.done = out, done
        self.rest: list[bytes] = []

    def data_received(self, data: bytes) -> None:
        self.rest.append(data)
        if b"\n" not in data:  # joined once per line, not once per read
            return
        *lines, rest = b"".join(self.rest).split(b"\n")
        self.rest = [rest]
        self.out.write(b"".join(response for line in lines if line and (response := answer(line)) is not None))

    def connection_lost(self, _: Exception | None) -> None:
        self.done.set()


async def main() -> None:
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    out, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, sys.stdout)
    await loop.connect_read_pipe(lambda: Reader(out, done), sys.stdin)
    await done.wait()


if __name__ == "__main__":
    asyncio.run(main())
