"""The MCP client: `connect(target)` returns a `Client` that reconnects automatically.

Recovery is implemented below this API, in the connection driver and the protocol state machine, alike for all methods.
This package never imports `jackstay.server`.
"""

from typing import TYPE_CHECKING

from jackstay._lazy import lazy

if TYPE_CHECKING:
    from jackstay.client._call import Call
    from jackstay.client._client import Client, Notification, NotificationHandler
    from jackstay.client._config import Config, read_config
    from jackstay.client._connect import connect
    from jackstay.client._features import Completions, Elicitation, Logging, Prompts, Roots, Sampling
    from jackstay.client._fleet import Fleet
    from jackstay.client._lists import Cache
    from jackstay.client._otel import opentelemetry
    from jackstay.client._prometheus import prometheus
    from jackstay.client._request_handlers import ElicitationHandler, SamplingHandler
    from jackstay.client._requests import CallOptions, ProgressHandler
    from jackstay.client._resources import Resources
    from jackstay.client._subscriptions import EndHandler, UpdateHandler
    from jackstay.client._telemetry import EVENTS, Fields, Listener, Span, Trace, log_events
    from jackstay.client._tools import ToolOptions, Tools
    from jackstay.client._wire import RequestHandler, Wire

__all__ = [
    "EVENTS",
    "Cache",
    "Call",
    "CallOptions",
    "Client",
    "Completions",
    "Config",
    "Elicitation",
    "ElicitationHandler",
    "EndHandler",
    "Fields",
    "Fleet",
    "Listener",
    "Logging",
    "Notification",
    "NotificationHandler",
    "ProgressHandler",
    "Prompts",
    "RequestHandler",
    "Resources",
    "Roots",
    "Sampling",
    "SamplingHandler",
    "Span",
    "ToolOptions",
    "Tools",
    "Trace",
    "UpdateHandler",
    "Wire",
    "connect",
    "log_events",
    "opentelemetry",
    "prometheus",
    "read_config",
]

if not TYPE_CHECKING:
    __getattr__ = lazy(
        __name__,
        {
            "Cache": "_lists",
            "Call": "_call",
            "CallOptions": "_requests",
            "Client": "_client",
            "Completions": "_features",
            "Config": "_config",
            "EVENTS": "_telemetry",
            "Elicitation": "_features",
            "ElicitationHandler": "_request_handlers",
            "EndHandler": "_subscriptions",
            "Fields": "_telemetry",
            "Fleet": "_fleet",
            "Listener": "_telemetry",
            "Logging": "_features",
            "Notification": "_client",
            "NotificationHandler": "_client",
            "ProgressHandler": "_requests",
            "Prompts": "_features",
            "RequestHandler": "_wire",
            "Resources": "_resources",
            "Roots": "_features",
            "Sampling": "_features",
            "SamplingHandler": "_request_handlers",
            "Span": "_telemetry",
            "ToolOptions": "_tools",
            "Tools": "_tools",
            "Trace": "_telemetry",
            "UpdateHandler": "_subscriptions",
            "Wire": "_wire",
            "connect": "_connect",
            "log_events": "_telemetry",
            "opentelemetry": "_otel",
            "prometheus": "_prometheus",
            "read_config": "_config",
        },
    )
