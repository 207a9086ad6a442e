// The TypeScript SDK as a client: `typescript.mjs SDK MODE COMMAND...` starts that server, uses all of it, and prints what it saw
// as JSON. SDK is the directory that it is installed in: modules are looked up from there, not from here. MODE is "1" for SDK 1.x,
// which knows only the handshake, and SDK 2.x's own word otherwise: "auto" probes, "legacy" shakes hands. A URL in the place of
// the command is a server that is there already.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, mode, command, ...args] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${home}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${name}`)));
const isFirst = mode === "1";
const { Client } = await load(isFirst ? "sdk/client/index.js" : "client");
const { StdioClientTransport } = await load(isFirst ? "sdk/client/stdio.js" : "client/stdio");
const { StreamableHTTPClientTransport } = await load(isFirst ? "sdk/client/streamableHttp.js" : "client");
const types = isFirst ? await load("sdk/types.js") : {};

const guard = setTimeout(() => {
  console.error("not done within 120 s");
  process.exit(1);
}, 120_000);

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
const client = new Client(
  { name: "interop", version: "1.0" },
  { capabilities, ...(isFirst ? {} : { versionNegotiation: { mode } }) },
);
// SDK 1.x names a message by its schema, SDK 2.x by its method. SDK 2.x takes no schema of a result either.
const named = (method, schema) => (isFirst ? types[schema] : method);
const call = (params, options) => (isFirst ? client.callTool(params, undefined, options) : client.callTool(params, options));

client.setRequestHandler(named("sampling/createMessage", "CreateMessageRequestSchema"), async () => ({
  role: "assistant", content: { type: "text", text: "aye" }, model: "parrot",
}));
client.setRequestHandler(named("elicitation/create", "ElicitRequestSchema"), async () => ({
  action: "accept", content: { username: "ada", email: "ada@example.org" },
}));
client.setRequestHandler(named("roots/list", "ListRootsRequestSchema"), async () => ({ roots: [{ uri: "file:///harbour" }] }));
client.setNotificationHandler(named("notifications/message", "LoggingMessageNotificationSchema"), ({ params }) => {
  seen.log.push([params.level, params.data]);
  if (seen.log.length === 3) logged.set();
});
client.setNotificationHandler(named("notifications/tools/list_changed", "ToolListChangedNotificationSchema"), ({ method }) => {
  seen.changes.push(method);
  changed.set();
});
client.setNotificationHandler(named("notifications/resources/updated", "ResourceUpdatedNotificationSchema"), ({ params }) => {
  seen.updates.push(params.uri);
  updated.set();
});

// What is there, and what it answers.
const use = async () => {
  const added = await call({ name: "add", arguments: { a: 19, b: 23 } });
  seen.sum = [textOf(added), added.structuredContent];
  const failed = await call({ name: "test_error_handling" });
  seen.failed = [failed.isError, textOf(failed)];
  seen.invalid = (await call({ name: "add", arguments: { a: "many" } })).isError;
  seen.unknown_tool = await codeOf(call({ name: "no_such_tool" }));
  seen.resources = (await client.listResources()).resources.map((resource) => resource.uri);
  seen.templates = (await client.listResourceTemplates()).resourceTemplates.map((template) => template.uriTemplate);
  seen.read = [];
  for (const uri of ["test://static-text", "test://template/7/data"]) {
    seen.read.push((await client.readResource({ uri })).contents[0].text);
  }
  seen.unknown_resource = await codeOf(client.readResource({ uri: "test://no/such/resource" }));
  seen.prompts = (await client.listPrompts()).prompts.map((prompt) => prompt.name);
  const prompt = { name: "test_prompt_with_arguments", arguments: { arg1: "hawser", arg2: "rope" } };
  seen.prompt = (await client.getPrompt(prompt)).messages[0].content.text;
  const ref = { type: "ref/prompt", name: "test_prompt_with_arguments" };
  seen.completion = (await client.complete({ ref, argument: { name: "arg1", value: "ha" } })).completion.values;
};

// What the server says and sends_requests by itself.
const hear = async (isStateless) => {
  seen.progress = [];
  const onprogress = ({ progress, total, message }) => seen.progress.push([progress, total, message]);
  // The SDK handles a notification one microtask late: progress that arrives in one read with the response is an error there.
  client.onerror = ({ message }) => {
    const unmatched = /unknown token: (.*)$/s.exec(message);
    if (unmatched) onprogress(JSON.parse(unmatched[1]).params);
  };
  seen.counted = textOf(await call({ name: "test_tool_with_progress" }, { onprogress }));
  if (isStateless) {
    await call({ name: "test_tool_with_logging", _meta: { "io.modelcontextprotocol/logLevel": "info" } });
  } else {
    await client.ping();
    await client.setLoggingLevel("info");
    await call({ name: "test_tool_with_logging" });
  }
  await logged.wait;
  seen.responses = [];
  for (const [name, argument] of [
    ["test_elicitation", { message: "Who?" }],
    ["test_sampling", { prompt: "Ready?" }],
    ["test_input_required_result_list_roots", {}],
  ]) {
    seen.responses.push(textOf(await call({ name, arguments: argument })));
  }
  const uri = "test://watched-resource";
  const subscription = isStateless
    ? await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] })
    : await client.subscribeResource({ uri });
  await call({ name: "test_trigger_tool_change" });
  await changed.wait;
  seen.grown = (await client.listTools()).tools.some((tool) => tool.name === "test_added_tool");
  await call({ name: "touch", arguments: { uri } });
  await updated.wait;
  await (isStateless ? subscription.close() : client.unsubscribeResource({ uri }));
};

const cancel = async () => {
  const started = event();
  const aborting = new AbortController();
  const held = call({ name: "hold" }, { onprogress: started.set, signal: aborting.signal });
  await started.wait;
  aborting.abort("no longer wanted");
  await held.catch(() => undefined);
  seen.cancelled = textOf(await call({ name: "cancelled" }));
};

const transport = command.startsWith("http")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args });
// SDK 1.x has no public name for the revision agreed on; it tells it to the transport.
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  seen.revision = version;
  tell?.(version);
};
await client.connect(transport);
if (!isFirst) seen.revision = client.getNegotiatedProtocolVersion();
const info = client.getServerVersion();
seen.server = [info.name, info.version, client.getInstructions()];

seen.tools = (await client.listTools()).tools.map((tool) => tool.name);
if (seen.tools.join() === "echo") {
  seen.echo = textOf(await call({ name: "echo", arguments: { text: "ahoy" } }));
} else {
  await use();
  await hear(seen.revision > "2026");
  await cancel();
}

seen.closing = Number(process.hrtime.bigint()) / 1e9; // the system's monotonic clock, as in Python
await client.close();
console.log(JSON.stringify(seen));
clearTimeout(guard);
