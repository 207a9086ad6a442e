"""MCP over HTTP, as a client does it: one face for servers of both eras, and for those of 2024-11-05.

Loaded by who calls `http()`, and by nobody else; the HTTP library itself when a client is opened.

Above: the client's room. Below: `jackstay.protocol.http` (the rules), an HTTP client library.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.transport.http._auth import Auth
    from jackstay.transport.http._clients import default_http_client
    from jackstay.transport.http._contract import Authorizer, Challenge, Headers, HttpClient, HttpResponse
    from jackstay.transport.http._target import HttpTarget, http
    from jackstay.transport.http._urls import address_of, is_loopback

__all__ = [
    "Auth",
    "Authorizer",
    "Challenge",
    "Headers",
    "HttpClient",
    "HttpResponse",
    "HttpTarget",
    "address_of",
    "default_http_client",
    "http",
    "is_loopback",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Auth": "_auth",
            "Authorizer": "_contract",
            "Challenge": "_contract",
            "Headers": "_contract",
            "HttpClient": "_contract",
            "HttpResponse": "_contract",
            "HttpTarget": "_target",
            "address_of": "_urls",
            "default_http_client": "_clients",
            "http": "_target",
            "is_loopback": "_urls",
        },
    )
