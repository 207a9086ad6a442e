"""Several processes on one port: the parent's table in this process, and whole families of processes."""

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
    MOST_DELAY,
    VARIABLE,
    Slot,
    Supervisor,
    Worker,
    adopt,
    delays,
    own_command,
)
from peers.http_process import GUARD, META, Serving

# A worker of five lines: it takes its charge, says what it was given, is ready, and does as its argument says.
WORKER = """
import os, signal, socket, sys, time
control, *listening = (socket.socket(fileno=int(n)) for n in os.environ["JACKSTAY_WORKER"].split(","))
charge = control.makefile("rb").readline()
with open(sys.argv[2], "ab") as file:
    file.write(b"%d %d %s" % (os.getpid(), len(listening), charge))
if sys.argv[1] == "stubborn":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
if sys.argv[1] == "drains":
    signal.signal(signal.SIGTERM, lambda *_: [one.close() for one in listening])
if sys.argv[1] != "unready":
    control.send(b"r")
if sys.argv[1] in ("unready", "dies"):
    sys.exit(3)
time.sleep(60)
"""


class Family:
    """A parent in this process, and what its workers wrote."""

    def __init__(self, tmp_path: Path, how: str, count: int = 2, end_timeout: float = 5.0) -> None:
        self.file = tmp_path / "started"
        self.sockets = bind_sockets("127.0.0.1", 0)
        self.ready = threading.Event()
        self.left: list[int] = []
        self.parent = Supervisor(
            [sys.executable, "-c", WORKER, how, str(self.file)],
            self.sockets,
            count,
            keys=(b"k" * 32,),
            end_timeout=end_timeout,
            on_ready=self.ready.set,
            leave=self.left.append,
        )

    def started(self) -> list[list[str]]:
        return (
            [line.split(" ", 2) for line in self.file.read_text().splitlines()] if self.file.exists() else []
        )

    def run(self, work: Any = None) -> int:
        """Run the parent here, and `work` on another thread; it is ended by a signal that `work` sends."""
        thread = threading.Thread(target=work) if work is not None else None
        if thread is not None:
            thread.start()
        try:
            return self.parent.run()
        finally:
            for one in self.sockets:
                one.close()
            if thread is not None:
                thread.join(GUARD)


def until(claim: Any) -> None:
    patience = time.monotonic() + GUARD
    while not claim():
        assert time.monotonic() < patience
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "FIRST_DELAY", 0.01)


# --- the parent -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130), (signal.SIGHUP, 0)])
def test_workers_get_their_charge_and_end_with_the_parent(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    family = Family(tmp_path, "serve")
    before = signal.getsignal(number)

    def work() -> None:
        assert family.ready.wait(GUARD)
        os.kill(os.getpid(), number)

    assert family.run(work) == code
    assert len(family.started()) == 2
    for pid, listening, charge in family.started():
        assert listening == "1"
        assert json.loads(charge) == {"keys": ["a2tr" * 10 + "a2s="]}
        assert not Path(f"/proc/{pid}").exists()
    assert signal.getsignal(number) is before


def test_the_end_of_the_terminal_is_not_the_end_of_workers_under_nohup(tmp_path: Path) -> None:
    family = Family(tmp_path, "serve")
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)

    def work() -> None:
        assert family.ready.wait(GUARD)
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        os.kill(os.getpid(), signal.SIGINT)

    try:
        assert family.run(work) == 130
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_worker_that_dies_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    family = Family(tmp_path, "serve")

    def work() -> None:
        assert family.ready.wait(GUARD)
        os.kill(int(family.started()[0][0]), signal.SIGKILL)
        until(lambda: len(family.started()) == 3)
        os.kill(os.getpid(), signal.SIGTERM)

    assert family.run(work) == 0
    assert "ended with code -9; starting another" in caplog.text


def test_a_worker_that_dies_again_and_again_is_started_more_and_more_slowly(tmp_path: Path) -> None:
    family = Family(tmp_path, "dies", count=1)
    times: list[float] = []

    def work() -> None:
        for count in range(1, 6):
            until(lambda count=count: len(family.started()) >= count)
            times.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGTERM)

    assert family.run(work) == 0
    waits = [0.01 * 2**n for n in range(4)]
    assert sum(later - sooner for sooner, later in itertools.pairwise(times)) >= sum(waits)


def test_workers_that_never_served_are_not_started_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    family = Family(tmp_path, "unready")
    assert family.run() == 3
    assert len(family.started()) <= 2
    assert "ended before it served, with code 3" in caplog.text


