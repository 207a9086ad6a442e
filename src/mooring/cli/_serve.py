"""`mooring serve FILE_OR_MODULE[:NAME]`: serve the `Server` of a file or module over stdio.

It loads code that was named on the command line and nothing else, and runs the server it finds there as `server.run()`
would. Logs go to standard error; standard output is the client's.
"""

import importlib
import importlib.util
import json
import logging
import sys
from argparse import ArgumentParser, Namespace
from pathlib import Path
from types import ModuleType

from mooring.errors import UsageError
from mooring.server import find_server

LEVELS = ("debug", "info", "warning", "error", "critical")


def add_arguments(parser: ArgumentParser) -> None:
    """What to serve, and how to log."""
    parser.add_argument(
        "target",
        metavar="FILE_OR_MODULE[:NAME]",
        help="a Python file or an importable module, and the name of its Server if it has several",
    )
    parser.add_argument("--log-level", choices=LEVELS, default="warning", help="default: %(default)s")
    parser.add_argument("--log-format", choices=("text", "json"), default="text", help="default: %(default)s")


def run(arguments: Namespace) -> int:
    """Serve until the client is gone; the exit code is the server's (0 after EOF or SIGTERM, 130 after SIGINT).

    Raises: UsageError, if there is no such file or module, or no one server in it.
    """
    _log_to_stderr(arguments.log_level, arguments.log_format)
    # A colon may also be in a path; a name has no slash and no dot.
    place, separator, name = arguments.target.rpartition(":")
    if not separator or not name.isidentifier():
        place, name = arguments.target, ""
    return find_server(load(place), name or None).run()


def load(place: str) -> ModuleType:
    """The module of that file or name.

    Raises: UsageError, if there is none. What its code raises is raised: it is the author's to see.
    """
    path = Path(place)
    if path.suffix == ".py" or path.is_file():
        if not path.is_file():
            raise UsageError(f"there is no file {place}", path=place)
        sys.path.insert(0, str(path.resolve().parent))  # as `python FILE` does
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None  # a file with this ending has one
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[path.stem] = module  # annotations are resolved through it
        spec.loader.exec_module(module)
        return module
    sys.path.insert(0, "")  # as `python -m` does
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and (place == error.name or place.startswith(f"{error.name}.")):
            raise UsageError(f"there is no file and no module {place}", path=place) from error
        raise


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said = {
            "time": self.formatTime(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            said["exception"] = self.formatException(record.exc_info)
        return json.dumps(said)


def _log_to_stderr(level: str, form: str) -> None:
    handler = logging.StreamHandler()
    formatter = (
        JsonFormatter() if form == "json" else logging.Formatter("%(levelname)s %(name)s: %(message)s")
    )
    handler.setFormatter(formatter)
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(level.upper())
