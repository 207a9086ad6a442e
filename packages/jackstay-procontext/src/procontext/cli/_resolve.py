"""`procontext resolve NAME`: find libraries by name."""

from argparse import ArgumentParser, Namespace

from jackstay.shell import Screen
from procontext.app import Application
from procontext.cli._application import add_common_options, run_with_application
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import print_error, print_json


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", help="the name of a library, package or module, with or without a version")
    add_common_options(parser)


def run(arguments: Namespace) -> int:
    """Print the matches; exit code 1 if there is none."""

    async def work(application: Application) -> int:
        found = await application.tools.resolve_library(arguments.name)
        if arguments.json:
            print_json(found)
        elif not found.matches:
            print_error(
                f"no library found for {arguments.name!r}",
                "Try the name of its package. To add a library, use `sources` in procontext.yaml.",
            )
        else:
            rows = [
                (
                    match.library_id,
                    match.name,
                    f"{match.matched_via} {match.relevance:g}",
                    match.docs_url or "-",
                )
                for match in found.matches
            ]
            Screen().table(("LIBRARY", "NAME", "MATCH", "DOCUMENTATION"), rows)
        return DONE if found.matches else FAILED

    return run_with_application(arguments, work)
