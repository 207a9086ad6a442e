"""`procontext docs LIBRARY`: the table of contents of a library."""

import sys
from argparse import ArgumentParser, Namespace

from jackstay.shell import DIM, Screen, StatusLine, escape_controls
from procontext.app import Application
from procontext.cli._application import add_common_options, find_library, read_fresh, run_with_application
from procontext.cli._main import DONE
from procontext.cli._numbers import positive
from procontext.cli._screen import print_json
from procontext.resolve import requested_version


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("library", help="the identifier or any name of a library; django@4.2 for a version")
    parser.add_argument("--filter", help="only the lines that have all these words")
    parser.add_argument("--offset", type=positive, default=1, help="the first line (default 1)")
    parser.add_argument("--limit", type=positive, help="the maximum number of lines (default: as many as fit)")
    add_common_options(parser)


def run(arguments: Namespace) -> int:
    """Print the table of contents; if it was cut, print how to continue on standard error."""

    async def work(application: Application) -> int:
        library = find_library(application, arguments.library)
        version = requested_version(arguments.library)
        with StatusLine(f"reading the table of contents of {library.id}"):
            found = await read_fresh(
                application,
                lambda: application.tools.get_library_docs(
                    library.id, arguments.offset, arguments.limit, arguments.filter, version
                ),
            )
        if arguments.json:
            print_json(found)
            return DONE
        Screen().print_line(escape_controls(found.content))
        if found.next_offset is not None:
            more = f"lines {found.offset} to {found.next_offset - 1} of {found.total_lines}; continue with"
            screen = Screen(sys.stderr)
            screen.print_line(screen.paint(f"{more} --offset {found.next_offset}", DIM))
        return DONE

    return run_with_application(arguments, work)
