// The tools: details with schema, form and result; calls; and the history of this tab.

import {
  ServerError, base, copyAs, linesOf, notice, post, query, request, state
} from "./api.js";
import { appView, definitionOf } from "./apps.js";
import { collectLines } from "./connection.js";
import { byId, copyButton, duration, el, isObject, pretty, readJson, reveal, tabs } from "./dom.js";
import { OMIT, makeForm, showProblems, withoutSecrets } from "./form.js";
import { setCurrent, setRows } from "./list.js";
import { contentBlock, failureView, pre, schemaCard, tree } from "./views.js";

const HISTORY_KEY = `inspector-history:${base}`;
const MAX_HISTORY = 50;
const MAX_CHUNKS = 200;
const DEFAULT_TIMEOUT = "60";

// open: the details of the open tool; read and write: its arguments; running: {id, tool, isCancelling}.
// panels: the elements of tools that were opened, so that inputs and results are kept.
Object.assign(state, { tools: [], open: null, read: null, write: null, running: null, history: [], panels: new Map() });

// ---- the list ----

function badges(row) {
  const made = [];
  if (row.needs_approval) made.push(["requires approval", "warn"]);
  if (row.hints.destructive) made.push(["destructive", "bad"]);
  if (row.hints["read-only"]) made.push(["read-only", "good"]);
  if (row.is_streaming) made.push(["streams", "accent"]);
  if (row.app) made.push(["has an app", "accent"]);
  return made.map(([text, kind]) => el("span", { class: `badge ${kind}` }, text));
}

function showSkipped(skipped) {
  const box = byId("skipped");
  const rows = Object.entries(skipped);
  box.hidden = !rows.length;
  box.querySelector("summary").textContent = `${rows.length} module${rows.length === 1 ? "" : "s"} skipped`;
  box.querySelector("ul").replaceChildren(...rows.map(([id, reason]) =>
    el("li", {}, el("code", {}, id), el("span", { class: "quiet foreign" }, reason))));
}

const groupOf = (name) => {
  const at = Math.max(name.lastIndexOf("."), name.lastIndexOf("/"));
  return at > 0 ? name.slice(0, at) : "";
};

async function loadTools() {
  const listing = await query("/api/tools");
  if (listing.failed) {
    setRows("tools", [], listing.failed);
    if (!state.about.server) byId("server").textContent = ""; // it was another server
    return;
  }
  byId("server").textContent = `${listing.name} ${listing.version}`;
  document.title = `${listing.name} · ${state.about.title || "Inspector"}`;
  state.tools = listing.tools;
  setRows("tools", listing.tools.map((row) => ({
    key: row.name, name: row.name, about: row.description.trim() || row.title || "", group: groupOf(row.name),
    badges: row.needs_approval || row.hints.destructive ? badges(row) : [],
    texts: [row.name, row.id, row.title || "", row.description, ...row.tags],
    open: (isChosen) => openTool(row.name, isChosen),
  })));
  showSkipped(listing.skipped);
  const open = state.open;
  if (!open) return;
  const now = listing.tools.find((row) => row.name === open.row.name);
  if (!now) notice(`${open.row.name} is no longer available.`);
  else if (now.revision !== open.row.revision && state.running)
    notice(`${now.name} has changed: open it again when the call has ended.`);
  else if (now.revision !== open.row.revision) {
    await openTool(now.name, false, state.read?.());
    notice(`${now.name} has changed; your values were kept where they still match.`);
  } else if (byId("notice").textContent.endsWith("is no longer available.")) notice("");
}

// ---- a tool ----

// A narrow screen shows the notice only in the tool view.
function cannotOpen(reason) {
  notice(reason);
  document.body.dataset.room = "tool";
}

let opening = 0;
async function openTool(name, isChosen, filled) {
  const turn = ++opening;
  let whole;
  try {
    whole = readJson(await (await request(`/api/tools/${encodeURIComponent(name)}`)).text());
  } catch (error) {
    return cannotOpen(error.message);
  }
  if (turn !== opening || state.section !== "tools") return; // something else was opened meanwhile
  if (whole.failed) return cannotOpen(whole.failed.message);
  notice(state.running
    ? `${state.running.tool} is still running: Esc cancels it, and the history will have its result.` : "");
  try {
    showTool(whole, filled);
  } catch (error) { // an invalid schema
    return cannotOpen(`${name} cannot be shown: ${error.message}`);
  }
  state.open = whole;
  const hash = `#${encodeURIComponent(whole.row.name)}`;
  if (isChosen && location.hash !== hash) history.pushState(null, "", hash);
  else history.replaceState(null, "", hash);
  setCurrent("tools", whole.row.name);
  document.body.dataset.room = "tool";
  if (isChosen) {
    byId("main").scrollTop = 0;
    byId("tool").querySelector(".form input, .form textarea, .form select, .run")?.focus({ preventScroll: true });
  }
}

