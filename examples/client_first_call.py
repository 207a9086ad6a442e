"""The first call: start a server, list its tools, call one.

    python examples/client_first_call.py

The server is `examples/echo.py`; any command that implements MCP over stdio works.
"""

import asyncio
import sys
from pathlib import Path

from jackstay.client import connect
from jackstay.transport import stdio

ECHO = Path(__file__).parent / "echo.py"


async def main() -> None:
    async with connect(stdio(sys.executable, ECHO, inherit_env=["PYTHONPATH"])) as client:
        print([tool.name for tool in await client.tools.list()])
        result = await client.tools.call("echo", {"text": "hello"}, timeout=5)
        print(result.text)


if __name__ == "__main__":
    asyncio.run(main())
