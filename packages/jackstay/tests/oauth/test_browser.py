"""The sign-in page: always printed, and opened if there is a browser."""

import asyncio
import threading
import webbrowser

import pytest

from jackstay.oauth import open_browser
from jackstay.oauth._browser import free_port, sign_in_with_browser
from scripted.oauth import PlainClient


def browsers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jackstay-browser"]


@pytest.mark.parametrize("error", [None, webbrowser.Error("none"), OSError("none")])
def test_the_page_is_printed_to_stderr_and_opened_if_there_is_a_browser(
    error: Exception | None, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = []

    def opens(url: str) -> bool:
        opened.append(url)
        if error is not None:
            raise error
        return True

    monkeypatch.setattr(webbrowser, "open", opens)
    open_browser("https://as.example/authorize?x")
    for thread in browsers():
        thread.join(120)
    captured = capsys.readouterr()
    assert opened == ["https://as.example/authorize?x"]
    assert captured.out == ""
    assert "    https://as.example/authorize?x\n" in captured.err


async def test_the_listener_runs_before_the_page_is_opened() -> None:
    uri = f"http://127.0.0.1:{free_port()}/callback"
    done = []

    def show(url: str) -> None:
        async def redirect() -> None:
            response = await PlainClient().send("GET", f"{uri}?state=s&code=c", (), None)
            await response.close()

        done.append(asyncio.get_running_loop().create_task(redirect()))

    assert await sign_in_with_browser("https://as.example/", uri, "s", 20, show) == f"{uri}?state=s&code=c"
    await done[0]
