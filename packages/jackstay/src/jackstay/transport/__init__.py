"""Transports: stdio, HTTP and in-memory connections that send and receive whole frames."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._contract": "ExchangeHandler ExchangeTransport Target Transport TransportHandler",
        "._memory": "InProcessTarget MemoryPair MemoryTarget MemoryTransport Servable memory_pair",
        "._own_stdio": "OwnStdioTarget own_stdio",
        "._queue": "MAX_QUEUED_BYTES MAX_QUEUED_FRAMES",
        "._process": "kill_children",
        "._stderr_tail": "StderrTo",
        "._stdio": "StdioTarget stdio",
        ".http._clients": "default_http_client",
        ".http._contract": "Authorizer Challenge HttpClient HttpResponse",
    },
)
