"""Our client with every server: it connects, lists, calls, and reconnects automatically after kill -9."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from interop.known_servers import HTTP_COMMANDS, KNOWN, Known
from interop.peers import PEERS
from interop.processes import only_child, stop_process, wait_for_stdin_data
from jackstay.client import connect
from jackstay.errors import OutcomeUnknownError
from jackstay.types import CallToolResult

every_server = pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)


def test_every_server_peer_is_tested() -> None:
    tested = {known.name for known in KNOWN} | set(HTTP_COMMANDS)
    assert tested == {peer.name for peer in PEERS if peer.role in ("server", "both")}


def output_of(result: CallToolResult) -> str:
    """Return the text of a result; `fetch` refuses loopback addresses with an error."""
    return result.error_text or result.text


@every_server
async def test_lists_and_concurrent_calls(known: Known, tmp_path: Path) -> None:
    async with connect(known.target(tmp_path)) as client:
        assert client.protocol_version == known.revision
        assert client.server_info is not None
        assert client.server_info.name == known.server_name
        capabilities = client.server_capabilities
        assert known.tool in [tool.name for tool in await client.tools.list()]
        if capabilities.resources is not None:
            await client.resources.list()
            await client.resources.templates()
        if capabilities.prompts is not None:
            await client.prompts.list()
        calls = [client.tools.call(known.tool, known.arguments(tmp_path), raise_on_error=False) for _ in range(20)]
        assert all(known.answer in output_of(result) for result in await asyncio.gather(*calls))


@every_server
async def test_after_kill_9_the_outcome_is_unknown_and_the_next_call_succeeds(known: Known, tmp_path: Path) -> None:
    # Beside other tests a server of Python may need more than the default timeouts to start.
    async with connect(known.target(tmp_path), backoff_min=0.01, init_timeout=60, request_timeout=120) as client:
        # A stopped server does not respond, and loses the data in its pipe when it is killed.
        first = only_child()
        stop_process(first)
        lost = client.submit("tools/call", {"name": known.tool, "arguments": known.arguments(tmp_path)})
        await wait_for_stdin_data(first)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(OutcomeUnknownError) as caught:
            await lost
        assert caught.value.may_have_run
        result = await client.tools.call(
            known.tool, known.arguments(tmp_path), wait_for_ready=True, raise_on_error=False
        )
        assert known.answer in output_of(result)
        assert client.protocol_version == known.revision
        # The same with a request that is safe to retry: the caller gets its result.
        second = only_child()
        stop_process(second)
        listing = asyncio.ensure_future(client.tools.list(replay="safe"))
        await wait_for_stdin_data(second)
        os.kill(second, signal.SIGKILL)
        assert known.tool in [tool.name for tool in await listing]
        assert only_child() not in (first, second)
