"""The shop of the guides with a fault in the first payment: `python faulty_shop.py LEDGER FAULT`.

FAULT is `before` (exit before the payment is written), `after` (exit after it), or `held` (write to the FIFO
LEDGER.begun, and wait for LEDGER.go). The file LEDGER.fault records that the fault has occurred.
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
    result = pay(order, cents)
    if fault == "after":
        os._exit(1)
    return result


shop.server.remove_tool("pay")
shop.server.tool(name="pay", destructive=True)(faulty)

if __name__ == "__main__":
    sys.exit(shop.server.run())
