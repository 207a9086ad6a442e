"""`Bridge`: the executor, catalogue, router, server and listener of one served registry.

`serve()`, `async_serve()`, `asgi_app()` and `MCPServer` all serve a bridge. The inspector, the metrics and the health
page use its parts.
"""

import logging
import threading
import time
from typing import TYPE_CHECKING, Any

from apcore import (  # type: ignore[import-untyped]  # apcore ships no types
    AlwaysDenyHandler,
    Executor,
    Registry,
    StrategyNotFoundError,
    build_strategy_from_config,
)

from apcore_mcp._version import __version__
from apcore_mcp.backends import AdaptedExecutor, adapt_executor, is_executor, is_registry
from apcore_mcp.containment import contain
from apcore_mcp.options import ServeOptions
from apcore_mcp.server.factory import MCPServerFactory
from apcore_mcp.server.listener import RegistryListener
from apcore_mcp.server.management import management_extensions, warn_of_open_control, warn_of_useless_rules
from apcore_mcp.server.router import MAX_TEXT_COPY, ExecutionRouter
from apcore_mcp.server.transport import TransportManager

if TYPE_CHECKING:
    from collections.abc import Callable

    from jackstay.server.http import App, Asgi

logger = logging.getLogger("apcore_mcp")


class Bridge:
    """A registry, ready to be served. `close()` stops following changes of the registry.

    `owns_loop`: the bridge is served on its own event loop, not on one of the program.

    Raises: TypeError for anything but a Registry or an Executor.
    """

    def __init__(
        self, registry_or_executor: "Registry | Executor", options: ServeOptions, *, owns_loop: bool = False
    ) -> None:
        self.options = options
        self.executor = adapt_executor(to_executor(registry_or_executor, options))
        self.registry: Registry = self.executor.registry
        self.factory = MCPServerFactory()
        self.catalogue = self.factory.build_catalogue(self.registry, options.tags, options.prefix)
        self.router = ExecutionRouter(
            self.executor,
            catalogue=self.catalogue,
            validate_inputs=options.validate_inputs,
            fill_defaults=options.fill_defaults,
            approval=options.approval,
            redact_output=options.redact_output,
            output_format=options.output_format,
            output_formatter=options.output_formatter,
            trace=options.trace,
            owns_loop=owns_loop,
            max_text_copy=MAX_TEXT_COPY if options.max_frame_bytes is None else options.max_frame_bytes // 4,
        )
        limits = {name: getattr(options, name) for name in ("max_frame_bytes", "page_size")}
        self.server = self.factory.create_server(
            options.name,
            options.version or __version__,
            extensions=management_extensions(self.registry),
            **{key: value for key, value in limits.items() if value},
        )
        if options.backend is not None:
            from jackstay.redis import use_redis  # noqa: PLC0415  # an optional dependency

            use_redis(self.server, options.backend)
        if options.otel:
            from jackstay.server import trace_requests  # noqa: PLC0415  # an optional dependency

            self.server.add_middleware(trace_requests())
        self.sync = self.factory.register_catalogue(self.server, self.catalogue, self.router)
        self.listener = RegistryListener(self.registry, self.factory, self.catalogue)
        for extend in options.extensions:
            extend(self)
        self.started_at = time.monotonic()
        self._lock = threading.Lock()
        self._needs_shutdown = False
        self._closers: list[Callable[[], None]] = []
        if options.dynamic:
            self.listener.start()
        warn_of_open_control(self.executor)
        warn_of_useless_rules(self.executor)
        if not len(self.catalogue):
            logger.warning("No modules registered: %s serves no tools", options.name)

    def __repr__(self) -> str:
        return f"<Bridge {self.options.name} {self.catalogue!r}>"

    def close(self) -> None:
        """Stop following the registry. Further calls do nothing."""
        self.listener.stop()
        self.sync.stop()
        while self._closers:
            self._closers.pop()()

    def on_close(self, closer: "Callable[[], None]") -> None:
        """Call `closer()` in `close()`."""
        self._closers.append(closer)

    def start_up(self) -> None:
        """Call `on_startup`. If it raises, the bridge is not served."""
        self._needs_shutdown = True
        if self.options.on_startup is not None:
            self.options.on_startup()

    def shut_down(self) -> None:
        """Call `on_shutdown`, once for each `start_up()`. Thread-safe."""
        with self._lock:
            is_needed, self._needs_shutdown = self._needs_shutdown, False
        if is_needed and self.options.on_shutdown is not None:
            self.options.on_shutdown()

    def transport(self) -> TransportManager:
        """Return the transport, with the pages besides the endpoint."""
        return TransportManager(self.wrap_app, self.shut_down, **self.http_options())

    def http_options(self) -> dict[str, Any]:
        """Return the options of the HTTP endpoint, without its address."""
        options = self.options
        http: dict[str, Any] = {"auth": options.auth, "cors": tuple(options.cors)}
        if options.auth is not None and (options.exempt_paths or not options.require_auth):
            from apcore_mcp.auth.guard import OptionalAuth  # noqa: PLC0415  # only with these options

            http["auth"] = OptionalAuth(
                options.auth, require_auth=options.require_auth, exempt_paths=options.exempt_paths
            )
        if options.hosts is not None:
            http["hosts"] = tuple(options.hosts)
        return http

    def wrap_app(self, app: "App") -> "Asgi":
        """Return an app that serves the pages at their paths and passes everything else to the endpoint."""
        from apcore_mcp.pages import wrap_app  # noqa: PLC0415  # only over HTTP

        return wrap_app(self, app)


