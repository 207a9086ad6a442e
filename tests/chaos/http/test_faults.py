"""A fault-injecting proxy between a real client and a real server, and a ledger of the calls that ran.

The outcome ok means that a call ran once, failed that it never ran, unknown that it ran at most once. No call gets the
result of another, no call exceeds its deadline, and without faults the client recovers. `JACKSTAY_PROFILE=soak` runs
longer.
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

IS_SOAK = os.environ.get("JACKSTAY_PROFILE") == "soak"
SEEDS = random.sample(range(1_000_000), 20) if IS_SOAK else [0]
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
    """Make the calls of one caller, one after the other."""
    for number in range(CALLS):
        await callers.call(client, TOOLS[number % len(TOOLS)], f"{caller}-{number}", DEADLINE)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("version", "kind"),
    [
        *((HANDSHAKE, kind) for kind in KINDS_OF_SERVER),
        (STATELESS, "without sessions"),
        (STATELESS, "with sessions and events"),  # unused by this revision
    ],
)
async def test_with_random_faults_the_ledger_agrees_with_every_outcome(
    version: str, kind: str, seed: int, tmp_path: Path
) -> None:
    """docs/guarantees.md G2, G3, G4, G7: a failure affects one request only, in time, and its outcome is correct."""
    rng = random.Random(seed)
    callers = Callers()

    async def test() -> None:
        async with FaultProxy(server.port, lambda: draw(rng)) as proxy:
            client = connect(http(proxy.url, max_connections=CALLERS), versions=(version,), **FAST)
            await client.open(wait=False)
            try:
                await asyncio.gather(*(call_on(callers, client, caller) for caller in range(CALLERS)))
                print(f"seed {seed}:", Counter(fault.kind for fault in proxy.history), *proxy.history, sep="\n")
                # Without faults the client recovers.
                proxy.faults = lambda: CLEAN
                await proxy.drop_all()
                await recovered(client)
            finally:
                await client.stop()

    with LedgerServer(tmp_path, **KINDS_OF_SERVER[kind]) as server:
        await test()
        server.process.terminate()  # so that nothing runs while the ledger is read
        server.ended()
    runs = server.runs
    assert runs.pop("recovered") == 1
    counts = callers.check(runs)
    assert counts.total() == CALLERS * CALLS
    assert counts["ok"] > 0
    assert counts["unknown"] > 0, "no fault hit a call in flight: the test is not meaningful"
    assert callers.longest < DEADLINE + 20.0, "a call exceeded its deadline"


async def recovered(client: Client) -> None:
    """Wait until an idempotent call succeeds; connections that are still broken may fail first."""
    for _ in range(20):
        try:
            assert (await client.tools.call("echo", {"text": "recovered"}, timeout=5)).text == "recovered"
        except McpError:
            continue
        break
    result = await client.tools.call("record", {"nonce": "recovered"}, timeout=60)
    assert result.text == "recovered"
    assert client.state == "ready"


EXACT = [Fault(kind, after, side) for kind in KINDS if kind not in ("clean", "stall") for side in (False, True)
         for after in (0, 1, 100, 400)]  # fmt: skip


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_each_fault_ends_the_call_at_once(version: str, tmp_path: Path) -> None:
    """docs/guarantees.md G2. Without a deadline only the end of the connection can end a call."""
    callers = Callers()

    async def test() -> None:
        faults = [CLEAN]
        async with (
            FaultProxy(server.port, lambda: faults[-1]) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            for number, fault in enumerate(EXACT):
                faults.append(fault)
                await proxy.drop_all()
                async with asyncio.timeout(60):
                    await callers.call(client, TOOLS[number % len(TOOLS)], str(number), None)
                faults.append(CLEAN)
                await proxy.drop_all()
                await client.ready(60)

    with LedgerServer(tmp_path) as server:
        await test()
        server.process.terminate()
        server.ended()
    counts = callers.check(server.runs)
    assert counts["ok"] > 0
    assert counts["unknown"] > 0
    assert all(isinstance(error, OutcomeUnknownError | TransportError) for error in callers.errors)


async def test_a_stream_that_is_lost_after_its_first_event_is_resumed(tmp_path: Path) -> None:
    """2025-11-25 basic/transports, "Resumability and Redelivery": the call gets its result and ran once."""
    callers = Callers()

    async def test() -> None:
        faults = [CLEAN]
        async with (
            FaultProxy(server.port, lambda: faults.pop() if len(faults) > 1 else CLEAN) as proxy,
            connect(http(proxy.url), versions=(HANDSHAKE,), **FAST) as client,
        ):
            for after in range(1, 1_200, 60):
                await proxy.drop_all()
                await client.ready(60)
                faults.append(Fault("cut", after))
                await callers.call(client, "record_in_steps", f"cut-{after}", 10)
                faults[1:] = []

    with LedgerServer(tmp_path, sessions=True, events=True, retry=0.01, keepalive=0) as server:
        await test()
    counts = callers.check(server.runs)
    # Before the first event there is no id to resume with.
    assert counts["ok"] >= 12
    assert counts["unknown"] >= 1


@pytest.mark.parametrize(("version", "sessions"), [(HANDSHAKE, True), (STATELESS, False)])
async def test_keepalives_protect_a_long_call_from_a_proxy_with_an_idle_timeout(
    version: str, sessions: bool, tmp_path: Path
) -> None:
    """docs/guarantees.md G17. Without keepalives the same call is lost."""

    async def test() -> None:
        async with (
            FaultProxy(server.port, lambda: Fault("idle-timeout", 600)) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            call = client.tools.call("record_and_wait", {"nonce": "long", "seconds": 0.9}, timeout=60)
            if keepalive:
                assert (await call).text == "long"
            else:
                with pytest.raises(OutcomeUnknownError):
                    await call

    for keepalive in (0.1, 0):
        with LedgerServer(tmp_path, keepalive=keepalive, sessions=sessions) as server:
            await test()
    assert server.runs == {"long": 2}


@pytest.mark.parametrize("version", [HANDSHAKE, STATELESS])
async def test_a_refused_connection_fails_without_running_and_wait_for_ready_waits(
    version: str, tmp_path: Path
) -> None:
    """docs/guarantees.md G3 and G10."""

    async def test() -> None:
        async with (
            FaultProxy(server.port, lambda: CLEAN) as proxy,
            connect(http(proxy.url), versions=(version,), **FAST) as client,
        ):
            await client.tools.call("record", {"nonce": "before"})
            await proxy.refuse()
            await proxy.drop_all()
            # The first call may still use the connection that was dropped.
            with pytest.raises(McpError):
                await client.tools.call("record", {"nonce": "down-0"}, timeout=0.5)
            for number in range(1, 4):
                with pytest.raises(McpError) as raised:
                    await client.tools.call("record", {"nonce": f"down-{number}"}, timeout=0.2)
                assert raised.value.may_have_run is False
            waiting = asyncio.get_running_loop().create_task(
                client.tools.call("record", {"nonce": "waited"}, timeout=60)
            )
            await asyncio.sleep(0)
            await proxy.listen()
            assert (await waiting).text == "waited"

    with LedgerServer(tmp_path) as server:
        await test()
    assert server.runs == {"before": 1, "waited": 1}
