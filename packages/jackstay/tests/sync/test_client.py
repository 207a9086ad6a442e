"""The blocking client: from any thread, under a running loop, interrupted, forked, and left open."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import jackstay
from jackstay import sync
from jackstay.client import Notification
from jackstay.client._subscriptions import Subscriptions
from jackstay.errors import ClosedError, ShutdownError, StateError, TimeoutError, TransportError, UsageError
from jackstay.sync import Client, connect, stdio
from jackstay.sync._portal import portal
from peers.in_memory_server import InMemoryServer, with_tools
from scripted.places import PYTHONPATH, TESTS

SOURCE = PYTHONPATH
PEER = TESTS / "peers" / "stdio_server.py"


def threads() -> list[str]:
    # The idle threads of a server's pool belong to another test.
    names = [thread.name for thread in threading.enumerate()]
    return [name for name in names if name.startswith("jackstay") and name != "jackstay-pool"]


@pytest.fixture(autouse=True)
def _nothing_is_left() -> object:
    yield
    assert threads() == []


def hanging() -> InMemoryServer:
    def answer(method: str, params: dict[str, Any]) -> Any:
        return {"tools": []} if method == "tools/list" else None

    return InMemoryServer("hanging", answer)


# --- opening and closing ----------------------------------------------------------------------------------------------


def test_a_real_server_is_opened_called_and_closed() -> None:
    with connect(stdio(sys.executable, PEER)) as client:
        assert client.state == "ready"
        assert repr(client) == f"<sync.Client {client.settings.name} ready>"
        assert threads() == ["jackstay-sync"]
        assert client.tools.call("greet", {"who": "you"}).text == "hi, you"
    assert client.state == "closed"


def test_server_information_is_available() -> None:
    with connect(with_tools("one", "t")) as client:
        assert client.server_info is not None
        assert client.server_info.name == "one"
        assert client.server_capabilities.tools is not None
        assert client.protocol_version == "2025-11-25"
        assert client.instructions == "Be kind."
        assert client.is_server_stale is False


def test_all_clients_share_one_thread_which_ends_with_the_last() -> None:
    one, two = connect(with_tools("one", "t")), connect(with_tools("two", "t"))
    one.open()
    two.open(wait=False)
    two.ready(timeout=60)
    assert threads() == ["jackstay-sync"]
    one.stop()
    assert threads() == ["jackstay-sync"]
    assert two.tools.call("t").text == "two.t({})"
    two.stop(drain=1)
    assert threads() == []


def test_a_client_that_cannot_be_opened_leaves_nothing() -> None:
    target = with_tools("gone")
    target.refusal = TransportError("not found", permanent=True)
    client = connect(target)
    with pytest.raises(TransportError, match="not found"):
        client.open()
    assert threads() == []
    with pytest.raises(ClosedError, match="not found"):
        client.tools.call("t")


def test_a_second_open_is_refused_and_changes_nothing() -> None:
    with connect(with_tools("one", "t")) as client:
        with pytest.raises(StateError, match="already opened"):
            client.open()
        assert client.tools.call("t").text == "one.t({})"


def test_calls_fail_before_open_and_after_stop_as_in_the_async_client() -> None:
    client = connect(with_tools("one", "t"))
    assert client.state == "new"
    with pytest.raises(StateError, match="not open"):
        client.tools.call("t")
    with pytest.raises(StateError, match="not open"):
        client.ready(1)
    client.stop()
    with client:
        pass
    client.stop()
    for use in (lambda: client.tools.call("t"), client.ready, lambda: client.submit("ping"), client.ping):
        with pytest.raises(ClosedError, match="the client was stopped") as raised:
            use()
        assert raised.value.may_have_run is False
    assert client.protocol_version == "2025-11-25", "server information stays available"
    assert client.state == "closed"
    with pytest.raises(StateError, match="already opened"):
        client.open()


class Span:
    """A span with trace context for `_meta`."""

    meta = {"traceparent": "00-1"}  # noqa: RUF012 (never changed)

    def end(self, request_id: int, error: BaseException | None) -> None: ...


def test_tracing_can_be_enabled_and_disabled() -> None:
    target = with_tools("one", "t")
    with connect(target) as client:
        client.trace_with(lambda method, name: Span())
        client.tools.call("t")
        client.trace_with(None)
        client.tools.call("t")
    traced, untraced = (sent for sent in target.received if sent.get("method") == "tools/call")
    assert traced["params"]["_meta"]["traceparent"] == "00-1"
    assert "traceparent" not in untraced["params"].get("_meta", {})


def test_a_bad_option_is_refused() -> None:
    with pytest.raises(UsageError, match="nonsense"):
        connect(with_tools("one"), nonsense=1)


def test_it_works_under_a_running_loop() -> None:
    async def main() -> str:
        with connect(with_tools("one", "t")) as client:
            return client.tools.call("t").text

    assert asyncio.run(main()) == "one.t({})"


def test_many_threads_share_a_client() -> None:
    texts: set[str] = set()
    with connect(with_tools("one", "t")) as client:

        def work(number: int) -> None:
            for turn in range(20):
                texts.add(client.tools.call("t", {"n": number * 100 + turn}).text)

        workers = [threading.Thread(target=work, args=(number,)) for number in range(8)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert texts == {f'one.t({{"n": {number * 100 + turn}}})' for number in range(8) for turn in range(20)}


def test_stopping_from_one_thread_ends_the_call_of_another() -> None:
    target = hanging()
    errors: list[BaseException] = []
    with connect(target) as client:

        def work() -> None:
            try:
                client.tools.call("t")
            except ShutdownError as error:
                errors.append(error)

        worker = threading.Thread(target=work)
        worker.start()
        target.wait_for("tools/call")
    worker.join(120)
    assert len(errors) == 1


# --- calls in flight --------------------------------------------------------------------------------------------------


def test_a_submitted_call_is_waited_for_later() -> None:
    with connect(with_tools("one", "t")) as client:
        call = client.submit("tools/call", {"name": "t", "arguments": {}}, timeout=60)
        assert call.method == "tools/call"
        assert call.id > 0
        assert call.result()["content"] == [{"type": "text", "text": "one.t({})"}]
        assert call.result() == call.result()
        assert call.cancel() is False
        assert repr(call) == f"<Call {call.id} tools/call done>"


def test_a_cancelled_submitted_call_notifies_the_server() -> None:
    target = hanging()
    with connect(target) as client:
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        target.wait_for("tools/call")
        assert call.cancel() is True
        assert target.wait_for("notifications/cancelled")["params"]["requestId"] == call.id
        with pytest.raises(ShutdownError, match="cancelled") as raised:
            call.result()
        assert raised.value.may_have_run is True
        assert (raised.value.method, raised.value.request_id) == ("tools/call", call.id)


def test_a_submitted_call_cancelled_before_it_was_written_did_not_run() -> None:
    target = hanging()
    with connect(target) as client:
        client._portal.run_on_loop(target.pair.client.stall)
        call = client.submit("tools/call", {"name": "t", "arguments": {}})
        assert call.cancel() is True
        with pytest.raises(ShutdownError, match="cancelled") as raised:
            call.result()
        assert raised.value.may_have_run is False
        client._portal.run_on_loop(target.pair.client.resume)
        assert client.tools.list() == []
    assert target.methods() == ["tools/list"]


def test_a_call_whose_task_is_cancelled_on_the_loop_may_have_run() -> None:
    """A handler may cancel any task of the loop."""
    target = hanging()
    with connect(target) as client:

        async def call() -> None:
            asyncio.get_running_loop().call_soon(_current_task().cancel)
            await client._async.tools.call("t")

        with pytest.raises(ShutdownError) as raised:
            client._portal.wait(call)
        assert raised.value.may_have_run is True


def _current_task() -> "asyncio.Task[Any]":
    task = asyncio.current_task()
    assert task is not None
    return task


def test_a_timeout_is_a_jackstay_timeout_error() -> None:
    with connect(hanging()) as client, pytest.raises(TimeoutError) as raised:
        client.tools.call("t", timeout=0.05)
    assert raised.value.sent is True


def test_ctrl_c_while_waiting_cancels_the_call_on_the_wire() -> None:
    target = hanging()

    interrupted = threading.Event()

    def interrupt() -> None:
        target.wait_for("tools/call")
        os.kill(os.getpid(), signal.SIGINT)
        while not interrupted.wait(2):  # CPython can miss a signal that arrives right before a blocking wait
            os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    worker = threading.Thread(target=interrupt)
    worker.start()
    try:
        with connect(target) as client:
            with pytest.raises(KeyboardInterrupt):
                client.tools.call("t")
            interrupted.set()
            call, cancelled = target.wait_for("tools/call"), target.wait_for("notifications/cancelled")
            assert cancelled["params"]["requestId"] == call["id"]
            assert client.state == "ready", "the client stays usable"
    finally:
        interrupted.set()
        signal.signal(signal.SIGINT, before)
        worker.join()


# --- handlers ---------------------------------------------------------------------------------------------------------


def test_handlers_run_on_the_event_loop_thread_and_must_not_block() -> None:
    target = with_tools("one", "t")
    seen: list[object] = []
    handled = threading.Event()
    client = connect(target)

    @client.on_notification
    def handler(notification: Notification) -> None:
        seen.append(notification.method)
        seen.append(threading.current_thread().name)
        seen.append(client.state)
        seen.append(client.protocol_version)  # properties do not block
        try:
            client.tools.call("t")
        except StateError as error:
            seen.append(str(error))
        handled.set()

    with client:
        portal().run_on_loop(target.send, {"method": "notifications/tools/list_changed"})
        assert handled.wait(120)
    assert seen[:4] == ["notifications/tools/list_changed", "jackstay-sync", "ready", "2025-11-25"]
    assert "inside a handler would deadlock" in str(seen[4])
    assert "tools/call" not in target.methods()


def test_a_handler_registered_late_subscribes_on_the_event_loop_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Subscribing to list changes sends a request, which only the event loop thread may do."""
    where: list[str] = []
    monkeypatch.setattr(Subscriptions, "subscribe_to_lists", lambda _: where.append(threading.current_thread().name))
    with connect(with_tools("one", "t")) as client:
        client.on_notification(print)
    assert where == ["jackstay-sync"]


