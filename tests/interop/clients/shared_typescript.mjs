// The TypeScript SDK with servers that share sessions: `shared_typescript.mjs SDK MODE URL` prints the results as JSON. SDK and MODE
// are those of typescript.mjs.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, mode, url] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${home}/package.json`));
const load = async (name) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/${name}`)));
const isFirst = mode === "1";
const { Client } = await load(isFirst ? "sdk/client/index.js" : "client");
const { StreamableHTTPClientTransport } = await load(isFirst ? "sdk/client/streamableHttp.js" : "client");
const types = isFirst ? await load("sdk/types.js") : {};
const named = (method, schema) => (isFirst ? types[schema] : method);

const guard = setTimeout(() => {
  console.error("not done within 120 s");
  process.exit(1);
}, 120_000);

const seen = { changes: 0, updates: 0, confirmed: {} };
let waiting = () => undefined; // called with each notification
const client = new Client(
  { name: "interop", version: "1.0" },
  { capabilities: { elicitation: {} }, ...(isFirst ? {} : { versionNegotiation: { mode } }) },
);
const call = async (name, given = {}, options = undefined) => {
  const params = { name, arguments: given };
  const result = await (isFirst ? client.callTool(params, undefined, options) : client.callTool(params, options));
  return result.content[0].text;
};
client.setRequestHandler(named("elicitation/create", "ElicitRequestSchema"), async ({ params }) => ({
  action: "accept", content: { subject: params.message },
}));
const count = (name) => () => {
  seen[name] += 1;
  waiting();
};
client.setNotificationHandler(named("notifications/tools/list_changed", "ToolListChangedNotificationSchema"), count("changes"));
client.setNotificationHandler(named("notifications/resources/updated", "ResourceUpdatedNotificationSchema"), count("updates"));

// Make a call until there is one more notification than before: the stream for them may open late.
const oneMore = async (counter, ...given) => {
  const before = seen[counter];
  while (seen[counter] === before) {
    const more = new Promise((resolve) => (waiting = () => seen[counter] > before && resolve()));
    await call(...given);
    waiting();
    await Promise.race([more, new Promise((resolve) => setTimeout(resolve, 5_000).unref())]);
  }
};

const transport = new StreamableHTTPClientTransport(new URL(url));
const tell = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  seen.revision = version;
  tell?.(version);
};
const send = transport.send.bind(transport);
let cancelling; // until the cancellation is sent: closing the client would abort it
transport.send = (message, options) => {
  const sent = send(message, options);
  if (message.method === "notifications/cancelled") cancelling = sent;
  return sent;
};
await client.connect(transport);
if (!isFirst) seen.revision = client.getNegotiatedProtocolVersion();
const isStateless = seen.revision > "2026";

const pids = new Set();
for (let number = 0; number < 6; number += 1) pids.add(await call("pid"));
seen.pids = [...pids].sort();
const subjects = Array.from({ length: 8 }, (_, number) => `delete ${number}`);
await Promise.all(subjects.map(async (subject) => (seen.confirmed[subject] = await call("confirm", { subject }))));

const uri = "memo://1";
const subscription = isStateless
  ? await client.listen({ toolsListChanged: true, resourceSubscriptions: [uri] })
  : await client.subscribeResource({ uri });
for (let number = 0; number < 4; number += 1) {
  await oneMore("changes", "add", { name: "added" });
  await oneMore("updates", "update", { uri });
}
if (isStateless) await subscription.close();

const aborting = new AbortController();
let begun;
const began = new Promise((resolve) => (begun = resolve));
const held = call("wait", {}, { onprogress: begun, signal: aborting.signal });
await began;
aborting.abort("no longer wanted");
await held.catch(() => undefined);
await cancelling;

if (!isStateless) await transport.terminateSession();
await client.close();
console.log(JSON.stringify(seen));
clearTimeout(guard);
