"""What the commands that ask share: the settings, the registry, the tools, and one way to tell a failure.

Above: the commands. Below: `app`, `config`.
"""

import asyncio
import logging
from argparse import ArgumentParser, Namespace
from collections.abc import Awaitable, Callable

import msgspec

from procontext.app import Application
from procontext.cli._main import FAILED, USAGE
from procontext.cli._screen import print_error, print_json
from procontext.config import Config, load
from procontext.errors import ConfigError, ProContextError, RegistryError, failure
from procontext.models import Library
from procontext.tools import envelope


def add_common(parser: ArgumentParser) -> None:
    """The options of every command that asks."""
    parser.add_argument("--json", action="store_true", help="print the answer as JSON, as the tool gives it")
    parser.add_argument("--offline", action="store_true", help="use what is in the cache, and fetch nothing")


def settings(arguments: Namespace) -> Config:
    """The settings, with what was typed over them. Raises: ConfigError."""
    config = load()
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
        return asyncio.run(_work(application, work))
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
            print_error(error.message, error.suggestion)
        return FAILED
    finally:
        logging.getLogger("procontext").removeHandler(quiet)


async def _work(application: Application, work: Callable[[Application], Awaitable[int]]) -> int:
    try:
        return await work(application)
    finally:
        await application.close()


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


__all__ = ["add_common", "ask", "find_library", "settings"]
