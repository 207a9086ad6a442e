"""Several servers as one: opened together, failing independently, with one list of tools."""

import asyncio
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.client import Fleet, _fleet
from jackstay.client._fleet import MAX_NAME, fleet_name
from jackstay.client._throttled_target import ThrottledTarget
from jackstay.errors import (
    CapabilityError,
    ClosedError,
    JsonRpcError,
    McpError,
    StateError,
    TransportError,
    UnexpectedOptionError,
    UsageError,
)
from jackstay.testing import run_on_fake_clock
from jackstay.transport import stdio
from peers.in_memory_server import InMemoryServer, with_tools
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def refusing(name: str, *, permanent: bool = True) -> InMemoryServer:
    target = with_tools(name)
    target.refusal = TransportError(f"{name} is not there", permanent=permanent)
    return target


# --- names ------------------------------------------------------------------------------------------------------------

LONG = "x" * 70
NAMES = [
    ("git", "status", "__", "git__status"),
    ("git", "status", ".", "git.status"),
    ("a", "b" * 61, "__", "a__" + "b" * 61),  # 64 characters
]


def test_a_name_that_fits_is_not_changed() -> None:
    for server, tool, separator, name in NAMES:
        assert fleet_name(server, tool, separator) == name


def test_a_long_name_is_cut_and_ends_in_a_hash_that_never_changes() -> None:
    first, second = fleet_name("a", "b" * 62, "__"), fleet_name("a", "b" * 63, "__")
    assert first != second
    assert first[:47] == second[:47] == "a__" + "b" * 44
    # Stored conversations contain these names, so they must be the same in the next version.
    assert first == "a__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_8000a2df34107098"


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_name_is_never_longer_than_allowed(server: str, tool: str) -> None:
    assert len(fleet_name(server, tool, "__")) <= MAX_NAME


# --- the tools --------------------------------------------------------------------------------------------------------


async def test_tools_of_all_servers_are_one_list_and_called_by_their_names_in_it() -> None:
    one, two = with_tools("one", "add", LONG), with_tools("two", "add")
    async with Fleet({"one": one, "two": two}) as fleet:
        names = [tool.name for tool in await fleet.tools()]
        assert names == ["one__add", fleet.name_of("one", LONG), "two__add"]
        assert all(len(name) <= MAX_NAME for name in names)
        for name, (server, tool) in fleet.names.items():
            assert fleet.name_of(server, tool) == name
            answer = await fleet.call(name, {"n": 1}, timeout=5)
            assert answer.text == f'{server}.{tool}({{"n": 1}})'
        assert (await fleet.call("two__add")).text == "two.add({})"


async def test_the_separator_can_be_chosen() -> None:
    async with Fleet({"one": with_tools("one", "add")}, separator=".") as fleet:
        assert list(fleet.names) == ["one.add"]


async def test_a_tool_that_is_listed_twice_appears_once() -> None:
    async with Fleet({"one": with_tools("one", "t", "t", "u"), "two": with_tools("two", "t")}) as fleet:
        assert [tool.name for tool in await fleet.tools()] == ["one__t", "one__u", "two__t"]
        assert (await fleet.call("one__t")).text == "one.t({})"


async def test_of_a_tool_that_is_listed_twice_the_last_definition_counts() -> None:
    definitions = [{"name": "t", "description": text, "inputSchema": {"type": "object"}} for text in ("old", "new")]
    async with Fleet({"one": InMemoryServer("one", lambda *_: {"tools": definitions})}) as fleet:
        assert [tool.description for tool in await fleet.tools()] == ["new"]


async def test_malformed_capabilities_do_not_prevent_listing_tools() -> None:
    async with Fleet({"one": with_tools("one", "t", capabilities={"tools": True, "logging": 5})}) as fleet:
        assert [tool.name for tool in await fleet.tools()] == ["one__t"]
        assert fleet.errors == {}


COLLISIONS = [
    ({"a": ("b__c",), "a__b": ("c",)}, "'b__c' of 'a' and 'c' of 'a__b'"),
    ({"a_": ("b",), "a": ("_b",)}, "'b' of 'a_' and '_b' of 'a'"),
]


