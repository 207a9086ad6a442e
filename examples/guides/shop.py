"""The server of the guides: stores payments in a file. `pay` must not be repeated; `was_it_paid` may be.

python examples/guides/shop.py ledger.txt
"""

import sys
from pathlib import Path

from jackstay import Server
from jackstay.server import ToolError

server = Server("shop", version="1.0", instructions="Call was_it_paid before you pay for an order again.")


def ledger() -> Path:
    """The file of payments, one per line."""
    return Path(sys.argv[1])


@server.tool(destructive=True)
def pay(order: str, cents: int) -> str:
    """Take a payment for an order.

    Args:
        order: the order's number
        cents: the amount, greater than zero
    """
    if cents <= 0:
        raise ToolError(f"{cents} cents cannot be paid")
    with ledger().open("a") as file:
        file.write(f"{order} {cents}\n")
    return f"{cents} cents for {order}"


@server.tool(read_only=True)
def was_it_paid(order: str) -> str:
    """Whether there is a payment for an order: yes or no.

    Args:
        order: the order's number
    """
    paid = ledger().read_text().split() if ledger().exists() else []
    return "yes" if order in paid[::2] else "no"


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python shop.py LEDGER")
    sys.exit(server.run())
