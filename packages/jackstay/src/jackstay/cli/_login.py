"""Signing in from a shell: `--login` opens the browser once, and what comes of it serves the next commands without it.

Tokens lie in the file of `jackstay.oauth.FileStore`. Without `--login` nobody is ever asked: a command in a script must not
open a browser. The sign-in comes before the connection, because people take longer than a server may.

Above: `_target`, `_running`. Below: `jackstay.oauth`.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, FileStore, Identity, OAuth, open_page
from jackstay.transport.http import (
    Challenge,
    Headers,
    HttpClient,
    HttpTarget,
    default_http_client,
    is_loopback,
)

# How a key is sent from a shell without standing in the list of processes.
WITH_KEY: Final = "--header 'Authorization: Bearer ${KEY}'"


def with_login(
    target: HttpTarget, is_wanted: bool
) -> tuple[HttpTarget, Callable[[], Awaitable[None]] | None]:
    """The server with the tokens of earlier sign-ins, and what to await before it is connected to, if anything.

    Raises: UsageError where `--login` cannot be.
    """
    if target.has_credentials:
        if is_wanted:
            raise UsageError(
                "--login and a header with credentials are two ways in: give one of them", path="--login"
            )
        return target, None
    if not target.url.startswith("https:") and not is_loopback(target.url):
        if is_wanted:
            raise UsageError("--login needs https: over http everybody reads the token", path="--login")
        return target, None
    oauth = OAuth(Identity(name="jackstay"), store=FileStore(), show=open_page if is_wanted else None)

    async def sign_in() -> None:
        client = default_http_client(verify=target.verify)
        try:
            await oauth.sign_in(client, target.url)
        except AuthorizationError as error:
            if not error.error:  # nobody said no: there is no way to sign in, or none for this program
                error.message += f"; if you have a key, send it instead: {WITH_KEY}"
            raise
        finally:
            await client.close()

    return target.authorized_by(Advising(oauth)), sign_in if is_wanted else None


class Advising:
    """An authorizer that says what to type where somebody has to sign in."""

    def __init__(self, oauth: OAuth) -> None:
        self._oauth = oauth

    async def headers(self, client: HttpClient, url: str) -> Headers:
        """The token, if there is one."""
        return await self._oauth.headers(client, url)

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """Another token, if there is one to be had."""
        try:
            return await self._oauth.challenged(client, challenge)
        except AuthorizationError as error:
            if error.error == "login_required":
                error.message = (
                    f"the server wants to know who you are: add --login to sign in at {error.issuer},"
                    f" or send the key you have: {WITH_KEY}"
                )
            raise
