"""Our client with the reference server `everything`, including the requests of the server to the client."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from interop import walks
from interop.known_servers import BY_SERVER
from interop.processes import only_child
from jackstay.client import Client, Notification, connect
from jackstay.errors import JsonRpcError, OutcomeUnknownError
from jackstay.types import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequestParams,
    ElicitResult,
    ImageContent,
    ProgressNotificationParams,
    PromptReference,
    ResourceLink,
    ResourceTemplateReference,
    TextContent,
)

DOCUMENT = "demo://resource/static/document/features.md"


def everything() -> Client:
    return connect(BY_SERVER["everything"].target(Path()), backoff_min=0.01)


class NotificationQueue:
    """A queue of received notifications."""

    def __init__(self, client: Client) -> None:
        self.arrived: asyncio.Queue[Notification] = asyncio.Queue()
        client.on_notification(self.arrived.put_nowait)

    async def next(self, method: str) -> Notification:
        """Return the next notification of this method. Others before it are discarded."""
        while True:
            notification = await self.arrived.get()
            if notification.method == method:
                return notification


async def test_content_types() -> None:
    async with everything() as client:
        await client.tools.list()  # the list contains the output schemas
        assert (await client.tools.call("echo", {"message": "ahoy ⚓"}, raise_on_error=False)).text == "Echo: ahoy ⚓"
        weather = await client.tools.call(
            "get-structured-content", {"location": "Chicago"}, check_output=True, raise_on_error=False
        )
        assert set(weather.structured_content or {}) == {"temperature", "conditions", "humidity"}
        image = await client.tools.call("get-tiny-image", raise_on_error=False)
        assert [block.mime_type for block in image.content if isinstance(block, ImageContent)] == ["image/png"]
        links = await client.tools.call("get-resource-links", {"count": 3}, raise_on_error=False)
        assert len([block for block in links.content if isinstance(block, ResourceLink)]) == 3
        annotated = await client.tools.call("get-annotated-message", {"messageType": "error"}, raise_on_error=False)
        assert annotated.content[0].annotations is not None
        assert annotated.content[0].annotations.priority == 1


async def test_bad_arguments_and_unknown_tools_are_errors_of_the_tool() -> None:
    async with everything() as client:
        assert (await client.tools.call("get-sum", {"a": "many"}, raise_on_error=False)).is_error
        # The TypeScript SDK 1.x returns an error result for an unknown tool; the specification requires -32602.
        unknown = await client.tools.call("no-such-tool", raise_on_error=False)
        assert unknown.is_error
        assert "no-such-tool" in unknown.error_text


async def test_server_rejects_a_call_without_a_task_for_a_task_only_tool() -> None:
    async with everything() as client:
        # We do not declare tasks. The SDK 1.x wraps its own -32601 into an error result.
        rejected = await client.tools.call("simulate-research-query", {"topic": "tides"}, raise_on_error=False)
        assert rejected.is_error
        assert "task" in rejected.error_text


async def test_progress_increases_to_its_total() -> None:
    reports: asyncio.Queue[ProgressNotificationParams] = asyncio.Queue()
    async with everything() as client:
        arguments = {"duration": 0.05, "steps": 5}
        name = "trigger-long-running-operation"
        result = await client.tools.call(name, arguments, on_progress=reports.put_nowait, raise_on_error=False)
        assert "Steps: 5" in result.text
        seen = [await reports.get()]
        while seen[-1].progress < 5:  # the last one may arrive after the result, and some may be merged
            seen.append(await reports.get())
    assert [report.progress for report in seen] == sorted({report.progress for report in seen})
    assert {report.total for report in seen} == {5}


async def test_a_cancelled_call_ends_immediately_and_the_connection_stays_open() -> None:
    async with everything() as client:
        await walks.cancel_long_call(client)


async def test_outcome_is_unknown_if_the_server_is_killed_during_a_call() -> None:
    started = asyncio.Event()
    async with everything() as client:
        name, arguments = "trigger-long-running-operation", {"duration": 3600, "steps": 360_000}
        call = asyncio.ensure_future(
            client.tools.call(
                name, arguments, on_progress=lambda progress: started.set(), timeout=None, raise_on_error=False
            )
        )
        await started.wait()
        os.kill(only_child(), signal.SIGKILL)
        with pytest.raises(OutcomeUnknownError):
            await call
        again = await client.tools.call("echo", {"message": "back"}, wait_for_ready=True, raise_on_error=False)
        assert again.text == "Echo: back"


async def test_resources_and_templates_are_read() -> None:
    async with everything() as client:
        assert DOCUMENT in [resource.uri for resource in await client.resources.list()]
        document = await client.resources.read(DOCUMENT)
        assert "Everything Server" in document.contents[0].text
        templates = [template.uri_template for template in await client.resources.templates()]
        assert "demo://resource/dynamic/text/{resourceId}" in templates
        text = await client.resources.read("demo://resource/dynamic/text/7")
        assert "Resource 7" in text.contents[0].text
        blob = await client.resources.read("demo://resource/dynamic/blob/7")
        assert blob.contents[0].blob
        with pytest.raises(JsonRpcError) as rejected:
            await client.resources.read("demo://resource/no/such")
        assert rejected.value.code == -32602


async def test_prompts_and_completion() -> None:
    async with everything() as client:
        names = [prompt.name for prompt in await client.prompts.list()]
        assert names == ["simple-prompt", "args-prompt", "completable-prompt", "resource-prompt"]
        filled = await client.prompts.get("args-prompt", {"city": "Genoa", "state": "Liguria"})
        assert filled.messages[0].content.text == "What's weather in Genoa, Liguria?"
        prompt = PromptReference(name="completable-prompt")
        departments = await client.completion.complete(prompt, "department", "S")
        assert list(departments.values) == ["Sales", "Support"]
        people = await client.completion.complete(prompt, "name", "", {"department": "Sales"})
        assert list(people.values) == ["David", "Eve", "Frank"]
        template = ResourceTemplateReference(uri="demo://resource/dynamic/text/{resourceId}")
        assert list((await client.completion.complete(template, "resourceId", "4")).values) == ["4"]


async def test_a_subscription_delivers_updates_and_survives_a_server_restart() -> None:
    client = everything()
    updates: asyncio.Queue[str] = asyncio.Queue()
    async with client:
        await client.resources.subscribe(DOCUMENT, updates.put_nowait)
        # The server sends an update for each subscription immediately, and then every five seconds.
        await client.tools.call("toggle-subscriber-updates", raise_on_error=False)
        assert await updates.get() == DOCUMENT
        lost = asyncio.Event()
        client.on_event(lambda name, fields: lost.set() if name == "jackstay.child.exit" else None)
        os.kill(only_child(), signal.SIGKILL)
        await lost.wait()  # a call before the loss is detected may be written, and is lost with the server
        assert updates.empty()
        # The test does not subscribe again; the client restores the subscription. The server may run the next call
        # before it has processed the subscription, so the first updates may be sent too early.
        while updates.empty():
            await client.tools.call("toggle-subscriber-updates", wait_for_ready=True, raise_on_error=False)
        assert updates.get_nowait() == DOCUMENT
        await client.resources.unsubscribe(DOCUMENT)


async def test_server_applies_the_log_level() -> None:
    client = everything()
    received = NotificationQueue(client)
    async with client:
        # The server logs each subscription at level info, before it responds.
        await client.logging.set_level("error")
        await client.resources.subscribe(DOCUMENT)
        await client.logging.set_level("debug")
        await client.resources.unsubscribe(DOCUMENT)
        message = await received.next("notifications/message")
        assert message.params["level"] == "info"
        assert "Unsubscribe" in message.params["data"]  # so nothing was sent for the first subscription


@asynccontextmanager
async def _responding_client() -> AsyncIterator[tuple[Client, NotificationQueue, list[object]]]:
    """Yield a client that responds to all requests of the server and records them."""
    client = everything()
    received, requests = NotificationQueue(client), []

    async def sample(params: CreateMessageRequestParams) -> CreateMessageResult:
        requests.append(params)
        return CreateMessageResult(role="assistant", content=TextContent(text="aye"), model="parrot")

    def elicit(params: ElicitRequestParams) -> ElicitResult:
        requests.append(params)
        return ElicitResult(action="accept", content={"name": "Ada", "check": True})

    client.sampling.handle(sample)
    client.elicitation.handle(elicit)
    client.roots.set(["file:///harbour"])
    async with client:
        # Tools that need these capabilities are registered after `initialized`; the list changes then.
        while "get-roots-list" not in [tool.name for tool in await client.tools.list()]:
            await received.next("notifications/tools/list_changed")
        yield client, received, requests


async def test_sampling() -> None:
    async with _responding_client() as (client, _, requests):
        result = await client.tools.call(
            "trigger-sampling-request", {"prompt": "Ready?", "maxTokens": 20}, raise_on_error=False
        )
        assert '"aye"' in result.text
        assert '"parrot"' in result.text
        (params,) = requests
        assert isinstance(params, CreateMessageRequestParams)
        assert params.max_tokens == 20


async def test_elicitation() -> None:
    async with _responding_client() as (client, _, requests):
        result = await client.tools.call("trigger-elicitation-request", raise_on_error=False)
        assert "Ada" in result.text
        assert len(requests) == 1


async def test_roots() -> None:
    async with _responding_client() as (client, _, _):
        result = await client.tools.call("get-roots-list", raise_on_error=False)
        assert "file:///harbour" in result.text
