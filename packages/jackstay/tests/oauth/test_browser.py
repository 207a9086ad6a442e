"""Sending people to a page: shown always, opened where that works."""

import threading
import webbrowser

import pytest

from jackstay.oauth import open_page
from jackstay.oauth._browser import through_browser
from jackstay.oauth._listener import free_port
from scripted.loop import timed
from scripted.oauth import PlainClient


def browsers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jackstay-browser"]


@pytest.mark.parametrize("trouble", [None, webbrowser.Error("none"), OSError("none")])
def test_the_page_is_shown_on_standard_error_and_opened_if_there_is_a_browser(
    trouble: Exception | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = []

    def opens(url: str) -> bool:
        opened.append(url)
        if trouble is not None:
            raise trouble
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    open_page("https://as.example/authorize?x")
    for thread in browsers():
        thread.join(20)
    captured = capsys.readouterr()
    assert opened == ["https://as.example/authorize?x"]
    assert captured.out == ""
    assert "    https://as.example/authorize?x\n" in captured.err


@timed
async def test_the_listener_is_there_before_the_page_is_shown() -> None:
    uri = f"http://127.0.0.1:{free_port()}/callback"
    done = []

    def show(url: str) -> None:
        async def come_back() -> None:
            response = await PlainClient().send("GET", f"{uri}?state=s&code=c", (), None)
            await response.close()

        done.append(asyncio_task(come_back()))

    assert await through_browser("https://as.example/", uri, "s", 20, show) == f"{uri}?state=s&code=c"
    await done[0]


def asyncio_task(coroutine):  # type: ignore[no-untyped-def]  # a line of asyncio
    import asyncio

    return asyncio.get_running_loop().create_task(coroutine)