// One call at a time, and none where the server allows none.
const mayCall = () => !state.running && state.about.may_call !== false;

// Show a tool. One that was opened before is shown with its inputs and its result, unless it has changed.
function showTool(whole, filled) {
  const kept = state.panels.get(whole.row.name);
  const panel = kept && kept.revision === whole.row.revision && filled === undefined ? kept : makeTool(whole, filled);
  state.panels.set(whole.row.name, panel);
  Object.assign(state, { read: panel.read, write: panel.write });
  byId("tool").replaceChildren(...panel.nodes);
  const run = byId("tool").querySelector(".run");
  if (run) run.disabled = !mayCall();
  byId("tool").hidden = false;
  byId("empty").hidden = true;
}

function makeTool(whole, filled) {
  const { row } = whole;
  const call = el("div", {});
  const schema = el("div", {}, schemaCard("Input", whole.input_schema),
    Object.keys(whole.output_schema).length ? schemaCard("Output", whole.output_schema)
      : el("p", { class: "card quiet" }, "The tool has no output schema."));
  const panels = [{ label: "Call", panel: call }, { label: "Schema", panel: schema }];
  if (whole.documentation) panels.push({ label: "Documentation", panel: el("div", {}, pre(whole.documentation)) });
  if (whole.raw) panels.push({ label: "Definition", panel: el("div", {}, pre(pretty(whole.raw))) });
  const hints = Object.entries(row.hints)
    .filter(([hint, value]) => value && hint !== "destructive" && hint !== "read-only")
    .map(([hint]) => el("span", { class: "badge" }, hint));
  const about = el("div", { class: "about-tool" },
    el("h2", {}, row.name),
    row.id !== row.name ? el("p", { class: "quiet" }, "module ", el("code", {}, row.id)) : null,
    el("p", { class: "description foreign", tabindex: row.description.length > 800 ? 0 : null },
      row.description.trim() || "No description."),
    el("div", { class: "badges" }, ...badges(row), ...hints,
      ...row.tags.map((tag) => el("span", { class: "badge tag" }, `#${tag}`)),
      row.version ? el("span", { class: "badge tag" }, `version ${row.version}`) : null));
  const made = makeCallPanel(whole, filled);
  call.append(made.node);
  const nodes = [about, tabs(panels, { name: "Views of the tool" }).list, ...panels.map(({ panel }) => panel)];
  return { revision: row.revision, nodes, read: made.read, write: made.write };
}

