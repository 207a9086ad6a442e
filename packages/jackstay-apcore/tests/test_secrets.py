"""Sensitive arguments are not in logs and error messages."""

import json
import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from apcore import Executor, InvalidInputError, Registry

from apcore_mcp.catalogue import Catalogue
from apcore_mcp.secrets import REDACTED, SECRETS, Secrets, hide, hide_exc_info
from apcore_mcp.server import ExecutionRouter
from apcore_mcp.tracing import TraceFilter
from scripted.places import PYTHONPATH, ROOT

CARD = "4111111111111111"
SCHEMA = {
    "type": "object",
    "properties": {
        "card": {"type": "string", "x-sensitive": True},
        "holder": {"type": "object", "x-sensitive": True},
        "pin": {"type": "integer", "x-sensitive": True},
        "amount": {"type": "integer"},
    },
}


def test_demo_output_contains_no_secrets(tmp_path: Path) -> None:
    """Neither the client nor the log gets the card number."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    params = {"name": "payments.charge", "arguments": {"amount": 3, "card": CARD}, "_meta": meta}
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    command = [sys.executable, "-m", "apcore_mcp", "--extensions-dir", "examples/apcore_demo/extensions"]
    (tmp_path / "in").write_text(json.dumps(request) + "\n")
    with (tmp_path / "in").open("rb") as stdin:
        done = subprocess.run(
            [*command, "--log-level", "DEBUG"],
            stdin=stdin,
            capture_output=True,
            timeout=120,
            check=False,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": PYTHONPATH},
        )
    response = json.loads(done.stdout)
    assert response["result"]["isError"]
    errors = done.stderr.decode()
    assert f"ConnectionError: bank-gateway.internal:8443 refused card {REDACTED}" in errors
    assert CARD not in errors + done.stdout.decode()


async def call_charge(registry: Registry, kinds: SimpleNamespace, function: Any) -> Any:
    registry.register("bank.charge", kinds.Plain(function, input_schema=SCHEMA))
    catalogue = Catalogue(registry)
    catalogue.refresh()
    router = ExecutionRouter(Executor(registry), catalogue=catalogue)
    arguments = {"card": CARD, "holder": {"name": 'Ada L"ovelace'}, "pin": 7, "amount": 17}
    return await router.handle_call("bank.charge", arguments)


async def test_chained_exceptions_groups_and_notes(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(inputs: dict[str, Any], _: Any) -> Any:
        try:
            raise ValueError(f"card {inputs['card']}")
        except ValueError as error:
            error.add_note(f"of {inputs['holder']['name']!r}")
            group = ExceptionGroup(f"{inputs['card']} failed", [error, OSError(f"pin {inputs['pin']} of 17")])
            raise ConnectionError(f"refused {json.dumps(inputs)}") from group

    caplog.handler.setFormatter(logging.Formatter("%(filename)s %(message)s"))
    with caplog.at_level(logging.DEBUG):
        result = await call_charge(registry, kinds, fail)
    assert result.is_error
    assert "ConnectionError: refused" in caplog.text
    assert f"ValueError: card {REDACTED}" in caplog.text
    assert f"pin {REDACTED} of 17" in caplog.text, "a short value is replaced only as a whole word"
    assert CARD not in caplog.text
    assert "ovelace" not in caplog.text
    assert "in fail" in caplog.text, "the traceback is kept"
    assert "errors.py a module failed: ConnectionError" in caplog.text
    for record in caplog.records:  # handlers may format records themselves
        if record.exc_info:
            assert CARD not in "".join(traceback.format_exception(*record.exc_info))


async def test_messages_for_clients(registry: Registry, kinds: SimpleNamespace) -> None:
    def refuse(inputs: dict[str, Any], _: Any) -> Any:
        raise InvalidInputError(message=f"no such card: {inputs['card']}")

    result = await call_charge(registry, kinds, refuse)
    assert result.error_text == f"Invalid input: no such card: {REDACTED}"


async def test_log_lines_of_modules(
    registry: Registry, kinds: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    log = logging.getLogger("a.module")

    def work(inputs: dict[str, Any], _: Any) -> Any:
        log.info("charging %s", inputs["card"])
        log.info("not sensitive: %d", 5)
        try:
            raise OSError(inputs["card"])
        except OSError:
            log.warning("again", exc_info=True)
        return {}

    caplog.handler.addFilter(TraceFilter())
    with caplog.at_level(logging.INFO):
        assert not (await call_charge(registry, kinds, work)).is_error
    assert f"charging {REDACTED}" in caplog.text
    assert "not sensitive: 5" in caplog.text
    assert f"OSError: {REDACTED}" in caplog.text
    assert CARD not in caplog.text


def secrets_of(**arguments: Any) -> Secrets:
    return Secrets(arguments, lambda given: dict.fromkeys(given, REDACTED))


def test_nothing_changes_without_secrets() -> None:
    error = ValueError("card")
    assert hide("card") == "card"
    assert hide_exc_info(error) is error
    assert secrets_of(nothing=None, flag=True, empty="").hide("None True") == "None True"
    assert secrets_of(empty="").hide_error(error) is error
    assert secrets_of(card=CARD).hide_error(error) is error
    assert repr(secrets_of(card=CARD)) == "<Secrets>"


def test_every_form_of_exc_info() -> None:
    token = SECRETS.set(secrets_of(cards=[CARD], nested={"a": (CARD,)}))
    try:
        assert hide_exc_info(None) is None
        assert hide_exc_info(True) is True, "no exception is being handled"
        try:
            raise ValueError(CARD)
        except ValueError as error:
            for given in (True, error, sys.exc_info()):
                hidden = hide_exc_info(given)
                assert str(hidden) == REDACTED
                assert type(hidden).__name__ == "ValueError"
                assert hidden.__traceback__ is sys.exc_info()[2]
    finally:
        SECRETS.reset(token)


def test_unprintable_and_circular_exceptions() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    unprintable, first = Unprintable(), ValueError(CARD)
    unprintable.__context__ = first
    first.__cause__ = unprintable
    copy = secrets_of(card=CARD).hide_error(first)
    assert str(copy) == REDACTED
    assert str(copy.__cause__) == "(str() of the exception failed)"
    assert copy.__cause__ is not None
    assert copy.__cause__.__context__ is copy
    assert copy.__suppress_context__
