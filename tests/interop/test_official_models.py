"""Messages of our server in an older revision are valid for the official SDK of that time.

A release of the official Python SDK has the models of one revision: its newest. An old release has those of an old
revision, without the members of later ones. Two things are checked: every message validates, and members that the
models do not define are only descriptive, so that a reader may ignore them.
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

# Members of later revisions that every client receives: none changes the meaning of a message. Structural members
# (`outputSchema`, `structuredContent`, links to resources) must not be in this list.
DESCRIPTIVE = {
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
    """Load only `mcp/types.py` of the release, because the other modules have more dependencies."""
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


def model_of(models: ModuleType, sent: SentMessage) -> tuple[Any, Any]:
    """Return the model of a message, and the part of the message that it describes."""
    if sent.kind == "result":
        return getattr(models, METHODS[sent.method].result), sent.message["result"]
    if sent.kind == "error":
        return models.JSONRPCError, sent.message
    body = {key: value for key, value in sent.message.items() if key in ("method", "params")}
    return (models.ServerRequest if sent.kind == "request" else models.ServerNotification), body


def undefined_members(value: Any) -> Iterator[tuple[str, str]]:
    """Yield the members, at any depth, that are not in the models."""
    if isinstance(value, RootModel):
        yield from undefined_members(value.root)
    elif isinstance(value, BaseModel):
        for name in value.model_extra or {}:
            yield type(value).__name__, name
        for name in type(value).model_fields:
            yield from undefined_members(getattr(value, name))
    elif isinstance(value, list):
        for item in value:
            yield from undefined_members(item)


def test_models_are_those_of_the_revision(conversation: tuple[str, ModuleType, list[SentMessage]]) -> None:
    version, models, _ = conversation
    assert version == models.LATEST_PROTOCOL_VERSION


def test_every_message_is_valid_in_its_revision(conversation: tuple[str, ModuleType, list[SentMessage]]) -> None:
    _, models, sent = conversation
    assert len(sent) > 40
    newer = set()
    for message in sent:
        if message.is_exempt:
            continue  # an error without a readable id has `"id": null`, which those models reject
        model, value = model_of(models, message)
        newer |= set(undefined_members(TypeAdapter(model).validate_python(value)))
    assert newer <= DESCRIPTIVE
