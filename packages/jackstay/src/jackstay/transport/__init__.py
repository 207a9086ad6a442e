"""Transports: stdio, HTTP and in-memory connections that send and receive whole frames."""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.transport._contract import (
        MAX_QUEUED_BYTES,
        MAX_QUEUED_FRAMES,
        ExchangeHandler,
        ExchangeTransport,
        Target,
        Transport,
        TransportHandler,
    )
    from jackstay.transport._memory import MemoryPair, MemoryTarget, MemoryTransport, memory_pair
    from jackstay.transport._own_stdio import OwnStdioTarget, own_stdio
    from jackstay.transport._process import kill_children
    from jackstay.transport._stderr_tail import StderrTo
    from jackstay.transport._stdio import StdioTarget, stdio
    from jackstay.transport.http._clients import default_http_client
    from jackstay.transport.http._contract import Authorizer, Challenge, HttpClient, HttpResponse

__all__ = [
    "MAX_QUEUED_BYTES",
    "MAX_QUEUED_FRAMES",
    "Authorizer",
    "Challenge",
    "ExchangeHandler",
    "ExchangeTransport",
    "HttpClient",
    "HttpResponse",
    "MemoryPair",
    "MemoryTarget",
    "MemoryTransport",
    "OwnStdioTarget",
    "StderrTo",
    "StdioTarget",
    "Target",
    "Transport",
    "TransportHandler",
    "default_http_client",
    "kill_children",
    "memory_pair",
    "own_stdio",
    "stdio",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Authorizer": "http._contract",
            "Challenge": "http._contract",
            "ExchangeHandler": "_contract",
            "ExchangeTransport": "_contract",
            "HttpClient": "http._contract",
            "HttpResponse": "http._contract",
            "MAX_QUEUED_BYTES": "_contract",
            "MAX_QUEUED_FRAMES": "_contract",
            "MemoryPair": "_memory",
            "MemoryTarget": "_memory",
            "MemoryTransport": "_memory",
            "OwnStdioTarget": "_own_stdio",
            "TransportHandler": "_contract",
            "StderrTo": "_stderr_tail",
            "StdioTarget": "_stdio",
            "Target": "_contract",
            "Transport": "_contract",
            "default_http_client": "http._clients",
            "kill_children": "_process",
            "memory_pair": "_memory",
            "own_stdio": "_own_stdio",
            "stdio": "_stdio",
        },
    )
