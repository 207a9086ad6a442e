"""Servers that do one thing wrong each, chosen by name: `misbehaving.py NAME [ARGUMENT]`. Small on purpose: no imports of ours."""

import os
import signal
import sys

ANSWER = b'{"jsonrpc":"2.0","id":1,"result":{"text":"an answer of some length"}}'


def say(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def listen() -> bytes:
    """One line from stdin; none at its end."""
    line = bytearray()
    while not line.endswith(b"\n"):
        byte = os.read(0, 1)
        if not byte:
            break
        line += byte
    return bytes(line)


def listen_until_the_end() -> None:
    while os.read(0, 65536):
        pass


def hold(ignoring: bool = False) -> None:
    """Stay until a signal ends it; with `ignoring`, until SIGKILL."""
    if ignoring:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        signal.pause()


def exits_at_byte(count: str) -> None:
    listen()
    say((ANSWER + b"\n")[: int(count)])


def dies_mid_frame(_: str) -> None:
    say(ANSWER + b"\n" + ANSWER[:20])
    os.kill(os.getpid(), signal.SIGKILL)


def ignores_sigterm(_: str) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say(ANSWER + b"\n")
    hold(ignoring=True)


def ignores_the_end_of_its_input(_: str) -> None:
    say(ANSWER + b"\n")
    hold()


def leaves_a_grandchild(kind: str) -> None:
    """The grandchild holds all pipes and says its number first; `stubborn` ones ignore SIGTERM, `detached` ones leave the group."""
    reader, writer = os.pipe()
    if os.fork() == 0:
        if kind == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if kind == "detached":
            os.setsid()
        os.write(writer, b"x")
        hold(ignoring=kind == "stubborn")
    os.close(writer)
    os.read(reader, 1)
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        say(b'{"grandchild":%s}\n' % children.read().split()[0].encode())
    if kind == "waiting":
        listen_until_the_end()


def floods_stderr(size: str) -> None:
    data = b"e" * 1023 + b"\n"
    for _ in range(int(size) // 1024):
        os.write(2, data)
    os.write(2, b"the end of it\n")
    say(ANSWER + b"\n")
    listen_until_the_end()


def prints_junk(_: str) -> None:
    say(b"Starting server on stdio...\n\n\x1b[32mready\x1b[0m\nWarning: \xff\xfe\n" + ANSWER + b"\n")
    listen_until_the_end()


def never_answers(_: str) -> None:
    listen_until_the_end()


def answers_and_exits(end: str) -> None:
    listen()
    say(ANSWER + (b"" if end == "unended" else b"\n"))


def sends_a_long_line(size: str) -> None:
    block = b"x" * 65536
    for _ in range(int(size) // len(block)):
        say(block)
    say(b"\n" + ANSWER + b"\n")
    listen_until_the_end()


def trickles(_: str) -> None:
    for byte in ANSWER + b"\n":
        say(bytes([byte]))
    listen_until_the_end()


def closes_stdout_only(_: str) -> None:
    say(ANSWER + b"\n")
    os.close(1)
    listen_until_the_end()


def closes_stdin_only(_: str) -> None:
    os.close(0)
    say(ANSWER + b"\n")
    hold()


def reads_nothing_at_first(_: str) -> None:
    """Until SIGUSR1; then it says how many lines it got until the end of one that says `stop`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGUSR1})
    say(b'{"pid":%d}\n' % os.getpid())
    signal.sigwait({signal.SIGUSR1})
    lines, rest = 0, b""
    while not rest.endswith(b"stop\n"):
        data = os.read(0, 65536)
        lines += data.count(b"\n")
        rest = (rest + data)[-16:]
    say(b'{"lines":%d}\n' % lines)
    listen_until_the_end()


def exits_with(code: str) -> None:
    os.write(2, b"cannot go on\n")
    os._exit(int(code))


def shows_its_surroundings(_: str) -> None:
    for descriptor in os.listdir("/proc/self/fd"):
        os.write(2, b"fd %s\n" % descriptor.encode())
    names = ",".join(sorted(os.environ))
    say(f'{{"cwd":"{os.getcwd()}","group":{os.getpgrp()},"pid":{os.getpid()},"names":"{names}"}}\n'.encode())
    listen_until_the_end()


globals()[sys.argv[1]](sys.argv[2] if len(sys.argv) > 2 else "")
