"""Search in place of a long list of tools: `server.search_tools()`.

Callers that see more tools than the limit get a list of two: one finds tools by BM25 over names, descriptions and
arguments, the other calls a tool by name. A call by name is replaced by the call itself, before middleware runs.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from jackstay.errors import UsageError
from jackstay.server._context import Context
from jackstay.server._dispatch import Middleware, Next
from jackstay.server._failures import ToolError
from jackstay.server._tools import ToolEntry, ToolOptions, tool_from_function
from jackstay.types import CallToolResult, TextContent

if TYPE_CHECKING:
    from jackstay.server._visibility import Views

SEARCH, CALL = "search_tools", "call_tool"
MAX_RESULTS = 50
# How much of a query counts. The search runs on the event loop.
MAX_QUERY, MAX_WORDS = 1_000, 50

# The usual parameters of BM25, and how often the words of each part count.
_K1, _B = 1.2, 0.75
_NAME, _TEXT, _ARGUMENTS = 3, 1, 1
# The weight of a synonym of a word, and of a word that a word begins with.
_SYNONYM, _PREFIX = 0.5, 0.5

# The verbs of tools that do the same, and other words with which people express that.
_VERBS = (
    ("create add make new insert register schedule", "open start begin record report write build put give book note"),
    ("delete remove erase drop cancel discard", "clear empty throw rid away stop"),
    ("get read show fetch view", "see display what when who how long much is did has does"),
    ("list show", "all every which what who many are"),
    ("search find query lookup", "look where locate which is there any who"),
    ("update edit modify set change rename", "move correct fix adjust raise lower replace now later"),
    ("send post notify deliver", "message write"),
    ("share grant invite", "access permission let allow together"),
    ("export download", "save file copy"),
    ("archive hide close", "keep"),
    ("restore recover undo reopen", "back again"),
)
_IGNORED = "a an and as at be by do for from have i in it me my of on or that the to we with you"
_STOP = frozenset(_IGNORED.split())


def words_of(text: str) -> list[str]:
    """Return the words of a string in lower case, without common endings. Splits `snake_case` and `camelCase`."""
    split = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return [_stem(word) for word in re.findall(r"[^\W_]+", split.lower()) if word not in _STOP]


def _stem(word: str) -> str:
    for ending, kept in (("ies", "y"), ("ing", ""), ("sses", "ss"), ("ed", ""), ("es", ""), ("s", "")):
        if word.endswith(ending) and len(word) - len(ending) >= 2 and not word.endswith(("ss", "us", "is")):
            word = word.removesuffix(ending) + kept
            break
    return word.removesuffix("e") if len(word) > 3 else word


def _relate_words() -> dict[str, set[str]]:
    related: dict[str, set[str]] = defaultdict(set)
    for verbs, others in _VERBS:
        for word in words_of(f"{verbs} {others}"):
            related[word].update(words_of(verbs))
    return related


_RELATED = _relate_words()


class Index:
    """Finds texts by words, with BM25. `documents` are the words of each text, by key."""

    def __init__(self, documents: Mapping[str, Iterable[str]]) -> None:
        self._counts: dict[str, dict[str, int]] = defaultdict(dict)
        self._lengths: dict[str, int] = {}
        for key, words in documents.items():
            counted = Counter(words)
            self._lengths[key] = counted.total()
            for word, number in counted.items():
                self._counts[word][key] = number
        # The words that begin with the same four or five letters.
        self._beginnings: dict[str, list[str]] = defaultdict(list)
        for word in self._counts:
            for beginning in {word[:4], word[:5]}:
                self._beginnings[beginning].append(word)
        self._average = sum(self._lengths.values()) / max(1, len(self._lengths))

    def find(self, query: str, limit: int) -> list[str]:
        """Return the keys of the best texts, best first. The rest of a long query is ignored."""
        weights: dict[str, float] = dict.fromkeys(words_of(query[:MAX_QUERY])[:MAX_WORDS], 1.0)
        for word in list(weights):
            for other in _RELATED.get(word, ()):
                weights.setdefault(other, _SYNONYM)
            if word not in self._counts and len(word) >= 4:
                for other in self._beginnings.get(word[:5], ()):
                    weights.setdefault(other, _PREFIX)
        scores: dict[str, float] = defaultdict(float)
        for word, weight in weights.items():
            found = self._counts.get(word, {})
            rarity = math.log(1 + (len(self._lengths) - len(found) + 0.5) / (len(found) + 0.5))
            for key, number in found.items():
                norm = 1 - _B + _B * self._lengths[key] / self._average
                scores[key] += weight * rarity * number * (_K1 + 1) / (number + _K1 * norm)
        return [key for key, _ in sorted(scores.items(), key=lambda row: -row[1])[:limit]]


def index_tools(tools: Iterable[ToolEntry]) -> Index:
    """Create the index of these tools."""
    return Index({entry.key: _tool_words(entry) for entry in tools})


def _tool_words(entry: ToolEntry) -> list[str]:
    body = entry.body
    properties: Any = body.input_schema.get("properties")
    arguments = []
    for name, schema in properties.items() if isinstance(properties, dict) else ():
        described = schema.get("description", "") if isinstance(schema, dict) else ""
        arguments += words_of(f"{name} {described}")
    text = words_of(f"{body.title or ''} {body.description or ''}")
    return words_of(body.name) * _NAME + text * _TEXT + arguments * _ARGUMENTS


class ToolSearch:
    """The two tools, for lists with more than `above` tools."""

    def __init__(self, views: "Views", above: int, limit: int) -> None:
        self.above = above

        def search_tools(query: str, ctx: Context, limit: int = limit) -> CallToolResult:
            """Find tools of this server by what they do. Returns the best matches, with their input schemas.

            The list of tools is too long to be shown: search here first, then call a tool with `call_tool`.

            Args:
                query: What the tool should do, in your own words.
                limit: How many tools to return.
            """
            found = views.view_for(ctx._caller).find_tools(query, max(1, min(limit, MAX_RESULTS)))
            listed = b'{"tools":[%b]}' % b",".join(entry.listed_plain for entry in found)
            return CallToolResult(content=[TextContent(text=listed.decode())])

        search = tool_from_function(search_tools, ToolOptions(read_only=True, blocking=False))
        self.entries = (search, tool_from_function(_call_tool))


def _call_tool(name: str, arguments: dict[str, Any] | None = None) -> str:  # noqa: ARG001  # for the schema
    """Call a tool of this server that `search_tools` found.

    Args:
        name: The name of the tool.
        arguments: Its arguments, as its input schema describes them.
    """
    raise ToolError(f"{CALL} cannot call {name!r}")  # reached only for itself: see `_replace_calls`


_call_tool.__name__ = CALL


class _Call(msgspec.Struct):
    name: str
    arguments: msgspec.Raw = msgspec.Raw(b"{}")


class _CallParams(msgspec.Struct):
    name: str
    arguments: _Call


_read_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_call = msgspec.json.Decoder(_CallParams).decode


def enable_search(views: "Views", above: int, limit: int) -> Middleware:
    """Enable the search. Returns middleware that replaces a call by name with the call of that tool.

    Raises: UsageError for a bad value, a second call, and if a tool has one of the names.
    """
    for option, value in (("above", above), ("limit", limit)):
        if type(value) is not int or value < 1:
            raise UsageError(f"{option} must be an int from 1, not {value!r}", path=option)
    if views.search is not None:
        raise UsageError("search_tools() was already called", path="search_tools")
    for name in (SEARCH, CALL):
        if views.has_tool(name):
            raise UsageError(f"search_tools() needs the name {name!r}, which a tool already has", path=name)
    views.change(search=ToolSearch(views, above, limit))
    return _replace_calls(views)


def _replace_calls(views: "Views") -> Middleware:
    quoted = b'"%b"' % CALL.encode()

    async def middleware(ctx: Context, call_next: Next) -> bytes:
        if ctx.method == "tools/call" and quoted in ctx._params and views.view_for(ctx._caller).search:
            try:
                call = _read_call(ctx._params)
            except msgspec.MsgspecError:
                return await call_next()  # the tool refuses the arguments
            if call.name == CALL and call.arguments.name not in (CALL, SEARCH):
                members = _read_members(ctx._params)
                members |= {"name": msgspec.Raw(msgspec.json.encode(call.arguments.name))}
                members |= {"arguments": call.arguments.arguments}
                ctx._params = msgspec.json.encode(members)
        return await call_next()

    return middleware
