"""`procontext setup`: add this server to a host; without one, download the newest registry and show which is used."""

import sys
import textwrap
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from jackstay.errors import UsageError
from jackstay.shell import (
    BOLD,
    DIM,
    GREEN,
    HOSTS,
    RED,
    HostedServer,
    Screen,
    StatusLine,
    escape_controls,
    find_host,
    install_server,
    uninstall_server,
)
from procontext.app import Application
from procontext.cli._application import add_config_option, run_with_application
from procontext.cli._main import DONE, USAGE
from procontext.cli._screen import print_error, print_json

NAME = "procontext"


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "procontext setup [HOST] [options]"
    hosts = ", ".join(host.name for host in HOSTS)
    parser.description = textwrap.fill(
        f"Add this server to a host: {hosts}. Without HOST, download the newest registry and show which one is used.",
        80,
    )
    parser.add_argument("host", nargs="?", metavar="HOST", help=SUPPRESS)
    parser.add_argument("--undo", action="store_true", help="remove the server from the host")
    parser.add_argument("--project", action="store_true", help="change the host's file of this directory")
    parser.add_argument("--dry-run", action="store_true", help="show the change to the host's file only")
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="without HOST: print the registry in use as JSON")


def run(arguments: Namespace) -> int:
    """Change the file of the host. Without a host, download, verify and install the registry."""
    if arguments.host is not None:
        return _change_host(arguments)

    async def work(application: Application) -> int:
        config = application.config.registry
        is_new = False
        if config.url is not None and config.path is None:
            with StatusLine("downloading the registry"):
                is_new = await application.refresh()
        registry = application.registry
        if arguments.json:
            row = {"version": registry.version, "libraries": len(registry), "origin": registry.origin}
            print_json({**row, "updated": is_new})
            return DONE
        version = Screen().paint(registry.version, BOLD)
        print(f"registry {version}: {len(registry)} libraries, from {registry.origin}")
        if is_new:
            print("It was just downloaded and verified.")
        elif config.path is not None:
            print("registry.path names this file, so nothing is downloaded.")
        elif config.url is None:
            print("No registry.url is set, so there is nowhere to look for a newer one; this one needs no network.")
        else:
            print(f"No newer registry at {config.url}")
        return DONE

    return run_with_application(arguments, work)


def _change_host(arguments: Namespace) -> int:
    try:
        host = find_host(arguments.host)
        places = {"in_project": arguments.project, "dry_run": arguments.dry_run}
        if arguments.undo:
            change = uninstall_server(host, NAME, **places)
        else:
            # A host that is started from a desktop has another PATH and working directory.
            settings = ["serve", "--config", str(Path(arguments.config).absolute())] if arguments.config else []
            server = HostedServer((sys.executable, "-m", "procontext", *settings))
            change = install_server(host, NAME, server, replace=True, **places)
    except UsageError as error:
        print_error(error.message)
        return USAGE
    screen = Screen()
    colours = {"+": GREEN, "-": RED}
    for line in change.difference:
        screen.print_line(screen.paint(escape_controls(line), colours.get(line[:1], DIM)))
    print("\n".join(change.report))
    return DONE
