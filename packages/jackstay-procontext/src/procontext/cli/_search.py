"""`procontext search LIBRARY QUERY`: full-text search in the pages of a library; missing ones are fetched first."""

from argparse import ArgumentParser, Namespace

from jackstay.shell import BOLD, CYAN, Screen, StatusLine, escape_controls
from procontext.app import Application
from procontext.cli._application import add_common_options, find_library, run_with_application
from procontext.cli._main import DONE, FAILED
from procontext.cli._numbers import positive
from procontext.cli._screen import print_error, print_json
from procontext.resolve import requested_version


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("library", help="the identifier or any name of a library; django@4.2 for a version")
    parser.add_argument("query", nargs="+", help="the words to search for")
    parser.add_argument("--limit", type=positive, default=5, help="the maximum number of hits (default 5)")
    add_common_options(parser)


def run(arguments: Namespace) -> int:
    """Print the hits, best first; exit code 1 if there is none."""

    async def work(application: Application) -> int:
        library = find_library(application, arguments.library)
        version = requested_version(arguments.library)
        with StatusLine(f"searching {library.id}"):
            found = await application.tools.search_docs(library.id, " ".join(arguments.query), arguments.limit, version)
        if arguments.json:
            print_json(found)
        elif not found.hits:
            pages = "the one page" if found.pages_searched == 1 else f"the {found.pages_searched} pages"
            of = "" if found.pages_total in (None, found.pages_searched) else f" of {found.pages_total}"
            if found.pages_searched:
                print_error(
                    f"no match in {pages}{of} of {library.name} in the cache",
                    f"Try other words. To fetch more pages: procontext fetch {library.id}",
                )
            else:
                print_error(
                    f"no pages of {library.name} are in the cache",
                    f"To fetch them: procontext fetch {library.id}",
                )
        for hit in () if arguments.json else found.hits:
            screen = Screen()
            screen.print_line(screen.paint(escape_controls(" > ".join(hit.heading_path)) or "(no heading)", BOLD))
            screen.print_line(f"  {screen.paint(hit.url, CYAN)}")
            screen.print_line(f"  {' '.join(escape_controls(hit.snippet).split())}")
        return DONE if found.hits else FAILED

    return run_with_application(arguments, work)
