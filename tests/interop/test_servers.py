"""Our client against every server: it connects, lists, calls, and reconnects automatically after kill -9."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from interop.known_servers import HTTP_COMMANDS, KNOWN, Known
from interop.peers import PEERS
from interop.processes import freeze, only_child, something_in_stdin_of
from jackstay.client import connect
from jackstay.errors import OutcomeUnknownError

every_server = pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)


def test_every_server_among_the_peers_is_walked() -> None:
    walked = {known.name for known in KNOWN} | set(HTTP_COMMANDS)
    assert walked == {peer.name for peer in PEERS if peer.role in ("server", "both")}


@every_server
async def test_it_connects_lists_what_it_offers_and_answers_many_calls_at_once(known: Known, tmp_path: Path) -> None:
    async with connect(known.target(tmp_path)) as client:
        assert client.protocol_version == known.revision
        assert client.server_info is not None
        assert client.server_info.name == known.server_name
        offered = client.server_capabilities
        assert known.tool in [tool.name for tool in await client.tools.list()]
        if offered.resources is not None:
            await client.resources.list()
            await client.resources.templates()
        if offered.prompts is not None:
            await client.prompts.list()
        calls = [client.tools.call(known.tool, known.arguments(tmp_path)) for _ in range(20)]
        assert all(known.answer in result.text for result in await asyncio.gather(*calls))


@every_server
async def test_after_kill_9_the_lost_call_may_have_run_and_the_next_one_succeeds(known: Known, tmp_path: Path) -> None:
    async with connect(known.target(tmp_path), backoff_min=0.01) as client:
        # Frozen, it surely does not answer; what was written to it is surely lost with it.
        first = only_child()
        freeze(first)
        lost = client.submit("tools/call", {"name": known.tool, "arguments": known.arguments(tmp_path)})
        await something_in_stdin_of(first)
        os.kill(first, signal.SIGKILL)
        with pytest.raises(OutcomeUnknownError) as caught:
            await lost
        assert caught.value.may_have_run
        result = await client.tools.call(known.tool, known.arguments(tmp_path), wait_for_ready=True)
        assert known.answer in result.text
        assert client.protocol_version == known.revision
        # Once more, with a request that is safe to send again: its caller does not notice.
        second = only_child()
        freeze(second)
        listing = asyncio.ensure_future(client.tools.list(replay="safe"))
        await something_in_stdin_of(second)
        os.kill(second, signal.SIGKILL)
        assert known.tool in [tool.name for tool in await listing]
        assert only_child() not in (first, second)
