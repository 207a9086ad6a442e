"""The client's HTTP transport: Streamable HTTP of every revision, and HTTP+SSE of 2024-11-05.

It is loaded by `http()` only; the HTTP library when a transport is opened.
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
