"""Many servers as one: opened together, failing alone, their tools in one list with a table of names."""

import asyncio
import json
import sys
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jackstay.client import Fleet, _fleet
from jackstay.client._fleet import MAX_NAME, fleet_name
from jackstay.errors import (
    CapabilityError,
    ClosedError,
    JsonRpcError,
    McpError,
    StateError,
    TransportError,
    UsageError,
)
from jackstay.testing import run_on_fake_clock
from jackstay.transport import stdio
from peers.answering import Answering, with_tools
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def run(work: Callable[[], Awaitable[None]]) -> None:
    async def guarded() -> None:
        async with asyncio.timeout(20):
            await work()
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a task was left behind"

    asyncio.run(guarded())


def refusing(name: str, *, permanent: bool = True) -> Answering:
    target = with_tools(name)
    target.refusal = TransportError(f"{name} is not there", permanent=permanent)
    return target


# --- names ------------------------------------------------------------------------------------------------------------

LONG = "x" * 70
NAMES = [
    ("git", "status", "__", "git__status"),
    ("git", "status", ".", "git.status"),
    ("a", "b" * 61, "__", "a__" + "b" * 61),  # 64 characters: whole
]


@pytest.mark.parametrize(("server", "tool", "separator", "name"), NAMES)
def test_a_name_that_fits_is_whole(server: str, tool: str, separator: str, name: str) -> None:
    assert fleet_name(server, tool, separator) == name


def test_a_long_name_is_cut_and_ends_in_a_hash_that_never_changes() -> None:
    one, other = fleet_name("a", "b" * 62, "__"), fleet_name("a", "b" * 63, "__")
    assert one != other
    assert one[:47] == other[:47] == "a__" + "b" * 44
    # Kept conversations hold these names: they must be the same in the next version too.
    assert one == "a__bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb_8000a2df34107098"


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_name_is_never_longer_than_allowed(server: str, tool: str) -> None:
    assert len(fleet_name(server, tool, "__")) <= MAX_NAME


# --- the tools --------------------------------------------------------------------------------------------------------


def test_tools_of_all_servers_are_one_list_and_called_by_their_names_in_it() -> None:
    async def work() -> None:
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

    run(work)


def test_the_separator_can_be_chosen() -> None:
    async def work() -> None:
        async with Fleet({"one": with_tools("one", "add")}, separator=".") as fleet:
            assert list(fleet.names) == ["one.add"]

    run(work)


def test_a_server_that_lists_a_tool_twice_disturbs_nobody() -> None:
    """It is the same tool by the same name: no clash."""

    async def work() -> None:
        async with Fleet({"one": with_tools("one", "t", "t", "u"), "two": with_tools("two", "t")}) as fleet:
            assert [tool.name for tool in await fleet.tools()] == ["one__t", "one__u", "two__t"]
            assert (await fleet.call("one__t")).text == "one.t({})"

    run(work)


def test_a_server_that_says_badly_what_it_offers_is_asked_for_its_tools() -> None:
    async def work() -> None:
        async with Fleet(
            {"one": with_tools("one", "t", capabilities={"tools": True, "logging": 5})}
        ) as fleet:
            assert [tool.name for tool in await fleet.tools()] == ["one__t"]
            assert fleet.errors == {}

    run(work)


CLASHES = [
    ({"a": ("b__c",), "a__b": ("c",)}, "'b__c' of 'a' and 'c' of 'a__b'"),
    ({"a_": ("b",), "a": ("_b",)}, "'b' of 'a_' and '_b' of 'a'"),
]


@pytest.mark.parametrize(("servers", "said"), CLASHES)
def test_a_name_that_two_servers_would_have_is_left_out_and_nothing_else(
    servers: dict[str, tuple[str, ...]], said: str
) -> None:
    async def work() -> None:
        targets = {name: with_tools(name, *tools, "own") for name, tools in servers.items()}
        async with Fleet({**targets, "other": with_tools("other", "add")}) as fleet:
            assert set(fleet.states.values()) == {"ready"}
            names = [tool.name for tool in await fleet.tools()]
            assert sorted(names) == sorted([*(f"{name}__own" for name in servers), "other__add"])
            assert sorted(fleet.names) == sorted(names)
            assert set(fleet.errors) == set(servers)
            for error in fleet.errors.values():
                assert said in str(error)
            clashing = fleet_name(next(iter(servers)), servers[next(iter(servers))][0], "__")
            with pytest.raises(McpError, match="left out"):
                await fleet.call(clashing)

    run(work)


