"""`jackstay read`: text as text, bytes as bytes, and neither where it would do harm."""

import subprocess
import sys
from collections.abc import Callable

import pytest

from jackstay.cli import main
from jackstay.cli._read import _show
from jackstay.cli._screen import Screen
from jackstay.errors import ProtocolError
from jackstay.types import BlobResourceContents
from scripted.places import TESTS

PEER = TESTS / "peers" / "stdio_server.py"


def test_text_is_printed(jackstay: Callable) -> None:
    assert jackstay("read", "note://7") == (0, "note 7 \x1b[31mred\x1b[0m\n", "")


def test_text_is_cleaned_for_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(80)
    assert jackstay("read", "note://7").out == "note 7 \\x1b[31mred\\x1b[0m\n"


def test_bytes_go_into_a_pipe_as_they_are(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["read", "bytes://1", "--", sys.executable, str(PEER)]) == 0
    assert capfdbinary.readouterr().out == bytes(range(5))


def test_bytes_do_not_go_onto_a_terminal(jackstay: Callable, terminal: Callable[[int], None]) -> None:
    terminal(80)
    assert jackstay("read", "bytes://1").out == "[application/octet-stream of bytes://1, 5 bytes]\n"


def test_json_is_what_the_server_sent(jackstay: Callable) -> None:
    assert jackstay("read", "--json", "bytes://1").json["contents"][0]["blob"] == "AAECAwQ="


def test_bytes_that_are_none_are_the_servers_fault() -> None:
    with pytest.raises(ProtocolError, match="a://b holds bytes that are not base64"):
        _show(Screen(), BlobResourceContents(uri="a://b", blob="!"))


def test_what_is_not_there_is_exit_code_1(jackstay: Callable) -> None:
    shown = jackstay("read", "other://1")
    assert (shown.code, shown.out) == (1, "")
    assert "no resource other://1 [code -32002]" in shown.err


def test_a_uri_is_needed_and_only_one(jackstay: Callable) -> None:
    assert "URI is missing" in jackstay("read").err
    assert jackstay("read", "a://1", "a://2").code == 2


def test_a_reader_that_left_is_met_quietly() -> None:
    words = [sys.executable, "-m", "jackstay", "read", "note://1", "--", sys.executable, str(PEER)]
    done = subprocess.run(
        ["sh", "-c", '("$@"; echo $? >&2) | true', "sh", *words],
        stderr=subprocess.PIPE,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.stderr == "0\n"