def test_a_worker_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "KILL_MARGIN", 0.0)
    family = Family(tmp_path, "stubborn", end_timeout=0.2)

    def work() -> None:
        assert family.ready.wait(GUARD)
        os.kill(os.getpid(), signal.SIGTERM)

    assert family.run(work) == 0
    assert not [pid for pid, *_ in family.started() if Path(f"/proc/{pid}").exists()]


def test_while_the_last_worker_drains_connections_are_refused_and_not_left_to_wait(tmp_path: Path) -> None:
    """What the parent holds open is accepted by the system, and then by nobody: its sender would hang as long as the drain."""
    family = Family(tmp_path, "drains", end_timeout=60)
    where = family.sockets[0].getsockname()

    refused: list[bool] = []

    def is_refused() -> bool:
        try:
            socket.create_connection(where, GUARD).close()
        except ConnectionRefusedError:
            return True
        except OSError:
            pass  # reset: it was made while the last one closed
        return False

    def work() -> None:
        try:
            assert family.ready.wait(GUARD)
            refused.append(is_refused())
            os.kill(os.getpid(), signal.SIGTERM)
            until(is_refused)
            refused.append(True)
        finally:
            for pid, *_ in family.started():
                os.kill(int(pid), signal.SIGKILL)

    assert family.run(work) == 0
    assert refused == [False, True]


@pytest.mark.guard(30)
def test_a_signal_that_comes_while_a_worker_is_started_ends_that_one_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    family = Family(tmp_path, "serve", end_timeout=60)
    start = Slot.start

    def interrupted(slot: Slot, *given: Any) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        start(slot, *given)

    monkeypatch.setattr(Slot, "start", interrupted)
    assert family.run() == 0


def test_a_second_signal_ends_all_at_once(tmp_path: Path) -> None:
    family = Family(tmp_path, "stubborn", end_timeout=60)

    def work() -> None:
        assert family.ready.wait(GUARD)
        while not family.left:  # two signals at once would be one
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(0.05)

    assert family.run(work) == 0
    assert family.left[0] == 128 + signal.SIGTERM
    assert not [pid for pid, *_ in family.started() if Path(f"/proc/{pid}").exists()]


def test_nobody_is_left_behind_by_an_error_of_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = Family(tmp_path, "serve")

    def fail() -> None:
        raise RuntimeError("on ready")

    family.parent._on_ready = fail
    with pytest.raises(RuntimeError, match="on ready"):
        family.run()
    until(lambda: all(not alive(int(pid)) for pid, *_ in family.started()))
    for slot in family.parent._slots:
        assert slot.process is not None
        slot.process.wait(GUARD)
        assert slot.control is not None
        slot.control.close()


