"""`jackstay proxy TARGET`: forward clients to a server over stdio or HTTP, and restart the server when it fails.

The server is selected as in the other commands; the HTTP options are those of `jackstay serve`. The command fails if
the first start of the server fails. See `docs/proxy.md`.
"""

from argparse import SUPPRESS, ArgumentParser, Namespace
from typing import Any

from jackstay.cli._commands import add_help
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.cli._running import prepare_server
from jackstay.cli._serve import FLAGS, add_http_arguments, http_options
from jackstay.cli._target import add_server_arguments, select_only_server
from jackstay.errors import UsageError
from jackstay.protocol.client import SETTINGS, Settings
from jackstay.proxy import KEEPALIVE, Proxy, ProxyOptions

# One process owns the upstream server and all sessions, and sessions are always on.
UNSUPPORTED = ("--workers", "--sessions")

# Hidden to keep the help within 24 lines. See `docs/proxy.md` and `jackstay serve --help`.
HIDDEN = tuple(row.flag for row in FLAGS if row.flag != "--auth-key-env")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(
        parser,
        "URL | --config FILE TARGET | -- COMMAND ...",
        examples=("--http 8000 -- uvx mcp-server-git --repository .", "https://example.org/mcp"),
        more=" See also serve --help.",
    )
    parser.add_argument("words", nargs="*", metavar="TARGET", help=SUPPRESS)
    add_http_arguments(parser, without=UNSUPPORTED, hidden=HIDDEN)
    defaults = ProxyOptions()
    parser.add_argument("--per-client", action="store_true", help="start one server for each session")
    for flag, words in (
        ("--wait", f"how long calls wait for a lost server (default: {defaults.wait:g})"),
        ("--timeout", "limit for the server's response (default: none)"),
        ("--keepalive", f"ping the server after this silence (default: {KEEPALIVE:g})"),
    ):
        parser.add_argument(flag, type=float, metavar="SECONDS", default=None, help=words)
    parser.add_argument("--backoff", metavar="MIN[:MAX]", help="seconds between restarts (default: 1:30)", default=None)
    for flag in ("--metrics", "--status"):
        parser.add_argument(flag, action="store_true", default=None, help=SUPPRESS)
    add_server_arguments(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="print the command or URL of the server")
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve until the client disconnects or a signal arrives. The exit codes are those of `jackstay serve`.

    Raises: UsageError for invalid arguments; TransportError if the server cannot be started or reached, or the port
    cannot be bound.
    """
    values = {name: getattr(arguments, name) for name in ("wait", "timeout", "per_client", "metrics", "status")}
    options = ProxyOptions(**{name: value for name, value in values.items() if value is not None})
    http = http_options(arguments)
    if options.per_client and http is None:
        raise UsageError("--per-client requires --http: over stdio there is only one client", path="--per-client")
    for flag in ("metrics", "status"):
        if getattr(options, flag) and http is None:
            raise UsageError(f"--{flag} requires --http PORT", path=f"--{flag}")
    settings = _settings(arguments)
    selected = select_only_server(arguments)
    with log_to_stderr(arguments, logger=""):
        proxy = Proxy(selected.target, options, settings=settings, prepare=lambda: prepare_server(arguments, selected))
        return proxy.run() if http is None else proxy.run(transport="http", **http)


def _settings(arguments: Namespace) -> dict[str, Any]:
    """Return the settings of the upstream client. Raises: UsageError that names the flag."""
    settings: dict[str, Any] = {}
    if arguments.keepalive is not None:
        settings["keepalive"] = arguments.keepalive or None
    if arguments.backoff is not None:
        low, _, high = arguments.backoff.partition(":")
        try:
            settings["backoff_min"] = float(low)
            settings["backoff_max"] = float(high) if high else max(float(low), Settings().backoff_max)
        except ValueError:
            raise UsageError(
                f"--backoff expects MIN or MIN:MAX in seconds, got {arguments.backoff!r}", path="--backoff"
            ) from None
    for name, value in settings.items():
        try:
            SETTINGS[name].check(value)
        except UsageError as error:
            flag = f"--{name.partition('_')[0]}"
            raise UsageError(error.message.replace(name, flag, 1), path=flag) from error
    if settings.get("backoff_min", 0) > settings.get("backoff_max", 0):
        raise UsageError("--backoff: MIN must not be greater than MAX", path="--backoff")
    return settings
