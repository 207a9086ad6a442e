"""A program that shares a token file: for every path on stdin it prints the bearer header of the store at that path.

    python oauth_refresher.py ISSUER RESOURCE

The line `hold PATH KEY` acquires the lock of that key, prints "held" and keeps it.
"""

import asyncio
import sys

from jackstay.errors import McpError
from jackstay.oauth import FileStore, Identity, OAuth
from jackstay.transport.http import default_http_client


async def main(issuer: str, resource: str) -> None:
    client = default_http_client()
    try:
        for line in iter(sys.stdin.readline, ""):
            parts = line.strip().split(" ", 2)
            if parts[0] == "hold":
                async with FileStore(parts[1]).lock(parts[2]):
                    print("held", flush=True)
                    await asyncio.sleep(600)
            auth = OAuth(Identity(client_id="me", issuer=issuer), store=FileStore(parts[0]), show=None)
            try:
                headers = dict(await auth.headers(client, resource))
                print(headers.get("Authorization", "nothing"), flush=True)
            except McpError as error:
                print(f"{type(error).__name__}: {error}", flush=True)
    finally:
        await client.close()


asyncio.run(main(*sys.argv[1:3]))
