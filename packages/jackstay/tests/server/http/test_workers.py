"""Several workers on one port: the supervisor in this process, and whole process trees."""

import http.client
import itertools
import json
import os
import signal
import socket
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.server.http import _workers
from jackstay.server.http._sockets import bind_sockets
from jackstay.server.http._workers import (
    MAX_DELAY,
    VARIABLE,
    Supervisor,
    Worker,
    WorkerSlot,
    delays,
    own_command,
)
from peers.http_process import GUARD, META, Serving

# A minimal worker: it records its configuration, reports that it is ready, and behaves as its argument requests.
WORKER = """
import os, signal, socket, sys, time
control, *listening = (socket.socket(fileno=int(n)) for n in os.environ["JACKSTAY_WORKER"].split(","))
config = control.makefile("rb").readline()
with open(sys.argv[2], "ab") as file:
    file.write(b"%d %d %s" % (os.getpid(), len(listening), config))
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "drains":
    signal.signal(signal.SIGTERM, lambda *_: [sock.close() for sock in listening])
if sys.argv[1] != "unready":
    control.send(b"r")
if sys.argv[1] in ("unready", "dies"):
    sys.exit(3)
time.sleep(60)
"""


class ProcessTree:
    """A supervisor in this process, and what its workers recorded."""

    def __init__(self, tmp_path: Path, behaviour: str, count: int = 2, end_timeout: float = 5.0) -> None:
        self.file = tmp_path / "started"
        self.sockets = bind_sockets("127.0.0.1", 0)
        self.ready = threading.Event()
        self.exits: list[int] = []
        self.supervisor = Supervisor(
            [sys.executable, "-c", WORKER, behaviour, str(self.file)],
            self.sockets,
            count,
            request_state_secrets=(b"k" * 32,),
            end_timeout=end_timeout,
            on_ready=self.ready.set,
            exit_process=self.exits.append,
        )

    def started(self) -> list[list[str]]:
        return [line.split(" ", 2) for line in self.file.read_text().splitlines()] if self.file.exists() else []

    def run(self, work: Any = None) -> int:
        """Run the supervisor here and `work` on another thread, which ends it with a signal."""
        thread = threading.Thread(target=work) if work is not None else None
        if thread is not None:
            thread.start()
        try:
            return self.supervisor.run()
        finally:
            for sock in self.sockets:
                sock.close()
            if thread is not None:
                thread.join(GUARD)


def wait_until(condition: Any) -> None:
    deadline = time.monotonic() + GUARD
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _short_delays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "FIRST_DELAY", 0.01)


# --- the supervisor ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_workers_get_their_configuration_and_end_with_the_supervisor(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    tree = ProcessTree(tmp_path, "serve")
    before = signal.getsignal(number)

    def work() -> None:
        assert tree.ready.wait(GUARD)
        os.kill(os.getpid(), number)

    assert tree.run(work) == code
    assert len(tree.started()) == 2
    for pid, listening, config in tree.started():
        assert listening == "1"
        assert json.loads(config) == ["a2tr" * 10 + "a2s="]
        assert not Path(f"/proc/{pid}").exists()
    assert signal.getsignal(number) is before


def test_sighup_stays_ignored_under_nohup(tmp_path: Path) -> None:
    tree = ProcessTree(tmp_path, "serve")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def work() -> None:
        assert tree.ready.wait(GUARD)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGINT)

    try:
        assert tree.run(work) == 130
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_killed_worker_is_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = ProcessTree(tmp_path, "serve")

    def work() -> None:
        assert tree.ready.wait(GUARD)
        os.kill(int(tree.started()[0][0]), signal.SIGKILL)
        wait_until(lambda: len(tree.started()) == 3)
        os.kill(os.getpid(), signal.SIGTERM)

    assert tree.run(work) == 0
    assert "exited with code -9; restarting it" in caplog.text


def test_the_restart_delay_of_a_crashing_worker_grows(tmp_path: Path) -> None:
    tree = ProcessTree(tmp_path, "dies", count=1)
    times: list[float] = []

    def work() -> None:
        for count in range(1, 6):
            wait_until(lambda count=count: len(tree.started()) >= count)
            times.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    assert tree.run(work) == 0
    assert times[-1] - times[0] >= sum(0.01 * 2**n for n in range(4))


