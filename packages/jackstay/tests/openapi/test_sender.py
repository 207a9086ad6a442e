"""Redirects and timeouts."""

import asyncio

import pytest

from jackstay.openapi import Request, Response, SendError
from jackstay.openapi._sender import MAX_REDIRECTS, origin_of, send_request
from jackstay.testing import on_fake_clock

GET = Request("GET", "/a", (("X", "1"),), None)
POST = Request("POST", "/a", (("Content-Type", "text/plain"), ("X", "1")), b"x")


class Scripted:
    """Responds with the given (status, location), and then with 200."""

    def __init__(self, *redirects: tuple[int, str]) -> None:
        self.redirects = list(redirects)
        self.sent: list[tuple[str, str, bytes | None]] = []

    async def send(self, url: str, request: Request, limit: int) -> Response:
        self.sent.append((request.method, url, request.body))
        if self.redirects:
            status, location = self.redirects.pop(0)
            return Response(status, {"location": location}, b"")
        return Response(200, {}, b"done")

    async def close(self) -> None:
        """Nothing to close."""


def run(sender: Scripted, request: Request = GET) -> Response:
    return asyncio.run(send_request(sender, "https://api.example", request, 5, 100))


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_get_follows_redirects_to_the_same_origin(status: int) -> None:
    sender = Scripted((status, "/b?c#d"), (status, "https://api.example:443/e"))
    assert run(sender).body == b"done"
    assert [url for _, url, _ in sender.sent] == [
        "https://api.example/a",
        "https://api.example/b?c",
        "https://api.example:443/e",
    ]


@pytest.mark.parametrize(
    ("status", "following"),
    [(307, ("POST", b"x")), (308, ("POST", b"x")), (303, ("GET", None)), (301, None), (302, None), (304, None)],
)
def test_a_post_is_repeated_only_where_that_is_safe(status: int, following: tuple[str, bytes | None] | None) -> None:
    sender = Scripted((status, "/b"))
    response = run(sender, POST)
    assert response.status == (status if following is None else 200)
    assert [(method, body) for method, _, body in sender.sent[1:]] == ([] if following is None else [following])


@pytest.mark.parametrize(
    "location",
    ["https://evil.example/", "http://api.example/", "//evil.example", "https://api.example:444/", "https://[x"],
)
def test_another_origin_is_not_followed(location: str) -> None:
    sender = Scripted((302, location))
    with pytest.raises((SendError, ValueError)):
        run(sender)
    assert len(sender.sent) == 1


def test_a_url_that_cannot_be_parsed_has_no_origin() -> None:
    assert origin_of("https://[x") == origin_of("https://a:b") == ("", "", None)


def test_redirects_end() -> None:
    sender = Scripted(*[(302, "/b")] * 20)
    with pytest.raises(SendError, match=f"more than {MAX_REDIRECTS} redirects"):
        run(sender)
    assert len(sender.sent) == MAX_REDIRECTS + 1


@on_fake_clock
async def test_the_timeout_is_for_all_redirects() -> None:
    class Slow(Scripted):
        async def send(self, url: str, request: Request, limit: int) -> Response:
            await asyncio.sleep(2)
            return await super().send(url, request, limit)

    sender = Slow((302, "/b"), (302, "/c"))
    with pytest.raises(SendError, match="no complete response within 5 s"):
        await send_request(sender, "https://api.example", GET, 5, 100)
    assert len(sender.sent) == 2
