"""Approval stores, their handler, and the tool that polls."""

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, Identity, Registry

from apcore_mcp.approval import CLIENT_CALL, ClientCall
from apcore_mcp.compat.approvals import (
    ApprovalBridge,
    ApprovalStore,
    ElicitationApprovalHandler,
    InMemoryApprovalStore,
    StorageBackedApprovalHandler,
)
from apcore_mcp.helpers import MCP_ELICIT_KEY
from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.serving import open_bridge, read_options
from jackstay.client import connect


def request(**data: Any) -> Any:
    return SimpleNamespace(
        module_id="user.remove", arguments={"user": "ann"}, description="Removes", context=SimpleNamespace(data=data)
    )


async def test_records_change_once_and_hide_arguments() -> None:
    store = InMemoryApprovalStore()
    assert isinstance(store, ApprovalStore)
    store.start()
    await store.save_pending("1", "m", {"secret": 1})
    record = await store.get_result("1")
    assert record is not None
    assert (record["status"], "arguments" in record) == ("pending", False)
    assert await store.resolve("1", approved=False, reason="no")
    assert not await store.resolve("1", approved=True)
    assert not await store.resolve("2", approved=True)
    resolved = await store.wait_for_resolution("1")
    assert resolved is not None
    assert (resolved["status"], resolved["reason"]) == ("rejected", "no")
    assert await store.get_result("2") is None
    store.stop()


async def test_records_expire_and_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("apcore_mcp.compat.approvals.time.monotonic", lambda: now[0])
    store = InMemoryApprovalStore(pending_ttl=10, resolved_ttl=1, max_records=2)
    for id in ("1", "2", "3"):
        await store.save_pending(id, "m", {})
    assert await store.get_result("1") is None
    await store.resolve("2", approved=True)
    now[0] = 5.0
    assert await store.get_result("2") is None
    assert await store.get_result("3") is not None
    assert await store.wait_for_resolution("3", timeout=0) is not None
    now[0] = 11.0
    assert await store.get_result("3") is None


async def test_handler_records_and_reads() -> None:
    store, seen = InMemoryApprovalStore(), []

    async def notify(*given: Any) -> None:
        seen.append(given)
        raise RuntimeError("mail server down")

    handler = StorageBackedApprovalHandler(store, notify_callback=notify)
    pending = await handler.request_approval(request())
    assert pending.status == "pending"
    assert seen == [(pending.approval_id, "user.remove", {"user": "ann"})]
    assert (await handler.check_approval(pending.approval_id)).status == "pending"
    await store.resolve(pending.approval_id, approved=True)
    assert (await handler.check_approval(pending.approval_id)).status == "approved"
    other = await handler.request_approval(request())
    await store.resolve(other.approval_id, approved=False, reason="no")
    assert (await handler.check_approval(other.approval_id)).reason == "no"
    assert (await handler.check_approval("x")).reason == "approval_id not found"


async def test_failing_store_rejects() -> None:
    class Broken:
        async def save_pending(self, *_: Any) -> None:
            raise MemoryError

        async def get_result(self, _: str) -> None:
            raise OSError("disk")

    handler = StorageBackedApprovalHandler(Broken())
    assert (await handler.request_approval(request())).reason == "Store capacity exceeded"
    assert (await handler.check_approval("x")).reason == "Storage error"


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ({"action": "accept"}, None),
        ({"action": "accept", "content": {"approve": True}}, None),
        ({"action": "accept", "content": {"approve": False}}, "User declined approval"),
        ({"action": "decline"}, "User action: decline"),
        (None, "Elicitation returned no response"),
        (RuntimeError("gone"), "Elicitation request failed"),
    ],
)
async def test_elicitation_handler(answer: Any, reason: str | None) -> None:
    async def elicit(message: str, form: Any) -> Any:
        assert "user.remove" in message
        assert form["properties"]["approve"]["type"] == "boolean"
        if isinstance(answer, BaseException):
            raise answer
        return answer

    handler = ElicitationApprovalHandler()
    result = await handler.request_approval(request(**{MCP_ELICIT_KEY: elicit}))
    assert (result.status, result.reason) == ("approved" if reason is None else "rejected", reason)


