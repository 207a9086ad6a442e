"""A call has one soft and one hard deadline for all its requests; the error names the one that expired."""

import asyncio
import builtins
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from jackstay.client import Fleet, connect
from jackstay.client._deadline import Deadline
from jackstay.errors import (
    BackpressureError,
    McpError,
    OutcomeUnknownError,
    ProtocolError,
    StateError,
    TimeoutError,
    TransportError,
    UsageError,
)
from jackstay.models import ModelCall, Toolbox
from jackstay.testing import ScriptedPeer, on_fake_clock
from scripted.peer import ERAS, HANDSHAKE, STATELESS, now, opened, peered, tool

INPUT_REQUIRED = {"resultType": "input_required", "inputRequests": {"r": {"method": "roots/list"}}}


@asynccontextmanager
async def answering(
    peer: ScriptedPeer, method: str, result: Callable[[dict[str, Any]], Any], seconds: float
) -> AsyncIterator[None]:
    """Let the peer answer every request for this method after some time."""
    loop = asyncio.get_running_loop()

    async def respond() -> None:
        count = 0
        while True:
            await peer.expect(method)
            for message in peer.got(method)[count:]:
                count += 1
                loop.call_later(seconds, peer.respond, message["id"], result(message["params"]))

    task = asyncio.ensure_future(respond())
    try:
        yield
    finally:
        task.cancel()


def page_after(params: dict[str, Any]) -> dict[str, Any]:
    """Pages without end, each with another cursor."""
    return {"tools": [], "nextCursor": str(int(params.get("cursor", 0)) + 1)}


@pytest.mark.parametrize("version", ERAS)
@on_fake_clock
async def test_all_pages_of_a_list_have_one_deadline(version: str) -> None:
    cases: list[tuple[dict[str, Any], float, str]] = [
        ({"timeout": 2, "max_timeout": 3}, 2, "timeout"),
        ({"timeout": 5, "max_timeout": 3}, 3, "max_timeout"),
        ({"timeout": None, "max_timeout": 4}, 4, "max_timeout"),
        ({"timeout": 4, "max_timeout": None}, 4, "timeout"),
        ({}, 30, "timeout"),
    ]
    for options, seconds, limit in cases:
        async with opened(version) as (client, peer), answering(peer, "tools/list", page_after, 0.75):
            started_at = now()
            with pytest.raises(TimeoutError, match=rf"within {seconds} s \({limit}\)") as caught:
                await client.tools.list(**options)
            assert now() - started_at == pytest.approx(seconds, abs=0.01)
            assert (caught.value.timeout, caught.value.limit) == (seconds, limit)


@on_fake_clock
async def test_every_kind_of_list_has_one_deadline() -> None:
    for namespace, verb, method, member in (
        ("resources", "list", "resources/list", "resources"),
        ("resources", "templates", "resources/templates/list", "resourceTemplates"),
        ("prompts", "list", "prompts/list", "prompts"),
    ):
        async with opened() as (client, peer):

            def page(params: dict[str, Any], member: str = member) -> dict[str, Any]:
                return {member: [], "nextCursor": str(int(params.get("cursor", 0)) + 1)}

            started_at = now()
            async with answering(peer, method, page, 0.75):
                with pytest.raises(TimeoutError):
                    await getattr(getattr(client, namespace), verb)(timeout=2)
                assert now() - started_at == pytest.approx(2, abs=0.01)


@on_fake_clock
async def test_a_request_that_has_no_time_left_is_not_sent() -> None:
    async with opened() as (client, peer):
        requests = client._requests
        deadline = requests.deadline({"timeout": 1})
        await asyncio.sleep(1)
        with pytest.raises(TimeoutError, match=r"not sent within 1 s \(timeout\)") as caught:
            await client.tools._list({"timeout": 1}, deadline)
        assert caught.value.may_have_run is False
        assert peer.got("tools/list") == []
        assert len(client._requests.connection.core.calls.pending) == 0


@on_fake_clock
async def test_the_list_for_an_output_check_is_inside_the_deadline_of_the_call() -> None:
    async with opened() as (client, peer), answering(peer, "tools/list", lambda _: {"tools": [tool("x")]}, 2):
        with pytest.raises(TimeoutError) as caught:
            await client.tools.call("x", check_output=True, timeout=3)
        assert now() == pytest.approx(3, abs=0.01)
        assert caught.value.sent
        assert caught.value.timeout == 3


