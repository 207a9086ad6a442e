"""The catalogue: the registered tools, resources and prompts, and their encoded list results.

Entries can be added and removed at any time by any thread. Lists are read from an immutable `Listing`, made at the
first read after a change, so readers see a consistent state. Encoded pages are cached until the next change. They are
the same for every connection (2026-07-28 server/tools: list results must not vary per connection).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec

from jackstay import protocol
from jackstay.errors import UsageError, did_you_mean
from jackstay.protocol import REVISIONS
from jackstay.protocol.server import ListOptions
from jackstay.server._entries import Entry, check_tags

# Loaded when the first entry of a kind is registered.
if TYPE_CHECKING:
    from jackstay.server._completions import CompletionEntry, CompletionKey
    from jackstay.server._prompts import PromptEntry
    from jackstay.server._resources import ResourceEntry
    from jackstay.server._tools import ToolEntry

E = TypeVar("E", bound=Entry)


class Kind(StrEnum):
    """The kinds of lists. The value is the name of the member in the result."""

    TOOLS = "tools"
    RESOURCES = "resources"
    TEMPLATES = "resourceTemplates"
    PROMPTS = "prompts"


# The list that each request returns.
LISTS: Mapping[str, Kind] = {
    name: Kind(row.entries) for name, row in protocol.LISTS.items() if row.entries in set(Kind)
}

# The notification that announces a change of each list.
CHANGES: Mapping[Kind, str] = {kind: protocol.LISTS[name].changed_by for name, kind in LISTS.items()}


# The form of a page: with or without output schemas, with or without cache hints.
_Form: TypeAlias = tuple[bool, bool]

_FORMS: dict[str, _Form] = {name: (row.has_structured_output, row.has_result_type) for name, row in REVISIONS.items()}


class Listing(Generic[E]):
    """One list in one state, immutable. `entries` are by key, in the order of registration."""

    __slots__ = ("_options", "_pages", "_rows", "entries", "kind")

    def __init__(self, kind: Kind, options: ListOptions, rows: dict[str, tuple[int, E]]) -> None:
        self.kind = kind
        self.entries: dict[str, E] = {key: entry for key, (_, entry) in rows.items()}
        self._options = options
        self._rows = list(rows.values())
        self._pages: dict[tuple[_Form, int], bytes] = {}

    def page(self, version: str, cursor: str | None) -> bytes:
        """Return the encoded result of a list request in a revision: the page after `cursor`.

        Raises:
            ProtocolError: (-32602) for an invalid cursor.
        """
        begin = 0 if cursor is None else self._index_after(cursor)
        cached = self._pages.get((_FORMS[version], begin))
        return self._encode(_FORMS[version], begin) if cached is None else cached

    def _index_after(self, cursor: str) -> int:
        """Return the index after the last entry sent; if that was removed, the index after where it was."""
        # Loaded here, because few lists have a second page.
        from bisect import bisect_right  # noqa: PLC0415
        from operator import itemgetter  # noqa: PLC0415

        from jackstay.server._pages import read_cursor  # noqa: PLC0415

        position = read_cursor(cursor, self.kind)
        index = bisect_right(self._rows, position.number, key=itemgetter(0))
        entry = self.entries.get(position.key)
        if entry is None or (index and self._rows[index - 1][1] is entry):
            return index
        # It was removed and added again, or the cursor is from a process with another order.
        return list(self.entries).index(position.key) + 1

    def _encode(self, form: _Form, begin: int) -> bytes:
        has_structure, has_hints = form
        size = self._options.page_size
        rows = self._rows[begin : begin + size]
        lines = [entry.listed if has_structure else entry.listed_plain for _, entry in rows]
        page = b'{"%b":[%b]' % (self.kind.encode(), b",".join(lines))
        if begin + size < len(self._rows):
            from jackstay.server._pages import Position, write_cursor  # noqa: PLC0415  # as above

            number, last = rows[-1]
            page += b',"nextCursor":"%b"' % write_cursor(Position(self.kind, number, last.key)).encode()
        if has_hints:
            options = self._options
            page += b',"ttlMs":%d,"cacheScope":"%b"' % (options.ttl_ms, options.cache_scope.encode())
        page += b"}"
        if begin % size == 0:
            # Cache only pages that a client meets from the start: older cursors may point anywhere in between.
            self._pages[form, begin] = page
        return page


class Entries(Generic[E]):
    """The entries of one list. A change is cheap: the `Listing` is made when something reads it.

    The methods that change it are called under the lock.
    """

    __slots__ = ("_listing", "_lock", "_next_number", "_options", "disabled", "kind", "rows", "version")

    def __init__(self, kind: Kind, options: ListOptions, lock: threading.Lock) -> None:
        self.kind = kind
        self.version = 0
        self.rows: dict[str, tuple[int, E]] = {}  # by key, with a number that increases in the order of registration
        self.disabled: dict[str, tuple[int, E]] = {}  # the same for entries that are neither listed nor found
        self._options = options
        self._lock = lock
        self._next_number = 0
        self._listing: Listing[E] | None = None

    def __contains__(self, key: str) -> bool:
        return key in self.rows or key in self.disabled

    @property
    def listing(self) -> Listing[E]:
        """The entries as they are now."""
        listing = self._listing
        if listing is None:
            with self._lock:
                listing = self._listing = Listing(self.kind, self._options, self.rows)
        return listing

    def added(self, entries: Sequence[E], *, replace: bool) -> dict[str, tuple[int, E]]:
        """Return rows for `add`. A row that replaces another keeps its position.

        Raises:
            UsageError: for a duplicate key, unless `replace`.
        """
        rows: dict[str, tuple[int, E]] = {}
        number = self._next_number
        for entry in entries:
            before = rows.get(entry.key) or self.rows.get(entry.key) or self.disabled.get(entry.key)
            if before is not None and not replace:
                # The message does not suggest `replace`, because the decorators have no such option.
                message = f"duplicate entry in {self.kind}: {entry.key!r}; use another name, or remove the other first"
                raise UsageError(message, path=entry.key)
            rows[entry.key] = (number if before is None else before[0], entry)
            number += before is None
        return rows

    def add(self, rows: dict[str, tuple[int, E]]) -> None:
        for key, row in rows.items():
            if not row[1].enabled:
                self.rows.pop(key, None)
                self.disabled[key] = row
            elif self.disabled.pop(key, None) is None:
                self.rows[key] = row
            else:
                self.rows = dict(sorted([*self.rows.items(), (key, row)], key=_number))
        self._next_number = max([self._next_number, *(number + 1 for number, _ in rows.values())])
        self._change()

    def remove(self, keys: Iterable[str]) -> None:
        for key in set(keys):
            del (self.rows if key in self.rows else self.disabled)[key]
        self._change()

    def reserve(self, count: int) -> int:
        """Reserve so many positions at the end of the list, and return the first."""
        number = self._next_number
        self._next_number += count
        return number

    def swap(self, block: range, entries: Sequence[E], *, is_final: bool = False) -> bool:
        """Replace the entries at the positions of `block`. Returns False if the list items are the same.

        Disabled entries remain disabled when they come back, unless `is_final`.
        """
        if is_final:
            self.disabled = {key: row for key, row in self.disabled.items() if row[0] not in block}
        added: dict[str, tuple[int, E]] = {}
        for number, entry in zip(block, entries, strict=False):
            if entry.key in self.disabled:
                self.disabled[entry.key] = number, msgspec.structs.replace(entry, enabled=False)
            else:
                added[entry.key] = number, entry
        before = [entry.listed for number, entry in self.rows.values() if number in block]
        if not before and not added:
            return False
        # Entries with the same list items may differ in tags and scopes, which are not listed.
        rows = {key: row for key, row in self.rows.items() if row[0] not in block}
        self.rows = dict(sorted({**rows, **added}.items(), key=_number))
        self._change()
        return before != [entry.listed for _, entry in added.values()]

    def _change(self) -> None:
        self.version += 1
        self._listing = None


def _number(item: tuple[str, tuple[int, object]]) -> int:
    return item[1][0]


class Match(msgspec.Struct, frozen=True):
    """The resource for a URI, and the variables of its template (empty for a static resource)."""

    entry: ResourceEntry
    variables: Mapping[str, str]


class Catalogue:
    """The tools, resources, prompts and completions of a server. Thread-safe.

    `changed(kind)` is called after every change to a list, by the thread that made it.
    """

    def __init__(self, options: ListOptions | None = None, changed: Callable[[Kind], None] | None = None) -> None:
        options = options or ListOptions()
        self.changed = changed
        # Maps an unlisted tool name to a listed one, for applications with aliases. Returns None for an unknown name,
        # or raises the error for the caller.
        self.listed_name: Callable[[str], str | None] | None = None
        self._lock = threading.Lock()
        self._use({kind: Entries(kind, options, self._lock) for kind in Kind})
        self._completions: dict[CompletionKey, CompletionEntry] = {}

    def _use(self, lists: dict[Kind, Entries[Any]]) -> None:
        self._lists = lists
        self._tools: Entries[ToolEntry] = lists[Kind.TOOLS]
        self._resources: Entries[ResourceEntry] = lists[Kind.RESOURCES]
        self._templates: Entries[ResourceEntry] = lists[Kind.TEMPLATES]
        self._prompts: Entries[PromptEntry] = lists[Kind.PROMPTS]

    def __repr__(self) -> str:
        return f"<Catalogue {', '.join(f'{len(entries.rows)} {kind}' for kind, entries in self._lists.items())}>"

    # --- reading ------------------------------------------------------------------------------------------------------

    @property
    def tools(self) -> Mapping[str, ToolEntry]:
        """Tools by name, in order. A snapshot, as all properties here: get it again to see changes."""
        return self._tools.listing.entries

    @property
    def resources(self) -> Mapping[str, ResourceEntry]:
        """Static resources by URI."""
        return self._resources.listing.entries

    @property
    def templates(self) -> Mapping[str, ResourceEntry]:
        """Resource templates by URI template."""
        return self._templates.listing.entries

    @property
    def prompts(self) -> Mapping[str, PromptEntry]:
        """Prompts by name."""
        return self._prompts.listing.entries

    @property
    def completions(self) -> Mapping[CompletionKey, CompletionEntry]:
        """Completions by what they complete: see `completion_key`."""
        return self._completions

    @property
    def registered(self) -> tuple[bool, bool, bool, bool]:
        """Whether there are or were tools, resources or templates, prompts, and completions. Disabled ones count.

        A list that became empty is still served: clients know it, and more entries may come.
        """
        return (
            self._tools.version > 0,
            self._resources.version > 0 or self._templates.version > 0,
            self._prompts.version > 0,
            bool(self._completions),
        )

    @property
    def versions(self) -> tuple[int, ...]:
        """How often each list has changed."""
        return tuple(entries.version for entries in self._lists.values())

    def find_tool(self, name: str) -> ToolEntry | None:
        """Return the tool of this name, or the one that `listed_name` maps it to; None if there is none."""
        row = self._tools.rows.get(name)
        if row is not None:
            return row[1]
        listed = None if self.listed_name is None else self.listed_name(name)
        row = None if listed is None else self._tools.rows.get(listed)
        return None if row is None else row[1]

    def version(self, kind: Kind) -> int:
        """Return how often this list has changed."""
        return self._lists[kind].version

    def page(self, kind: Kind, version: str, cursor: str | None = None) -> bytes:
        """Return the encoded result of a list request in a revision, without `resultType`, which the core adds.

        Raises:
            ProtocolError: (-32602) for an invalid cursor.
        """
        return self._lists[kind].listing.page(version, cursor)

    def find_resource(self, uri: str) -> Match | None:
        """Return the static resource of this URI, or the first template that matches it, or None."""
        row = self._resources.rows.get(uri)
        if row is not None:
            return Match(row[1], {})
        for entry in self._templates.listing.entries.values():
            assert entry.template is not None
            variables = entry.template.match(uri)
            if variables is not None:
                return Match(entry, variables)
        return None

    # --- changing -----------------------------------------------------------------------------------------------------

    def add_tools(self, *entries: ToolEntry, replace: bool = False) -> None:
        """Add these tools, all or none, with one notification.

        Raises:
            UsageError: for a duplicate name, unless `replace`.
        """
        self._add({Kind.TOOLS: entries}, replace=replace)

    def add_resources(self, *entries: ResourceEntry, replace: bool = False) -> None:
        """Add these resources and templates; as `add_tools`."""
        static = tuple(entry for entry in entries if entry.template is None)
        templates = tuple(entry for entry in entries if entry.template is not None)
        self._add({Kind.RESOURCES: static, Kind.TEMPLATES: templates}, replace=replace)

    def add_prompts(self, *entries: PromptEntry, replace: bool = False) -> None:
        """Add these prompts; as `add_tools`."""
        self._add({Kind.PROMPTS: entries}, replace=replace)

    def _add(self, added: Mapping[Kind, Sequence[Entry]], *, replace: bool) -> None:
        with self._lock:
            # Before the first change: all or none.
            rows = {kind: self._lists[kind].added(found, replace=replace) for kind, found in added.items() if found}
            for kind, found in rows.items():
                self._lists[kind].add(found)
        self._notify_changed(rows)

    def add_completion(self, entry: CompletionEntry, *, replace: bool = False) -> None:
        """Add a completion. Completions are not listed, so nothing is notified.

        Raises:
            UsageError: for a duplicate, unless `replace`.
        """
        with self._lock:
            if entry.key in self._completions and not replace:
                message = f"duplicate completion for argument {entry.key[2]!r} of {entry.key[1]!r}"
                raise UsageError(message, path=entry.key[2])
            self._completions = {**self._completions, entry.key: entry}

    def remove_tools(self, *names: str) -> None:
        """Remove these tools, all or none, with one notification. Running calls continue.

        Raises:
            UsageError: for an unknown name.
        """
        self._remove(names, Kind.TOOLS)

    def remove_resources(self, *uris: str) -> None:
        """Remove resources by URI and templates by URI template; as `remove_tools`."""
        self._remove(uris, Kind.RESOURCES, Kind.TEMPLATES)

    def remove_prompts(self, *names: str) -> None:
        """Remove these prompts; as `remove_tools`."""
        self._remove(names, Kind.PROMPTS)

    def _remove(self, keys: tuple[str, ...], *kinds: Kind) -> None:
        with self._lock:
            self._require_known(keys, f"entry in {kinds[0]}", *kinds)
            removed = {kind: found for kind in kinds if (found := [key for key in keys if key in self._lists[kind]])}
            for kind, found in removed.items():
                self._lists[kind].remove(found)
        self._notify_changed(removed)

    def _require_known(self, keys: tuple[str, ...], what: str, *kinds: Kind) -> None:
        lists = [self._lists[kind] for kind in kinds]
        for key in keys:
            if not any(key in entries for entries in lists):
                known = [name for entries in lists for name in (*entries.rows, *entries.disabled)]
                raise UsageError(f"no such {what}: {key!r}{did_you_mean(key, known)}", path=key)

    # --- blocks of entries: those of a mounted server -----------------------------------------------------------------

    def reserve(self, kind: Kind, count: int) -> range:
        """Reserve a block of so many positions in a list, for `swap()`."""
        with self._lock:
            number = self._lists[kind].reserve(count)
        return range(number, number + count)

    def swap(self, kind: Kind, block: range, entries: Sequence[Any], *, is_final: bool = False) -> None:
        """Replace the entries of a block, with one notification; with none if the list items are the same."""
        with self._lock:
            is_changed = self._lists[kind].swap(block, entries, is_final=is_final)
        if is_changed:
            self._notify_changed((kind,))

    def entries(self, kind: Kind) -> Iterable[Entry]:
        """Return the entries of a list, in order."""
        return self._lists[kind].listing.entries.values()

    def is_disabled(self, kind: Kind, key: str) -> bool:
        """Return whether the entry of this name or URI is disabled. A URI may be one of a disabled template."""
        if key in self._lists[kind].disabled:
            return True
        if kind is not Kind.RESOURCES:
            return False
        templates = [entry.template for _, entry in self._templates.disabled.values()]
        return any(template is not None and template.match(key) is not None for template in templates)

    def is_taken(self, kind: Kind, key: str, block: range) -> bool:
        """Return whether an entry outside of a block has this name or URI."""
        entries = self._lists[kind]
        row = entries.rows.get(key) or entries.disabled.get(key)
        return row is not None and row[0] not in block

    def set_enabled(self, keys: tuple[str, ...], tags: Iterable[str], *, enabled: bool) -> None:
        """Enable or disable the entries with these keys or one of these tags, with one notification for each list.

        Raises:
            UsageError: for an unknown key, and for neither keys nor tags.
        """
        wanted = check_tags(tags)
        if not keys and not wanted:
            raise UsageError("enable() and disable() need names, URIs or tags", path="keys")
        changed: list[Kind] = []
        with self._lock:
            self._require_known(keys, "tool, resource or prompt", *Kind)
            for kind, entries in self._lists.items():
                rows = {
                    key: (number, msgspec.structs.replace(entry, enabled=enabled))
                    for key, (number, entry) in (entries.disabled if enabled else entries.rows).items()
                    if key in keys or not wanted.isdisjoint(entry.tags)
                }
                if rows:
                    entries.add(rows)
                    changed.append(kind)
        self._notify_changed(changed)

    def _notify_changed(self, kinds: Iterable[Kind]) -> None:
        # Outside the lock: the callback may read or change the catalogue.
        for kind in kinds:
            if self.changed is not None:
                self.changed(kind)
