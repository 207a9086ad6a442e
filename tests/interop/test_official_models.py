"""Messages of our server in an older revision are valid for the official SDK of that time.

The official SDK for Python had models of one revision at a time: its newest. So an old release has the models of an old
revision, before members of later ones were added. Messages are held to them twice: they validate, and members that are
newer than the models are only those that describe, which every schema leaves room for and every reader may pass over.
"""

import sys
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

import pytest
from pydantic import BaseModel, RootModel, TypeAdapter

from chaos.servers_own.all_messages import SentMessage, record_all_messages
from chaos.servers_own.conversation import run
from interop.peers import BY_NAME
from jackstay.protocol import METHODS

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18")

# Members of later revisions that every client receives: none changes the meaning of a message. Structure
# (`outputSchema`, `structuredContent`, links to resources) is not among them, and must not be.
DESCRIBES = {
    ("Implementation", "title"),
    ("Implementation", "icons"),
    ("Implementation", "websiteUrl"),
    ("Tool", "title"),
    ("Tool", "icons"),
    ("Tool", "annotations"),
    ("Tool", "_meta"),
    ("Prompt", "title"),
    ("Resource", "title"),
    ("ResourceTemplate", "title"),
    ("ProgressNotificationParams", "message"),
    ("ServerCapabilities", "completions"),
}


def load(version: str) -> ModuleType:
    """`mcp/types.py` of that release alone: the rest of it needs what else it needs."""
    (path,) = BY_NAME[f"models-{version}"].home.glob("lib/python*/site-packages/mcp/types.py")
    spec = spec_from_file_location(f"official_models_{version.replace('-', '_')}", path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules[spec.name] = module  # annotations are resolved through it
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module", params=REVISIONS)
def conversation(request: pytest.FixtureRequest) -> tuple[str, ModuleType, list[SentMessage]]:
    version, sent = request.param, list[SentMessage]()

    async def test() -> None:
        sent.extend(await record_all_messages(version))

    run(test)
    return version, load(version), sent


def model_of(models: ModuleType, one: SentMessage) -> tuple[Any, Any]:
    """The model of a message, and the part of the message it is of."""
    if one.kind == "result":
        return getattr(models, METHODS[one.method].result), one.message["result"]
    if one.kind == "error":
        return models.JSONRPCError, one.message
    body = {key: value for key, value in one.message.items() if key in ("method", "params")}
    return (models.ServerRequest if one.kind == "request" else models.ServerNotification), body


def unknown(value: Any) -> Iterator[tuple[str, str]]:
    """The members, at any depth, that no model knows."""
    if isinstance(value, RootModel):
        yield from unknown(value.root)
    elif isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield type(value).__name__, name
        for name in type(value).model_fields:
            yield from unknown(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from unknown(item)


def test_the_models_are_those_of_the_revision(conversation: tuple[str, ModuleType, list[SentMessage]]) -> None:
    version, models, _ = conversation
    assert version == models.LATEST_PROTOCOL_VERSION


def test_every_message_is_one_of_its_time(conversation: tuple[str, ModuleType, list[SentMessage]]) -> None:
    _, models, sent = conversation
    assert len(sent) > 40
    newer = set()
    for message in sent:
        if message.is_exempt:
            continue  # an error without a readable id: `"id": null`, which those models do not take (section 6)
        model, value = model_of(models, message)
        newer |= set(unknown(TypeAdapter(model).validate_python(value)))
    assert newer <= DESCRIBES
