"""What a client does in one test of `test_shared_sessions`, the same for both SDKs.

A scenario gets a client with the methods `call(tool, on_progress, **arguments)`, which returns the text of the result,
`subscribe(uri)`, `listening()`, `one_more(kind, call)` and `cancel()`, and returns what it saw.
"""

import anyio


async def changes(client) -> dict:
    """Count the notifications of changed lists: other processes start during the call of `pause`."""
    async with client.listening():
        await client.call("pause")
        await client.one_more("changes", lambda: client.call("add", name="added"))
        return {"changes": client.seen["changes"]}


async def updates(client) -> dict:
    """Subscribe to two resources, each request at another process, and receive the updates of both."""
    for uri in ("memo://1", "memo://2"):
        await client.subscribe(uri)
    async with client.listening("memo://1", "memo://2"):
        for number in (1, 2, 1, 2):
            await client.one_more("changes", lambda: client.call("add", name="added"))
            await client.one_more("updates", lambda uri=f"memo://{number}": client.call("update", uri=uri))
    return client.seen


async def report(client) -> dict:
    """Receive many events of one turn of the loop."""
    received = []
    text = await client.call("report", received.append, count=50)
    return {"progress": received, "text": text}


async def busy(client) -> dict:
    """Call while one of the processes refuses requests."""
    for tool in ("pid", "pause"):  # after a first call an SDK lists the tools
        await client.call(tool)
    found = []
    for _ in range(4):
        try:
            with anyio.fail_after(60):
                found.append(await client.call("pid"))
        except Exception as error:  # noqa: BLE001  # the SDKs differ, also between their transports
            found.append(f"failed: {type(error).__name__}: {error}")
    return {"found": found}


async def cancelled(client) -> dict:
    """Cancel a call, and stay connected for many times the interval after which a stream is resumed."""
    await client.cancel()
    return {"text": await client.call("nap", seconds=2.0)}


async def standing(client) -> dict:
    """Receive changes before and after the process of the GET stream dies, during one of two calls at others."""
    await client.subscribe("memo://1")
    async with client.listening("memo://1"):
        await client.one_more("changes", lambda: client.call("add", name="added"))
        paused = [await client.call("pause") for _ in range(2)]
        await client.one_more("changes", lambda: client.call("add", name="added"))
        await client.one_more("updates", lambda: client.call("update", uri="memo://1"))
    return {"paused": paused, **client.seen}


SCENARIOS = {scenario.__name__: scenario for scenario in (changes, updates, report, busy, cancelled, standing)}
