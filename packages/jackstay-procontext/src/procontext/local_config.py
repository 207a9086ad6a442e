"""The rules for a `procontext.yaml` in the working directory, which may come from an untrusted repository.

Such a file may add sources and change harmless settings. It may not read an environment variable, name a folder outside
its own, change how anything is fetched, or take the name of a known library (`registry` checks the names).
See docs/design/threat-model-procontext.md.
"""

import os
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from jackstay.errors import Json
from procontext.errors import ConfigError

_VARIABLE = re.compile(r"\$\{")


class Refusal(NamedTuple):
    """A key of the file that is not accepted, with the reason."""

    key: str
    reason: str


def refusals(given: Mapping[str, Json], folder: Path, allowed: Collection[str]) -> Iterator[Refusal]:
    """Find every key of a file in `folder` that is not accepted there. `allowed` are the keys of harmless settings.

    `given` was already validated as settings.
    """
    for section, values in given.items():
        if section == "sources" and isinstance(values, list):
            for index, source in enumerate(values):
                if isinstance(source, dict):
                    yield from _source_refusals(f"sources[{index}]", source, folder)
        elif isinstance(values, dict):
            for key in values:
                if f"{section}.{key}" not in allowed:
                    yield Refusal(f"{section}.{key}", "changes more than this folder")
    yield from _variables("", given)


def _source_refusals(name: str, source: Mapping[str, Json], folder: Path) -> Iterator[Refusal]:
    path = source.get("path")
    if isinstance(path, str) and not _is_inside(folder, path):
        yield Refusal(f"{name}.path", "leads out of the folder of the file")


def _is_inside(folder: Path, path: str) -> bool:
    """Return whether a path stays in the folder after following symbolic links."""
    try:
        root = os.path.realpath(folder)
        return Path(os.path.realpath(folder / Path(path).expanduser())).is_relative_to(root)
    except (OSError, ValueError, RuntimeError):
        return False


def _variables(key: str, value: object) -> Iterator[Refusal]:
    """Find every string with `${`, also where it would not be expanded."""
    if isinstance(value, Mapping):
        for name, member in value.items():
            if _VARIABLE.search(str(name)):
                yield Refusal(key or "settings", "has an environment variable in a name")
            yield from _variables(f"{key}.{name}" if key else str(name), member)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _variables(f"{key}[{index}]", item)
    elif isinstance(value, str) and _VARIABLE.search(value):
        yield Refusal(key, "reads an environment variable")


def refuse(found: Sequence[Refusal], file: Path) -> ConfigError:
    """Return the error that lists the rejected keys and how to accept them."""
    listed = "; ".join(f"{refusal.key} {refusal.reason}" for refusal in found[:10])
    more = f"; and {len(found) - 10} more" if len(found) > 10 else ""
    problem = (
        f"not accepted from a file in the working directory: {listed}{more}. If you trust this file,"
        f" name it: --config {file}, or PROCONTEXT_CONFIG={file} in the environment"
    )
    return ConfigError("", problem, str(file))


__all__ = ["Refusal", "refusals", "refuse"]
