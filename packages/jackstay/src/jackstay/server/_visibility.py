"""Visibility: which callers see which tools, resources and prompts, in lists and calls alike.

Each rule admits a caller or not, so the answers of all rules are the class of the caller. Each class has a catalogue of
its own, with the entries that it sees and their encoded pages. A dispatcher for it serves lists, and the requests for
hidden entries, which are unknown there.
"""

import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from jackstay.errors import UsageError
from jackstay.protocol.server import ListOptions
from jackstay.server._catalogue import CHANGES, LISTS, Catalogue, Entries, Kind, Listing
from jackstay.server._driver import Caller, Driver, Outcome, Serve
from jackstay.server._entries import Entry, check_function, check_scopes, check_tags
from jackstay.server._mounted_entries import MountedPrompt, MountedResource, MountedTool

if TYPE_CHECKING:
    from jackstay.protocol.server import events as e
    from jackstay.server._completions import CompletionEntry, CompletionKey
    from jackstay.server._dispatch import Dispatch
    from jackstay.server._mount import Mount
    from jackstay.server._search import Index, ToolSearch
    from jackstay.server._server import Server
    from jackstay.server._tools import ToolEntry

logger = logging.getLogger("jackstay.server")

# How many classes of callers are kept. There are at most two to the power of the number of rules.
MAX_CLASSES = 256

_read_params = msgspec.json.Decoder(dict[str, Any]).decode

# What each rule answers for a caller.
CallerClass: TypeAlias = tuple[bool, ...]


class Rule(msgspec.Struct, frozen=True):
    """Shows the entries with one of these keys or tags (all, if there are none) only to callers that it admits."""

    keys: frozenset[str]
    tags: frozenset[str]
    scopes: frozenset[str]
    principals: frozenset[str]
    when: Callable[[Caller], object] | None

    def applies_to(self, entry: Entry) -> bool:
        """Return whether the rule restricts this entry."""
        return not (self.keys or self.tags) or entry.key in self.keys or not self.tags.isdisjoint(entry.tags)

    def admits(self, caller: Caller) -> bool:
        """Return whether this caller sees the entries. False, if the function raises."""
        if caller.scopes is not None and not self.scopes <= caller.scopes:
            return False
        if self.principals and caller.principal not in self.principals:
            return False
        try:
            return self.when is None or bool(self.when(caller))
        except Exception:  # the function of the application may raise anything
            logger.exception("a visibility rule raised; its entries are hidden from this caller")
            return False


class MountedRule(msgspec.Struct, frozen=True):
    """A rule of a mounted server, for its entries in the catalogue of the host."""

    mount: "Mount"
    rule: "Rule | MountedRule"

    def applies_to(self, entry: Entry) -> bool:
        """Return whether the rule restricts the entry that this one was made from."""
        if not isinstance(entry, MountedTool | MountedResource | MountedPrompt) or entry.mount is not self.mount:
            return False
        return entry.source is not None and self.rule.applies_to(entry.source)

    def is_of(self, mount: "Mount") -> bool:
        """Return whether the rule came with this mount, or with one of the mounted server."""
        return self.mount is mount or (isinstance(self.rule, MountedRule) and self.rule.is_of(mount))

    def admits(self, caller: Caller) -> bool:
        """As `Rule.admits`."""
        return self.rule.admits(caller)


def make_rule(
    keys: Iterable[str],
    tags: Iterable[str],
    scopes: Iterable[str],
    principals: Iterable[str],
    when: Callable[[Caller], object] | None,
) -> Rule:
    """Create a rule. Raises: UsageError for a bad value, and for a rule that admits everyone."""
    if isinstance(principals, str):
        raise UsageError(f"principals must be a collection of strings, not {principals!r}", path="principals")
    if when is not None:
        check_function(when, "when")
    rule = Rule(frozenset(keys), check_tags(tags), check_scopes(scopes), frozenset(principals), when)
    if not (rule.scopes or rule.principals or when):
        raise UsageError("visible() needs scopes, principals or when: who sees the entries", path="visible")
    return rule


