"""Names of tools and of their arguments: short, unique, and independent of the order of the document. No I/O."""

import hashlib
import re
from collections import Counter
from collections.abc import Mapping, Sequence

# Hosts accept at most 64 characters of A-Z a-z 0-9 _ - in names of tools.
MAX_NAME = 64
_DIGEST = 8


def plain(name: str, allowed: str = "") -> str:
    """Replace characters that are not allowed in a name by `_`, without repetitions and without `_` at the ends."""
    replaced = re.sub(rf"[^A-Za-z0-9_{re.escape(allowed)}-]+", "_", name)
    return re.sub(r"__+", "_", replaced).strip("_") or "unnamed"


def shortened(name: str, identity: str) -> str:
    """Return a name of at most `MAX_NAME` characters. A longer one ends with a hash of `identity`."""
    return name if len(name) <= MAX_NAME else with_digest(name, identity)


def with_digest(name: str, identity: str) -> str:
    """Return the name with a hash of `identity`, within `MAX_NAME` characters."""
    digest = hashlib.sha256(identity.encode()).hexdigest()[:_DIGEST]
    return f"{name[: MAX_NAME - _DIGEST - 1].rstrip('_-')}_{digest}"


def tool_names(operations: Sequence[tuple[str, str, str]], taken: frozenset[str] = frozenset()) -> list[str]:
    """Return a name for each operation: (method, path, operationId).

    The name is the operationId; without one, the method and the path. FastAPI appends the path and the method to the
    name of the function: they are removed where the rest is unique. Operations that would have the same name all get
    a hash of their method and path, so that no name depends on the order. `taken` are names of the author.
    """
    long = [plain(identifier or f"{method}_{path}") for method, path, identifier in operations]
    short = [_without_path(*row) or name for row, name in zip(operations, long, strict=True)]
    short_counts = Counter((*short, *taken))
    names = [name if short_counts[name] == 1 else full for name, full in zip(short, long, strict=True)]
    identities = [f"{method.upper()} {path}" for method, path, _ in operations]
    names = [shortened(name, identity) for name, identity in zip(names, identities, strict=True)]
    counts = Counter((*names, *taken))
    return [
        name if counts[name] == 1 else with_digest(name, identity)
        for name, identity in zip(names, identities, strict=True)
    ]


def _without_path(method: str, path: str, identifier: str) -> str:
    """Return the name of the function in an operationId that FastAPI made; an empty string for any other."""
    suffix = re.sub(r"\W", "_", path) + f"_{method.lower()}"
    return plain(identifier.removesuffix(suffix)) if identifier.endswith(suffix) and identifier != suffix else ""


def argument_names(keys: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Return the name of the argument for each (location, name). A name that occurs twice gets its location."""
    candidates: Mapping[tuple[str, str], str] = {key: plain(key[1], ".")[:MAX_NAME] for key in keys}
    counts = Counter(candidates.values())
    found: dict[tuple[str, str], str] = {}
    for key, name in candidates.items():
        unique = name if counts[name] == 1 else shortened(f"{name}_{key[0]}", key[1])
        while unique in found.values():
            unique = with_digest(unique, "/".join(key))
        found[key] = unique
    return found
