"""Runs every fuzz entry beside this file under Hypothesis, and on the inputs the entry remembers.

An entry is `fuzz_<parser>.py`. Its first line is its invariant, as a comment; `fuzz(data: bytes) -> None` raises when
the invariant is broken; `CORPUS: list[bytes]`, if it has one, holds inputs worth trying every time.
"""

import importlib.util
import inspect
import random
import re
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, strategies

HERE = Path(__file__).parent
ENTRIES = sorted(HERE.glob("fuzz_*.py"))

# Bytes that mean something to the parsers here. Plain random bytes almost never reach past the first check.
PIECES = [
    *(bytes([byte]) for byte in b'{}[]",:\\ \n\r\t0-+.eE\x00\x7f\x80\xc0\xe2\xed\xef\xff'),
    *(
        b"\r\n",
        b"\r\n\r\n",
        b"\n\n",
        b"\xef\xbb\xbf",
        b"\xe2\x80\xa8",
        b"\xed\xa0\x80",
        b"\\ud800",
        b"\\u0000",
    ),
    *(
        b"null",
        b"true",
        b"false",
        b"NaN",
        b"Infinity",
        b"1e999",
        b"-0",
        b"9007199254740993",
        b'""',
        b"{}",
        b"[]",
    ),
    *(
        b'"jsonrpc":"2.0"',
        b'"id":1',
        b'"id":null',
        b'"method":"ping"',
        b'"params":{}',
        b'"result":{}',
        b'"error":{}',
    ),
    *(
        b"Content-Length: ",
        b"content-length:",
        b"Content-Type: application/json",
        b"data: ",
        b"event: message",
        b"id: 1",
    ),
    *(b"retry: ", b": comment", b"=?base64?", b"?=", b"MCP-Protocol-Version", b"2025-11-25", b"x-mcp-header"),
]

INPUTS = strategies.one_of(
    strategies.binary(max_size=512),
    strategies.lists(
        strategies.one_of(strategies.sampled_from(PIECES), strategies.binary(max_size=6)), max_size=40
    ).map(b"".join),
)


def load(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def invariant(source: str) -> str | None:
    """The invariant on the first line, or None."""
    found = re.match(r"# Invariant: (\S.*)\n", source)
    return found[1] if found else None


def mutations(seed: bytes) -> list[bytes]:
    """Variants of a corpus input: truncated, doubled, with one byte changed."""
    chooser = random.Random(seed)
    changed = []
    for _ in range(32 if seed else 0):
        at = chooser.randrange(len(seed))
        changed.append(seed[:at] + bytes([chooser.randrange(256)]) + seed[at + 1 :])
    cuts = {len(seed) * part // 16 for part in range(16)}
    return [seed, seed + seed, *(seed[:cut] for cut in sorted(cuts)), *changed]


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_begins_with_its_invariant(path: Path) -> None:
    assert invariant(path.read_text(encoding="utf-8")), f"the first line of {path.name} must be `# Invariant: ...`"


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_takes_bytes_and_returns_nothing(path: Path) -> None:
    signature = inspect.signature(load(path).fuzz, eval_str=True)
    assert list(signature.parameters) == ["data"]
    assert signature.parameters["data"].annotation is bytes
    assert signature.return_annotation is None


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_invariant_holds_for_what_hypothesis_finds(path: Path) -> None:
    fuzz = load(path).fuzz

    @given(INPUTS)
    def holds(data: bytes) -> None:
        fuzz(data)

    holds()


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_the_invariant_holds_for_the_corpus_and_its_neighbours(path: Path) -> None:
    entry = load(path)
    for seed in [*getattr(entry, "CORPUS", []), b"", *PIECES]:
        assert isinstance(seed, bytes)
        for data in mutations(seed):
            entry.fuzz(data)


@pytest.mark.parametrize("source", ["", "import re\n# Invariant: late\n", "# invariant: small\n", "# Invariant: \nx\n"])
def test_a_missing_invariant_is_noticed(source: str) -> None:
    assert invariant(source) is None


def test_an_invariant_is_read_from_the_first_line() -> None:
    assert invariant("# Invariant: never raises.\nimport re\n") == "never raises."
