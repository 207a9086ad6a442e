"""The error object of a JSON-RPC response that the client sends to a request of the server."""

import logging

from jackstay.errors import Json, UsageError
from jackstay.types import encode_json

logger = logging.getLogger("jackstay.client")


def encode_error(code: int, message: str, data: Json = None) -> bytes:
    """Encode the `error` member.

    Data that cannot be encoded is logged and omitted, so that the server gets a response.
    """
    error: dict[str, Json] = {"code": code, "message": message}
    if data is not None:
        try:
            return encode_json({**error, "data": data})
        except UsageError:
            logger.exception("the data of an error response cannot be encoded; it was omitted")
    return encode_json(error)
