"""Run the `apcore-mcp` command.

Exit codes: 0 after a regular end (client disconnected, SIGINT, SIGTERM); 1 for a bad value, or with `--check` for
skipped modules; 2 for an unknown flag or choice, or a failed start. apcore is imported after the arguments are parsed,
so that `--help` is fast. Standard output is used only by the protocol or for printed results.
"""

import gc
import json
import logging
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

from apcore_mcp.cli._checking import BadValueError, check, openapi_of, options_of, with_flag_name
from apcore_mcp.cli._flags import FLAGS, HTTP_ONLY, UNLISTED, read
from apcore_mcp.options import ServeOptions
from jackstay.errors import McpError, UsageError
from jackstay.shell import GREEN, YELLOW, Screen, StatusLine, erase_status, first_line, paint_json, print_error

if TYPE_CHECKING:
    from apcore_mcp.catalogue import Entry
    from apcore_mcp.cli._loading import LoadedModules

logger = logging.getLogger("apcore_mcp.cli")

NAME = "apcore-mcp"

_FORMAT = "%(asctime)s %(levelname)s %(name)s %(message)s"


def run(argv: Sequence[str]) -> int:
    """Run the command line and return the exit code. Raises: SystemExit (from argparse), KeyboardInterrupt, OSError."""
    args = read(argv, os.environ)
    for flag in (*FLAGS, *UNLISTED):
        if not os.environ.get(flag.variable, "x") and not flag.protects:
            del os.environ[flag.variable]  # it counts as unset; apcore would replace the setting of the file by ""
    if args.print_completion:
        return _print_completion(args.print_completion)
    try:
        if args.uninstall:
            return _uninstall(args)
        directories, bindings = check(args)
        if args.install:
            return _install(args, directories, bindings)
    except (BadValueError, UsageError) as error:
        print_error(NAME, str(error))
        return error.code if isinstance(error, BadValueError) else 1
    if args.print_config:
        return _print_config(args, directories, bindings)
    _set_up_logging(args.log_level)
    try:
        return _run(args, directories, bindings)
    except BadValueError as error:
        print_error(NAME, str(error))
        return 1
    except UsageError as error:  # an option that only the server validates
        print_error(NAME, with_flag_name(error.message, args))
        return 1
    except Exception as error:  # the top of the command: the server did not start
        if isinstance(error, OSError) and (args.check or args.export):
            raise  # the result cannot be printed
        logger.debug("cannot start", exc_info=True)
        hint = "" if args.log_level == "DEBUG" else " (for the traceback: --log-level DEBUG)"
        reason = str(error) if isinstance(error, McpError) else f"{type(error).__name__}: {error}{hint}"
        print_error(NAME, f"cannot start: {reason}")
        return 2


