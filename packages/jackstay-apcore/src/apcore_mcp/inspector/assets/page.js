// The page: list of tools, open tool, calls, history, live updates and keyboard.

const base = location.pathname.replace(/\/+$/, "");
const HISTORY_KEY = `apcore-inspector-history:${base}`;
const MAX_HISTORY = 50;
const MAX_CHUNKS = 200;

const state = {
  tools: [],
  open: null, // {row, input_schema, ...} of the open tool
  read: null, // () => arguments, while a tool is open
  write: null, // (arguments) => void
  running: null, // {id, tool, isCancelling}
  key: "",
  history: [],
};

// ---- requests ----

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

// ---- the list ----

const matches = (row, terms) => terms.every((term) =>
  [row.name, row.id, row.title || "", row.description, ...row.tags].some((text) => text.toLowerCase().includes(term)));

function badges(row) {
  const made = [];
  if (row.needs_approval) made.push(["requires approval", "warn"]);
  if (row.hints.destructive) made.push(["destructive", "bad"]);
  if (row.hints["read-only"]) made.push(["read-only", "good"]);
  if (row.is_streaming) made.push(["streams", "accent"]);
  return made.map(([text, kind]) => el("span", { class: `badge ${kind}` }, text));
}

function showList() {
  const terms = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = state.tools.filter((row) => matches(row, terms));
  const list = byId("tools");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  const scroll = list.scrollTop;
  list.replaceChildren(...found.map((row) => el("li", {}, el("button", {
    type: "button", "data-name": row.name, tabindex: -1,
    "aria-current": state.open?.row.name === row.name ? "true" : null,
    onclick: () => openTool(row.name, true),
  }, el("span", { class: "name" }, row.name),
  el("span", { class: "about" }, row.description.trim() || row.title || ""),
  row.needs_approval || row.hints.destructive ? el("span", { class: "badges" }, ...badges(row)) : null))));
  const buttons = [...list.querySelectorAll("button")];
  const stop = buttons.find((button) => button.dataset.name === focused)
    || buttons.find((button) => button.getAttribute("aria-current")) || buttons[0];
  if (stop) stop.tabIndex = 0;
  if (focused) stop?.focus();
  list.scrollTop = scroll;
  const all = state.tools.length;
  byId("count").textContent = terms.length ? `${found.length} of ${all} tools` : `${all} tool${all === 1 ? "" : "s"}`;
}

function showSkipped(skipped) {
  const box = byId("skipped");
  const rows = Object.entries(skipped);
  box.hidden = !rows.length;
  box.querySelector("summary").textContent = `${rows.length} module${rows.length === 1 ? "" : "s"} skipped`;
  box.querySelector("ul").replaceChildren(...rows.map(([id, reason]) =>
    el("li", {}, el("code", {}, id), el("span", { class: "quiet foreign" }, reason))));
}

async function loadList() {
  const listing = await (await request("/api/tools")).json();
  byId("server").textContent = `${listing.name} ${listing.version}`;
  document.title = `${listing.name} · Tool Inspector`;
  state.tools = listing.tools;
  showList();
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
  if (turn !== opening) return; // another tool was opened meanwhile
  notice(state.running
    ? `${state.running.tool} is still running: Esc cancels it, and the history will have its result.` : "");
  try {
    showTool(whole, filled);
  } catch (error) { // an invalid schema
    return cannotOpen(`${name} cannot be shown: ${error.message}`);
  }
  state.open = whole;
  history.replaceState(null, "", `#${encodeURIComponent(whole.row.name)}`);
  showList();
  document.body.dataset.room = "tool";
  if (isChosen) {
    byId("main").scrollTop = 0;
    byId("tool").querySelector(".form input, .form textarea, .form select, .run")?.focus({ preventScroll: true });
  }
}

