"""The rules of MCP without I/O: no event loop, sockets or clock. Time and random numbers are arguments.

This package has what both sides share: revisions, methods and the definition of a state machine. Its subpackages are
imported on demand: `wire` (bytes to messages and back), `client` and `server` (the two state machines and the code that
runs them), `http` (the rules of the transport), `drawing` (the machines as text).
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._machine": "IMPOSSIBLE Cell Machine",
        "._methods": "LISTS LIST_CHANGES METHODS ListChange Method Sender is_known",
        "._settings": "MAX_ROUNDS MAX_VIOLATION_WARNINGS MIN_SECONDS Setting SettingsBase keywords refuse_unknown"
        " settings_of versions_setting with_tuples",
        "._timers": "Timers",
        "._versions": "ASSUMED_VERSION REVISIONS VERSIONS Era Revision newest",
    },
)
