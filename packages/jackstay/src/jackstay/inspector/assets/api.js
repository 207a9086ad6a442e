// Requests to the server of this page, with its key; and what every part of the page shares.

import { byId, el, readJson } from "./dom.js";

const base = location.pathname.replace(/\/+$/, "");
const KEY_NAME = `inspector-key:${base}`;
const state = {
  about: { sections: ["tools"], formats: [] },
  section: "tools",
  key: "",
};

// The command prints a URL with the key in its fragment, which browsers do not send. It is kept until the tab is closed.
function readKey() {
  const found = /^#key=([\w-]+)$/.exec(location.hash);
  try {
    if (found) sessionStorage.setItem(KEY_NAME, found[1]);
    state.key = found?.[1] || sessionStorage.getItem(KEY_NAME) || "";
  } catch {
    state.key = found?.[1] || ""; // not allowed: kept until the page is reloaded
  }
  if (found) history.replaceState(null, "", location.pathname);
}

class ServerError extends Error {
  constructor(status, message, hasReason) {
    super(message);
    this.status = status;
    this.hasReason = hasReason; // whether the response was JSON from the server, not from a gateway
  }
  // The server rejects a call with 4xx or 503 before the module runs. After a 5xx of a gateway, it may have run.
  get isRejection() { return this.hasReason && (this.status < 500 || this.status === 503); }
}

let pendingKey = null;
function requestKey(message) {
  if (pendingKey) return pendingKey;
  const dialog = byId("key");
  byId("key-error").textContent = state.key ? message : "";
  byId("key-value").value = "";
  pendingKey = new Promise((done) => {
    dialog.addEventListener("close", () => { pendingKey = null; done(); }, { once: true });
  });
  dialog.showModal();
  return pendingKey;
}
byId("key-form").addEventListener("submit", () => { state.key = byId("key-value").value.trim(); });

async function request(path, options = {}) {
  for (let attempt = 0; ; attempt++) {
    const headers = { ...(options.headers || {}) };
    const key = state.key;
    if (key) headers.Authorization = `Bearer ${key}`;
    const response = await fetch(base + path, { ...options, headers, credentials: "omit", redirect: "error" });
    if (response.ok) return response;
    let reason = "";
    try { reason = (await response.json()).error; } catch { /* not JSON: not from this server */ }
    const hasReason = typeof reason === "string" && reason !== "";
    const message = hasReason ? reason : `the server responded with HTTP ${response.status}`;
    if (response.status !== 401 || attempt > 20) throw new ServerError(response.status, message, hasReason);
    if (key === state.key) await requestKey(message);
    if (!state.key) throw new ServerError(401, message, hasReason);
  }
}

const post = (path, body) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

// Yield the lines of a streamed response.
async function* linesOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    yield* parts;
  }
  if (rest) yield rest;
}

function notice(text) {
  byId("notice").textContent = text;
  byId("notice").hidden = !text;
}

// Send a request for the inspected server. Throws a ServerError if this server rejects it; a failure of the inspected
// server is returned as {failed}.
const query = async (path, body) =>
  readJson(await (body === undefined ? await request(path) : await post(path, body)).text());

// Return a request to the inspected server in a format to copy.
const snippet = async (format, method, params) => (await query("/api/snippet", { format, method, params })).text;

const FORMAT_NAMES = {
  python: "Python", pytest: "pytest", shell: "shell", curl: "curl", "json-rpc": "JSON-RPC"
};

// A select that copies a request. `params()` returns its params, or null if they are invalid.
function copyAs(method, params) {
  const status = el("span", { role: "status", class: "quiet" });
  const choice = el("select", { "aria-label": "Copy the request as", onchange: async () => {
    const format = choice.value;
    choice.value = "";
    try {
      const given = params();
      if (given === null) throw new Error("the arguments are invalid");
      await navigator.clipboard.writeText(await snippet(format, method, given));
      status.textContent = `Copied as ${FORMAT_NAMES[format] || format}`;
    } catch (error) {
      status.textContent = `Not copied: ${error.message}`;
    }
  } }, el("option", { value: "" }, "Copy as…"),
  ...state.about.formats.map((format) => el("option", { value: format }, FORMAT_NAMES[format] || format)));
  return state.about.formats.length ? el("span", { class: "copy-as" }, choice, " ", status) : null;
}

export { ServerError, base, copyAs, linesOf, notice, post, query, readKey, request, requestKey, state };
