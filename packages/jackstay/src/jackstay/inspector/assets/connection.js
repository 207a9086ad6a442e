// The connection: the state machine with the current state, its transitions, the options, faults, and the server's log.

import { notice, query, state } from "./api.js";
import { appendToEnd, byId, el, reveal } from "./dom.js";

const MAX_LINES = 1000;
const GOOD = { ready: "live", backoff: "lost", closed: "lost" };

function setState(name) {
  state.connection = name;
  byId("state").hidden = false;
  byId("state").dataset.state = GOOD[name] || "busy";
  byId("state").textContent = name;
  for (const box of document.querySelectorAll("#machine [data-state]"))
    box.classList.toggle("current", box.dataset.state === name);
  showCurrentState();
  byId("machine-now").textContent = `The connection is in the state "${name}".`;
}

// Scroll the drawing to the current state, on a screen that is too narrow for all of it.
function showCurrentState() {
  const area = byId("machine");
  const box = area.querySelector("[data-state].current")?.getBoundingClientRect();
  const around = area.getBoundingClientRect();
  if (box?.width) area.scrollLeft += box.left + box.width / 2 - around.left - around.width / 2;
}

function addTransition(fields) {
  setState(fields.to);
  for (const way of document.querySelectorAll("#machine [data-way]"))
    way.classList.toggle("current", way.dataset.way === `${fields.from} ${fields.to}`);
  const list = byId("transitions");
  list.prepend(el("li", {},
    el("time", { class: "quiet" }, new Date(fields.time * 1000).toLocaleTimeString()), " ",
    el("code", {}, `${fields.from} → ${fields.to}`),
    fields.attempt ? el("span", { class: "quiet" }, ` attempt ${fields.attempt}`) : "",
    fields.reason ? el("span", { class: "foreign" }, ` ${fields.reason.message}`) : ""));
  while (list.children.length > MAX_LINES) list.lastChild.remove();
  if (fields.to !== "ready") return;
  byId("ended").hidden = true;
  isConnecting = false;
}

let isConnecting = false; // since the form was submitted, until the connection is ready or has failed

// The server ended or could not be started: what it wrote is shown above everything else.
function showEnd(fields) {
  const stderr = fields.stderr.trim();
  byId("ended").replaceChildren(
    el("h2", {}, "Not connected to the server"),
    el("p", { class: "error foreign" }, el("code", {}, fields.error), " ", fields.message.split(" [stderr: ")[0]),
    fields.error === "AuthorizationError"
      ? el("p", {}, "If the server expects a key, enter it under \"HTTP headers\" in the section Connection.") : "",
    stderr ? el("pre", { tabindex: 0, "aria-label": "What the server wrote to stderr" }, stderr) : "");
  byId("ended").hidden = false;
  // The form is below, where its effect could not be seen.
  if (isConnecting) byId("ended").scrollIntoView({ block: "nearest" });
  isConnecting = false;
}

// What the server writes to stderr from the start of a call until the next one, for a call that fails: a traceback can
// arrive after the result. Only the beginning, which names the failure of this call.
let callLog = null;
function collectLines() {
  const lines = el("pre", { class: "foreign", tabindex: 0, "aria-label": "Standard error of the server" });
  const node = el("details", { class: "debug", open: true, hidden: true },
    el("summary", {}, "Standard error of the server since the call"), lines);
  callLog = { node, lines };
  return node;
}

function addLine(line) {
  if (callLog && callLog.lines.childNodes.length < MAX_LINES) {
    callLog.lines.append(`${reveal(line)}\n`);
    callLog.node.hidden = false;
  }
  const log = byId("stderr");
  appendToEnd(log, el("div", { class: "foreign" }, line), () => {
    while (log.children.length > MAX_LINES) log.firstChild.remove();
  });
}

function addNotification(fields) {
  const list = byId("notifications");
  list.prepend(el("li", {}, el("code", { class: "foreign" }, fields.method), " ",
    el("span", { class: "foreign" }, JSON.stringify(fields.params))));
  while (list.children.length > MAX_LINES) list.lastChild.remove();
}

function clearConnection() {
  for (const id of ["transitions", "stderr", "notifications"]) byId(id).replaceChildren();
  byId("ended").hidden = true;
  hideSignIn();
}

const option = (value, label, isChosen) => {
  const made = el("option", { value }, label);
  made.selected = isChosen;
  return made;
};

// Only a server over HTTP has headers.
function showHeaders() {
  const chosen = state.about.servers.find(({ name }) => name === byId("connect-server").value);
  byId("connect-headers").parentElement.hidden = !chosen?.isHttp;
}
byId("connect-server").addEventListener("change", showHeaders);

// Fill the form with the current options.
function showOptions() {
  const { about } = state;
  if (!about.options) return;
  byId("connect-server").replaceChildren(...about.servers.map(({ name, display }) =>
    option(name, name === display ? name : `${name}: ${display}`, name === about.options.server)));
  byId("connect-version").replaceChildren(option("", "negotiated", !about.options.version),
    ...about.versions.map((name) => option(name, name, name === about.options.version)));
  showHeaders();
  byId("connect-headers").value = about.options.headers.map(([name, value]) => `${name}: ${value}`).join("\n");
  byId("connect-roots").value = about.options.roots.join("\n");
  byId("kill").disabled = !about.can_kill;
  byId("faults").hidden = !Object.keys(about.faults).length;
  byId("fault").replaceChildren(...Object.entries(about.faults).map(([name, text]) => option(name, text, name === "drop")));
  showSeconds();
  byId("log-level").value = about.log_level;
}

const linesOf = (id) => byId(id).value.split("\n").map((line) => line.trim()).filter(Boolean);

byId("connect").addEventListener("submit", async (event) => {
  event.preventDefault();
  const headers = linesOf("connect-headers").map((line) => {
    const at = line.indexOf(":");
    return [line.slice(0, Math.max(0, at)).trim(), line.slice(at + 1).trim()];
  });
  try {
    isConnecting = true;
    const answer = await query("/api/connect", { server: byId("connect-server").value,
      version: byId("connect-version").value, headers, roots: linesOf("connect-roots") });
    notice(answer.failed ? answer.failed.message : "");
  } catch (error) {
    notice(error.message);
  }
});

// Only a delay has a time.
function showSeconds() {
  byId("fault-seconds").parentElement.hidden = byId("fault").value !== "delay";
}
byId("fault").addEventListener("change", showSeconds);

byId("kill").addEventListener("click", async () => {
  const { killed } = await query("/api/kill", {});
  byId("fault-status").textContent = killed ? "The server was killed." : "There is no process to kill.";
});

byId("faults").addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    await query("/api/fault", { fault: byId("fault").value, seconds: Number(byId("fault-seconds").value) || 0 });
    byId("fault-status").textContent = "Armed: it occurs with the next message.";
  } catch (error) {
    byId("fault-status").textContent = error.message;
  }
});

byId("log-level").addEventListener("change", async () => {
  const answer = await query("/api/log-level", { level: byId("log-level").value });
  notice(answer.failed ? answer.failed.message : "");
});

// A link that leads only to a web page; anything else is shown as text.
function showSignIn(url) {
  const isWeb = /^https?:\/\//i.test(url);
  byId("sign-in-link").replaceChildren(isWeb
    ? el("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, "Open the sign-in page") : url);
  byId("sign-in-url").textContent = url;
  byId("sign-in").hidden = false;
}

const hideSignIn = () => { byId("sign-in").hidden = true; };

export {
  addLine, addNotification, addTransition, clearConnection, collectLines, hideSignIn, setState, showCurrentState, showEnd,
  showOptions, showSignIn
};
