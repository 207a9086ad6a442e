"""Fixtures: directories of modules, and a process state that is restored after each test."""

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ADD = """
from pydantic import BaseModel

class In(BaseModel):
    a: int
    b: int = 2

class Out(BaseModel):
    total: int

class Add:
    input_schema = In
    output_schema = Out
    description = "{description}"
    tags = ["math"]

    def execute(self, inputs, context):
        print("this goes to stderr")
        return {{"total": inputs["a"] + inputs["b"]}}
"""


@pytest.fixture(autouse=True)
def restored_logging() -> Iterator[None]:
    """Restore the logging configuration, which the command changes."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("APCORE_MCP_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a module at a path below the directory of the test."""

    def write(path: str = "modules/math/add.py", description: str = "Add") -> Path:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ADD.format(description=description))
        return file

    return write


@pytest.fixture
def modules(tmp_path: Path, write: Callable[..., Path]) -> Path:
    """A directory with one module, `math.add`."""
    write()
    return tmp_path / "modules"