@on_fake_clock
async def test_a_call_whose_list_for_the_check_fails_did_not_run() -> None:
    async with opened() as (client, peer):
        with pytest.raises(TimeoutError, match=r"not sent within 3 s \(timeout\)") as late:
            await client.tools.call("x", check_output=True, timeout=3)
        assert (late.value.method, late.value.may_have_run) == ("tools/call", False)
        peer.on["tools/list"] = {"tools": "none"}
        with pytest.raises(ProtocolError) as broken:
            await client.tools.call("x", check_output=True)
        assert broken.value.may_have_run is False
        del peer.on["tools/list"]
        call = asyncio.ensure_future(client.tools.call("x", check_output=True))
        await peer.until(lambda: len(peer.got("tools/list")) == 3)
        peer.crash()
        with pytest.raises(TransportError) as lost:
            await call
        assert (lost.value.method, lost.value.may_have_run) == ("tools/call", False)
        assert peer.got("tools/call") == []


@on_fake_clock
async def test_the_list_that_a_fleet_fetches_for_an_unknown_name_is_inside_the_deadline_of_the_call() -> None:
    async with ScriptedPeer(HANDSHAKE) as peer:
        peer.on["tools/list"] = {"tools": []}
        async with Fleet({"a": peer.target}) as fleet:
            del peer.on["tools/list"]
            started_at = now()
            async with answering(peer, "tools/list", lambda _: {"tools": [tool("x")]}, 2):
                with pytest.raises(TimeoutError) as caught:
                    await fleet.call("a__x", timeout=3)
            assert now() - started_at == pytest.approx(3, abs=0.01)
            assert (caught.value.method, caught.value.timeout) == ("tools/call", 3)


@on_fake_clock
async def test_a_fleet_without_servers_needs_no_deadline() -> None:
    async with Fleet({}) as fleet:
        with pytest.raises(McpError, match="unknown tool 'a__x'"):
            await fleet.call("a__x", timeout=3)
        outcome = await Toolbox(fleet, "openai").run(_model_call("x"))
        assert isinstance(outcome.error, UsageError)


def _model_call(name: str) -> ModelCall:
    return ModelCall("1", name, "{}")


@pytest.mark.parametrize("of_a_fleet", [False, True])
@on_fake_clock
async def test_the_list_that_a_toolbox_fetches_first_is_inside_the_deadline_of_the_call(
    of_a_fleet: bool,
) -> None:
    async with ScriptedPeer(HANDSHAKE) as peer:
        peer.on["tools/list"] = {"tools": []}
        source: Any = Fleet({"a": peer.target}) if of_a_fleet else connect(peer.target)
        async with source:
            del peer.on["tools/list"]
            name = "a__x" if of_a_fleet else "x"
            started_at = now()
            async with answering(peer, "tools/list", lambda _: {"tools": [tool("x")]}, 2):
                outcome = await Toolbox(source, "openai").run(_model_call(name), timeout=3)
            assert isinstance(outcome.error, TimeoutError)
            assert outcome.error.sent
            assert now() - started_at == pytest.approx(3, abs=0.01)


# --- rounds -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "limit"), [({"timeout": 2}, "timeout"), ({"timeout": 9, "max_timeout": 2}, "max_timeout")]
)
@on_fake_clock
async def test_all_rounds_of_a_call_have_one_deadline(options: Any, limit: str) -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        started_at = now()
        async with answering(peer, "tools/call", lambda _: INPUT_REQUIRED, 0.75):
            with pytest.raises(TimeoutError) as caught:
                await client.tools.call("x", **options)
        assert now() - started_at == pytest.approx(2, abs=0.01)
        assert (caught.value.timeout, caught.value.limit, caught.value.may_have_run) == (2, limit, True)
        assert len(peer.got("tools/call")) == 3


@on_fake_clock
async def test_a_handler_of_an_input_request_is_cancelled_at_the_deadline() -> None:
    async with peered(STATELESS) as (client, peer):
        ended: list[float] = []

        @client.sampling.handle
        async def sample(params: Any) -> Any:
            try:
                await asyncio.sleep(1000)
            finally:
                ended.append(now())

        await client.open()
        started_at = now()
        params = {"messages": [], "maxTokens": 1}
        required = {
            "resultType": "input_required",
            "inputRequests": {"q": {"method": "sampling/createMessage", "params": params}},
        }
        peer.on["tools/call"] = required
        with pytest.raises(TimeoutError, match=r"within 4 s \(timeout\)") as caught:
            await client.tools.call("x", timeout=4)
        assert caught.value.may_have_run is True
        assert [at - started_at for at in ended] == [pytest.approx(4, abs=0.01)]


