"""A real client and server connection joined by a faulty pipe: it delays, cuts, stalls, repeats and truncates.

The server records what ran. After the faults the pipe is repaired, and then the connection must be ready with nothing
open, and every outcome must agree with what ran.
"""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.errors import TransportError
from jackstay.protocol.client import events as c
from jackstay.protocol.client._connection import ClientConnection
from jackstay.protocol.client._settings import Settings
from jackstay.protocol.client._states import ClientState
from jackstay.protocol.server import events as s
from jackstay.protocol.server._config import ServerConfig, ServerOptions
from jackstay.protocol.server._connection import ServerConnection
from jackstay.protocol.wire._lines import LineFramer, frame_lines
from model.harness import receive

# The search covers nothing that other tests do not, and coverage makes it five times slower.
pytestmark = [pytest.mark.no_cover, pytest.mark.long]


class Pipe:
    """One direction of a transport: chunks of bytes in flight, as they were written."""

    def __init__(self) -> None:
        self.chunks: list[bytes] = []
        self.framer = LineFramer(1 << 20)

    def write(self, frame: bytes) -> None:
        self.chunks.append(frame_lines((frame,)))

    def arrive(self, rng: random.Random) -> list[bytes]:
        """Receive some of the bytes, split anywhere, and return complete frames."""
        if not self.chunks:
            return []
        data = self.chunks.pop(0)
        if rng.random() < 0.2 and len(data) > 1:
            cut = rng.randrange(1, len(data))
            self.chunks.insert(0, data[cut:])
            data = data[:cut]
        self.framer.feed(data)
        frames = []
        while (frame := self.framer.next_frame()) is not None:
            frames.append(frame)
        return frames


class Joined:
    """A client, a server that is restarted with every transport, and the pipes between them."""

    def __init__(self, seed: int, versions: tuple[str, ...]) -> None:
        self.rng = random.Random(seed)
        self.now = 0.0
        self.client = ClientConnection(Settings(versions=versions, max_pending=64), is_strict=True)
        self.outcomes: dict[int, list[str]] = {}
        self.ledger: dict[int, int] = {}
        self.calls = 0
        self.closing: list[int] = []
        self.spawning: list[int] = []
        self._connect(0)
        self._perform(self.client.start(self.now))

    def _connect(self, epoch: int) -> None:
        self.epoch = epoch
        self.is_open = False
        self.to_server, self.to_client = Pipe(), Pipe()
        server_config = ServerConfig(
            ServerOptions(server_info=b'{"name":"ledger","version":"1"}', capabilities=b'{"tools":{}}')
        )
        self.server = ServerConnection(server_config, is_strict=True)
        self.running: list[s.Serve] = []
        self.cancelled: list[object] = []

    # --- effects ------------------------------------------------------------------------------------------------------

    def _perform(self, effects: list[c.Effect]) -> None:
        for effect in effects:
            match effect:
                case c.Spawn():
                    self.spawning.append(effect.epoch)
                case c.Close():
                    self.closing.append(effect.epoch)
                case c.Send():
                    assert self.is_open, "a frame was sent without a transport"
                    self.to_server.write(effect.frame)
                    self.client.wrote(self.epoch, effect.number)
                case c.Complete():
                    assert msgspec.json.decode(effect.result)["call"] == effect.caller, "the result of another call"
                    self.outcomes[effect.caller].append("ok")  # type: ignore[index]
                case c.Fail():
                    outcome = {True: "unknown", False: "failed", None: "refused"}[effect.error.may_have_run]
                    self.outcomes[effect.caller].append(outcome)  # type: ignore[index]

    def _step(self, event: c.Event) -> None:
        self._perform(self.client.step(event, self.now, self.rng.random()))

    def _perform_server(self, effects: list[s.Effect]) -> None:
        for effect in effects:
            match effect:
                case s.Serve():
                    call = msgspec.json.decode(effect.params or b"{}").get("call")
                    if call is not None:
                        self.ledger[call] = self.ledger.get(call, 0) + 1
                    self.running.append(
                        msgspec.structs.replace(effect, params=msgspec.Raw(bytes(effect.params or b"{}")))
                    )
                case s.StopServing():
                    self.running = [serve for serve in self.running if serve.serial != effect.serial]
                case s.Send():
                    self.to_client.write(effect.frame)

    # --- moves --------------------------------------------------------------------------------------------------------

    def call(self, **how: Any) -> None:
        self.calls += 1
        self.outcomes[self.calls] = []
        params = b'{"name":"x","call":%d}' % self.calls
        self._step(c.Called(caller=self.calls, method="tools/call", params=params, **how))

    def cancel(self) -> None:
        open_calls = [id for id, exchange in self.client.calls.pending.items() if exchange.caller is not None]
        if open_calls:
            id = self.rng.choice(open_calls)
            self.outcomes[self.client.calls.pending[id].caller].append("cancelled")  # type: ignore[index]
            self._step(c.CallCancelled(id))

    def spawn(self) -> None:
        spawning, self.spawning = self.spawning, []
        for epoch in spawning:
            if epoch == self.client.epoch and epoch not in self.closing:
                self._connect(epoch)
                self.is_open = True
            self._step(c.Spawned(epoch))
            assert (epoch == self.epoch and self.is_open) or epoch in self.closing, "a late spawn is not closed"

    def reap(self) -> None:
        while self.closing:
            epoch = self.closing.pop()
            self.is_open = self.is_open and epoch != self.epoch
            self._step(c.Reaped(epoch))

    def deliver(self) -> None:
        if self.is_open:
            for frame in self.to_server.arrive(self.rng):
                self._perform_server(self.server.receive(frame))
            for frame in self.to_client.arrive(self.rng):
                self._perform(receive(self.client, frame, self.epoch, self.now, self.rng.random()))

    def finish(self) -> None:
        if self.is_open and self.running:
            serve = self.running.pop(self.rng.randrange(len(self.running)))
            result = b'{"call":%d}' % msgspec.json.decode(serve.params or b"{}").get("call", 0)
            self._perform_server(self.server.finish(serve.id, serve.serial, result))

    def cut(self) -> None:
        if self.is_open:
            self.is_open = False
            self.to_server, self.to_client = Pipe(), Pipe()
            self._step(c.WentDown(self.epoch, TransportError("cut", exit_code=-9), -9))

    def repeat(self) -> None:
        if self.to_client.chunks:
            whole = [chunk for chunk in self.to_client.chunks if chunk.startswith(b"{") and chunk.endswith(b"}\n")]
            self.to_client.chunks.extend(whole[:1])

    def print_other_output(self) -> None:
        self.to_client.chunks.append(b"Debugger listening\n")

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        for event in self.client.due(self.now):
            self._step(event)

    def recover(self) -> None:
        """Run without faults until nothing is left to do."""
        for _ in range(400):
            self.reap()
            self.spawn()
            for _ in range(5):
                self.deliver()
                self.finish()
            self.pass_time(1.0)


