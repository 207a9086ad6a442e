"""Checks of a JSON document that msgspec does not make, and error messages with the path of the problem.

msgspec rejects invalid JSON, also in members that it skips, but it does not check their UTF-8, limits nesting only by
Python's stack, and reports at most a byte offset. Numbers that no Python type can represent (`1e400`) are valid JSON
(RFC 8259, section 6); they are rejected when the body is decoded. Of duplicate names the last one counts.
"""

import re
from codecs import utf_8_decode
from itertools import accumulate

import msgspec

# Recursive code uses stack for each level, and Python's limit is 1,000 frames including the caller's. Tool schemas, the
# deepest values in MCP, stay below 30.
MAX_DEPTH = 128

# A document nested deeper than MAX_DEPTH opens and closes at least MAX_DEPTH + 1 brackets, so it is longer than this.
MAX_SHALLOW_TEXT = 2 * MAX_DEPTH + 1

# The same for documents without arrays: every object but the innermost contains a name, as in `{"":{}}`.
MAX_SHALLOW_OBJECTS = 5 * MAX_DEPTH + 1

# The size of the chunks that are copied for a check: checking 16 MiB at once could take 64 MiB of memory.
WINDOW = 65_536

# How much of a document is scanned in Python for the path of a problem: at most about 10 ms. Beyond it only the byte
# offset is reported, so that invalid messages cannot consume much CPU time.
MAX_PATH_SCAN = 16_384

# Paths and quotes are part of errors, logs and responses, so their length is limited.
MAX_PATH = 200
MAX_STEP_LENGTH = 40

# `count` is a loop over all bytes; `find` is ten times as fast per byte but needs a call for each hit. Up to this size
# `count` is faster.
COUNT_THRESHOLD = 4_096

BYTE_ORDER_MARK = b"\xef\xbb\xbf"

(OPENS_ARRAY,) = b"["

_OUTLINE = b'{[}]"'
_NOT_OUTLINE = bytes(byte for byte in range(256) if byte not in _OUTLINE)
# The same, but a backslash keeps the character it escapes.
_NOT_OUTLINE_NOR_ESCAPE = bytes(byte for byte in range(256) if byte not in _OUTLINE + b"\\/bfnrtu")
# An opening bracket becomes +1 and a closing one -1, read as signed bytes.
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")