function makeCallPanel(whole, filled) {
  let form = makeForm(whole.input_schema, filled);
  const general = el("p", { class: "error", role: "alert" });
  const fields = el("div", { class: "fields" }, form.node);
  const raw = el("textarea", { class: "code all", spellcheck: "false", "aria-label": "Arguments as JSON" });
  const rawPanel = el("div", {}, raw);
  const chooser = tabs([{ label: "Form", panel: fields }, { label: "JSON", panel: rawPanel }], {
    name: "Input of arguments", isSmall: true,
    onchange: (at) => {
      general.textContent = "";
      if (at === 1) {
        raw.value = pretty(form.read([]));
        return true;
      }
      const value = parse();
      if (value === OMIT) return false;
      fill(value);
      return true;
    },
  });
  function parse() {
    try {
      const value = readJson(raw.value || "{}");
      if (isObject(value)) return value;
      general.textContent = "Arguments must be a JSON object such as {}.";
    } catch (error) {
      general.textContent = `Not JSON: ${error.message}`;
    }
    return OMIT;
  }
  function fill(value) {
    form = makeForm(whole.input_schema, value);
    fields.replaceChildren(form.node);
  }
  function showInvalid(problems) {
    const unplaced = chooser.chosen === 0 ? showProblems(fields, problems) : problems;
    general.textContent = unplaced.map(({ field, message }) =>
      (field && field !== "input" ? `${field}: ${message}` : message)).join("; ");
  }
  const read = () => (chooser.chosen === 1 ? (parse() === OMIT ? {} : parse()) : form.read([]));
  const write = (value) => {
    fill(value);
    raw.value = pretty(value);
  };
  // Return the arguments, or null after the invalid ones were marked.
  function check() {
    const problems = [];
    const value = chooser.chosen === 1 ? parse() : form.read(problems);
    showInvalid(problems);
    return problems.length || value === OMIT ? null : value;
  }
  const result = el("div", { class: "card result", "aria-label": "Result", role: "region" },
    el("p", { class: "quiet" }, "The result of a call is shown here."));
  // Progress extends the time; without a value there is no limit.
  const timeout = state.about.is_client ? el("input", { type: "text", inputmode: "decimal", class: "timeout",
    value: DEFAULT_TIMEOUT, "aria-label": "Timeout in seconds; empty for none" }) : null;
  const validate = state.about.can_validate ? el("button", { type: "button", onclick: async () => {
    const value = check();
    if (value === null) return;
    const { problems } = await query("/api/validate", { tool: whole.row.name, arguments: value });
    showInvalid(problems);
    if (!problems.length) general.textContent = "";
    validated.textContent = problems.length ? "" : "The arguments are valid.";
  } }, "Validate") : null;
  const validated = el("span", { role: "status", class: "quiet" });
  const run = el("button", { type: "submit", class: "main run", "aria-keyshortcuts": "Control+Enter" }, "Call");
  const start = whole.has_tasks ? el("button", { type: "button", onclick: async () => {
    const value = check();
    if (value === null) return;
    const answer = await query("/api/start", { tool: whole.row.name, arguments: value });
    validated.textContent = answer.failed ? answer.failed.message : "Started: see the section Tasks.";
  } }, "Start as a task") : null;
  const cancel = el("button", { type: "button", class: "cancel", hidden: true,
    "aria-keyshortcuts": "Escape", onclick: cancelCall }, "Cancel");
  const card = el("form", { class: "card form", novalidate: true, onsubmit: (event) => {
    event.preventDefault();
    if (!mayCall()) return;
    validated.textContent = "";
    const value = check();
    const seconds = Number(timeout?.value.trim() || "0") || null;
    if (value !== null) runCall({ whole, value, seconds, run, cancel, result, showInvalid });
  } },
  el("div", { class: "row" }, el("h3", {}, "Arguments"), el("span", { class: "grow" }), chooser.list),
  fields, rawPanel, general,
  el("div", { class: "row runbar" }, run, cancel, start, validate, validated, el("span", { class: "grow" }),
    timeout ? el("label", { class: "quiet row" }, "Timeout (s)", timeout) : null,
    copyAs("tools/call", () => {
      const value = check();
      return value === null ? null : { name: whole.row.name, arguments: value };
    }),
    el("button", { type: "button", onclick: () => { write({}); showInvalid([]); } }, "Reset")));
  return { node: el("div", { class: "work" }, card, result), read, write };
}

// ---- a call ----

async function cancelCall() {
  const running = state.running;
  if (!running?.id || running.isCancelling) return;
  running.isCancelling = true;
  try {
    await request(`/api/call/${encodeURIComponent(running.id)}`, { method: "DELETE" });
  } catch {
    running.abort.abort(); // closing the connection also cancels the call
  }
}

