"""Which settings files there are, and their contents. A file that the user names is trusted, and so is the one in the platform's
configuration directory. One in the working directory is not: `local_config` has the rules for it.
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
    """The files that settings are read from: `trusted` was named or belongs to the user, `local` is in the working directory."""

    trusted: Path | None = None
    local: Path | None = None


def find_files(
    named: str | None = None,
    *,
    working: Path | None = None,
    user: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> ConfigFiles:
    """Find the settings files. A named file (`--config`, `PROCONTEXT_CONFIG`) is the only one that is used.

    Raises: ConfigError, if the named file does not exist.
    """
    environ = os.environ if environment is None else environment
    for where, name in (("--config", named), (FILE_VARIABLE, environ.get(FILE_VARIABLE))):
        if name:
            file = Path(name).expanduser().absolute()
            if not file.is_file():
                raise ConfigError(where, f"there is no file {file}")
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
    """The contents of a file, as JSON would have them.

    Raises: ConfigError, with the line where it is no YAML.
    """
    import yaml  # noqa: PLC0415  # only a file needs it

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
    ) as error:  # of a scalar that its tag does not fit, PyYAML raises ValueError, KeyError, IndexError ...
        text = " ".join(str(error).split())
        raise ConfigError("", f"is not YAML: {text[:300]}", str(file)) from error
    if found is None:
        return {}
    if not isinstance(found, dict) or not all(isinstance(key, str) for key in found):
        raise ConfigError("", "must hold sections with settings, like `cache: {ttl_hours: 24}`", str(file))
    _check_values(found, file)
    return found


def _check_values(found: Json, file: Path) -> None:
    """Refuse what is text in YAML and nowhere else, and what aliases expand to more than any settings file holds."""
    waiting: list[Any] = [found]
    count = 0
    while waiting:
        value = waiting.pop()
        count += 1
        if count > MAX_FILE_VALUES:
            raise ConfigError("", f"has more than {MAX_FILE_VALUES} values", str(file))
        if isinstance(value, dict):
            waiting += value.keys()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str) and not value.isprintable():
            try:
                value.encode()
            except UnicodeEncodeError as error:
                raise ConfigError("", "has half of a surrogate pair in a string", str(file)) from error
            if "\0" in value:
                raise ConfigError("", "has a NUL character in a string", str(file))


__all__ = [
    "FILE_NAME",
    "FILE_VARIABLE",
    "MAX_FILE_BYTES",
    "MAX_FILE_VALUES",
    "ConfigFiles",
    "find_files",
    "read_yaml",
]
