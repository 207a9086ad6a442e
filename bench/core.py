"""The protocol core without I/O: envelopes, framing, and import time.

    python bench/core.py        or: make bench ONLY=core

Exits with 1 if a target is missed by more than the noise of the run.
"""

import json
import sys
from functools import partial

import msgspec

from _measure import Row, Sample, compare, cpu_time, import_time, interleave, print_platform, print_rows
from jackstay.protocol._methods import METHODS
from jackstay.protocol.wire._jsonrpc import Request, Result, decode
from jackstay.protocol.wire._lines import FRAMINGS, framing_of

# Each statement is measured in a fresh interpreter against the base.
IMPORTS = ["from jackstay import connect, stdio, Server"]
IMPORT_BASE = "import asyncio, msgspec"

ENVELOPE_TARGET = 2.5
FRAMING_TARGET = 3.0
IMPORT_TARGET = 1.4
# The maximum growth of framing from 1 to 16 MiB, relative to joining the same chunks. Quadratic framing would be 16.
GROWTH_TARGET = 2.0

CHUNK = 65_536
MEBIBYTE = 1_048_576
SIZES = (1, 2, 4, 8, 16)

_META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {"sampling": {}, "elicitation": {"form": {}}},
    "io.modelcontextprotocol/clientInfo": {"name": "bench", "version": "1.0"},
}
_PROPERTIES = {f"property_{index}": {"type": "string", "description": "What it is for"} for index in range(10)}
_TOOLS = [
    {"name": f"tool_{index}", "inputSchema": {"type": "object", "properties": _PROPERTIES}} for index in range(100)
]


def _call(text: str, **params: object) -> dict[str, object]:
    return {"method": "tools/call", "params": {**params, "name": "echo", "arguments": {"text": text}}}


def _response(text: str) -> dict[str, object]:
    return {"result": {"content": [{"type": "text", "text": text}], "isError": False}}


# Name, members of the frame, number of decodings per sample.
FRAMES: list[tuple[str, dict[str, object], int]] = [
    ("request, 2025-11-25", _call("hello"), 20_000),
    ("request, 2026-07-28", _call("hello", _meta=_META), 10_000),
    ("request, not ASCII", _call("h\u00e9llo \u2603"), 20_000),
    ("response", _response("hello"), 20_000),
    ("response with 1 MiB of text", _response("line of text\n" * 80_659), 20),
    ("response, 100 tools", {"result": {"tools": _TOOLS}}, 50),
]


def find_row(frame: bytes, pending: dict[int | str, str]) -> object:
    """Decode the envelope of a frame, then find the row of its method or the call that it responds to."""
    message = decode(frame)
    if type(message) is Request:
        return METHODS[message.method]
    if type(message) is Result:
        return pending[message.id]
    raise AssertionError(message)


def measure_envelopes() -> list[Row]:
    pending: dict[int | str, str] = {17: "tools/call"}
    programs: dict[str, Sample] = {}
    sizes: dict[str, int] = {}
    for name, members, number in FRAMES:
        text = json.dumps({"jsonrpc": "2.0", "id": 17, **members}, ensure_ascii=False, separators=(",", ":"))
        frame = text.encode()
        sizes[name] = len(frame)
        programs[f"ours: {name}"] = cpu_time(partial(find_row, frame, pending), number)
        programs[f"base: {name}"] = cpu_time(partial(msgspec.json.decode, frame), number)
    series = interleave(programs)
    return [
        compare(f"{name} ({sizes[name]:,} B)", series[f"ours: {name}"], series[f"base: {name}"], ENVELOPE_TARGET)
        for name, _, _ in FRAMES
    ]


def chunks_of(framing: str, size: int) -> list[bytes]:
    """Return a frame of this size as chunks, as they would be read."""
    _, join = framing_of(framing)
    stream = join([b"x" * size])
    return [stream[at : at + CHUNK] for at in range(0, len(stream), CHUNK)]


def read_frame(framing: str, chunks: list[bytes], size: int) -> None:
    make_framer, _ = framing_of(framing)
    framer = make_framer(size)
    frame = None
    for chunk in chunks:
        framer.feed(chunk)
        frame = framer.next_frame()
    if frame is None or len(frame) != size:
        raise AssertionError("the frame differs from the input")


def measure_framing() -> tuple[list[Row], list[str], bool]:
    programs: dict[str, Sample] = {}
    for mebibytes in SIZES:
        size = mebibytes * MEBIBYTE
        number = 32 // mebibytes
        for framing in FRAMINGS:
            chunks = chunks_of(framing, size)
            programs[f"{framing} {mebibytes}"] = cpu_time(partial(read_frame, framing, chunks, size), number)
        programs[f"join {mebibytes}"] = cpu_time(partial(b"".join, chunks), number)
    series = interleave(programs)
    rows = [
        compare(
            f"{framing}, {mebibytes} MiB",
            series[f"{framing} {mebibytes}"],
            series[f"join {mebibytes}"],
            FRAMING_TARGET,
        )
        for framing in FRAMINGS
        for mebibytes in SIZES
    ]
    joined = series[f"join {SIZES[-1]}"].middle / series[f"join {SIZES[0]}"].middle
    growths, is_linear = [], True
    for framing in FRAMINGS:
        large, small = series[f"{framing} {SIZES[-1]}"], series[f"{framing} {SIZES[0]}"]
        ratio = large.middle / small.middle / joined
        noise = max(large.noise, small.noise)
        is_linear = is_linear and ratio / (1 + noise) <= GROWTH_TARGET
        growths.append(
            f"{framing}: {SIZES[-1] // SIZES[0]} times the bytes took {large.middle / small.middle:.1f} times as long "
            f"(joining: {joined:.1f}); {ratio:.2f} of joining, <= {GROWTH_TARGET:g}"
        )
    return rows, growths, is_linear


def measure_imports() -> list[Row]:
    programs = {statement: import_time(statement) for statement in [IMPORT_BASE, *IMPORTS]}
    series = interleave(programs)
    return [compare(statement, series[statement], series[IMPORT_BASE], IMPORT_TARGET) for statement in IMPORTS]


def main() -> int:
    print_platform()
    is_good = print_rows("Decode an envelope and find its row; base: msgspec.json.decode", measure_envelopes())
    rows, growths, is_linear = measure_framing()
    is_good = print_rows(f"A frame in chunks of {CHUNK:,} bytes; base: joining the chunks", rows) and is_good
    for growth in growths:
        print(f"  {growth}")
    is_good = print_rows(f"Import; base: {IMPORT_BASE}", measure_imports()) and is_good
    return 0 if is_good and is_linear else 1


if __name__ == "__main__":
    sys.exit(main())
