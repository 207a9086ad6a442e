"""One request and its answer (design, section 4: truncated bodies, bombs; section 1: caps)."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.fetch import FetchError, read_url
from procontext.fetch._exchange import Answer, Unpacker, exchange
from scripted.documentation import (
    Route,
    Site,
    body,
    bomb,
    cut_short,
    cut_short_packed,
    flood,
    raw,
    status,
    text,
)
from scripted.loop import timed

CAP = 1024 * 1024


async def ask(route: Route, **named: bool) -> Answer:
    async with Site({"/": route}) as site:
        streams = await asyncio.open_connection("127.0.0.1", site.port)
        try:
            return await exchange(streams, read_url(f"{site.url}/"), [("Accept", "*/*")], CAP, **named)
        finally:
            streams[1].transport.abort()


@timed
async def test_an_answer_has_its_status_headers_and_body() -> None:
    answer = await ask(text("# Hi", x_a="b"))
    assert (answer.status, answer.body) == (200, b"# Hi")
    assert answer.headers["x-a"] == "b"


@timed
async def test_of_a_status_that_is_not_200_the_body_is_not_read() -> None:
    answer = await ask(text("long explanation", code=500))
    assert (answer.status, answer.body) == (500, b"")


@timed
async def test_informational_answers_are_passed_over() -> None:
    answer = await ask(raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx"))
    assert answer.body == b"x"


@timed
async def test_a_proxy_is_asked_in_full() -> None:
    async with Site() as site:
        streams = await asyncio.open_connection("127.0.0.1", site.port)
        await exchange(streams, read_url("http://docs.example.com/a"), [], CAP, in_full=True)
        streams[1].transport.abort()
    assert site.paths == ["http://docs.example.com/a"]
    assert site.requests[0].headers["host"] == "docs.example.com"


BROKEN = [
    (cut_short(), "cut short"),
    (cut_short_packed(), "cut short"),
    (raw(b""), "cut short"),
    (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "cut short"),
    (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "no HTTP"),
    (raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000), "no HTTP"),
    (body(b"plainly not packed", content_encoding="gzip"), "broken"),
    (body(b"x", content_encoding="br"), "not asked for"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), "larger than 1048576 bytes"),
    (flood(2 * CAP), "larger than 1048576 bytes"),
    (bomb(8 * CAP), "larger than 1048576 bytes"),
]


@pytest.mark.parametrize(("route", "said"), BROKEN, ids=[str(number) for number in range(len(BROKEN))])
def test_a_broken_answer_is_an_error_that_says_so(route: Route, said: str) -> None:
    @timed
    async def scenario() -> None:
        with pytest.raises(FetchError) as caught:
            await ask(route)
        assert caught.value.reason == "failed"
        assert said in caught.value.detail

    scenario()


def test_a_bomb_of_200_megabytes_costs_the_cap_and_not_more() -> None:
    """Design, section 4. Unpacking stops at the cap: what would follow is never made."""
    unpacker = Unpacker("u", "gzip", CAP)
    packed = gzip.compress(bytes(200 * 1024 * 1024), 1)
    assert len(packed) < CAP
    tracemalloc.start()
    try:
        with pytest.raises(FetchError, match="larger than"):
            unpacker.feed(packed)
        assert tracemalloc.get_traced_memory()[1] < 4 * CAP
    finally:
        tracemalloc.stop()


@timed
async def test_an_empty_answer_is_an_empty_document() -> None:
    assert (await ask(body(b"", content_encoding="gzip"))).body == b""
    assert (await ask(status(204))).status == 204


def deflated_bare(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(data) + packer.flush()


PACKERS = [
    ("gzip", gzip.compress),
    ("x-gzip", lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:])),
    ("gzip", lambda data: gzip.compress(data) + b"\0\0\0"),
    ("deflate", zlib.compress),
    ("Deflate", lambda data: zlib.compress(data) + b"tail"),
    ("deflate", deflated_bare),
    ("identity", bytes),
    ("", bytes),
]


@pytest.mark.parametrize(("encoding", "pack"), PACKERS)
@given(data=st.binary(min_size=1, max_size=2000), cut=st.integers(1, 300))
def test_what_was_packed_is_unpacked_however_it_arrives(
    encoding: str, pack: object, data: bytes, cut: int
) -> None:
    assert callable(pack)
    packed = pack(data)
    unpacker = Unpacker("u", encoding, 100_000)
    for start in range(0, len(packed), cut):
        unpacker.feed(packed[start : start + cut])
    assert unpacker.finish() == data
