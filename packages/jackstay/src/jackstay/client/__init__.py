"""The MCP client: `connect(target)` returns a `Client` that reconnects automatically.

Recovery is implemented below this API, in the connection driver and the protocol state machine, alike for all methods.
This package never imports `jackstay.server`.
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._apps": "Apps",
        "._call": "Call",
        "._client": "Client Notification NotificationHandler",
        "._config": "Config read_config",
        "._connect": "Connectable as_target connect",
        "._features": "Completions Elicitation Logging Prompts Roots Sampling",
        "._fleet": "MAX_NAME Fleet fleet_parts with_hash",
        "._forwarding": "Forwarding RequestHandler",
        "._lists": "Cache",
        "._otel": "opentelemetry",
        "._prometheus": "prometheus",
        "._request_handlers": "ElicitationHandler SamplingHandler",
        "._requests": "CallOptions ProgressHandler",
        "._resources": "Resources",
        "._skills": "Skills",
        "._subscriptions": "EndHandler UpdateHandler",
        "._task_log": "FileTaskLog LoggedTask TaskLog",
        "._tasks": "TaskHandle Tasks",
        "._telemetry": "EVENTS Fields Listener Span Trace log_events",
        "._tools": "ToolOptions Tools",
    },
)