def test_a_server_two_of_whose_tools_would_have_one_name_loses_its_tools_and_no_other_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(_fleet, "HASH_DIGITS", 0)  # every long name of a server has the same hash

    async def work() -> None:
        bad = with_tools("bad", "x" * 70 + "1", "x" * 70 + "2", "short")
        async with Fleet({"bad": bad, "good": with_tools("good", "add")}) as fleet:
            assert fleet.states == {"bad": "ready", "good": "ready"}
            assert [tool.name for tool in await fleet.tools()] == ["good__add"]
            assert "its tools are left out" in str(fleet.errors["bad"])
            assert "good" not in fleet.errors
            assert (await fleet["bad"].tools.call("short")).text.startswith("bad.short")
            with pytest.raises(UsageError):
                fleet.name_of("bad", "short")

    run(work)


def test_a_tool_that_came_later_is_found_and_listed() -> None:
    async def work() -> None:
        tools = ["old"]

        def answer(method: str, params: dict[str, Any]) -> Any:
            if method == "tools/list":
                return {"tools": [{"name": name, "inputSchema": {}} for name in tools]}
            return {"content": [{"type": "text", "text": params["name"]}]}

        async with Fleet({"one": Answering("one", answer)}) as fleet:
            tools.append("new")
            assert (await fleet.call("one__new")).text == "new"
            assert [tool.name for tool in await fleet.tools()] == ["one__old", "one__new"]
            with pytest.raises(UsageError, match="no server of this fleet has a tool 'one__other'"):
                await fleet.call("one__other")
            with pytest.raises(UsageError, match="no tool 'other' of a server 'one'"):
                fleet.name_of("one", "other")

    run(work)


def test_everything_of_a_tool_but_its_name_is_kept() -> None:
    async def work() -> None:
        tool = {"name": "t", "inputSchema": {"type": "object"}, "description": "d", "x-vendor": {"a": 1}}
        target = Answering("one", lambda method, params: {"tools": [tool]})
        async with Fleet({"one": target}) as fleet:
            (listed,) = await fleet.tools()
            assert listed.raw == {**tool, "name": "one__t"}

    run(work)


# --- one failing server never disturbs the others ---------------------------------------------------------------------


def test_a_server_that_cannot_be_opened_is_seen_and_disturbs_no_other() -> None:
    async def work() -> None:
        async with Fleet({"bad": refusing("bad"), "good": with_tools("good", "add")}) as fleet:
            assert fleet.states == {"bad": "closed", "good": "ready"}
            assert [str(error) for error in fleet.errors.values()] == ["bad is not there"]
            assert [tool.name for tool in await fleet.tools()] == ["good__add"]
            assert (await fleet.call("good__add")).text == "good.add({})"
            with pytest.raises(ClosedError, match="bad is not there") as raised:
                await fleet.call("bad__add")
            assert raised.value.details["server"] == "bad"
            assert raised.value.may_have_run is False

    run(work)


def test_with_require_all_the_first_failure_is_the_fleets_and_nothing_is_left_open() -> None:
    async def work() -> None:
        good = with_tools("good", "add")
        fleet = Fleet({"good": good, "bad": refusing("bad"), "worse": refusing("worse")}, require_all=True)
        with pytest.raises(TransportError, match="bad is not there") as raised:
            await fleet.open()
        assert raised.value.details["server"] == "bad"
        assert "'bad'" in raised.value.__notes__[0]
        assert fleet.states == {"good": "closed", "bad": "closed", "worse": "closed"}

    run(work)


def test_with_require_all_a_whole_fleet_opens() -> None:
    async def work() -> None:
        async with Fleet({"good": with_tools("good", "add")}, require_all=True) as fleet:
            assert fleet.errors == {}

    run(work)


