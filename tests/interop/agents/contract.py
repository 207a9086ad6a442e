"""What every adapter must do, as tests; a framework adds how to run its agent with a scripted model."""

import asyncio
import importlib.util
import logging
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from workshop import PNG, REASON, Workshop

from jackstay import Server, connect, stdio

ROOT = Path(__file__).parents[3]
PROGRAM = Path(__file__).with_name("workshop.py")
# Long enough for any machine: a wait that ends here has failed.
GUARD = 120.0
# What the text about a lost call begins with.
UNKNOWN = "It is unknown whether this call ran"
TOOLS = ["add", "fail", "draw", "work", "wait", "crash"]


@dataclass
class Received:
    """What the model received about one call."""

    text: str
    images: list[bytes] = field(default_factory=list)


@dataclass
class Run:
    """One run of an agent."""

    answer: str
    results: list[Received]
    tools: list[str] = field(default_factory=list)
    schemas: dict[str, Any] = field(default_factory=dict)
    structured: list[Any] = field(default_factory=list)
    events: list[tuple[str, Any]] = field(default_factory=list)


def example(name: str) -> ModuleType:
    """Return `examples/agents/NAME.py` as a module."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / "agents" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def program() -> Any:
    """Return the workshop as a program."""
    return stdio(sys.executable, PROGRAM, env={"PYTHONPATH": os.environ["PYTHONPATH"]})


def weather() -> Any:
    """Return the server of the examples."""
    return stdio(sys.executable, ROOT / "examples" / "weather.py", env={"PYTHONPATH": os.environ["PYTHONPATH"]})


def own_command(*tools: str) -> dict[str, Any]:
    """Return the workshop, with these tools or all, as most configurations of other adapters have it."""
    environment = {"PYTHONPATH": os.environ["PYTHONPATH"], "PATH": os.environ["PATH"]}
    return {"command": sys.executable, "args": [str(PROGRAM), *tools], "env": environment}


def check_reverse(name: str, description: str, schema: dict[str, Any], handler: Any) -> None:
    """Serve a tool of a framework, which doubles `number`, and call it."""
    server = Server("reverse")
    server.add_tool(name, description=description, input_schema=schema, handler=handler, validate=False)

    async def scenario() -> str:
        async with connect(server) as client:
            (tool,) = await client.tools.list()
            assert tool.name == "double"
            assert "Double." in tool.description
            assert tool.input_schema["properties"]["number"]["type"] == "integer"
            return (await client.tools.call("double", {"number": 21})).text

    assert asyncio.run(scenario()) == "42"


# One turn of the scripted model: a tool call, or the final answer.
Turn = tuple[str, dict[str, Any]] | str


class Contract:
    """The tests. A subclass has `function`, of `jackstay.agents`, and `run()`.

    `run()` runs the agent with the turns of the model and with what `adapt()` returns.
    """

    function: Any
    toolset: Any = None
    has_images = True
    has_structured = True
    has_events = True
    logs_progress = False  # where the framework has no callback for it
    runs_without_server = False  # where the framework itself catches the error of a toolset

    def adapt(self, source: Any, **options: Any) -> Any:
        """Return `toolset`, or what `function` makes of the source."""
        return self.function(source, **options) if self.toolset is None else self.toolset

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        raise NotImplementedError

    def test_tools_are_listed_and_called(self) -> None:
        workshop = Workshop()
        run = self.run(workshop.server, ("add", {"a": 2, "b": 3}), "The sum is 5.")
        assert run.answer == "The sum is 5."
        assert sorted(run.tools) == sorted(TOOLS)
        assert set(run.schemas["add"]["properties"]) == {"a", "b"}
        (result,) = run.results
        assert '"sum"' in result.text.replace("'", '"')
        assert "5" in result.text
        if self.has_structured:
            assert run.structured == [{"sum": 5}]

    def test_an_error_reaches_the_model_as_text(self) -> None:
        run = self.run(Workshop().server, ("fail", {}), ("add", {"a": "x"}), ("add", {"a": 1, "b": 1}), "Done.")
        failed, invalid, sum_ = (result.text for result in run.results)
        assert REASON in failed
        assert "a" in invalid
        assert "2" in sum_
        assert run.answer == "Done."

    def test_an_image_reaches_the_model(self) -> None:
        run = self.run(Workshop().server, ("draw", {}), "Nice.")
        (result,) = run.results
        if self.has_images:
            assert result.images == [PNG]
        else:
            assert f"[image, image/png, {len(PNG)} bytes, not shown]" in result.text

    def test_progress_and_log_messages_reach_the_callbacks(self, caplog: pytest.LogCaptureFixture) -> None:
        with caplog.at_level(logging.INFO, "jackstay.agents"):
            run = self.run(Workshop().server, ("work", {}), "Done.")
        assert "workshop: low battery" in caplog.messages
        assert "worked" in run.results[0].text
        if self.has_events:
            kinds = dict(run.events)
            assert kinds["progress"]["progress"] == 1
            assert kinds["progress"]["total"] == 2
            assert kinds["log"]["data"] == "low battery"
        if self.logs_progress:
            assert "workshop: work: 1 of 2 half" in caplog.messages

    def test_a_deadline_ends_the_call_and_not_the_run(self) -> None:
        workshop = Workshop()
        run = self.run(workshop.server, ("wait", {}), ("add", {"a": 1, "b": 1}), "Done.", request_timeout=0.2)
        late, sum_ = (result.text for result in run.results)
        assert late.startswith(UNKNOWN) or UNKNOWN in late
        assert "2" in sum_
        assert workshop.cancelled.wait(GUARD)
        assert run.answer == "Done."

    def test_the_agent_finishes_although_the_server_is_killed(self, tmp_path: Path) -> None:
        ledger = tmp_path / "ledger"
        turns = ("crash", {"ledger": str(ledger)}), ("add", {"a": 2, "b": 3}), "Done."
        run = self.run(program(), *turns, backoff_min=0.01)
        lost, sum_ = (result.text for result in run.results)
        assert UNKNOWN in lost
        assert "Do not repeat it" in lost
        assert "5" in sum_
        assert run.answer == "Done."
        assert ledger.read_text() == "ran\n"

    def test_a_source_that_could_not_be_opened_can_be_opened_later(self, tmp_path: Path) -> None:
        server = tmp_path / "server.py"
        self.toolset = self.function(stdio(sys.executable, server, env={"PYTHONPATH": os.environ["PYTHONPATH"]}))
        if self.runs_without_server:
            assert self.run(None, "Done.").tools == []
        else:
            with pytest.raises(Exception, match=r"server\.py"):
                self.run(None, "Done.")
        server.write_text(f"import runpy; runpy.run_path({str(PROGRAM)!r}, run_name='__main__')", encoding="utf-8")
        run = self.run(None, ("add", {"a": 2, "b": 3}), "Done.")
        assert "5" in run.results[0].text
        assert run.answer == "Done."

    def test_a_server_that_does_not_start(self) -> None:
        source = stdio(sys.executable, "-c", "raise SystemExit('no such database')")
        if self.runs_without_server:
            run = self.run(source, "Done.")
            assert (run.answer, run.tools) == ("Done.", [])
        else:
            with pytest.raises(Exception, match="no such database"):
                self.run(source, "Done.")


class AsyncContract(Contract):
    """The tests of frameworks that run on an event loop: a subclass has `arun()`."""

    def run(self, source: Any, *turns: Turn, **options: Any) -> Run:
        return asyncio.run(self.arun(source, *turns, **options))

    async def arun(self, source: Any, *turns: Turn, **options: Any) -> Run:
        raise NotImplementedError

    def test_cancelling_the_run_cancels_the_call(self) -> None:
        workshop = Workshop()

        async def scenario() -> None:
            run = asyncio.create_task(self.arun(workshop.server, ("wait", {}), "Never."))
            started = asyncio.create_task(asyncio.to_thread(workshop.started.wait, GUARD))
            await asyncio.wait({run, started}, return_when=asyncio.FIRST_COMPLETED)
            workshop.started.set()
            assert not run.done(), run.result()
            run.cancel()
            with pytest.raises(asyncio.CancelledError):
                await run
            assert await asyncio.to_thread(workshop.cancelled.wait, GUARD)

        asyncio.run(scenario())

    def test_an_open_client_is_used_and_stays_open(self) -> None:
        async def scenario() -> Run:
            async with connect(Workshop().server) as client:
                run = await self.arun(client, ("add", {"a": 2, "b": 3}), "Done.")
                assert client.state == "ready"
                return run

        assert "5" in asyncio.run(scenario()).results[0].text
