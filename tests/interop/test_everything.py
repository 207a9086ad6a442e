"""Our client with the server that has every feature, and its requests to the client."""

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


class ReceivedMessage:
    """The notifications that arrived, and a wait for one that fits."""

    def __init__(self, client: Client) -> None:
        self.arrived: asyncio.Queue[Notification] = asyncio.Queue()
        client.on_notification(self.arrived.put_nowait)

    async def next(self, method: str) -> Notification:
        """The next of this method; the others before it are let go."""
        while True:
            notification = await self.arrived.get()
            if notification.method == method:
                return notification


async def test_content_of_every_kind_is_read() -> None:
    async with everything() as client:
        await client.tools.list()  # so that output is checked against its schema
        assert (await client.tools.call("echo", {"message": "ahoy ⚓"})).text == "Echo: ahoy ⚓"
        weather = await client.tools.call("get-structured-content", {"location": "Chicago"}, check_output=True)
        assert set(weather.structured_content or {}) == {"temperature", "conditions", "humidity"}
        image = await client.tools.call("get-tiny-image")
        assert [block.mime_type for block in image.content if isinstance(block, ImageContent)] == ["image/png"]
        links = await client.tools.call("get-resource-links", {"count": 3})
        assert len([block for block in links.content if isinstance(block, ResourceLink)]) == 3
        annotated = await client.tools.call("get-annotated-message", {"messageType": "error"})
        assert annotated.content[0].annotations is not None
        assert annotated.content[0].annotations.priority == 1


async def test_bad_arguments_and_unknown_tools_are_errors_of_the_tool() -> None:
    async with everything() as client:
        assert (await client.tools.call("get-sum", {"a": "many"})).is_error
        # The TypeScript SDK 1.x answers an unknown tool with an error result; the specification requires -32602.
        unknown = await client.tools.call("no-such-tool")
        assert unknown.is_error
        assert "no-such-tool" in unknown.text


async def test_a_tool_that_only_runs_as_a_task_is_refused_by_the_server() -> None:
    async with everything() as client:
        # We do not declare tasks. The SDK 1.x wraps its own -32601 into an error result.
        refused = await client.tools.call("simulate-research-query", {"topic": "tides"})
        assert refused.is_error
        assert "task" in refused.text


async def test_progress_rises_to_its_total() -> None:
    reports: asyncio.Queue[ProgressNotificationParams] = asyncio.Queue()
    async with everything() as client:
        arguments = {"duration": 0.05, "steps": 5}
        name = "trigger-long-running-operation"
        result = await client.tools.call(name, arguments, on_progress=reports.put_nowait)
        assert "Steps: 5" in result.text
        seen = [await reports.get()]
        while seen[-1].progress < 5:  # the last may come a moment after the answer, and some may be merged
            seen.append(await reports.get())
    assert [report.progress for report in seen] == sorted({report.progress for report in seen})
    assert {report.total for report in seen} == {5}


async def test_a_cancelled_call_ends_at_once_and_the_connection_goes_on() -> None:
    async with everything() as client:
        await walks.cancel_for_an_hour(client)


async def test_a_call_that_runs_when_the_server_is_killed_may_have_run() -> None:
    started = asyncio.Event()
    async with everything() as client:
        name, arguments = "trigger-long-running-operation", {"duration": 3600, "steps": 360_000}
        call = asyncio.ensure_future(
            client.tools.call(name, arguments, on_progress=lambda progress: started.set(), timeout=None)
        )
        await started.wait()
        os.kill(only_child(), signal.SIGKILL)
        with pytest.raises(OutcomeUnknownError):
            await call
        again = await client.tools.call("echo", {"message": "back"}, wait_for_ready=True)
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
        with pytest.raises(JsonRpcError) as refused:
            await client.resources.read("demo://resource/no/such")
        assert refused.value.code == -32602


async def test_prompts_are_filled_in_and_arguments_completed() -> None:
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


async def test_a_subscription_brings_updates_and_outlives_the_server() -> None:
    client = everything()
    updates: asyncio.Queue[str] = asyncio.Queue()
    async with client:
        await client.resources.subscribe(DOCUMENT, updates.put_nowait)
        # It sends one update at once for what is subscribed, and then one every five seconds.
        await client.tools.call("toggle-subscriber-updates")
        assert await updates.get() == DOCUMENT
        lost = asyncio.Event()
        client.on_event(lambda name, fields: lost.set() if name == "jackstay.child.exit" else None)
        os.kill(only_child(), signal.SIGKILL)
        await lost.wait()  # a call made before the loss is noticed may be written, and is lost with the server
        assert updates.empty()
        # The test does not subscribe again: without the client's own subscription there would be no update. It takes a
        # subscription while it already runs the next call, so the first round of updates may come too early for it.
        while updates.empty():
            await client.tools.call("toggle-subscriber-updates", wait_for_ready=True)
        assert updates.get_nowait() == DOCUMENT
        await client.resources.unsubscribe(DOCUMENT)


async def test_the_log_level_is_kept_by_the_server() -> None:
    client = everything()
    received = ReceivedMessage(client)
    async with client:
        # It logs each subscription at level info, before it answers.
        await client.logging.set_level("error")
        await client.resources.subscribe(DOCUMENT)
        await client.logging.set_level("debug")
        await client.resources.unsubscribe(DOCUMENT)
        message = await received.next("notifications/message")
        assert message.params["level"] == "info"
        assert "Unsubscribe" in message.params["data"]  # so nothing was sent for the first


@asynccontextmanager
async def _answering() -> AsyncIterator[tuple[Client, ReceivedMessage, list[object]]]:
    """A client that responds to all requests and keeps them."""
    client = everything()
    received, requests = ReceivedMessage(client), []

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


async def test_the_server_samples_through_our_handler() -> None:
    async with _answering() as (client, _, requests):
        result = await client.tools.call("trigger-sampling-request", {"prompt": "Ready?", "maxTokens": 20})
        assert '"aye"' in result.text
        assert '"parrot"' in result.text
        (params,) = requests
        assert isinstance(params, CreateMessageRequestParams)
        assert params.max_tokens == 20


async def test_elicitation() -> None:
    async with _answering() as (client, _, requests):
        result = await client.tools.call("trigger-elicitation-request")
        assert "Ada" in result.text
        assert len(requests) == 1


async def test_roots() -> None:
    async with _answering() as (client, _, _):
        result = await client.tools.call("get-roots-list")
        assert "file:///harbour" in result.text
