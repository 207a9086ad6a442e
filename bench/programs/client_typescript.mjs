// The official TypeScript SDK's client; over HTTP where the server is a URL. Warms up for as long as WARM_UP seconds say (its compiler needs it), then measures.
//
// node client_typescript.mjs CALLS IN_FLIGHT SERVER...

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [calls, inFlight] = process.argv.slice(2, 4).map(Number);
const [command, ...args] = process.argv.slice(4);
const warmUp = Number(process.env.WARM_UP ?? "3");

const client = new Client({ name: "bench", version: "1" });
await client.connect(
  command.startsWith("http")
    ? new StreamableHTTPClientTransport(new URL(command))
    : new StdioClientTransport({ command, args }),
);

async function call() {
  const result = await client.callTool({ name: "echo", arguments: { text: "hello" } });
  if (result.content[0].text !== "hello") throw new Error("a wrong answer");
}

async function worker(number) {
  for (let made = 0; made < number; made++) await call();
}

const each = Math.floor(calls / inFlight);
const load = () => Promise.all(Array.from({ length: inFlight }, () => worker(each)));

const until = performance.now() + warmUp * 1000;
do await load();
while (performance.now() < until);

const cpu = process.cpuUsage();
const started = performance.now();
await load();
const took = (performance.now() - started) / 1000;
const used = process.cpuUsage(cpu);
console.log(took / (each * inFlight), (used.user + used.system) / 1e6 / (each * inFlight));
process.exit(0);
