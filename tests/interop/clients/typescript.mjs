// The TypeScript SDK as a client: `typescript.mjs SDK COMMAND...` starts that server, uses all of it, and prints what it
// saw as JSON. SDK is the directory that the SDK is installed in: modules are looked up from there, not from here.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${home}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${name}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");
const types = await load("types.js");

const guard = setTimeout(() => {
  console.error("not done within 30 s");
  process.exit(1);
}, 30_000);

const seen = { log: [], changes: [], updates: [] };
// A promise and what fulfils it.
const event = () => {
  let set;
  const wait = new Promise((resolve) => (set = resolve));
  return { set, wait };
};
const [changed, updated, logged] = [event(), event(), event()];
const codeOf = async (promise) => promise.then(() => null, (error) => error.code);
const textOf = (result) => result.content[0].text;

const capabilities = { sampling: {}, elicitation: {}, roots: { listChanged: true } };
const client = new Client({ name: "interop", version: "1.0" }, { capabilities });
client.setRequestHandler(types.CreateMessageRequestSchema, async () => ({
  role: "assistant", content: { type: "text", text: "aye" }, model: "parrot",
}));
client.setRequestHandler(types.ElicitRequestSchema, async () => ({ action: "accept", content: { name: "Ada" } }));
client.setRequestHandler(types.ListRootsRequestSchema, async () => ({ roots: [{ uri: "file:///harbour" }] }));
client.setNotificationHandler(types.LoggingMessageNotificationSchema, ({ params }) => {
  seen.log.push([params.level, params.data]);
  logged.set();
});
client.setNotificationHandler(types.ToolListChangedNotificationSchema, ({ method }) => {
  seen.changes.push(method);
  changed.set();
});
client.setNotificationHandler(types.ResourceUpdatedNotificationSchema, ({ params }) => {
  seen.updates.push(params.uri);
  updated.set();
});

// Use all of a server that offers more than the smallest example does.
const useAll = async () => {
  const added = await client.callTool({ name: "add", arguments: { a: 19, b: 23 } });
  seen.sum = [textOf(added), added.structuredContent];
  const failed = await client.callTool({ name: "fail" });
  seen.failed = [failed.isError, textOf(failed)];
  seen.invalid = (await client.callTool({ name: "add", arguments: { a: "many" } })).isError;
  seen.unknown_tool = await codeOf(client.callTool({ name: "no_such_tool" }));
  seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.read = [];
  for (const uri of ["note://today", "note://day/monday"]) {
    seen.read.push((await client.readResource({ uri })).contents[0].text);
  }
  seen.unknown_resource = await codeOf(client.readResource({ uri: "note://no/such/note" }));
  seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
  seen.prompt = (await client.getPrompt({ name: "greet", arguments: { name: "Bo" } })).messages[0].content.text;
  const ref = { type: "ref/prompt", name: "greet" };
  seen.completion = (await client.complete({ ref, argument: { name: "name", value: "An" } })).completion.values;
  await client.ping();

  // This SDK forgets the listener when the answer arrives, before it has told it what arrived in the same read: what is
  // reported just before the end is lost on its side. So only the report of `hold`, which does not end, is looked at.
  seen.counted = textOf(
    await client.callTool({ name: "count", arguments: { steps: 3 } }, undefined, { onprogress: () => undefined }),
  );
  await client.setLoggingLevel("info");
  await client.callTool({ name: "log", arguments: { text: "swell" } });
  await logged.wait;
  seen.asked = [];
  for (const [name, argument] of [["ask_person", {}], ["ask_model", { question: "Ready?" }], ["ask_roots", {}]]) {
    seen.asked.push(textOf(await client.callTool({ name, arguments: argument })));
  }
  await client.callTool({ name: "grow" });
  await changed.wait;
  seen.grown = (await client.listTools()).tools.some((tool) => tool.name === "added");
  await client.subscribeResource({ uri: "note://today" });
  await client.callTool({ name: "touch", arguments: { uri: "note://today" } });
  await updated.wait;
  await client.unsubscribeResource({ uri: "note://today" });

  const started = event();
  const aborting = new AbortController();
  const onprogress = ({ progress, total, message }) => started.set([progress, total, message]);
  const held = client.callTool({ name: "hold" }, undefined, { onprogress, signal: aborting.signal });
  seen.progress = [await started.wait];
  aborting.abort("no longer wanted");
  await held.catch(() => undefined);
  seen.cancelled = textOf(await client.callTool({ name: "cancelled" }));
};

const transport = new StdioClientTransport({ command, args });
// This SDK has no public name for the revision agreed on; it tells it to the transport.
transport.setProtocolVersion = (version) => (seen.revision = version);
await client.connect(transport);
const info = client.getServerVersion();
seen.server = [info.name, info.version, client.getInstructions()];

seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
if (seen.tools.join() === "echo") {
  seen.echo = textOf(await client.callTool({ name: "echo", arguments: { text: "ahoy" } }));
} else {
  await useAll();
}

seen.closing = Number(process.hrtime.bigint()) / 1e9; // the system's monotonic clock, as in Python
await client.close();
console.log(JSON.stringify(seen));
clearTimeout(guard);
