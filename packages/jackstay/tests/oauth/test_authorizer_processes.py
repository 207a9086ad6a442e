"""Programs that share a token file: one refreshes, the others use its token. Real processes and HTTP."""

import asyncio
import contextlib
import json
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import TransportError
from jackstay.oauth import FileStore, Identity, OAuth
from jackstay.oauth import _store as stores
from jackstay.oauth._authorizer import KnownServer
from jackstay.oauth._store import save_entry, server_key, tokens_key
from jackstay.oauth._tokens import Tokens
from jackstay.transport.http import default_http_client
from scripted.oauth import AuthorizationSite, Request, Response
from scripted.places import TESTS

PROGRAM = TESTS / "peers" / "oauth_refresher.py"
RESOURCE = "http://127.0.0.1:1/mcp"


class Rotating(AuthorizationSite):
    """Rotates refresh tokens, and revokes all of them when a used one is used again (RFC 9700, 4.14.2)."""

    def __init__(self) -> None:
        super().__init__()
        self.current, self.spent, self.is_revoked = "r0", set[str](), False
        self.rotations = 0

    def begin(self) -> None:
        self.current, self.spent, self.is_revoked = "r0", set(), False

    async def _token(self, request: Request) -> Response:  # type: ignore[override]  # async
        token = request.form["refresh_token"]
        await asyncio.sleep(0.02)
        if self.is_revoked or token != self.current:
            self.is_revoked |= token in self.spent
            return Response(400, {"error": "invalid_grant"})
        self.spent.add(token)
        self.rotations += 1
        self.current = f"r{self.rotations}"
        answer = {"access_token": f"a{self.rotations}", "token_type": "Bearer", "expires_in": 3600}
        return Response(body={**answer, "refresh_token": self.current})


async def expired_tokens(path: Path, issuer: str) -> None:
    now, store = time.time(), FileStore(path)
    tokens = Tokens(issuer, RESOURCE, "me", "a-old", now - 4000, now - 10, "r0", ("mcp",), ("mcp",))
    await save_entry(store, tokens_key(issuer, RESOURCE), tokens)
    await save_entry(store, server_key(RESOURCE), KnownServer(issuer, RESOURCE))


def stored(path: Path, issuer: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_bytes())["entries"][tokens_key(issuer, RESOURCE)]
    return found


class Program:
    """A program that shares the file."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def send(self, line: str) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{line}\n".encode())
        return (await self.process.stdout.readline()).decode().strip()


@contextlib.asynccontextmanager
async def programs(count: int, site: AuthorizationSite) -> AsyncIterator[list[Program]]:
    pipe = asyncio.subprocess.PIPE
    running = [
        await asyncio.create_subprocess_exec(
            sys.executable, str(PROGRAM), site.issuer, RESOURCE, stdin=pipe, stdout=pipe
        )
        for _ in range(count)
    ]
    try:
        yield [Program(process) for process in running]
    finally:
        for process in running:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            process._transport.close()  # type: ignore[attr-defined]  # close its pipes now


async def test_programs_that_share_a_file_refresh_one_at_a_time(tmp_path: Path) -> None:
    """Three programs and one expired token, 20 times."""
    async with Rotating() as site, programs(3, site) as running:
        for trial in range(20):
            site.begin()
            path = tmp_path / f"{trial}.json"
            await expired_tokens(path, site.issuer)
            before = site.rotations
            answers = await asyncio.gather(*(program.send(str(path)) for program in running))
            assert not site.is_revoked, f"a spent refresh token was used again in trial {trial}"
            assert answers == [f"Bearer a{before + 1}"] * 3
            assert site.rotations == before + 1
            assert stored(path, site.issuer)["refresh_token"] == site.current


async def test_a_killed_program_releases_its_lock(tmp_path: Path) -> None:
    path = tmp_path / "tokens.json"
    async with Rotating() as site, programs(2, site) as (killed, other):
        await expired_tokens(path, site.issuer)
        assert await killed.send(f"hold {path} {tokens_key(site.issuer, RESOURCE)}") == "held"
        response = asyncio.ensure_future(other.send(str(path)))
        killed.process.kill()
        assert await response == "Bearer a1"
        assert not site.is_revoked


async def test_a_hanging_program_blocks_others_for_a_limited_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its refresh token may have been used, so it is not used again, and the store is not changed."""
    monkeypatch.setattr(stores, "LOCK_SECONDS", 0.3)
    path = tmp_path / "tokens.json"
    async with Rotating() as site, programs(1, site) as (hung,):
        await expired_tokens(path, site.issuer)
        before = path.read_bytes()
        assert await hung.send(f"hold {path} {tokens_key(site.issuer, RESOURCE)}") == "held"
        auth = OAuth(Identity(client_id="me", issuer=site.issuer), store=FileStore(path), show=None)
        client = default_http_client()
        with pytest.raises(TransportError, match="another program") as raised:
            await auth.headers(client, RESOURCE)
        assert raised.value.retryable
        assert site.rotations == 0
        assert path.read_bytes() == before
        hung.process.kill()
        await hung.process.wait()
        assert dict(await auth.headers(client, RESOURCE)) == {"Authorization": "Bearer a1"}
        await client.close()