function showTool(whole, filled) {
  const { row } = whole;
  const call = el("div", {});
  const schema = el("div", {}, schemaCard("Input", whole.input_schema),
    Object.keys(whole.output_schema).length ? schemaCard("Output", whole.output_schema)
      : el("p", { class: "card quiet" }, "The tool has no output schema."));
  const panels = [{ label: "Call", panel: call }, { label: "Schema", panel: schema }];
  if (whole.documentation) panels.push({ label: "Documentation", panel: el("div", {}, pre(whole.documentation)) });
  const hints = Object.entries(row.hints)
    .filter(([hint, value]) => value && hint !== "destructive" && hint !== "read-only")
    .map(([hint]) => el("span", { class: "badge" }, hint));
  const about = el("div", { class: "about-tool" },
    el("h2", {}, row.name),
    row.id !== row.name ? el("p", { class: "quiet" }, "module ", el("code", {}, row.id)) : null,
    el("p", { class: "description foreign", tabindex: row.description.length > 800 ? 0 : null },
      row.description.trim() || "No description."),
    el("div", { class: "badges" }, ...badges(row), ...hints,
      ...row.tags.map((tag) => el("span", { class: "badge" }, `#${tag}`)),
      el("span", { class: "badge" }, `version ${row.version}`)));
  call.append(makeCallPanel(whole, filled));
  byId("tool").replaceChildren(about, tabs(panels, { name: "Views of the tool" }).list,
    ...panels.map(({ panel }) => panel));
  byId("tool").hidden = false;
  byId("empty").hidden = true;
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
  state.read = () => (chooser.chosen === 1 ? (parse() === OMIT ? {} : parse()) : form.read([]));
  state.write = (value) => {
    fill(value);
    raw.value = pretty(value);
  };
  const result = el("div", { class: "card result", hidden: true, "aria-label": "Result", role: "region" });
  const run = el("button", { type: "submit", class: "main run", "aria-keyshortcuts": "Control+Enter" }, "Call");
  const cancel = el("button", { type: "button", class: "cancel", hidden: true,
    "aria-keyshortcuts": "Escape", onclick: cancelCall }, "Cancel");
  const card = el("form", { class: "card form", novalidate: true, onsubmit: (event) => {
    event.preventDefault();
    if (state.running) return;
    const problems = [];
    const value = chooser.chosen === 1 ? parse() : form.read(problems);
    showInvalid(problems);
    if (!problems.length && value !== OMIT) runCall({ whole, value, run, cancel, result, showInvalid });
  } },
  el("div", { class: "row" }, el("h3", {}, "Arguments"), el("span", { class: "grow" }), chooser.list),
  fields, rawPanel, general,
  el("div", { class: "row runbar" }, run, cancel, el("span", { class: "grow" }),
    el("button", { type: "button", onclick: () => { state.write({}); showInvalid([]); } }, "Reset")));
  run.disabled = Boolean(state.running);
  return el("div", { class: "work" }, card, result);
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

async function runCall({ whole, value, run, cancel, result, showInvalid }) {
  const began = performance.now();
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
      body: JSON.stringify({ tool: whole.row.name, arguments: value }), signal: running.abort.signal
    });
    for await (const text of linesOf(response)) {
      if (!text.trim()) continue;
      const line = readJson(text);
      if (line.type === "began") {
        running.id = line.call;
        entry.shown = line.shown;
        entry.trace = line.trace_id;
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
  clock.textContent = end.seconds === undefined ? duration(all)
    : `${duration(end.seconds)} in the server, ${duration(all)} in total`;
  showEnd(end, status, body, showInvalid, entry.trace);
  if (!end.problems?.length) result.scrollIntoView({ block: "nearest" });
  Object.assign(entry, {
    outcome: end.type === "result" ? (end.is_error ? "error" : "ok") : end.type,
    seconds: end.seconds ?? all,
    output: end.shown ?? (end.type === "unknown" ? receivedBefore(end.message, chunks) : null)
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

function showEnd(end, status, body, showInvalid, trace) {
  const outcome = end.type === "result" ? (end.is_error ? "error" : "ok") : end.type;
  status.replaceChildren(outcomeBadge(outcome));
  if (end.type === "refused")
    body.append(el("p", { class: "error" }, end.message),
      el("p", { class: "quiet" }, "The server refused the call; the module did not run."));
  if (end.type === "unknown")
    body.append(el("p", { class: "error" }, end.message), el("p", {},
      "The end of the call was not received: the module may have run, wholly or in part. "
      + "Check before you call it again."));
  if (end.type === "cancelled")
    body.append(el("p", { class: "quiet" },
      "The call was cancelled and the module was notified. Its earlier effects are not undone."));
  if (trace && (end.type === "unknown" || end.is_error))
    body.append(el("p", { class: "quiet" }, "Trace ID in the server log: ", el("code", { class: "trace" }, trace)));
  if (end.type !== "result") return;
  if (end.problems?.length) showInvalid(end.problems);
  showOutput(body, end.structured, end.texts, end.is_error);
}

// Show an output as a tree, JSON and text. Without structured content, text that is JSON is parsed.
function showOutput(body, structured, texts, isError) {
  const text = texts.join("\n\n");
  let value = structured;
  if (value === undefined) {
    try { value = readJson(text); } catch { value = undefined; }
  }
  const plain = el("div", {}, pre(text));
  if (isError || value === undefined) {
    body.append(el("div", { class: isError ? "error" : "" }, plain));
    return;
  }
  const panels = [
    { label: "Structured", panel: el("div", {}, tree(value)) },
    { label: "JSON", panel: el("div", {}, pre(pretty(value))) },
    { label: "Text", panel: plain }];
  body.append(el("div", { class: "row" }, tabs(panels, { name: "Format of the result", isSmall: true }).list,
    el("span", { class: "grow" }), copyButton(() => pretty(value))), ...panels.map(({ panel }) => panel));
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
  byId("history").hidden = !state.history.length;
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
    const row = el("li", {}, outcomeBadge(entry.outcome), el("code", {}, entry.tool),
      el("span", { class: "args" }, JSON.stringify(entry.shown)),
      el("span", { class: "quiet" }, entry.seconds === null ? "" : duration(entry.seconds)),
      el("time", { class: "quiet", datetime: entry.at }, new Date(entry.at).toLocaleTimeString()), details, again);
    return el("div", {}, row, output);
  }));
}

byId("clear").addEventListener("click", () => {
  state.history = [];
  try { sessionStorage.removeItem(HISTORY_KEY); } catch { /* nothing was stored */ }
  showHistory();
});

// ---- live updates ----

function setLive(name, text) {
  byId("live").dataset.state = name;
  byId("live").textContent = text;
}

// A browser opens at most six connections to a server, so a hidden tab must not keep one.
const whenVisible = () => new Promise((done) => {
  if (!document.hidden) return done();
  const check = () => {
    if (document.hidden) return;
    document.removeEventListener("visibilitychange", check);
    done();
  };
  return document.addEventListener("visibilitychange", check);
});

async function followChanges() {
  let wait = 500;
  let stream = new AbortController();
  document.addEventListener("visibilitychange", () => { if (document.hidden) stream.abort(); });
  for (;;) {
    if (document.hidden) setLive("paused", "paused");
    await whenVisible();
    stream = new AbortController();
    try {
      const response = await request("/api/events", { signal: stream.signal });
      for await (const line of linesOf(response)) {
        if (line !== "event: changed" && line !== "event: open") continue;
        await loadList();
        setLive("live", "live");
        wait = 500;
      }
    } catch { /* shown below, and retried */ }
    if (stream.signal.aborted) continue;
    setLive("lost", "not connected, retrying");
    await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(wait * 2, 15000);
  }
}

// ---- keyboard, theme, start ----

const isTyping = (target) =>
  target instanceof Element && target.matches("input:not([type=checkbox]), textarea, select");

document.addEventListener("keydown", (event) => {
  const isModal = document.querySelector("dialog[open]") !== null;
  if (isModal) return;
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    document.body.dataset.room = "list";
    byId("search").focus();
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    byId("tool").querySelector("form.form")?.requestSubmit();
  } else if (event.key === "Escape" && state.running) {
    event.preventDefault();
    cancelCall();
  }
});

