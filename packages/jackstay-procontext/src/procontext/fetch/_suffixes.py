"""Registrable domains by the public suffix list (https://publicsuffix.org/list/, "Algorithm"), names in ASCII form.

`docs.langchain.com` and `api.python.langchain.com` have one owner; `a.github.io` and `b.github.io` do not. The list is
a dated snapshot, replaced by `tools/make_public_suffixes.py` and never fetched at run time, because the allowlist
trusts it.
"""

from functools import cache
from importlib.resources import files


class SuffixRules:
    """The three kinds of rules: plain, `*.` (one more label) and `!` (an exception to a `*.` rule)."""

    def __init__(self, lines: list[str]) -> None:
        self.plain: set[str] = set()
        self.wildcards: set[str] = set()
        self.exceptions: set[str] = set()
        for line in lines:
            if not line or line.startswith("//"):
                continue
            if line.startswith("*."):
                self.wildcards.add(line[2:])
            elif line.startswith("!"):
                self.exceptions.add(line[1:])
            else:
                self.plain.add(line)

    def registrable_domain(self, host: str) -> str | None:
        """Return the suffix with one more label; None for a suffix itself and for a name under no listed suffix.

        The algorithm treats an unlisted top-level domain as a suffix (rule `*`). This does not: `server.corp` and
        `other.corp` are two intranet hosts, and allowing one must not allow the other.
        """
        labels = host.split(".")
        for start in range(len(labels)):
            name = ".".join(labels[start:])
            if name in self.exceptions:
                return name
            parent = ".".join(labels[start + 1 :])
            if name in self.plain or parent in self.wildcards:
                return ".".join(labels[start - 1 :]) if start else None
        return None


@cache
def suffix_rules() -> SuffixRules:
    """Return the rules of the snapshot, which is read once."""
    text = files("procontext.fetch").joinpath("public_suffixes.txt").read_text(encoding="ascii")
    return SuffixRules(text.splitlines())


def registrable_domain(host: str) -> str | None:
    """Return the registrable domain of a host name, or None."""
    return suffix_rules().registrable_domain(host)


__all__ = ["SuffixRules", "registrable_domain", "suffix_rules"]
