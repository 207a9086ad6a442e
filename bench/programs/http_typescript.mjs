// The official TypeScript SDK's low-level server over Streamable HTTP, on node's own HTTP server.
//
// node http_typescript.mjs PORT PARSER ANSWERS

import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { Server } from "@modelcontextprotocol/sdk/server/index.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { CallToolRequestSchema } from "@modelcontextprotocol/sdk/types.js";

const [port, , answers] = process.argv.slice(2);
const sessions = new Map();

async function open() {
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: randomUUID,
    enableJsonResponse: answers === "json",
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  const server = new Server({ name: "echo", version: "1.0" }, { capabilities: { tools: {} } });
  server.setRequestHandler(CallToolRequestSchema, async (request) => ({
    content: [{ type: "text", text: request.params.arguments.text }],
  }));
  await server.connect(transport);
  return transport;
}

createServer(async (request, response) => {
  const known = sessions.get(request.headers["mcp-session-id"]);
  await (known ?? (await open())).handleRequest(request, response);
}).listen(Number(port), "127.0.0.1");