class View(Catalogue):
    """The entries of a catalogue that one class of callers sees, in one state."""

    def __init__(
        self,
        whole: Catalogue,
        is_visible: Callable[[Entry], bool],
        old: "View | None",
        search: "ToolSearch | None" = None,
    ) -> None:
        self.changed = None
        self.listed_name = lambda name: None if whole.listed_name is None else whole.listed_name(name)
        self._lock = whole._lock
        lists = {kind: _visible(entries, is_visible, old) for kind, entries in whole._lists.items()}
        self._whole = whole
        self._searched: Entries[ToolEntry] = lists[Kind.TOOLS]
        # If set, the list of tools is too long: it has only the tools of the search.
        self.search = search if search is not None and len(self._searched.rows) > search.above else None
        if self.search is not None:
            lists[Kind.TOOLS] = _with_search(self._searched, self.search)
        self._use(lists)
        self._found_tools: Index | None = None

    def find_tools(self, query: str, limit: int) -> "list[ToolEntry]":
        """Return the visible tools that match a query best."""
        if self._found_tools is None:
            from jackstay.server._search import index_tools  # noqa: PLC0415  # already loaded for the search

            self._found_tools = index_tools(entry for _, entry in self._searched.rows.values())
        return [self._searched.rows[key][1] for key in self._found_tools.find(query, limit)]

    @property
    def completions(self) -> "Mapping[CompletionKey, CompletionEntry]":
        """Completions of visible prompts and templates."""
        known = {*self.prompts, *self.templates}
        return {key: entry for key, entry in self._whole.completions.items() if key[1] in known}


def _visible(whole: Entries[Any], is_visible: Callable[[Entry], bool], old: View | None) -> Entries[Any]:
    """Return the visible entries of a list; those of the old view, if the list has not changed since."""
    version = whole.version  # before the rows: a change meanwhile must not be missed
    if old is not None:
        found: Entries[Any] = old._searched if whole.kind is Kind.TOOLS else old._lists[whole.kind]
        if found.version == version:
            return found
    options = whole._options
    # Lists differ between callers, so that a shared cache must not keep them.
    private = ListOptions(page_size=options.page_size, ttl_ms=options.ttl_ms, cache_scope="private")
    entries: Entries[Any] = Entries(whole.kind, private, whole._lock)
    with whole._lock:
        rows = list(whole.rows.items())
    entries.rows = {key: row for key, row in rows if is_visible(row[1])}
    entries.version = version
    return entries


def _with_search(tools: Entries[Any], search: "ToolSearch") -> Entries[Any]:
    """Return all tools and those of the search, of which only the latter are listed."""
    entries: Entries[Any] = Entries(tools.kind, tools._options, tools._lock)
    listed = {entry.key: (number, entry) for number, entry in enumerate(search.entries)}
    entries.rows = {**tools.rows, **listed}
    entries.version = tools.version
    entries._listing = Listing(tools.kind, tools._options, listed)
    return entries


