"""`procontext doctor`: check the settings, the registry, the cache, the network and every source, without changes."""

import logging
import os
import shutil
import socket
import sqlite3
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from jackstay.extras import install_command, missing_modules
from jackstay.shell import BOLD, GREEN, RED, YELLOW, Screen, StatusLine
from procontext.app import make_registry
from procontext.cache import FILE_NAME
from procontext.cli._application import add_config_option
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import print_json
from procontext.cli._source_check import check_sources
from procontext.config import Config, load
from procontext.config_files import find_files
from procontext.errors import ConfigError, RegistryError

# With less free space, the cache may be unable to store pages.
MIN_FREE_BYTES: Final = 100 * 1_048_576
# Seconds for a DNS lookup: some systems query three servers for five seconds each.
DNS_TIMEOUT: Final = 5.0

MARKS: Final = {"ok": ("ok", GREEN), "warning": ("!!", YELLOW), "failed": ("XX", RED)}


class Finding(msgspec.Struct, frozen=True):
    """The result of one check; `advice` is what to do, if anything."""

    what: str
    state: str
    detail: str
    advice: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_config_option(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: Namespace) -> int:
    """Print every finding; exit code 1 if one of them is a failure."""
    quiet = logging.NullHandler()
    logging.getLogger("procontext").addHandler(quiet)  # problems are findings, and printed once
    try:
        with StatusLine("checking"):
            findings = []
            for finding in run_checks(arguments.config):
                findings.append(finding)
                if not arguments.json:
                    _print(finding)
    finally:
        logging.getLogger("procontext").removeHandler(quiet)
    if arguments.json:
        print_json(findings)
    return FAILED if any(finding.state == "failed" for finding in findings) else DONE


def _print(finding: Finding) -> None:
    screen = Screen()
    mark, colour = MARKS[finding.state]
    screen.print_line(f"{screen.paint(mark, colour)} {screen.paint(finding.what, BOLD)}: {finding.detail}")
    if finding.advice:
        screen.print_line(f"   {finding.advice}")


def run_checks(named: str | None = None) -> Iterator[Finding]:
    """Run all checks in order. Wrong settings end them. `named` is the value of `--config`."""
    try:
        config = load(named)
        files = find_files(named)
    except ConfigError as error:
        yield Finding("settings", "failed", str(error), "Correct or remove this setting.")
        return
    found = [str(file) for file in (files.trusted, files.local) if file is not None]
    yield Finding("settings", "ok", " and ".join(found) if found else "no procontext.yaml; using the defaults")
    yield from _registry(config)
    yield _cache(config)
    yield _network(config)
    for source in check_sources(config):
        yield Finding(f"source {source.id}", source.state, source.detail, source.advice)
    yield _http()


def _registry(config: Config) -> Iterator[Finding]:
    registry = make_registry(config)
    try:
        registry.load()
    except RegistryError as error:
        advice = "" if "sources[" in error.problem else "Correct registry.path, or remove it."
        yield Finding("registry", "failed", str(error), advice)
        return
    for problem in registry.problems:
        yield Finding("downloaded registry", "warning", problem, "`procontext setup` downloads it again.")
    detail = f"version {registry.version}, {len(registry)} libraries, from {registry.origin}"
    yield Finding("registry", "ok", detail)


def cache_directory(config: Config) -> Path:
    """Return the directory of the cache."""
    if config.cache.dir is not None:
        return Path(config.cache.dir)
    import platformdirs  # noqa: PLC0415  # not needed where a directory is configured

    return Path(platformdirs.user_cache_dir("procontext"))


def _cache(config: Config) -> Finding:
    directory = cache_directory(config)
    existing = next(path for path in (directory, *directory.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        advice = "Set cache.dir to a writable directory; until then nothing is stored."
        return Finding("cache", "failed", f"{existing} is not writable", advice)
    files = [file for file in directory.glob("*") if file.is_file()] if directory.exists() else []
    size = sum(file.stat().st_size for file in files)
    max_size = config.cache.max_bytes / 1_048_576
    detail = f"{directory}, {size / 1_048_576:.1f} MB of at most {max_size:.0f}"
    free = shutil.disk_usage(existing).free
    if free < MIN_FREE_BYTES:
        advice = "Free some space, or set cache.dir to another disk; until then new pages are not stored."
        return Finding("cache", "warning", f"{detail}; the disk has {free / 1_048_576:.0f} MB left", advice)
    try:
        return Finding("cache", "ok", f"{detail}{_stored(directory / FILE_NAME)}")
    except sqlite3.Error as error:
        advice = f"It is replaced by an empty one at the next start. To do it now, delete {directory / FILE_NAME}."
        return Finding("cache", "warning", f"{detail}; the file cannot be read: {error}", advice)


def _stored(file: Path) -> str:
    """Return what the search index has. Raises: sqlite3.Error."""
    if not file.exists():
        return "; no page is stored yet"
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True)) as connection:
        pages, sections, libraries = (
            connection.execute(f"SELECT count({column}) FROM {table}").fetchone()[0]  # noqa: S608  # constants
            for column, table in (("*", "documents"), ("*", "sections"), ("DISTINCT library_id", "memberships"))
        )
    return f"; {pages} documents with {sections} sections of {libraries} libraries"


def _network(config: Config) -> Finding:
    if config.fetcher.offline:
        return Finding("network", "warning", "fetcher.offline is set: only the cache is used")
    if config.fetcher.proxy is not None:
        name = urlsplit(config.fetcher.proxy).hostname or ""
        what = f"the proxy {name}"
    else:
        name = urlsplit(config.registry.url or "https://pypi.org").hostname or ""
        what = name
    try:
        _resolve(name)
    except OSError as error:
        advice = "Check the network, or use --offline with what `procontext fetch` has stored."
        return Finding("network", "warning", f"{what} cannot be resolved: {error}", advice)
    return Finding("network", "ok", f"{what} can be resolved")


def _resolve(name: str) -> None:
    """Look up a host name. Raises: OSError.

    On a thread, because `getaddrinfo` cannot be interrupted and can take long without a network.
    """
    failures: list[OSError] = []

    def look_up() -> None:
        try:
            socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=look_up, name="procontext-doctor", daemon=True)
    thread.start()
    thread.join(DNS_TIMEOUT)
    if thread.is_alive():
        raise OSError(f"no response within {DNS_TIMEOUT:g} s")
    if failures:
        raise failures[0]


def _http() -> Finding:
    missing = missing_modules("http")
    if missing:
        return Finding("http", "warning", f"not installed: {', '.join(missing)}", install_command("http"))
    return Finding("http", "ok", "the HTTP transport is installed")
