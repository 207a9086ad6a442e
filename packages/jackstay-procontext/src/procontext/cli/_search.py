"""`procontext search LIBRARY WORDS`: full-text search in what is cached of a library."""

from argparse import ArgumentParser, Namespace

from procontext.app import Application
from procontext.cli._asking import add_common, ask, find_library
from procontext.cli._main import DONE, FAILED
from procontext.cli._numbers import positive
from procontext.cli._screen import print_error, print_json, printable, styled


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("library", help="a library's identifier, or any name of it")
    parser.add_argument("words", nargs="+", help="what to look for")
    parser.add_argument("--limit", type=positive, default=10, help="how many hits at most (default 10)")
    add_common(parser)


def run(arguments: Namespace) -> int:
    """Print the hits, best first; exit code 1 if there is none."""

    async def work(application: Application) -> int:
        library = find_library(application, arguments.library)
        found = await application.tools.search_docs(library.id, " ".join(arguments.words), arguments.limit)
        if arguments.json:
            print_json(found)
        elif not found.hits:
            count = await (await application.documents()).count_pages(library.id)
            pages = "the one page" if count == 1 else f"the {count} pages"
            if count:
                print_error(
                    f"none of these words was found in {pages} of {library.name} in the cache",
                    f"Try other words; procontext fetch {library.id} gets pages that are not there yet.",
                )
            else:
                print_error(
                    f"no page of {library.name} is in the cache, and a search fetches none",
                    f"procontext fetch {library.id} gets its pages.",
                )
        for hit in () if arguments.json else found.hits:
            print(styled(" > ".join(map(printable, hit.heading_path)) or "(no heading)", "bold"))
            print(f"  {styled(f'{hit.url} line {hit.line}', 'cyan')}")
            print(f"  {' '.join(printable(hit.snippet).split())}")
        return DONE if found.hits else FAILED

    return ask(arguments, work)