def test_progress_and_events_reach_their_handlers() -> None:
    def answer(method: str, params: dict[str, Any]) -> Any:
        if method == "ping":
            return {}
        report = {"progressToken": params["_meta"]["progressToken"], "progress": 1}
        target.send({"method": "notifications/progress", "params": report})
        return {"content": []}

    target = InMemoryServer("one", answer)
    own: list[float] = []
    all_progress: list[float] = []
    events: list[str] = []
    client = connect(target)
    client.on_progress(lambda progress: all_progress.append(progress.progress))
    unsubscribe = client.on_event(lambda name, fields: events.append(name))
    with client:
        client.tools.call("t", on_progress=lambda progress: own.append(progress.progress))
        unsubscribe()
        count = len(events)
        client.ping()
    assert (own, all_progress) == ([1], [1])
    assert "jackstay.request.start" in events
    assert len(events) == count


# --- fork and exit ----------------------------------------------------------------------------------------------------


def run_fresh(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=240,
        check=False,
    )


def test_after_a_fork_a_client_is_refused_and_a_new_one_works() -> None:
    done = run_fresh(
        "import os, sys, warnings\n"
        "warnings.simplefilter('ignore', DeprecationWarning)\n"
        "from jackstay.sync import connect, stdio\n"
        "from jackstay.errors import StateError\n"
        f"target = lambda: stdio(sys.executable, {str(PEER)!r})\n"
        "with connect(target()) as client:\n"
        "    child = os.fork()\n"
        "    if child == 0:\n"
        "        for use in (lambda: client.tools.list(), client.stop, lambda: client.server_info):\n"
        "            try:\n"
        "                use()\n"
        "            except StateError as error:\n"
        "                print(error.state)\n"
        "        with connect(target()) as new:\n"
        "            print(new.tools.call('greet', {'who': 'child'}).text, flush=True)\n"
        "        os._exit(5)\n"
        "    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
        "    print(client.tools.call('greet', {'who': 'parent'}).text)\n"
    )
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["forked", "forked", "forked", "hi, child", "5", "hi, parent"]