# Patterns are compiled when they are first needed: two milliseconds that most programs never need.
_TOKEN = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[{}\[\],:]|[^\s"{}\[\],:]+'

# A high surrogate without a low one, or the reverse. Escaped backslashes are replaced before the search.
_LONE_SURROGATE = (
    rb"\\u(?:[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2}\\u)[dD][c-fC-F][0-9a-fA-F]{2})"
)

# Strings, and runs of brackets that open or close: 100,000 arrays in a row are one match.
_BRACKETS = rb'"[^"\\]*(?:\\.[^"\\]*)*"?|[\[{]+|[\]}]+'

_NOT_NUMBERS = (b"NaN", b"Infinity", b"-Infinity")


class JsonProblem(msgspec.Struct, frozen=True, gc=False):
    """What is invalid in a document, and the path; the path is empty if it is not known."""

    message: str
    path: str = ""
    is_depth: bool = False


def needs_check(text: bytes) -> bool:
    """Return False if the length and the characters rule out every problem that `find_problem` detects."""
    size = len(text)
    if size > MAX_SHALLOW_TEXT and (size > MAX_SHALLOW_OBJECTS or OPENS_ARRAY in text):
        return True
    return not text.isascii()


def find_problem(text: bytes) -> JsonProblem | None:
    """Return a problem that msgspec would not find (bad UTF-8 in skipped members, nesting over MAX_DEPTH), or None.

    For an ordinary document it takes a few hundred nanoseconds; the depth is computed only for documents with more than
    MAX_DEPTH brackets. Call `needs_check` first for many short documents.
    """
    if not text.isascii():
        try:
            # `decode` creates a temporary string, which for 16 MiB could take 64.
            text.decode() if len(text) <= WINDOW else _decode_in_windows(text)
        except UnicodeDecodeError as error:
            return _problem_at("not UTF-8", text, error.start)
    if len(text) > MAX_SHALLOW_TEXT and _may_be_deep(text) and is_deeper_than(text, MAX_DEPTH):
        return JsonProblem(f"nested more than {MAX_DEPTH} deep", path_at(text, len(text)), is_depth=True)
    return None


def explain(text: bytes, error: Exception) -> JsonProblem:
    """Return why msgspec rejected a document in which `find_problem` found nothing. `error` is what it raised."""
    if isinstance(error, RecursionError):
        # The text is at most MAX_DEPTH deep, so the caller had used most of the stack.
        return JsonProblem("nested too deeply for the remaining stack", is_depth=True)
    reason, _, stopped = str(error).partition(" (byte ")
    at = int(stopped.removesuffix(")")) if stopped else len(text)
    # msgspec reports a lone surrogate in several ways, none of which names it. One before the offset is the cause.
    lone = re.search(_LONE_SURROGATE, text.replace(b"\\\\", b"--")) if b"\\u" in text else None
    if lone is not None and lone.start() < at:
        escape = text[lone.start() : lone.start() + 6].decode()
        return _problem_at(f"lone surrogate {escape}", text, lone.start())
    if text.startswith(BYTE_ORDER_MARK):
        return _problem_at("byte order mark is not JSON", text, 0)
    # For `-Infinity` the offset is after the minus sign.
    start = at - 1 if text[at - 1 : at] == b"-" else at
    for word in _NOT_NUMBERS:
        if text.startswith(word, start):
            return _problem_at(f"{word.decode()} is not JSON", text, start)
    return _problem_at(reason, text, at)


def _problem_at(message: str, text: bytes, at: int) -> JsonProblem:
    return JsonProblem(f"{message} (at byte {at})", path_at(text, at))


def _decode_in_windows(text: bytes) -> None:
    """Raise what `text.decode()` would raise, without a copy of the whole text."""
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
    """Return True if there are enough opening brackets, also in strings, for more than MAX_DEPTH levels."""
    if len(text) <= COUNT_THRESHOLD:
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
    """Return True if the nesting exceeds `limit`. Linear, and in C except for a few calls per window.

    Exact for JSON. For other input the result is meaningless, and decoding rejects it.
    """
    depth = 0
    is_inside_string = False
    position = 0
    while position < len(text):
        end = position + WINDOW
        window = text[position:end]
        if b"\\" in window:
            if (len(window) - len(window.rstrip(b"\\"))) % 2:
                end += 1  # never split an escape
                window = text[position:end]
            window = window.translate(None, _NOT_OUTLINE_NOR_ESCAPE)
            window = window.replace(b"\\\\", b"").replace(b'\\"', b"")
        position = end
        # What remains are brackets and the quotes of strings. Adjacent quotes can be removed: that never changes which
        # brackets are inside a string.
        outline = window.translate(None, _NOT_OUTLINE).replace(b'""', b"")
        pieces = outline.split(b'"')
        steps = b"".join(pieces[is_inside_string::2]).translate(_STEPS)
        if max(accumulate(memoryview(steps).cast("b"), initial=depth)) > limit:
            return True
        depth += 2 * steps.count(b"\x01") - len(steps)
        is_inside_string ^= len(pieces) % 2 == 0
    return False


def flatten(text: bytes, limit: int) -> bytes:
    """Return the text with every array and object inside its outermost value emptied, so that any depth can be decoded.

    A text longer than `limit` is cut there, and closed if the cut is inside an emptied value. Invalid JSON stays
    invalid.
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
    """Return the path of the value at a byte offset, such as `$.params.arguments[2]`; "" beyond MAX_PATH_SCAN.

    The text need not be JSON. At its end the path is where it is incomplete, or where it exceeds MAX_DEPTH.
    """
    steps: list[bytes | int | None] = []  # one for each open bracket: a name, an index, or no name yet
    is_name_next = False
    for token in re.finditer(_TOKEN, text[:MAX_PATH_SCAN], re.DOTALL):
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
        if offset > MAX_PATH_SCAN:
            return ""
    return _format_path(steps)


def _format_path(steps: list[bytes | int | None]) -> str:
    path = "$"
    for step in steps:
        if step is None:
            break
        if isinstance(step, int):
            path += f"[{step}]"
        else:
            name = step[1 : MAX_STEP_LENGTH + 1].removesuffix(b'"').decode("utf-8", "replace")
            path += f".{name}" if name.isidentifier() else f"[{name!a}]"
        if len(path) > MAX_PATH:
            return path[:MAX_PATH] + "..."
    return path
