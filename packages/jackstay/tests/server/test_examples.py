"""The example servers, as processes and over memory transports."""

import importlib.util
import json
import signal
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

from chaos.servers_own.conversation import ALL, STATELESS, connected, meta
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


def responses(name: str, *arguments: str, requests: list[dict[str, Any]]) -> dict[Any, Any]:
    path = f"import sys, runpy; sys.path.insert(0, {str(ROOT / 'src')!r}); sys.argv = sys.argv[1:]; "
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            path + "runpy.run_path(sys.argv[0], run_name='__main__')",
            str(EXAMPLES / name),
            *arguments,
        ],
        input="".join(json.dumps(request) + "\n" for request in requests).encode(),
        capture_output=True,
        timeout=240,
        check=True,
    )
    return {response["id"]: response for response in map(json.loads, done.stdout.splitlines())}


def request(id: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": meta()}}


@pytest.mark.parametrize(("arguments", "count"), [((), 1), (("--tools", "100"), 101)])
def test_echo(arguments: tuple[str, ...], count: int) -> None:
    requests = [request(1, "tools/call", name="echo", arguments={"text": "hi"}), request(2, "tools/list")]
    received = responses("echo.py", *arguments, requests=requests)
    assert received[1]["result"]["content"][0]["text"] == "hi"
    tools = received[2]["result"]["tools"]
    assert len(tools) == count
    assert all(len(tool["inputSchema"]["properties"]) == 10 for tool in tools[1:])


def test_echo_calls_a_tool_of_its_catalogue() -> None:
    call = request(1, "tools/call", name="tool_001", arguments={"property_0": "x"})
    assert responses("echo.py", "--tools", "2", requests=[call])[1]["result"]["content"][0]["text"] == "x"


def test_echo_rejects_other_arguments(capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    cases: list[list[str]] = [["--toys"], ["--tools"], ["--tools", "many"], ["--http", "1", "--http", "2"]]
    for arguments in cases:
        with subtests.test(arguments=arguments):
            assert load("echo").main(arguments) == 2
            assert "usage:" in capsys.readouterr().err


def test_echo_over_http() -> None:
    with Serving(sys.executable, str(EXAMPLES / "echo.py"), "--tools", "2", "--http", "0") as process:
        assert process.call("echo", text="hi").text == "hi"
        assert process.call("tool_001", property_0="x").text == "x"
        process.signal(signal.SIGTERM)
        assert process.ended() == 0


def test_weather() -> None:
    call = request(1, "tools/call", name="forecast", arguments={"city": "Lima", "days": 2})
    received = responses("weather.py", requests=[call])
    assert received[1]["result"]["structuredContent"] == {
        "result": [{"day": 1, "celsius": 20}, {"day": 2, "celsius": 19}]
    }


async def test_weather_in_every_revision(subtests: pytest.Subtests) -> None:
    for version in ALL:
        with subtests.test(version=version):
            server = load("weather").server

            async with connected(server, version, {"elicitation": {}}) as peer:
                assert '"celsius":20' in await peer.text("forecast", city="Lima", days=1)
                assert "is not one of" in (await peer.call("forecast", city="Rome"))["content"][0]["text"]
                assert (await peer.call("forecast", city="Lima", days=99))["isError"] is True
                read = await peer.result("resources/read", {"uri": "weather://now/Cairo"})
                assert read["contents"][0]["text"] == "34 degrees in Cairo"
                assert (await peer.error("resources/read", {"uri": "weather://now/Rome"}))["data"]
                assert "Bergen" in str(await peer.result("resources/read", {"uri": "weather://cities"}))
                prompt = await peer.result("prompts/get", {"name": "packing", "arguments": {"city": "Lima"}})
                assert "Lima for 3 days" in prompt["messages"][0]["content"]["text"]
                params = {"ref": {"type": "ref/prompt", "name": "packing"}, "argument": {"name": "city", "value": "b"}}
                assert (await peer.result("completion/complete", params))["completion"]["values"] == ["Bergen"]


@pytest.mark.parametrize(("response", "text"), [
    ({"action": "accept", "content": {"city": "Cairo"}}, "34 degrees"),
    ({"action": "decline"}, "No city, no forecast."),
])  # fmt: skip
async def test_weather_requests_input_in_both_eras(response: dict[str, Any], text: str) -> None:
    server = load("weather").server

    async with connected(server, "2025-11-25", {"elicitation": {}}) as peer:
        id = peer.send_request("tools/call", {"name": "forecast_for_me"})
        request = await peer.server_request()
        peer.send({"jsonrpc": "2.0", "id": request["id"], "result": response})
        assert (await peer.answer(id))["result"]["content"][0]["text"] == text
    async with connected(server, STATELESS, {"elicitation": {}}) as peer:
        first = await peer.result("tools/call", {"name": "forecast_for_me"})
        again = {"inputResponses": {"city": response}, "requestState": first["requestState"]}
        result = await peer.result("tools/call", {"name": "forecast_for_me", **again})
        assert result["content"][0]["text"] == text
