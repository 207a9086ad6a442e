"""Selection of settings files, and errors in their contents."""

from pathlib import Path

import pytest

from procontext.config import load
from procontext.config_files import FILE_NAME, MAX_FILE_BYTES, ConfigFiles, find_files, read_yaml
from procontext.errors import ConfigError


def folders(tmp_path: Path) -> tuple[Path, Path]:
    working, user = tmp_path / "working", tmp_path / "user"
    working.mkdir()
    user.mkdir()
    return working, user


def test_user_file_is_trusted_and_local_file_is_not(tmp_path: Path) -> None:
    working, user = folders(tmp_path)
    assert find_files(working=working, user=user, environment={}) == ConfigFiles()
    (user / FILE_NAME).write_text("")
    assert find_files(working=working, user=user, environment={}) == ConfigFiles(trusted=user / FILE_NAME)
    (working / FILE_NAME).write_text("")
    found = find_files(working=working, user=user, environment={})
    assert found == ConfigFiles(user / FILE_NAME, working / FILE_NAME)


def test_user_file_is_trusted_in_its_own_folder(tmp_path: Path) -> None:
    working, user = folders(tmp_path)
    (user / FILE_NAME).write_text("")
    (working / FILE_NAME).symlink_to(user / FILE_NAME)
    for folder in (working, user):
        assert find_files(working=folder, user=user, environment={}) == ConfigFiles(user / FILE_NAME)


def test_named_file_replaces_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    working, user = folders(tmp_path)
    for folder in (working, user):
        (folder / FILE_NAME).write_text("")
    monkeypatch.chdir(working)
    for name in ("one.yaml", "two.yaml"):
        (working / name).write_text("")
    by_variable = {"PROCONTEXT_CONFIG": "one.yaml"}
    assert find_files(user=user, environment=by_variable) == ConfigFiles(working / "one.yaml")
    assert find_files("two.yaml", user=user, environment=by_variable) == ConfigFiles(working / "two.yaml")
    empty = {"PROCONTEXT_CONFIG": ""}
    assert find_files(user=user, environment=empty) == ConfigFiles(user / FILE_NAME, working / FILE_NAME)


def test_named_file_must_exist(tmp_path: Path) -> None:
    file = str(tmp_path / "absent.yaml")
    with pytest.raises(ConfigError, match=r"--config: file not found: .*absent"):
        load(file, environment={})
    with pytest.raises(ConfigError, match=r"PROCONTEXT_CONFIG: file not found: .*absent"):
        load(environment={"PROCONTEXT_CONFIG": file})


# (contents of the file, error)
UNUSABLE = [
    (b"\xff\xfe\x00", "invalid YAML"),
    (b"2001-21-01: x", "invalid YAML: month must be in 1..12"),
    (b"cache: {ttl_hours: 2001-02-31}", "invalid YAML: day is out of range"),
    (b"cache: {max_bytes: " + b"9" * 5000 + b"}", "invalid YAML: Exceeds the limit"),
    (b"[" * 1000, "is nested too deeply"),
    (b"a: " + b"{a: " * 1000, "is nested too deeply"),
    (b'sources: [{id: a, path: "a\\0b"}]', "a string contains a NUL character"),
    (b'sources: [{id: a, path: ., name: "\\ud800"}]', "a string contains a lone surrogate"),
    (b"cache: {ttl_hours: !!int ''}", "invalid YAML"),
    (b"cache: {ttl_hours: !!bool x}", "invalid YAML"),
    (b"cache: {ttl_hours: !!timestamp x}", "invalid YAML"),
    (b"#" * (MAX_FILE_BYTES + 1), "is larger than 1048576 bytes"),
]

# Aliases that become many values.
TOO_MANY = [
    (b"cache: &a {b: *a}", "has more than 100000 values"),
    (
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
        b"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\n"
        b"e: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]",
        "has more than 100000 values",
    ),
]


def test_unusable_files(tmp_path: Path, subtests: pytest.Subtests) -> None:
    check_unusable(tmp_path, subtests, UNUSABLE)


@pytest.mark.no_cover  # counting the values takes ten times as long when traced
def test_too_many_values(tmp_path: Path, subtests: pytest.Subtests) -> None:
    check_unusable(tmp_path, subtests, TOO_MANY)


def check_unusable(tmp_path: Path, subtests: pytest.Subtests, rows: list[tuple[bytes, str]]) -> None:
    file = tmp_path / FILE_NAME
    for number, (data, problem) in enumerate(rows):
        with subtests.test(number=number):
            file.write_bytes(data)
            with pytest.raises(ConfigError) as raised:
                read_yaml(file)
            assert problem in str(raised.value)
            assert str(file) in str(raised.value)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_yaml(tmp_path / FILE_NAME)


def test_empty_file(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("# nothing\n")
    assert read_yaml(tmp_path / FILE_NAME) == {}
