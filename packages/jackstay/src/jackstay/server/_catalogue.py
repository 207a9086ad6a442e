"""Everything that a server offers, and the lists of it, encoded once and sent until something changes.

Entries may be added and removed at any time and from any thread. A change makes a new shelf and puts it in the place
of the old one, so a reader always sees one whole state, without a lock; only writers wait for each other. Lists are in
the order of registration. A page is a join of lines that the entries carry with them; it is kept until the next change,
once for each form that revisions know, and never depends on who asks (2026-07-28 server/tools: list results must not
vary per connection).

Must never know a connection, nor tell anybody anything by itself: `changed` is called after each change, by the thread
that made it, and who listens decides what to send. Above: the dispatch and the server's face. Below: the entries,
`_pages`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol import REVISIONS
from jackstay.server._entries import Entry, check_cache_hints
from jackstay.server._pages import Mark, read_cursor, write_cursor

# Entries of a kind are made, and what makes them is loaded, by who registers the first (`_registration`).
if TYPE_CHECKING:
    from jackstay.server._completions import CompletionEntry, CompletionKey
    from jackstay.server._prompts import PromptEntry
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._tools import ToolEntry

E = TypeVar("E", bound=Entry)

# Large, because servers made with the official SDKs send one page, and some hosts have never read a second.
PAGE_SIZE = 500


class Kind(StrEnum):
    """The lists; the value is the member of the result that holds one."""

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


# Which request asks for which list.
LISTS: Mapping[str, Kind] = MappingProxyType(
    {
        "tools/list": Kind.TOOLS,
        "resources/list": Kind.RESOURCES,
        "resources/templates/list": Kind.TEMPLATES,
        "prompts/list": Kind.PROMPTS,
    }
)

# Which notification tells of a change to it.
CHANGES: Mapping[Kind, str] = MappingProxyType(
    {
        Kind.TOOLS: "notifications/tools/list_changed",
        Kind.RESOURCES: "notifications/resources/list_changed",
        Kind.TEMPLATES: "notifications/resources/list_changed",
        Kind.PROMPTS: "notifications/prompts/list_changed",
    }
)


class CatalogueOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How lists are cut into pages, and the cache hints they carry in 2026-07-28. It refuses bad values when built.

    Raises: UsageError, naming the option.
    """

    page_size: int = PAGE_SIZE
    ttl_ms: int = 0
    cache_scope: str = "private"

    def __post_init__(self) -> None:
        if type(self.page_size) is not int or self.page_size < 1:
            raise UsageError(
                f"page_size must be a whole number from 1, not {self.page_size!r}", path="page_size"
            )
        check_cache_hints(self.ttl_ms, self.cache_scope)


# A form of a page: with structure or without, with cache hints or without.
_Form: TypeAlias = tuple[bool, bool]

_FORMS: dict[str, _Form] = {
    name: (row.has_structured_output, row.has_result_type) for name, row in REVISIONS.items()
}


