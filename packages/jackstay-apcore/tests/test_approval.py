"""A person's consent: what is asked, and what is said when nobody can be."""

import asyncio
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

from apcore_mcp.approval import MAX_SHOWN, question, refusal_of
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


def test_the_question_says_what_would_run_with_what(remove: Entry) -> None:
    """Settled: the arguments, with x-sensitive ones redacted; the first line of the description."""
    said = question(remove, {"user": "ann", "password": "hunter2"})
    assert said.startswith("Run user.remove?\n\nRemove a user\n\nArguments:\n{")
    assert '"user": "ann"' in said
    assert "hunter2" not in said


def test_a_question_nobody_would_read_is_cut(remove: Entry) -> None:
    said = question(remove, {"user": "x" * 10_000, "password": ""})
    assert len(said) < MAX_SHOWN + 200
    assert "characters in all)" in said


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (True, None),
        (False, "Approval denied: user.remove was not run."),
        (1, "Approval denied: user.remove was not run."),
        (CapabilityError("elicitation", "no"), "cannot be asked (no elicitation)"),
        (RuntimeError("line down"), "could not be asked for"),
    ],
)
def test_only_a_plain_yes_is_consent(
    remove: Entry, kinds: SimpleNamespace, answer: Any, words: str | None
) -> None:
    """Settled: fail closed."""
    refusal = asyncio.run(refusal_of(remove, {}, kinds.Caller(answer=answer)))
    assert (refusal is None) if words is None else (refusal is not None and words in refusal)


def test_a_question_of_the_stateless_era_passes_through(remove: Entry, kinds: SimpleNamespace) -> None:
    """It is no Exception: the handler is run again with the answer (2026-07-28)."""

    class Unwinds(BaseException):
        pass

    with pytest.raises(Unwinds):
        asyncio.run(refusal_of(remove, {}, kinds.Caller(answer=Unwinds())))


# --- at apcore's gate -------------------------------------------------------------------------------------------------

WHO = {"user": "ann", "password": "hunter2"}

ASKED_OF = [
    ("user.remove", {}),
    ("math.add", {"acl": ACL([ACLRule(["*"], ["math.*"], "allow", approval="required")])}),
    (
        "math.add",
        {"policy": ExecutionPolicy(rules=[PolicyRule("math.*", requires_approval=True)])},
    ),
    ("user.remove", {"policy": ExecutionPolicy(strict=True)}),
]


def call(executor: Executor, name: str, caller: Any, **options: Any) -> Any:
    arguments = WHO if name == "user.remove" else {"a": 1}
    return asyncio.run(ExecutionRouter(executor, **options).handle_call(name, arguments, caller))


@pytest.mark.parametrize(("name", "governed"), ASKED_OF, ids=["module", "rule", "policy", "strict policy"])
@pytest.mark.parametrize("answer", [True, False, None])
def test_whatever_demands_an_approval_the_client_is_asked_once(
    registry: Registry, kinds: SimpleNamespace, name: str, governed: Any, answer: bool | None
) -> None:
    """Approval asks the client and fails closed: by annotation, access list (spec of apcore, 6.1.6) or policy (7.9)."""
    caller = None if answer is None else kinds.Caller(answer=answer)
    result = call(Executor(registry, **governed), name, caller)
    assert bool(result.is_error) is (answer is not True)
    if caller is None:
        assert result.text.startswith(f"Approval required: {name} needs")
    else:
        assert len(caller.asked) == 1
        assert caller.asked[0].startswith(f"Run {name}?")


