"""Until the documentation server exists, its command says so, and never pretends."""

import runpy
import sys

import pytest

import procontext.cli
from mooring import __version__
from procontext.cli import main

SENTENCE = f"procontext: the documentation server is not in mooring {__version__}.\n"


def missing(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    monkeypatch.setattr(
        procontext.cli, "missing_modules", lambda extra: modules if extra == "procontext" else None
    )


@pytest.mark.parametrize("arguments", [[], ["--help"], ["--version"], ["anything"]])
def test_whatever_is_asked_the_answer_is_one_sentence_and_exit_code_2(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing(monkeypatch)
    monkeypatch.setattr(sys, "argv", ["procontext", *arguments])
    assert main() == 2
    assert capsys.readouterr() == ("", SENTENCE)


def test_missing_libraries_are_named_with_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing(monkeypatch, "first", "second")
    assert main() == 2
    expected = "It will need first, second, not installed here: pip install 'mooring[procontext]'\n"
    assert capsys.readouterr() == ("", SENTENCE + expected)


def test_the_package_runs_as_a_module(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        runpy.run_module("procontext", run_name="__main__")
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(SENTENCE)
