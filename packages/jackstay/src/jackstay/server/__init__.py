"""MCP servers: `Server`, the `Context` of a handler, and the types that they accept and return."""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._backend": "Backend MemoryBackend share_bus use_backend with_stores",
        "._catalogue": "CHANGES Catalogue Kind",
        "._changes": "GAP ChangeBus ChangeListener MemoryChanges WorkerBus",
        "._connection": "Connection",
        "._content": "Audio File Image",
        "._context": "ClientDescription Context Elicited HttpRequest",
        "._depends": "Depends",
        "._dispatch": "Middleware Next OnInvalidArguments",
        "._driver": "Caller Driver Handlers Outcome",
        "._files": "DirectoryResource FileResource HttpResource TextResource",
        "._failures": "InsufficientScopeError ResourceNotFoundError ToolError",
        "._hooks": "CallNext Hooks",
        "._metrics": "Metrics prometheus",
        "._middleware": (
            "MemoryMiddlewareStore MiddlewareStore RateLimit ResponseCache ResponseSizeLimit Retry StructuredLogging "
            "Timing"
        ),
        "._mounted_entries": "make_entry read_key",
        "._mount": "ALL Mount",
        "._mounts": "Mounts clients_of mount_servers share_numbers unmount",
        "._options": "CAPABILITIES Options",
        "._problems": "InvalidArguments Problem",
        "._server": "Server find_server",
        "._skills": "Skills",
        "._task_process": "run_tasks",
        "._task_sqlite": "SqliteTaskStore",
        "._task_store": "MemoryTaskStore TaskRecord TaskState TaskStore",
        "._tasks": "Tasks",
        "._telemetry": "EVENTS Fields Listener",
        "._tracing": "trace_requests",
        "._transforms": "Argument Transform Transforms",
    },
)