def test_workers_that_never_served_are_not_restarted(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tree = ProcessTree(tmp_path, "unready")
    assert tree.run() == 3
    assert len(tree.started()) <= 2
    assert "exited with code 3 before it served" in caplog.text


def test_a_worker_that_does_not_end_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "KILL_MARGIN", 0.0)
    tree = ProcessTree(tmp_path, "stubborn", end_timeout=0.2)

    def work() -> None:
        assert tree.ready.wait(GUARD)
        os.kill(os.getpid(), signal.SIGTERM)

    assert tree.run(work) == 0
    assert not [pid for pid, *_ in tree.started() if Path(f"/proc/{pid}").exists()]


def test_connections_are_refused_while_the_last_worker_drains(tmp_path: Path) -> None:
    """If the supervisor kept the socket open, new connections would wait in the backlog until the drain ends."""
    tree = ProcessTree(tmp_path, "drains", end_timeout=60)
    address = tree.sockets[0].getsockname()

    refused: list[bool] = []

    def is_refused() -> bool:
        try:
            socket.create_connection(address, GUARD).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass  # reset while the socket was being closed
        return False

    def work() -> None:
        try:
            assert tree.ready.wait(GUARD)
            refused.append(is_refused())
            os.kill(os.getpid(), signal.SIGTERM)
            wait_until(is_refused)
            refused.append(True)
        finally:
            for pid, *_ in tree.started():
                os.kill(int(pid), signal.SIGKILL)

    assert tree.run(work) == 0
    assert refused == [False, True]


def test_a_signal_during_the_start_of_a_worker_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tree = ProcessTree(tmp_path, "serve", end_timeout=60)
    start = WorkerSlot.start

    def interrupted(slot: WorkerSlot, *given: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        start(slot, *given)

    monkeypatch.setattr(WorkerSlot, "start", interrupted)
    assert tree.run() == 0


def test_a_second_signal_kills_all_workers(tmp_path: Path) -> None:
    tree = ProcessTree(tmp_path, "stubborn", end_timeout=60)

    def work() -> None:
        assert tree.ready.wait(GUARD)
        while not tree.exits:  # two pending signals are delivered as one
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)

    assert tree.run(work) == 0
    assert tree.exits[0] == 128 + signal.SIGTERM
    assert not [pid for pid, *_ in tree.started() if Path(f"/proc/{pid}").exists()]


def test_an_exception_in_the_supervisor_leaves_no_process_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = ProcessTree(tmp_path, "serve")

    def fail() -> None:
        raise RuntimeError("on ready")

    tree.supervisor.on_ready = fail
    with pytest.raises(RuntimeError, match="on ready"):
        tree.run()
    wait_until(lambda: all(not alive(int(pid)) for pid, *_ in tree.started()))
    for slot in tree.supervisor._slots:
        assert slot.process is not None
        slot.process.wait(GUARD)
        assert slot.control is not None
        slot.control.close()


