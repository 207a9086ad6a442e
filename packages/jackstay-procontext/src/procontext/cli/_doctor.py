"""`procontext doctor`: settings, registry, cache, network and every source, each looked at, with what to do where something is wrong.

Above: `_main`. Below: `config`, `registry`, the file system, the name service. It changes nothing.
"""

import logging
import os
import socket
import threading
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from jackstay.extras import install_command, missing_modules
from procontext.app import make_registry
from procontext.cli._asking import add_config
from procontext.cli._main import DONE, FAILED
from procontext.cli._screen import print_json, styled
from procontext.cli._source_check import check_sources
from procontext.config import Config, load
from procontext.config_files import find_files
from procontext.errors import ConfigError, RegistryError

# Seconds for the name service: some systems ask three servers for five each.
PATIENCE: Final = 5.0

MARKS: Final = {"ok": ("ok", "green"), "warning": ("!!", "yellow"), "failed": ("XX", "red")}


class Finding(msgspec.Struct, frozen=True):
    """One thing that was looked at; `advice` is what to do, where there is something to do."""

    what: str
    state: str
    detail: str
    advice: str = ""


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments."""
    add_config(parser)
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")


def run(arguments: Namespace) -> int:
    """Print every finding; exit code 1 if one of them is a failure."""
    quiet = logging.NullHandler()
    logging.getLogger("procontext").addHandler(quiet)  # what is wrong is a finding, and told once
    try:
        findings = list(examine(arguments.config))
    finally:
        logging.getLogger("procontext").removeHandler(quiet)
    if arguments.json:
        print_json(findings)
    else:
        for finding in findings:
            mark, style = MARKS[finding.state]
            print(f"{styled(mark, style)} {styled(finding.what, 'bold')}: {finding.detail}")
            if finding.advice:
                print(f"   {finding.advice}")
    return FAILED if any(finding.state == "failed" for finding in findings) else DONE


def examine(named: str | None = None) -> Iterator[Finding]:
    """Check everything, in order; without settings nothing else can be checked. `named` is the file of `--config`."""
    try:
        config = load(named)
        files = find_files(named)
    except ConfigError as error:
        yield Finding("settings", "failed", str(error), "Correct or remove this setting.")
        return
    found = [str(file) for file in (files.trusted, files.local) if file is not None]
    yield Finding(
        "settings", "ok", " and ".join(found) if found else "no procontext.yaml; the defaults are used"
    )
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
    """Where the cache lies."""
    if config.cache.dir is not None:
        return Path(config.cache.dir)
    import platformdirs  # noqa: PLC0415  # loaded where it is asked

    return Path(platformdirs.user_cache_dir("procontext"))


def _cache(config: Config) -> Finding:
    directory = cache_directory(config)
    existing = next(place for place in (directory, *directory.parents) if place.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        advice = "Set cache.dir to a directory that can be written; until then nothing is kept."
        return Finding("cache", "failed", f"{existing} cannot be written", advice)
    files = [file for file in directory.glob("*") if file.is_file()] if directory.exists() else []
    size = sum(file.stat().st_size for file in files)
    most = config.cache.max_bytes / 1_048_576
    return Finding("cache", "ok", f"{directory}, {size / 1_048_576:.1f} MB of at most {most:.0f}")


def _network(config: Config) -> Finding:
    if config.fetcher.offline:
        return Finding("network", "warning", "offline is set: only the cache is served")
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
    """Look a name up. Raises: OSError.

    On a thread: the system's own look-up cannot be interrupted, and without a network it takes its time.
    """
    failures: list[OSError] = []

    def look() -> None:
        try:
            socket.getaddrinfo(name, 443, type=socket.SOCK_STREAM)
        except OSError as error:
            failures.append(error)

    looking = threading.Thread(target=look, name="procontext-doctor", daemon=True)
    looking.start()
    looking.join(PATIENCE)
    if looking.is_alive():
        raise OSError(f"no answer within {PATIENCE:g} s")
    if failures:
        raise failures[0]


def _http() -> Finding:
    missing = missing_modules("http")
    if missing:
        return Finding("http", "warning", f"not installed: {', '.join(missing)}", install_command("http"))
    return Finding("http", "ok", "can be served")
