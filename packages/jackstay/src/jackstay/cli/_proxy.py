"""`jackstay proxy TARGET`: put a steady endpoint in front of any server, over stdio or over HTTP.

The server is named as for every other command; `--http` and what belongs to it are those of `jackstay serve`. It is started at
once, and one that cannot be is told at once, as everywhere. From then on it is held: see `jackstay.proxy`.
"""

import sys
from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import Any

from jackstay.cli._logs import Logs, add_log_arguments
from jackstay.cli._screen import DIM, Screen, clean
from jackstay.cli._serve import add_http_arguments, http_options
from jackstay.cli._target import Chosen, add_server_arguments, choose, take_no_more
from jackstay.errors import UsageError
from jackstay.protocol.client import SETTINGS, Settings
from jackstay.proxy import KEEPALIVE, Proxy, ProxyOptions

EXAMPLES = (
    "--http 8000 -- uvx mcp-server-git --repository .",
    "https://example.org/mcp",
)

# One process holds the server and every session; a second would have another.
NOT_HERE = ("--workers", "--sessions")

# In `docs/proxy.md`, and as `jackstay serve --help` has them.
UNSHOWN = (
    "--path",
    "--allow-host",
    "--cors",
    "--health",
    "--tls-cert",
    "--tls-key",
    "--trusted-proxy",
    "--access-log",
    "--metrics",
    "--status",
)


def add_arguments(parser: ArgumentParser) -> None:
    """Which server, where to serve it, and how patiently."""
    parser.usage = "jackstay proxy [options] URL | --config FILE TARGET | -- COMMAND ..."
    parser.description = f"{parser.description or ''} HTTP options as for serve."
    lines = "".join(f"  jackstay proxy {example}\n" for example in EXAMPLES)
    parser.epilog = f"examples:\n{lines}{parser.epilog or ''}"
    parser.add_argument("words", nargs="*", metavar="TARGET", help=SUPPRESS)
    add_http_arguments(parser, without=NOT_HERE, unshown=UNSHOWN)
    usual = ProxyOptions()
    parser.add_argument("--per-client", action="store_true", help="a server of its own for every session")
    for flag, words in (
        ("--wait", f"calls wait so long for a lost server (default: {usual.wait:g})"),
        ("--timeout", "it may take so long to answer (default: no limit)"),
        ("--keepalive", f"check it after so long in silence (default: {KEEPALIVE:g})"),
    ):
        parser.add_argument(flag, type=float, metavar="SECONDS", default=None, help=words)
    parser.add_argument(
        "--backoff", metavar="MIN[:MAX]", help="seconds between two starts (default: 1:30)", default=None
    )
    for flag, words in (("--metrics", "numbers for Prometheus at /metrics"), ("--status", "a page at /")):
        parser.add_argument(
            flag, action="store_true", default=None, help=SUPPRESS if flag in UNSHOWN else words
        )
    add_server_arguments(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="say what is started")
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve until the client is gone; the exit code is as for `jackstay serve`.

    Raises: UsageError for words that say no server or two; TransportError, if the server cannot be started or reached, or
    the port cannot be had.
    """
    options = _options(arguments)
    http = http_options(arguments)
    if options.per_client and http is None:
        raise UsageError("--per-client is for HTTP: over stdio there is one client", path="--per-client")
    for flag in ("metrics", "status"):
        if getattr(options, flag) and http is None:
            raise UsageError(f"--{flag} is for HTTP: add --http PORT", path=f"--{flag}")
    settings = _settings(arguments)
    chosen, words = choose(arguments)
    take_no_more(words)
    with Logs(arguments.log_level, arguments.log_format, logger=""):
        proxy = Proxy(chosen.target, options, settings=settings, prepare=lambda: _prepare(arguments, chosen))
        return proxy.run() if http is None else proxy.run(transport="http", **http)


def _options(arguments: Namespace) -> ProxyOptions:
    given = {
        name: getattr(arguments, name) for name in ("wait", "timeout", "per_client", "metrics", "status")
    }
    return ProxyOptions(**{name: value for name, value in given.items() if value is not None})


def _settings(arguments: Namespace) -> dict[str, Any]:
    """The settings of the client behind. Raises: UsageError, naming the flag."""
    found: dict[str, Any] = {}
    if arguments.keepalive is not None:
        found["keepalive"] = arguments.keepalive or None
    if arguments.backoff is not None:
        low, _, high = arguments.backoff.partition(":")
        try:
            found["backoff_min"] = float(low)
            found["backoff_max"] = float(high) if high else max(float(low), Settings().backoff_max)
        except ValueError:
            raise UsageError(
                f"--backoff expects MIN or MIN:MAX in seconds, got {arguments.backoff!r}", path="--backoff"
            ) from None
    for name, flag in (
        ("keepalive", "--keepalive"),
        ("backoff_min", "--backoff"),
        ("backoff_max", "--backoff"),
    ):
        if name in found:
            try:
                SETTINGS[name].check(found[name])
            except UsageError as error:
                raise UsageError(error.message.replace(name, flag, 1), path=flag) from error
    if found.get("backoff_min", 0) > found.get("backoff_max", 0):
        raise UsageError("--backoff: MIN must not be above MAX", path="--backoff")
    return found


async def _prepare(arguments: Namespace, chosen: Chosen) -> None:
    if arguments.verbose:
        note = Screen(sys.stderr)
        doing = "connecting to" if chosen.target.is_http else "starting"
        note.say(note.paint(f"{doing}: {clean(chosen.shown)}", DIM))
    if chosen.sign_in is not None:
        await chosen.sign_in()
