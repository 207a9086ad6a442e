"""`mooring states`: print the state machines. The drawing is the protocol room's; only the choice is made here."""

from argparse import ArgumentParser, Namespace

from mooring.protocol import MACHINES, draw

FORMATS = ("table", "mermaid", "dot")


def add_arguments(parser: ArgumentParser) -> None:
    """Which machine, and how it is drawn."""
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
        help="table for reading, mermaid for Markdown pages, dot for Graphviz (default: %(default)s)",
    )


def run(arguments: Namespace) -> int:
    """Print what was asked for, with an empty line between machines."""
    names = [arguments.machine] if arguments.machine is not None else list(MACHINES)
    print("\n\n".join(draw(MACHINES[name], arguments.format).rstrip("\n") for name in names))
    return 0
