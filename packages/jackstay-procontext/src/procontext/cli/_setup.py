"""`procontext setup`: download the newest registry from `registry.url` and show which registry is used."""

from argparse import ArgumentParser, Namespace

from procontext.app import Application
from procontext.cli._application import add_config_option, run_with_application
from procontext.cli._main import DONE
from procontext.cli._screen import print_json, styled


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the registry in use as JSON")


def run(arguments: Namespace) -> int:
    """Download, verify and install the registry. Without `registry.url`, only show the one in use."""

    async def work(application: Application) -> int:
        config = application.config.registry
        is_new = False
        if config.url is not None and config.path is None:
            is_new = await application.refresh()
        registry = application.registry
        if arguments.json:
            row = {"version": registry.version, "libraries": len(registry), "origin": registry.origin}
            print_json({**row, "updated": is_new})
            return DONE
        print(f"registry {styled(registry.version, 'bold')}: {len(registry)} libraries, from {registry.origin}")
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