def _run(args: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    with _gc_paused() as is_loaded:
        with StatusLine("loading the modules"):
            from apcore_mcp.cli._loading import LoadedModules  # noqa: PLC0415  # imports apcore

            options = options_of(args)
            with _stdout_redirected(), _skips_not_logged() if args.check else nullcontext():
                loaded = LoadedModules(directories, bindings)
                _add_operations(loaded, args)
        if args.check:
            with _skips_not_logged():
                return _print_check(loaded, options)
        if args.export:
            return _print_export(loaded, args)
        for flag in HTTP_ONLY if options.transport == "stdio" else ():
            if getattr(args, flag.dest):
                logger.warning("%s has no effect with stdio; add --transport streamable-http", flag.flag)
        _serve(loaded, options, is_loaded)
        return 0


def _add_operations(loaded: "LoadedModules", args: Namespace) -> None:
    documents = {"--from-openapi": openapi_of(args)}
    if args.check or args.export:
        from apcore_mcp.config import openapi_settings  # noqa: PLC0415  # imports apcore

        documents["mcp.openapi"] = openapi_settings()  # a server adds them when it starts
    for source, document in documents.items():
        if not document:
            continue
        from apcore_mcp.compat.openapi import build_openapi_backend_from_config  # noqa: PLC0415  # only with documents

        # A server counts only modules beside `mcp.openapi`, not directories.
        has_directories = source == "--from-openapi" and (loaded.directories or loaded.bindings)
        has_others = bool(has_directories or loaded.registry.list())
        try:
            build_openapi_backend_from_config(document, registry=loaded.registry, has_other_backend_source=has_others)
        except ValueError as error:
            raise BadValueError(f"{source}: {error}") from error


@contextmanager
def _gc_paused() -> Iterator[Callable[[], None]]:
    """Disable garbage collection during start; call the result once everything is loaded.

    Imports create some hundred thousand permanent objects. Collecting them repeatedly takes a tenth of the start time,
    so they are moved to the permanent generation (`gc.freeze`).
    """
    if not gc.isenabled():
        yield lambda: None
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
def _stdout_redirected() -> Iterator[None]:
    """Redirect standard output of modules, and of programs that they start, to standard error while they are loaded."""
    try:
        os.fstat(2)
        saved = os.dup(1)
    except OSError:  # stdout or stderr is closed
        saved = None
    else:
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if saved is not None:
            os.dup2(saved, 1)
            os.close(saved)


@contextmanager
def _skips_not_logged() -> Iterator[None]:
    """Do not log skipped modules: `--check` prints them."""

    def is_other(record: logging.LogRecord) -> bool:
        if record.name == "apcore.registry.scanner":  # files and directories, which are not in the table
            return True
        return not record.name.startswith("apcore.registry") and not record.getMessage().startswith("skipped ")

    handlers = list(logging.getLogger().handlers)
    for handler in handlers:
        handler.addFilter(is_other)
    try:
        yield
    finally:
        for handler in handlers:
            handler.removeFilter(is_other)


def _serve(loaded: "LoadedModules", options: ServeOptions, is_loaded: Callable[[], None]) -> None:
    with StatusLine("starting"):
        from apcore_mcp.cli._watching import Watch  # noqa: PLC0415  # imports apcore
        from apcore_mcp.serving import open_bridge  # noqa: PLC0415  # imports apcore

    watch = Watch(loaded) if options.dynamic else None
    with open_bridge(loaded.registry, options, loaded.unloaded) as bridge:
        if watch is not None:
            loaded.on_unloaded = bridge.catalogue.set_undiscovered
            loaded.registry.wait_for_calls = bridge.router.wait_for_calls
            watch.start()
        is_loaded()
        if options.explorer and options.transport != "stdio":
            logger.info("Tool Inspector: %s", _address(options) + options.inspector_prefix)
        try:
            bridge.transport().run(bridge.server, options.transport, options.host, options.port)
        finally:
            if watch is not None:
                watch.stop()


def _address(options: ServeOptions) -> str:
    """Return the URL of the server for a browser on this machine."""
    host = "127.0.0.1" if options.host in ("0.0.0.0", "::") else options.host  # noqa: S104  # compared with
    return f"http://{f'[{host}]' if ':' in host else host}:{options.port}"


def _print_check(loaded: "LoadedModules", options: ServeOptions) -> int:
    with StatusLine("checking the modules"):
        from apcore_mcp.catalogue import Catalogue  # noqa: PLC0415  # imports apcore

        catalogue = Catalogue(loaded.registry, tags=options.tags, prefix=options.prefix)
        catalogue.set_undiscovered(loaded.unloaded)
        catalogue.refresh()
    skipped = catalogue.skipped()
    rows = [(first_line(entry.name), "ok", first_line(_details(entry))) for entry in catalogue.tools()]
    rows += [(first_line(id), "skipped", first_line(reason)) for id, reason in sorted(skipped.items())]
    screen = Screen()
    if rows:
        screen.table(("TOOL", "STATUS", "DETAILS"), rows, {"ok": GREEN, "skipped": YELLOW})
    screen.print_line(f"{len(catalogue)} served, {len(skipped)} skipped")
    known = len(loaded.registry.list())
    if not len(catalogue) and known and (options.tags or options.prefix):
        print_error(NAME, f"none of the {known} modules matches --tags and --prefix")
    return 1 if skipped else 0


def _details(entry: "Entry") -> str:
    details = (
        (f"module {entry.id}", entry.name != entry.id),
        ("streaming", entry.is_streaming),
        ("requires approval", entry.needs_approval),
        ("has sensitive fields", bool(entry.sensitive)),
    )
    return ", ".join(detail for detail, is_set in details if is_set)


def _print_export(loaded: "LoadedModules", args: Namespace) -> int:
    with StatusLine("converting the modules"):
        from apcore_mcp.converters.openai import OpenAIConverter  # noqa: PLC0415  # imports apcore

        tools = OpenAIConverter().convert_registry(
            loaded.registry,
            args.embed_annotations,
            args.strict,
            args.tags or None,
            args.prefix,
            shape=args.export,
        )
    screen = Screen()
    screen.print_line(paint_json(screen, json.dumps(tools, indent=2, ensure_ascii=False)))
    return 0


def _print_config(args: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    from apcore_mcp.cli._client_config import client_config  # noqa: PLC0415  # only for this flag
    from jackstay.shell import find_host  # noqa: PLC0415

    host = find_host(args.print_config)
    Screen(sys.stderr).print_line(f"For {host.title}, in {host.path()}:")
    Screen().print_line(client_config(args.print_config, args, [*map(str, directories)], [*map(str, bindings)]))
    return 0


def _install(args: Namespace, directories: list[Path], bindings: list[Path]) -> int:
    from apcore_mcp.cli._client_config import hosted_server  # noqa: PLC0415  # only for this flag
    from jackstay.shell import find_host, install_server  # noqa: PLC0415

    server = hosted_server(args, [*map(str, directories)], [*map(str, bindings)])
    install_server(find_host(args.install), args.name, server, replace=True, dry_run=bool(args.dry_run)).show()
    return 0


def _uninstall(args: Namespace) -> int:
    from jackstay.shell import find_host, uninstall_server  # noqa: PLC0415  # only for this flag

    uninstall_server(find_host(args.uninstall), args.name, dry_run=bool(args.dry_run)).show()
    return 0


def _print_completion(shell: str) -> int:
    from jackstay.shell import Option, Program, completion_script, value_from_metavar  # noqa: PLC0415

    options = [Option(("-h", "--help"), "show the help")]
    for flag in FLAGS:
        value = value_from_metavar(flag.metavar, flag.choices) if flag.metavar else None
        options.append(Option((flag.flag,), flag.help, value, flag.is_many))
    print(completion_script(Program(NAME, (), tuple(options), "--print-completion"), shell), end="")
    return 0


def _set_up_logging(level: str) -> None:
    """Log to standard error, with the trace id of the current call."""
    from apcore_mcp.tracing import TraceFilter  # noqa: PLC0415  # not needed for --help

    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter(_FORMAT))
    handler.addFilter(TraceFilter())
    handler.addFilter(erase_status)
    logging.basicConfig(level=level, handlers=[handler], force=True)


__all__ = ["run"]
