"""A child process that is controlled over a Unix socket, whose path is its argument.

A command is one byte, a size of 8 hex digits and that many bytes: `w` writes them to stdout, `r` reads a line from
stdin and sends it back with its size, `x` exits with the size as the code. It also exits when its stdin is closed.
"""

import os
import select
import socket
import sys


def exactly(stream: socket.socket, size: int) -> bytes:
    parts = []
    while size:
        part = stream.recv(min(size, 1 << 20))
        if not part:
            os._exit(0)
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def main() -> None:
    control = socket.socket(socket.AF_UNIX)
    control.connect(sys.argv[1])
    waiting = select.poll()
    waiting.register(control, select.POLLIN)
    waiting.register(0, 0)  # reports only the end of stdin
    while True:
        if any(fd == 0 for fd, _ in waiting.poll()):
            os._exit(0)
        head = exactly(control, 9)
        command, size = head[:1], int(head[1:], 16)
        if command == b"w":
            data = memoryview(exactly(control, size))
            while data:
                data = data[os.write(1, data) :]
            control.sendall(b"%08x" % 0)
        elif command == b"r":
            line = sys.stdin.buffer.readline()
            control.sendall(b"%08x" % len(line) + line)
        else:
            os._exit(size)


main()
