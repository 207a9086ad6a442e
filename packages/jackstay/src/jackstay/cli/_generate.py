"""`jackstay generate`: write a Python module with a typed client for the tools of a server."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

from jackstay.cli import _target
from jackstay.cli._output import print_json
from jackstay.cli._running import with_client
from jackstay.client import Client
from jackstay.errors import UsageError
from jackstay.shell import Screen, StatusLine


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    _target.add_arguments(
        parser, "", "--output weather.py https://example.org/mcp", "--output git_client.py -- uvx mcp-server-git"
    )
    parser.add_argument("--output", metavar="FILE", help="write this file (default: standard output)")
    parser.add_argument("--force", action="store_true", help="overwrite a file that was not generated")


def run(arguments: Namespace) -> int:
    """Print or write the module."""
    from jackstay.cli._typed_client import MARK, typed_client  # noqa: PLC0415  # not for --help

    selected = _target.select_only_server(arguments)
    path = None if arguments.output is None else Path(arguments.output)
    if path is not None and not arguments.force and not _may_write(path, MARK):
        raise UsageError(f"{path} exists and was not generated; use --force to overwrite it", path="--output")

    async def work(client: Client) -> None:
        with StatusLine("listing tools"):
            tools = await client.tools.list()
        info = client.server_info
        try:
            text = typed_client("server" if info is None else info.name, tools)
        except RecursionError:
            raise UsageError("cannot generate a client: a schema of the server is nested too deeply") from None
        if path is None:
            print_json({"module": text}) if arguments.json else Screen().print_line(text.rstrip("\n"))
            return
        _write(path, text)
        if arguments.json:
            print_json({"file": str(path), "tools": len(tools)})
        else:
            Screen().print_line(f"wrote {path}: {len(tools)} tool{'' if len(tools) == 1 else 's'}")

    return with_client(arguments, selected, work)


def _may_write(path: Path, mark: str) -> bool:
    """Whether there is no file, or one that was generated."""
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            return file.readline().rstrip("\n") == mark
    except FileNotFoundError:
        return True
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", path="--output") from None


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.new")
    try:
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UsageError(f"cannot write {path}: {error.strerror}", path="--output") from None