class Shelf(Generic[E]):
    """One list in one state: never changed, only replaced. `entries` is by key, in the order of registration."""

    __slots__ = ("_numbers", "_options", "_order", "_pages", "entries", "kind", "next_number", "version")

    def __init__(
        self,
        kind: Kind,
        options: CatalogueOptions,
        numbered: dict[str, tuple[int, E]],
        version: int,
        next_number: int,
    ) -> None:
        self.kind = kind
        self.entries: dict[str, E] = {key: entry for key, (_, entry) in numbered.items()}
        self.version = version
        self.next_number = next_number
        self._options = options
        self._order = list(self.entries.values())
        self._numbers = [number for number, _ in numbered.values()]
        self._pages: dict[tuple[_Form, int], bytes] = {}

    def __repr__(self) -> str:
        return f"<Shelf {self.kind} version {self.version}: {len(self._order)} entries>"

    def with_entries(self, entries: tuple[E, ...], *, replace: bool) -> Shelf[E]:
        """The shelf with these, too. One that replaces another stands in its place.

        Raises:
            UsageError: for a key that is there, unless `replace`; nothing is added then.
        """
        numbered = self._numbered()
        number = self.next_number
        for entry in entries:
            before = numbered.get(entry.key)
            if before is not None and not replace:
                # Not every way to get here takes `replace`: the decorators do not.
                said = f"{self.kind} has {entry.key!r} already; use another name, or remove that one first"
                raise UsageError(said, path=entry.key)
            numbered[entry.key] = (number if before is None else before[0], entry)
            number += before is None
        return Shelf(self.kind, self._options, numbered, self.version + 1, number)

    def without(self, keys: tuple[str, ...]) -> Shelf[E]:
        """The shelf without these, which must be there."""
        numbered = {key: row for key, row in self._numbered().items() if key not in keys}
        return Shelf(self.kind, self._options, numbered, self.version + 1, self.next_number)

    def _numbered(self) -> dict[str, tuple[int, E]]:
        rows = zip(self.entries.items(), self._numbers, strict=True)
        return {key: (number, entry) for (key, entry), number in rows}

    def page(self, version: str, cursor: str | None) -> bytes:
        """The encoded result of a list request: the page after `cursor`, as the revision has it.

        Raises:
            ProtocolError: (-32602) for a cursor that is not one of this list.
        """
        begin = 0 if cursor is None else self._after(read_cursor(cursor, self.kind))
        kept = self._pages.get((_FORMS[version], begin))
        return self._encode(_FORMS[version], begin) if kept is None else kept

    def _after(self, mark: Mark) -> int:
        """The place after the entry that was sent last; if that is gone, the one after where it stood."""
        entry = self.entries.get(mark.key)
        number = mark.number
        if entry is not None:
            return self._order.index(entry) + 1
        return next((at for at, other in enumerate(self._numbers) if other > number), len(self._numbers))

    def _encode(self, form: _Form, begin: int) -> bytes:
        has_structure, has_hints = form
        size = self._options.page_size
        entries = self._order[begin : begin + size]
        lines = [entry.listed if has_structure else entry.listed_plain for entry in entries]
        page = b'{"%b":[%b]' % (self.kind.encode(), b",".join(lines))
        if begin + size < len(self._order):
            mark = Mark(self.kind, self._numbers[begin + size - 1], entries[-1].key)
            page += b',"nextCursor":"%b"' % write_cursor(mark).encode()
        if has_hints:
            options = self._options
            page += b',"ttlMs":%d,"cacheScope":"%b"' % (options.ttl_ms, options.cache_scope.encode())
        page += b"}"
        if begin % size == 0:
            # Only the pages that a reader from the beginning meets: old cursors may lead anywhere in between.
            self._pages[form, begin] = page
        return page


class Found(msgspec.Struct, frozen=True):
    """A resource that a URI names, and the variables of its template (none for a static one)."""

    entry: ResourceEntry
    variables: Mapping[str, str]


