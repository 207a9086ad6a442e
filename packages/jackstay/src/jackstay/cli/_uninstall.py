"""`jackstay uninstall HOST NAME`: remove a server from the configuration of a host."""

from argparse import SUPPRESS, ArgumentParser, Namespace

from jackstay.cli._exits import DONE
from jackstay.cli._install import host_list
from jackstay.cli._target import expect_no_more, pop_word
from jackstay.shell import find_host, uninstall_server


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    parser.usage = "jackstay uninstall HOST NAME [options]"
    parser.epilog = f"{host_list()}\nexamples:\n  jackstay uninstall cursor weather\n{parser.epilog or ''}"
    parser.add_argument("words", nargs="*", metavar="HOST NAME", help=SUPPRESS)
    parser.add_argument("--project", action="store_true", help="change the file of the project in this directory")
    parser.add_argument("--dry-run", action="store_true", help="print the change, and write nothing")


def run(arguments: Namespace) -> int:
    """Remove the entry."""
    words = list(arguments.words)
    host = find_host(pop_word(words, "HOST"))
    name = pop_word(words, "NAME", f"list the servers of {host.title} with jackstay discover")
    expect_no_more(words)
    uninstall_server(host, name, in_project=arguments.project, dry_run=arguments.dry_run).show()
    return DONE
