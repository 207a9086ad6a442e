"""What the commands that ask share: the settings, the registry, the tools, and one way to tell a failure.

Above: the commands. Below: `app`, `config`.
"""

import asyncio
import logging
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec

from jackstay.shell import ending_in_order
from procontext.app import Application
from procontext.cli._main import FAILED, TERMINATED, USAGE
from procontext.cli._screen import print_error, print_json
from procontext.config import Config, load
from procontext.errors import ConfigError, ProContextError, RegistryError, failure
from procontext.models import Library
from procontext.tools import envelope

# What to do next, for a person: the suggestions of the catalogue are an agent's, and name tools.
ADVICE: Final = {
    "LLMS_TXT_NOT_FOUND": "procontext read URL reads a page of it, if you know one.",
    "LLMS_TXT_FETCH_FAILED": "Try again in a moment; procontext doctor looks at the network.",
    "PAGE_NOT_FOUND": "procontext docs LIBRARY lists the pages there are.",
    "PAGE_FETCH_FAILED": "Try again in a moment; procontext doctor looks at the network.",
    "TOO_MANY_REDIRECTS": "procontext docs LIBRARY lists the pages there are.",
    "URL_NOT_ALLOWED": "Only known documentation sites are read: procontext docs LIBRARY lists their pages; `sources` in"
    " procontext.yaml adds yours.",
    "INVALID_INPUT": "procontext COMMAND --help has examples.",
}
WHEN_OFFLINE: Final = "Leave --offline out once, or store it first: procontext fetch LIBRARY."


def advice(error: ProContextError, arguments: Namespace) -> str:
    """What a person at a terminal does next."""
    if error.recoverable and getattr(arguments, "offline", False):
        return WHEN_OFFLINE
    if error.suggestion.startswith("Trying again does not help"):
        return error.suggestion
    return ADVICE.get(error.code, error.suggestion)


def add_config(parser: ArgumentParser) -> None:
    """Declare the option that names a settings file."""
    parser.add_argument(
        "--config", metavar="FILE", help="the settings file, trusted whatever it holds (PROCONTEXT_CONFIG)"
    )


def add_common(parser: ArgumentParser) -> None:
    """The options of every command that asks."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print the answer as JSON, as the tool gives it")
    parser.add_argument("--offline", action="store_true", help="use what is in the cache, and fetch nothing")


def settings(arguments: Namespace) -> Config:
    """The settings, with what was typed over them. Raises: ConfigError."""
    config = load(getattr(arguments, "config", None))
    if getattr(arguments, "offline", False):
        fetcher = msgspec.structs.replace(config.fetcher, offline=True)
        config = msgspec.structs.replace(config, fetcher=fetcher)
    return config


def ask(arguments: Namespace, work: Callable[[Application], Awaitable[int]]) -> int:
    """Load everything, do the work on a loop, let go of everything; failures are told, and are the exit code."""
    quiet = logging.NullHandler()
    logging.getLogger("procontext").addHandler(quiet)  # what went wrong is told below, once
    try:
        config = settings(arguments)
        application = Application(config)
        application.registry.load()
        code = asyncio.run(_work(application, work))
    except ConfigError as error:
        print_error(str(error))
        return USAGE
    except RegistryError as error:
        print_error(str(error), "procontext doctor says more")
        return FAILED
    except ProContextError as error:
        if arguments.json:
            print_json(envelope(error))
        else:
            print_error(error.message, advice(error, arguments))
        return USAGE if error.code == "INVALID_INPUT" else FAILED
    finally:
        logging.getLogger("procontext").removeHandler(quiet)
    if code is None:  # raised here: inside the task, asyncio would tell of it as well
        raise KeyboardInterrupt
    return code


async def _work(application: Application, work: Callable[[Application], Awaitable[int]]) -> int | None:
    """The exit code; None after Ctrl-C."""
    with ending_in_order() as came:
        try:
            try:
                return await work(application)
            finally:
                await application.close()
        except asyncio.CancelledError:
            if not came:
                raise  # somebody else's doing
            return None if came[0] == signal.SIGINT else TERMINATED


def find_library(application: Application, name: str) -> Library:
    """The library that a person means: its identifier, or any exact name of one.

    Raises: ProContextError (LIBRARY_NOT_FOUND), with what was perhaps meant.
    """
    library = application.registry.get(name)
    if library is not None:
        return library
    matches = application.registry.resolve(name)
    exact = [match.library_id for match in matches if match.matched_via != "fuzzy"]
    found = application.registry.get(exact[0]) if len(exact) == 1 else None
    if found is not None:
        return found
    likely = ", ".join(match.library_id for match in matches)
    hint = f"Did you mean {likely}?" if likely else "procontext resolve NAME finds libraries by other names."
    raise failure("LIBRARY_NOT_FOUND", name, suggestion=hint)


__all__ = ["ADVICE", "add_common", "add_config", "advice", "ask", "find_library", "settings"]
