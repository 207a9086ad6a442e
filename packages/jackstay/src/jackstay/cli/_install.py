"""`jackstay install HOST`: add a server to the configuration of a host.

Programs that are started from a desktop have another PATH and working directory than a shell, so the command and the
files in it are written as absolute paths.
"""

import os
import re
import shutil
import sys
import textwrap
from argparse import SUPPRESS, ArgumentParser, Namespace
from pathlib import Path
from urllib.parse import urlsplit

from jackstay.cli._commands import add_repeatable
from jackstay.cli._exits import DONE
from jackstay.cli._target import expect_no_more, parse_environment, parse_header, pop_word
from jackstay.errors import UsageError
from jackstay.shell import HOSTS, HostedServer, Screen, deep_link, find_host, install_server

_RUNNERS = frozenset(("python", "python3", "uv", "uvx", "npx", "node", "bunx", "deno", "pipx", "run", "exec"))


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = (
        "jackstay install HOST [options] -- COMMAND [ARGUMENT ...]\n       jackstay install HOST [options] URL"
    )
    parser.epilog = (
        f"{host_list()}\n"
        "examples:\n"
        "  jackstay install claude-desktop --env API_KEY -- uvx mcp-server-git\n"
        f"  jackstay install cursor --project https://example.org/mcp\n{parser.epilog or ''}"
    )
    parser.add_argument("words", nargs="*", metavar="HOST", help=SUPPRESS)
    parser.add_argument("--name", metavar="NAME", help="the name of the server (default: from the command or URL)")
    add_repeatable(parser, "--env", "NAME[=VALUE]", "a variable for the command; without VALUE, its value here")
    add_repeatable(parser, "--header", "LINE", "'NAME: VALUE', for a URL")
    parser.add_argument("--project", action="store_true", help="write the file of the project in this directory")
    parser.add_argument("--replace", action="store_true", help="replace a server of the same name")
    parser.add_argument("--link", action="store_true", help="print a link that installs it instead (cursor, vscode)")
    parser.add_argument("--dry-run", action="store_true", help="print the change, and write nothing")


def host_list() -> str:
    """Return the line of the help that names the hosts, for 80 columns."""
    return textwrap.fill(f"hosts: {', '.join(host.name for host in HOSTS)}", 80, subsequent_indent="  ")


def run(arguments: Namespace) -> int:
    """Write the entry, or print it."""
    words = list(arguments.words)
    host = find_host(pop_word(words, "HOST", f"use one of {', '.join(host.name for host in HOSTS)}"))
    server = _server(arguments, words)
    expect_no_more(words)
    name = arguments.name or _default_name(server)
    if arguments.link:
        link = deep_link(host, name, server)
        if not link:
            raise UsageError(f"{host.title} has no links that install a server", path="--link")
        Screen().print_line(link)
        return DONE
    install_server(
        host, name, server, in_project=arguments.project, replace=arguments.replace, dry_run=arguments.dry_run
    ).show()
    return DONE


def _server(arguments: Namespace, words: list[str]) -> HostedServer:
    """Return the server of the command line, with absolute paths. Raises: UsageError."""
    if arguments.server is not None:
        if arguments.header:
            raise UsageError("--header requires a URL", path="--header")
        return HostedServer(_absolute(arguments.server), parse_environment(arguments.env))
    url = pop_word(words, "the server", "use a URL or a command after --")
    if "://" not in url:
        raise UsageError(f"expected a URL or a command after --, got {url!r}")
    if arguments.env:
        raise UsageError("--env requires a command after --", path="--env")
    return HostedServer(url=url, headers=dict(parse_header(line) for line in arguments.header))


def _absolute(command: list[str]) -> tuple[str, ...]:
    program = shutil.which(command[0])
    if program is None:
        raise UsageError(f"there is no program {command[0]!r} in PATH")
    words = [str(Path(word).absolute()) if _is_file(word) else word for word in command[1:]]
    # An absolute path, but not the target of a link: the Python of an environment is a link.
    return str(Path(program).absolute()), *words


def _is_file(word: str) -> bool:
    return not word.startswith("-") and (os.sep in word or "." in word) and Path(word).exists()


def _default_name(server: HostedServer) -> str:
    """Return a name from the URL, or from the first word of the command that is not a runner or an option.

    Some hosts refuse names with other characters (see `Host.name_pattern`), so the name never has any.
    """
    return re.sub(r"[^A-Za-z0-9_-]+", "-", _short_name(server)).strip("-") or "server"


def _short_name(server: HostedServer) -> str:
    if server.url:
        return (urlsplit(server.url).hostname or "").removeprefix("www.")
    for word in server.command:
        stem = Path(word).stem if word.endswith((".py", ".js", ".exe")) else Path(word).name
        plain = re.split(r"[@=<>\[]", stem)[0]
        if (
            plain
            and not word.startswith("-")
            and re.sub(r"[\d.]+$", "", plain) not in _RUNNERS
            and word != sys.executable
        ):
            return plain
    return ""
