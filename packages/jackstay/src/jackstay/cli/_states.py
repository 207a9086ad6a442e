"""`jackstay states`: print the state machines of `jackstay.protocol`."""

from argparse import ArgumentParser, Namespace
from itertools import groupby

from jackstay.cli._commands import add_help
from jackstay.cli._exits import DONE
from jackstay.protocol.drawing import FORMATS, MACHINES, draw
from jackstay.shell import Screen

# Format -> the heading or comment above each machine if several are printed.
HEADINGS = {"table": "# {name}", "mermaid": "%% {name}", "dot": "// {name}"}


def add_arguments(parser: ArgumentParser) -> None:
    """Declare the arguments of this command."""
    add_help(parser, examples=("client", "--format dot server | dot -Tsvg > server.svg"))
    parser.add_argument("machine", nargs="?", choices=tuple(MACHINES), help="the machine to print (default: all)")
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="table, Mermaid for Markdown, or DOT for Graphviz (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Print one machine, or all of them with headings."""
    machines, heading = MACHINES, f"{HEADINGS[arguments.format]}\n\n"
    if arguments.machine is not None:
        machines, heading = {arguments.machine: MACHINES[arguments.machine]}, ""
    pages = [heading.format(name=name) + draw(machine, arguments.format) for name, machine in machines.items()]
    text = "\n\n".join(page.rstrip("\n") for page in pages)
    screen = Screen()
    # On a terminal, the tables of Markdown have the width of the terminal.
    for is_table, lines in groupby(text.splitlines(), lambda line: screen.is_terminal and line.startswith("|")):
        if is_table:
            heads, _, *rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines)
            screen.table(heads, rows)
        else:
            screen.print_line("\n".join(lines))
    return DONE
