"""`jackstay states`: print the state machines. The drawing is the protocol room's; only the choice is made here."""

from argparse import ArgumentParser, Namespace

from jackstay.protocol.drawing import FORMATS, MACHINES, draw

# format -> how a machine is announced when several are printed, as that format writes a heading or a comment.
HEADINGS = {"table": "# {name}", "mermaid": "%% {name}", "dot": "// {name}"}


def add_arguments(parser: ArgumentParser) -> None:
    """Which machine, and how it is drawn."""
    parser.epilog = (
        "examples:\n  jackstay states client\n  jackstay states --format dot server | dot -Tsvg > server.svg\n"
        f"{parser.epilog or ''}"
    )
    parser.add_argument(
        "machine",
        nargs="?",
        choices=tuple(MACHINES),
        help="one machine (default: all of them)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="table",
        help="for reading, Markdown pages, Graphviz (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Print the machine that was asked for, or all of them, each under its name."""
    if arguments.machine is not None:
        print(draw(MACHINES[arguments.machine], arguments.format).rstrip("\n"))
        return 0
    heading = HEADINGS[arguments.format]
    pages = (
        f"{heading.format(name=name)}\n\n{draw(machine, arguments.format)}"
        for name, machine in MACHINES.items()
    )
    print("\n\n".join(page.rstrip("\n") for page in pages))
    return 0
