"""Run every fuzz entry in this directory with Hypothesis and with its corpus.

An entry is `fuzz_<parser>.py`. Its first line is a comment with its invariant; `fuzz(data: bytes) -> None` raises if
the invariant is violated; the optional `CORPUS: list[bytes]` contains inputs for every run.
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

# Bytes that the parsers interpret. Random bytes almost never pass the first check.
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
    """Return the invariant on the first line, or None."""
    found = re.match(r"# Invariant: (\S.*)\n", source)
    return found[1] if found else None


def mutations(seed: bytes) -> list[bytes]:
    """Return variants of a corpus input: truncated, doubled, with one byte changed."""
    rng = random.Random(seed)
    changed = []
    for _ in range(32 if seed else 0):
        at = rng.randrange(len(seed))
        changed.append(seed[:at] + bytes([rng.randrange(256)]) + seed[at + 1 :])
    cuts = {len(seed) * part // 16 for part in range(16)}
    return [seed, seed + seed, *(seed[:cut] for cut in sorted(cuts)), *changed]


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_an_entry_starts_with_its_invariant(path: Path) -> None:
    assert invariant(path.read_text(encoding="utf-8")), f"the first line of {path.name} must be `# Invariant: ...`"


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_signature_of_an_entry(path: Path) -> None:
    signature = inspect.signature(load(path).fuzz, eval_str=True)
    assert list(signature.parameters) == ["data"]
    assert signature.parameters["data"].annotation is bytes
    assert signature.return_annotation is None


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_invariant_with_hypothesis(path: Path) -> None:
    fuzz = load(path).fuzz

    @given(INPUTS)
    def check(data: bytes) -> None:
        fuzz(data)

    check()


@pytest.mark.parametrize("path", ENTRIES, ids=lambda path: path.stem)
def test_invariant_with_the_corpus_and_its_mutations(path: Path) -> None:
    entry = load(path)
    for seed in [*getattr(entry, "CORPUS", []), b"", *PIECES]:
        assert isinstance(seed, bytes)
        for data in mutations(seed):
            entry.fuzz(data)


@pytest.mark.parametrize("source", ["", "import re\n# Invariant: late\n", "# invariant: small\n", "# Invariant: \nx\n"])
def test_a_missing_invariant_is_detected(source: str) -> None:
    assert invariant(source) is None


def test_an_invariant_is_read_from_the_first_line() -> None:
    assert invariant("# Invariant: never raises.\nimport re\n") == "never raises."