def alive(pid: int) -> bool:
    """Return whether a process runs. A zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_closed_its_control_socket_is_killed(tmp_path: Path) -> None:
    slot = _workers.WorkerSlot(1)
    code = "import os, time; os.close(int(os.environ['JACKSTAY_WORKER'].split(',')[0])); time.sleep(60)"
    slot.start([sys.executable, "-c", code], [], b"config\n")
    assert slot.control is not None
    wait_until(lambda: _is_closed(slot.control))
    assert slot.ended(0.05) == -signal.SIGKILL
    assert repr(slot) == "<WorkerSlot 1 empty>"


def _is_closed(sock: socket.socket | None) -> bool:
    assert sock is not None
    sock.settimeout(0.05)
    try:
        return sock.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_repr_of_a_supervisor_shows_no_secret() -> None:
    supervisor = Supervisor([], [], 2, request_state_secrets=(b"s3cr3t" * 6,), end_timeout=5.0, on_ready=print)
    assert repr(supervisor) == "<Supervisor of 2 workers>"
    supervisor._selector.close()


def test_repr_of_a_slot() -> None:
    slot = _workers.WorkerSlot(1)
    slot.start([sys.executable, "-c", ""], [], b"\n")
    assert slot.process is not None
    assert repr(slot) == f"<WorkerSlot 1 process {slot.process.pid}>"
    slot.is_ready = True
    assert repr(slot).endswith(" ready>")
    assert slot.ended(GUARD) == 0


def test_a_worker_that_ran_long_resets_the_delay(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = _workers.WorkerSlot(1)
    for _ in range(5):
        next(slot.delays)
    slot.start([sys.executable, "-c", ""], [], b"\n")
    slot.started_at -= _workers.HEALTHY_AFTER
    slot.ended(GUARD)
    assert slot.start_at <= time.monotonic() + _workers.FIRST_DELAY


def test_a_worker_that_exits_before_it_is_configured_is_no_error() -> None:
    slot = _workers.WorkerSlot(1)
    code = "import os; os.close(int(os.environ['JACKSTAY_WORKER'].split(',')[0]))"
    slot.start([sys.executable, "-c", code], [], b"x" * 10_000_000)  # more than the socket buffers
    assert slot.ended(GUARD) == 0


def test_delays_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "FIRST_DELAY", 0.1)
    found = list(itertools.islice(delays(), 12))
    assert found[:4] == [0.1, 0.2, 0.4, 0.8]
    assert found[-1] == MAX_DELAY


# --- the command ------------------------------------------------------------------------------------------------------


def test_own_command_is_the_command_line_of_this_program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-W", "error", "program.py", "--port", "0"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    assert own_command() == [sys.executable, "-W", "error", "program.py", "--port", "0"]
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "..."])
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert own_command() == [sys.executable, "-c", "..."]


@pytest.mark.parametrize("file", [None, "<stdin>"])
def test_a_program_that_cannot_be_started_again_is_refused(file: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    with pytest.raises(UsageError, match="put it in a file, or use `jackstay serve FILE") as caught:
        own_command()
    assert caught.value.path == "workers"


def test_a_prompt_cannot_be_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(UsageError, match="prompt"):
        own_command()


# --- in the worker ----------------------------------------------------------------------------------------------------


def make_worker(config: bytes, *, is_closed: bool = False) -> tuple[socket.socket, Worker | None]:
    """Return the supervisor's control socket, and the worker that gets this configuration."""
    supervisor_control, control = socket.socketpair()
    (listening,) = bind_sockets("127.0.0.1", 0)
    supervisor_control.sendall(config)
    if is_closed:
        supervisor_control.close()
    try:
        os.environ[VARIABLE] = f"{os.dup(control.fileno())},{os.dup(listening.fileno())}"
        return supervisor_control, Worker.from_env()  # removes the variable
    finally:
        control.close()
        listening.close()


def test_a_worker_gets_its_sockets_and_secrets() -> None:
    supervisor_control, worker = make_worker(b'["a2tr"]\n')
    assert worker is not None
    assert worker.request_state_secrets == (b"kkk",)
    assert [sock.type for sock in worker.sockets] == [socket.SOCK_STREAM]
    assert not any(os.get_inheritable(sock.fileno()) for sock in (worker.control, *worker.sockets))
    worker.notify_ready()
    assert supervisor_control.recv(10) == b"r"
    assert not worker.parent_is_gone()
    supervisor_control.sendall(b"x")
    assert not worker.parent_is_gone()
    supervisor_control.close()
    assert worker.parent_is_gone()
    worker.notify_ready()
    worker.control.close()
    assert worker.parent_is_gone()
    worker.sockets[0].close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the inherited sockets
def test_a_worker_without_a_supervisor_raises() -> None:
    with pytest.raises(TransportError, match="has exited"):
        make_worker(b'["a2', is_closed=True)


