"""The environment of a child, and the lookup of executables."""

import os
from pathlib import Path

import pytest

from jackstay.errors import TransportError, UsageError
from jackstay.transport._stdio import check_environment, child_environment, find_executable

ENVIRON = {
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
ALWAYS = {name: value for name, value in ENVIRON.items() if name not in ("TOKEN", "LCX")}

ROWS: list[tuple[dict[str, str] | None, bool | list[str], dict[str, str]]] = [
    (None, False, ALWAYS),
    ({}, False, ALWAYS),
    ({"A": "1"}, False, {**ALWAYS, "A": "1"}),
    ({"PATH": "/q"}, False, {**ALWAYS, "PATH": "/q"}),
    (None, True, ENVIRON),
    ({"TOKEN": "other"}, True, {**ENVIRON, "TOKEN": "other"}),
    (None, ["TOKEN", "ABSENT"], {**ALWAYS, "TOKEN": "secret"}),
    (None, [], ALWAYS),
]


def test_the_environment_of_a_child() -> None:
    for env, inherit_env, expected in ROWS:
        check_environment(env, inherit_env)
        assert child_environment(ENVIRON, env, inherit_env) == expected


INVALID: list[tuple[object, object, str]] = [
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


def test_invalid_variables_are_rejected_without_showing_values() -> None:
    for env, inherit_env, path in INVALID:
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


def test_a_command_is_found_on_the_path_or_by_its_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = str(folder / "server")
    assert find_executable("server", {"PATH": f"/nowhere::{folder}"}, None) == expected
    assert find_executable(expected, {}, None) == expected
    assert find_executable("./server", {}, str(folder)) == expected
    both = {"PATH": os.pathsep.join([str(folder / "first"), str(folder / "second")])}
    assert find_executable("both", both, None) == str(folder / "second" / "both"), "like a shell"
    monkeypatch.chdir(folder)
    assert find_executable("./server", {}, None) == expected
    assert find_executable("server", {"PATH": "."}, None) == expected, "absolute"
    assert os.path.isabs(find_executable("sh", {}, None)), "without a PATH, the system's default"


@pytest.mark.parametrize(
    ("command", "path", "cwd", "message", "details"),
    [
        ("absent", "/a:/b", None, "not found on PATH /a:/b", {"path": "/a:/b"}),
        ("a-folder", "{}", None, "not found on PATH", {"path": "{}"}),
        (
            "python x.py",
            "/a",
            None,
            "no such file; pass the command and its arguments",
            {"path": "/a"},
        ),
        ("python ./x.py", "/a", None, "no such file; pass the command and its arguments", {}),
        ("plain", "{}", None, "{}/plain is not executable", {"path": "{}"}),
        ("./absent", "", "{}", "no such file: {}/./absent", {}),
        ("absent", "", None, "no such file: absent", {}),
        ("server", "{}", "{}/gone", "the working directory {}/gone does not exist", {"cwd": "{}/gone"}),
    ],
)
def test_the_error_for_a_missing_command_has_the_searched_path(
    folder: Path, *, command: str, path: str, cwd: str | None, message: str, details: dict[str, str]
) -> None:
    def fill(text: str) -> str:
        return text.replace("{}", str(folder))

    with pytest.raises(TransportError) as caught:
        find_executable(command, {"PATH": fill(path)}, None if cwd is None else fill(cwd))
    assert caught.value.permanent
    assert not caught.value.retryable
    assert str(caught.value).startswith(f"cannot start '{command}': {fill(message)}")
    assert caught.value.details == {"command": command, **{k: fill(v) for k, v in details.items()}}
