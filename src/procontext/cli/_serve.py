"""`procontext` and `procontext serve`: the MCP server, over stdio or HTTP as the settings say."""

from argparse import ArgumentParser, Namespace

import msgspec

from mooring.errors import McpError
from procontext.cli._asking import settings
from procontext.cli._main import FAILED, USAGE
from procontext.cli._screen import print_error
from procontext.config import Config
from procontext.errors import ConfigError


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments; each is a setting, too."""
    parser.add_argument("--transport", choices=("stdio", "http"), help="as server.transport")
    parser.add_argument("--host", help="as server.host")
    parser.add_argument("--port", type=int, help="as server.port; 0 takes a free one")
    parser.add_argument(
        "--offline", action="store_true", help="serve what is in the cache, and fetch nothing"
    )


def run(arguments: Namespace) -> int:
    """Serve until the client is gone or a signal comes."""
    from procontext.app import serve  # noqa: PLC0415  # what is wrong with the settings is told sooner

    try:
        return serve(_with(arguments, settings(arguments)))
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
    if not 0 <= typed.get("port", 0) < 65536:
        raise ConfigError("--port", f"must be from 0 to 65535, not {typed['port']}")
    if not typed:
        return config
    return msgspec.structs.replace(config, server=msgspec.structs.replace(config.server, **typed))