class Catalogue:
    """What a server offers. `changed(kind)` is called after every change to a list.

    Reading needs no lock and gives one whole state; `add_...` and `remove_...` may be called from any thread.
    """

    def __init__(
        self, options: CatalogueOptions | None = None, changed: Callable[[Kind], None] | None = None
    ) -> None:
        options = options or CatalogueOptions()
        self.changed = changed
        # Asked for the listed name of a tool that is called by another one: an application may know more names than it
        # lists. It gives None for a name that it does not know either, or raises what the caller is to be told.
        self.listed_name: Callable[[str], str | None] | None = None
        self._lock = threading.Lock()
        self._tools: Shelf[ToolEntry] = Shelf(Kind.TOOLS, options, {}, 0, 0)
        self._resources: Shelf[ResourceEntry] = Shelf(Kind.RESOURCES, options, {}, 0, 0)
        self._templates: Shelf[ResourceEntry] = Shelf(Kind.TEMPLATES, options, {}, 0, 0)
        self._prompts: Shelf[PromptEntry] = Shelf(Kind.PROMPTS, options, {}, 0, 0)
        self._completions: dict[CompletionKey, CompletionEntry] = {}

    def __repr__(self) -> str:
        shelves = (self._tools, self._resources, self._templates, self._prompts)
        return f"<Catalogue {', '.join(f'{len(shelf.entries)} {shelf.kind}' for shelf in shelves)}>"

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, ToolEntry]:
        """By name, in order. One state: take it again to see changes. Not to be written to, as those below."""
        return self._tools.entries

    @property
    def resources(self) -> Mapping[str, ResourceEntry]:
        """Static ones, by URI."""
        return self._resources.entries

    @property
    def templates(self) -> Mapping[str, ResourceEntry]:
        """Templates, by their text."""
        return self._templates.entries

    @property
    def prompts(self) -> Mapping[str, PromptEntry]:
        """By name."""
        return self._prompts.entries

    @property
    def completions(self) -> Mapping[CompletionKey, CompletionEntry]:
        """By what they complete: see `completion_key`."""
        return self._completions

    def find_tool(self, name: str) -> ToolEntry | None:
        """The tool that a caller means: the one listed by this name, or the one that `listed_name` says it is."""
        tools = self._tools.entries
        entry = tools.get(name)
        if entry is None and self.listed_name is not None:
            listed = self.listed_name(name)
            entry = None if listed is None else tools.get(listed)
        return entry

    def version(self, kind: Kind) -> int:
        """How often this list has changed."""
        return self._shelf(kind).version

    def page(self, kind: Kind, version: str, cursor: str | None = None) -> bytes:
        """The encoded result of a list request in a revision, without `resultType`: the core adds that.

        Raises:
            ProtocolError: (-32602) for a cursor that is not one of this list.
        """
        return self._shelf(kind).page(version, cursor)

    def find_resource(self, uri: str) -> Found | None:
        """The resource of this URI: the static one, or the first template in order that names it; else None."""
        entry = self._resources.entries.get(uri)
        if entry is not None:
            return Found(entry, {})
        for entry in self._templates.entries.values():
            assert entry.template is not None
            variables = entry.template.match(uri)
            if variables is not None:
                return Found(entry, variables)
        return None

    def _shelf(self, kind: Kind) -> Shelf[ToolEntry] | Shelf[ResourceEntry] | Shelf[PromptEntry]:
        if kind is Kind.TOOLS:
            return self._tools
        if kind is Kind.PROMPTS:
            return self._prompts
        return self._resources if kind is Kind.RESOURCES else self._templates

    # --- changing -----------------------------------------------------------------------------------------------------

    def add_tools(self, *entries: ToolEntry, replace: bool = False) -> None:
        """Offer these, all or none: one change, told once.

        Raises:
            UsageError: for a name that is taken, unless `replace`.
        """
        with self._lock:
            self._tools = self._tools.with_entries(entries, replace=replace)
        self._tell(Kind.TOOLS)

    def add_resources(self, *entries: ResourceEntry, replace: bool = False) -> None:
        """Offer these, static ones and templates; as `add_tools`."""
        static = tuple(entry for entry in entries if entry.template is None)
        templates = tuple(entry for entry in entries if entry.template is not None)
        with self._lock:
            resources = self._resources.with_entries(static, replace=replace) if static else self._resources
            if templates:
                self._templates = self._templates.with_entries(templates, replace=replace)
            self._resources = resources
        if static:
            self._tell(Kind.RESOURCES)
        if templates:
            self._tell(Kind.TEMPLATES)

    def add_prompts(self, *entries: PromptEntry, replace: bool = False) -> None:
        """Offer these; as `add_tools`."""
        with self._lock:
            self._prompts = self._prompts.with_entries(entries, replace=replace)
        self._tell(Kind.PROMPTS)

    def add_completion(self, entry: CompletionEntry, *, replace: bool = False) -> None:
        """Complete this, too. No list shows it, so nobody is told.

        Raises:
            UsageError: where something completes it already, unless `replace`.
        """
        with self._lock:
            if entry.key in self._completions and not replace:
                said = f"{entry.key[2]} of {entry.key[1]!r} has a completion already"
                raise UsageError(said, path=entry.key[2])
            self._completions = {**self._completions, entry.key: entry}

    def remove_tools(self, *names: str) -> None:
        """Offer these no longer, all or none: one change, told once. Calls that run go on.

        Raises:
            UsageError: for a name that is not there.
        """
        with self._lock:
            _must_have(self._tools.entries, names, Kind.TOOLS)
            self._tools = self._tools.without(names)
        self._tell(Kind.TOOLS)

    def remove_resources(self, *uris: str) -> None:
        """Offer these no longer, by URI or by the text of a template; as `remove_tools`."""
        with self._lock:
            _must_have({**self._resources.entries, **self._templates.entries}, uris, Kind.RESOURCES)
            static = tuple(uri for uri in uris if uri in self._resources.entries)
            templates = tuple(uri for uri in uris if uri not in static)
            if static:
                self._resources = self._resources.without(static)
            if templates:
                self._templates = self._templates.without(templates)
        if static:
            self._tell(Kind.RESOURCES)
        if templates:
            self._tell(Kind.TEMPLATES)

    def remove_prompts(self, *names: str) -> None:
        """Offer these no longer; as `remove_tools`."""
        with self._lock:
            _must_have(self._prompts.entries, names, Kind.PROMPTS)
            self._prompts = self._prompts.without(names)
        self._tell(Kind.PROMPTS)

    def _tell(self, kind: Kind) -> None:
        # Outside the lock: a listener may read the catalogue, or change it.
        if self.changed is not None:
            self.changed(kind)


def _must_have(entries: Mapping[str, Entry], keys: tuple[str, ...], kind: Kind) -> None:
    for key in keys:
        if key not in entries:
            raise UsageError(f"{kind} has no {key!r}", path=key)
