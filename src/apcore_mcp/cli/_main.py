"""The `apcore-mcp` command: what was asked for, and the exit code.

| code | when |
|---|---|
| 0 | it ended in order: the client is gone, SIGINT, SIGTERM |
| 1 | a value is bad: a directory that is none, a port, a name; with `--check`, a module was skipped |
| 2 | a flag or a choice is none; it could not start: the port is taken, apcore is missing |

apcore is loaded after the arguments were read, so that `--help` and mistakes are quick. Standard output is the client's, or
what was asked to be printed; everything else goes to standard error.

Above: `python -m apcore_mcp`, the script. Below: everything else in this room, `serving`.
"""

import json
import logging
import os
import signal
import sys
import threading
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from apcore_mcp.cli._flags import read
from apcore_mcp.options import ServeOptions, check_host_port, check_name, make_options
from mooring.extras import install_command, missing_modules

if TYPE_CHECKING:
    from apcore_mcp.cli._loading import Loaded

logger = logging.getLogger("apcore_mcp.cli")

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


class BadValueError(Exception):
    """Something that was said cannot be used; the words say what."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; the exit code."""
    said = read(arguments, os.environ)
    try:
        directories, bindings = _check(said)
    except (BadValueError, ValueError) as error:
        print(f"apcore-mcp: {error}", file=sys.stderr)
        return 1
    if said.print_config:
        return _print_config(said, directories, bindings)
    missing = missing_modules("apcore")
    if missing:
        print(
            f"apcore-mcp: {', '.join(missing)} is not installed: {install_command('apcore')}", file=sys.stderr
        )
        return 2
    _set_up_logging(said.log_level)
    try:
        with _ending_on_sigterm():
            return _run(said, directories, bindings)
    except BadValueError as error:
        print(f"apcore-mcp: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0
    except Exception as error:  # the outermost edge: whatever it is, it did not start
        logger.debug("could not start", exc_info=True)
        print(f"apcore-mcp: could not start: {error}", file=sys.stderr)
        return 2


@contextmanager
def _ending_on_sigterm() -> Iterator[None]:
    """Until the server has signals in its own hands, and after it: SIGTERM ends the command as SIGINT does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(_: int, __: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _check(said: Namespace) -> tuple[list[Path], list[Path]]:
    """The directories, if everything that was said can be used."""
    directories = [_directory("--extensions-dir", given) for given in said.extensions_dir]
    bindings = [_directory("--bindings", given) for given in said.bindings]
    if not directories and not bindings:
        raise BadValueError("--extensions-dir is needed: the directory of the modules to serve")
    try:
        said.port = int(said.port)
    except ValueError:
        raise BadValueError(f"--port must be a number from 1 to 65535, not {said.port!r}") from None
    check_host_port(said.host, said.port)
    check_name(said.name)
    return directories, bindings


def _directory(flag: str, given: str) -> Path:
    path = Path(given).absolute()
    if not path.is_dir():
        what = "is not a directory" if path.exists() else "does not exist"
        raise BadValueError(f"{flag} {given} {what}")
    if not os.access(path, os.R_OK | os.X_OK):
        raise BadValueError(f"{flag} {given} cannot be read")
    return path


def _options(said: Namespace) -> ServeOptions:
    given: dict[str, Any] = {
        "transport": said.transport,
        "host": said.host,
        "port": said.port,
        "name": said.name,
        "version": said.version,
        "tags": said.tags or None,
        "prefix": said.prefix,
        "dynamic": said.dynamic,
        "validate_inputs": said.validate_inputs,
        "approval": said.approval,
        "explorer": said.explorer,
        "inspector_prefix": said.inspector_prefix,
        "metrics": said.metrics,
        "cors": tuple(said.cors),
    }
    if said.allow_host:
        from mooring.protocol.http import LOCAL_HOSTS  # noqa: PLC0415  # only over HTTP

        given["hosts"] = (*LOCAL_HOSTS, *said.allow_host)
    if said.auth_key_env:
        given["auth"] = _keys(said.auth_key_env)
    try:
        return make_options(**given)
    except ValueError as error:
        raise BadValueError(str(error)) from error


def _keys(names: Sequence[str]) -> Any:
    """The keys in these variables: a command line can be seen by everybody on the machine."""
    from mooring.errors import UsageError  # noqa: PLC0415  # only with keys
    from mooring.server.http import keys  # noqa: PLC0415  # only with keys

    absent = [name for name in names if not os.environ.get(name)]
    if absent:
        raise BadValueError(f"--auth-key-env {absent[0]}: there is no such variable, or it is empty")
    try:
        return keys({name: os.environ[name] for name in names})
    except UsageError as error:
        raise BadValueError(f"--auth-key-env: {error.message}") from error


def _run(said: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    from apcore_mcp.cli._loading import Loaded  # noqa: PLC0415  # loads apcore

    options = _options(said)
    loaded = Loaded(directories, bindings)
    if said.check:
        return _print_check(loaded, options)
    if said.export:
        return _print_export(loaded, said)
    _serve(loaded, options)
    return 0


def _serve(loaded: "Loaded", options: ServeOptions) -> None:
    from apcore_mcp.cli._watching import Watch  # noqa: PLC0415  # as it says
    from apcore_mcp.serving import opened  # noqa: PLC0415  # loads apcore

    watch = Watch(loaded) if options.dynamic else None
    with opened(loaded.registry, options, loaded.unloaded) as bridge:
        if watch is not None:
            loaded.told = lambda unloaded: setattr(bridge.catalogue, "undiscovered", unloaded)
            watch.start()
        try:
            bridge.transport().run(bridge.server, options.transport, options.host, options.port)
        finally:
            if watch is not None:
                watch.stop()


def _print_check(loaded: "Loaded", options: ServeOptions) -> int:
    from apcore_mcp.catalogue import Catalogue  # noqa: PLC0415  # loads apcore

    catalogue = Catalogue(loaded.registry, tags=options.tags, prefix=options.prefix)
    catalogue.undiscovered.update(loaded.unloaded)
    catalogue.refresh()
    for entry in catalogue.tools():
        marks = [
            word
            for word, is_said in (
                ("streaming", entry.is_streaming),
                ("needs approval", entry.needs_approval),
                ("has sensitive fields", bool(entry.sensitive)),
            )
            if is_said
        ]
        print(f"ok       {entry.name}" + (f"  ({', '.join(marks)})" if marks else ""))
    skipped = catalogue.skipped()
    for module_id, reason in sorted(skipped.items()):
        print(f"skipped  {module_id}: {reason}")
    print(f"{len(catalogue)} offered, {len(skipped)} skipped")
    return 1 if skipped else 0


def _print_export(loaded: "Loaded", said: Namespace) -> int:
    from apcore_mcp.converters.openai import OpenAIConverter  # noqa: PLC0415  # loads apcore

    tools = OpenAIConverter().convert_registry(
        loaded.registry,
        said.embed_annotations,
        said.strict,
        said.tags or None,
        said.prefix,
        shape=said.export,
    )
    print(json.dumps(tools, indent=2, ensure_ascii=False))
    return 0


def _print_config(said: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    from apcore_mcp.cli._client_config import PLACES, client_config  # noqa: PLC0415  # only if asked for

    print(f"For {PLACES[said.print_config]}:", file=sys.stderr)
    print(client_config(said.print_config, said, [*map(str, directories)], [*map(str, bindings)]))
    return 0


def _set_up_logging(level: str) -> None:
    """Everything to standard error, with the trace id of the call that it is about."""
    from apcore_mcp.tracing import TraceFilter  # noqa: PLC0415  # not for --help

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(TraceFilter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


__all__ = ["BadValueError", "main"]
