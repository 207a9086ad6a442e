"""`procontext setup`: add this server to a host; without one, download the newest registry and show which is used."""

import sys
import textwrap
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path

from jackstay.errors import UsageError
from jackstay.shell import (
    BOLD,
    HOSTS,
    HostedServer,
    Screen,
    StatusLine,
    config_text,
    find_host,
    install_server,
    to_entry,
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
    parser.add_argument("--print-config", action="store_true", help="print the configuration for the host instead")
    parser.add_argument("--url", help="the URL of a running `procontext serve --transport http`")
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
        screen = Screen()
        version = screen.paint(registry.version, BOLD)
        screen.print_line(f"registry {version}: {len(registry)} libraries, from {registry.origin}")
        if is_new:
            screen.print_line("It was just downloaded and verified.")
        elif config.path is not None:
            screen.print_line("registry.path names this file, so nothing is downloaded.")
        elif config.url is None:
            screen.print_line("No registry.url is set, so there is no newer one; this one needs no network.")
        else:
            screen.print_line(f"No newer registry at {config.url}")
        return DONE

    return run_with_application(arguments, work)


def _change_host(arguments: Namespace) -> int:
    try:
        host = find_host(arguments.host)
        if arguments.print_config:
            path = host.path(in_project=arguments.project)
            Screen(sys.stderr).print_line(f"For {host.title}, in {path}:")
            Screen().print_line(config_text(host, NAME, to_entry(host, NAME, _server(arguments))))
            return DONE
        places = {"in_project": arguments.project, "dry_run": arguments.dry_run}
        if arguments.undo:
            change = uninstall_server(host, NAME, **places)
        else:
            change = install_server(host, NAME, _server(arguments), replace=True, **places)
    except UsageError as error:
        print_error(error.message)
        return USAGE
    change.show()
    return DONE


def _server(arguments: Namespace) -> HostedServer:
    """Return this server as a host starts it, or the URL of one that is running."""
    if arguments.url is not None:
        return HostedServer(url=arguments.url)
    # A host that is started from a desktop has another PATH and working directory.
    settings = ["serve", "--config", str(Path(arguments.config).absolute())] if arguments.config else []
    return HostedServer((sys.executable, "-m", "procontext", *settings))