@on_fake_clock
async def test_progress_of_one_round_extends_only_the_soft_deadline_of_the_next() -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        started_at = now()
        options: Any = {"timeout": 2, "max_timeout": 5, "on_progress": lambda progress: None}
        call = asyncio.ensure_future(client.tools.call("x", **options))
        for round in range(2):
            await peer.expect("tools/call")
            message = peer.got("tools/call")[round]
            await asyncio.sleep(1.5)
            token = message["params"]["_meta"]["progressToken"]
            peer.notify("notifications/progress", progressToken=token, progress=round)
            peer.respond(message["id"], INPUT_REQUIRED)
        with pytest.raises(TimeoutError) as caught:
            await call
        # Started at 0, extended at 1.5 and at 3.0: the soft deadline is 5.0, and so is the hard one.
        assert now() - started_at == pytest.approx(5, abs=0.01)
        assert caught.value.timeout in (2, 5)


@on_fake_clock
async def test_a_later_round_that_cannot_be_sent_leaves_a_call_that_may_have_run() -> None:
    async with peered(STATELESS) as (client, peer):
        client.roots.set(["file:///a"])
        await client.open()
        peer.on["tools/call"] = INPUT_REQUIRED
        connection = client._requests.connection
        submit, count = connection.submit, [0]

        def fail_second(method: str, *arguments: Any, **fields: Any) -> Any:
            count[0] += 1
            call = submit(method, *arguments, **fields)
            if count[0] == 2:
                connection.cancel_call(call)
                call.fail(BackpressureError("too many calls are open"))
            return call

        connection.submit = fail_second  # type: ignore[assignment, method-assign]
        with pytest.raises(OutcomeUnknownError, match="too many calls are open") as caught:
            await client.tools.call("x")
        assert isinstance(caught.value.__cause__, BackpressureError)
        assert caught.value.may_have_run is True


# --- waiting before the request ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("work", [lambda client: client.ping, lambda client: client.resources.subscribe])
@on_fake_clock
async def test_waiting_for_ready_and_the_request_have_one_deadline(work: Any) -> None:
    async with peered(HANDSHAKE, server_capabilities={"resources": {"subscribe": True}}) as (client, peer):
        arguments = () if work(client) == client.ping else ("file:///a",)
        peer.on["ping"] = peer.on["resources/subscribe"] = lambda params: None
        await client.open(wait=False)
        started_at = now()
        with pytest.raises(TimeoutError, match=r"within 2 s \(timeout\)"):
            await work(client)(*arguments, wait_for_ready=True, timeout=2)
        assert now() - started_at == pytest.approx(2, abs=0.01)


# --- the deadline by itself -------------------------------------------------------------------------------------------


def test_the_earlier_of_both_counts() -> None:
    for timeout, max_timeout, at, limit in (
        (2, 3, 12, "timeout"),
        (3, 2, 12, "max_timeout"),
        (2, 2, 12, "timeout"),
        (None, 2, 12, "max_timeout"),
        (None, None, None, "timeout"),
    ):
        deadline = Deadline(10, timeout, max_timeout)
        assert (deadline.at, deadline.error(sent=False).limit) == (at, limit), (timeout, max_timeout)


@on_fake_clock
async def test_a_timeout_raised_by_the_block_is_not_converted() -> None:
    deadline = Deadline(now(), 5, None)
    for own in (builtins.TimeoutError("own"), TimeoutError(1, sent=False)):
        with pytest.raises(builtins.TimeoutError) as caught:
            async with deadline.bound(sent=True):
                raise own
        assert caught.value is own


@on_fake_clock
async def test_an_invalid_deadline_is_refused_before_anything_is_sent() -> None:
    async with opened() as (client, peer):
        operations: list[Callable[..., Awaitable[object]]] = [client.tools.list, client.ping]
        for operation in operations:
            for name in ("timeout", "max_timeout"):
                for seconds in (0, -1, float("nan")):
                    with pytest.raises(McpError, match=f"{name} must be a positive number, or None"):
                        await operation(**{name: seconds})
        assert peer.got("tools/list") == peer.got("ping") == []
    with pytest.raises(StateError):
        await connect(peer.target).ping()