def to_executor(given: object, options: ServeOptions | None = None) -> Executor:
    """Return an executor: the argument itself, or a new one for a registry; with the ACL and so on of the options.

    Raises: TypeError for anything else; ValueError for a strategy and an executor, which has its own, and for an
    option that the strategy ignores.
    """
    strategy = None if options is None else options.strategy
    handler = None if options is None else options.approval_handler
    if options is not None and handler is None and options.approval == "deny":
        handler = AlwaysDenyHandler()
    if is_executor(given):
        if strategy is not None:
            raise ValueError("strategy (mcp.pipeline) cannot replace the strategy of an Executor; pass its registry")
        executor: Any = given
        if handler is not None:
            adapt_executor(executor).set_approval_handler(handler)
    elif is_registry(given):
        if isinstance(strategy, dict):
            strategy = build_strategy_from_config(strategy, registry=given)
        try:
            executor = contain(Executor(given, strategy=strategy, approval_handler=handler))
        except StrategyNotFoundError as error:
            raise ValueError(f"Unknown strategy: {strategy!r}; strategy: {error.message}") from None
    else:
        raise TypeError(f"expected an apcore Registry or Executor, not {type(given).__name__}")
    adapted = adapt_executor(executor)
    if options is not None and options.acl is not None:
        adapted.set_acl(options.acl)
    for middleware in () if options is None else options.middleware or ():
        adapted.use(middleware)
    if options is not None and not isinstance(adapted, AdaptedExecutor):
        _check_strategy(adapted, options)
    return executor


def _check_strategy(executor: Any, options: ServeOptions) -> None:
    """Raise ValueError for an option that the strategy of the executor ignores."""
    state = executor.governance_state()
    has_middleware = any(step.name == "middleware_before" for step in executor.current_strategy.steps)
    for name, given, has_effect in (
        ("acl (mcp.acl)", options.acl, state.builtin_acl_gate_wired),
        ("approval_handler (approval_store)", options.approval_handler, state.builtin_approval_gate_wired),
        ("middleware (mcp.middleware, observability)", options.middleware or None, has_middleware),
    ):
        if given is not None and not has_effect:
            raise ValueError(
                f"{name} has no effect with the strategy {executor.current_strategy.name!r} (mcp.pipeline), which has"
                " no step for it; use one that has, such as the unchanged 'standard'"
            )


__all__ = ["Bridge", "to_executor"]
