// The app of a tool (SEP-1865) in a sandboxed frame without an origin, and the messages between the two.

import { query, state } from "./api.js";
import { el } from "./dom.js";

const MAX_LOG = 200;
const MAX_HEIGHT = 800;
const METHOD_NOT_FOUND = -32601;
const DENIED = -32000;

const theme = () => document.documentElement.dataset.theme
  || (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light");

class Refused extends Error {
  constructor(message, code = DENIED) {
    super(message);
    this.code = code;
  }
}

// Return the view of an app: its frame, what it is allowed, and its messages. `input` and `result` are those of the call.
function appView(tool, definition, input, result) {
  const mayCall = el("input", { type: "checkbox" });
  const log = el("ol", { class: "log", tabindex: 0, "aria-label": `Messages of the app of ${tool}` });
  const about = el("p", { class: "quiet", role: "status" }, "Loading the app…");
  const policy = el("details", {}, el("summary", {}, "Content security policy"));
  const frame = el("iframe", { class: "app", sandbox: "allow-scripts", referrerpolicy: "no-referrer",
    title: `App of ${tool}` });
  const node = el("div", { class: "app-view" }, about, frame,
    el("label", { class: "row" }, mayCall, "The app may call tools and read resources of its server"), log, policy);

  function note(text) {
    log.prepend(el("li", { class: "foreign" }, text));
    if (log.children.length > MAX_LOG) log.lastChild.remove();
  }
  // The frame has no origin, so there is none to name; only its own window gets the message.
  const send = (message) => frame.contentWindow?.postMessage({ jsonrpc: "2.0", ...message }, "*");

  function allowed() {
    if (!mayCall.checked) throw new Refused("the user has not allowed the app to use its server");
  }
  async function forwarded(path, body) {
    allowed();
    const answer = await query(path, body);
    if (answer.failed) throw new Refused(answer.failed.message, answer.failed.code ?? DENIED);
    return answer.raw;
  }

  const REQUESTS = {
    "ui/initialize": () => ({
      protocolVersion: "2026-01-26", hostInfo: { name: "jackstay-inspector", version: "1" },
      hostCapabilities: { serverTools: {}, serverResources: {}, logging: {} },
      hostContext: { toolInfo: { tool: definition }, theme: theme(), displayMode: "inline",
        availableDisplayModes: ["inline"], platform: "web", containerDimensions: { maxHeight: MAX_HEIGHT } },
    }),
    ping: () => ({}),
    "ui/message": () => ({}),
    "ui/update-model-context": () => ({}),
    "ui/request-display-mode": () => ({ mode: "inline" }),
    "ui/open-link": () => { throw new Refused("the inspector opens no links for an app"); },
    "tools/call": ({ name, arguments: given }) => forwarded("/api/app-call", { tool: String(name), arguments: given ?? {} }),
    "resources/read": ({ uri }) => forwarded("/api/read", { uri: String(uri) }),
  };
  const NOTIFICATIONS = {
    "ui/notifications/initialized": () => {
      send({ method: "ui/notifications/tool-input", params: { arguments: input } });
      send({ method: "ui/notifications/tool-result", params: result });
    },
    "ui/notifications/size-changed": ({ height }) => {
      if (Number.isFinite(height)) frame.style.height = `${Math.min(Math.max(height, 40), MAX_HEIGHT)}px`;
    },
  };

  async function receive({ source, data }) {
    if (!frame.isConnected) {
      if (node.dataset.shown) removeEventListener("message", receive);
      return;
    }
    if (source !== frame.contentWindow || data?.jsonrpc !== "2.0" || typeof data.method !== "string") return;
    const params = data.params !== null && typeof data.params === "object" ? data.params : {};
    if (data.method !== "ui/notifications/size-changed") note(`${data.method} ${JSON.stringify(params)}`);
    if (data.id === undefined) {
      NOTIFICATIONS[data.method]?.(params);
      return;
    }
    try {
      if (!Object.hasOwn(REQUESTS, data.method)) throw new Refused("method not found", METHOD_NOT_FOUND);
      send({ id: data.id, result: await REQUESTS[data.method](params) });
    } catch (error) {
      note(`refused: ${error.message}`);
      send({ id: data.id, error: { code: error.code ?? DENIED, message: error.message } });
    }
  }

  async function show() {
    const found = await query(`/api/app/${encodeURIComponent(tool)}`);
    if (found.failed) throw new Error(found.failed.message);
    about.textContent = `${found.uri}: a page of the server. Do not enter secrets into it.`;
    policy.append(el("pre", {}, found.policy.replaceAll("; ", ";\n")));
    frame.classList.toggle("bordered", found.border);
    addEventListener("message", receive);
    node.dataset.shown = "true";
    frame.src = found.path;
  }
  show().catch((error) => { about.textContent = error.message; about.className = "error"; });
  return node;
}

// The definition of the open tool, for the app.
const definitionOf = (tool) => (state.open?.row.name === tool ? state.open.raw : { name: tool });

export { appView, definitionOf };
