"""How names are read: what a developer types, stripped to the name it means, and the spellings that are the same name.

pip's requirement syntax (PEP 508: extras, specifiers, markers, direct references) and npm's (`react@18`, `@scope/pkg@^1`) are
cut off; a module or a subpath leads to its package. Everything here is a function of its argument.

Above: `_index`. Below: nothing.
"""

import re
import unicodedata
from collections.abc import Iterator

# Where a name ends and pip's extras or a version specifier begin (reference, 2.1; `=` alone is conda's).
_END = re.compile(r"\s*[\[<>=!~^;,]")
_QUOTES = " \t\r\n\"'`"

# What PEP 503 takes as one character of a name; people also write spaces.
_SEPARATORS = re.compile(r"[-_.\s]+")
_ALL_SEPARATORS = re.compile(r"[-_.\s/@]+")

_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+")

# After these endings a dot belongs to the name: `web3.js` is not a module of `web3`.
_NAME_ENDINGS = frozenset(("ai", "com", "dev", "io", "js", "net", "org", "py", "rb", "rs", "sh", "ts"))


def normalise(query: str) -> str:
    """The name that a query means: lower case, trimmed, without extras, versions and markers. May be empty."""
    text = unicodedata.normalize("NFKC", query).strip(_QUOTES).lower()
    found = _END.search(text)
    if found is not None:
        text = text[: found.start()]
    at = text.find("@", 1)  # the first character may be the one of a scope
    if at > 0:
        text = text[:at]
    return text.strip(_QUOTES)


def canonical(name: str) -> str:
    """One spelling for all that PyPI takes as the same name (PEP 503)."""
    return _SEPARATORS.sub("-", name).strip("-")


def squashed(name: str) -> str:
    """A name without separators: `Next.js`, `next-js` and `nextjs` are one."""
    return _ALL_SEPARATORS.sub("", name)


def packages_above(name: str) -> Iterator[str]:
    """What may be the package of a module or subpath: `numpy.linalg`, `react-dom/client`, `@mui/material/Button`."""
    if "/" in name:
        scope, _, rest = name.partition("/") if name.startswith("@") else ("", "", name)
        head, _, subpath = rest.partition("/")
        if head and subpath:
            yield f"{scope}/{head}" if scope else head
        return
    if _DOTTED.fullmatch(name) is None or name.rpartition(".")[2] in _NAME_ENDINGS:
        return
    while "." in name:
        name = name.rpartition(".")[0]
        yield name


__all__ = ["canonical", "normalise", "packages_above", "squashed"]