def alive(pid: int) -> bool:
    """Whether it runs: a process that ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_process_that_closed_its_socket_and_stays_is_ended(tmp_path: Path) -> None:
    slot = _workers.Slot(1)
    code = "import os, time; os.close(int(os.environ['JACKSTAY_WORKER'].split(',')[0])); time.sleep(60)"
    slot.start([sys.executable, "-c", code], [], b"charge\n")
    assert slot.control is not None
    until(lambda: _is_closed(slot.control))
    assert slot.ended(0.05) == -signal.SIGKILL
    assert repr(slot) == "<Slot 1 empty>"


def _is_closed(one: socket.socket | None) -> bool:
    assert one is not None
    one.settimeout(0.05)
    try:
        return one.recv(1) == b""
    except TimeoutError:
        return False
    except ConnectionError:
        return True


def test_a_slot_says_who_is_in_it() -> None:
    slot = _workers.Slot(1)
    slot.start([sys.executable, "-c", ""], [], b"\n")
    assert slot.process is not None
    assert repr(slot) == f"<Slot 1 process {slot.process.pid}>"
    slot.is_ready = True
    assert repr(slot).endswith(" ready>")
    assert slot.ended(GUARD) == 0


def test_a_worker_that_served_long_was_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    slot = _workers.Slot(1)
    for _ in range(5):
        next(slot.delays)
    slot.start([sys.executable, "-c", ""], [], b"\n")
    slot.started_at -= _workers.SOUND_SECONDS
    slot.ended(GUARD)
    assert slot.start_at <= time.monotonic() + _workers.FIRST_DELAY


def test_a_worker_that_was_gone_before_it_was_told_anything_is_no_error() -> None:
    slot = _workers.Slot(1)
    code = "import os; os.close(int(os.environ['JACKSTAY_WORKER'].split(',')[0]))"
    slot.start([sys.executable, "-c", code], [], b"x" * 10_000_000)  # more than the socket holds
    assert slot.ended(GUARD) == 0


def test_delays_grow_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_workers, "FIRST_DELAY", 0.1)
    found = list(itertools.islice(delays(), 12))
    assert found[:4] == [0.1, 0.2, 0.4, 0.8]
    assert found[-1] == MOST_DELAY


# --- starting again ---------------------------------------------------------------------------------------------------


def test_a_program_is_started_again_as_it_was_started(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-W", "error", "program.py", "--port", "0"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", __file__, raising=False)
    assert own_command() == [sys.executable, "-W", "error", "program.py", "--port", "0"]
    monkeypatch.setattr(sys, "orig_argv", ["python", "-c", "..."])
    monkeypatch.delattr(sys.modules["__main__"], "__file__")
    assert own_command() == [sys.executable, "-c", "..."]


@pytest.mark.parametrize("file", [None, "<stdin>"])
def test_what_cannot_be_started_again_is_told_how_it_could(
    file: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "orig_argv", ["python", "-"])
    monkeypatch.setattr(sys.modules["__main__"], "__file__", file, raising=False)
    with pytest.raises(UsageError, match="put it in a file, or use `jackstay serve FILE") as caught:
        own_command()
    assert caught.value.path == "workers"


def test_at_a_prompt_there_is_nothing_to_start_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "ps1", ">>> ", raising=False)
    with pytest.raises(UsageError, match="prompt"):
        own_command()


# --- the worker's side ------------------------------------------------------------------------------------------------


def handed(charge: bytes, *, is_ended: bool = False) -> tuple[socket.socket, Worker | None]:
    """What a worker makes of this charge; and the parent's end."""
    ours, theirs = socket.socketpair()
    (listening,) = bind_sockets("127.0.0.1", 0)
    ours.sendall(charge)
    if is_ended:
        ours.close()
    try:
        return ours, adopt({VARIABLE: f"{os.dup(theirs.fileno())},{os.dup(listening.fileno())}"})
    finally:
        theirs.close()
        listening.close()


def test_a_worker_takes_its_sockets_and_its_secrets() -> None:
    ours, worker = handed(b'{"keys":["a2tr"]}\n')
    assert worker is not None
    assert worker.keys == (b"kkk",)
    assert [one.type for one in worker.sockets] == [socket.SOCK_STREAM]
    assert not any(os.get_inheritable(one.fileno()) for one in (worker.control, *worker.sockets))
    worker.tell_ready()
    assert ours.recv(10) == b"r"
    assert not worker.is_orphan()
    ours.sendall(b"x")
    assert not worker.is_orphan()
    ours.close()
    assert worker.is_orphan()
    worker.tell_ready()
    worker.control.close()
    assert worker.is_orphan()
    worker.sockets[0].close()


@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of the sockets that nobody took
def test_a_worker_whose_parent_is_gone_says_so() -> None:
    with pytest.raises(TransportError, match="is gone"):
        handed(b'{"keys":', is_ended=True)


def test_a_program_that_is_no_worker_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert adopt() is None
    with (tmp_path / "file").open("w") as file:
        for said in ("", "x", "99999", str(file.fileno())):
            monkeypatch.setenv(VARIABLE, said)
            assert adopt() is None  # it came by way of a worker, and was not meant for us
            assert VARIABLE not in os.environ


# --- whole families ---------------------------------------------------------------------------------------------------


def workers_of(serving: Serving) -> set[int]:
    """The workers that run now."""
    children = Path(f"/proc/{serving.process.pid}/task/{serving.process.pid}/children").read_text()
    return {int(pid) for pid in children.split()}


def test_two_workers_serve_one_port_and_end_together() -> None:
    with Serving(workers=2, health=True) as serving:
        serving.told(r"serves http://.* \(2 workers\)")
        workers = workers_of(serving)
        assert len(workers) == 2
        assert {int(serving.call("pid").text) for _ in range(10)} <= workers
        assert serving.ask("GET", "/health").status == 200
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0
        serving.told("hook ran", 2)
        assert not [pid for pid in workers if alive(pid)]


def test_a_call_is_answered_while_all_workers_drain() -> None:
    with Serving(workers=2, drain_timeout=5) as serving:
        said: list[str] = []
        calling = threading.Thread(target=lambda: said.append(serving.call("slow", seconds=0.5).text))
        calling.start()
        serving.told("begun")
        serving.signal(signal.SIGTERM)
        calling.join(GUARD)
        assert said == ["done"]
        assert serving.ended() == 0


