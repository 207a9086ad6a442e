"""Which settings files are used, and that no content of one is a traceback."""

from pathlib import Path

import pytest

from procontext.config import load
from procontext.config_files import FILE_NAME, MAX_FILE_BYTES, ConfigFiles, find_files, read_yaml
from procontext.errors import ConfigError


def folders(tmp_path: Path) -> tuple[Path, Path]:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    return here, there


def test_a_file_of_the_user_is_trusted_and_one_of_the_working_directory_is_not(tmp_path: Path) -> None:
    here, there = folders(tmp_path)
    assert find_files(working=here, user=there, environment={}) == ConfigFiles()
    (there / FILE_NAME).write_text("")
    assert find_files(working=here, user=there, environment={}) == ConfigFiles(trusted=there / FILE_NAME)
    (here / FILE_NAME).write_text("")
    found = find_files(working=here, user=there, environment={})
    assert found == ConfigFiles(there / FILE_NAME, here / FILE_NAME)


def test_the_file_of_the_user_is_trusted_also_from_its_own_folder(tmp_path: Path) -> None:
    here, there = folders(tmp_path)
    (there / FILE_NAME).write_text("")
    (here / FILE_NAME).symlink_to(there / FILE_NAME)
    for working in (here, there):
        assert find_files(working=working, user=there, environment={}) == ConfigFiles(there / FILE_NAME)


def test_a_named_file_is_the_only_one_and_the_option_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = folders(tmp_path)
    for folder in (here, there):
        (folder / FILE_NAME).write_text("")
    monkeypatch.chdir(here)
    for name in ("one.yaml", "two.yaml"):
        (here / name).write_text("")
    by_variable = {"PROCONTEXT_CONFIG": "one.yaml"}
    assert find_files(user=there, environment=by_variable) == ConfigFiles(here / "one.yaml")
    assert find_files("two.yaml", user=there, environment=by_variable) == ConfigFiles(here / "two.yaml")
    empty = {"PROCONTEXT_CONFIG": ""}
    assert find_files(user=there, environment=empty) == ConfigFiles(there / FILE_NAME, here / FILE_NAME)


@pytest.mark.parametrize("where", ["--config", "PROCONTEXT_CONFIG"])
def test_a_named_file_that_does_not_exist_is_an_error(where: str, tmp_path: Path) -> None:
    file = str(tmp_path / "absent.yaml")
    named, environment = (file, {}) if where == "--config" else (None, {where: file})
    with pytest.raises(ConfigError, match=f"{where}: there is no file .*absent"):
        load(named, environment=environment)


# (the bytes of a file, the error)
WRONG = [
    (b"\xff\xfe\x00", "is not YAML"),
    (b"2001-21-01: x", "is not YAML: month must be in 1..12"),
    (b"cache: {ttl_hours: 2001-02-31}", "is not YAML: day is out of range"),
    (b"cache: {max_bytes: " + b"9" * 5000 + b"}", "is not YAML: Exceeds the limit"),
    (b"[" * 3000, "is nested too deeply"),
    (b"a: " + b"{a: " * 3000, "is nested too deeply"),
    (b'sources: [{id: a, path: "a\\0b"}]', "has a NUL character in a string"),
    (b'sources: [{id: a, path: ., name: "\\ud800"}]', "has half of a surrogate pair in a string"),
    (b"cache: {ttl_hours: !!int ''}", "is not YAML"),
    (b"cache: {ttl_hours: !!bool x}", "is not YAML"),
    (b"cache: {ttl_hours: !!timestamp x}", "is not YAML"),
    (b"cache: &a {b: *a}", "has more than 100000 values"),
    (
        b"a: &a [x,x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a,*a]\n"
        b"c: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d,*d,*d]",
        "has more than 100000 values",
    ),
    (b"#" * (MAX_FILE_BYTES + 1), "is larger than 1048576 bytes"),
]


@pytest.mark.parametrize(("data", "problem"), WRONG, ids=range(len(WRONG)))
def test_a_file_that_cannot_be_used_is_an_error_that_names_it(
    data: bytes, problem: str, tmp_path: Path
) -> None:
    file = tmp_path / FILE_NAME
    file.write_bytes(data)
    with pytest.raises(ConfigError) as raised:
        read_yaml(file)
    assert problem in str(raised.value)
    assert str(file) in str(raised.value)


def test_a_file_that_is_removed_before_it_is_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        read_yaml(tmp_path / FILE_NAME)


def test_an_empty_file_has_no_settings(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text("# nothing\n")
    assert read_yaml(tmp_path / FILE_NAME) == {}
