"""`procontext` and `procontext serve`: run the MCP server over stdio or HTTP."""

from argparse import ArgumentParser, Namespace

import msgspec

from jackstay.errors import McpError
from procontext.cli._application import add_config_option, settings
from procontext.cli._main import FAILED, USAGE
from procontext.cli._numbers import port
from procontext.cli._screen import print_error
from procontext.config import Config
from procontext.config_files import find_files
from procontext.errors import ConfigError


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments; all but `--config` are also settings."""
    add_config_option(parser)
    parser.add_argument(
        "--transport",
        metavar="HOW",
        choices=("stdio", "http"),
        help="stdio or http (setting server.transport)",
    )
    parser.add_argument("--host", help="the address to listen on, for HTTP (server.host)")
    parser.add_argument("--port", type=port, help="the port to listen on, for HTTP; 0 is any free port (server.port)")
    parser.add_argument("--backend", metavar="URL", help="share sessions in this Redis, for HTTP (server.backend)")
    parser.add_argument("--offline", action="store_true", help="serve only from the cache; fetch nothing")


def run(arguments: Namespace) -> int:
    """Serve until the client disconnects or a signal arrives."""
    from procontext.app import serve  # noqa: PLC0415  # errors in the settings are reported sooner

    try:
        config = _with_options(arguments, settings(arguments))
        return serve(config, find_files(arguments.config))
    except ConfigError as error:
        print_error(str(error))
        return USAGE
    except McpError as error:  # the port is taken, the extra is missing
        print_error(str(error))
        return FAILED


def _with_options(arguments: Namespace, config: Config) -> Config:
    options = {
        name: getattr(arguments, name)
        for name in ("transport", "host", "port", "backend")
        if getattr(arguments, name) is not None
    }
    if not options:
        return config
    server = msgspec.structs.replace(config.server, **options)
    unused = next((f"--{name}" for name in ("host", "port", "backend") if name in options), None)
    if server.transport == "stdio" and unused is not None:
        raise ConfigError(unused, "has no effect with the stdio transport; add --transport http")
    return msgspec.structs.replace(config, server=server)
