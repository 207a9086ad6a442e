"""One exchange with a stranger: bounded in bytes, time and redirects; every failure says that nothing of ours ran."""

from collections.abc import Mapping

import pytest

from jackstay.errors import OutcomeUnknownError, TransportError
from jackstay.oauth import AuthorizationError
from jackstay.oauth import _fetch as fetching
from jackstay.oauth._fetch import MAX_BYTES, Reply, get, post, probe
from scripted.loop import timed
from scripted.oauth import PlainClient, Response, Site


@timed
async def test_a_body_without_end_is_not_read_to_it() -> None:
    async with Site() as site:
        site.routes["GET", "/x"] = lambda request: Response(endless=True)
        with pytest.raises(AuthorizationError, match=f"more than {MAX_BYTES} bytes"):
            await get(PlainClient(), f"{site.url}/x?secret")


@pytest.mark.parametrize("verb", [get, probe])
@timed
async def test_a_site_that_stalls_is_given_up(verb: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetching, "SECONDS", 0.05)
    async with Site() as site:
        site.routes["GET", "/x"] = lambda request: Response(stalls=True)
        with pytest.raises(TransportError) as caught:
            await verb(PlainClient(), f"{site.url}/x?secret")  # type: ignore[operator]  # either of two functions
        assert caught.value.permanent is False
        assert "secret" not in str(caught.value)


@timed
async def test_a_site_that_is_not_there_is_a_passing_error() -> None:
    for exchange in (get, probe):
        with pytest.raises(TransportError, match="could not be asked") as caught:
            await exchange(PlainClient(), "http://127.0.0.1:1/x")
        assert caught.value.retryable


@timed
async def test_a_connection_that_breaks_says_nothing_about_the_users_request() -> None:
    """The token request may have run. The call that waits for the token was not sent: that is what its error says."""

    class Breaking(PlainClient):
        async def send(self, *request: object) -> object:  # type: ignore[override]  # it never answers
            raise OutcomeUnknownError("broken")

    with pytest.raises(TransportError) as caught:
        await post(Breaking(), "http://127.0.0.1:1/x", (), b"")
    assert caught.value.may_have_run is False
    assert isinstance(caught.value.__cause__, OutcomeUnknownError)


@timed
async def test_what_is_posted_is_not_posted_elsewhere() -> None:
    async with Site() as site:
        site.routes["POST", "/x"] = lambda request: Response(307, headers={"Location": "/y"})
        reply = await post(PlainClient(), f"{site.url}/x", (("X-Y", "z"),), b"body")
        assert reply.status == 307
        assert site.paths() == ["/x"]
        assert site.requests[0].headers["x-y"] == "z"
        assert site.requests[0].body == b"body"


@pytest.mark.parametrize(
    ("headers", "is_json"),
    [
        ({"content-type": "application/json; charset=utf-8"}, True),
        ({"content-type": "application/jrd+json"}, True),
        ({"content-type": "text/html"}, False),
        ({}, False),
    ],
)
def test_json_is_what_says_so(headers: Mapping[str, str], is_json: bool) -> None:
    assert Reply(200, headers, b"").is_json is is_json
