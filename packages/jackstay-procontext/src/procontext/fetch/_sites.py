"""Which sites may be asked, and with which headers: computed from the rows of the registry and the private sources.

A site is allowed by its exact host, or by its registrable domain (never by a public suffix), and on the scheme's own port unless
a row names another. Plain HTTP is allowed only to a host that a row names with `http`. Private sources may bring headers; they are bound to the source's own origins, so that a redirect, or
a second source on another host, never sees them. The exact links of a library's index are allowed beside this; the caller keeps them.

Pure. Must never know addresses or sockets. Above: `procontext.page`, which asks before each hop. Below: `_urls`, `_suffixes`.
"""

import re
from collections.abc import Iterable, Iterator

from procontext.fetch._addresses import read_address
from procontext.fetch._failures import FetchError
from procontext.fetch._suffixes import registrable_domain
from procontext.fetch._urls import Target, read_url
from procontext.models import Library

# How nearly all rows write an address. Reading strictly takes ten times as long, and there may be 100,000 rows.
_PLAIN = re.compile(r"http(s?)://([a-z0-9.-]+)(?=[/?#]|$)")


class Sites:
    """What the rows allow. Made anew whenever the rows change: quick to make, and quick to ask the second time."""

    def __init__(self, libraries: Iterable[Library]) -> None:
        self._rows = tuple(libraries)
        self._hosts: set[str] = set()
        self._in_clear: set[str] = set()  # of those, the ones that a row names without TLS
        self._odd_ports: set[tuple[str, int]] = set()
        self._domains: dict[str, bool] = {}  # whether a row is on it, as far as was asked
        self._headers: list[tuple[str, str, tuple[tuple[str, str], ...]]] = []
        for library in self._rows:
            for url in (library.docs_url, library.llms_txt_url):
                if url:
                    self._add(url)
            if library.headers:
                self._headers += (
                    (target.origin, folder, library.headers) for target, folder in _folders(library)
                )

    def _add(self, url: str) -> None:
        plain = _PLAIN.match(url)
        if plain is not None:
            self._hosts.add(plain[2])
            if not plain[1]:
                self._in_clear.add(plain[2])
            return
        try:
            target = read_url(url)
        except FetchError:
            return  # a row with an address that we would not follow allows nothing
        self._hosts.add(target.host)
        if not target.is_encrypted:
            self._in_clear.add(target.host)
        self._odd_ports.add((target.host, target.port))

    def allows(self, target: Target) -> bool:
        """Whether this address is on a site of a row."""
        if not target.is_encrypted and target.host not in self._in_clear:
            return False  # on the way anybody could read it, and answer it
        if target.host in self._hosts:
            return target.has_plain_port or (target.host, target.port) in self._odd_ports
        if not target.has_plain_port or read_address(target.host) is not None:
            return False
        domain = registrable_domain(target.host)
        return domain is not None and self._has_domain(domain)

    def names(self, target: Target) -> bool:
        """Whether a row names this very host, not only another one of its domain."""
        return target.host in self._hosts

    def _has_domain(self, domain: str) -> bool:
        found = self._domains.get(domain)
        if found is None:
            below = f".{domain}"
            found = domain in self._hosts or any(host.endswith(below) for host in self._hosts)
            self._domains[domain] = found
        return found

    def headers(self, target: Target) -> tuple[tuple[str, str], ...]:
        """What the source of this origin wants sent; nothing for any other. Of two on one origin, the nearer folder's."""
        found = [
            (_depth(target, folder), sent)
            for origin, folder, sent in self._headers
            if origin == target.origin
        ]
        return max(found, key=lambda one: one[0])[1] if found else ()

    def owner(self, target: Target) -> str | None:
        """The identifier of the library whose documentation holds this address: the longest folder wins."""
        best, owner = -1, None
        for library in self._rows:
            if target.host in (library.docs_url or "") or target.host in (library.llms_txt_url or ""):
                for place, folder in _folders(library):
                    depth = _depth(target, folder) if place.host == target.host else -1
                    if depth > best:
                        best, owner = depth, library.id
        return owner


def _folders(library: Library) -> Iterator[tuple[Target, str]]:
    """Where the documentation of a library lies: below its `docs_url`, and beside its llms.txt."""
    for url, is_file in ((library.docs_url, False), (library.llms_txt_url, True)):
        if url:
            try:
                target = read_url(url)
            except FetchError:
                continue
            yield target, (target.url.rpartition("/")[0] if is_file else target.url).rstrip("/")


def _depth(target: Target, folder: str) -> int:
    """How long the folder is that holds the address; -1 if it does not."""
    is_below = target.url.rstrip("/") == folder or target.url.startswith(f"{folder}/")
    return len(folder) if is_below else -1


__all__ = ["Sites"]
