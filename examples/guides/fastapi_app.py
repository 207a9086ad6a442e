"""A web application with MCP clients (docs/guides/fastapi.md).

python examples/guides/fastapi_app.py ledger.txt
curl -X POST 'http://127.0.0.1:8000/orders/A7/payment?cents=500'
curl http://127.0.0.1:8000/health
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.responses import JSONResponse

from jackstay import Client, JsonRpcError, McpError, UsageError, connect, stdio

SHOP = Path(__file__).parent / "shop.py"

# How long the shutdown waits for open calls.
DRAIN = 10.0


def make_app(clients: Mapping[str, Client]) -> FastAPI:
    """Create the application. It opens these clients when it starts."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.clients = clients
        try:
            for client in clients.values():
                await client.open(wait=False)
            yield
        finally:
            await asyncio.gather(*(client.stop(drain=DRAIN) for client in clients.values()))

    app = FastAPI(lifespan=lifespan)
    app.add_exception_handler(McpError, handle_error)
    app.add_api_route("/orders/{order}/payment", pay, methods=["POST"])
    app.add_api_route("/health", health)
    return app


async def get_shop(request: Request) -> Client:
    """Return the client of the shop. Async, so that it runs on the event loop of the client."""
    client: Client = request.app.state.clients["shop"]
    return client


async def pay(order: str, cents: int, shop: Annotated[Client, Depends(get_shop)]) -> dict[str, str]:
    """Take a payment."""
    result = await shop.tools.call("pay", {"order": order, "cents": cents}, timeout=20, raise_on_error=False)
    if result.is_error:
        raise HTTPException(422, result.error_text)
    return {"paid": result.text}


def http_status(error: McpError) -> int:
    """Return the HTTP status for an error."""
    if error.may_have_run:
        return 504
    if isinstance(error, JsonRpcError):
        return 502
    if isinstance(error, UsageError):
        return 500
    return 503


async def handle_error(_: Request, error: Exception) -> JSONResponse:
    """Convert an error of a call to an HTTP response."""
    assert isinstance(error, McpError)
    body = {"error": error.type, "message": error.message, "may_have_run": error.may_have_run}
    headers = {"Retry-After": str(max(1, round(error.retry_in or 1)))} if error.retryable else {}
    return JSONResponse(body, http_status(error), headers)


async def health(request: Request) -> JSONResponse:
    """Return the state of every server; 503 if one is closed for good."""
    clients: Mapping[str, Client] = request.app.state.clients
    states = {name: client.state for name, client in clients.items()}
    return JSONResponse(states, 503 if "closed" in states.values() else 200)


def main() -> None:
    import uvicorn  # noqa: PLC0415  # another server may run the application

    if len(sys.argv) < 2:
        sys.exit("usage: python fastapi_app.py LEDGER [PORT]")
    target = stdio(sys.executable, SHOP, sys.argv[1], inherit_env=["PYTHONPATH"])
    shop = connect(target, name="shop", max_attempts=1_000_000)
    port = int(sys.argv[2]) if len(sys.argv) > 2 else 8000
    uvicorn.run(make_app({"shop": shop}), host="127.0.0.1", port=port)


if __name__ == "__main__":
    main()