@pytest.mark.parametrize(("servers", "message"), COLLISIONS)
async def test_only_a_name_that_two_servers_would_have_is_omitted(
    servers: dict[str, tuple[str, ...]], message: str
) -> None:
    targets = {name: with_tools(name, *tools, "own") for name, tools in servers.items()}
    async with Fleet({**targets, "other": with_tools("other", "add")}) as fleet:
        assert set(fleet.states.values()) == {"ready"}
        names = [tool.name for tool in await fleet.tools()]
        assert sorted(names) == sorted([*(f"{name}__own" for name in servers), "other__add"])
        assert sorted(fleet.names) == sorted(names)
        assert set(fleet.errors) == set(servers)
        for error in fleet.errors.values():
            assert message in str(error)
        colliding = fleet_name(next(iter(servers)), servers[next(iter(servers))][0], "__")
        with pytest.raises(McpError, match="both are omitted"):
            await fleet.call(colliding)


async def test_a_collision_within_a_server_omits_only_its_tools(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_fleet, "HASH_DIGITS", 0)  # every long name of a server has the same hash

    bad = with_tools("bad", "x" * 70 + "1", "x" * 70 + "2", "short")
    async with Fleet({"bad": bad, "good": with_tools("good", "add")}) as fleet:
        assert fleet.states == {"bad": "ready", "good": "ready"}
        assert [tool.name for tool in await fleet.tools()] == ["good__add"]
        assert "all tools of this server are omitted" in str(fleet.errors["bad"])
        assert "good" not in fleet.errors
        assert (await fleet["bad"].tools.call("short")).text.startswith("bad.short")
        with pytest.raises(UsageError):
            fleet.name_of("bad", "short")


async def test_a_tool_added_later_is_found_and_listed() -> None:
    tools = ["old"]

    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "tools/list":
            return {"tools": [{"name": name, "inputSchema": {}} for name in tools]}
        return {"content": [{"type": "text", "text": params["name"]}]}

    async with Fleet({"one": InMemoryServer("one", answer)}) as fleet:
        tools.append("new")
        assert (await fleet.call("one__new")).text == "new"
        assert [tool.name for tool in await fleet.tools()] == ["one__old", "one__new"]
        with pytest.raises(UsageError, match="unknown tool 'one__other'"):
            await fleet.call("one__other")
        with pytest.raises(UsageError, match="unknown tool 'other' of server 'one'"):
            fleet.name_of("one", "other")


async def test_everything_of_a_tool_but_its_name_is_kept() -> None:
    tool = {"name": "t", "inputSchema": {"type": "object"}, "description": "d", "x-vendor": {"a": 1}}
    target = InMemoryServer("one", lambda method, params: {"tools": [tool]})
    async with Fleet({"one": target}) as fleet:
        (listed,) = await fleet.tools()
        assert listed.raw == {**tool, "name": "one__t"}


# --- a failing server does not affect the others ----------------------------------------------------------------------


async def test_a_server_that_cannot_be_opened_does_not_affect_the_others() -> None:
    async with Fleet({"bad": refusing("bad"), "good": with_tools("good", "add")}) as fleet:
        assert fleet.states == {"bad": "closed", "good": "ready"}
        assert [str(error) for error in fleet.errors.values()] == ["bad is not there"]
        assert [tool.name for tool in await fleet.tools()] == ["good__add"]
        assert (await fleet.call("good__add")).text == "good.add({})"
        with pytest.raises(ClosedError, match="bad is not there") as raised:
            await fleet.call("bad__add")
        assert raised.value.details["server"] == "bad"
        assert raised.value.may_have_run is False


async def test_with_require_all_the_first_failure_is_the_fleets_and_nothing_is_left_open() -> None:
    good = with_tools("good", "add")
    fleet = Fleet({"good": good, "bad": refusing("bad"), "worse": refusing("worse")}, require_all=True)
    with pytest.raises(TransportError, match="bad is not there") as raised:
        await fleet.open()
    assert raised.value.details["server"] == "bad"
    assert "'bad'" in raised.value.__notes__[0]
    assert fleet.states == {"good": "closed", "bad": "closed", "worse": "closed"}


