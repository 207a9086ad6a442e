"""The endpoints of a document, and calls to them."""

import asyncio
from typing import Any

import pytest

from jackstay.errors import UsageError
from jackstay.openapi import (
    Api,
    ApiSettings,
    CallFailedError,
    Document,
    OpenApiError,
    OpenApiWarning,
    Request,
    Response,
    Route,
    SendError,
)
from jackstay.types import TextContent
from scripted.openapi_documents import document, get, parameter

URL = "https://api.example"


class Sender:
    """Records requests and responds with 200, or fails."""

    def __init__(self, error: SendError | None = None) -> None:
        self.sent: list[tuple[str, Request]] = []
        self.error = error

    async def send(self, url: str, request: Request, limit: int) -> Response:
        self.sent.append((url, request))
        if self.error is not None:
            raise self.error
        return Response(200, {"content-type": "text/plain"}, b"ok")

    async def close(self) -> None:
        """Nothing to close."""


def make(paths: dict[str, Any], sender: Sender | None = None, more: Any = None, **settings: Any) -> Api:
    root = document(paths, **{"servers": [{"url": URL}], **(more or {})})
    return Api(Document(root), sender or Sender(), ApiSettings(**settings))


def call(api: Api, arguments: Any = None, headers: Any = None) -> Any:
    return asyncio.run(api.call_tool(api.endpoints[0], arguments or {}, headers or {}))


PATHS = {
    "/pets": {"get": {"tags": ["pets"], "operationId": "listPets"}, "post": {"operationId": "addPet"}},
    "/admin/keys": get(operationId="listKeys"),
}


def test_rows_include_exclude_and_rename() -> None:
    rows = [
        Route(path="/admin/*", serve="nothing"),
        Route("POST", name="add", timeout=3),
        Route(tag="pets", serve="resource"),
    ]
    api = make(PATHS, routes=rows)
    assert [(row.name, row.route.serve, row.timeout, row.url) for row in api.endpoints] == [
        ("listPets", "resource", 30.0, URL),
        ("add", "tool", 3, URL),
    ]
    assert (api.title, api.version) == ("Pets", "1.2")


def test_a_problem_is_a_warning_with_the_name_and_the_place() -> None:
    paths = {**PATHS, "/bad/{id}": get(operationId="bad")}
    with pytest.warns(
        OpenApiWarning, match=r"not served: GET /bad/{id} \(bad\): the path variable 'id' has no"
    ) as seen:
        api = make(paths)
    assert len(api.endpoints) == 3
    assert "#/paths/~1bad~1{id}/get" in str(seen[0].message)
    assert seen[0].filename == __file__, "the line of the program, not of the library"
    with pytest.raises(OpenApiError, match="the path variable 'id'"):
        make(paths, strict=True)
    with pytest.raises(OpenApiError, match="and 1 more"):
        make({**paths, "/worse": {"get": 3}}, strict=True)


def test_a_document_without_anything_to_serve() -> None:
    with pytest.raises(OpenApiError, match="the document has no operation to serve"):
        make({})
    with pytest.raises(OpenApiError, match="the document has no operation to serve"):
        make(PATHS, routes=[Route(serve="nothing")])
    with pytest.raises(OpenApiError, match="relative: pass base_url="):
        make({"/x": get()}, more={"servers": [{"url": "/v1"}]})
    assert (
        make({"/x": get()}, more={"servers": [{"url": "/v1"}]}, base_url="https://a/b/").endpoints[0].url
        == "https://a/b"
    )


def test_rows_that_do_not_fit() -> None:
    with pytest.warns(OpenApiWarning, match=r"no operation matches Route\(methods='GET', path='/pet'\)"):
        make(PATHS, routes=[Route("GET", "/pet")])
    with pytest.raises(UsageError, match=r"Route\(name='x'\) matches GET /pets .* and POST /pets"):
        make(PATHS, routes=[Route(name="x")])
    with pytest.warns(OpenApiWarning, match="only GET can be served as a resource"):
        make(PATHS, routes=[Route("POST", serve="resource")])
    paths = {**PATHS, "/q": get(parameter("q", required=True))}
    with pytest.warns(OpenApiWarning, match="a resource cannot have the required query parameter 'q'"):
        make(paths, routes=[Route(path="/q", serve="resource")])


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"routes": ["GET"]}, "routes must be a list of Route(...), not of str"),
        ({"forward_headers": "X-A"}, "forward_headers must be a list of names"),
        ({"forward_headers": ["Host"]}, "the header 'Host' cannot be forwarded"),
        ({"timeout": 0}, "timeout must be above 0"),
        ({"max_response_bytes": 0}, "max_response_bytes must be an int of at least 1"),
        ({"base_url": "x"}, "base_url must be an HTTP URL"),
        ({"credentials": {"k": "x"}}, "unknown security scheme 'k'"),
    ],
)
def test_bad_settings(settings: Any, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        make(PATHS, **settings)
    assert message in str(caught.value)


def test_only_named_headers_of_the_caller_are_forwarded() -> None:
    sender = Sender()
    api = make(PATHS, sender, forward_headers=["X-Tenant", "X-Absent"])
    call(api, headers={"authorization": "Bearer caller", "cookie": "sid=1", "x-tenant": "7"})
    assert sender.sent[0][1].headers == (("X-Tenant", "7"),)
    bad = call(api, headers={"x-tenant": "a\nb"})
    assert bad.content == [
        TextContent(text="invalid arguments: X-Tenant: control characters are not allowed in a header")
    ]


SCHEMES = {
    "token": {"type": "http", "scheme": "bearer"},
    "key": {"type": "apiKey", "in": "query", "name": "api key"},
    "sid": {"type": "apiKey", "in": "cookie", "name": "sid"},
}


def test_credentials_are_those_of_the_author() -> None:
    sender = Sender()

    async def token() -> str:
        return "t1"

    api = make(
        PATHS,
        sender,
        {"components": {"securitySchemes": SCHEMES}, "security": [{"token": [], "key": [], "sid": []}]},
        credentials={"token": token, "key": "k&", "sid": lambda: "a;b"},
        forward_headers=["Authorization"],
    )
    call(api, headers={"authorization": "Bearer caller"})
    url, request = sender.sent[0]
    assert url == f"{URL}/pets?api%20key=k%26"
    assert request.headers == (("Authorization", "Bearer t1"), ("Cookie", "sid=a%3Bb"))


@pytest.mark.parametrize(
    ("index", "error", "message"),
    [
        (0, SendError("lost"), "lost"),
        (1, SendError("lost"), "lost (the API may have processed the request)"),
        (1, SendError("refused", was_sent=False), "refused"),
    ],
)
def test_a_failure_reports_whether_the_request_may_have_run(index: int, error: SendError, message: str) -> None:
    api = make(PATHS, Sender(error))
    result = asyncio.run(api.call_tool(api.endpoints[index], {}, {}))
    assert result.is_error
    assert result.content == [TextContent(text=message)]
    with pytest.raises(CallFailedError):
        asyncio.run(api.call(api.endpoints[index], {}, {}))


def test_arguments_that_cannot_be_sent() -> None:
    api = make({"/x/{id}": get(parameter("id", "path"))})
    assert call(api, {"id": ".."}).content[0].text.startswith("invalid arguments: id: an empty value")
    slashes = make({"/x/{id}": get(parameter("id", "path"))}, sender := Sender(), routes=[Route(allow_slashes=True)])
    assert not call(slashes, {"id": "a/b"}).is_error
    assert sender.sent[0][0] == f"{URL}/x/a/b"
