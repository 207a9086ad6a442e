"""The thread pool for modules."""

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
from apcore_mcp.threads import ModuleThreads, install_thread_pool
from apcore_mcp.tracing import TraceFilter


async def test_hanging_modules_do_not_block_others(registry: Registry, kinds: SimpleNamespace) -> None:
    """More modules hang than the default executor of asyncio has threads."""
    finish = threading.Event()
    started = threading.Semaphore(0)

    def hang(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        started.release()
        finish.wait(60)
        return {}

    registry.register("x.hang", kinds.Plain(hang))
    router = ExecutionRouter(Executor(registry), owns_loop=True)
    count = min(32, (os.cpu_count() or 1) + 4) + 1

    async def main() -> Any:
        hung = [asyncio.ensure_future(router.handle_call("x.hang", {})) for _ in range(count)]
        for _ in hung:
            assert await asyncio.to_thread(started.acquire, timeout=240)
        for task in hung:
            task.cancel()
        await asyncio.gather(*hung, return_exceptions=True)
        try:
            return (await router.handle_call("math.add", {"a": 1})).structured_content
        finally:
            finish.set()

    assert await main() == {"total": 3}


async def test_trace_id_in_log_lines_of_modules(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """The module runs in a thread."""
    seen: list[str] = []

    def work(inputs: dict[str, Any], context: Context) -> dict[str, Any]:
        seen.append(context.trace_id)
        logging.getLogger("a.module").warning("working")
        return {}

    registry.register("x.work", kinds.Plain(work))
    caplog.handler.addFilter(TraceFilter())
    await ExecutionRouter(Executor(registry)).handle_call("x.work", {})
    assert [record.getMessage() for record in caplog.records if record.name == "a.module"] == [
        f"working [trace_id={seen[0]}]"
    ]


async def test_stop_iteration_is_an_error(registry: Registry, kinds: SimpleNamespace) -> None:
    """On Python 3.11, a future with StopIteration would never finish."""
    registry.register("x.next", kinds.Plain(lambda inputs, context: next(iter(()))))
    router = ExecutionRouter(Executor(registry))
    assert (await router.handle_call("x.next", {})).error_text == "Internal error occurred"


def test_executor_of_another_loop_is_kept() -> None:
    """Not on uvloop, which has no API for it; see `install_thread_pool()`."""

    async def main() -> tuple[str, str]:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1, thread_name_prefix="existing") as existing:
            loop.set_default_executor(existing)
            install_thread_pool(loop, owns_loop=False)
            first = await asyncio.to_thread(lambda: threading.current_thread().name)
            install_thread_pool(loop, owns_loop=True)
            second = await asyncio.to_thread(lambda: threading.current_thread().name)
        return first, second

    with asyncio.Runner(loop_factory=asyncio.SelectorEventLoop) as runner:
        first, second = runner.run(main())
    assert first.startswith("existing")
    assert second.startswith("apcore-mcp-module")


def test_submit_returns_and_raises() -> None:
    with ModuleThreads() as threads:
        assert threads.submit(divmod, 7, 2).result(120) == (3, 1)
        with pytest.raises(ZeroDivisionError):
            threads.submit(divmod, 7, 0).result(120)
