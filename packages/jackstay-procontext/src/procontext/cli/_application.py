"""Shared by the commands that use the tools: options, settings, running with an application, and error output."""

import asyncio
import logging
import signal
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

import msgspec

from jackstay.shell import cancel_on_signal
from procontext.app import Application
from procontext.cli._main import FAILED, TERMINATED, USAGE
from procontext.cli._screen import print_error, print_json
from procontext.config import Config, load
from procontext.errors import ConfigError, ProContextError, RegistryError, failure
from procontext.models import Library
from procontext.tools import LibraryDocs, PageWindow, envelope

Result = TypeVar("Result", LibraryDocs, PageWindow)

# Hints for a user at a terminal. The suggestions of the error catalogue are for agents and name tools.
ADVICE: Final = {
    "LLMS_TXT_NOT_FOUND": "If you know the URL of a page, use: procontext read URL",
    "LLMS_TXT_FETCH_FAILED": "Try again later. To check the network: procontext doctor",
    "PAGE_NOT_FOUND": "To list the available pages: procontext docs LIBRARY",
    "PAGE_FETCH_FAILED": "Try again later. To check the network: procontext doctor",
    "TOO_MANY_REDIRECTS": "To list the available pages: procontext docs LIBRARY",
    "URL_NOT_ALLOWED": "Only known documentation sites can be read. To list their pages: procontext docs LIBRARY. To"
    " add a site, use `sources` in procontext.yaml.",
    "INVALID_INPUT": "For examples: procontext COMMAND --help",
}
OFFLINE_ADVICE: Final = "Run it once without --offline, or store the library first: procontext fetch LIBRARY"


def advice(error: ProContextError, arguments: Namespace) -> str:
    """Return the hint for a user at a terminal."""
    if error.recoverable and getattr(arguments, "offline", False):
        return OFFLINE_ADVICE
    if error.suggestion.startswith("Trying again does not help"):
        return error.suggestion
    return ADVICE.get(error.code, error.suggestion)


def add_config_option(parser: ArgumentParser) -> None:
    """Declare the option that names a settings file."""
    parser.add_argument(
        "--config", metavar="FILE", help="the settings file to use; trusted completely (PROCONTEXT_CONFIG)"
    )


def add_common_options(parser: ArgumentParser) -> None:
    """Declare the options of every command that uses the tools."""
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result of the tool as JSON")
    parser.add_argument("--offline", action="store_true", help="use only the cache; fetch nothing")


def settings(arguments: Namespace) -> Config:
    """Load the settings and apply the command-line options to them. Raises: ConfigError."""
    config = load(getattr(arguments, "config", None))
    if getattr(arguments, "offline", False):
        fetcher = msgspec.structs.replace(config.fetcher, offline=True)
        config = msgspec.structs.replace(config, fetcher=fetcher)
    return config


def run_with_application(arguments: Namespace, work: Callable[[Application], Awaitable[int]]) -> int:
    """Run `work` with a loaded application on an event loop. Print a failure and return the exit code."""
    quiet = logging.NullHandler()
    logging.getLogger("procontext").addHandler(quiet)  # errors are printed below, once
    try:
        config = settings(arguments)
        application = Application(config)
        application.registry.load()
        code = asyncio.run(_work(application, work))
    except ConfigError as error:
        print_error(str(error))
        return USAGE
    except RegistryError as error:
        print_error(str(error), "For details: procontext doctor")
        return FAILED
    except ProContextError as error:
        if arguments.json:
            print_json(envelope(error))
        else:
            print_error(error.message, advice(error, arguments))
        return USAGE if error.code == "INVALID_INPUT" else FAILED
    finally:
        logging.getLogger("procontext").removeHandler(quiet)
    if code is None:  # raised here: inside the task, asyncio would log it as well
        raise KeyboardInterrupt
    return code


async def _work(application: Application, work: Callable[[Application], Awaitable[int]]) -> int | None:
    """Return the exit code, or None after Ctrl-C."""
    with cancel_on_signal() as came:
        try:
            try:
                return await work(application)
            finally:
                await application.close()
        except asyncio.CancelledError:
            if not came:
                raise  # not cancelled by a signal
            return None if came[0] == signal.SIGINT else TERMINATED


async def read_fresh(application: Application, read: Callable[[], Awaitable[Result]]) -> Result:
    """Return a result of the tools; if it is stale, the one after its refresh.

    A server returns it at once and refreshes it in the background. A command ends, so that nothing would be refreshed.
    """
    found = await read()
    if found.stale:
        await (await application.documents()).settle()
        found = await read()
    return found


def find_library(application: Application, name: str) -> Library:
    """Return the library with this identifier or exact name.

    Raises: ProContextError (LIBRARY_NOT_FOUND), with the near matches as suggestion.
    """
    library = application.registry.get(name)
    if library is not None:
        return library
    matches = application.registry.resolve(name)
    exact = [match.library_id for match in matches if match.matched_via != "fuzzy"]
    found = application.registry.get(exact[0]) if len(exact) == 1 else None
    if found is not None:
        return found
    near = ", ".join(repr(match.library_id) for match in matches)
    hint = f"Did you mean {near}?" if near else "To find a library by another name: procontext resolve NAME"
    raise failure("LIBRARY_NOT_FOUND", name, suggestion=hint)


__all__ = [
    "ADVICE",
    "add_common_options",
    "add_config_option",
    "advice",
    "find_library",
    "read_fresh",
    "run_with_application",
    "settings",
]
