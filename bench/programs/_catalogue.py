"""The catalogue of every server with `--tools N`: N tools with ten properties each."""

ECHO = {
    "name": "echo",
    "description": "Return the text.",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
}


def catalogue(count: int) -> list[dict[str, object]]:
    """Return this many tools, in the form of the protocol."""
    properties = {
        f"property_{number}": {"type": "string", "description": f"The property with the number {number}"}
        for number in range(10)
    }
    schema = {"type": "object", "properties": properties, "required": ["property_0"]}
    return [
        {
            "name": f"tool_{number:03}",
            "description": f"The tool with the number {number} of a catalogue that is large enough to measure.",
            "inputSchema": schema,
        }
        for number in range(count)
    ]
