// The official TypeScript SDK's low-level server: the same tools as the others.
//
// node server_typescript.mjs [--tools N]

import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { CallToolRequestSchema, ListToolsRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const count = process.argv[2] === "--tools" ? Number(process.argv[3]) : 0;
const properties = Object.fromEntries(
  Array.from({ length: 10 }, (_, number) => [
    `property_${number}`,
    { type: "string", description: `The property with the number ${number}` },
  ]),
);
const tools = [
  {
    name: "echo",
    description: "Say the same again.",
    inputSchema: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
  },
  ...Array.from({ length: count }, (_, number) => ({
    name: `tool_${String(number).padStart(3, "0")}`,
    description: `The tool with the number ${number} of a catalogue that is large enough to measure.`,
    inputSchema: { type: "object", properties, required: ["property_0"] },
  })),
];

const server = new Server({ name: "echo", version: "1.0" }, { capabilities: { tools: {} } });
server.setRequestHandler(ListToolsRequestSchema, async () => ({ tools }));
server.setRequestHandler(CallToolRequestSchema, async (request) => ({
  content: [{ type: "text", text: request.params.arguments.text }],
}));
await server.connect(new StdioServerTransport());
