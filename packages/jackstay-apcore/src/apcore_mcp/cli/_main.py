"""What the `apcore-mcp` command was asked for, done, and the exit code.

| code | when |
|---|---|
| 0 | it ended in order: the client is gone, SIGINT, SIGTERM |
| 1 | a value is bad: a directory, a port, a name, an origin; flags do not go together; with `--check`, a module was skipped |
| 2 | a flag or a choice is none; it could not start: the port is taken, apcore is missing |

apcore is loaded after the arguments were read, so that `--help` and mistakes are quick. Standard output is the client's, or
what was asked to be printed; everything else goes to standard error.

Above: `_entry`. Below: everything else in this room, `serving`.
"""

import gc
import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from apcore_mcp.cli._checking import BadValueError, as_typed, check, options_of
from apcore_mcp.cli._flags import FLAGS, HTTP_ONLY, read
from apcore_mcp.options import ServeOptions
from jackstay.errors import McpError, UsageError

if TYPE_CHECKING:
    from apcore_mcp.cli._loading import Loaded

logger = logging.getLogger("apcore_mcp.cli")

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def run(words: Sequence[str]) -> int:
    """Do what was typed; the exit code. Raises: SystemExit, as argparse does; KeyboardInterrupt; BrokenPipeError."""
    said = read(words, os.environ)
    if said.print_completion:
        return _print_completion(said.print_completion)
    try:
        directories, bindings = check(said)
    except BadValueError as error:
        print(f"apcore-mcp: {error}", file=sys.stderr)
        return 1
    if said.print_config:
        return _print_config(said, directories, bindings)
    _set_up_logging(said.log_level)
    try:
        return _run(said, directories, bindings)
    except BadValueError as error:
        print(f"apcore-mcp: {error}", file=sys.stderr)
        return 1
    except UsageError as error:  # of what only the server understands
        print(f"apcore-mcp: {as_typed(error.message, said)}", file=sys.stderr)
        return 1
    except Exception as error:  # the outermost edge: whatever it is, it did not start
        if isinstance(error, OSError) and (said.check or said.export):
            raise  # what was asked for cannot be printed
        logger.debug("could not start", exc_info=True)
        hint = "" if said.log_level == "DEBUG" else " (--log-level DEBUG shows where)"
        reason = str(error) if isinstance(error, McpError) else f"{type(error).__name__}: {error}{hint}"
        print(f"apcore-mcp: could not start: {reason}", file=sys.stderr)
        return 2


def _run(said: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    with _loading() as is_loaded:
        from apcore_mcp.cli._loading import Loaded  # noqa: PLC0415  # loads apcore

        options = options_of(said)
        with _stdout_kept():
            loaded = Loaded(directories, bindings)
        if said.check:
            return _print_check(loaded, options)
        if said.export:
            return _print_export(loaded, said)
        for flag in HTTP_ONLY if said.transport == "stdio" else ():
            if getattr(said, flag.dest):
                logger.warning("%s does nothing over stdio: say --transport streamable-http", flag.flag)
        _serve(loaded, options, is_loaded)
        return 0


@contextmanager
def _loading() -> Iterator[Callable[[], None]]:
    """No garbage is looked for while it starts; call what is given once everything is loaded.

    Loading makes some hundred thousand objects, nearly all for good. Python would walk through them again and again meanwhile,
    a tenth of the whole start, and in every full collection later. So they are set aside instead (`gc.freeze`).
    """
    if not gc.isenabled():
        yield lambda: None  # whoever turned it off knows why
        return
    gc.disable()

    def is_loaded() -> None:
        gc.freeze()
        gc.enable()

    try:
        yield is_loaded
    finally:
        gc.unfreeze()
        gc.enable()


@contextmanager
def _stdout_kept() -> Iterator[None]:
    """Standard output is kept for the client, or for what was asked to be printed.

    What modules print while they are loaded, and the programs that they start, goes to standard error.
    """
    try:
        os.fstat(2)
        kept = os.dup(1)
    except OSError:  # one of the two is closed: there is nothing to keep apart
        kept = None
    else:
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _serve(loaded: "Loaded", options: ServeOptions, is_loaded: Callable[[], None]) -> None:
    from apcore_mcp.cli._watching import Watch  # noqa: PLC0415  # as it says
    from apcore_mcp.serving import opened  # noqa: PLC0415  # loads apcore

    watch = Watch(loaded) if options.dynamic else None
    with opened(loaded.registry, options, loaded.unloaded) as bridge:
        if watch is not None:
            loaded.told = bridge.catalogue.note_undiscovered
            watch.start()
        is_loaded()
        if options.explorer and options.transport != "stdio":
            logger.info("the Tool Inspector will be at %s", _address(options) + options.inspector_prefix)
        try:
            bridge.transport().run(bridge.server, options.transport, options.host, options.port)
        finally:
            if watch is not None:
                watch.stop()


def _address(options: ServeOptions) -> str:
    """Where a browser on this machine finds it."""
    host = "127.0.0.1" if options.host in ("0.0.0.0", "::") else options.host  # noqa: S104  # compared with
    return f"http://{f'[{host}]' if ':' in host else host}:{options.port}"


def _print_check(loaded: "Loaded", options: ServeOptions) -> int:
    from apcore_mcp.catalogue import Catalogue  # noqa: PLC0415  # loads apcore

    catalogue = Catalogue(loaded.registry, tags=options.tags, prefix=options.prefix)
    catalogue.note_undiscovered(loaded.unloaded)
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
    known = len(loaded.registry.list())
    if not len(catalogue) and known and (options.tags or options.prefix):
        print(f"apcore-mcp: --tags and --prefix leave none of the {known} modules", file=sys.stderr)
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


def _print_completion(shell: str) -> int:
    from jackstay.shell import Option, Program, completion_script, value_of  # noqa: PLC0415  # only if asked for

    options = [Option(("-h", "--help"), "explain it")]
    for flag in FLAGS:
        value = value_of(flag.metavar, flag.choices) if flag.metavar else None
        options.append(Option((flag.flag,), flag.help, value, flag.is_many))
    print(completion_script(Program("apcore-mcp", (), tuple(options), "--print-completion"), shell), end="")
    return 0


def _set_up_logging(level: str) -> None:
    """Everything to standard error, with the trace id of the call that it is about."""
    from apcore_mcp.tracing import TraceFilter  # noqa: PLC0415  # not for --help

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(TraceFilter())
    logging.basicConfig(level=level, handlers=[handler], force=True)


__all__ = ["run"]
