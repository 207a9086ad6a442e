"""Stateful test of the core: a client, handlers and a driver act in any order, and no invariant is violated.

A second core without the fast path must behave identically. The ledger is that of the model check; here Hypothesis
chooses ids, frames (also invalid ones), limits and the order.
"""

import json
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from jackstay.protocol.server import events as e
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.server._states import ServerState as S
from jackstay.protocol.wire._jsonrpc import Batch, Malformed, Notification, Request, decode
from model.server import (
    INITIALIZED,
    META,
    VERSION_KEY,
    Input,
    Ledger,
    SlowConnection,
    array,
    call,
    cancel,
    copied,
    frame,
    plain,
    server_config,
    snapshot,
    stateless,
)
from model.server import initialize as initialize_frame

# Other tests cover the same code, and coverage makes this test five times as slow.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]

# Few ids and mostly one method, so that requests collide; the connection ends late, so that handlers are running.
IDS = st.sampled_from([1, 1, 2, "1", "", 2**60])
MIN_STEPS = 15
METHODS = st.sampled_from(
    [
        "tools/call",
        "tools/list",
        "ping",
        "no/such",
        "server/discover",
        "subscriptions/listen",
        "resources/subscribe",
    ]
)
VERSIONS = st.sampled_from(["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "1999-01-01"])
METAS = st.sampled_from([META, {VERSION_KEY: "2026-07-28"}, {VERSION_KEY: "2027-01-01"}, {VERSION_KEY: 5}, {}])

requests = st.builds(call, IDS, METHODS)
stateless_requests = st.builds(stateless, IDS, METHODS, METAS)
cancels = st.builds(cancel, IDS)
notifications = st.sampled_from([INITIALIZED, frame(method="notifications/roots/list_changed"), frame(method="x")])
responses = (st.integers(-1, 6) | st.sampled_from(["1", "x"])).map(lambda own: frame(id=own, result={}))
handshakes = st.builds(initialize_frame, IDS, VERSIONS) | st.builds(initialize_frame, IDS, st.just(5))
members = requests | stateless_requests | cancels | notifications | responses
# Invalid members have no id here: whether it is used depends on the members before.
invalid_members = st.sampled_from([b"1", b"[]", b"{}", b'"x"', frame()])
batches = st.lists(members | invalid_members, max_size=6).map(lambda items: array(*items))
garbage = st.binary(max_size=30) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result"]), inner, max_size=4),
    max_leaves=6,
).map(lambda value: json.dumps(value).encode())


class ServerMachine(RuleBasedStateMachine):
    """All events of a connection."""

    @initialize(
        version=st.sampled_from([None, None, "2024-11-05", "2025-03-26", "2025-03-26", "2025-11-25", "2026-07-28"]),
        is_post=st.sampled_from([False, False, True]),
        strict=st.sampled_from([False, False, True]),
        max_concurrent=st.sampled_from([2, 1024, 1024]),
    )
    def begin(self, version: str | None, is_post: bool, strict: bool, max_concurrent: int) -> None:
        config = server_config(strict=strict, max_concurrent=max_concurrent, max_frame_bytes=4096)
        client = e.ClientParams(version, b"{}", b'{"roots":{}}') if version is not None and not is_post else None
        options: dict[str, Any] = {"version": version, "client": client, "is_strict": True}
        options["is_post"] = is_post and version is not None
        self.core = ServerConnection(config, **options)
        self.slow = SlowConnection(config, **options)
        self.is_post = options["is_post"]
        self.ledger = Ledger()
        self.request_count = 0
        self.now = 0.0
        self.steps = 0

    def apply(self, input: Input) -> e.Effects:
        self.steps += 1
        effects = self.ledger.run(input, self.core)
        slow_effects = input.act(self.slow)
        assert [plain(effect) for effect in effects] == [plain(effect) for effect in slow_effects]
        return effects

    def expectations(self, data: bytes) -> dict[str, Any]:
        """Return what a client may expect of a frame, by JSON-RPC and the table."""
        message = decode(data)
        allows_batches = self.core.version == "2025-03-26" and self.core.state in (S.OPERATING, S.DRAINING)
        is_applied = self.core.state is not S.STATELESS or not self.is_post
        if isinstance(message, Batch):
            inside = message.members if allows_batches else ()
            if any(getattr(member, "method", "") == "initialize" for member in inside):
                inside = ()
            return {
                "requests": tuple(member.id for member in inside if isinstance(member, Request)),
                "cancels": tuple(self.cancelled(member) for member in inside if isinstance(member, Notification)),
                "group": True,
            }
        if isinstance(message, Request):
            return {"requests": (message.id,)}
        if isinstance(message, Malformed):
            has_id = isinstance(message.id, int | str) and not message.is_response
            return {"malformed": message.id if has_id else None}
        if isinstance(message, Notification):
            name = "initialized" if message.method == "notifications/initialized" else "notification"
            return {"name": name, "cancels": (self.cancelled(message),) if is_applied else (), "silent": True}
        return {"silent": True}

    @staticmethod
    def cancelled(message: Notification) -> Any:
        if message.method != "notifications/cancelled" or message.params is None:
            return None
        return json.loads(bytes(message.params)).get("requestId")

    @rule(data=members | handshakes | batches)
    def client_sends(self, data: bytes) -> None:
        expectations = {"name": "frame", **self.expectations(data)}
        self.apply(Input(act=lambda core: core.receive(data), **expectations))

    @rule(id=IDS)
    def client_calls(self, id: int | str) -> None:
        self.client_sends(stateless(id) if self.core.state is S.STATELESS else call(id))

    @precondition(lambda self: self.ledger.running)
    @rule(data=st.data())
    def client_cancels(self, data: Any) -> None:
        self.client_sends(cancel(data.draw(st.sampled_from(sorted(self.ledger.running, key=repr)))))

    @precondition(lambda self: self.core.state in (S.FRESH, S.HANDSHAKE))
    @rule(version=VERSIONS, is_valid=st.sampled_from([True, True, False]))
    def client_initializes(self, version: str, is_valid: bool) -> None:
        is_fresh = self.core.state is S.FRESH
        self.client_sends(initialize_frame(9, version if is_valid else 5) if is_fresh else INITIALIZED)

    @precondition(lambda self: self.core.version == "2025-03-26")
    @rule(items=st.lists(st.builds(call, IDS) | cancels | members | invalid_members, max_size=5))
    def client_sends_a_batch(self, items: list[bytes]) -> None:
        self.client_sends(array(*items))

    @rule(data=garbage)
    def client_sends_garbage(self, data: bytes) -> None:
        self.client_sends(data)

    @rule(size=st.integers(4097, 1 << 40))
    def client_sends_an_oversize_frame(self, size: int) -> None:
        self.step("oversize", e.OversizeReceived(size))

    @precondition(lambda self: self.ledger.running or self.ledger.zombies)
    @rule(data=st.data(), outcome=st.sampled_from(["result", "large result", "error", "invalid error"]))
    def handler_ends(self, data: Any, outcome: str) -> None:
        id, serial = self.handler(data)
        if outcome.endswith("result"):
            result = b"{}" if outcome == "result" else b'{"x":"%b"}' % (b"x" * 5000)
            input = Input("finish", lambda core: core.finish(id, serial, result), finished=(id, serial))
            self.apply(input)
        else:
            reason = {"x": float("nan")} if outcome == "invalid error" else {"x": 1}
            self.step("fail", e.Failed(id, serial, -32000, "no", reason), finished=(id, serial))

    @precondition(lambda self: self.ledger.running or self.ledger.zombies)
    @rule(data=st.data(), progress=st.floats(-2, 2))
    def handler_reports_progress(self, data: Any, progress: float) -> None:
        id, serial = self.handler(data)
        self.step("progress", e.Progressed(id, serial, "token", progress), silent=True)

    def handler(self, data: Any) -> tuple[int | str, int]:
        choices = sorted([*self.ledger.running.items(), *self.ledger.zombies], key=repr)
        chosen: tuple[int | str, int] = data.draw(st.sampled_from(choices))
        return chosen

    @rule(method=st.sampled_from(["ping", "roots/list", "sampling/createMessage", "no/such"]))
    def handler_sends_a_request(self, method: str) -> None:
        self.request_count += 1
        key = f"request {self.request_count}"
        self.step("request", e.OutgoingRequested(key, method), outgoing_request=key)

    @precondition(lambda self: self.ledger.outgoing)
    @rule(data=st.data())
    def handler_cancels_its_request(self, data: Any) -> None:
        key = data.draw(st.sampled_from(sorted(self.ledger.outgoing)))
        self.step("cancel", e.OutgoingCancelled(key, "timeout"), withdrew=key)

    @rule(method=st.sampled_from(["notifications/message", "notifications/tools/list_changed"]))
    def server_notifies(self, method: str) -> None:
        self.step("notify", e.Notified(method), silent=True)

    @precondition(lambda self: self.steps > MIN_STEPS)
    @rule(cause=st.sampled_from(["drain", "drain", "disconnect", "disconnect", "stop"]))
    def connection_ends(self, cause: str) -> None:
        if cause == "drain":
            self.step("drain", e.DrainRequested(), ends=True)
        else:
            event = e.StopRequested() if cause == "stop" else e.ClientDisconnected()
            self.step(cause, event, ends=True, stops=True)

    @rule(seconds=st.floats(0, 2))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        due, slow_due = self.core.due(self.now), self.slow.due(self.now)
        assert due == slow_due
        for event in due:
            self.step("expired", event, ends=True, stops=True)

    def step(self, name: str, event: e.Event, **expectations: Any) -> None:
        self.apply(Input(name, lambda core: core.step(event, self.now), **expectations))

    @invariant()
    def both_cores_have_the_same_state(self) -> None:
        if hasattr(self, "core"):
            assert snapshot(self.core) == snapshot(self.slow)
            assert self.core.counts == self.slow.counts
            assert snapshot(copied(self.core)) == snapshot(self.core)

    def teardown(self) -> None:
        if not hasattr(self, "core"):
            return
        self.connection_ends("disconnect")
        self.time_passes(2.0)
        assert self.core.state is S.CLOSED
        assert not self.core.in_flight
        assert not self.core.outgoing_requests


TestServerMachine = ServerMachine.TestCase
