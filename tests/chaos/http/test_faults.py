"""A fault proxy between our client and our server, each real, and a ledger that says who told the truth.

ok means that it ran once, failed means that it never ran, unknown means at most once; nobody gets another's answer, nobody
waits beyond his deadline, and after the storm all is well. Both eras; without sessions, with them, and with events kept so
that streams are resumed. `JACKSTAY_PROFILE=soak` storms for longer, from many seeds.
"""

import asyncio
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from chaos.http.callers import Callers
from chaos.http.process import LedgerServer
from chaos.http.proxy import CLEAN, KINDS, Fault, FaultProxy, draw
from jackstay.client import Client, connect
from jackstay.errors import McpError, OutcomeUnknownError, TransportError
from jackstay.transport.http import http
from scripted.loop import timed

IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
SEEDS = random.sample(range(1_000_000), 20) if IS_SOAK else [0]  # the name of the test says which
CALLERS = 8
CALLS = 60 if IS_SOAK else 20
DEADLINE = 1.0
HANDSHAKE, STATELESS = "2025-11-25", "2026-07-28"
KINDS_OF_SERVER: dict[str, dict[str, Any]] = {
    "without sessions": {},
    "with sessions": {"sessions": True},
    "with sessions and events": {"sessions": True, "events": True, "retry": 0.01},
}
TOOLS = ("record", "record", "record_in_steps")
FAST: dict[str, Any] = {"backoff_min": 0.01, "backoff_max": 0.05, "init_timeout": 1.0, "wait_for_ready": True}


async def call_on(callers: Callers, client: Client, caller: int) -> None:
    """One caller's calls, one after the other."""
    for number in range(CALLS):
        await callers.call(client, TOOLS[number % len(TOOLS)], f"{caller}-{number}", DEADLINE)


@pytest.mark.guard(90)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((HANDSHAKE, kind) for kind in KINDS_OF_SERVER),
        (STATELESS, "without sessions"),
        (STATELESS, "with sessions and events"),  # which are not for this era, and in nobody's way
    ],
)
def test_in_any_storm_the_ledger_agrees_with_what_every_caller_was_told(
    version: str, kind: str, seed: int, tmp_path: Path
) -> None:
    """G2, G3, G4, G7: one failing request fails only itself, in time, and the truth is told of it."""
    lots = random.Random(seed)
    callers = Callers()

    @timed
    async def test() -> None:
        async with FaultProxy(server.port, lambda: draw(lots)) as proxy:
            client = connect(http(proxy.url, max_connections=CALLERS), versions=(version,), **FAST)
            await client.open(wait=False)
            try:
                await asyncio.gather(*(call_on(callers, client, caller) for caller in range(CALLERS)))
                print(
                    f"seed {seed}:", Counter(fault.kind for fault in proxy.history), *proxy.history, sep="\n"
                )
                # It heals: the next call is answered.
                proxy.faults = lambda: CLEAN
                await proxy.drop_all()
                await recovered(client)
            finally:
                await client.stop()

    with LedgerServer(tmp_path, **KINDS_OF_SERVER[kind]) as server:
        test()
        server.process.terminate()  # nothing runs any more when the ledger is read
        server.ended()
    runs = server.runs
    assert runs.pop("healed") == 1
    told = callers.check(runs)
    assert told.total() == CALLERS * CALLS
    assert told["ok"] > 0
    assert told["unknown"] > 0, "no fault hit an open call: nothing was shown"
    assert callers.longest < DEADLINE + 2.0, "a call outlived its deadline"


async def recovered(client: Client) -> None:
    """A call that is safe to repeat succeeds, after what the storm left in the pipes has failed."""
    for _ in range(20):
        try:
            assert (await client.tools.call("echo", {"text": "calm"}, timeout=5)).text == "calm"
        except McpError:
            continue
        break
    result = await client.tools.call("record", {"nonce": "healed"}, timeout=5)
    assert result.text == "healed"
    assert client.state == "ready"


