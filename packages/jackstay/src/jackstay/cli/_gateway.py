"""`jackstay gateway CONFIG`: serve the servers of a configuration file behind one endpoint, over stdio or HTTP.

The HTTP options are those of `jackstay serve`; keys are in the file. See `docs/guides/gateway.md`.
"""

from argparse import ArgumentParser, Namespace

from jackstay.cli._commands import add_help
from jackstay.cli._logs import add_log_arguments, log_to_stderr
from jackstay.cli._serve import add_backend_argument, add_http_arguments, http_options, use_backend
from jackstay.proxy import Gateway

# One process has the upstream servers and all sessions. Keys are in the file, with what each of them may use.
UNSUPPORTED = ("--workers", "--sessions", "--path", "--auth-key-env", "--health")


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(parser, "CONFIG", examples=("gateway.toml --http 8000", "~/.config/mcp.json"))
    parser.add_argument("config", metavar="CONFIG", help="a TOML file, or an mcpServers file")
    add_http_arguments(parser, without=UNSUPPORTED)
    add_backend_argument(parser)
    add_log_arguments(parser)


def run(arguments: Namespace) -> int:
    """Serve until the client disconnects or a signal arrives. The exit codes are those of `jackstay serve`.

    Raises: UsageError for an invalid file or argument; TransportError if the port cannot be bound.
    """
    http = http_options(arguments)
    with log_to_stderr(arguments, logger=""):
        gateway = Gateway(arguments.config)
        use_backend(gateway, arguments)
        return gateway.run() if http is None else gateway.run(transport="http", **http)
