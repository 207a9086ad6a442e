"""The app of a page: requests from other web pages are rejected."""

import pytest

from jackstay.inspector import PageApp, check_same_origin

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


def test_repr() -> None:
    app = PageApp({}, check=lambda _: {}, authorize=lambda _: _, prefix="/ui", max_body_bytes=1)  # type: ignore[arg-type,return-value]
    assert repr(app) == "<PageApp at /ui>"
