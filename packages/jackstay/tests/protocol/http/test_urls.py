"""URLs that a server sends: resolution, and the restriction to one origin."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import ProtocolError
from jackstay.protocol.http._urls import is_same_origin, origin_of, resolve_endpoint, resolve_url

BASE = "https://mcp.example.com/v1/sse?key=1"

# 2024-11-05 basic/transports: the `endpoint` event contains the URI for POST; servers send all of these forms.
ENDPOINTS = [
    (b"/messages?session=1", "https://mcp.example.com/messages?session=1"),
    (b"messages/1", "https://mcp.example.com/v1/messages/1"),
    (b"?session=1", "https://mcp.example.com/v1/sse?session=1"),
    (b"../m", "https://mcp.example.com/m"),
    (b"https://mcp.example.com/m", "https://mcp.example.com/m"),
    (b"https://mcp.example.com:443/m", "https://mcp.example.com:443/m"),
    (b"https://MCP.example.com/m", "https://MCP.example.com/m"),
    (b"https:///m", "https://mcp.example.com/m"),  # RFC 3986, section 5.2.2, leniently
    (b"//mcp.example.com/m", "https://mcp.example.com/m"),
    ("/m?name=é".encode(), "https://mcp.example.com/m?name=é"),
]


def test_an_endpoint_is_resolved_against_the_stream(subtests: pytest.Subtests):
    for data, url in ENDPOINTS:
        with subtests.test(data=data, url=url):
            assert resolve_endpoint(BASE, data) == url


REFUSED = [
    (b"https://evil.example.com/m", "the endpoint is not on the origin of the stream"),
    (b"//evil.example.com/m", "the endpoint is not on the origin of the stream"),
    (b"http://mcp.example.com/m", "the endpoint is not on the origin of the stream"),
    (b"https://mcp.example.com:8443/m", "the endpoint is not on the origin of the stream"),
    (b"https://mcp.example.com.evil.example/m", "the endpoint is not on the origin of the stream"),
    (b"https://user@mcp.example.com/m", "not a plain http or https URL"),
    (b"https://mcp.example.com@evil.example/m", "not a plain http or https URL"),
    (b"file:///etc/passwd", "not a plain http or https URL"),
    (b"javascript:alert(1)", "not a plain http or https URL"),
    (b"https://[::1/m", "not a URL"),
    (b"https://mcp.example.com:port/m", "not a plain http or https URL"),
    (b"https://mcp.example.com:99999/m", "not a plain http or https URL"),
    (b"", "not a URL"),
    (b" /m", "not a URL"),
    (b"/m\n", "not a URL"),
    (b"/\tm", "not a URL"),
    (b"/\\evil.example.com/m", "not a URL"),
    (b"\\\\evil.example.com/m", "not a URL"),
    (b"/m\x7f", "not a URL"),
    (b"/\xff", "the endpoint is not UTF-8"),
]


def test_an_endpoint_on_another_origin_is_refused(subtests: pytest.Subtests):
    for data, message in REFUSED:
        with subtests.test(data=data, message=message):
            with pytest.raises(ProtocolError) as caught:
                resolve_endpoint(BASE, data)
            assert (caught.value.message, caught.value.path) == (message, "endpoint")


def test_a_password_in_the_base_url_is_kept():
    base = "https://user:secret@mcp.example.com/sse"
    assert resolve_endpoint(base, b"/m") == "https://user:secret@mcp.example.com/m"
    with pytest.raises(ProtocolError, match="not a plain"):
        resolve_endpoint(base, b"https://other@mcp.example.com/m")


def test_a_redirect_may_lead_to_another_origin():
    url = resolve_url(BASE, "http://other.example/x")
    assert url == "http://other.example/x"
    assert not is_same_origin(BASE, url)
    with pytest.raises(ProtocolError) as caught:
        resolve_url(BASE, "ftp://other.example/")
    assert caught.value.path == "Location"


ORIGINS = [
    ("http://a", ("http", "a", 80)),
    ("https://A:443/x", ("https", "a", 443)),
    ("http://[::1]:8000/", ("http", "::1", 8000)),
    ("http://u:p@a/", ("http", "a", 80)),
    ("ws://a", None),
    ("a", None),
    ("http://", None),
    ("http://[::1", None),
    ("http://a:b", None),
]


def test_origins(subtests: pytest.Subtests):
    for url, origin in ORIGINS:
        with subtests.test(url=url, origin=origin):
            assert origin_of(url) == origin
            assert is_same_origin(url, url) is (origin is not None)


@given(st.binary(max_size=60))
def test_any_endpoint_stays_on_the_origin_or_is_refused(data):
    try:
        url = resolve_endpoint(BASE, data)
    except ProtocolError:
        return
    assert is_same_origin(BASE, url)