async def test_with_require_all_a_whole_fleet_opens() -> None:
    async with Fleet({"good": with_tools("good", "add")}, require_all=True) as fleet:
        assert fleet.errors == {}


async def test_servers_are_opened_at_the_same_time() -> None:
    begun = asyncio.Barrier(3)

    class Meeting(InMemoryServer):
        async def open(self, *args: Any) -> Any:
            await begun.wait()  # passes only when all are here
            return await super().open(*args)

    targets = {name: Meeting(name, lambda method, params: {"tools": []}) for name in "abc"}
    async with Fleet(targets) as fleet:
        assert set(fleet.states.values()) == {"ready"}


async def test_a_server_without_tools_is_part_of_the_fleet() -> None:
    silent = with_tools("silent", capabilities={"prompts": {}})
    async with Fleet({"silent": silent, "good": with_tools("good", "add")}) as fleet:
        assert [tool.name for tool in await fleet.tools()] == ["good__add"]
        assert fleet.errors == {}
        assert "tools/list" not in silent.methods()
        with pytest.raises(CapabilityError):
            await fleet["silent"].tools.list()


async def test_a_server_that_cannot_list_now_keeps_the_tools_it_had_and_shows_its_error() -> None:
    is_broken = False

    def answer(method: str, params: dict[str, Any]) -> Any:
        if is_broken:
            raise JsonRpcError(-32603, "not now")
        return {"tools": [{"name": "t", "inputSchema": {}}]}

    async with Fleet({"odd": InMemoryServer("odd", answer), "good": with_tools("good", "add")}) as fleet:
        is_broken = True
        assert [tool.name for tool in await fleet.tools()] == ["odd__t", "good__add"]
        assert "not now" in str(fleet.errors["odd"])
        is_broken = False
        await fleet.tools()
        assert fleet.errors == {}


async def test_a_call_of_an_unlisted_server_raises_its_listing_error() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        raise JsonRpcError(-32603, "never")

    async with Fleet({"odd": InMemoryServer("odd", answer)}) as fleet:
        assert fleet.states == {"odd": "ready"}
        with pytest.raises(ClosedError, match="never"):
            await fleet.call("odd__t")


# --- opening, closing, misuse -----------------------------------------------------------------------------------------


def test_a_fleet_is_a_collection_of_clients_by_name() -> None:
    targets = {"one": with_tools("one"), "two": with_tools("two")}
    fleet = Fleet(targets, request_timeout=7.0)
    assert list(fleet) == ["one", "two"]
    assert len(fleet) == 2
    assert "one" in fleet
    assert "three" not in fleet
    assert fleet["one"].settings.name == "one"
    assert fleet["two"].settings.request_timeout == 7.0
    assert repr(fleet) == "<Fleet one new, two new>"
    assert repr(Fleet({})) == "<Fleet (no servers)>"
    with pytest.raises(KeyError):
        fleet["three"]


INVALID_OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"separator": ""}, "separator"),
    ({"name": "x"}, "name"),
    ({"request_timeout": -1}, "request_timeout"),
    ({"nonsense": 1}, "nonsense"),
]


def test_a_bad_option_is_refused_by_name() -> None:
    for options, name in INVALID_OPTIONS:
        with pytest.raises(UsageError, match=name):
            Fleet({"one": with_tools("one")}, **options)
    with pytest.raises(UnexpectedOptionError, match=r"Fleet\(\) got an unexpected option 'name'"):
        Fleet({}, name="x")  # type: ignore[call-arg]  # the mistake that is tested


def test_a_server_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        Fleet({"": with_tools("one")})


