"""`procontext fetch LIBRARY...`: into the cache, to read and search without a network."""

import sys
from argparse import ArgumentParser, Namespace
from typing import Final

from procontext.app import Application
from procontext.cli._asking import add_common, advice, ask, find_library
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import ProgressBar, print_error, print_json, styled
from procontext.errors import ProContextError
from procontext.tools import envelope

WHEN_LEFT_OUT: Final = (
    "procontext doctor looks at the network and at the cache; procontext read URL says more of one page."
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("libraries", nargs="+", metavar="library", help="identifiers, or any names")
    add_common(parser)


def _counted(pages: int) -> str:
    return "1 page is" if pages == 1 else f"{pages} pages are"


def run(arguments: Namespace) -> int:
    """Fetch one after the other; one that fails does not keep the others from being fetched."""

    async def work(application: Application) -> int:
        libraries = [find_library(application, name) for name in arguments.libraries]  # all names first
        documents = await application.documents()
        told: dict[str, object] = {}
        code = DONE
        for library in libraries:
            bar = ProgressBar(library.id)
            try:
                pages = await documents.prefetch(library, bar)
            except ProContextError as error:
                bar.close()
                told[library.id], code = envelope(error), FAILED
                print_error(error.message, advice(error, arguments))
                continue
            finally:  # also when it is interrupted: the shell's line comes next
                bar.close()
            left_out = bar.total - pages
            told[library.id] = {"pages": pages, "left_out": left_out} if left_out else {"pages": pages}
            if left_out and not pages:
                code = FAILED
                which = "the one page" if left_out == 1 else f"none of the {left_out} pages"
                could = "could not" if left_out == 1 else "could"
                print_error(f"{which} of {library.id} {could} be stored", WHEN_LEFT_OUT)
            elif not arguments.json:
                more = f", {left_out} could not be stored" if left_out else ""
                print(f"{styled(library.id, 'green')}: {_counted(pages)} in the cache{more}")
        if arguments.json:
            print_json(told)
        sys.stdout.flush()
        return code

    return ask(arguments, work)
