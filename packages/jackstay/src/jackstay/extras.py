"""The optional extras: which modules each one installs, and the command that installs it.

An error about a missing library names the extra to install. No library is imported here.
"""

from importlib.util import find_spec

# The modules that must be importable for the extra to count as installed. `uvloop` is not listed: it is optional and
# does not install on Windows.
EXTRAS: dict[str, tuple[str, ...]] = {
    "http": ("h11", "httptools", "joserfc", "uvicorn"),
    "schema": ("jsonschema", "referencing"),
    "openapi": ("httpx", "jsonschema", "referencing", "yaml"),
    "otel": ("opentelemetry",),
    "skills": ("yaml",),
    "redis": ("hiredis", "redis"),
    "dev": ("h11", "httptools", "joserfc", "uvicorn", "watchfiles"),
}


def missing_modules(extra: str) -> tuple[str, ...]:
    """Return the modules of `extra` that cannot be found; empty if the extra is installed.

    Raises:
        KeyError: there is no such extra.
    """
    return tuple(module for module in EXTRAS[extra] if find_spec(module) is None)


def install_command(extra: str) -> str:
    """Return the shell command that installs `extra`."""
    return f"pip install 'jackstay[{extra}]'"


__all__ = ["EXTRAS", "install_command", "missing_modules"]
