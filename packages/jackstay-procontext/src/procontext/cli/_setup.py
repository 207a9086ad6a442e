"""`procontext setup`: get the newest registry from where the settings say, and tell which one is used (reference, section 8)."""

from argparse import ArgumentParser, Namespace

from procontext.app import Application
from procontext.cli._asking import add_config, ask
from procontext.cli._main import DONE
from procontext.cli._screen import print_json, styled


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print what is used as JSON")


def run(arguments: Namespace) -> int:
    """Download, check and put in place; without `registry.url` the registry in the package is all there is."""

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
        print(
            f"registry {styled(registry.version, 'bold')}: {len(registry)} libraries, from {registry.origin}"
        )
        if is_new:
            print("It was just downloaded and checked.")
        elif config.path is not None:
            print("The settings name this file (registry.path), so nothing is downloaded.")
        elif config.url is None:
            print(
                "No registry.url is set, so there is nowhere to look for a newer one; this one needs no network."
            )
        else:
            print(f"{config.url} has no newer one.")
        return DONE

    return ask(arguments, work)
