"""A server with a tool, a resource, a prompt and a completion, over stdio.

python examples/weather.py
jackstay serve examples/weather.py
"""

import sys
from typing import Annotated, Literal

import msgspec

from jackstay.server import Context, ResourceNotFoundError, Server, ToolError

server = Server("weather", version="1.0", instructions="Weather for three cities. Use the forecast tool with a city.")

TEMPERATURES = {"Bergen": 9, "Cairo": 34, "Lima": 19}


class Day(msgspec.Struct):
    """The weather of one day."""

    day: int
    celsius: int


@server.tool(read_only=True)
async def forecast(ctx: Context, city: str, days: Annotated[int, msgspec.Meta(ge=1, le=14)] = 3) -> list[Day]:
    """The weather of the next days.

    Args:
        city: one of the cities of weather://cities
        days: how many, from 1 to 14
    """
    if city not in TEMPERATURES:
        raise ToolError(f"{city} is not one of {', '.join(TEMPERATURES)}")
    found = []
    for day in range(1, days + 1):
        ctx.progress(day, days)
        found.append(Day(day, TEMPERATURES[city] + day % 2))
    return found


class Where(msgspec.Struct):
    """The form for the user."""

    city: Literal["Bergen", "Cairo", "Lima"]


@server.tool
async def forecast_for_me(ctx: Context) -> str:
    """Elicit the city of the user, and return the weather there."""
    answer = await ctx.elicit("Where are you?", Where, key="city")
    if not answer.is_accepted:
        return "No city, no forecast."
    return f"{TEMPERATURES[answer.data.city]} degrees"


@server.resource("weather://cities", mime_type="application/json")
def cities() -> list[str]:
    """The supported cities."""
    return list(TEMPERATURES)


@server.resource("weather://now/{city}")
async def now(city: str) -> str:
    """The weather now."""
    if city not in TEMPERATURES:
        raise ResourceNotFoundError
    return f"{TEMPERATURES[city]} degrees in {city}"


@server.prompt
def packing(city: str, days: int = 3) -> str:
    """What to pack for a journey."""
    return f"I go to {city} for {days} days. Use the forecast and list what to pack."


@server.completion("packing", "city")
def complete_city(typed: str) -> list[str]:
    """The cities that start with the typed text."""
    return [city for city in TEMPERATURES if city.lower().startswith(typed.lower())]


if __name__ == "__main__":
    sys.exit(server.run())
