"""`APCoreMCP`."""

from pathlib import Path
from typing import Any

import pytest
from apcore import ACL, Executor, Registry, RetryMiddleware

from apcore_mcp import APCoreMCP, InMemoryApprovalStore, async_serve
from apcore_mcp.options import ServeOptions
from jackstay.server.http import keys

MODULE = '''
from pydantic import BaseModel

class Nothing(BaseModel):
    pass

class Hello:
    """Greets."""
    description = "Greets"
    input_schema = Nothing
    output_schema = Nothing

    def execute(self, inputs, context):
        return {}
'''

DOCUMENT = """{"openapi": "3.1.0", "info": {"title": "T", "version": "1"}, "servers": [{"url": "http://x.test"}],
 "paths": {"/ping": {"get": {"operationId": "ping", "responses": {"200": {"description": "ok"}}}}}}"""


def test_from_a_directory(tmp_path: Path) -> None:
    (tmp_path / "hello.py").write_text(MODULE)
    for directory in (tmp_path, str(tmp_path)):
        mcp = APCoreMCP(directory, name="mine")
        assert mcp.tools == ["hello"]
    assert [tool["function"]["name"] for tool in mcp.to_openai_tools(strict=True)] == ["hello"]


def test_from_a_registry_or_an_executor(registry: Registry, executor: Executor) -> None:
    mcp = APCoreMCP(registry, prefix="math.", tags=["math"], acl=ACL(rules=[], default_effect="deny"))
    assert mcp.registry is registry
    assert mcp.tools == ["math.add"]
    assert mcp.executor.governance_state().acl_configured
    assert APCoreMCP(executor).executor is executor
    with pytest.raises(ValueError, match="extensions_dir_or_backend is required"):
        APCoreMCP()
    with pytest.raises(TypeError, match="unexpected option"):
        APCoreMCP(registry, colour="red")


def test_serve_adds_options(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[Any, ServeOptions]] = []
    monkeypatch.setattr("apcore_mcp.compat.app.serve_with", lambda *given: served.append(given))
    mcp = APCoreMCP(registry, name="mine", acl=ACL(rules=[]))
    mcp.serve(transport="streamable-http", port=9, explorer=True, explorer_prefix="/explorer")
    ((executor, options),) = served
    assert executor is mcp.executor
    assert (options.name, options.port, options.inspector_prefix, options.acl) == ("mine", 9, "/explorer", None)


def test_serve_applies_what_belongs_to_the_executor(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[tuple[Any, ServeOptions]] = []
    monkeypatch.setattr("apcore_mcp.compat.app.serve_with", lambda *given: served.append(given))
    acl = ACL(rules=[], default_effect="deny")
    store, middleware = InMemoryApprovalStore(), RetryMiddleware()
    APCoreMCP(registry, approval_store=store).serve(acl=acl, middleware=[middleware], async_tasks=True)
    ((_, options),) = served
    assert (options.acl, options.middleware, options.approval_handler) == (acl, [middleware], None)
    assert len(options.extensions) == 3  # the start of the store, its tool, and the task tools
    APCoreMCP(registry).serve(approval_store=store)
    assert served[1][1].approval_handler is not None


async def test_app_needs_the_authentication_that_a_file_requires(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever transport is given: an app is never served over stdio."""
    (tmp_path / "apcore.yaml").write_text("mcp: {require_auth: true, transport: stdio}\n")
    monkeypatch.chdir(tmp_path)
    mcp = APCoreMCP(registry)
    for app in (mcp.async_serve(), async_serve(registry), async_serve(registry, transport="STDIO")):
        with pytest.raises(ValueError, match="there is no authentication"):
            await app.__aenter__()
    async with async_serve(registry, auth=keys("a-key-of-enough-length")) as served:
        assert await get(served, "/mcp") == 401


async def get(app: Any, path: str) -> int:
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"host", b"localhost")]
    scope = {"type": "http", "method": "GET", "path": path, "headers": headers, "query_string": b"", "root_path": ""}
    await app(scope, receive, send)
    return int(sent[0]["status"])


async def test_both_functions_return_an_app(registry: Registry) -> None:
    options: Any = {
        "explorer": True,
        "observability": True,
        "auth": keys("a-key-of-enough-length"),
        "exempt_paths": ["/metrics"],
    }
    mcp = APCoreMCP(registry, **options)
    async with mcp.async_serve() as first, async_serve(registry, **options) as second:
        for app in (first, second):
            assert await get(app, "/health") == 200
            assert await get(app, "/inspector") == 200
            assert await get(app, "/metrics") == 200
            assert await get(app, "/inspector/api/usage") == 401
            assert await get(app, "/mcp") == 401


def test_unused_coroutine_can_be_closed(registry: Registry) -> None:
    serving = async_serve(registry)
    serving.close()
    started = async_serve(registry, transport="pigeon")
    with pytest.raises(ValueError, match="transport"):
        started.send(None)
    with pytest.raises(RuntimeError):
        started.throw(RuntimeError())
    started.close()


def test_strategy_of_serve_is_refused_without_a_warning(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The pipeline of the file does not replace it."""
    (tmp_path / "apcore.yaml").write_text("mcp: {pipeline: {}}\n")
    monkeypatch.chdir(tmp_path)
    mcp = APCoreMCP(registry)
    with pytest.raises(ValueError, match="cannot replace the strategy of an Executor"):
        mcp.serve(strategy="minimal")
    assert "mcp.pipeline replaces strategy=" not in caplog.messages


def test_settings_with_a_document_are_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api.json").write_text(DOCUMENT)
    (tmp_path / "apcore.yaml").write_text("mcp:\n  openapi: {spec: api.json}\n")
    monkeypatch.chdir(tmp_path)
    mcp = APCoreMCP()
    assert mcp.tools == ["ping"]
    mcp._complete({})
    (tmp_path / "apcore.yaml").unlink()
    assert APCoreMCP.from_openapi(tmp_path / "api.json", openapi_prefix="web", name="web").tools == ["web.ping"]
