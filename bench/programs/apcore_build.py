"""The cost of the bridge in a process: build a catalogue, export it, convert schemas. Prints one JSON object.

python apcore_build.py
"""

import asyncio
import json
import time
import tracemalloc
from collections.abc import Callable
from types import SimpleNamespace

from apcore import Executor, Registry
from pydantic import BaseModel, Field

from apcore_mcp import to_openai_tools
from apcore_mcp.adapters import SchemaConverter
from apcore_mcp.catalogue import Catalogue


class Input(BaseModel):
    text: str = Field(description="The text to return")
    times: int = 1


class Output(BaseModel):
    text: str


class Echo:
    input_schema = Input
    output_schema = Output
    description = "Return the text."

    def execute(self, inputs: dict[str, object], context: object) -> dict[str, object]:
        return {"text": inputs["text"]}


SIMPLE = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
NESTED = {
    "type": "object",
    "properties": {f"part_{number}": {"$ref": f"#/$defs/Part{number}"} for number in range(5)},
    "$defs": {f"Part{number}": SIMPLE for number in range(5)},
}


def registry_of(count: int) -> Registry:
    registry = Registry()
    for number in range(count):
        registry.register(f"bench.module_{number:04}", Echo())
    return registry


def build(registry: Registry) -> Catalogue:
    """Return a catalogue of the registry."""
    catalogue = Catalogue(registry)
    catalogue.refresh()
    return catalogue


def cpu(work: Callable[[], object], repeat: int = 1) -> float:
    """Return the minimum CPU seconds of five runs."""
    samples = []
    for _ in range(5):
        started = time.process_time()
        for _ in range(repeat):
            work()
        samples.append((time.process_time() - started) / repeat)
    return min(samples)


def bytes_each(count: int) -> float:
    registry = registry_of(count)
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    catalogue = build(registry)
    used = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return used / len(catalogue.tools())


def bare_call() -> float:
    """Return the CPU seconds of `Executor.call_async` alone."""
    executor = Executor(registry_of(1))

    async def calls(number: int) -> None:
        for _ in range(number):
            await executor.call_async("bench.module_0000", {"text": "hello", "times": 1})

    asyncio.run(calls(200))
    started = time.process_time()
    asyncio.run(calls(1000))
    return (time.process_time() - started) / 1000


def descriptor(schema: dict[str, object]) -> SimpleNamespace:
    return SimpleNamespace(module_id="bench.module", input_schema=schema, output_schema={})


def main() -> None:
    hundred, thousand, converter = registry_of(100), registry_of(1000), SchemaConverter()
    figures = {
        "build of 100": cpu(lambda: build(hundred)),
        "build of 1,000": cpu(lambda: build(thousand)),
        "bytes a tool": bytes_each(1000),
        "to_openai_tools of 100": cpu(lambda: to_openai_tools(hundred)),
        "schema, simple": cpu(lambda: converter.convert_input_schema(descriptor(SIMPLE)), 100),
        "schema, 5 references": cpu(lambda: converter.convert_input_schema(descriptor(NESTED)), 100),
        "bare call_async": bare_call(),
    }
    print(json.dumps(figures))


main()