def test_a_program_that_is_not_a_worker(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert Worker.from_env() is None
    with (tmp_path / "file").open("w") as file:
        for value in ("", "x", "99999", str(file.fileno())):
            monkeypatch.setenv(VARIABLE, value)
            assert Worker.from_env() is None  # inherited through another process
            assert VARIABLE not in os.environ


# --- process trees ----------------------------------------------------------------------------------------------------


def workers_of(serving: Serving) -> set[int]:
    """Return the process ids of the running workers."""
    children = Path(f"/proc/{serving.process.pid}/task/{serving.process.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


def test_two_workers_serve_one_port_and_end_together() -> None:
    with Serving(workers=2, health=True) as serving:
        serving.wait_for_line(r"serves http://.* \(2 workers\)")
        workers = workers_of(serving)
        assert len(workers) == 2
        assert {int(serving.call("pid").text) for _ in range(10)} <= workers
        assert serving.request("GET", "/health").status == 200
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0
        serving.wait_for_line("hook ran", 2)
        assert not [pid for pid in workers if alive(pid)]


def test_a_call_is_answered_while_all_workers_drain() -> None:
    with Serving(workers=2, drain_timeout=60) as serving:
        results: list[str] = []
        calling = threading.Thread(target=lambda: results.append(serving.call("slow", seconds=0.5).text))
        calling.start()
        serving.wait_for_line("begun")
        serving.signal(signal.SIGTERM)
        calling.join(GUARD)
        assert results == ["done"]
        assert serving.ended() == 0


def test_workers_end_when_their_supervisor_is_killed() -> None:
    """Otherwise they would keep the port open as orphans."""
    with Serving(workers=2, drain_timeout=0.2) as serving:
        serving.wait_for_line("serves")
        workers = workers_of(serving)
        serving.signal(signal.SIGKILL)
        serving.ended()
        wait_until(lambda: not [pid for pid in workers if alive(pid)])
        with pytest.raises(OSError):
            serving.connection().connect()


def test_killing_a_worker_under_load_leaves_no_call_hanging() -> None:
    """Every call gets a response or a closed connection; the other worker serves on, and a new one is started."""
    with Serving(workers=2) as serving:
        serving.wait_for_line("serves")
        before = workers_of(serving)
        outcomes: list[str] = []
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                try:
                    outcomes.append(serving.call("pid").text)
                except (OSError, http.client.HTTPException):
                    outcomes.append("lost")

        threads = [threading.Thread(target=load) for _ in range(4)]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(outcomes) > 50)
        killed = int(next(text for text in outcomes if text != "lost"))
        os.kill(killed, signal.SIGKILL)
        serving.wait_for_line(
            r"worker \d exited with code -9; restarting it"
        )  # printed although logging is not configured
        wait_until(lambda: outcomes and outcomes[-1].isdigit() and int(outcomes[-1]) not in before)
        stop.set()
        for thread in threads:
            thread.join(GUARD)
        assert not [thread for thread in threads if thread.is_alive()]
        # At most the one call of each client that was running or waiting on a connection of the killed worker.
        assert outcomes.count("lost") <= len(threads)
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0


def test_a_terminated_worker_is_replaced_without_a_lost_call() -> None:
    """A rolling restart by hand: SIGTERM to each worker in turn, under load."""
    with Serving(workers=2, drain_timeout=60) as serving:
        serving.wait_for_line("serves")
        first = workers_of(serving)
        outcomes: list[str] = []
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                try:
                    answer = serving.call("pid")
                    # A connection that was accepted just before the drain gets 503.
                    outcomes.append(answer.text if answer.status == 200 else f"refused {answer.status}")
                except (OSError, http.client.HTTPException) as error:
                    outcomes.append(f"lost {error!r}")

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for old in first:
            seen = {str(pid) for pid in workers_of(serving)}
            os.kill(old, signal.SIGTERM)
            wait_until(lambda seen=seen: [text for text in outcomes[-100:] if text.isdigit() and text not in seen])
        stop.set()
        for thread in threads:
            thread.join(GUARD)
        assert {outcome for outcome in outcomes if not outcome.isdigit()} <= {"refused 503"}
        assert outcomes.count("refused 503") <= 8
        assert first.isdisjoint(workers_of(serving))
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0


def test_a_request_state_sealed_by_one_worker_is_opened_by_another() -> None:
    """The supervisor generates one secret for all workers."""
    with Serving(workers=2) as serving:
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "elicit"}
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "elicit", "_meta": META},
        }
        result = serving.request("POST", "/mcp", message, headers).json["result"]
        assert result["resultType"] == "input_required"
        (key,) = result["inputRequests"]
        message["params"] |= {
            "requestState": result["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {"yes": True}}},
        }
        found: set[str] = set()
        for _ in range(200):
            found.add(serving.request("POST", "/mcp", message, headers).text)
            if len(found) == 2:
                break
        assert found == {f"accept by {pid}" for pid in workers_of(serving)}


def test_secrets_are_neither_in_the_command_nor_in_the_environment() -> None:
    with Serving(workers=1 + 1) as serving:
        serving.wait_for_line("serves")
        for pid in workers_of(serving):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            (variable,) = [line for line in environment.split(b"\0") if line.startswith(b"JACKSTAY_WORKER=")]
            assert set(variable.partition(b"=")[2]) <= set(b"0123456789,")
            assert b"secrets" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_program_whose_workers_do_not_start_ends_with_their_error() -> None:
    with Serving(workers=2, breaks_when_started_again=True) as serving:
        assert serving.ended() == 1
        serving.wait_for_line("RuntimeError: this worker does not start")
        assert "serves" not in serving.stderr
