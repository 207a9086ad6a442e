"""Normalization of names.

Requirement syntax of pip (PEP 508) and npm (`react@18`, `@scope/pkg@^1`) is removed. From a line of code, of a shell or
of a requirements file, a file name or a repository, the name is taken. A module or a subpath leads to its package, and
words such as "docs" are left out.
"""

import re
import unicodedata
from collections.abc import Iterator

# Where a name ends and extras or a version specifier begin (`=` alone is used by conda).
_END = re.compile(r"\s*[\[<>=!~^;,(]")
_JSON_LINE = re.compile(r"[\"']@?[\w./-]+[\"']\s*:")
_QUOTES = " \t\r\n\"'`"

# Imports, lines of manifests and commands of package managers; the group is the name.
_LINES = (
    re.compile(r"from\s+([\w.]+)\s+import\b"),
    re.compile(r"(?:import|export)\b[^'\"]*['\"]([^'\"\s]+)"),
    re.compile(r"(?:[\w{}*,\s]*=\s*)?(?:await\s+)?(?:require|import)\(\s*['\"]([^'\"\s]+)"),
    re.compile(r"import\s+([\w.]+)(?:\s+as\s+\w+)?(?=[\s,;]|$)"),
    re.compile(r"([\w.-]+)\s+as\s+\w+$"),
    re.compile(r"[\"']?(@?[\w./-]+)[\"']\s*:\s*[\"']"),  # a line of package.json
    re.compile(r"gem\s+['\"]([\w.-]+)"),
    re.compile(r"require\s+['\"]([\w./-]+)"),  # Ruby
    re.compile(r"(?:pub\s+)?use\s+([a-z]\w*)(?=::|;|\s+as\b)"),  # Rust
    re.compile(r"(?:global\s+)?using\s+([\w.]+)\s*;"),  # C#
    re.compile(r"<artifactid>\s*([\w.-]+)"),
    re.compile(r"<packagereference\s+include=['\"]([\w.-]+)"),
    # Coordinates of Maven, also in a line of Gradle
    re.compile(r"(?:\w+[\s(]+['\"])?([a-z][\w.-]*:[a-z][\w.-]*):[\w.+-]+['\")\s]*$"),
    re.compile(r"(?:api|implementation|\w+(?:only|implementation))[\s(]+['\"]([a-z][\w.-]*:[a-z][\w.-]*)['\")\s]*$"),
    re.compile(  # the page of a package index
        r"https?://(?:www\.)?(?:npmjs\.com/package|pypi\.org/project|crates\.io/crates|docs\.rs|rubygems\.org/gems|"
        r"nuget\.org/packages)/(@[\w.-]+/[\w.-]+|[\w.-]+)"
    ),
    re.compile(r"(?:git\+)?(?:https?|ssh|git)://\S*?/([\w.-]+?)(?:\.git)?/?(?:[@#?]\S*)?$"),
    re.compile(r"([\w.]+)-\d[\w.!+]*(?:-[\w.]+){2,4}\.whl$"),
    re.compile(r"([\w.-]+?)-\d[\w.]*\.(?:tar\.gz|tgz|zip)$"),
    re.compile(r"(?:npm|jsr|pypi|pip|pkg:\w+/)[:]?((?<=[:/])\S+)"),
    re.compile(r"-\s+(?:name:\s*)?(\S+)"),  # an entry of a YAML list
    re.compile(
        r"(?:uvx|npx|bunx|pipx\s+run|uv\s+tool\s+(?:run|install)|(?:pnpm|yarn)\s+dlx)\s+(?:-\S+\s+)*(?:create-)?(\S+?)(?:-app)?"
        r"(?:@\S+)?(?=\s|$)"
    ),
    re.compile(
        r"(?:python3?\s+-m\s+)?(?:pipx?|pip3|uv|uv\s+pip|poetry|pdm|conda|npm|pnpm|yarn|bun|deno|cargo|gem|go|dotnet)"
        r"\s+(?:add\s+package|install|add|get|i)\s+(?:(?:-c|--channel)\s+\S+\s+|-\S+\s+)*[\"']?([^\s\"'-][^\s\"']*)"
    ),
)

# Separators that PEP 503 treats as equal, and spaces.
_SEPARATORS = re.compile(r"[-_.\s]+")
_ALL_SEPARATORS = re.compile(r"[-_.\s/@]+")

_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.[a-z_][a-z0-9_]*)+")

# `vue 3`, `pydantic v2`, `python 3.12`
_VERSIONED = re.compile(r"(\S.*?)\s+v?\d+(?:\.\w+)*")

# After these endings a dot belongs to the name: `web3.js` is not a module of `web3`.
_NAME_ENDINGS = frozenset(("ai", "com", "dev", "io", "js", "net", "org", "py", "rb", "rs", "sh", "ts"))


# Words beside a name, as people write them.
_WORDS = """
api app client crate csharp docs documentation dotnet framework gem go golang guide handbook java javascript js lib
library manual module node package python reference ruby rust sdk the tool toolkit tutorial typescript
"""
_SPOKEN = frozenset(_WORDS.split())
_BEFORE_VERSION = re.compile(r"(\S.*?)\s+v?\d+(?:\.\w+)*\s+\S.*")
# Names under which libraries are imported or known in short.
_SHORT = {
    "np": "numpy",
    "pd": "pandas",
    "plt": "matplotlib",
    "sns": "seaborn",
    "tf": "tensorflow",
    "mongo": "pymongo",
    "k8s": "kubernetes",
    "ruby on rails": "rails",
}


def spoken_names(name: str) -> Iterator[str]:
    """Return what may be meant by a name with other words: `react docs`, `python requests library`, `np`."""
    if name in _SHORT:
        yield _SHORT[name]
    before = _BEFORE_VERSION.fullmatch(name)
    if before is not None:
        yield before[1]
    words = name.split()
    kept = [word for word in words if word not in _SPOKEN] or words[:1]
    if len(kept) < len(words):
        yield " ".join(kept)
    if name.endswith("-es"):
        yield name.removesuffix("-es")  # a build of the same package
    if name.startswith("@") and "/" in name:
        yield name[1:].partition("/")[0]  # the scope of an npm package


def subject(query: str) -> str:
    """Return the part of a query that names a package, with its version: of a line of code, a command or a URL."""
    text = unicodedata.normalize("NFKC", query).strip().lower()
    text = text if _JSON_LINE.match(text) else text.strip(_QUOTES)
    return next((match[1] for line in _LINES if (match := line.match(text)) is not None), text)


def normalise(query: str) -> str:
    """Return the name in a query: lower case, trimmed, without extras, versions and markers. May be empty."""
    text = subject(query)
    found = _END.search(text)
    if found is not None:
        text = text[: found.start()]
    at = text.find("@", 1)  # at the start, @ is the scope of an npm package
    if at > 0:
        text = text[:at]
    return text.strip(_QUOTES)


def canonical(name: str) -> str:
    """Return the normalized spelling of a PyPI name (PEP 503)."""
    return _SEPARATORS.sub("-", name).strip("-")


def strip_separators(name: str) -> str:
    """Return a name without separators: `Next.js`, `next-js` and `nextjs` become equal."""
    return _ALL_SEPARATORS.sub("", name)


def parent_packages(name: str) -> Iterator[str]:
    """Return possible packages of a module or subpath: `numpy.linalg`, `react-dom/client`, `@mui/material/Button`.

    Also of type packages (`@types/react`, `@types/scope__pkg`) and of names with a version (`vue 3`).
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


__all__ = ["canonical", "normalise", "parent_packages", "spoken_names", "strip_separators", "subject"]
