"""Approval of calls: prompts, answers, and clients without elicitation."""

import logging
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import (
    ACL,
    ACLRule,
    ApprovalDeniedError,
    ApprovalPendingError,
    ApprovalRequest,
    ApprovalResult,
    CallbackApprovalHandler,
    Context,
    ExecutionPolicy,
    Executor,
    PolicyRule,
    Registry,
)

from apcore_mcp.approval import MAX_PROMPT_ARGUMENTS, approval_prompt, request_approval
from apcore_mcp.catalogue import Catalogue, Entry
from apcore_mcp.server import ExecutionRouter
from jackstay.errors import CapabilityError


@pytest.fixture
def remove(registry: Registry) -> Entry:
    catalogue = Catalogue(registry)
    catalogue.refresh()
    entry = catalogue.find("user.remove")
    assert entry is not None
    return entry


def test_prompt(remove: Entry) -> None:
    """The prompt has the redacted arguments and the first line of the description."""
    prompt = approval_prompt(remove, {"user": "ann", "password": "hunter2"})
    assert prompt.startswith("Run user.remove?\n\nRemove a user\n\nArguments:\n{")
    assert '"user": "ann"' in prompt
    assert "hunter2" not in prompt


def test_long_prompt_is_truncated(remove: Entry) -> None:
    prompt = approval_prompt(remove, {"user": "x" * 10_000, "password": ""})
    assert len(prompt) < MAX_PROMPT_ARGUMENTS + 200
    assert "characters in all)" in prompt


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (True, None),
        (False, "Approval denied: user.remove was not run."),
        (1, "Approval denied: user.remove was not run."),
        (CapabilityError("elicitation", "no"), "does not support elicitation"),
        (RuntimeError("disconnected"), "could not be requested"),
    ],
)
async def test_only_true_is_consent(remove: Entry, kinds: SimpleNamespace, answer: Any, problem: str | None) -> None:
    message = await request_approval(remove, {}, kinds.Caller(answer=answer))
    assert (message is None) if problem is None else (message is not None and problem in message)


async def test_base_exceptions_pass_through(remove: Entry, kinds: SimpleNamespace) -> None:
    """On MCP 2026-07-28, `elicit` raises a BaseException, and the client repeats the request with the answer."""

    class Unwinds(BaseException):
        pass

    with pytest.raises(Unwinds):
        await request_approval(remove, {}, kinds.Caller(answer=Unwinds()))


# --- the approval gate of apcore --------------------------------------------------------------------------------------

USER = {"user": "ann", "password": "hunter2"}

REQUIREMENTS = [
    ("user.remove", {}),
    ("math.add", {"acl": ACL([ACLRule(["*"], ["math.*"], "allow", approval="required")])}),
    (
        "math.add",
        {"policy": ExecutionPolicy(rules=[PolicyRule("math.*", requires_approval=True)])},
    ),
    ("user.remove", {"policy": ExecutionPolicy(strict=True)}),
]


async def call(executor: Executor, name: str, caller: Any, **options: Any) -> Any:
    arguments = USER if name == "user.remove" else {"a": 1}
    return await ExecutionRouter(executor, **options).handle_call(name, arguments, caller)


@pytest.mark.parametrize(("name", "governed"), REQUIREMENTS, ids=["module", "rule", "policy", "strict policy"])
@pytest.mark.parametrize("answer", [True, False, None])
async def test_every_kind_of_approval_is_requested_once(
    registry: Registry, kinds: SimpleNamespace, name: str, governed: Any, answer: bool | None
) -> None:
    """An annotation, an ACL rule or a policy can require approval."""
    caller = None if answer is None else kinds.Caller(answer=answer)
    result = await call(Executor(registry, **governed), name, caller)
    assert bool(result.is_error) is (answer is not True)
    if caller is None:
        assert result.error_text.startswith(f"Approval required: {name} requires")
    else:
        assert len(caller.elicited) == 1
        assert caller.elicited[0].startswith(f"Run {name}?")


async def test_denied_call_requests_no_approval(registry: Registry, kinds: SimpleNamespace) -> None:
    caller = kinds.Caller(answer=True)
    assert (
        await call(Executor(registry, acl=ACL([], default_effect="deny")), "user.remove", caller)
    ).error_text == "Access denied"
    assert caller.elicited == []


async def test_policy_may_waive_approval(registry: Registry, kinds: SimpleNamespace) -> None:
    caller = kinds.Caller(answer=False)
    policy = ExecutionPolicy(rules=[PolicyRule("user.*", requires_approval=False)])
    assert not (await call(Executor(registry, policy=policy), "user.remove", caller)).is_error
    assert caller.elicited == []