EXACT = [Fault(kind, after, side) for kind in KINDS if kind not in ("clean", "stall") for side in (False, True)
         for after in (0, 1, 100, 400)]  # fmt: skip


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
def test_each_fault_at_each_place_ends_the_call_at_once(version: str, tmp_path: Path) -> None:
    """G2: without a deadline, so that nothing but the end of the connection can end a call."""
    callers = Callers()

    @timed
    async def test() -> None:
        faults = [CLEAN]
        async with (
            FaultProxy(server.port, lambda: faults[-1]) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            for number, fault in enumerate(EXACT):
                faults.append(fault)
                await proxy.drop_all()
                async with asyncio.timeout(10):
                    await callers.call(client, TOOLS[number % len(TOOLS)], str(number), None)
                faults.append(CLEAN)
                await proxy.drop_all()
                await client.ready(5)

    with LedgerServer(tmp_path) as server:
        test()
        server.process.terminate()
        server.ended()
    told = callers.check(server.runs)
    assert told["ok"] > 0
    assert told["unknown"] > 0
    assert all(isinstance(error, OutcomeUnknownError | TransportError) for error in callers.errors)


def test_a_stream_that_is_cut_after_its_first_event_is_resumed(tmp_path: Path) -> None:
    """2025-11-25 "Resumability": wherever it is cut, the answer is had by Last-Event-ID, and the call ran once."""
    callers = Callers()

    @timed
    async def test() -> None:
        faults = [CLEAN]
        async with (
            FaultProxy(server.port, lambda: faults.pop() if len(faults) > 1 else CLEAN) as proxy,
            connect(http(proxy.url), versions=(HANDSHAKE,), **FAST) as client,
        ):
            for after in range(1, 1_200, 60):
                await proxy.drop_all()
                await client.ready(5)
                faults.append(Fault("cut", after))
                await callers.call(client, "record_in_steps", f"cut-{after}", 10)
                faults[1:] = []

    with LedgerServer(tmp_path, sessions=True, events=True, retry=0.01, keepalive=0) as server:
        test()
    told = callers.check(server.runs)
    # Before the first event there is no id to come back with.
    assert told["ok"] >= 12
    assert told["unknown"] >= 1


@pytest.mark.parametrize(("version", "sessions"), [(HANDSHAKE, True), (STATELESS, False)])
def test_a_long_call_lives_through_a_proxy_that_cuts_what_is_silent(
    version: str, sessions: bool, tmp_path: Path
) -> None:
    """G17: a stream that says nothing for a while says that it is alive; without that, the same call is lost."""

    @timed
    async def test() -> None:
        async with (
            FaultProxy(server.port, lambda: Fault("impatient", 600)) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            call = client.tools.call("record_and_wait", {"nonce": "long", "seconds": 0.9}, timeout=10)
            if keepalive:
                assert (await call).text == "long"
            else:
                with pytest.raises(OutcomeUnknownError):
                    await call

    for keepalive in (0.1, 0):
        with LedgerServer(tmp_path, keepalive=keepalive, sessions=sessions) as server:
            test()
    assert server.runs == {"long": 2}


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
def test_where_nobody_listens_a_call_was_not_sent_and_the_next_one_works(
    version: str, tmp_path: Path
) -> None:
    """G3, G10: refused connections are failures that surely did not run; `wait_for_ready` waits for the server to be back."""

    @timed
    async def test() -> None:
        async with (
            FaultProxy(server.port, lambda: CLEAN) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            await client.tools.call("record", {"nonce": "before"})
            await proxy.refuse()
            await proxy.drop_all()
            # The first may be the one that finds its connection closed.
            with pytest.raises(McpError):
                await client.tools.call("record", {"nonce": "down-0"}, timeout=0.5)
            for number in range(1, 4):
                with pytest.raises(McpError) as raised:
                    await client.tools.call("record", {"nonce": f"down-{number}"}, timeout=0.2)
                assert raised.value.may_have_run is False
            waiting = asyncio.get_running_loop().create_task(
                client.tools.call("record", {"nonce": "waited"}, timeout=10)
            )
            await asyncio.sleep(0)
            await proxy.listen()
            assert (await waiting).text == "waited"

    with LedgerServer(tmp_path) as server:
        test()
    assert server.runs == {"before": 1, "waited": 1}
