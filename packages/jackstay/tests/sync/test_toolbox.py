"""The blocking toolbox."""

from typing import Any

import pytest

from jackstay.client import connect as connect_async
from jackstay.errors import ClosedError, UsageError
from jackstay.models import ModelCall
from jackstay.sync import Fleet, Toolbox, connect
from peers.in_memory_server import with_tools


def call(name: str) -> Any:
    return {"type": "tool_use", "id": "1", "name": name, "input": {"n": 1}}


def test_a_client_is_a_toolbox() -> None:
    with connect(with_tools("one", "t")) as client:
        toolbox = Toolbox(client, "anthropic")
        assert [tool["name"] for tool in toolbox.definitions()] == ["t"]
        assert toolbox.names == {"t": "t"}
        assert repr(toolbox) == "<sync.Toolbox anthropic, 1 tools, of <Client one ready>>"
        outcome = toolbox.run(toolbox.calls([call("t")])[0])
        assert outcome.text == 'one.t({"n": 1})'
        assert toolbox.messages([outcome]) == toolbox.answer([call("t")])
    with pytest.raises(ClosedError):
        toolbox.run(ModelCall("1", "t", {}))


def test_a_fleet_is_one_toolbox() -> None:
    with Fleet({"one": with_tools("one", "t"), "two": with_tools("two", "t")}) as fleet:
        toolbox = Toolbox(fleet, "anthropic", only=lambda tool: tool.name.startswith("two"))
        assert [tool["name"] for tool in toolbox.definitions(timeout=60)] == ["two__t"]
        assert "two.t" in str(toolbox.answer([call("two__t")]))


def test_an_async_client_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"of jackstay\.sync, got jackstay\.client\._client\.Client; .*jackstay\.models"
    ):
        Toolbox(connect_async(with_tools("one")), "openai")  # type: ignore[arg-type]  # the mistake that is tested