class Views:
    """The rules of a server, and the view and the dispatcher of each class of callers."""

    def __init__(self, whole: Catalogue, make_dispatch: "Callable[[Catalogue], Dispatch]") -> None:
        self.rules: tuple[Rule | MountedRule, ...] = ()
        self.search: ToolSearch | None = None
        self._whole = whole
        self._make_dispatch = make_dispatch
        self._dispatches: dict[CallerClass, Dispatch] = {}
        # The entries of each list that each class was last notified of, or saw first.
        self._announced: dict[tuple[CallerClass, Kind], dict[str, Any]] = {}
        # The notifications that everyone gets next, because the rules have changed.
        self._unannounced: set[str] = set()

    def change(self, rules: "Iterable[Rule | MountedRule]" = (), search: "ToolSearch | None" = None) -> None:
        """Add rules, or set the search. All views are computed again."""
        self.rules = (*self.rules, *rules)
        self.search = search or self.search
        self._dispatches = {}
        self._announced = {}
        self._unannounced = set(CHANGES.values())

    def apply_at_host(self, mount: "Mount", rules: "Iterable[Rule | MountedRule] | None" = None) -> None:
        """Add rules, by default all, for the entries of this mount to the server that has it."""
        added = tuple(MountedRule(mount, rule) for rule in (self.rules if rules is None else rules))
        if added:
            mount.host._add_rules(added)

    def discard(self, mount: "Mount") -> None:
        """Remove the rules that came with a mount."""
        kept = tuple(rule for rule in self.rules if not (isinstance(rule, MountedRule) and rule.is_of(mount)))
        if len(kept) < len(self.rules):
            self.rules = kept
            self.change()

    def install(self, dispatch: "Dispatch") -> None:
        """Make a dispatcher serve each caller with the view of its class."""
        dispatch.views = self
        methods = dispatch._methods
        dispatch._methods = {name: (partial(self._serve, row[0]), row[1]) for name, row in methods.items()}

    def _serve(self, serve_visible: Serve, connection: Driver, request: "e.Serve", caller: Caller) -> Outcome:
        method = request.method.name
        dispatch = self.dispatch_for(caller)
        if method not in LISTS:
            params = {} if request.params is None else _read_params(request.params)
            if method == "subscriptions/listen":
                request = self._without_hidden(dispatch.catalogue, request, params)
            if not self._is_hidden(dispatch.catalogue, method, params):
                return serve_visible(connection, request, caller)
        return dispatch._methods[method][0](connection, request, caller)

    def _is_hidden(self, view: Catalogue, method: str, params: Mapping[str, Any]) -> bool:
        """Return whether a request is for an entry that the caller does not see."""
        whole = self._whole
        name, uri, ref = params.get("name"), params.get("uri"), params.get("ref")
        if method == "tools/call" and isinstance(name, str):
            return whole.find_tool(name) is not view.find_tool(name)
        if method == "prompts/get" and isinstance(name, str):
            return whole.prompts.get(name) is not view.prompts.get(name)
        if method in ("resources/read", "resources/subscribe") and isinstance(uri, str):
            return self._hides_resource(view, uri)
        if method == "completion/complete" and isinstance(ref, dict):
            key = ref.get("name") if ref.get("type") == "ref/prompt" else ref.get("uri")
            lists = (
                (whole.prompts, view.prompts),
                (whole.templates, view.templates),
                (whole.resources, view.resources),
            )
            return isinstance(key, str) and any(known.get(key) is not seen.get(key) for known, seen in lists)
        return False

    def _hides_resource(self, view: Catalogue, uri: str) -> bool:
        # The URI of a hidden resource may match a visible template.
        known, seen = self._whole.find_resource(uri), view.find_resource(uri)
        return known is not None and (seen is None or seen.entry is not known.entry)

    def _without_hidden(self, view: Catalogue, request: "e.Serve", params: Mapping[str, Any]) -> "e.Serve":
        """Return a `subscriptions/listen` without the resources that the caller does not see."""
        wanted = params.get("notifications")
        if not isinstance(wanted, dict) or not isinstance(uris := wanted.get("resourceSubscriptions"), list):
            return request
        seen = [uri for uri in uris if not (isinstance(uri, str) and self._hides_resource(view, uri))]
        changed = {**params, "notifications": {**wanted, "resourceSubscriptions": seen}}
        return msgspec.structs.replace(request, params=msgspec.Raw(msgspec.json.encode(changed)))

    def has_tool(self, name: str) -> bool:
        """Return whether there is a tool of this name, for any caller."""
        return self._whole.find_tool(name) is not None

    def view_for(self, caller: Caller) -> View:
        """Return what a caller sees."""
        view = self.dispatch_for(caller).catalogue
        assert isinstance(view, View)
        return view

    def dispatch_for(self, caller: Caller) -> "Dispatch":
        """Return the dispatcher for a caller. Its catalogue is up to date."""
        return self._dispatch_of(self._class_of(caller))

    def _class_of(self, caller: Caller) -> CallerClass:
        return tuple([rule.admits(caller) for rule in self.rules])

    def _dispatch_of(self, key: CallerClass) -> "Dispatch":
        dispatch = self._dispatches.get(key)
        if dispatch is None:
            if len(self._dispatches) >= MAX_CLASSES:
                self._dispatches, self._announced = {}, {}
            dispatch = self._dispatches[key] = self._make_dispatch(self._view(key, None))
        view = dispatch.catalogue
        assert isinstance(view, View)
        if view.versions != self._whole.versions:
            dispatch.catalogue = self._view(key, view)
        return dispatch

    def _view(self, key: CallerClass, old: View | None) -> View:
        hiding = [rule for rule, admitted in zip(self.rules, key, strict=True) if not admitted]
        view = View(self._whole, lambda entry: not any(rule.applies_to(entry) for rule in hiding), old, self.search)
        for kind in Kind:
            self._announced.setdefault((key, kind), view._lists[kind].listing.entries)
        return view

    def concerned(self, method: str) -> Callable[[Caller], bool]:
        """Return a function that returns whether the lists of a notification have changed for a caller."""
        if method in self._unannounced:
            self._unannounced.discard(method)
            return lambda _: True
        kinds = [kind for kind, changed_by in CHANGES.items() if changed_by == method]
        known: dict[CallerClass, bool] = {}

        def is_concerned(caller: Caller) -> bool:
            key = self._class_of(caller)
            if key not in known:
                before = [self._announced.get((key, kind)) for kind in kinds]
                catalogue = self._dispatch_of(key).catalogue
                after = [catalogue._lists[kind].listing.entries for kind in kinds]
                known[key] = None in before or before != after
                self._announced.update({(key, kind): rows for kind, rows in zip(kinds, after, strict=True)})
            return known[key]

        return is_concerned


def discard_rules(host: "Server", mount: "Mount") -> None:
    """Remove the rules of visibility of a removed mount from a server, and from all that it is mounted in."""
    if host._views is not None:
        host._views.discard(mount)
    for outer in host._mounted_in:
        discard_rules(outer.host, mount)
