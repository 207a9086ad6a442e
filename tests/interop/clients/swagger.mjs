// swagger-client, the client of Swagger UI: builds requests from a document, and prints them. `swagger.mjs HOME` loads it from HOME.
//
// Standard input has the path of the document in the first line, and then one call in each line, as JSON: the path, the
// method, the parameters as {"location.name": value}, the body and its media type. The output has one line for each.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const loaded = createRequire(`${process.argv[2]}/package.json`)("swagger-client");
const SwaggerClient = loaded.default ?? loaded;
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const spec = JSON.parse(readFileSync((await lines.next()).value, "utf8"));

// The client expects references to be resolved; its own resolver takes seconds for each operation of a large document.
function resolve(node, depth = 0) {
  if (node === null || typeof node !== "object") return node;
  if (Array.isArray(node)) return node.map((item) => resolve(item, depth + 1));
  if (typeof node.$ref === "string") {
    if (depth > 12) return {};
    const steps = node.$ref.split("/").slice(1);
    const key = (step) => decodeURIComponent(step).replaceAll("~1", "/").replaceAll("~0", "~");
    return resolve(steps.reduce((found, step) => found[key(step)], spec), depth + 1);
  }
  return Object.fromEntries(Object.entries(node).map(([name, value]) => [name, resolve(value, depth + 1)]));
}

async function build({ path, method, parameters, body, mediaType }) {
  const item = resolve(spec.paths[path].$ref ? spec.paths[path] : { parameters: spec.paths[path].parameters ?? [] });
  const declared = spec.paths[path][method] ?? item[method];
  item[method] = { operationId: "call", parameters: resolve(declared.parameters ?? []), requestBody: resolve(declared.requestBody) };
  const file = (value) => (value?.$file === undefined ? value : new File([Buffer.from(value.$file, "base64")], value.name, { type: value.type }));
  const files = (value) => (Array.isArray(value) ? value.map(file) : file(value));
  const requestBody = mediaType?.startsWith("multipart/") ? Object.fromEntries(Object.entries(body).map(([name, value]) => [name, files(value)])) : file(body);
  const request = SwaggerClient.buildRequest({
    spec: { openapi: spec.openapi, servers: spec.servers, paths: { [path]: item } },
    operationId: "call",
    parameters,
    requestBody,
    requestContentType: mediaType,
  });
  const isJson = mediaType !== undefined && /json/.test(mediaType) && typeof request.body !== "string";
  const content = isJson ? JSON.stringify(request.body) : request.body;
  const { ...headers } = request.headers;
  if (content instanceof FormData) delete headers["Content-Type"]; // `Request` sets it, with the boundary
  const built = new Request(request.url, { method: request.method, headers, body: content });
  return {
    method: built.method,
    url: request.url,
    headers: request.headers,
    contentType: built.headers.get("content-type"),
    body: content === undefined ? null : Buffer.from(await built.arrayBuffer()).toString("base64"),
  };
}

for await (const line of lines) {
  let answer;
  try {
    answer = await build(JSON.parse(line));
  } catch (error) {
    answer = { error: String(error) };
  }
  process.stdout.write(JSON.stringify(answer) + "\n");
}
