"""`procontext resolve NAME`: which libraries a name may mean."""

from argparse import ArgumentParser, Namespace

from procontext.app import Application
from procontext.cli._asking import add_common, ask
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import as_rows, print_error, print_json, styled


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", help="a library, package or import name, with or without a version")
    add_common(parser)


def run(arguments: Namespace) -> int:
    """Print the matches; exit code 1 if there is none."""

    async def work(application: Application) -> int:
        found = await application.tools.resolve_library(arguments.name)
        if arguments.json:
            print_json(found)
        elif not found.matches:
            print_error(
                f"{arguments.name!r} is not a library that is known here",
                "Try the name it is installed by; `sources` in procontext.yaml adds your own.",
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
            first, _, rest = as_rows(rows).partition("\n")
            print(styled(first, "bold") + (f"\n{rest}" if rest else ""))
        return DONE if found.matches else FAILED

    return ask(arguments, work)
