"""The app of a page: requests from other web pages are rejected."""

import pytest

from jackstay.inspector import PageApp, Request, check_same_origin
from jackstay.server.http import ANONYMOUS

HEADERS: list[tuple[dict[str, str], bool]] = [
    ({}, True),
    ({"sec-fetch-site": "same-origin"}, True),
    ({"sec-fetch-site": "none"}, True),
    ({"sec-fetch-site": "same-site"}, False),
    ({"sec-fetch-site": "cross-site"}, False),
    ({"origin": "http://localhost:8000"}, True),
    ({"origin": "HTTP://LOCALHOST:8000"}, True),
    ({"origin": "http://localhost:8001"}, False),
    ({"origin": "null"}, False),
]


@pytest.mark.parametrize(("headers", "is_allowed"), HEADERS)
def test_same_origin(headers: dict[str, str], is_allowed: bool) -> None:
    response = check_same_origin({"host": "localhost:8000", **headers})
    assert (response is None) is is_allowed
    assert response is None or response.status == 403


LOCAL: list[tuple[str, str, str, bool]] = [
    ("localhost:8000", "127.0.0.1", "accept", True),
    ("[::1]:8000", "::1", "accept", True),
    ("127.0.0.1", "127.0.0.1", "accept", True),
    ("localhost:8000", "192.168.1.2", "accept", False),
    ("example.org", "127.0.0.1", "accept", False),
    ("localhost", "", "accept", False),
    # nginx replaces the Host by the name of its upstream.
    *(
        ("127.0.0.1:8000", "127.0.0.1", header, False)
        for header in ("forwarded", "x-forwarded-for", "x-real-ip", "via")
    ),
]


@pytest.mark.parametrize(("host", "address", "header", "is_local"), LOCAL)
def test_pages_on_this_machine(host: str, address: str, header: str, is_local: bool) -> None:
    async def nothing(*_: object) -> None:
        """Neither receives nor sends."""

    client = {"client": (address, 1)} if address else {}
    made = Request(
        client,
        nothing,
        nothing,
        name="",
        headers={"host": host, header: "x"},
        principal=ANONYMOUS,
        max_body_bytes=1,  # type: ignore[arg-type]
    )
    assert made.is_local is is_local


def test_repr() -> None:
    app = PageApp({}, check=lambda _: {}, authorize=lambda _: _, prefix="/ui", max_body_bytes=1)  # type: ignore[arg-type,return-value]
    assert repr(app) == "<PageApp at /ui>"
