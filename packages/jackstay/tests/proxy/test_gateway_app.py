"""The HTTP endpoint of a gateway: paths, keys and what each principal sees, metrics."""

import asyncio
import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import ECKey

from jackstay.proxy import Gateway
from jackstay.testing import on_fake_clock
from scripted.asgi import http_client, stateless
from scripted.gateway import Office
from scripted.ways import on_port

KEYS = """
[keys]
alice = "a-long-secret-of-alice"
bob = "a-long-secret-of-bob"
carol = "a-long-secret-of-carol"

[access.alice]
servers = ["a", "b"]

[access.bob]
servers = ["b"]
tools = ["b_t"]
"""


JWT = """
[jwt]
issuer = "https://auth.example.com"
audience = "https://gateway.example.com/mcp"
jwks = "http://127.0.0.1:PORT/jwks.json"
scopes = ["mcp"]

[access."https://auth.example.com|sub|alice"]

[access."https://auth.example.com|sub|bob"]
servers = ["b"]
tools = ["b_t"]
"""


@pytest.fixture
def office(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Office:
    return Office(tmp_path / "gateway.toml", monkeypatch)


async def post(http: Any, path: str, method: str, params: dict[str, Any] | None = None, key: str = "") -> Any:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    response = await http.open("POST", stateless(method, params), path=path, headers=headers)
    await response.end()
    return response.status, json.loads(bytes(response.body))


async def names(http: Any, path: str, key: str = "") -> Any:
    status, body = await post(http, path, "tools/list", None, key)
    return [tool["name"] for tool in body["result"]["tools"]] if "result" in body else (status, body["error"]["code"])


@on_fake_clock
async def test_paths_health_and_metrics(office: Office) -> None:
    office.write("a", "b")
    gateway = Gateway(office.path)
    app = gateway.asgi(health=True)
    await app.lifecycle.start()
    async with http_client(app) as http:
        assert await names(http, "/mcp") == ["a_t", "a_u", "b_t", "b_u"]
        assert await names(http, "/servers/b/mcp") == ["t", "u"]
        status, body = await post(http, "/servers/b/mcp", "tools/call", {"name": "t", "arguments": {}})
        assert (status, body["result"]["content"][0]["text"]) == (200, "b")
        assert (await http.open("POST", stateless("tools/list"), path="/servers/x/mcp")).status == 404
        health = await http.open("GET", path="/health")
        await health.end()
        assert json.loads(bytes(health.body))["servers"]["a"] == {"state": "ok", "restarts": 0, "tools": 2}
        metrics = await http.open("GET", path="/metrics")
        await metrics.end()
        lines = bytes(metrics.body).decode().splitlines()
        for line in (
            'jackstay_gateway_server_up{server="a"} 1',
            'jackstay_gateway_tools{server="b"} 2',
            'jackstay_gateway_in_flight{server="a"} 0',
            'jackstay_gateway_server_restarts_total{server="a"} 0',
            'jackstay_gateway_calls_total{server="b",method="tools/call",outcome="ok"} 1',
        ):
            assert line in lines
    await app.drain()
    await app.lifecycle.end()
    assert all(peer._transport is None for peers in office.peers.values() for peer in peers)


@on_fake_clock
async def test_each_principal_sees_and_calls_what_its_rule_allows(office: Office) -> None:
    office.write("a", "b", more=KEYS)
    gateway = Gateway(office.path)
    app = gateway.asgi(health=True)
    await app.lifecycle.start()
    async with http_client(app) as http:
        alice, bob, carol = (f"a-long-secret-of-{name}" for name in ("alice", "bob", "carol"))
        for key, seen in (("", None), ("wrong", None), (alice, ["a", "b"]), (bob, ["b"]), (carol, [])):
            headers = {"authorization": f"Bearer {key}"} if key else {}
            pages = [await http.open("GET", path=path, headers=headers) for path in ("/health", "/metrics")]
            for page in pages:
                await page.end()
            health, metrics = json.loads(bytes(pages[0].body)), bytes(pages[1].body).decode()
            assert (pages[0].status, health["status"], pages[1].status) == (200, "ok", 401 if seen is None else 200)
            assert list(health.get("servers", {})) == (seen or [])
            assert (health == {"status": "ok"}) is (seen is None)
            assert sorted(set(re.findall('server="(.)"', metrics))) == (seen or [])
        assert await names(http, "/mcp", alice) == ["a_t", "a_u", "b_t", "b_u"]
        assert await names(http, "/mcp", bob) == ["b_t"]
        assert await names(http, "/servers/b/mcp", bob) == ["t"]
        hidden, absent = [await names(http, f"/servers/{name}/mcp", bob) for name in ("a", "x")]
        assert hidden == absent, "what bob may not use does not exist for bob"
        for path, key, name in (("/mcp", bob, "a_t"), ("/mcp", bob, "b_u"), ("/servers/b/mcp", bob, "u")):
            _, body = await post(http, path, "tools/call", {"name": name, "arguments": {}}, key)
            assert "unknown tool" in body["error"]["message"], name
        status, _ = await names(http, "/mcp", carol)
        assert status == 404, "a server without tools does not have the method"
        for path in ("/mcp", "/servers/a/mcp"):
            for key in ("", "a-secret-of-nobody"):
                assert (await names(http, path, key))[0] == 401

        office.write("a", "b", more=KEYS.replace('"b_t"', '"b_*"').replace("secret-of-alice", "new-secret-of-alice"))
        await gateway.reload()
        assert await names(http, "/mcp", bob) == ["b_t", "b_u"]
        assert (await names(http, "/mcp", alice))[0] == 401
        assert await names(http, "/mcp", "a-long-new-secret-of-alice") == ["a_t", "a_u", "b_t", "b_u"]
    await asyncio.gather(app.drain())
    await app.lifecycle.end()


async def test_tokens_of_an_issuer_identify_callers_and_what_they_see(office: Office) -> None:
    """Real tokens, and the keys of the issuer over HTTP."""
    key = ECKey.generate_key("P-256", {"kid": "ec"})
    jwks = json.dumps({"keys": [key.as_dict(private=False)]}).encode()

    async def issuer(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": jwks})

    def token(subject: str, signer: Any = key, **claims: Any) -> str:
        audience = "https://gateway.example.com/mcp"
        expiry = int(time.time()) + 3600
        fields = {"iss": "https://auth.example.com", "aud": audience, "sub": subject, "exp": expiry, "scope": "mcp"}
        return jwt.encode({"alg": "ES256", "kid": "ec"}, {**fields, **claims}, signer, algorithms=["ES256"])

    async with on_port(issuer, lifespan="off") as port:
        office.write("a", "b", more=JWT.replace("PORT", str(port)))
        gateway = Gateway(office.path)
        app = gateway.asgi()
        await app.lifecycle.start()
        async with http_client(app) as http:
            assert await names(http, "/mcp", token("alice")) == ["a_t", "a_u", "b_t", "b_u"]
            assert await names(http, "/mcp", token("bob")) == ["b_t"]
            assert await names(http, "/servers/b/mcp", token("bob")) == ["t"]
            call = {"name": "a_t", "arguments": {}}
            status, body = await post(http, "/mcp", "tools/call", call, token("alice"))
            assert (status, body["result"]["content"][0]["text"]) == (200, "a")
            _, body = await post(http, "/mcp", "tools/call", call, token("bob"))
            assert "unknown tool" in body["error"]["message"]
            assert (await names(http, "/mcp", token("carol")))[0] == 404, "nothing is visible to others"
            stranger = ECKey.generate_key("P-256", {"kid": "ec"})
            for refused in (
                token("alice", stranger),
                token("alice", exp=1),
                token("alice", iss="https://other.example.com"),
                token("alice", aud="https://other.example.com/mcp"),
                "",
            ):
                assert (await names(http, "/mcp", refused))[0] == 401
            assert (await names(http, "/mcp", token("alice", scope="")))[0] == 403
        await app.drain()
        await app.lifecycle.end()
