"""Outputs of modules as JSON."""

import json
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType, SimpleNamespace
from typing import Any

import msgspec
import pytest
from apcore import Executor, Registry
from pydantic import BaseModel

from apcore_mcp.server.router import ExecutionRouter
from apcore_mcp.server.router_json import to_json
from apcore_mcp.validation import ArgumentRules


def test_other_keys_become_strings() -> None:
    """Middleware may return mappings with other keys for a module without an output schema."""
    assert to_json({1: 2, (1, 2): {3}, None: (float("nan"),)}) == (
        '{"1": 2, "(1, 2)": [3], "None": [null]}',
        ("None[0]",),
    )
    assert to_json(float("inf")) == ("null", ("the root",))


class Tone(Enum):
    COLD = "cold"


class Level(IntEnum):
    LOW = 1


class Weather(BaseModel):
    tone: Tone = Tone.COLD


@dataclass
class Reading:
    tone: Tone = Tone.COLD
    degrees: float = 1.5


class Named(msgspec.Struct, rename="camel"):
    full_name: str = "x"


JSON_VALUES: list[tuple[Any, Any]] = [
    (Tone.COLD, "cold"),
    (Level.LOW, 1),
    (datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
    (date(2026, 1, 2), "2026-01-02"),
    (time(3, 4), "03:04:00"),
    (timedelta(seconds=5), "PT5S"),
    (Decimal("1.50"), "1.50"),
    (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (PurePosixPath("/x"), "/x"),
    (b"ab", "YWI="),
    ({1}, [1]),
    (frozenset({Tone.COLD}), ["cold"]),
    (deque([1]), [1]),
    (MappingProxyType({"a": Tone.COLD}), {"a": "cold"}),
    (Weather(), {"tone": "cold"}),
    (Reading(), {"tone": "cold", "degrees": 1.5}),
    (Named(), {"fullName": "x"}),
    ({Tone.COLD: 1, Level.LOW: 2, date(2026, 1, 2): 3}, {"cold": 1, "1": 2, "2026-01-02": 3}),
    (Tone, str(Tone)),
    (ValueError("x"), "x"),
]


def test_json_values(subtests: pytest.Subtests) -> None:
    for value, expected in JSON_VALUES:
        with subtests.test(value=value):
            assert json.loads(to_json({"v": value})[0]) == {"v": expected}
            # Together with NaN, which uses another code path.
            text, invalid = to_json({"v": value, "n": float("nan")})
            assert json.loads(text) == {"v": expected, "n": None}
            assert invalid == ("n",)


def test_dataclasses_and_circular_values() -> None:
    assert to_json(Reading(degrees=float("nan"))) == ('{"tone": "cold", "degrees": null}', ("degrees",))
    circular = Reading()
    circular.tone = circular  # type: ignore[assignment]
    with pytest.raises(ValueError, match=r"(?i)circular"):
        to_json(circular)


async def test_structured_output_matches_the_schema(registry: Registry, kinds: SimpleNamespace) -> None:
    """Text and structured content are equal."""
    schema = Weather.model_json_schema(mode="serialization")
    module = kinds.Plain(lambda i, c: {"tone": Tone.COLD}, output_schema=Weather)
    registry.register("weather.tone", module)
    result = await ExecutionRouter(Executor(registry)).handle_call("weather.tone", {})
    assert result.structured_content == json.loads(result.text) == {"tone": "cold"}
    assert ArgumentRules(schema).problems(result.structured_content) == []
