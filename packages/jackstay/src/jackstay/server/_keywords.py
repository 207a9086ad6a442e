"""The options of a server and of its entries as keywords.

Type checkers use the stub, which `tools/make_stubs.py` generates.
"""

from jackstay.protocol import keywords
from jackstay.server._options import Options
from jackstay.server._prompts import PromptOptions
from jackstay.server._resources import ResourceOptions
from jackstay.server._tools import ToolOptions

# The keywords of `Server()` that are not parameters of their own.
ServerKeywords = keywords("ServerKeywords", Options, without=("name", "version", "instructions"))

ToolKeywords = keywords("ToolKeywords", ToolOptions)
# Those of a tool with a JSON Schema.
AddedToolKeywords = keywords("AddedToolKeywords", ToolOptions, without=("name", "structured"))
ResourceKeywords = keywords("ResourceKeywords", ResourceOptions)
PromptKeywords = keywords("PromptKeywords", PromptOptions)