def test_workers_end_when_their_parent_is_killed() -> None:
    """Otherwise they would hold the port for ever, and nobody would know whose they are."""
    with Serving(workers=2, drain_timeout=0.2) as serving:
        serving.told("serves")
        workers = workers_of(serving)
        serving.signal(signal.SIGKILL)
        serving.ended()
        until(lambda: not [pid for pid in workers if alive(pid)])
        with pytest.raises(OSError):
            serving.connection().connect()


def test_a_worker_killed_under_load_leaves_nothing_hanging() -> None:
    """Zero hung: every call is answered or its connection ends; the other worker serves on, and a new one comes."""
    with Serving(workers=2) as serving:
        serving.told("serves")
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
        until(lambda: len(outcomes) > 50)
        killed = int(next(text for text in outcomes if text != "lost"))
        os.kill(killed, signal.SIGKILL)
        serving.told(
            r"worker \d ended with code -9; starting another"
        )  # though the program has set up no logging
        until(lambda: outcomes and outcomes[-1].isdigit() and int(outcomes[-1]) not in before)
        stop.set()
        for thread in threads:
            thread.join(GUARD)
        assert not [thread for thread in threads if thread.is_alive()]
        # What was in its hands when it died, and what waited on connections it had taken: one for each client.
        assert outcomes.count("lost") <= len(threads)
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0


def test_a_worker_that_is_told_to_end_is_replaced_without_a_lost_call() -> None:
    """A rolling restart by hand: SIGTERM to each worker in turn, under load, and nothing that was sent is lost."""
    with Serving(workers=2, drain_timeout=5) as serving:
        serving.told("serves")
        first = workers_of(serving)
        outcomes: list[str] = []
        stop = threading.Event()

        def load() -> None:
            while not stop.is_set():
                try:
                    answer = serving.call("pid")
                    # One that was let in just before is refused, and told that it may try again.
                    outcomes.append(answer.text if answer.status == 200 else f"refused {answer.status}")
                except (OSError, http.client.HTTPException) as error:
                    outcomes.append(f"lost {error!r}")

        threads = [threading.Thread(target=load) for _ in range(2)]
        for thread in threads:
            thread.start()
        for old in first:
            seen = {str(pid) for pid in workers_of(serving)}
            os.kill(old, signal.SIGTERM)
            until(lambda seen=seen: [text for text in outcomes[-100:] if text.isdigit() and text not in seen])
        stop.set()
        for thread in threads:
            thread.join(GUARD)
        assert {outcome for outcome in outcomes if not outcome.isdigit()} <= {"refused 503"}
        assert outcomes.count("refused 503") <= 8
        assert first.isdisjoint(workers_of(serving))
        serving.signal(signal.SIGTERM)
        assert serving.ended() == 0


def test_a_state_that_one_worker_sealed_is_opened_by_another() -> None:
    """The parent makes one secret for all (section 7: any worker can go on)."""
    with Serving(workers=2) as serving:
        headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "ask"}
        message: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": "ask", "_meta": META},
        }
        asked = serving.ask("POST", "/mcp", message, headers).json["result"]
        assert asked["resultType"] == "input_required"
        (key,) = asked["inputRequests"]
        message["params"] |= {
            "requestState": asked["requestState"],
            "inputResponses": {key: {"action": "accept", "content": {"yes": True}}},
        }
        found: set[str] = set()
        for _ in range(200):
            found.add(serving.ask("POST", "/mcp", message, headers).text)
            if len(found) == 2:
                break
        assert found == {f"accept by {pid}" for pid in workers_of(serving)}


def test_secrets_are_neither_in_the_command_nor_in_the_environment() -> None:
    with Serving(workers=1 + 1) as serving:
        serving.told("serves")
        for pid in workers_of(serving):
            said = Path(f"/proc/{pid}/environ").read_bytes()
            (variable,) = [line for line in said.split(b"\0") if line.startswith(b"JACKSTAY_WORKER=")]
            assert set(variable.partition(b"=")[2]) <= set(b"0123456789,")
            assert b"keys" not in Path(f"/proc/{pid}/cmdline").read_bytes()


def test_a_program_whose_workers_do_not_start_ends_with_their_words() -> None:
    with Serving(workers=2, breaks_when_started_again=True) as serving:
        assert serving.ended() == 1
        serving.told("RuntimeError: this worker does not start")
        assert "serves" not in serving.stderr