byId("search").addEventListener("input", showList);
byId("search").addEventListener("keydown", (event) => {
  const first = byId("tools").querySelector("button");
  if (event.key === "ArrowDown" && first) {
    event.preventDefault();
    first.focus();
  } else if (event.key === "Enter" && first) first.click();
});

byId("tools").addEventListener("keydown", (event) => {
  const buttons = [...byId("tools").querySelectorAll("button")];
  const at = buttons.indexOf(document.activeElement);
  const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: buttons.length - 1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  if (next < 0) {
    byId("search").focus();
    return;
  }
  const target = buttons[Math.min(next, buttons.length - 1)];
  buttons.forEach((button) => { button.tabIndex = button === target ? 0 : -1; });
  target.focus();
});

byId("back").addEventListener("click", () => {
  document.body.dataset.room = "list";
  byId("search").focus();
});

const THEMES = ["auto", "light", "dark"];
function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem("apcore-inspector-theme", name); } catch { /* not allowed: applies to this page only */ }
}
byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

addEventListener("hashchange", () => {
  const name = namedTool();
  if (name && name !== state.open?.row.name) openTool(name, true);
});

// Return the name of the tool in the URL.
function namedTool() {
  try {
    return decodeURIComponent(location.hash.slice(1));
  } catch {
    return ""; // not a valid encoding
  }
}

async function start() {
  let theme = null;
  try { theme = localStorage.getItem("apcore-inspector-theme"); } catch { /* not allowed */ }
  setTheme(THEMES.includes(theme) ? theme : "auto");
  loadHistory();
  showHistory();
  try {
    await loadList();
    const name = namedTool();
    if (name && state.tools.some((row) => row.name === name)) await openTool(name, false);
  } catch (error) {
    notice(error.message);
  }
  followChanges();
}
start();
