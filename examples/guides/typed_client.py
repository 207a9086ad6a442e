"""Call the tools of examples/weather.py with types. weather_client.py is generated:

jackstay generate --output examples/guides/weather_client.py -- python examples/weather.py
python examples/guides/typed_client.py
"""

import asyncio
from pathlib import Path

from weather_client import WeatherClient

from jackstay import connect


async def main() -> None:
    """Print a forecast."""
    async with connect(Path(__file__).parents[1] / "weather.py") as client:
        weather = WeatherClient(client)
        for day in await weather.forecast(city="Lima", days=2, timeout=10):
            print(f"day {day['day']}: {day['celsius']} degrees")


asyncio.run(main())
