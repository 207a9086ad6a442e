"""A server with an app: hosts that show apps roll the dice on a page, all others get text.

jackstay inspect -- python examples/apps/server.py
"""

import random
import sys
from pathlib import Path

from jackstay import Context, Server
from jackstay.apps import App

server = Server("dice", version="1.0")
page = App("ui://dice/page", Path(__file__).with_name("dice.html"), prefers_border=True)


@server.tool(app=page)
def roll(ctx: Context, count: int = 2) -> list[int] | str:
    """Roll some dice."""
    rolled = [random.randint(1, 6) for _ in range(count)]  # noqa: S311  # no secret
    return rolled if ctx.shows_apps else f"You rolled {' and '.join(map(str, rolled))}."


@server.tool(app=page, app_only=True)
def roll_again(count: int) -> list[int]:
    """Roll the dice of the page again."""
    return [random.randint(1, 6) for _ in range(count)]  # noqa: S311  # no secret


if __name__ == "__main__":
    sys.exit(server.run())
