"""Which bytes are a JSON text that we take, and what exactly is wrong with those that are not.

msgspec reads JSON strictly, also in members it only skips: NaN, Infinity, lone surrogates, leading zeros, control
characters, trailing commas and trailing bytes are refused everywhere. Three things it leaves to us. It does not look
for bad UTF-8 in what it skips; it nests as deep as Python's stack allows; and it says at most at which byte it
stopped. So this file checks the first two before decoding and, only once a text was refused, says what was wrong and
at which path.

Numbers are the one thing left for later. `1e400` and an integer of 5,000 digits are JSON by its grammar (RFC 8259,
section 6), so they pass inside a skipped member and are refused, typed, when the body that holds them is decoded.
Of duplicate names the last wins (RFC 8259, section 4 leaves it open).

Must never know JSON-RPC or MCP. Above: `_jsonrpc`. Below: msgspec.
"""

import re
from codecs import utf_8_decode
from itertools import accumulate

import msgspec

# Depth is where a decoder, a walker and a printer of the same value each use stack; Python's own limit is 1,000
# frames shared with the caller. Tool schemas, the deepest thing MCP carries, stay below 30.
MAX_DEPTH = 128

# A text nested deeper than MAX_DEPTH opens and closes that many brackets and one more, so a shorter one cannot be.
LONGEST_SHALLOW_TEXT = 2 * MAX_DEPTH + 1

# Without arrays it takes more: an object has a name for what is in it, `{"":{}}`, and only the innermost has none.
LONGEST_SHALLOW_OBJECTS = 5 * MAX_DEPTH + 1

# How much is looked at in one step where a copy is made, so that checking 16 MiB does not take 64 MiB for a moment.
WINDOW = 65_536

# How far the walk in Python that names a path goes: about 10 ms of work in the worst case. Beyond it only the byte
# is named; a peer that sends garbage must not be able to buy more of our time than garbage is worth.
PATH_REACH = 16_384

# Paths and quotes go into errors, and errors into logs and answers: neither may grow with what the peer sent.
LONGEST_PATH = 200
LONGEST_STEP = 40

# Counting a byte is a loop over all bytes, finding it is ten times as fast for each byte but costs a call for each hit:
# up to this size counting is the quicker of the two.
FEW_BYTES = 4_096

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

(_OPENS_ARRAY,) = b"["

_OUTLINE = b'{[}]"'
_NOT_OUTLINE = bytes(byte for byte in range(256) if byte not in _OUTLINE)
# The same, but a backslash keeps the character it escapes.
_NOT_OUTLINE_NOR_ESCAPE = bytes(byte for byte in range(256) if byte not in _OUTLINE + b"\\/bfnrtu")
# An opening bracket becomes +1 and a closing one -1, read as signed bytes.
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")