async def test_a_fleet_is_opened_once_and_only_then_used() -> None:
    fleet = Fleet({"one": with_tools("one", "add")})
    with pytest.raises(StateError, match="the fleet is not open"):
        await fleet.tools()
    with pytest.raises(StateError, match="the fleet is not open"):
        await fleet.call("one__add")
    await fleet.stop()  # nothing to stop
    await fleet.open()
    with pytest.raises(StateError, match="already opened"):
        await fleet.open()
    assert fleet.states == {"one": "ready"}, "the second attempt closed it"
    await fleet.stop(drain=1)
    await fleet.stop()
    assert fleet.states == {"one": "closed"}


async def test_a_fleet_is_opened_in_one_task_and_stopped_in_another() -> None:
    fleet = Fleet({"one": with_tools("one", "add"), "bad": refusing("bad")})
    await asyncio.create_task(fleet.open())
    calls = [asyncio.create_task(fleet.call("one__add", {"n": number})) for number in range(20)]
    assert {result.text for result in await asyncio.gather(*calls)} == {
        f'one.add({{"n": {number}}})' for number in range(20)
    }
    await asyncio.create_task(fleet.stop())
    assert fleet.states == {"one": "closed", "bad": "closed"}


async def test_a_cancelled_open_leaves_nothing_behind() -> None:
    waiting = asyncio.Event()

    class Stuck(InMemoryServer):
        async def open(self, *args: Any) -> Any:
            waiting.set()
            return await asyncio.Event().wait()

    fleet = Fleet({"stuck": Stuck("stuck", lambda method, params: None), "good": with_tools("good", "add")})
    opening = asyncio.create_task(fleet.open())
    await waiting.wait()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    assert fleet.states == {"stuck": "closed", "good": "closed"}


# --- from a file ------------------------------------------------------------------------------------------------------


async def test_a_fleet_from_a_file_runs_real_processes(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    real = {"command": sys.executable, "args": [str(PEER)]}
    servers = {
        "real": {**real, "env": {"PEER_GREETING": "hello"}},
        "gone": {"command": str(tmp_path / "absent")},
        "off": {**real, "disabled": True},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))

    async with Fleet.from_config(path, separator=".", close_step=1.0) as fleet:
        assert fleet.states == {"real": "ready", "gone": "closed"}
        assert "absent" in str(fleet.errors["gone"])
        assert (await fleet.call("real.greet", {"who": "you"})).text == "hello, you"
        assert fleet["real"].settings.close_step == 1.0
    selected = Fleet.from_config(path, servers=["off"], require_all=True)
    async with selected:
        assert selected.states == {"off": "ready"}
    started = set(threading.enumerate()) - before
    assert not [thread for thread in started if thread.name.startswith("jackstay")]


def test_a_file_with_a_mistake_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"good": {"command": "x"}, "web": {"url": 5}}}')
    with pytest.raises(UsageError, match=r"mcpServers\.web"):
        Fleet.from_config(path)
    assert list(Fleet.from_config(path, servers=["good"])) == ["good"]


def test_rules_of_a_gateway_do_not_apply_and_are_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text('[servers.one]\ncommand = "one"\ndeny = ["drop"]\n')
    Fleet.from_config(path)
    assert "servers.one.deny is for a gateway; a fleet has all tools of the server" in caplog.text


# --- bounded starts ---------------------------------------------------------------------------------------------------


class Processors:
    """Two processors that all starts share, on the fake clock; counts concurrent starts."""

    def __init__(self) -> None:
        self.running = 0
        self.peak = 0
        self.attempts = 0

    async def work(self, seconds: float) -> None:
        """Simulate work on the shared processors."""
        self.running += 1
        self.attempts += 1
        self.peak = max(self.peak, self.running)
        try:
            while seconds > 0:
                await asyncio.sleep(0.25)
                seconds -= 0.25 * min(1, 2 / self.running)
        finally:
            self.running -= 1


def starting_slowly(name: str, processors: Processors, seconds: float) -> InMemoryServer:
    class Slow(InMemoryServer):
        async def open(self, *args: Any) -> Any:
            await processors.work(seconds)
            return await super().open(*args)

    return Slow(name, lambda method, params: {"tools": []})


