"""OAuth sign-in for commands: `--login` opens the browser, and later commands reuse the stored tokens.

Tokens are stored by `jackstay.oauth.FileStore`. Without `--login` no browser is opened, so that scripts never block.
The sign-in happens before the connection is opened, because it may take longer than the connection timeout.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from jackstay.errors import UsageError
from jackstay.oauth import AuthorizationError, FileStore, Identity, OAuth, open_browser
from jackstay.transport.http import Challenge, HttpClient, HttpTarget, default_http_client, is_loopback

# How to send a key from a shell without exposing it in the process list.
KEY_HINT: Final = "--header 'Authorization: Bearer ${KEY}'"


def with_login(target: HttpTarget, is_wanted: bool) -> tuple[HttpTarget, Callable[[], Awaitable[None]] | None]:
    """Return the target with OAuth, and a function to await before connecting (None without `--login`).

    Raises: UsageError if `--login` cannot be used with this target.
    """
    is_plain = not target.url.startswith("https:") and not is_loopback(target.url)
    if is_wanted and target.has_credentials:
        raise UsageError(
            "--login cannot be combined with a header that contains credentials; use one of them", path="--login"
        )
    if is_wanted and is_plain:
        raise UsageError("--login requires https: plain http would expose the token", path="--login")
    if is_plain or target.has_credentials:
        return target, None
    oauth = HintingOAuth(Identity(name="jackstay"), store=FileStore(), show=open_browser if is_wanted else None)
    oauth.sign_in_timeout = 0.0  # the user signs in before the connection is opened

    async def sign_in() -> None:
        client = default_http_client(verify=target.verify)
        try:
            await oauth.sign_in(client, target.url)
        except AuthorizationError as error:
            if not error.error:  # not rejected by the server: it supports no sign-in, or none for this client
                error.message += f"; if you have a key, send it instead: {KEY_HINT}"
            raise
        finally:
            await client.close()

    return target.with_authorizer(oauth), sign_in if is_wanted else None


class HintingOAuth(OAuth):
    """OAuth whose error explains how to sign in from the command line."""

    async def challenged(self, client: HttpClient, challenge: Challenge) -> bool:
        """Get another token if possible. Returns True if the request can be sent again."""
        try:
            return await super().challenged(client, challenge)
        except AuthorizationError as error:
            if error.error == "login_required":
                error.message = (
                    f"the server requires authorization: add --login to sign in at {error.issuer},"
                    f" or send a key: {KEY_HINT}"
                )
            raise
