"""The worker runs each job at most once, whatever crashes."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from guides.loading import ENVIRONMENT, FAULTY, GUIDES, SOURCE, load
from jackstay import connect, stdio
from jackstay.testing import ScriptedError, ScriptedPeer, on_fake_clock

worker = load("worker")

JOB = '{"order": "A7", "cents": 500}'


def states(jobs: Any) -> list[str]:
    """The state of every job."""
    return [line.split()[1] for line in jobs.lines()]


def queue(path: Path, *tools: str) -> Any:
    jobs = worker.Jobs(str(path / "jobs.db"))
    for tool in tools:
        jobs.add(tool, json.loads(JOB))
    return jobs


# --- how one job ends -------------------------------------------------------------------------------------------------


async def end_of(jobs: Any, peer: ScriptedPeer, **settings: Any) -> str:
    """The state that one job ends in."""
    async with connect(peer.target, wait_for_ready=True, **settings) as client:
        await worker.run(client, jobs, jobs.take())
    state: str = states(jobs)[0]
    return state


def text(message: str, **more: Any) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": message}], **more}


def refuse(code: int) -> Any:
    def answer(params: Any) -> Any:
        raise ScriptedError(code, "no")

    return answer


# (what the server answers, how the job ends)
ENDS = [
    (text("500 cents for A7"), "done"),
    (text("no such order", isError=True), "failed"),
    (refuse(-32602), "failed"),
    (refuse(-32603), "unknown"),
    (refuse(-32000), "unknown"),
]


@pytest.mark.parametrize(("answer", "state"), ENDS)
def test_the_state_of_a_job_by_response(answer: Any, state: str, tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer:
            peer.on["tools/call"] = answer
            assert await end_of(jobs, peer) == state

    work()
    jobs.close()


def test_a_server_that_never_responds_leaves_an_unknown_job(tmp_path: Path) -> None:
    """It may still be running, so a check would not be reliable."""
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer:
            assert await end_of(jobs, peer) == "unknown"
            assert len(peer.got("tools/call")) == 1

    work()
    jobs.close()


def test_a_job_that_was_never_sent_waits_again(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target, wait_for_ready=True) as client:
            peer.reopens = False
            peer.crash()
            await worker.run(client, jobs, jobs.take())
            assert states(jobs) == ["waiting"]
            assert peer.got("tools/call") == []

    work()
    jobs.close()


def test_a_job_that_cannot_be_sent_at_all_fails(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer("2025-11-25", {}) as peer:
            assert await end_of(jobs, peer) == "failed"

    work()
    jobs.close()


@pytest.mark.parametrize(
    ("seen", "state"),
    [
        (text("yes"), "done"),
        (text("no"), "waiting"),
        (text("the ledger is locked", isError=True), "unknown"),
        (refuse(-32000), "unknown"),
    ],
)
def test_after_a_crash_the_outcome_is_checked(seen: Any, state: str, tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target, wait_for_ready=True) as client:
            running = asyncio.ensure_future(worker.run(client, jobs, jobs.take()))
            await peer.expect("tools/call")
            peer.on["tools/call"] = seen
            peer.crash()
            await running
            assert states(jobs) == [state]
            assert [call.params["name"] for call in peer.got("tools/call")] == ["pay", "was_it_paid"]

    work()
    jobs.close()


@pytest.mark.parametrize(("tool", "arguments"), [("send_letter", {"order": "A7"}), ("pay", {})])
def test_a_job_without_a_check_stays_unknown(tool: str, arguments: dict[str, str], tmp_path: Path) -> None:
    """Also a job without an order: it must not crash every worker."""
    jobs = queue(tmp_path)
    jobs.add(tool, arguments)

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target) as client:
            running = asyncio.ensure_future(worker.run(client, jobs, jobs.take()))
            await peer.expect("tools/call")
            peer.crash()
            await running
            assert states(jobs) == ["unknown"]

    work()
    jobs.close()


def test_a_job_is_taken_once_and_one_that_a_dead_worker_had_is_never_taken(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay", "pay")
    assert jobs.take().id == 1
    jobs.close()  # the worker dies here
    again = worker.Jobs(str(tmp_path / "jobs.db"))
    assert [job.id for job in again.left()] == [1]
    assert again.take().id == 2
    assert again.take() is None
    assert states(again) == ["unknown", "running"]
    again.close()


def test_after_the_signal_no_job_is_taken(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay", "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target) as client:
            stopping = asyncio.Event()
            working = asyncio.ensure_future(worker.work(client, jobs, stopping))
            call = await peer.expect("tools/call")
            stopping.set()
            call.respond(text("500 cents for A7"))
            await working
            assert states(jobs) == ["done", "waiting"]

    work()
    jobs.close()


def test_an_empty_queue_is_polled(tmp_path: Path) -> None:
    jobs = queue(tmp_path)

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target) as client:
            stopping = asyncio.Event()
            working = asyncio.ensure_future(worker.work(client, jobs, stopping))
            await asyncio.sleep(3 * worker.PAUSE)
            jobs.add("pay", json.loads(JOB))
            (await peer.expect("tools/call")).respond(text("500 cents for A7"))
            await asyncio.sleep(worker.PAUSE)
            stopping.set()
            await working
            assert states(jobs) == ["done"]

    work()
    jobs.close()


# --- with a real server -----------------------------------------------------------------------------------------------


class UntilDone(worker.Jobs):  # type: ignore[misc, name-defined]  # the example is loaded by its path
    """A queue that ends the worker when its last job is done, with the signal that a supervisor sends."""

    def put(self, job: Any, state: str, message: str = "") -> None:
        super().put(job, state, message)
        if set(states(self)) == {"done"}:
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize(("fault", "message"), [("before", "500 cents for A7"), ("after", "was_it_paid: yes")])
def test_a_server_that_dies_in_a_payment_is_paid_once(fault: str, message: str, tmp_path: Path) -> None:
    """Before or after the payment is written: it is written once."""
    queue(tmp_path, "pay").close()
    jobs = UntilDone(str(tmp_path / "jobs.db"))
    target = stdio(sys.executable, FAULTY, tmp_path / "ledger", fault, env=SOURCE)
    asyncio.run(worker.serve(connect(target, wait_for_ready=True, backoff_min=0.01), jobs))
    assert jobs.lines() == [f"1 done pay {JOB} {message}"]
    assert (tmp_path / "ledger").read_text() == "A7 500\n"
    jobs.close()


def test_jobs_of_a_crashed_worker_are_checked_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "GRACE", 0.0)
    first = queue(tmp_path, "pay")
    assert first.take().id == 1
    first.close()  # the worker was killed here, after the payment
    (tmp_path / "ledger").write_text("A7 500\n")
    jobs = UntilDone(str(tmp_path / "jobs.db"))
    target = stdio(sys.executable, GUIDES / "shop.py", tmp_path / "ledger", env=SOURCE)
    asyncio.run(worker.serve(connect(target, wait_for_ready=True), jobs))
    assert jobs.lines() == [f"1 done pay {JOB} was_it_paid: yes"]
    assert (tmp_path / "ledger").read_text() == "A7 500\n"
    jobs.close()


# --- the process ------------------------------------------------------------------------------------------------------


def command(path: Path, *words: str) -> list[str]:
    return [sys.executable, "-W", "error", str(GUIDES / "worker.py"), str(path / "jobs.db"), *words]


def run_worker(path: Path, *words: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command(path, *words), capture_output=True, text=True, timeout=240, check=False, env=ENVIRONMENT
    )


def test_sigterm_lets_the_open_call_end(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")
    ledger = tmp_path / "ledger"
    for name in ("begun", "go"):
        os.mkfifo(f"{ledger}.{name}")
    server = [sys.executable, str(FAULTY), str(ledger), "held"]
    with subprocess.Popen(
        command(tmp_path, "work", *server), stdout=subprocess.PIPE, text=True, env=ENVIRONMENT
    ) as process:
        assert Path(f"{ledger}.begun").read_text() == "begun"
        process.send_signal(signal.SIGTERM)
        Path(f"{ledger}.go").write_text("go")
        message, _ = process.communicate(timeout=240)
    assert process.returncode == 0
    assert message == f"1 done pay {JOB} 500 cents for A7\n"
    assert jobs.lines() == message.splitlines()
    assert ledger.read_text() == "A7 500\n"
    jobs.close()


def test_a_server_that_cannot_be_started_is_an_error_and_no_job_is_lost(tmp_path: Path) -> None:
    assert run_worker(tmp_path, "add", "pay", json.dumps({"order": "A7", "cents": 1})).returncode == 0
    done = run_worker(tmp_path, "work", "no-such-command")
    assert done.returncode == 1
    assert done.stdout == '1 waiting pay {"order": "A7", "cents": 1}\n'
    assert "no-such-command" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [(), ("add", "pay", "5"), ("add", "pay", "{"), ("work",), ("sleep",)])
def test_usage_errors(
    words: tuple[str, ...],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["worker.py", str(tmp_path / "jobs.db"), *words])
    with pytest.raises(SystemExit) as ended:
        worker.main()
    assert ended.value.code == 2
    assert "usage: worker.py" in capsys.readouterr().err


def test_a_queue_that_cannot_be_opened_is_an_error(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, GUIDES / "worker.py", tmp_path / "nowhere" / "jobs.db", "list"],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot open the queue" in done.stderr


def test_a_connection_that_closes_for_good_ends_the_worker(tmp_path: Path) -> None:
    jobs = queue(tmp_path, "pay")

    @on_fake_clock
    async def work() -> None:
        async with ScriptedPeer() as peer, connect(peer.target, wait_for_ready=True) as client:
            await client.stop()
            with pytest.raises(worker.ClosedError):
                await worker.run(client, jobs, jobs.take())
            assert states(jobs) == ["waiting"]

    work()
    jobs.close()
