"""The blocking fleet."""

import json
import sys
import threading
from pathlib import Path

import pytest

from jackstay.errors import ClosedError, StateError, TransportError, UsageError
from jackstay.sync import Client, Fleet
from peers.in_memory_server import with_tools
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name == "jackstay-sync"] == []


def test_tools_of_all_servers_are_one_list_and_called_by_their_names_in_it() -> None:
    gone = with_tools("gone")
    gone.refusal = TransportError("not found", permanent=True)
    with Fleet({"one": with_tools("one", "t"), "gone": gone}, separator=".") as fleet:
        assert [tool.name for tool in fleet.tools()] == ["one.t"]
        assert dict(fleet.names) == {"one.t": ("one", "t")}
        assert fleet.name_of("one", "t") == "one.t"
        assert fleet.call("one.t", {"n": 1}, timeout=60).text == 'one.t({"n": 1})'
        assert fleet.states == {"one": "ready", "gone": "closed"}
        assert str(fleet.errors["gone"]) == "not found"
        assert repr(fleet) == "<sync.Fleet one ready, gone closed>"
        with pytest.raises(UsageError):
            fleet.call("one.other")


def test_a_fleet_is_a_collection_of_clients_by_name() -> None:
    with Fleet({"one": with_tools("one", "t"), "two": with_tools("two", "t")}) as fleet:
        assert (list(fleet), len(fleet), "one" in fleet, "three" in fleet) == (["one", "two"], 2, True, False)
        assert isinstance(fleet["one"], Client)
        assert fleet["one"].tools.call("t").text == "one.t({})"
        fleet["one"].stop()
        assert fleet["two"].tools.call("t").text == "two.t({})", "the fleet keeps the thread running"


def test_a_fleet_is_opened_once_and_a_failed_one_leaves_nothing() -> None:
    with Fleet({"one": with_tools("one", "t")}) as fleet:
        with pytest.raises(StateError, match="already opened"):
            fleet.open()
        assert fleet.call("one__t").text == "one.t({})"
    gone = with_tools("gone")
    gone.refusal = TransportError("not found", permanent=True)
    fleet = Fleet({"gone": gone}, require_all=True)
    with pytest.raises(TransportError, match="not found"):
        fleet.open()


def test_calls_fail_before_open_and_after_stop() -> None:
    fleet = Fleet({"one": with_tools("one", "t")})
    with pytest.raises(StateError, match="not open"):
        fleet.tools()
    fleet.stop()
    with fleet:
        assert fleet.call("one__t").text == "one.t({})"
    fleet.stop()
    for use in (fleet.tools, lambda: fleet.call("one__t"), lambda: fleet["one"].tools.call("t")):
        with pytest.raises(ClosedError, match="was stopped"):
            use()
    assert dict(fleet.names) == {"one__t": ("one", "t")}


def test_a_fleet_from_a_file_runs_real_processes(tmp_path: Path) -> None:
    path = tmp_path / "mcp.json"
    path.write_text(json.dumps({"mcpServers": {"real": {"command": sys.executable, "args": [str(PEER)]}}}))
    with Fleet.from_config(path) as fleet:
        assert fleet.call("real__greet", {"who": "you"}).text == "hi, you"
        fleet.stop(drain=1)
