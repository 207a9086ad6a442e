"""`jackstay pack`: write an MCP bundle (.mcpb) of a server, and its entry for the MCP registry (server.json)."""

import re
from argparse import ArgumentParser, Namespace
from pathlib import Path

from jackstay.cli._bundle import find_entry, find_files, make_bundle, manifest, read_project, registry_entry, to_json
from jackstay.cli._commands import add_help, add_repeatable
from jackstay.cli._exits import DONE
from jackstay.errors import UsageError
from jackstay.shell import DIM, Screen, escape_controls


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.description = (
        "Write a bundle (.mcpb) that hosts install, and server.json for the MCP registry.\n"
        "DIRECTORY has a pyproject.toml; the host installs its dependencies with uv."
    )
    add_help(parser, "[DIRECTORY]", examples=("--entry weather.py --env API_KEY", "--dry-run ~/src/weather"))
    parser.add_argument("directory", nargs="?", default=".", metavar="DIRECTORY", help="the project (default: here)")
    parser.add_argument("--entry", metavar="FILE", help="the program (default: server.py or main.py, also in src)")
    add_repeatable(parser, "--env", "NAME", "a variable that the host prompts the user for")
    parser.add_argument("--output", metavar="FILE", help="the bundle (default: NAME-VERSION.mcpb)")
    parser.add_argument("--registry-name", metavar="NAME", help="as in io.github.you/weather (default: from GitHub)")
    parser.add_argument("--url", metavar="URL", help="where the bundle is published (default: a GitHub release)")
    parser.add_argument("--dry-run", action="store_true", help="list the files, and write nothing")


def run(arguments: Namespace) -> int:
    """Write the bundle and server.json."""
    folder = Path(arguments.directory)
    if not folder.is_dir():
        raise UsageError(f"{arguments.directory!r} is not a directory")
    for name in arguments.env:
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise UsageError(
                f"--env expects the name of a variable, got {name.partition('=')[0]!r}; the host prompts for its value",
                path="--env",
            )
    project = read_project(folder)
    entry = find_entry(folder, arguments.entry)
    files = find_files(folder)
    if entry not in files.packed:
        raise UsageError(f"{entry!r} is left out of the bundle; choose another name", path="--entry")
    described = manifest(project, entry, arguments.env, has_icon="icon.png" in files.packed)
    bundle = make_bundle(files.packed, described)
    path = Path(arguments.output or f"{project['name']}-{project['version']}.mcpb")
    listing = registry_entry(
        project, bundle, path.name, variables=arguments.env, name=arguments.registry_name, url=arguments.url
    )
    screen = Screen()
    if arguments.dry_run:
        for name, file in files.packed.items():
            screen.print_line(f"{_size(file.stat().st_size):>10}  {escape_controls(name)}")
    for name in files.secrets:
        screen.print_line(screen.paint(f"left out, because it may be a secret: {escape_controls(name)}", DIM))
    size = f"{len(files.packed)} files, {_size(len(bundle))}"
    if arguments.dry_run:
        screen.print_line(f"{path}: {size}; nothing was written (--dry-run)")
        return DONE
    _write(path, bundle)
    screen.print_line(f"wrote {path}: {size}")
    if isinstance(listing, str):
        screen.print_line(f"server.json was not written: {listing}")
        return DONE
    registry = path.with_name("server.json")
    _write(registry, to_json(listing).encode())
    screen.print_line(f"wrote {registry}: {listing['name']}, for {listing['packages'][0]['identifier']}")
    return DONE


def _size(count: int) -> str:
    return (
        f"{count} bytes" if count < 1000 else f"{count / 1000:.1f} kB" if count < 10**6 else f"{count / 10**6:.1f} MB"
    )


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        raise UsageError(f"cannot write {path}: {error.strerror}", path="--output") from None