def test_servers_are_opened_at_the_same_time() -> None:
    async def work() -> None:
        begun = asyncio.Barrier(3)

        class Meeting(Answering):
            async def open(self, *args: Any) -> Any:
                await begun.wait()  # passes only when all are here
                return await super().open(*args)

        targets = {name: Meeting(name, lambda method, params: {"tools": []}) for name in "abc"}
        async with Fleet(targets) as fleet:
            assert set(fleet.states.values()) == {"ready"}

    run(work)


def test_a_server_without_tools_is_part_of_the_fleet() -> None:
    async def work() -> None:
        silent = with_tools("silent", capabilities={"prompts": {}})
        async with Fleet({"silent": silent, "good": with_tools("good", "add")}) as fleet:
            assert [tool.name for tool in await fleet.tools()] == ["good__add"]
            assert fleet.errors == {}
            assert "tools/list" not in silent.methods()
            with pytest.raises(CapabilityError):
                await fleet["silent"].tools.list()

    run(work)


def test_a_server_that_cannot_list_now_keeps_the_tools_it_had_and_shows_its_error() -> None:
    async def work() -> None:
        is_broken = False

        def answer(method: str, params: dict[str, Any]) -> Any:
            if is_broken:
                raise JsonRpcError(-32603, "not now")
            return {"tools": [{"name": "t", "inputSchema": {}}]}

        async with Fleet({"odd": Answering("odd", answer), "good": with_tools("good", "add")}) as fleet:
            is_broken = True
            assert [tool.name for tool in await fleet.tools()] == ["odd__t", "good__add"]
            assert "not now" in str(fleet.errors["odd"])
            is_broken = False
            await fleet.tools()
            assert fleet.errors == {}

    run(work)


def test_a_server_that_never_listed_has_its_error_for_whoever_calls_its_tools() -> None:
    async def work() -> None:
        def answer(method: str, params: dict[str, Any]) -> Any:
            raise JsonRpcError(-32603, "never")

        async with Fleet({"odd": Answering("odd", answer)}) as fleet:
            assert fleet.states == {"odd": "ready"}
            with pytest.raises(ClosedError, match="never"):
                await fleet.call("odd__t")

    run(work)


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
    assert repr(Fleet({})) == "<Fleet of none>"
    with pytest.raises(KeyError):
        fleet["three"]


MISUSES: list[tuple[dict[str, Any], str]] = [
    ({"separator": ""}, "separator"),
    ({"name": "x"}, "name"),
    ({"request_timeout": -1}, "request_timeout"),
    ({"nonsense": 1}, "nonsense"),
]


@pytest.mark.parametrize(("options", "named"), MISUSES)
def test_a_bad_option_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        Fleet({"one": with_tools("one")}, **options)


def test_a_server_without_a_name_is_refused() -> None:
    with pytest.raises(UsageError, match="must not be empty"):
        Fleet({"": with_tools("one")})


def test_a_fleet_is_opened_once_and_only_then_used() -> None:
    async def work() -> None:
        fleet = Fleet({"one": with_tools("one", "add")})
        with pytest.raises(StateError, match="the fleet is not open"):
            await fleet.tools()
        with pytest.raises(StateError, match="the fleet is not open"):
            await fleet.call("one__add")
        await fleet.stop()  # nothing to stop
        await fleet.open()
        with pytest.raises(StateError, match="opened once"):
            await fleet.open()
        assert fleet.states == {"one": "ready"}, "the second attempt closed it"
        await fleet.stop(drain=1)
        await fleet.stop()
        assert fleet.states == {"one": "closed"}

    run(work)


def test_a_fleet_is_opened_in_one_task_and_stopped_in_another() -> None:
    async def work() -> None:
        fleet = Fleet({"one": with_tools("one", "add"), "bad": refusing("bad")})
        await asyncio.create_task(fleet.open())
        calls = [asyncio.create_task(fleet.call("one__add", {"n": number})) for number in range(20)]
        assert {result.text for result in await asyncio.gather(*calls)} == {
            f'one.add({{"n": {number}}})' for number in range(20)
        }
        await asyncio.create_task(fleet.stop())
        assert fleet.states == {"one": "closed", "bad": "closed"}

    run(work)


