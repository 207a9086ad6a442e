"""`jackstay read`: text and binary contents, in a pipe and on a terminal."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from jackstay.cli import main
from jackstay.cli._read import _show
from jackstay.errors import ProtocolError
from jackstay.shell import Screen
from jackstay.types import BlobResourceContents
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def test_text_is_printed(jackstay: Callable) -> None:
    assert jackstay("read", "note://7") == (0, "note 7 \x1b[31mred\x1b[0m\n", "")


def test_control_characters_are_escaped_on_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(80)
    assert jackstay("read", "note://7").out == "note 7 \\x1b[31mred\\x1b[0m\n"


def test_binary_contents_to_a_pipe(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["read", "bytes://1", "--", sys.executable, str(PEER)]) == 0
    assert capfdbinary.readouterr().out == bytes(range(5))


def test_binary_contents_on_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(80)
    assert jackstay("read", "bytes://1").out == "[application/octet-stream of bytes://1, 5 bytes]\n"


def test_json_output(jackstay: Callable) -> None:
    assert jackstay("read", "--json", "bytes://1").json["contents"][0]["blob"] == "AAECAwQ="


def test_invalid_base64_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError, match="invalid base64 in the contents of 'a://b'"):
        _show(Screen(), BlobResourceContents(uri="a://b", blob="!"))


def test_an_unknown_resource_is_exit_code_1(jackstay: Callable) -> None:
    done = jackstay("read", "other://1")
    assert (done.code, done.out) == (1, "")
    assert "no resource other://1 [code -32002]" in done.err


def test_exactly_one_uri_is_required(jackstay: Callable) -> None:
    assert "URI is missing" in jackstay("read").err
    assert jackstay("read", "a://1", "a://2").code == 2


def test_a_closed_pipe_is_silent() -> None:
    words = [sys.executable, "-m", "jackstay", "read", "note://1", "--", sys.executable, str(PEER)]
    done = subprocess.run(
        ["sh", "-c", '("$@"; echo $? >&2) | true', "sh", *words],
        stderr=subprocess.PIPE,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.stderr == "0\n"
