"""`procontext fetch LIBRARY...`: store libraries in the cache, to read and search them offline."""

from argparse import ArgumentParser, Namespace
from typing import Final

from jackstay.shell import GREEN, Screen, StatusLine
from procontext.app import Application
from procontext.cli._application import add_common_options, advice, find_library, run_with_application
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import print_error, print_json
from procontext.errors import ProContextError
from procontext.interfaces import Progress
from procontext.models import FetchReport
from procontext.resolve import requested_version
from procontext.tools import envelope

MISSING_PAGES_ADVICE: Final = (
    "To check the network and the cache: procontext doctor. For details about one page: procontext read URL"
)


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("libraries", nargs="+", metavar="library", help="identifiers or names of libraries")
    add_common_options(parser)


def _counted(pages: int) -> str:
    return "1 page is" if pages == 1 else f"{pages} pages are"


def _left_out(report: FetchReport) -> str:
    """Return how many pages are not stored, and why."""
    failed = report.total - report.stored - report.excluded - report.beyond_limit
    reasons = (
        (failed, "could not be stored"),
        (report.excluded, "are excluded by robots.txt"),
        (report.beyond_limit, "are beyond the limit"),
    )
    return "".join(f", {count} {reason}" for count, reason in reasons if count)


def _progress(status: StatusLine, library: str) -> Progress:
    """Show the pages of a library on a terminal."""

    def report(done: int, total: int, what: str) -> None:
        if status.is_terminal:
            status.report(done, total, f"{library} {what}")

    return report


def run(arguments: Namespace) -> int:
    """Fetch the libraries in sequence. A failure does not stop the others."""

    async def work(application: Application) -> int:
        # Fail on a wrong name before fetching.
        libraries = [(find_library(application, name), requested_version(name)) for name in arguments.libraries]
        documents = await application.documents()
        results: dict[str, object] = {}
        code = DONE
        for library, version in libraries:
            try:
                with StatusLine(f"fetching {library.id}") as status:
                    report = await documents.prefetch(
                        await documents.select(library, version), _progress(status, library.id)
                    )
            except ProContextError as error:
                results[library.id], code = envelope(error), FAILED
                print_error(error.message, advice(error, arguments))
                continue
            pages, left_out = report.stored, report.total - report.stored
            results[library.id] = {"pages": pages, "left_out": left_out} if left_out else {"pages": pages}
            if left_out and not pages:
                code = FAILED
                which = "the one page" if left_out == 1 else f"none of the {left_out} pages"
                could = "could not" if left_out == 1 else "could"
                reason = f": {report.problem}" if report.problem else ""
                print_error(f"{which} of {library.id} {could} be stored{reason}", MISSING_PAGES_ADVICE)
            elif not arguments.json:
                screen = Screen()
                name = screen.paint(library.id, GREEN)
                screen.print_line(f"{name}: {_counted(pages)} in the cache{_left_out(report)}")
        if arguments.json:
            print_json(results)
        return code

    return run_with_application(arguments, work)
