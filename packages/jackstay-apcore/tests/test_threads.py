"""Threads for modules: enough of them, with what a call carries, and only where nobody has others."""

import asyncio
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Context, Executor, Registry

from apcore_mcp.server import ExecutionRouter
from apcore_mcp.threads import ModuleThreads, provide
from apcore_mcp.tracing import TraceFilter


def test_modules_that_hang_do_not_stop_the_others(registry: Registry, kinds: SimpleNamespace) -> None:
    """Faults stay where they are: more calls hang, given up by their callers, than asyncio would have threads for."""
    ends = threading.Event()
    begun = threading.Semaphore(0)

    def hang(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        begun.release()
        ends.wait(60)
        return {}

    registry.register("x.hang", kinds.Plain(hang))
    router = ExecutionRouter(Executor(registry), owns_loop=True)
    count = min(32, (os.cpu_count() or 1) + 4) + 1

    async def main() -> Any:
        hung = [asyncio.ensure_future(router.handle_call("x.hang", {})) for _ in range(count)]
        for _ in hung:
            assert await asyncio.to_thread(begun.acquire, timeout=30)
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        try:
            return (await router.handle_call("math.add", {"a": 1})).structured_content
        finally:
            ends.set()

    assert asyncio.run(main()) == {"total": 3}


def test_the_trace_id_is_in_every_line_that_a_module_logs(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """The id is in every log line of that call: also of those that a module writes in a thread."""
    seen: list[str] = []

    def speak(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        seen.append(context.trace_id)
        logging.getLogger("of.the.author").warning("working")
        return {}

    registry.register("x.speak", kinds.Plain(speak))
    caplog.handler.addFilter(TraceFilter())
    asyncio.run(ExecutionRouter(Executor(registry)).handle_call("x.speak", {}))
    assert [record.getMessage() for record in caplog.records if record.name == "of.the.author"] == [
        f"working [trace_id={seen[0]}]"
    ]


def test_a_stop_iteration_is_told_and_not_waited_for(registry: Registry, kinds: SimpleNamespace) -> None:
    """Up to Python 3.11 a future cannot carry one, and whoever awaits it waits for ever."""
    registry.register("x.next", kinds.Plain(lambda inputs, context: next(iter(()))))
    router = ExecutionRouter(Executor(registry))
    assert asyncio.run(router.handle_call("x.next", {})).text == "Internal error occurred"


def test_a_loop_of_somebody_else_keeps_the_threads_it_has() -> None:
    """Not on uvloop, which does not show its executor: `provide()` documents that."""

    async def main() -> tuple[str, str]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="theirs") as theirs:
            loop.set_default_executor(theirs)
            provide(loop, is_ours=False)
            first = await asyncio.to_thread(lambda: threading.current_thread().name)
            provide(loop, is_ours=True)
            second = await asyncio.to_thread(lambda: threading.current_thread().name)
        return first, second

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        first, second = runner.run(main())
    assert first.startswith("theirs")
    assert second.startswith("apcore-mcp-module")


def test_what_a_function_returns_and_raises_is_its_callers() -> None:
    with ModuleThreads() as threads:
        assert threads.submit(divmod, 7, 2).result(10) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 7, 0).result(10)
