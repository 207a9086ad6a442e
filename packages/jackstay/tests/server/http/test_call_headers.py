"""`Mcp-Param-*` headers are compared with the arguments before the call runs."""

from typing import Any

import pytest

from jackstay.server import Server
from scripted.asgi import http_client, request, stateless

NULL = object()  # stands for `"arguments": null`


async def test_param_headers_must_match_the_arguments(subtests: pytest.Subtests) -> None:
    """2026-07-28 basic/transports/streamable-http; conformance `http-custom-header-server-validation`."""
    cases: list[tuple[Any, dict[str, str], int]] = [
        ({"region": "eu", "size": 3}, {"mcp-param-region": "eu", "mcp-param-size": "3"}, 200),
        ({"region": "eu"}, {"mcp-param-region": "eu"}, 200),
        ({"region": "eu", "size": 3}, {"mcp-param-region": "eu", "mcp-param-size": "3.0"}, 200),
        ({"region": "\xfc"}, {"mcp-param-region": "=?base64?w7w=?="}, 200),
        ({"region": "eu"}, {}, 400),
        ({"region": "eu"}, {"mcp-param-region": "us"}, 400),
        ({"region": "eu", "size": 3}, {"mcp-param-region": "eu", "mcp-param-size": "4"}, 400),
        ({"region": "eu"}, {"mcp-param-region": "eu", "mcp-param-size": "4"}, 400),
        (None, {}, 200),
        (None, {"mcp-param-region": "eu"}, 400),
        (NULL, {}, 200),
        (NULL, {"mcp-param-region": "eu"}, 400),
        ({"region": None}, {"mcp-param-region": "eu"}, 400),
    ]
    for arguments, headers, status in cases:
        with subtests.test(arguments=arguments, headers=headers, status=status):
            server = Server("app")
            schema = {
                "type": "object",
                "properties": {
                    "region": {"type": "string", "x-mcp-header": "Region"},
                    "size": {"type": "integer", "x-mcp-header": "Size"},
                },
            }
            server.add_tool("place", input_schema=schema, handler=lambda arguments: "placed", validate=False)
            async with http_client(server.asgi()) as http:
                given = {} if arguments is None else {"arguments": None if arguments is NULL else arguments}
                params = {"name": "place", **given}
                answer = await http.post(stateless("tools/call", params), headers=headers)
                assert answer.status == status
                if status == 400:
                    assert answer.json["error"]["code"] == -32020
                encoded = {"mcp-name": "=?base64?cGxhY2U=?=", **headers}
                assert (await http.post(stateless("tools/call", params), headers=encoded)).status == status
                old = await http.post(request("tools/call", params))
                assert old.status == 200, "earlier revisions have no such headers"


async def test_invalid_arguments_are_left_to_the_dispatcher() -> None:
    server = Server("app")
    schema = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}
    server.add_tool("place", input_schema=schema, handler=lambda arguments: "placed", validate=False)
    async with http_client(server.asgi()) as http:
        answer = await http.post(stateless("tools/call", {"name": "place", "arguments": [1]}))
        assert answer.status == 200
        assert answer.json["result"]["isError"] is True
