"""How names are read: what a developer types, stripped to the name it means, and the spellings that are the same name.

pip's requirement syntax (PEP 508: extras, specifiers, markers, direct references) and npm's (`react@18`, `@scope/pkg@^1`) are
cut off; of a line of code or of a shell, what it imports or installs is taken; a module or a subpath leads to its package.
Everything here is a function of its argument.

Above: `_index`. Below: nothing.
"""

import re
import unicodedata
from collections.abc import Iterator

# Where a name ends and pip's extras or a version specifier begin (reference, 2.1; `=` alone is conda's).
_END = re.compile(r"\s*[\[<>=!~^;,]")
_QUOTES = " \t\r\n\"'`"

# Lines that people copy, each with what it is about: Python's and JavaScript's imports, and the installers'.
_LINES = (
    re.compile(r"from\s+([\w.]+)\s+import\b"),
    re.compile(r"(?:import|export)\b[^'\"]*['\"]([^'\"\s]+)"),
    re.compile(r"(?:[\w{}*,\s]*=\s*)?(?:await\s+)?(?:require|import)\(\s*['\"]([^'\"\s]+)"),
    re.compile(r"import\s+([\w.]+)(?:\s+as\s+\w+)?(?=[\s,;]|$)"),
    re.compile(r"([\w.-]+)\s+as\s+\w+$"),
    re.compile(
        r"(?:python3?\s+-m\s+)?(?:pipx?|pip3|uv|uv\s+pip|poetry|pdm|conda|npm|pnpm|yarn|bun|deno)\s+(?:install|add|i)"
        r"\s+(?:-\S+\s+)*[\"']?([^\s\"'-][^\s\"']*)"
    ),
)

# What PEP 503 takes as one character of a name; people also write spaces.
_SEPARATORS = re.compile(r"[-_.\s]+")
_ALL_SEPARATORS = re.compile(r"[-_.\s/@]+")

_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+")

# `vue 3`, `pydantic v2`, `python 3.12`
_VERSIONED = re.compile(r"(\S.*?)\s+v?\d+(?:\.\w+)*")

# After these endings a dot belongs to the name: `web3.js` is not a module of `web3`.
_NAME_ENDINGS = frozenset(("ai", "com", "dev", "io", "js", "net", "org", "py", "rb", "rs", "sh", "ts"))


def normalise(query: str) -> str:
    """The name that a query means: lower case, trimmed, without extras, versions and markers. May be empty."""
    text = unicodedata.normalize("NFKC", query).strip(_QUOTES).lower()
    for line in _LINES:
        about = line.match(text)
        if about is not None:
            text = about[1]
            break
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
    """What may be the package of a module or subpath: `numpy.linalg`, `react-dom/client`, `@mui/material/Button`.

    Also of its types (`@types/react`, `@types/scope__pkg`), or of a version beside it (`vue 3`).
    """
    if name.startswith("node:"):
        yield "node"
        return
    if name.startswith("@types/"):
        scope, _, rest = name.removeprefix("@types/").rpartition("__")
        yield f"@{scope}/{rest}" if scope else rest
        return
    versioned = _VERSIONED.fullmatch(name)
    if versioned is not None:
        yield versioned[1]
        return
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
