"""`APCoreMCP`: one object that serves and exports a registry, as in apcore-mcp."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from apcore_mcp.bridge import to_executor
from apcore_mcp.compat.keywords import CompatKeywords, to_options
from apcore_mcp.config import openapi_settings, with_settings
from apcore_mcp.converters.openai import OpenAIConverter
from apcore_mcp.options import EXECUTOR_DEFAULTS, ServeOptions, make_options
from apcore_mcp.serving import asgi_app_with, over_http, serve_with

if TYPE_CHECKING:
    from apcore import Executor, Registry  # type: ignore[import-untyped]  # apcore ships no types

    from jackstay.server.http import Asgi


class APCoreMCP:
    """A registry, or a directory of modules, with the options of `serve()`.

    Raises: TypeError and ValueError, as `serve()` does.
    """

    def __init__(
        self,
        extensions_dir_or_backend: "str | Path | Registry | Executor | None" = None,
        **options: Unpack[CompatKeywords],
    ) -> None:
        self._given = to_options(options)
        settings = make_options(**with_settings(self._given))
        self._options = settings
        document = openapi_settings()
        self._executor = to_executor(_to_backend(extensions_dir_or_backend, has_document=bool(document)), settings)
        if document:
            from apcore_mcp.compat.openapi import add_operations_once  # noqa: PLC0415  # only with it

            add_operations_once(document, self._executor.registry, is_shared=extensions_dir_or_backend is not None)

    @classmethod
    def from_openapi(cls, spec: Any, **options: Any) -> "APCoreMCP":
        """Return one that serves the operations of an OpenAPI document; see `openapi_backend` for the options."""
        from apcore_mcp.compat.openapi import BACKEND_OPTIONS, openapi_backend  # noqa: PLC0415  # only with it

        backend = {}
        for name in list(options):
            key = name.removeprefix("openapi_")
            if key in BACKEND_OPTIONS and (key != name or key not in ServeOptions.__struct_fields__):
                backend[key] = options.pop(name)
        return cls(openapi_backend(spec, **backend), **options)

    @property
    def registry(self) -> "Registry":
        """The registry."""
        return self._executor.registry

    @property
    def executor(self) -> "Executor":
        """The executor, with the ACL, middleware and strategy of the options."""
        return self._executor

    @property
    def tools(self) -> list[str]:
        """The ids of the modules that are served."""
        tags = None if self._options.tags is None else list(self._options.tags)
        return list(self.registry.list(tags=tags, prefix=self._options.prefix))

    def serve(self, **options: Unpack[CompatKeywords]) -> None:
        """Serve, as `apcore_mcp.serve()`; these options take precedence over those of the constructor."""
        serve_with(self._executor, self._complete(options))

    @asynccontextmanager
    async def async_serve(self, **options: Unpack[CompatKeywords]) -> AsyncIterator["Asgi"]:
        """Return an ASGI app to mount: `async with mcp.async_serve() as app`."""
        async with asgi_app_with(self._executor, self._complete(options, is_app=True)) as app:
            yield app

    def to_openai_tools(self, *, embed_annotations: bool = False, strict: bool = False) -> list[dict[str, Any]]:
        """Return the modules as `tools` of OpenAI Chat Completions."""
        options = self._options
        return OpenAIConverter().convert_registry(
            self.registry, embed_annotations, strict, options.tags, options.prefix
        )

    def _complete(self, options: CompatKeywords, *, is_app: bool = False) -> ServeOptions:
        added = to_options(options)
        given = {**self._given, **added}
        given["extensions"] = (*self._given.get("extensions", ()), *added.get("extensions", ()))
        of_executor = {name: given.pop(name) for name in EXECUTOR_DEFAULTS if name in given}
        # Without these, with which settings would be merged, and logged, again.
        completed = with_settings(over_http(given) if is_app else given)
        settings = make_options(**{**completed, **of_executor})
        # The executor has those of the constructor already.
        new = {name: added.get(name) for name in EXECUTOR_DEFAULTS}
        return msgspec.structs.replace(settings, **new)


def _to_backend(given: Any, *, has_document: bool) -> Any:
    from apcore import Registry  # noqa: PLC0415  # apcore is imported on first use

    if given is None and has_document:
        return Registry()
    if given is None:
        raise ValueError(
            "extensions_dir_or_backend is required: a directory, a Registry or an Executor; or set mcp.openapi"
        )
    if not isinstance(given, str | Path):
        return given
    registry = Registry(extensions_dir=str(given))
    registry.discover()
    return registry


__all__ = ["APCoreMCP"]