async function runCall({ whole, value, seconds, run, cancel, result, showInvalid }) {
  const began = performance.now();
  // The page of a server has its own way to show tracebacks.
  const stderr = state.about.is_client ? collectLines() : "";
  const running = { id: null, tool: whole.row.name, isCancelling: false, abort: new AbortController() };
  state.running = running;
  run.disabled = true;
  cancel.hidden = false;
  const status = el("span", { role: "status" }, "Running…");
  const clock = el("span", { class: "quiet" });
  const bar = el("progress", { "aria-label": "Progress" });
  const chunks = el("ol", { class: "chunks", "aria-label": "Progress messages", tabindex: 0 });
  const body = el("div", {});
  const head = el("div", { class: "row" }, el("h3", {}, "Result"), status, el("span", { class: "grow" }), clock);
  result.replaceChildren(head, bar, chunks, body);
  result.hidden = false;
  result.scrollIntoView({ block: "nearest" });
  chunks.hidden = true;
  const ticking = setInterval(() => { clock.textContent = duration((performance.now() - began) / 1000); }, 100);
  // `shown` is replaced when the server sends the redacted arguments.
  const entry = {
    tool: whole.row.name, at: new Date().toISOString(), shown: withoutSecrets(value, whole.input_schema),
    outcome: "unknown", seconds: null, output: null, trace: null
  };
  let count = 0;
  let end = null;
  try {
    const response = await request("/api/call", {
      method: "POST", headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ tool: whole.row.name, arguments: value, timeout: seconds }), signal: running.abort.signal
    });
    for await (const text of linesOf(response)) {
      if (!text.trim()) continue;
      const line = readJson(text);
      if (line.type === "began") {
        running.id = line.call;
        if (line.shown !== undefined) entry.shown = line.shown;
        entry.trace = line.trace_id ?? null;
      } else if (line.type === "progress") {
        count += 1;
        if (line.total) { bar.max = line.total; bar.value = line.progress; }
        status.textContent =
          `Running… ${line.total ? `${line.progress} of ${line.total}` : `${count} chunk${count === 1 ? "" : "s"}`}`;
        chunks.hidden = false;
        chunks.append(el("li", { class: "foreign" }, line.message || String(line.progress)));
        if (chunks.children.length > MAX_CHUNKS) chunks.firstChild.remove();
        chunks.scrollTop = chunks.scrollHeight;
      } else if (line.type === "question") {
        await requestApproval(running, line.message, status);
      } else if (line.type === "failed") {
        end = { ...line, type: line.may_have_run === false ? "refused" : "unknown", failure: line };
      } else end = line;
    }
    if (!end) throw new Error("the connection was lost before the call ended");
  } catch (error) {
    const isRejected = error instanceof ServerError && error.isRejection;
    end = {
      type: isRejected ? "refused" : "unknown",
      message: running.isCancelling ? "The server did not confirm that the call was cancelled." : error.message
    };
  } finally {
    clearInterval(ticking);
    state.running = null;
    run.disabled = false;
    cancel.hidden = true;
    byId("tool").querySelector(".run")?.removeAttribute("disabled");
    byId("approval").close();
  }
  bar.remove();
  const all = (performance.now() - began) / 1000;
  clock.textContent = end.seconds === undefined || state.about.is_client ? duration(end.seconds ?? all)
    : `${duration(end.seconds)} in the server, ${duration(all)} in total`;
  const app = whole.row.app ? () => appView(whole.row.name, definitionOf(whole.row.name), value, end.raw) : null;
  showEnd(end, status, body, showInvalid, entry.trace, app);
  // The failure of a server that exited contains its last lines.
  if (end.is_error || (end.failure && !end.failure.details?.stderr_tail)) body.append(stderr);
  if (!end.problems?.length) result.scrollIntoView({ block: "nearest" });
  Object.assign(entry, {
    outcome: end.type === "result" ? (end.is_error ? "error" : "ok") : end.type,
    seconds: end.seconds ?? all,
    output: end.shown ?? end.raw ?? (end.type === "unknown" ? receivedBefore(end.message, chunks) : null)
  });
  remember(entry);
  if (!result.isConnected)
    notice(`${entry.tool} has ended: ${(OUTCOMES[entry.outcome] || [entry.outcome])[0]}. The history has its result.`);
}

function requestApproval(running, message, status) {
  const dialog = byId("approval");
  status.textContent = "Waiting for your approval…";
  byId("approval-text").textContent = reveal(message);
  return new Promise((done) => {
    let isAccepted = false;
    const answered = new AbortController();
    const { signal } = answered;
    byId("approve").addEventListener("click", () => { isAccepted = true; dialog.close(); }, { signal });
    byId("deny").addEventListener("click", () => dialog.close(), { signal });
    // Esc also closes the dialog, which denies the approval.
    dialog.addEventListener("close", async () => {
      answered.abort();
      status.textContent = "Running…";
      try { await post("/api/answer", { call: running.id, accepted: isAccepted }); } catch { /* the call has ended */ }
      done();
    }, { signal });
    dialog.showModal();
    byId("deny").focus();
  });
}

// "not run" only where that is known: a module may have run, wholly or in part, if the end of the call is not received.
const OUTCOMES = {
  ok: ["done", "good"], error: ["error", "bad"], cancelled: ["cancelled", "warn"],
  refused: ["not run", "bad"], unknown: ["outcome unknown", "warn"]
};

// The output in the history of a call whose end was not received.
const receivedBefore = (problem, chunks) =>
  ({ problem, received: [...chunks.children].map((chunk) => chunk.textContent) });

function outcomeBadge(outcome) {
  const [text, kind] = OUTCOMES[outcome] || [outcome, ""];
  return el("span", { class: `badge ${kind}` }, text);
}

// Traceback and log lines of a module, which the server sends to pages on the same machine.
const debugView = (debug) => el("details", { class: "debug", open: true }, el("summary", {}, "Traceback"), pre(debug));

