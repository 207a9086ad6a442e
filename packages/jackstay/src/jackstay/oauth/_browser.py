"""Sending people to sign in: the system's browser there, the listener on loopback for the way back.

The URL is also written to standard error, because on many machines no browser opens: the reader of a remote shell copies it.
It is not logged: it belongs to this sign-in, and logs are kept.

Above: `_oauth`. Below: `_listener`, the `webbrowser` module.
"""

import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from jackstay.oauth._flow import has_state
from jackstay.oauth._listener import RedirectListener

# What a program gives instead of a browser: takes the URL to sign in at, returns the URL it was sent back to.
Redirect: TypeAlias = Callable[[str], Awaitable[str]]

# People look for their password, their phone and their second factor.
SIGN_IN_SECONDS = 300.0


def open_page(url: str) -> None:
    """Show the URL on standard error, and open it in the system's browser if there is one."""
    print(f"To sign in, open this page in your browser:\n\n    {url}\n", file=sys.stderr, flush=True)
    # On a thread that nobody waits for: a browser in the terminal runs until the user leaves it.
    threading.Thread(target=_open_quietly, args=(url,), name="jackstay-browser", daemon=True).start()


def _open_quietly(url: str) -> None:
    import webbrowser  # noqa: PLC0415 - looks around on the machine, and few sign-ins need it

    try:
        webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # the URL stands on standard error


async def through_browser(
    url: str, redirect_uri: str, state: str, seconds: float, show: Callable[[str], None]
) -> str:
    """Show people `url`; returns where the browser was sent back to.

    Raises: AuthorizationError when nobody came back in time; UsageError where nothing can listen at `redirect_uri`.
    """
    async with RedirectListener(redirect_uri, lambda target: has_state(target, state)) as listener:
        show(url)
        return await listener.answer(seconds)