def run_with_faults(seed: int, versions: tuple[str, ...], steps: int) -> Joined:
    world = Joined(seed, versions)
    acts = [
        (
            6,
            lambda: world.call(wait_for_ready=world.rng.random() < 0.7, may_replay=world.rng.random() < 0.2),
        ),
        (30, world.deliver),
        (12, world.finish),
        (6, world.spawn),
        (4, world.reap),
        (2, world.cut),
        (2, world.repeat),
        (2, world.print_other_output),
        (3, lambda: world.pass_time(world.rng.choice([0.01, 0.5, 3.0, 31.0]))),
        (1, world.cancel),
    ]
    weights = [weight for weight, _ in acts]
    for _ in range(steps):
        world.rng.choices([act for _, act in acts], weights)[0]()
    return world


@pytest.mark.parametrize(
    "versions",
    [
        ("2025-11-25",),
        ("2026-07-28",),
        ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"),
    ],
)
@given(seed=st.integers(0, 2**32))
def test_every_call_has_one_correct_outcome(versions: tuple[str, ...], seed: int) -> None:
    world = run_with_faults(seed, versions, 150)
    world.recover()
    if world.client.state is not ClientState.CLOSED:
        assert world.client.state is ClientState.READY, f"seed {seed}: {world.client!r} after {world.client.cause}"
    assert not world.client.calls.pending
    assert "refused" not in {outcome for outcomes in world.outcomes.values() for outcome in outcomes}
    for call, outcomes in world.outcomes.items():
        assert len(outcomes) == 1, f"seed {seed}: call {call} ended {outcomes}"
        runs = world.ledger.get(call, 0)
        match outcomes[0]:
            case "ok":
                assert runs >= 1
            case "failed":
                assert runs == 0, f"seed {seed}: call {call} failed as not run, but ran"


@given(seed=st.integers(0, 2**32))
def test_without_replay_nothing_runs_twice(seed: int) -> None:
    world = Joined(seed, ("2025-11-25", "2026-07-28"))
    for _ in range(120):
        act = world.rng.choice([world.deliver, world.deliver, world.finish, world.spawn, world.reap, world.cut])
        act()
        if world.rng.random() < 0.2:
            world.call(wait_for_ready=True)
        world.pass_time(0.3)
    world.recover()
    assert all(runs == 1 for runs in world.ledger.values()), f"seed {seed}: {world.ledger}"
