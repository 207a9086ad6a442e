"""Which part of a host name somebody can register: the public suffix list, as it was on the day in the file's first line.

`docs.langchain.com` and `api.python.langchain.com` have one owner; `a.github.io` and `b.github.io` do not. The list says so,
and nothing else does. The snapshot lies beside this file; `tools/make_public_suffixes.py` replaces it. It is never fetched at
run time: who can change the list can change what we trust.

The rules are those of https://publicsuffix.org/list/ (section "Algorithm"), names in their ASCII form.

Must never know what the answer is for. Above: `_sites`. Below: the file.
"""

from functools import cache
from importlib.resources import files


class SuffixRules:
    """The three kinds of rules: plain, `*.` (one label more) and `!` (an exception to a `*.`)."""

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
        """The suffix and one label more; None for a suffix itself, and for a name under no suffix that is listed.

        The algorithm lets an unlisted top-level domain be a suffix (rule `*`). We do not: `server.corp` and
        `other.corp` are two hosts of an intranet, and knowing one is no reason to go to the other.
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
    """The rules of the snapshot, read once."""
    text = files("procontext.fetch").joinpath("public_suffixes.txt").read_text(encoding="ascii")
    return SuffixRules(text.splitlines())


def registrable_domain(host: str) -> str | None:
    """The part of a host name that has one owner, by the snapshot; None if there is none."""
    return suffix_rules().registrable_domain(host)


__all__ = ["SuffixRules", "registrable_domain", "suffix_rules"]
