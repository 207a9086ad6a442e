// The messages on the wire: requests with their responses, timing, rounds and repetitions; and recordings.

import { copyAs, notice, post, request } from "./api.js";
import { appendToEnd, byId, copyButton, duration, el, pretty, readJson } from "./dom.js";
import { pre, runBadge } from "./views.js";

const MAX_ROWS = 500;
const rows = new Map(); // number -> row
let isTrimmed = false;
const requestRows = new Map(); // id of a request of the client -> number, to show its failure

const STATUS = {
  pending: ["waiting", "warn"], response: ["done", "good"], error: ["error", "bad"], lost: ["no response", "bad"],
  failed: ["failed", "bad"],
};

const arrow = (sender) => el("span", { class: "arrow", role: "img",
  "aria-label": sender === "client" ? "to the server" : "from the server" }, sender === "client" ? "→" : "←");

// What a request or notification is about: the tool, prompt, resource or task.
const subjectOf = ({ message }) => {
  const { name, uri, taskId } = message?.params ?? {};
  return String(name ?? uri ?? taskId ?? "");
};

const seconds = (at) => `${at.toFixed(3)} s`;

async function messageText(row, part) {
  if (part.message !== undefined) return pretty(part.message);
  if (!part.is_large) return part.text ?? "";
  const line = readJson(await (await request(`/api/messages/${part.number}`)).text());
  return pretty(line.message ?? line.text ?? line);
}

function makeBody(row) {
  const body = el("div", { class: "message-body" });
  for (const [title, part] of [["Request", row.first], ["Response", row.second]]) {
    if (!part) continue;
    const text = el("div", {});
    messageText(row, part).then((shown) => text.replaceChildren(pre(shown)), (error) => notice(error.message));
    const name = row.first.kind === "request" ? title : row.first.kind;
    body.append(el("div", { class: "row" }, el("h3", {}, name), el("span", { class: "quiet" }, `${part.size ?? 0} bytes`),
      el("span", { class: "grow" }),
      part === row.first && part.kind === "request" && part.from === "client" && part.message
        ? copyAs(part.method, () => withoutMeta(part.message.params)) : null,
      copyButton(() => messageText(row, part))), text);
  }
  if (row.failure)
    body.append(el("p", { class: "error foreign" }, row.failure.reason), el("p", {}, runBadge(row.failure.may_have_run)));
  return body;
}

const withoutMeta = ({ _meta, ...params } = {}) => params;

function draw(row) {
  const { first, second } = row;
  const status = row.failure ? "failed" : first.kind !== "request" ? null : second ? second.kind : "pending";
  const [text, kind] = STATUS[status] || [first.kind, ""];
  const isToolError = second?.is_error === true;
  row.summary.replaceChildren(
    el("span", { class: "quiet time" }, seconds(first.at)), arrow(first.from),
    el("code", { class: "foreign" }, first.method || first.text || first.kind),
    subjectOf(first) ? el("span", { class: "subject foreign" }, subjectOf(first)) : "",
    first.id !== undefined ? el("span", { class: "quiet" }, `id ${first.id}`) : "",
    el("span", { class: `badge ${isToolError ? "bad" : kind}` }, isToolError ? "tool error" : text),
    first.is_later_round ? el("span", { class: "badge accent" }, "next round") : "",
    second?.wants_input ? el("span", { class: "badge accent" }, "input required") : "",
    first.again !== undefined ? el("span", { class: "badge warn" }, "sent again") : "",
    row.failure ? runBadge(row.failure.may_have_run) : "",
    el("span", { class: "grow" }),
    second?.seconds !== undefined ? el("span", { class: "quiet" }, duration(second.seconds)) : "");
  if (row.node.open) row.body.replaceChildren(makeBody(row));
}

function addMessage(number, fields) {
  const part = { ...fields, number };
  const pair = rows.get(part.pair);
  if (pair) {
    pair.second = part;
    draw(pair);
    return;
  }
  const row = { number, first: part, second: null, failure: null, summary: el("summary", {}), body: el("div", {}) };
  const text = `${part.method || ""} ${subjectOf(part)} ${part.kind} ${part.text || ""}`;
  row.node = el("details", { class: `wire ${part.kind}`, "data-text": text }, row.summary, row.body);
  row.node.addEventListener("toggle", () => { row.body.replaceChildren(...(row.node.open ? [makeBody(row)] : [])); });
  rows.set(number, row);
  if (part.kind === "request" && part.from === "client") requestRows.set(part.id, number);
  draw(row);
  show(row);
}

// Events that are not messages: a new connection, a fault, a note.
function addMark(number, text) {
  const node = el("p", { class: "wire mark", "data-text": text }, text);
  const row = { number, node };
  rows.set(number, row);
  show(row);
}

function addFailure(fields) {
  const row = rows.get(requestRows.get(fields.id));
  if (!row || row.first.method !== fields.method) return;
  row.failure = fields;
  draw(row);
}

function show(row) {
  row.node.hidden = !matches(row.node);
  appendToEnd(byId("wire"), row.node, settle);
}

function settle() {
  while (rows.size > MAX_ROWS) {
    const [[oldest, { node }]] = rows;
    node.remove();
    rows.delete(oldest);
    isTrimmed = true;
  }
  byId("wire-count").textContent = `${isTrimmed ? "the newest " : ""}${rows.size} message${rows.size === 1 ? "" : "s"}`;
}

// The newest messages are at the end.
function showNewest() {
  byId("wire").scrollTop = byId("wire").scrollHeight;
}

const matches = (node) => node.dataset.text.toLowerCase().includes(byId("wire-search").value.trim().toLowerCase());

function clearMessages() {
  rows.clear();
  requestRows.clear();
  isTrimmed = false;
  byId("wire").replaceChildren();
  byId("wire-count").textContent = "0 messages";
}

byId("wire-search").addEventListener("input", () => { for (const row of rows.values()) row.node.hidden = !matches(row.node); });
byId("wire-clear").addEventListener("click", clearMessages);

byId("save").addEventListener("click", async () => {
  const blob = await (await request("/api/recording")).blob();
  const url = URL.createObjectURL(blob);
  const link = el("a", { href: url, download: "session.jsonl" });
  link.click();
  URL.revokeObjectURL(url);
});

byId("replay").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (!file) return;
  try {
    const answer = await (await post("/api/replay", { recording: await file.text() })).json();
    notice(answer.failed ? answer.failed.message : `Connected to the recording ${file.name}.`);
  } catch (error) {
    notice(error.message);
  }
  event.target.value = "";
});

export { addFailure, addMark, addMessage, clearMessages, showNewest };