# Patterns are compiled when a text was refused and not before: two milliseconds of a program's start for something
# that most programs never need.
_TOKEN = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|[^\s"{}\[\],:]+'

# A high surrogate without its low one, or a low one without its high one. Escaped backslashes are blanked before.
_LONE_SURROGATE = (
    rb"\\u(?:[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2})"
)

# Strings, and runs of brackets that open or close: 100,000 arrays in a row are one match.
_BRACKETS = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+'

_NOT_NUMBERS = (b"NaN", b"Infinity", b"-Infinity")


class Flaw(msgspec.Struct, frozen=True, gc=False):
    """What is wrong with a text, and at which path; the path is empty where it is not known."""

    message: str
    path: str = ""
    is_depth: bool = False


def needs_look(text: bytes) -> bool:
    """False if a text, by its length and its letters, can have no flaw that `find_flaw` looks for."""
    size = len(text)
    if size > LONGEST_SHALLOW_TEXT and (size > LONGEST_SHALLOW_OBJECTS or _OPENS_ARRAY in text):
        return True
    return not text.isascii()


def find_flaw(text: bytes) -> Flaw | None:
    """What msgspec would let pass: bad UTF-8 in what it skips, and nesting over MAX_DEPTH. Else None.

    The counts cost an ordinary text a few hundred nanoseconds; only a text with more than 128 brackets is measured.
    Whoever reads many short texts asks `needs_look` first.
    """
    if not text.isascii():
        try:
            # The short way makes a string and drops it; one of 16 MiB would take up to 64.
            text.decode() if len(text) <= WINDOW else _decode_in_windows(text)
        except UnicodeDecodeError as error:
            return _flaw_at("not UTF-8", text, error.start)
    if len(text) > LONGEST_SHALLOW_TEXT and _may_be_deep(text) and is_deeper_than(text, MAX_DEPTH):
        return Flaw(f"nested more than {MAX_DEPTH} deep", path_at(text, len(text)), is_depth=True)
    return None


def explain(text: bytes, error: Exception) -> Flaw:
    """Why msgspec refused a text that had no flaw of the above kinds. `error` is what it raised."""
    if isinstance(error, RecursionError):
        # At most MAX_DEPTH deep, so the caller's own stack was nearly used up.
        return Flaw("nested too deeply for the stack that is left", is_depth=True)
    reason, _, stopped = str(error).partition(" (byte ")
    at = int(stopped.removesuffix(")")) if stopped else len(text)
    # msgspec has several words for a lone surrogate, and none says so. One before the byte it stopped at is the cause.
    lone = re.search(_LONE_SURROGATE, text.replace(b"\\\\", b"--")) if b"\\u" in text else None
    if lone is not None and lone.start() < at:
        escape = text[lone.start() : lone.start() + 6].decode()
        return _flaw_at(f"a lone surrogate ({escape}) is not text", text, lone.start())
    if text.startswith(BYTE_ORDER_MARK):
        return _flaw_at("a byte order mark is not JSON", text, 0)
    # msgspec has read the minus sign when it meets `-Infinity`.
    start = at - 1 if text[at - 1 : at] == b"-" else at
    for word in _NOT_NUMBERS:
        if text.startswith(word, start):
            return _flaw_at(f"{word.decode()} is not JSON", text, start)
    return _flaw_at(reason, text, at)


def _flaw_at(message: str, text: bytes, at: int) -> Flaw:
    return Flaw(f"{message} (at byte {at})", path_at(text, at))


def _decode_in_windows(text: bytes) -> None:
    """Raise what `text.decode()` would raise, and keep nothing."""
    view = memoryview(text)
    position = 0
    while position < len(text):
        is_last = position + WINDOW >= len(text)
        try:
            _, consumed = utf_8_decode(view[position : position + WINDOW], "strict", is_last)
        except UnicodeDecodeError as error:
            error.start += position
            raise
        position += consumed


def _may_be_deep(text: bytes) -> bool:
    """True if there are enough opening brackets, wherever they stand, to go deeper than MAX_DEPTH."""
    if len(text) <= FEW_BYTES:
        return text.count(b"{") + text.count(b"[") > MAX_DEPTH
    found = 0
    for bracket in (b"{", b"["):
        at = text.find(bracket)
        while at >= 0:
            found += 1
            if found > MAX_DEPTH:
                return True
            at = text.find(bracket, at + 1)
    return False


def is_deeper_than(text: bytes, limit: int) -> bool:
    """True if more than `limit` brackets are ever open at once. Linear, and in C but for a few calls per window.

    Exact for JSON. For anything else the answer means nothing, and decoding will refuse it.
    """
    depth = 0
    is_inside_string = False
    position = 0
    while position < len(text):
        end = position + WINDOW
        window = text[position:end]
        if b"\\" in window:
            if (len(window) - len(window.rstrip(b"\\"))) % 2:
                end += 1  # never part a backslash from what it escapes
                window = text[position:end]
            window = window.translate(None, _NOT_OUTLINE_NOR_ESCAPE)
            window = window.replace(b"\\\\", b"").replace(b'\\"', b"")
        position = end
        # What is left are the brackets and the quotes that open and close strings. Two quotes side by side can go:
        # taking a pair out never changes which brackets stand inside a string.
        outline = window.translate(None, _NOT_OUTLINE).replace(b'""', b"")
        pieces = outline.split(b'"')
        steps = b"".join(pieces[is_inside_string::2]).translate(_STEPS)
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > limit:
            return True
        depth += 2 * steps.count(b"\x01") - len(steps)
        is_inside_string ^= len(pieces) % 2 == 0
    return False


def flatten(text: bytes, limit: int) -> bytes:
    """The text with every array and object inside its outermost value emptied, so that any depth of it can be read.

    A longer text than `limit` is cut there, and closed if the cut is inside one of those. What is no JSON stays none.
    """
    depth = start = 0
    pieces: list[bytes] = []
    opener = b""
    for token in re.finditer(_BRACKETS, text[:limit], re.DOTALL):
        at, size, first = token.start(), token.end() - token.start(), token[0][:1]
        if first == b'"':
            continue
        if first in b"[{":
            if depth < 2 <= depth + size:
                opened = at + 1 - depth
                pieces.append(text[start : opened + 1])
                opener = text[opened : opened + 1]
            depth += size
        else:
            if depth - size < 2 <= depth:
                start = at + depth - 2
            depth -= size
    if depth >= 2:
        pieces.append(b"]}" if opener == b"[" else b"}}")
    else:
        pieces.append(text[start:limit])
    return b"".join(pieces)


def path_at(text: bytes, offset: int) -> str:
    """`$.params.arguments[2]` for the value at or around a byte of a text that need not be JSON; "" beyond PATH_REACH.

    With an offset at the end of the text: where it stopped being whole, or where it got deeper than MAX_DEPTH.
    """
    steps: list[bytes | int | None] = []  # one for each open bracket: a name, an index, or no name yet
    is_name_next = False
    for token in re.finditer(_TOKEN, text[:PATH_REACH], re.DOTALL):
        if token.end() > offset or len(steps) > MAX_DEPTH:
            break
        match token[0][:1]:
            case b"{":
                steps.append(None)
                is_name_next = True
            case b"[":
                steps.append(0)
                is_name_next = False
            case b"}" | b"]" if steps:
                steps.pop()
                is_name_next = False
            case b"," if steps:
                step = steps[-1]
                is_name_next = not isinstance(step, int)
                steps[-1] = step + 1 if isinstance(step, int) else None
            case b'"' if is_name_next:
                steps[-1] = token[0]
                is_name_next = False
    else:
        if offset > PATH_REACH:
            return ""
    return _spell(steps)


def _spell(steps: list[bytes | int | None]) -> str:
    path = "$"
    for step in steps:
        if step is None:
            break
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step[1 : LONGEST_STEP + 1].removesuffix(b'"').decode("utf-8", "replace")
            path += f".{name}" if name.isidentifier() else f"[{name!a}]"
        if len(path) > LONGEST_PATH:
            return path[:LONGEST_PATH] + "..."
    return path
