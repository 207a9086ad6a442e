"""What each optional extra brings, and the sentence that says how to get it.

A feature whose library is missing must name the extra, not fail with a bare ImportError. This file asks the import
system whether a library could be found; it never imports one, and it knows nothing of what the libraries are for.
Nothing of ours is below it; transports, client, server, commands and applications use it.
"""

from importlib.util import find_spec

# The modules that must be importable for the extra to count as installed. `uvloop` is in none of them: it does not
# install on Windows, and nothing needs it.
EXTRAS: dict[str, tuple[str, ...]] = {
    "http": ("aiohttp", "h11", "httptools", "joserfc", "uvicorn"),
    "schema": ("jsonschema", "referencing"),
    "otel": ("opentelemetry",),
}


def missing_modules(extra: str) -> tuple[str, ...]:
    """The modules of `extra` that cannot be found here; empty when it is installed.

    Raises:
        KeyError: there is no such extra.
    """
    return tuple(module for module in EXTRAS[extra] if find_spec(module) is None)


def install_command(extra: str) -> str:
    """What to type to install `extra`, quoted for a shell."""
    return f"pip install 'jackstay[{extra}]'"


__all__ = ["EXTRAS", "install_command", "missing_modules"]
