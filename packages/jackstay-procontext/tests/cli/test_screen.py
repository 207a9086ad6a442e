"""Errors and JSON on a terminal."""

import sys

import pytest

from procontext.cli._screen import print_error, print_json


def test_print_error(capsys: pytest.CaptureFixture[str]) -> None:
    """Errors are printed on standard error, with control characters escaped."""
    print_error("wrong\x1b[2J", "do this")
    print_error("wrong")
    assert capsys.readouterr() == ("", "procontext: wrong\\x1b[2J\n  do this\nprocontext: wrong\n")


def test_json_is_indented(capsys: pytest.CaptureFixture[str]) -> None:
    print_json({"name": "é"})
    assert capsys.readouterr().out == '{\n  "name": "é"\n}\n'


def test_closed_streams_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """`procontext doctor >&-`: the stream is None."""
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    print_error("wrong", "do this")
    print_json(1)
