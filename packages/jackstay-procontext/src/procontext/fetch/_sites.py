"""The allowlist of documentation sites, computed from the registry and the private sources.

A URL is allowed by its exact host or its registrable domain (never a public suffix), on the default port unless a
library names another. Of a library without a site, only the README of its repository is allowed. Plain HTTP is for
hosts that a library names with `http`; headers of a private source are sent to its own origins only.
"""

import re
from collections.abc import Iterable, Iterator

from procontext.fetch._addresses import parse_address
from procontext.fetch._failures import FetchError
from procontext.fetch._suffixes import registrable_domain
from procontext.fetch._urls import Target, parse_url
from procontext.models import Library

# The usual form of a URL. Strict parsing takes ten times as long, and there may be 100,000 libraries.
_PLAIN = re.compile(r"http(s?)://([a-z0-9.-]+)(?=[/?#]|$)")
# Where hosts of repositories have the files of the default branch.
_RAW = {"github.com": "https://raw.githubusercontent.com/{}/HEAD/", "gitlab.com": "https://gitlab.com/{}/-/raw/HEAD/"}
_REPOSITORY = re.compile(r"https://(github\.com|gitlab\.com)/([\w.-]+/[\w.-]+)/?")


def readme_urls(library: Library) -> tuple[str, ...]:
    """Return the possible addresses of the README of a library without a site."""
    if library.docs_url or library.llms_txt_url or library.path:
        return ()
    repository = _REPOSITORY.fullmatch(library.repo_url or "")
    if repository is None:
        return ()
    folder = _RAW[repository[1]].format(repository[2])
    return tuple(f"{folder}{name}" for name in ("README.md", "README.rst", "readme.md", "README"))


class Sites:
    """The allowlist of a set of libraries. It is immutable; create a new one when the libraries change."""

    def __init__(self, libraries: Iterable[Library]) -> None:
        self._rows = tuple(libraries)
        self._hosts: set[str] = set()
        self._plaintext_hosts: set[str] = set()  # the hosts that a library names with http
        self._explicit_ports: set[tuple[str, int]] = set()
        self._domains: dict[str, bool] = {}  # whether a library is on the domain; filled on demand
        self._headers: list[tuple[str, str, tuple[tuple[str, str], ...]]] = []
        self._readmes = frozenset(url for library in self._rows for url in readme_urls(library))
        for library in self._rows:
            for url in (library.docs_url, library.llms_txt_url):
                if url:
                    self._add(url)
            if library.headers:
                self._headers += ((target.origin, folder, library.headers) for target, folder in _folders(library))

    def _add(self, url: str) -> None:
        plain = _PLAIN.match(url)
        if plain is not None:
            self._hosts.add(plain[2])
            if not plain[1]:
                self._plaintext_hosts.add(plain[2])
            return
        try:
            target = parse_url(url)
        except FetchError:
            return  # an invalid URL allows nothing
        self._hosts.add(target.host)
        if not target.is_encrypted:
            self._plaintext_hosts.add(target.host)
        self._explicit_ports.add((target.host, target.port))

    def allows(self, target: Target) -> bool:
        """Return whether this URL is on the site of a library, or the README of one without a site."""
        if target.url in self._readmes:
            return True
        if not target.is_encrypted and target.host not in self._plaintext_hosts:
            return False  # plain HTTP could be read and changed on the way
        if target.host in self._hosts:
            return target.has_default_port or (target.host, target.port) in self._explicit_ports
        if not target.has_default_port or parse_address(target.host) is not None:
            return False
        domain = registrable_domain(target.host)
        return domain is not None and self._has_domain(domain)

    def has_exact_host(self, target: Target) -> bool:
        """Return whether a library names this exact host, not only another host of its domain."""
        return target.host in self._hosts

    def _has_domain(self, domain: str) -> bool:
        found = self._domains.get(domain)
        if found is None:
            below = f".{domain}"
            found = domain in self._hosts or any(host.endswith(below) for host in self._hosts)
            self._domains[domain] = found
        return found

    def headers(self, target: Target) -> tuple[tuple[str, str], ...]:
        """Return the request headers of the source with this origin. The deepest folder has precedence."""
        found = [
            (_depth(target, folder), headers) for origin, folder, headers in self._headers if origin == target.origin
        ]
        return max(found, key=lambda match: match[0])[1] if found else ()

    def owner(self, target: Target) -> str | None:
        """Return the id of the library whose documentation contains this URL. The deepest folder has precedence."""
        best, owner = -1, None
        for library in self._rows:
            if target.host in (library.docs_url or "") or target.host in (library.llms_txt_url or ""):
                for home, folder in _folders(library):
                    depth = _depth(target, folder) if home.host == target.host else -1
                    if depth > best:
                        best, owner = depth, library.id
        return owner


def _folders(library: Library) -> Iterator[tuple[Target, str]]:
    """Return the folders of a library's documentation: its `docs_url` and the folder of its llms.txt."""
    for url, is_file in ((library.docs_url, False), (library.llms_txt_url, True)):
        if url:
            try:
                target = parse_url(url)
            except FetchError:
                continue
            yield target, (target.url.rpartition("/")[0] if is_file else target.url).rstrip("/")


def _depth(target: Target, folder: str) -> int:
    """Return the length of the folder if it contains the URL, else -1."""
    is_below = target.url.rstrip("/") == folder or target.url.startswith(f"{folder}/")
    return len(folder) if is_below else -1


__all__ = ["Sites", "readme_urls"]
