"""The examples that serve are run, and asked."""

import importlib.util
import json
import signal
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, STATELESS, meta, run, talking
from peers.http_process import Serving
from scripted.places import ROOT

EXAMPLES = ROOT / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def answers(name: str, *words: str, requests: list[dict[str, Any]]) -> dict[Any, Any]:
    path = f"import sys, runpy; sys.path.insert(0, {str(ROOT / 'src')!r}); sys.argv = sys.argv[1:]; "
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            path + "runpy.run_path(sys.argv[0], run_name='__main__')",
            str(EXAMPLES / name),
            *words,
        ],
        input="".join(json.dumps(request) + "\n" for request in requests).encode(),
        capture_output=True,
        timeout=50,
        check=True,
    )
    return {answer["id"]: answer for answer in map(json.loads, done.stdout.splitlines())}


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta()}}


@pytest.mark.parametrize(("words", "count"), [((), 1), (("--tools", "100"), 101)])
def test_echo_is_run(words: tuple[str, ...], count: int) -> None:
    asked = [request(1, "tools/call", name="echo", arguments={"text": "hi"}), request(2, "tools/list")]
    said = answers("echo.py", *words, requests=asked)
    assert said[1]["result"]["content"][0]["text"] == "hi"
    tools = said[2]["result"]["tools"]
    assert len(tools) == count
    assert all(len(tool["inputSchema"]["properties"]) == 10 for tool in tools[1:])


def test_echo_calls_a_tool_of_its_catalogue() -> None:
    call = request(1, "tools/call", name="tool_001", arguments={"property_0": "x"})
    assert answers("echo.py", "--tools", "2", requests=[call])[1]["result"]["content"][0]["text"] == "x"


@pytest.mark.parametrize(
    "words", [["--toys"], ["--tools"], ["--tools", "many"], ["--http", "1", "--http", "2"]]
)
def test_echo_refuses_other_words(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert load("echo").main(words) == 2
    assert "usage:" in capsys.readouterr().err


def test_echo_is_served_over_http() -> None:
    with Serving(sys.executable, str(EXAMPLES / "echo.py"), "--tools", "2", "--http", "0") as process:
        assert process.call("echo", text="hi").text == "hi"
        assert process.call("tool_001", property_0="x").text == "x"
        process.signal(signal.SIGTERM)
        assert process.ended() == 0


def test_weather_is_run() -> None:
    call = request(1, "tools/call", name="forecast", arguments={"city": "Lima", "days": 2})
    said = answers("weather.py", requests=[call])
    assert said[1]["result"]["structuredContent"] == {
        "result": [{"day": 1, "celsius": 20}, {"day": 2, "celsius": 19}]
    }


@pytest.mark.parametrize("version", ALL)
def test_weather_in_every_revision(version: str) -> None:
    server = load("weather").server

    async def test() -> None:
        async with talking(server, version, {"elicitation": {}}) as peer:
            assert '"celsius":20' in await peer.text("forecast", city="Lima", days=1)
            assert "is not one of" in (await peer.call("forecast", city="Rome"))["content"][0]["text"]
            assert (await peer.call("forecast", city="Lima", days=99))["isError"] is True
            read = await peer.result("resources/read", {"uri": "weather://now/Cairo"})
            assert read["contents"][0]["text"] == "34 degrees in Cairo"
            assert (await peer.error("resources/read", {"uri": "weather://now/Rome"}))["data"]
            assert "Bergen" in str(await peer.result("resources/read", {"uri": "weather://cities"}))
            prompt = await peer.result("prompts/get", {"name": "packing", "arguments": {"city": "Lima"}})
            assert "Lima for 3 days" in prompt["messages"][0]["content"]["text"]
            asked = {
                "ref": {"type": "ref/prompt", "name": "packing"},
                "argument": {"name": "city", "value": "b"},
            }
            assert (await peer.result("completion/complete", asked))["completion"]["values"] == ["Bergen"]

    run(test)


@pytest.mark.parametrize(("answer", "text"), [
    ({"action": "accept", "content": {"city": "Cairo"}}, "34 degrees"),
    ({"action": "decline"}, "Then I cannot tell."),
])  # fmt: skip
def test_weather_asks_in_both_eras(answer: dict[str, Any], text: str) -> None:
    server = load("weather").server

    async def test() -> None:
        async with talking(server, "2025-11-25", {"elicitation": {}}) as peer:
            id = peer.ask("tools/call", {"name": "forecast_for_me"})
            question = await peer.question()
            peer.say({"jsonrpc": "2.0", "id": question["id"], "result": answer})
            assert (await peer.answer(id))["result"]["content"][0]["text"] == text
        async with talking(server, STATELESS, {"elicitation": {}}) as peer:
            asked = await peer.result("tools/call", {"name": "forecast_for_me"})
            again = {"inputResponses": {"city": answer}, "requestState": asked["requestState"]}
            result = await peer.result("tools/call", {"name": "forecast_for_me", **again})
            assert result["content"][0]["text"] == text

    run(test)
