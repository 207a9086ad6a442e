"""The inspector: a web page that lists and calls what a server has, and shows its messages and its state.

`jackstay inspect` serves it for any server. Other packages serve the same page with an API of their own (`PageApp`).
"""

from jackstay._lazy import attach

__all__, __getattr__, __dir__ = attach(
    __name__,
    {
        "._app": "PageApp Request Routes check_same_origin",
        "._events": "EventLog",
        "._reload": "restart_on_save",
        "._responses": "RequestRejected read_json respond respond_error respond_json start_response stream_body"
        " wait_for_disconnect write_body",
        "._serve": "serve_inspection",
        "._inspection": "Choice Inspection",
        "._snippets": "FORMATS Snippet make_snippet",
        "._transcript": "Transcript",
    },
)