@pytest.mark.parametrize(("parallel_starts", "most"), [(None, 4), (2, 2), (3, 3)])
def test_a_fleet_of_slow_servers_becomes_ready_with_a_bounded_number_of_starts_at_a_time(
    parallel_starts: int | None, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start needs 8 s of a processor: 40 at once would take 160 s each, and `init_timeout` is 10 s."""
    monkeypatch.setattr(_fleet.os, "cpu_count", lambda: 2)
    processors = Processors()

    async def work() -> None:
        targets = {f"s{n}": starting_slowly(f"s{n}", processors, 8) for n in range(40)}
        async with Fleet(targets, parallel_starts=parallel_starts) as fleet:
            assert fleet.errors == {}
            assert set(fleet.states.values()) == {"ready"}
            assert fleet.parallel_starts == most

    run_on_fake_clock(work())
    assert processors.peak == most
    assert processors.running == 0


def test_a_fleet_that_is_lost_as_a_whole_restarts_a_few_servers_at_a_time() -> None:
    """Each restart needs 4 s of a processor: 40 at once would take 80 s each, longer than any start may take."""
    processors = Processors()

    async def work() -> None:
        targets = {f"s{n}": starting_slowly(f"s{n}", processors, 4) for n in range(40)}
        async with Fleet(targets, parallel_starts=4) as fleet:
            processors.peak = 0
            for target in targets.values():
                target.cut()
            await asyncio.gather(*(fleet[name].ready(2000) for name in fleet))
            assert set(fleet.states.values()) == {"ready"}
            targets_of_clients = [fleet[name]._target for name in fleet]
            assert all(isinstance(each, ThrottledTarget) and not each._has_slot for each in targets_of_clients)

    run_on_fake_clock(work())
    assert processors.peak == 4


def test_by_default_there_are_as_many_starts_as_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, most in ((None, 4), (1, 4), (16, 16)):
        monkeypatch.setattr(_fleet.os, "cpu_count", lambda count=count: count)
        assert Fleet({}).parallel_starts == most


def test_invalid_parallel_starts_are_refused() -> None:
    values: list[Any] = [0, -1, 1.0, True, "4"]
    for value in values:
        with pytest.raises(UsageError, match="parallel_starts must be a positive int or None"):
            Fleet({}, parallel_starts=value)


STARTS_SLOWLY = """
import fcntl, json, os, sys
ledger, token = sys.argv[1:]
def note(what):
    file = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, (what + "\\n").encode())
    os.close(file)
note("start")
with open(token, "w") as file:
    fcntl.flock(file, fcntl.LOCK_EX)  # one at a time, so that each start waits for those before it
    sum(range(200_000))
for line in sys.stdin:
    message = json.loads(line)
    if message.get("method") == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "slow", "version": "1"}}
        note("ready")
    elif message.get("method") == "server/discover":
        result = None
    else:
        continue
    answer = {"result": result} if result else {"error": {"code": -32601, "message": "no such method"}}
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.mark.guard(300)
async def test_forty_real_servers_become_ready_at_default_settings(tmp_path: Path) -> None:
    """The ledger of the servers shows that never more than `parallel_starts` were starting."""
    ledger = tmp_path / "ledger"
    program = STARTS_SLOWLY.replace("\\\\", "\\")
    target = [sys.executable, "-I", "-S", "-c", program, str(ledger), str(tmp_path / "token")]

    async with Fleet({f"s{n}": stdio(*target) for n in range(40)}) as fleet:
        assert fleet.errors == {}
        assert set(fleet.states.values()) == {"ready"}
        most = 0
        starting = 0
        for line in ledger.read_text().splitlines():
            starting += 1 if line == "start" else -1
            most = max(most, starting)
        assert starting == 0
        assert most <= fleet.parallel_starts


def test_settings_are_checked_even_without_servers() -> None:
    with pytest.raises(UnexpectedOptionError, match=r"Fleet\(\) got an unexpected option 'foo'"):
        Fleet({}, foo=1)  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="max_pending must be an int from 1, not 0"):
        Fleet({}, max_pending=0)
