"""The HTTP API of a shop as an MCP server: from its OpenAPI document, or from the FastAPI application itself."""

import sys
from typing import Any

import httpx
from fastapi import FastAPI, HTTPException

from jackstay import Server
from jackstay.openapi import Route

ORDERS = {"A7": 500}

app = FastAPI(title="Shop", version="1.0")


@app.get("/orders/{order}", tags=["orders"])
def get_order(order: str) -> dict[str, int | str]:
    """Return an order."""
    if order not in ORDERS:
        raise HTTPException(404, "no such order")
    return {"order": order, "cents": ORDERS[order]}


@app.post("/orders/search", tags=["orders"])
def search_orders(minimum: int = 0) -> list[str]:
    """Return the orders of at least this value."""
    return [order for order, cents in ORDERS.items() if cents >= minimum]


@app.delete("/orders/{order}", status_code=204, tags=["orders"])
def cancel_order(order: str) -> None:
    """Cancel an order."""
    ORDERS.pop(order, None)


@app.get("/admin/keys", tags=["admin"])
def list_keys() -> list[str]:
    """Not for models."""
    return ["secret"]


ROUTES = [
    Route(path="/admin/*", serve="nothing"),
    Route("POST", "/orders/search", name="find_orders", read_only=True),
    Route("DELETE", name="cancel", description="Cancel an order. It cannot be undone."),
]


def from_application() -> Server:
    """Call the application in this process, without sockets."""
    return Server.from_fastapi(app, routes=ROUTES)


def from_document(document: str | dict[str, Any], token: str, client: httpx.AsyncClient | None = None) -> Server:
    """Call the API over HTTP. The token is the server's own; callers neither send nor see one."""
    return Server.from_openapi(
        document,
        client=client,
        base_url="https://shop.example",
        routes=ROUTES,
        credentials={"token": token},
        forward_headers=["X-Request-Id"],
        timeout=10,
    )


if __name__ == "__main__":
    sys.exit(from_application().run())