async def test_annotation_is_enforced_without_the_gate(registry: Registry, kinds: SimpleNamespace) -> None:
    """A strategy may lack the approval gate."""
    executor = Executor(registry, strategy="internal")
    assert (await call(executor, "user.remove", None)).is_error
    caller = kinds.Caller(answer=True)
    assert not (await call(executor, "user.remove", caller)).is_error
    assert len(caller.elicited) == 1


async def test_streaming_module_is_approved_before_its_first_chunk(registry: Registry, kinds: SimpleNamespace) -> None:
    policy = ExecutionPolicy(rules=[PolicyRule("*", requires_approval=True)])
    caller = kinds.Caller({"progressToken": 1}, answer=True)
    assert (await call(Executor(registry, policy=policy), "text.count", caller)).structured_content["text"] == "2"
    assert (len(caller.elicited), len(caller.progress_updates)) == (1, 3)


async def test_no_timeout_runs_during_approval(registry: Registry, kinds: SimpleNamespace) -> None:
    """The approval is requested outside of apcore."""
    inside: list[object] = []

    class Watching(kinds.Caller):  # type: ignore[misc, name-defined]  # a fixture's class
        async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Any:
            frame = sys._getframe()
            while frame.f_back is not None:
                inside.append(frame.f_globals["__name__"])
                frame = frame.f_back
            return await super().elicit(message, form, key=key)

    assert not (await call(Executor(registry), "user.remove", Watching(answer=True))).is_error
    assert "apcore_mcp.server.router" in inside
    assert "apcore.executor" not in inside


@pytest.mark.parametrize("is_strict", [False, True])
async def test_calls_not_from_a_client(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture, is_strict: bool
) -> None:
    """Calls of the program and of modules run as without a handler, unless the policy is strict."""
    caplog.set_level(logging.WARNING, "apcore_mcp")
    executor = Executor(registry, policy=ExecutionPolicy(strict=is_strict))
    ExecutionRouter(executor)

    class Outer(kinds.Later):  # type: ignore[misc, name-defined]  # a fixture's class
        input_schema = output_schema = kinds.Nothing

        async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
            await executor.call_async("user.remove", USER, context)
            await executor.call_async("user.remove", USER)
            return {}

    registry.register("x.outer", Outer())
    caller = kinds.Caller(answer=True)
    result = await call(executor, "x.outer", caller)
    assert bool(result.is_error) is is_strict
    assert caller.elicited == []
    if is_strict:
        with pytest.raises(ApprovalDeniedError):
            await executor.call_async("user.remove", USER)
    else:
        await executor.call_async("user.remove", USER)
        assert [record.levelname for record in caplog.records if "not from a client" in record.message] == ["WARNING"]


async def test_several_routers_of_one_executor(registry: Registry, kinds: SimpleNamespace) -> None:
    executor = Executor(registry)
    for _ in range(2):
        caller = kinds.Caller(answer=True)
        assert not (await call(executor, "user.remove", caller)).is_error
        assert len(caller.elicited) == 1
    assert not (await call(executor, "user.remove", None, approval="allow")).is_error


async def test_invented_approval_token_is_rejected(registry: Registry, kinds: SimpleNamespace) -> None:
    """apcore accepts `_approval_token` among the arguments; this handler issues none."""
    caller = kinds.Caller(answer=False)
    router = ExecutionRouter(Executor(registry))
    result = await router.handle_call("user.remove", {**USER, "_approval_token": "x"}, caller)
    assert result.error_text == "Module error: APPROVAL_DENIED"
    assert registry.get("user.remove").ran == 0


async def test_pending_handler_of_the_executor(registry: Registry, kinds: SimpleNamespace) -> None:
    """The approval handler of an executor may return "pending"."""

    async def later(request: ApprovalRequest) -> ApprovalResult:
        return ApprovalResult(status="pending", approval_id="7")

    caller = kinds.Caller(answer=True)
    executor = Executor(registry, approval_handler=CallbackApprovalHandler(later))
    pending = await call(executor, "user.remove", caller)
    assert pending.error_text.startswith("Module error: APPROVAL_PENDING\nApproval id: 7\n")
    assert pending.meta is not None
    assert pending.meta["apcore"]["approvalId"] == "7"
    unwired = Executor(registry, strategy="internal", approval_handler=CallbackApprovalHandler(later))
    assert not (await call(unwired, "user.remove", caller)).is_error
    assert caller.elicited == []


async def test_pending_error_of_a_nested_call(registry: Registry, kinds: SimpleNamespace) -> None:
    def inner(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        raise ApprovalPendingError(result=ApprovalResult(status="pending"), module_id="other")

    registry.register("x.outer", kinds.Plain(inner))
    caller = kinds.Caller(answer=True)
    assert (await call(Executor(registry), "x.outer", caller)).is_error
    assert caller.elicited == []
