"""The official SDK 2.x, its low-level server over Streamable HTTP.

python http_sdk_2.py PORT PARSER ANSWERS [--tools N]
"""

import sys

from _serving import serve
from server_sdk_2 import server

serve(server.streamable_http_app(json_response=sys.argv[3] == "json"))
