"""Servers in plain Python that each misbehave in one way: `misbehaving.py NAME [ARGUMENT]`."""

import os
import signal
import sys

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"text":"an answer of some length"}}'


def send(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def read_line() -> bytes:
    """Read one line from stdin; empty at its end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def read_to_end() -> None:
    while os.read(0, 65536):
        pass


def wait_for_signal(ignoring: bool = False) -> None:
    """Run until a signal; with `ignoring`, until SIGKILL."""
    if ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def exits_at_byte(count: str) -> None:
    read_line()
    send((ANSWER + b"\n")[: int(count)])


def dies_mid_frame(_: str) -> None:
    send(ANSWER + b"\n" + ANSWER[:20])
    os.kill(os.getpid(), signal.SIGKILL)


def ignores_sigterm(_: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    send(ANSWER + b"\n")
    wait_for_signal(ignoring=True)


def ignores_the_end_of_its_input(_: str) -> None:
    send(ANSWER + b"\n")
    wait_for_signal()


def leaves_a_grandchild(kind: str) -> None:
    """Start a grandchild that inherits all pipes, and print its pid.

    A `stubborn` one ignores SIGTERM, a `detached` one leaves the process group.
    """
    reader, writer = os.pipe()
    if os.fork() == 0:
        if kind == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kind == "detached":
            os.setsid()
        os.write(writer, b"x")
        wait_for_signal(ignoring=kind == "stubborn")
    os.close(writer)
    os.read(reader, 1)
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        send(b'{"grandchild":%s}\n' % children.read().split()[0].encode())
    if kind == "waiting":
        read_to_end()


def floods_stderr(size: str) -> None:
    data = b"e" * 1023 + b"\n"
    for _ in range(int(size) // 1024):
        os.write(2, data)
    os.write(2, b"the end of it\n")
    send(ANSWER + b"\n")
    read_to_end()


def prints_junk(_: str) -> None:
    send(b"Starting server on stdio...\n\n\x1b[32mready\x1b[0m\nWarning: \xff\xfe\n" + ANSWER + b"\n")
    read_to_end()


def never_answers(_: str) -> None:
    read_to_end()


def answers_and_exits(end: str) -> None:
    read_line()
    send(ANSWER + (b"" if end == "unended" else b"\n"))


def sends_a_long_line(size: str) -> None:
    block = b"x" * 65536
    for _ in range(int(size) // len(block)):
        send(block)
    send(b"\n" + ANSWER + b"\n")
    read_to_end()


def trickles(_: str) -> None:
    for byte in ANSWER + b"\n":
        send(bytes([byte]))
    read_to_end()


def closes_stdout_only(_: str) -> None:
    send(ANSWER + b"\n")
    os.close(1)
    read_to_end()


def closes_stdin_only(_: str) -> None:
    os.close(0)
    send(ANSWER + b"\n")
    wait_for_signal()


def reads_nothing_at_first(_: str) -> None:
    """Read nothing until SIGUSR1; then report the number of lines up to one that ends with `stop`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    send(b'{"pid":%d}\n' % os.getpid())
    signal.sigwait({signal.SIGUSR1})
    lines, rest = 0, b""
    while not rest.endswith(b"stop\n"):
        data = os.read(0, 65536)
        lines += data.count(b"\n")
        rest = (rest + data)[-16:]
    send(b'{"lines":%d}\n' % lines)
    read_to_end()


def exits_with(code: str) -> None:
    os.write(2, b"cannot go on\n")
    os._exit(int(code))


def shows_its_environment(_: str) -> None:
    for descriptor in os.listdir("/proc/self/fd"):
        os.write(2, b"fd %s\n" % descriptor.encode())
    names = ",".join(sorted(os.environ))
    send(f'{{"cwd":"{os.getcwd()}","group":{os.getpgrp()},"pid":{os.getpid()},"names":"{names}"}}\n'.encode())
    read_to_end()


globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
