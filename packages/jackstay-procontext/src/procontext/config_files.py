"""Find and read the settings files.

A file that the user names and the one in the platform's configuration directory are trusted. One in the working
directory is not; `local_config` has the rules for it.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from jackstay.errors import Json
from procontext.errors import ConfigError

FILE_NAME = "procontext.yaml"
# The environment variable that names a file; the option `--config` wins over it.
FILE_VARIABLE = "PROCONTEXT_CONFIG"
# A settings file has a few hundred values; YAML aliases can make a small file expand to billions.
MAX_FILE_BYTES: Final = 1024 * 1024
MAX_FILE_VALUES: Final = 100_000


class ConfigFiles(msgspec.Struct, frozen=True):
    """The settings files: `trusted` was named or belongs to the user, `local` is in the working directory."""

    trusted: Path | None = None
    local: Path | None = None


def find_files(
    named: str | None = None,
    *,
    working: Path | None = None,
    user: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConfigFiles:
    """Find the settings files. A named file (`--config`, `PROCONTEXT_CONFIG`) replaces all others.

    Raises: ConfigError if the named file does not exist.
    """
    environ = os.environ if environment is None else environment
    for where, name in (("--config", named), (FILE_VARIABLE, environ.get(FILE_VARIABLE))):
        if name:
            file = Path(name).expanduser().absolute()
            if not file.is_file():
                raise ConfigError(where, f"file not found: {file}")
            return ConfigFiles(trusted=file)
    if user is None:
        import platformdirs  # noqa: PLC0415  # not needed where a file is named

        user = Path(platformdirs.user_config_dir("procontext"))
    own = user / FILE_NAME
    local = (Path.cwd() if working is None else working) / FILE_NAME
    is_own = own.is_file()
    has_local = local.is_file() and not (is_own and local.samefile(own))
    return ConfigFiles(own if is_own else None, local if has_local else None)


def read_yaml(file: Path) -> dict[str, Json]:
    """Return the contents of a YAML file as JSON values.

    Raises: ConfigError, for invalid YAML with the line.
    """
    import yaml  # noqa: PLC0415  # needed only if there is a file

    try:
        with file.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise ConfigError("", f"cannot be read: {error.strerror}", str(file)) from error
    if len(data) > MAX_FILE_BYTES:
        raise ConfigError("", f"is larger than {MAX_FILE_BYTES} bytes", str(file))
    try:
        found: Json = yaml.safe_load(data)
    except RecursionError as error:
        raise ConfigError("", "is nested too deeply", str(file)) from error
    except (
        Exception
    ) as error:  # for a scalar that does not fit its tag, PyYAML raises ValueError, KeyError, IndexError ...
        problem = " ".join(str(error).split())
        raise ConfigError("", f"invalid YAML: {problem[:300]}", str(file)) from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError("", "must contain sections with settings, such as `cache: {ttl_hours: 24}`", str(file))
    _check_values(found, file)
    return found


def _check_values(found: Json, file: Path) -> None:
    """Reject strings that cannot be used, and aliases that expand to more values than any settings file contains."""
    pending: list[Any] = [found]
    count = 0
    while pending:
        value = pending.pop()
        count += 1
        if count > MAX_FILE_VALUES:
            raise ConfigError("", f"has more than {MAX_FILE_VALUES} values", str(file))
        if isinstance(value, dict):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, list):
            pending += value
        elif isinstance(value, str) and not value.isprintable():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ConfigError("", "a string contains a lone surrogate", str(file)) from error
            if "\0" in value:
                raise ConfigError("", "a string contains a NUL character", str(file))


__all__ = [
    "FILE_NAME",
    "FILE_VARIABLE",
    "MAX_FILE_BYTES",
    "MAX_FILE_VALUES",
    "ConfigFiles",
    "find_files",
    "read_yaml",
]