async def test_elicitation_handler_without_a_client() -> None:
    handler = ElicitationApprovalHandler()
    assert (await handler.request_approval(request())).reason == "No elicitation callback available"
    no_context = SimpleNamespace(context=None)
    assert (await handler.request_approval(no_context)).reason == "No context available for elicitation"
    assert (await handler.check_approval("x")).status == "rejected"


async def test_tool_answers_errors(caplog: pytest.LogCaptureFixture) -> None:
    class Broken:
        async def check_approval(self, _: str) -> None:
            raise OSError("disk")

    bridge = ApprovalBridge(Broken())
    for name, arguments, text in (
        ("other", {}, "Unknown approval meta-tool: other"),
        ("__apcore_approval_check", {}, "approval_id is required"),
        ("__apcore_approval_check", {"approval_id": "x"}, "Internal error occurred"),
    ):
        content, is_error, _ = await bridge.handle_meta_tool(name, arguments)
        assert (content[0]["text"], is_error) == (text, True)
    assert "disk" in caplog.text


async def test_call_that_is_approved_later(registry: Registry) -> None:
    """The whole way: refused with an id, polled, approved by another program, called again."""
    store = InMemoryApprovalStore()
    with open_bridge(registry, read_options({"approval_store": store}), owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            arguments = {"user": "ann", "password": "x"}
            refused = await client.tools.call("user.remove", arguments, raise_on_error=False)
            assert refused.is_error
            assert refused.meta is not None
            approval_id = refused.meta["apcore"]["approvalId"]
            poll = {"approval_id": approval_id}
            state = await client.tools.call("__apcore_approval_check", poll)
            assert json.loads(state.text)["status"] == "pending"
            await store.resolve(approval_id, approved=True)
            done = await client.tools.call("user.remove", arguments, meta={"approvalId": approval_id})
            assert not done.is_error


async def test_approval_is_for_one_call(registry: Registry, kinds: SimpleNamespace) -> None:
    """The id is refused for other arguments, another module, in the arguments of a task, and a second time."""
    store = InMemoryApprovalStore()
    other = kinds.Remove()
    registry.register("user.purge", other, metadata={"async": True})
    options = read_options({"approval_store": store, "async_tasks": True})
    with open_bridge(registry, options, owns_loop=False) as bridge:
        async with connect(bridge.server) as client:
            arguments = {"user": "ann", "password": "x"}
            refused = await client.tools.call("user.remove", arguments, raise_on_error=False)
            assert refused.meta is not None
            approval_id = refused.meta["apcore"]["approvalId"]
            await store.resolve(approval_id, approved=True)
            meta = {"approvalId": approval_id}

            async def is_refused(name: str, arguments: dict[str, Any], meta: dict[str, Any]) -> bool:
                return (await client.tools.call(name, arguments, meta=meta, raise_on_error=False)).is_error

            assert await is_refused("user.remove", {**arguments, "user": "bob"}, meta)
            assert await is_refused("user.purge", arguments, meta)
            assert await is_refused("user.purge", {**arguments, "_approval_token": approval_id}, {})
            inputs = {**arguments, "_approval_token": approval_id}
            task = await client.tools.call("__apcore_task_submit", {"module_id": "user.purge", "arguments": inputs})
            poll = {"task_id": json.loads(task.text)["task_id"]}
            state = {"status": "pending"}
            while state["status"] in ("pending", "running"):
                state = json.loads((await client.tools.call("__apcore_task_status", poll)).text)
            assert (state["status"], other.ran) == ("failed", 0)
            assert not await is_refused("user.remove", arguments, meta)
            assert await is_refused("user.remove", arguments, meta), "a second call needs another approval"


async def test_approval_belongs_to_its_caller(registry: Registry) -> None:
    """Another principal can neither poll an approval nor use it."""
    store = InMemoryApprovalStore()
    handler = StorageBackedApprovalHandler(store)
    executor = Executor(registry, approval_handler=handler)
    router = ExecutionRouter(executor)
    arguments = {"user": "ann", "password": "x"}

    async def call(who: str, approval_id: str | None = None) -> Any:
        meta = {} if approval_id is None else {"approvalId": approval_id}
        return await router.handle_call("user.remove", arguments, extra={"identity": Identity(id=who), "_meta": meta})

    approval_id = (await call("ann")).meta["apcore"]["approvalId"]
    await store.resolve(approval_id, approved=True)
    assert (await call("bob", approval_id)).is_error
    assert (await call("bob", "")).is_error
    for who, status in (("bob", "rejected"), ("", "rejected"), ("ann", "approved")):
        reset = CLIENT_CALL.set(ClientCall(who))
        assert (await handler.check_approval(approval_id)).status == status, who
        CLIENT_CALL.reset(reset)
    assert not (await call("ann", approval_id)).is_error


class WithoutConsume:
    """A store as users of apcore-mcp have written it."""

    def __init__(self) -> None:
        store = InMemoryApprovalStore()
        self.save_pending, self.get_result, self.resolve = store.save_pending, store.get_result, store.resolve


async def test_used_approvals_are_known_after_a_restart(registry: Registry) -> None:
    """Also with a store as users of apcore-mcp have written it: the handler saves a record of its own for a used id."""
    arguments = {"user": "ann", "password": "x"}

    async def call(store: Any, *ids: str) -> Any:
        router = ExecutionRouter(Executor(registry, approval_handler=StorageBackedApprovalHandler(store)))
        extra = {"identity": Identity(id="ann")}
        calls = [router.handle_call("user.remove", arguments, extra={**extra, "_meta": {"approvalId": i}}) for i in ids]
        return await asyncio.gather(*calls) if ids else await router.handle_call("user.remove", arguments, extra=extra)

    for store in (InMemoryApprovalStore(), WithoutConsume()):
        assert isinstance(store, ApprovalStore)
        approval_id = (await call(store)).meta["apcore"]["approvalId"]
        await store.resolve(approval_id, approved=True)
        together = await call(store, approval_id, approval_id)
        assert sorted(bool(result.is_error) for result in together) == [False, True], store
        after_restart = (await call(store, approval_id))[0]
        assert after_restart.is_error, store
    assert not await InMemoryApprovalStore().consume("unknown")


async def test_store_that_cannot_consume_rejects() -> None:
    class Broken(InMemoryApprovalStore):
        async def consume(self, approval_id: str) -> bool:
            raise OSError("disk")

    store = Broken()
    handler = StorageBackedApprovalHandler(store)
    approval_id = (await handler.request_approval(request())).approval_id
    await store.resolve(approval_id, approved=True)
    reset = CLIENT_CALL.set(ClientCall("", "user.remove", {"user": "ann"}))
    assert (await handler.check_approval(approval_id)).reason == "Storage error"
    CLIENT_CALL.reset(reset)


@pytest.mark.parametrize("method", ["get_result", "save_pending"])
async def test_approval_is_not_used_by_an_error_of_the_store(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = WithoutConsume()
    handler = StorageBackedApprovalHandler(store)
    await store.save_pending("1", "user.remove", {})
    await store.resolve("1", approved=True)

    async def fail(*_: Any) -> Any:
        raise OSError("disk")

    with monkeypatch.context() as patch:
        patch.setattr(store, method, fail)
        with pytest.raises(OSError, match="disk"):
            await handler._consume("1", "user.remove")
    assert await handler._consume("1", "user.remove")
    assert not await handler._consume("1", "user.remove")


async def test_handler_forgets_the_oldest_used_approvals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("apcore_mcp.compat.approvals._MAX_USED", 2)
    handler = StorageBackedApprovalHandler(InMemoryApprovalStore())
    for id in "abc":
        handler._remember(id)
    assert list(handler._used) == ["b", "c"]
