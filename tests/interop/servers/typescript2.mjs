// A server on the TypeScript SDK 2.x over HTTP: `typescript2.mjs SDK PORT`, with the same features as its neighbours here. SDK is
// the directory that it is installed in. Both eras at one URL; in the handshake era it has no sessions, and so sends_requests nothing.

import { createServer } from "node:http";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, port] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${home}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(name)));
const { McpServer, ResourceTemplate, acceptedContent, completable, createMcpHandler, inputRequired } = await load(
  "@modelcontextprotocol/server",
);
const { toNodeHandler } = await load("@modelcontextprotocol/node");
const { z } = await load("zod");

const said = (text) => ({ content: [{ type: "text", text }] });
const grown = new Set();

const report = async (ctx, progress, total, message) => {
  const progressToken = ctx.mcpReq._meta?.progressToken;
  if (progressToken !== undefined) {
    await ctx.mcpReq.notify({ method: "notifications/progress", params: { progressToken, progress, total, message } });
  }
};

const addTools = (server) => {
  const sum = { inputSchema: z.object({ a: z.int(), b: z.int() }), outputSchema: z.object({ result: z.int() }) };
  const add = async ({ a, b }) => ({ ...said(String(a + b)), structuredContent: { result: a + b } });
  server.registerTool("add", sum, add);
  for (const name of grown) server.registerTool(name, sum, add);
  server.registerTool("fail", {}, async () => ({ ...said("fail: the rope broke"), isError: true }));
  server.registerTool("count", { inputSchema: z.object({ steps: z.int() }) }, async ({ steps }, ctx) => {
    for (let step = 1; step <= steps; step++) await report(ctx, step, steps, `step ${step}`);
    return said(`counted to ${steps}`);
  });
  server.registerTool("hold", {}, async (ctx) => {
    await report(ctx, 1, 2, "holding");
    await new Promise((resolve) => ctx.mcpReq.signal.addEventListener("abort", resolve));
    return said("never");
  });
  server.registerTool("log", { inputSchema: z.object({ text: z.string() }) }, async ({ text }, ctx) => {
    await ctx.mcpReq.log("warning", text);
    return said("logged");
  });
};

const addQuestions = (server) => {
  const ask = (key, request) => inputRequired({ inputRequests: { [key]: request } });
  const person = z.object({ name: z.string() });
  server.registerTool("request_elicitation", {}, async (ctx) => {
    const given = acceptedContent(ctx.mcpReq.inputResponses, "person", person);
    if (given) return said(`accept ${given.name}`);
    return ask("person", inputRequired.elicit({ message: "Who are you?", requestedSchema: person }));
  });
  server.registerTool("request_sampling", { inputSchema: z.object({ question: z.string() }) }, async ({ question }, ctx) => {
    const given = ctx.mcpReq.inputResponses?.model;
    if (given) return said(`${given.model}: ${given.content.text}`);
    const messages = [{ role: "user", content: { type: "text", text: question } }];
    return ask("model", inputRequired.createMessage({ messages, maxTokens: 16 }));
  });
  server.registerTool("request_roots", {}, async (ctx) => {
    const given = ctx.mcpReq.inputResponses?.roots;
    return given ? said(given.roots.map((root) => root.uri).join(", ")) : ask("roots", inputRequired.listRoots());
  });
};

const addTheRest = (server) => {
  server.registerTool("grow", { inputSchema: z.object({ name: z.string() }) }, async ({ name }) => {
    grown.add(name);
    handler.notify.toolsChanged();
    return said("grown");
  });
  server.registerTool("touch", { inputSchema: z.object({ uri: z.string() }) }, async ({ uri }) => {
    handler.notify.resourceUpdated(uri);
    return said("touched");
  });
  const note = (uri, text) => ({ contents: [{ uri: uri.href, text }] });
  server.registerResource("today", "note://today", {}, async (uri) => note(uri, "high water at noon"));
  const template = new ResourceTemplate("note://day/{day}", { list: undefined });
  server.registerResource("day", template, {}, async (uri, { day }) => note(uri, `low water on ${day}`));
  const names = completable(z.string(), (typed) => ["Anna", "Anton", "Berta"].filter((name) => name.startsWith(typed)));
  server.registerPrompt("greet", { argsSchema: z.object({ name: names }) }, async ({ name }) => ({
    messages: [{ role: "user", content: { type: "text", text: `Say ahoy to ${name}.` } }],
  }));
};

const handler = createMcpHandler(({ era }) => {
  const capabilities = { logging: {}, tools: { listChanged: true }, resources: { subscribe: era === "modern" } };
  const options = { instructions: "Ask for the tide.", capabilities };
  const server = new McpServer({ name: "harbour-typescript2", version: "2.0" }, options);
  addTools(server);
  addQuestions(server);
  addTheRest(server);
  return server;
});
const handle = toNodeHandler(handler);

createServer((request, response) => {
  if (request.url === "/mcp") return void handle(request, response);
  response.writeHead(404).end();
}).listen(Number(port), "127.0.0.1");