def test_an_opener_that_is_cancelled_leaves_nothing_behind() -> None:
    async def work() -> None:
        waiting = asyncio.Event()

        class Stuck(Answering):
            async def open(self, *args: Any) -> Any:
                waiting.set()
                return await asyncio.Event().wait()

        fleet = Fleet(
            {"stuck": Stuck("stuck", lambda method, params: None), "good": with_tools("good", "add")}
        )
        opening = asyncio.create_task(fleet.open())
        await waiting.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        assert fleet.states == {"stuck": "closed", "good": "closed"}

    run(work)


# --- from a file ------------------------------------------------------------------------------------------------------


def test_a_fleet_from_a_file_runs_real_processes(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    real = {"command": sys.executable, "args": [str(PEER)]}
    servers = {
        "real": {**real, "env": {"PEER_GREETING": "hello"}},
        "gone": {"command": str(tmp_path / "absent")},
        "off": {**real, "disabled": True},
    }
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}))

    async def work() -> None:
        async with Fleet.from_config(path, separator=".", close_step=1.0) as fleet:
            assert fleet.states == {"real": "ready", "gone": "closed"}
            assert "absent" in str(fleet.errors["gone"])
            assert (await fleet.call("real.greet", {"who": "you"})).text == "hello, you"
            assert fleet["real"].settings.close_step == 1.0
        chosen = Fleet.from_config(path, servers=["off"], require_all=True)
        async with chosen:
            assert chosen.states == {"off": "ready"}

    run(work)
    ours = set(threading.enumerate()) - before
    assert not [thread for thread in ours if thread.name.startswith("jackstay")]


def test_a_file_with_a_mistake_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text('{"mcpServers": {"good": {"command": "x"}, "web": {"url": 5}}}')
    with pytest.raises(UsageError, match=r"mcpServers\.web"):
        Fleet.from_config(path)
    assert list(Fleet.from_config(path, servers=["good"])) == ["good"]


# --- bounded starts ---------------------------------------------------------------------------------------------------


class Processors:
    """Two processors that all starts share, on the fake clock; and a ledger of how many starts there were at a time."""

    def __init__(self) -> None:
        self.running = 0
        self.most = 0
        self.attempts = 0

    async def work(self, seconds: float) -> None:
        """Do so many seconds of work, as fast as the others leave room for it."""
        self.running += 1
        self.attempts += 1
        self.most = max(self.most, self.running)
        try:
            while seconds > 0:
                await asyncio.sleep(0.25)
                seconds -= 0.25 * min(1, 2 / self.running)
        finally:
            self.running -= 1


def starting_slowly(name: str, processors: Processors, seconds: float) -> Answering:
    class Slow(Answering):
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
    assert processors.most == most
    assert processors.running == 0


def test_a_fleet_that_is_lost_as_a_whole_comes_back_a_few_servers_at_a_time() -> None:
    """Each restart needs 4 s of a processor: 40 at once would take 80 s each, longer than any start may take."""
    processors = Processors()

    async def work() -> None:
        targets = {f"s{n}": starting_slowly(f"s{n}", processors, 4) for n in range(40)}
        async with Fleet(targets, parallel_starts=4) as fleet:
            processors.most = 0
            for target in targets.values():
                target.cut()
            await asyncio.gather(*(fleet[name].ready(2000) for name in fleet))
            assert set(fleet.states.values()) == {"ready"}
            assert fleet._starts._holders == set()

    run_on_fake_clock(work())
    assert processors.most == 4


def test_by_default_there_are_as_many_starts_as_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    for count, most in ((None, 4), (1, 4), (16, 16)):
        monkeypatch.setattr(_fleet.os, "cpu_count", lambda count=count: count)
        assert Fleet({}).parallel_starts == most


@pytest.mark.parametrize("value", [0, -1, 1.0, True, "4"])
def test_a_number_of_starts_that_is_none_is_refused(value: Any) -> None:
    with pytest.raises(UsageError, match="parallel_starts must be an int from 1"):
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
def test_forty_real_servers_become_ready_at_default_settings(tmp_path: Path) -> None:
    """By their own ledger never more than the allowed number are between their start and their answer."""
    ledger = tmp_path / "ledger"
    program = STARTS_SLOWLY.replace("\\\\", "\\")
    target = [sys.executable, "-I", "-S", "-c", program, str(ledger), str(tmp_path / "token")]

    async def work() -> None:
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

    asyncio.run(work())
