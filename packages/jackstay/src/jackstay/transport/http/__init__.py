"""The client's HTTP transport: Streamable HTTP of every revision, and HTTP+SSE of 2024-11-05.

It is loaded by `http()` only; the HTTP library when a transport is opened.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._auth": "Auth",
        "._clients": "default_http_client",
        "._contract": "Authorizer Challenge Headers HttpClient HttpResponse",
        "._target": "HttpTarget http",
        "._urls": "address_of is_loopback",
    },
)
