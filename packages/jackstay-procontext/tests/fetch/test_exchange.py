"""One request and its response: truncated bodies, gzip bombs, size limits."""

import asyncio
import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from procontext.fetch import FetchError, parse_url
from procontext.fetch._exchange import Decompressor, Response, exchange
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

LIMIT = 1024 * 1024


async def request(route: Route, **options: bool) -> Response:
    async with Site({"/": route}) as site:
        streams = await asyncio.open_connection("127.0.0.1", site.port)
        try:
            return await exchange(streams, parse_url(f"{site.url}/"), [("Accept", "*/*")], LIMIT, **options)
        finally:
            streams[1].transport.abort()


async def test_response_has_status_headers_and_body() -> None:
    response = await request(text("# Hi", x_a="b"))
    assert (response.status, response.body) == (200, b"# Hi")
    assert response.headers["x-a"] == "b"


async def test_body_is_read_only_for_status_200() -> None:
    response = await request(text("long explanation", code=500))
    assert (response.status, response.body) == (500, b"")


async def test_informational_responses_are_skipped() -> None:
    response = await request(raw(b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx"))
    assert response.body == b"x"


async def test_absolute_form_for_a_proxy() -> None:
    async with Site() as site:
        streams = await asyncio.open_connection("127.0.0.1", site.port)
        await exchange(streams, parse_url("http://docs.example.com/a"), [], LIMIT, absolute_form=True)
        streams[1].transport.abort()
    assert site.paths == ["http://docs.example.com/a"]
    assert site.requests[0].headers["host"] == "docs.example.com"


BROKEN = [
    (cut_short(), "truncated"),
    (cut_short_packed(), "truncated"),
    (raw(b""), "truncated"),
    (raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab"), "truncated"),
    (raw(b"SSH-2.0-OpenSSH_9.6\r\n\r\n"), "invalid HTTP response"),
    (raw(b"HTTP/1.1 200 OK\r\nX: " + b"y" * 200_000), "invalid HTTP response"),
    (body(b"not compressed", content_encoding="gzip"), "invalid"),
    (body(b"x", content_encoding="br"), "unsupported Content-Encoding 'br'"),
    (raw(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n"), "larger than 1048576 bytes"),
    (flood(2 * LIMIT), "larger than 1048576 bytes"),
    (bomb(8 * LIMIT), "larger than 1048576 bytes"),
]


async def test_broken_responses(subtests: pytest.Subtests) -> None:
    for route, problem in BROKEN:
        with subtests.test(problem=problem):
            with pytest.raises(FetchError) as caught:
                await request(route)
            assert caught.value.reason == "failed"
            assert problem in caught.value.detail


def test_gzip_bomb_is_stopped_at_the_limit() -> None:
    """Decompression of 200 MB stops at the limit."""
    decompressor = Decompressor("u", "gzip", LIMIT)
    compressed = gzip.compress(bytes(200 * 1024 * 1024), 1)
    assert len(compressed) < LIMIT
    tracemalloc.start()
    try:
        with pytest.raises(FetchError, match="larger than"):
            decompressor.feed(compressed)
        assert tracemalloc.get_traced_memory()[1] < 4 * LIMIT
    finally:
        tracemalloc.stop()


async def test_empty_response() -> None:
    assert (await request(body(b"", content_encoding="gzip"))).body == b""
    assert (await request(status(204))).status == 204


def raw_deflate(data: bytes) -> bytes:
    compressor = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return compressor.compress(data) + compressor.flush()


ENCODINGS = [
    ("gzip", gzip.compress),
    ("x-gzip", lambda data: gzip.compress(data[:10]) + gzip.compress(data[10:])),
    ("gzip", lambda data: gzip.compress(data) + b"\0\0\0"),
    ("deflate", zlib.compress),
    ("Deflate", lambda data: zlib.compress(data) + b"tail"),
    ("deflate", raw_deflate),
    ("identity", bytes),
    ("", bytes),
]


@pytest.mark.parametrize(("encoding", "compress"), ENCODINGS)
@given(data=st.binary(min_size=1, max_size=2000), cut=st.integers(1, 300))
def test_decompression_of_arbitrary_chunks(encoding: str, compress: object, data: bytes, cut: int) -> None:
    assert callable(compress)
    compressed = compress(data)
    decompressor = Decompressor("u", encoding, 100_000)
    for start in range(0, len(compressed), cut):
        decompressor.feed(compressed[start : start + cut])
    assert decompressor.finish() == data