def test_who_is_denied_by_the_access_list_is_not_asked_about(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    caller = kinds.Caller(answer=True)
    assert (
        call(Executor(registry, acl=ACL([], default_effect="deny")), "user.remove", caller).text
        == "Access denied"
    )
    assert caller.asked == []


def test_a_policy_may_say_that_a_module_needs_none(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-014: the policy of an executor holds."""
    caller = kinds.Caller(answer=False)
    policy = ExecutionPolicy(rules=[PolicyRule("user.*", requires_approval=False)])
    assert not call(Executor(registry, policy=policy), "user.remove", caller).is_error
    assert caller.asked == []


def test_without_apcores_gate_what_a_module_asks_for_is_asked_all_the_same(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """Fails closed: a strategy that leaves the gate out does not let a module run that asks for approval."""
    executor = Executor(registry, strategy="internal")
    assert call(executor, "user.remove", None).is_error
    caller = kinds.Caller(answer=True)
    assert not call(executor, "user.remove", caller).is_error
    assert len(caller.asked) == 1


def test_a_streaming_module_is_asked_about_before_its_first_chunk(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    policy = ExecutionPolicy(rules=[PolicyRule("*", requires_approval=True)])
    caller = kinds.Caller({"progressToken": 1}, answer=True)
    assert call(Executor(registry, policy=policy), "text.count", caller).structured_content["text"] == "2"
    assert (len(caller.asked), len(caller.heard)) == (1, 3)


def test_a_person_may_think_for_longer_than_a_module_may_run(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    """No timeout of apcore's runs while a person is asked: the call is out of apcore."""
    inside: list[object] = []

    class Watching(kinds.Caller):  # type: ignore[misc, name-defined]  # a fixture's class
        async def elicit(self, message: str, form: Any, *, key: str | None = None) -> Any:
            frame = sys._getframe()
            while frame.f_back is not None:
                inside.append(frame.f_globals["__name__"])
                frame = frame.f_back
            return await super().elicit(message, form, key=key)

    assert not call(Executor(registry), "user.remove", Watching(answer=True)).is_error
    assert "apcore_mcp.server.router" in inside
    assert "apcore.executor" not in inside


@pytest.mark.parametrize("is_strict", [False, True])
def test_calls_that_are_no_clients_are_as_without_a_handler(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture, is_strict: bool
) -> None:
    """An executor that is passed in is used as it is: its own program is not held up, unless the policy is strict."""
    caplog.set_level(logging.WARNING, "apcore_mcp")
    executor = Executor(registry, policy=ExecutionPolicy(strict=is_strict))
    ExecutionRouter(executor)

    class Outer(kinds.Later):  # type: ignore[misc, name-defined]  # a fixture's class
        input_schema = output_schema = kinds.Nothing

        async def execute(self, inputs: dict[str, Any], context: Context) -> dict[str, Any]:
            await executor.call_async("user.remove", WHO, context)
            await executor.call_async("user.remove", WHO)
            return {}

    registry.register("x.outer", Outer())
    caller = kinds.Caller(answer=True)
    result = call(executor, "x.outer", caller)
    assert bool(result.is_error) is is_strict
    assert caller.asked == []
    if is_strict:
        with pytest.raises(ApprovalDeniedError):
            asyncio.run(executor.call_async("user.remove", WHO))
    else:
        asyncio.run(executor.call_async("user.remove", WHO))
        assert [record.levelname for record in caplog.records if "no client's" in record.message] == [
            "WARNING"
        ]


def test_several_routers_of_one_executor_all_ask(registry: Registry, kinds: SimpleNamespace) -> None:
    executor = Executor(registry)
    for _ in range(2):
        caller = kinds.Caller(answer=True)
        assert not call(executor, "user.remove", caller).is_error
        assert len(caller.asked) == 1
    assert not call(executor, "user.remove", None, approval="allow").is_error


def test_a_token_that_a_client_made_up_is_no_consent(registry: Registry, kinds: SimpleNamespace) -> None:
    """apcore takes `_approval_token` among the arguments; nobody was given one here."""
    caller = kinds.Caller(answer=False)
    router = ExecutionRouter(Executor(registry))
    result = asyncio.run(router.handle_call("user.remove", {**WHO, "_approval_token": "x"}, caller))
    assert result.text == "Module error: APPROVAL_DENIED"
    assert registry.get("user.remove").ran == 0


def test_a_handler_that_resolves_later_is_left_to_do_so(registry: Registry, kinds: SimpleNamespace) -> None:
    """F-014: an executor's own handler; pending is its word to the client."""

    async def later(request: ApprovalRequest) -> ApprovalResult:
        return ApprovalResult(status="pending", approval_id="7")

    caller = kinds.Caller(answer=True)
    executor = Executor(registry, approval_handler=CallbackApprovalHandler(later))
    assert call(executor, "user.remove", caller).text == "Module error: APPROVAL_PENDING"
    unwired = Executor(registry, strategy="internal", approval_handler=CallbackApprovalHandler(later))
    assert not call(unwired, "user.remove", caller).is_error
    assert caller.asked == []


def test_a_pending_call_inside_a_module_is_not_asked_about(
    registry: Registry, kinds: SimpleNamespace
) -> None:
    def inner(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        raise ApprovalPendingError(result=ApprovalResult(status="pending"), module_id="other")

    registry.register("x.outer", kinds.Plain(inner))
    caller = kinds.Caller(answer=True)
    assert call(Executor(registry), "x.outer", caller).is_error
    assert caller.asked == []