function showEnd(end, status, body, showInvalid, trace, app) {
  const outcome = end.type === "result" ? (end.is_error ? "error" : "ok") : end.type;
  status.replaceChildren(outcomeBadge(outcome));
  if (end.failure) body.append(failureView(end.failure));
  else if (end.type === "refused")
    body.append(el("p", { class: "error" }, end.message),
      el("p", { class: "quiet" }, "The server refused the call; the tool did not run."));
  if (end.type === "unknown" && !end.failure)
    body.append(el("p", { class: "error" }, end.message), el("p", {},
      "The end of the call was not received: the tool may have run, wholly or in part. "
      + "Check before you call it again."));
  if (end.type === "cancelled")
    body.append(el("p", { class: "quiet" },
      "The call was cancelled and the tool was notified. Its earlier effects are not undone."));
  if (trace && (end.type === "unknown" || end.is_error))
    body.append(el("p", { class: "quiet" }, "Trace ID in the server log: ", el("code", { class: "trace" }, trace)));
  if (end.debug) body.append(debugView(end.debug));
  if (end.type !== "result") return;
  if (end.problems?.length) showInvalid(end.problems);
  showOutput(body, end, app);
}

// Show an output as a tree, JSON and text. Without structured content, text that is JSON is parsed.
function showOutput(body, { structured, texts, is_error: isError, content, raw }, app) {
  const text = texts.join("\n\n");
  let value = structured;
  if (value === undefined) {
    try { value = readJson(text); } catch { value = undefined; }
  }
  const hasMedia = (content || []).some((block) => block.type !== "text");
  const plain = el("div", { class: isError ? "error" : "" },
    ...(hasMedia ? content.map(contentBlock) : [pre(text)]));
  const panels = app && !isError ? [{ label: "App", panel: app() }] : [];
  if (!isError && value !== undefined)
    panels.push({ label: "Structured", panel: el("div", {}, tree(value)) },
      { label: "JSON", panel: el("div", {}, pre(pretty(value))) });
  panels.push({ label: hasMedia ? "Content" : "Text", panel: plain });
  if (raw) panels.push({ label: "Raw", panel: el("div", {}, pre(pretty(raw))) });
  if (panels.length === 1) {
    body.append(plain);
    return;
  }
  body.append(el("div", { class: "row" }, tabs(panels, { name: "Format of the result", isSmall: true }).list,
    el("span", { class: "grow" }), copyButton(() => (value === undefined ? text : pretty(value)))),
  ...panels.map(({ panel }) => panel));
}

// ---- history ----

function loadHistory() {
  try {
    const entries = readJson(sessionStorage.getItem(HISTORY_KEY) || "[]");
    state.history = Array.isArray(entries) ? entries : [];
  } catch {
    state.history = [];
  }
}

function remember(entry) {
  // A large output must not displace the other entries.
  if (JSON.stringify(entry.output)?.length > 50000) entry.output = "(too large to store)";
  state.history.unshift(entry);
  state.history.length = Math.min(state.history.length, MAX_HISTORY);
  try {
    sessionStorage.setItem(HISTORY_KEY, JSON.stringify(state.history));
  } catch { /* full, or not allowed: kept until the page is closed */ }
  showHistory();
}

function showHistory() {
  byId("history").hidden = state.section !== "tools" || !state.history.length;
  byId("calls").replaceChildren(...state.history.map((entry) => {
    const output = el("div", { hidden: true });
    const details = el("button", { type: "button", "aria-expanded": "false", onclick: () => {
      output.hidden = !output.hidden;
      details.setAttribute("aria-expanded", String(!output.hidden));
      if (!output.childNodes.length)
        output.append(pre(pretty({ arguments: entry.shown, output: entry.output,
          ...(entry.trace ? { trace_id: entry.trace } : {}) })));
    } }, "Details");
    const again = el("button", { type: "button", onclick: () => openTool(entry.tool, true, entry.shown) }, "Use again");
    const row = el("div", { class: "call" }, outcomeBadge(entry.outcome), el("code", {}, entry.tool),
      el("span", { class: "args" }, JSON.stringify(entry.shown)),
      el("span", { class: "quiet" }, entry.seconds === null ? "" : duration(entry.seconds)),
      el("time", { class: "quiet", datetime: entry.at }, new Date(entry.at).toLocaleTimeString()), details, again);
    return el("li", {}, row, output);
  }));
}

byId("clear").addEventListener("click", () => {
  state.history = [];
  try { sessionStorage.removeItem(HISTORY_KEY); } catch { /* nothing was stored */ }
  showHistory();
});

loadHistory();
showHistory();

export { cancelCall, loadTools, openTool };
