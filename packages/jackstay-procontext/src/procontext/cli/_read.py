"""`procontext read URL`: a page, or a section of one, as Markdown."""

import sys
from argparse import ArgumentParser, Namespace

from jackstay.shell import DIM, Screen, StatusLine, escape_controls
from procontext.app import Application
from procontext.cli._application import add_common_options, read_fresh, run_with_application
from procontext.cli._main import DONE
from procontext.cli._numbers import positive
from procontext.cli._screen import print_json


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("url", help="the URL of the page")
    parser.add_argument("--heading", help="only the section under this heading")
    parser.add_argument("--offset", type=positive, default=1, help="the first line (default 1)")
    parser.add_argument("--limit", type=positive, default=2000, help="the maximum number of lines (default 2000)")
    parser.add_argument("--headings", action="store_true", help="print the headings with their line numbers instead")
    add_common_options(parser)


def run(arguments: Namespace) -> int:
    """Print the page; if it was cut, print how to continue on standard error."""

    async def work(application: Application) -> int:
        with StatusLine(f"reading {arguments.url}"):
            found = await read_fresh(
                application,
                lambda: application.tools.read_page(
                    arguments.url, arguments.offset, arguments.limit, arguments.heading
                ),
            )
        if arguments.json:
            print_json(found)
            return DONE
        notes = Screen(sys.stderr)
        if found.final_url is not None:
            notes.print_line(notes.paint(f"redirected to {escape_controls(found.final_url)}", DIM))
        Screen().print_line(escape_controls(found.headings if arguments.headings else found.content))
        if found.next_offset is not None and not arguments.headings:
            more = f"up to line {found.next_offset - 1} of {found.total_lines}; continue with"
            notes.print_line(notes.paint(f"{more} --offset {found.next_offset}", DIM))
        return DONE

    return run_with_application(arguments, work)
