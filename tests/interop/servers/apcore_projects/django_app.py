"""The embedded server of django-apcore, with one module. The argument is the port."""

import signal
import sys

import django
from apcore import module
from django.conf import settings

settings.configure(
    INSTALLED_APPS=["django_apcore"],
    SECRET_KEY="x" * 50,
    APCORE_AUTO_DISCOVER=False,
    APCORE_EMBEDDED_SERVER={"transport": "streamable-http", "port": int(sys.argv[1])},
)
django.setup()

from django_apcore.registry import get_registry, start_embedded_server  # noqa: E402  # after the settings


@module(id="greet.hello", registry=get_registry(), description="Say hello")
def hello() -> dict[str, str]:
    """Say hello."""
    return {"text": "hello"}


server = start_embedded_server()
assert server is not None
signal.signal(signal.SIGTERM, lambda *_: server.stop())
server.wait()
