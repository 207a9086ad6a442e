"""Tokens in a file: private, replaced atomically, shared by programs; other files are never overwritten."""

import asyncio
import json
import os
import pwd
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from jackstay.errors import UsageError
from jackstay.oauth import FileStore, TokenStore
from jackstay.oauth import _file_store as storing
from jackstay.oauth._file_store import default_path
from jackstay.testing import store_suites


async def test_a_saved_value_is_available_to_another_store(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "tokens.json"
    store = FileStore(path)
    assert await store.load("k") is None
    assert not path.parent.exists()
    await store.save("k", b'{"a":1}')
    await store.save("other", b"2")
    assert await FileStore(str(path)).load("k") == b'{"a":1}'
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    await store.save("k", None)
    await store.save("k", None)
    assert await store.load("k") is None
    assert await store.load("other") == b"2"
    assert repr(store) == f"FileStore({str(path)!r})"


async def test_a_crash_while_writing_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FileStore(tmp_path / "tokens.json")
    await store.save("k", b"1")

    def crash(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", crash)
    with pytest.raises(UsageError, match=r"cannot write token file .*No space left"):
        await store.save("k", b"2")
    assert await store.load("k") == b"1"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tokens.json", "tokens.json.lock"]


async def test_a_file_of_another_format_is_neither_used_nor_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "bashrc"
    store = FileStore(path)
    for body in (
        *(b"", b"{", b"[1]", b'{"format":"other","entries":{}}', b"export PATH=...\n", b'{"entries":{}}'),
        *(b'{"format":"\xff","entries":{}}', b'{"other":' + b"[" * 50_000),
    ):
        path.write_bytes(body)
        for attempt in (store.load("k"), store.save("k", b"1")):
            with pytest.raises(UsageError, match=r"not a token file; move or delete it"):
                await attempt
        assert path.read_bytes() == body


async def test_a_file_that_others_can_read_is_logged_and_made_private(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "tokens.json"
    store = FileStore(path)
    await store.save("k", b"1")
    path.chmod(0o644)
    assert await store.load("k") == b"1"
    assert "is readable by others" in caplog.text
    await store.save("k", b"2")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_a_file_that_others_can_write_is_refused_and_not_changed(tmp_path: Path) -> None:
    """Its tokens may be those of another user, who would then see the data that is sent."""
    path = tmp_path / "tokens.json"
    store = FileStore(path)
    await store.save("k", b"1")
    for mode in (0o620, 0o602, 0o666, 0o660):
        path.chmod(mode)
        for attempt in (store.load("k"), store.save("k", b"2")):
            with pytest.raises(UsageError, match=f"writable by others .mode {mode:o}"):
                await attempt
        path.chmod(0o600)
        assert await store.load("k") == b"1"


async def test_a_file_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "tokens.json"
    store = FileStore(path)
    await store.save("k", b"1")
    owner = pwd.getpwuid(os.geteuid()).pw_name
    monkeypatch.setattr(storing.os, "geteuid", lambda: 987_653)
    for attempt in (store.load("k"), store.save("k", b"2")):
        with pytest.raises(UsageError, match=f"is owned by {owner}; it must be owned by you"):
            await attempt


def test_a_user_without_a_name_is_shown_by_number() -> None:
    assert storing._user_name(4_000_000_001) == "user 4000000001"


async def test_an_unreadable_or_unwritable_path_is_named(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(UsageError, match="folder: Is a directory"):
        await FileStore(tmp_path / "folder").load("k")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="cannot write token file"):
        await FileStore(tmp_path / "file" / "tokens.json").save("k", b"1")


async def test_concurrent_saves_lose_nothing(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "tokens.json")
    await asyncio.gather(*(store.save(f"k{number}", b"%d" % number) for number in range(30)))
    assert [await store.load(f"k{number}") for number in range(30)] == [b"%d" % n for n in range(30)]


def test_several_programs_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        f"sys.path.insert(0, {str(Path(storing.__file__).parents[2])!r})\n"
        "from jackstay.oauth import FileStore\n"
        "async def main():\n"
        "    for n in range(20): await FileStore(sys.argv[1]).save(f'{sys.argv[2]} {n}', b'1')\n"
        "asyncio.run(main())\n"
    )
    path = tmp_path / "tokens.json"
    running = [subprocess.Popen([sys.executable, "-c", code, str(path), str(n)]) for n in range(4)]
    assert [program.wait(120) for program in running] == [0] * 4
    assert len(json.loads(path.read_bytes())["entries"]) == 80


class TestFileStore(store_suites.TokenStoreSuite):
    @pytest.fixture(autouse=True)
    def _set_path(self, tmp_path: Path) -> None:
        self.path = tmp_path / "deep" / "tokens.json"

    def make(self) -> tuple[TokenStore, TokenStore]:
        return FileStore(self.path), FileStore(self.path)


async def test_a_lock_file_that_cannot_be_created_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(UsageError, match=r"cannot create lock file .*file/tokens"):
        async with FileStore(tmp_path / "file" / "tokens.json").lock("k"):
            pass


async def test_a_cancelled_save_is_finished(tmp_path: Path) -> None:
    """A token of a sign-in is not lost because a call timed out."""
    store = FileStore(tmp_path / "tokens.json")
    saving = asyncio.create_task(store.save("k", b"1"))
    await asyncio.sleep(0)
    saving.cancel()
    await asyncio.gather(saving, return_exceptions=True)
    assert saving.cancelled()
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})
    assert await store.load("k") == b"1"


def test_the_default_path_is_that_of_the_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    for platform, variable, value, expected in (
        ("linux", "XDG_CONFIG_HOME", "/conf", "/conf/jackstay/tokens.json"),
        ("linux", "XDG_CONFIG_HOME", "relative", "/home/me/.config/jackstay/tokens.json"),
        ("linux", "XDG_CONFIG_HOME", "", "/home/me/.config/jackstay/tokens.json"),
        ("darwin", "XDG_CONFIG_HOME", "/conf", "/home/me/Library/Application Support/jackstay/tokens.json"),
        ("win32", "APPDATA", "/roaming", "/roaming/jackstay/tokens.json"),
        ("win32", "APPDATA", "", "/home/me/AppData/Roaming/jackstay/tokens.json"),
    ):
        with monkeypatch.context() as patch:
            patch.setenv(variable, value)
            patch.setattr(storing.sys, "platform", platform)
            assert default_path() == Path(expected) == FileStore().path


async def test_without_file_locks_it_works_for_one_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fcntl", None)
    store = FileStore(tmp_path / "tokens.json")
    async with store.lock("k"):
        await store.save("k", b"1")
    assert await store.load("k") == b"1"
    assert not (tmp_path / "tokens.json.lock").exists()
