"""The shop of the guides, in trouble: `python faulty_shop.py LEDGER FAULT` breaks the first payment, in this way, and only it.

before: dies before it is written; after: dies when it is written; held: says `begun` through the FIFO LEDGER.begun, and goes on
when something comes through LEDGER.go. The file LEDGER.fault remembers that it was broken: the process cannot.
"""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "examples" / "guides"))
import shop

pay = shop.pay


def faulty(order: str, cents: int) -> str:
    """Take a payment for an order."""
    mark, fault = Path(f"{sys.argv[1]}.fault"), sys.argv[2]
    if mark.exists():
        return pay(order, cents)
    mark.touch()
    if fault == "held":
        Path(f"{sys.argv[1]}.begun").write_text("begun")
        Path(f"{sys.argv[1]}.go").read_text()
    if fault == "before":
        os._exit(1)
    said = pay(order, cents)
    if fault == "after":
        os._exit(1)
    return said


shop.server.remove_tool("pay")
shop.server.tool(name="pay", destructive=True)(faulty)

if __name__ == "__main__":
    sys.exit(shop.server.run())
