"""HTTP requests to untrusted servers: limits of size, time and redirects, and transient errors."""

import pytest

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth import _fetch as fetching
from jackstay.oauth._fetch import MAX_BYTES, Reply, exchange, get, probe
from scripted.oauth import PlainClient, Response, Site


async def test_an_endless_body_is_refused() -> None:
    async with Site() as site:
        site.routes["GET", "/x"] = lambda request: Response(endless=True)
        with pytest.raises(AuthorizationError, match=f"larger than {MAX_BYTES} bytes"):
            await get(PlainClient(), f"{site.url}/x?secret")


@pytest.mark.parametrize("verb", [get, probe])
async def test_a_stalled_request_times_out(verb: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.05)
    async with Site() as site:
        site.routes["GET", "/x"] = lambda request: Response(stalls=True)
        with pytest.raises(TransportError) as caught:
            await verb(PlainClient(), f"{site.url}/x?secret")  # type: ignore[operator]  # either of two functions
        assert caught.value.permanent is False
        assert "secret" not in str(caught.value)


async def test_an_unreachable_site_is_a_transient_error() -> None:
    for fetch in (get, probe):
        with pytest.raises(TransportError, match="request failed") as caught:
            await fetch(PlainClient(), "http://127.0.0.1:1/x")
        assert caught.value.retryable


async def test_a_broken_connection_is_a_transport_error() -> None:
    """The token request may have run, but the call that waits for the token was not sent."""

    class Breaking(PlainClient):
        async def send(self, *request: object) -> object:  # type: ignore[override]  # it always raises
            raise OutcomeUnknownError("broken")

    with pytest.raises(TransportError) as caught:
        await exchange(Breaking(), "POST", "http://127.0.0.1:1/x", (), b"")
    assert caught.value.may_have_run is False
    assert isinstance(caught.value.__cause__, OutcomeUnknownError)


async def test_redirects_of_a_post_are_not_followed() -> None:
    async with Site() as site:
        site.routes["POST", "/x"] = lambda request: Response(307, headers={"Location": "/y"})
        reply = await exchange(PlainClient(), "POST", f"{site.url}/x", (("X-Y", "z"),), b"body")
        assert reply.status == 307
        assert site.paths() == ["/x"]
        assert site.requests[0].headers["x-y"] == "z"
        assert site.requests[0].body == b"body"


def test_json_is_recognised_by_its_content_type() -> None:
    cases: list[tuple[dict[str, str], bool]] = [
        ({"content-type": "application/json; charset=utf-8"}, True),
        ({"content-type": "application/jrd+json"}, True),
        ({"content-type": "text/html"}, False),
        ({}, False),
    ]
    for headers, is_json in cases:
        assert Reply(200, headers, b"").is_json is is_json