def test_a_client_left_open_is_stopped_when_the_interpreter_exits() -> None:
    done = run_fresh(
        "import sys, subprocess\n"
        "from jackstay.sync import connect, stdio\n"
        f"client = connect(stdio(sys.executable, {str(PEER)!r}))\n"
        "client.open()\n"
        "print(client.tools.call('environment', {'pid': True}).text)\n"
    )
    assert (done.stderr, done.returncode) == ("", 0)
    pid = int(done.stdout)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_ctrl_c_in_a_script_ends_it_with_the_call_cancelled(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    os.mkfifo(ledger)
    code = (
        "import signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from jackstay.sync import connect, stdio\n"
        f"with connect(stdio(sys.executable, {str(PEER)!r}, '--ledger={ledger}')) as client:\n"
        "    client.tools.call('hang')\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
    )
    with process, open(ledger) as lines:
        call = next(message for message in map(json.loads, lines) if message.get("method") == "tools/call")
        process.send_signal(signal.SIGINT)
        rest = [json.loads(line) for line in lines]
        _, stderr = process.communicate(timeout=240)
    # Only calls and cancellations are judged: a call that is cancelled after `hang_timeout` also causes a health check.
    judged = [message for message in rest if message["method"] in ("tools/call", "notifications/cancelled")]
    assert [message["params"].get("requestId") for message in judged] == [call["id"]], rest
    assert stderr.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT


def test_connect_returns_a_blocking_client() -> None:
    assert isinstance(connect(with_tools("one")), Client)


def test_http_targets_are_exported() -> None:
    """`http` is imported on first use."""
    assert sync.http is jackstay.http
    assert not hasattr(sync, "https")
