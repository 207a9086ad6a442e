"""What a child sees and which file is run: tables, and a small PATH in a folder."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.transport._environment import check_environment, child_environment, find_executable

OURS = {
    "HOME": "/h",
    "LOGNAME": "l",
    "PATH": "/p",
    "SHELL": "/s",
    "TERM": "t",
    "USER": "u",
    "LANG": "C",
    "LC_ALL": "C",
    "LC_TIME": "C",
    "TZ": "UTC",
    "TMPDIR": "/tmp",
    "TOKEN": "secret",
    "LCX": "1",
}
ALWAYS = {name: value for name, value in OURS.items() if name not in ("TOKEN", "LCX")}

ROWS: list[tuple[dict[str, str] | None, bool | list[str], dict[str, str]]] = [
    (None, False, ALWAYS),
    ({}, False, ALWAYS),
    ({"A": "1"}, False, {**ALWAYS, "A": "1"}),
    ({"PATH": "/q"}, False, {**ALWAYS, "PATH": "/q"}),
    (None, True, OURS),
    ({"TOKEN": "other"}, True, {**OURS, "TOKEN": "other"}),
    (None, ["TOKEN", "ABSENT"], {**ALWAYS, "TOKEN": "secret"}),
    (None, [], ALWAYS),
]


@pytest.mark.parametrize(("env", "inherit_env", "expected"), ROWS)
def test_a_child_sees_what_it_needs_and_what_is_asked_for(
    env: dict[str, str] | None, inherit_env: bool | list[str], expected: dict[str, str]
) -> None:
    check_environment(env, inherit_env)
    assert child_environment(OURS, env, inherit_env) == expected


REFUSED: list[tuple[object, object, str]] = [
    ({"A": 1}, False, "env"),
    ({1: "A"}, False, "env"),
    ({"": "x"}, False, "env"),
    ({"A=B": "x"}, False, "env"),
    ({"A\0": "x"}, False, "env"),
    ({"A": "hidden\0"}, False, "env"),
    (None, "TOKEN", "inherit_env"),
    (None, [1], "inherit_env"),
    (None, 1, "inherit_env"),
    (["A"], False, "env"),
]


@pytest.mark.parametrize(("env", "inherit_env", "path"), REFUSED)
def test_what_no_program_can_be_given_is_refused_without_showing_values(
    env: dict[str, str], inherit_env: Iterable[str], path: str
) -> None:
    with pytest.raises(UsageError) as caught:
        check_environment(env, inherit_env)
    assert caught.value.path == path
    assert "hidden" not in str(caught.value)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, mode in (("server", 0o755), ("plain", 0o644), ("first/both", 0o644), ("second/both", 0o755)):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\n")
        path.chmod(mode)
    (tmp_path / "a-folder").mkdir()
    return tmp_path


def test_a_command_is_found_on_the_path_in_a_folder_or_where_it_is(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = str(folder / "server")
    assert find_executable("server", {"PATH": f"/nowhere::{folder}"}, None) == expected
    assert find_executable(expected, {}, None) == expected
    assert find_executable("./server", {}, str(folder)) == expected
    both = {"PATH": os.pathsep.join([str(folder / "first"), str(folder / "second")])}
    assert find_executable("both", both, None) == str(folder / "second" / "both"), "as a shell would"
    monkeypatch.chdir(folder)
    assert find_executable("./server", {}, None) == expected
    assert find_executable("server", {"PATH": "."}, None) == expected, (
        "absolute, wherever the child then runs"
    )
    assert os.path.isabs(find_executable("sh", {}, None)), "without a PATH, the system's default"


@pytest.mark.parametrize(
    ("command", "path", "cwd", "said", "details"),
    [
        ("absent", "/a:/b", None, "it is not on the PATH searched, /a:/b", {"path": "/a:/b"}),
        ("a-folder", "{}", None, "it is not on the PATH searched", {"path": "{}"}),
        (
            "python x.py",
            "/a",
            None,
            "there is no such file; give a command and each of its arguments",
            {"path": "/a"},
        ),
        ("python ./x.py", "/a", None, "there is no such file; give a command and each of its arguments", {}),
        ("plain", "{}", None, "{}/plain is not executable", {"path": "{}"}),
        ("./absent", "", "{}", "there is no file {}/./absent", {}),
        ("absent", "", None, "there is no file absent", {}),
        ("server", "{}", "{}/gone", "the working directory {}/gone does not exist", {"cwd": "{}/gone"}),
    ],
)
def test_what_cannot_be_run_is_told_with_what_was_searched(
    folder: Path, *, command: str, path: str, cwd: str | None, said: str, details: dict[str, str]
) -> None:
    def fill(text: str) -> str:
        return text.replace("{}", str(folder))

    with pytest.raises(TransportError) as caught:
        find_executable(command, {"PATH": fill(path)}, None if cwd is None else fill(cwd))
    assert caught.value.permanent
    assert not caught.value.retryable
    assert str(caught.value).startswith(f"cannot start '{command}': {fill(said)}")
    assert caught.value.details == {"command": command, **{k: fill(v) for k, v in details.items()}}
