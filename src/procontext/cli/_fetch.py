"""`procontext fetch LIBRARY...`: into the cache, to read and search without a network."""

import sys
from argparse import ArgumentParser, Namespace

from procontext.app import Application
from procontext.cli._asking import add_common, advice, ask, find_library
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import ProgressBar, print_error, print_json, styled
from procontext.errors import ProContextError
from procontext.tools import envelope


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("libraries", nargs="+", metavar="library", help="identifiers, or any names")
    add_common(parser)


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
            told[library.id] = {"pages": pages}
            if not arguments.json:
                print(f"{styled(library.id, 'green')}: {pages} pages are in the cache")
        if arguments.json:
            print_json(told)
        sys.stdout.flush()
        return code

    return ask(arguments, work)
