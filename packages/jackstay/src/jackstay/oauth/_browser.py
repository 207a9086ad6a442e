"""Sign-in with the system's browser and a listener on loopback for the redirect.

The URL is also printed to stderr for machines without a browser. It is not logged, because it belongs to one sign-in.
"""

import sys
import threading
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from jackstay.oauth._flow import has_state
from jackstay.oauth._listener import RedirectListener

# Replaces the browser: receives the URL to sign in at and returns the URL of the redirect.
Redirect: TypeAlias = Callable[[str], Awaitable[str]]

# Time for the user to find password, phone and second factor.
SIGN_IN_SECONDS = 300.0


def open_browser(url: str) -> None:
    """Print the URL to stderr and open it in the system's browser, if there is one."""
    print(f"To sign in, open this page in your browser:\n\n    {url}\n", file=sys.stderr, flush=True)
    open_in_browser(url)


def open_in_browser(url: str) -> None:
    """Open a URL in the system's browser, if there is one."""
    # On a daemon thread: a terminal browser runs until the user quits it.
    threading.Thread(target=_open_quietly, args=(url,), name="jackstay-browser", daemon=True).start()


def _open_quietly(url: str) -> None:
    import webbrowser  # noqa: PLC0415 - slow to import, and rarely needed

    try:
        webbrowser.open(url)
    except (webbrowser.Error, OSError):
        return  # the caller has printed the URL


async def sign_in_with_browser(
    url: str, redirect_uri: str, state: str, seconds: float, show: Callable[[str], None]
) -> str:
    """Call `show(url)` and return the URL of the redirect.

    Raises: AuthorizationError after `seconds` without a redirect; UsageError if `redirect_uri` cannot be listened on.
    """
    async with RedirectListener(redirect_uri, lambda target: has_state(target, state)) as listener:
        show(url)
        return await listener.callback(seconds)
