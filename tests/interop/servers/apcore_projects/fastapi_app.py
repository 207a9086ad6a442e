"""A FastAPI application with one route, served by fastapi-apcore. The argument is the port."""

import sys

from fastapi import FastAPI
from fastapi_apcore.client import FastAPIApcore

app = FastAPI()


@app.get("/hello")
def hello() -> dict[str, str]:
    """Say hello."""
    return {"text": "hello"}


FastAPIApcore.get_instance().create_mcp_server(
    app=app, transport="streamable-http", port=int(sys.argv[1]), explorer=True, allow_execute=True
)
