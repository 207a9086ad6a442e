"""`procontext` and `procontext serve`: the MCP server, over stdio or HTTP as the settings say."""

from argparse import ArgumentParser, Namespace

import msgspec

from jackstay.errors import McpError
from procontext.cli._asking import add_config, settings
from procontext.cli._main import FAILED, USAGE
from procontext.cli._numbers import port
from procontext.cli._screen import print_error
from procontext.config import Config
from procontext.config_files import find_files
from procontext.errors import ConfigError


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments; each but `--config` is a setting, too."""
    add_config(parser)
    parser.add_argument(
        "--transport",
        metavar="HOW",
        choices=("stdio", "http"),
        help="stdio or http (setting server.transport)",
    )
    parser.add_argument("--host", help="where to listen, over HTTP (server.host)")
    parser.add_argument("--port", type=port, help="the port, over HTTP; 0 takes a free one (server.port)")
    parser.add_argument(
        "--offline", action="store_true", help="serve what is in the cache, and fetch nothing"
    )


def run(arguments: Namespace) -> int:
    """Serve until the client is gone or a signal comes."""
    from procontext.app import serve  # noqa: PLC0415  # what is wrong with the settings is told sooner

    try:
        config = _with(arguments, settings(arguments))
        return serve(config, find_files(arguments.config))
    except ConfigError as error:
        print_error(str(error))
        return USAGE
    except McpError as error:  # the port is taken, the extra is missing
        print_error(str(error))
        return FAILED


def _with(arguments: Namespace, config: Config) -> Config:
    typed = {
        name: getattr(arguments, name)
        for name in ("transport", "host", "port")
        if getattr(arguments, name) is not None
    }
    if not typed:
        return config
    server = msgspec.structs.replace(config.server, **typed)
    unused = next((f"--{name}" for name in ("host", "port") if name in typed), None)
    if server.transport == "stdio" and unused is not None:
        raise ConfigError(unused, "is for HTTP: say --transport http as well")
    return msgspec.structs.replace(config, server=server)
