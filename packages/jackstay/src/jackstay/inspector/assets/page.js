// The page: sections, live updates, keyboard and theme.

import { linesOf, notice, query, readKey, request, requestKey, state } from "./api.js";
import { loadPrompts, loadResources, openResource } from "./catalogue.js";
import {
  addLine, addNotification, addTransition, clearConnection, hideSignIn, setState, showCurrentState, showEnd,
  showOptions, showSignIn
} from "./connection.js";
import { byId, copyButton, el, readJson } from "./dom.js";
import { lists, showList } from "./list.js";
import { addFailure, addMark, addMessage, clearMessages, showNewest } from "./messages.js";
import { loadMetrics } from "./metrics.js";
import { addQuestion, clearQuestions, removeQuestion } from "./questions.js";
import { cancelCall, loadTools, openTool } from "./tools.js";
import { addTask, clearTasks } from "./tasks.js";
import { pre } from "./views.js";

const TITLES = {
  tools: "Tools", resources: "Resources", prompts: "Prompts", tasks: "Tasks", messages: "Messages", connection: "Connection",
  metrics: "Metrics", log: "Log"
};

// ---- sections ----

const isListed = (section) => section in lists;

function showSection(section) {
  state.section = section;
  document.body.dataset.section = section;
  for (const button of byId("sections").querySelectorAll("button"))
    button.setAttribute("aria-current", button.dataset.section === section ? "page" : "false");
  for (const name of ["tasks", "messages", "connection", "metrics"]) byId(name).hidden = name !== section;
  byId("log").hidden = section !== "log" && section !== "connection";
  byId("log-title").textContent = section === "log" ? "Log of the server" : "Standard error of the server";
  byId("list").hidden = !isListed(section);
  byId("list").setAttribute("aria-label", TITLES[section]);
  byId("search").placeholder = `Search ${section}`;
  byId("search-label").textContent = `Search ${section}`;
  byId("back").textContent = `‹ ${TITLES[section]}`;
  byId("back").setAttribute("aria-label", `Back to the list of ${section}`);
  byId("tool").hidden = true;
  byId("empty").hidden = !isListed(section);
  byId("history").hidden = section !== "tools" || !state.history.length;
  byId("skipped").classList.toggle("elsewhere", section !== "tools");
  document.body.dataset.room = isListed(section) ? "list" : "tool";
  if (section === "connection") showCurrentState();
  if (section === "messages") showNewest();
  notice("");
  if (isListed(section)) showList();
  if (section === "metrics") loadMetrics();
}

function chooseSection(section) {
  showSection(section);
  history.pushState(null, "", section === "tools" ? location.pathname : `#/${section}`);
  const current = lists[section]?.current;
  if (current !== null && current !== undefined) openRow(section, current);
}

function openRow(section, key) {
  const row = lists[section]?.rows.find((other) => other.key === key);
  if (row) row.open(false);
  return Boolean(row);
}

function showSections() {
  const { sections } = state.about;
  byId("sections").hidden = sections.length < 2;
  byId("sections").replaceChildren(...sections.map((name) => el("button", {
    type: "button", "data-section": name, "aria-current": name === state.section ? "page" : "false",
    onclick: () => chooseSection(name) }, TITLES[name])));
}

// The first screen: what is known about the server, and how a client connects to it.
function showStart() {
  const { server, start = [], options } = state.about;
  const rows = [];
  if (server)
    rows.push(el("p", {}, el("strong", {}, `${server.name} ${server.version}`), ` (MCP ${server.protocol})`),
      el("p", { class: "badges" }, ...Object.keys(server.capabilities).map((name) => el("span", { class: "badge" }, name))));
  if (server?.instructions) rows.push(el("h3", {}, "Instructions for the model"), pre(server.instructions));
  for (const { label, text } of start)
    rows.push(el("div", { class: "row" }, el("h3", {}, label), el("span", { class: "grow" }), copyButton(() => text)),
      pre(text));
  if (options && !server) rows.push(el("p", {}, "Not connected yet: the section \"Connection\" shows why."));
  byId("start").replaceChildren(...(rows.length ? [el("div", { class: "card" }, ...rows)] : []));
}

// The section and what is open are in the fragment of the URL: `#name` is a tool, `#/section/key` anything else.
function followRoute() {
  let hash = "";
  try { hash = decodeURIComponent(location.hash.slice(1)); } catch { /* not a valid encoding */ }
  const found = /^\/(\w+)(?:\/(.*))?$/s.exec(hash);
  const section = found && state.about.sections.includes(found[1]) ? found[1] : "tools";
  if (section !== state.section || !document.body.dataset.section) showSection(section);
  if (found) {
    // A result may link to a resource that is not in the list.
    if (found[2] && !openRow(section, found[2]) && section === "resources")
      openResource({ uri: found[2], name: found[2] }, false);
  } else if (hash && state.tools.some((row) => row.name === hash)) {
    if (hash !== state.open?.row.name || byId("tool").hidden) openTool(hash, false);
  } else {
    byId("tool").hidden = true;
    byId("empty").hidden = false;
    document.body.dataset.room = "list";
  }
}

addEventListener("popstate", followRoute);
addEventListener("hashchange", followRoute);

// ---- data ----

let loading = null;
let mustReload = false;

// Load everything. Calls while it is running are one more run.
function load() {
  mustReload = true;
  loading ||= (async () => {
    while (mustReload) {
      mustReload = false;
      await loadOnce();
    }
  })().finally(() => { loading = null; });
  return loading;
}

async function loadOnce() {
  const sections = state.about.sections.join();
  state.about = await query("/api/about");
  byId("title").textContent = state.about.title;
  if (state.about.state) setState(state.about.state);
  if (!byId("connect").contains(document.activeElement)) showOptions();
  if (sections !== state.about.sections.join() || !byId("sections").children.length) showSections();
  byId("replay").parentElement.hidden = !state.about.is_client;
  byId("change-key").hidden = !state.about.takes_key;
  showStart();
  await loadTools();
  await Promise.all([["resources", loadResources], ["prompts", loadPrompts]].map(([section, loadSection]) =>
    state.about.sections.includes(section) ? loadSection() : undefined));
}

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

const position = { log: "", last: 0 };
// Whether everything was loaded at the start, and no stream of events has been opened since.
let hasLoaded = false;

const HANDLERS = {
  open({ log }) {
    if (log === undefined || log === position.log) return;
    // Another server process, or the first connection: its events are sent from the beginning.
    Object.assign(position, { log, last: 0 });
    clearMessages();
    clearConnection();
    clearQuestions();
    clearTasks();
  },
  changed: () => {},
  message: (fields, number) => addMessage(number, fields),
  connection: ({ connection }, number) => addMark(number, `connection ${connection}`),
  fault: ({ text }, number) => addMark(number, `injected fault: ${text}`),
  note: ({ text }, number) => addMark(number, text),
  failure: (fields) => addFailure(fields),
  state: (fields) => addTransition(fields),
  ended: (fields) => showEnd(fields),
  stderr: ({ line }) => addLine(line),
  notification: (fields) => addNotification(fields),
  question: (fields) => addQuestion(fields),
  answered: ({ question }) => removeQuestion(question),
  task: (fields) => addTask(fields),
  sign_in: ({ url }) => showSignIn(url),
  signed_in: hideSignIn,
};

// The time that events may occupy the page before it is drawn and reacts again.
const MAX_TURN_MS = 30;

async function readEvents(signal, onload) {
  const query = `?log=${position.log}&after=${position.last}`;
  const response = await request(`/api/events${query}`, { signal });
  let kind = "";
  let number = 0;
  let turn = performance.now();
  for await (const line of linesOf(response)) {
    if (performance.now() - turn > MAX_TURN_MS) {
      await new Promise((done) => setTimeout(done));
      turn = performance.now();
    }
    if (line.startsWith("id: ")) number = Number(line.slice(4));
    else if (line.startsWith("event: ")) kind = line.slice(7);
    else if (line.startsWith("data: ")) {
      HANDLERS[kind]?.(readJson(line.slice(6)), number);
      if (number) position.last = number;
      const isNew = kind === "open" || (kind === "changed" && !(number && number <= state.about.last));
      // The page that has just been loaded is up to date if the server numbers its events.
      const isLoaded = kind === "open" && hasLoaded && state.about.last !== undefined;
      if (kind === "open") hasLoaded = false;
      if (isNew) (isLoaded ? Promise.resolve() : load()).then(onload, (error) => notice(error.message));
    }
  }
}

let stream = new AbortController();

async function followChanges() {
  let wait = 500;
  document.addEventListener("visibilitychange", () => { if (document.hidden) stream.abort(); });
  for (;;) {
    if (document.hidden) setLive("paused", "paused");
    await whenVisible();
    stream = new AbortController();
    const { signal } = stream;
    try {
      await readEvents(signal, () => {
        if (signal.aborted) return;
        setLive("live", "live");
        wait = 500;
      });
    } catch { /* shown below, and retried */ }
    if (signal.aborted) continue;
    stream.abort();
    setLive("lost", "not connected, retrying");
    await new Promise((done) => setTimeout(done, wait * (0.75 + Math.random() / 2)));
    wait = Math.min(wait * 2, 15000);
  }
}

// Another key is another caller: the stream of events is opened again, and everything is loaded.
byId("change-key").addEventListener("click", async () => {
  await requestKey("");
  stream.abort();
});

// ---- keyboard ----

const isTyping = (target) =>
  target instanceof Element && target.matches("input:not([type=checkbox]), textarea, select");

document.addEventListener("keydown", (event) => {
  const isModal = document.querySelector("dialog[open]") !== null;
  if (isModal) return;
  if (event.key === "/" && !isTyping(event.target)) {
    event.preventDefault();
    if (!isListed(state.section)) byId("wire-search").focus();
    else {
      document.body.dataset.room = "list";
      byId("search").focus();
    }
  } else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
    event.preventDefault();
    byId("tool").querySelector("form.form")?.requestSubmit();
  } else if (event.key === "Escape" && state.running) {
    event.preventDefault();
    cancelCall();
  }
});

byId("back").addEventListener("click", () => {
  document.body.dataset.room = "list";
  byId("search").focus();
});

// ---- theme ----

const THEMES = ["auto", "light", "dark"];
const THEME_NAME = "inspector-theme";

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme").textContent = `Theme: ${name}`;
  try { localStorage.setItem(THEME_NAME, name); } catch { /* not allowed: applies to this page only */ }
}

byId("theme").addEventListener("click", () => {
  const now = document.documentElement.dataset.theme || "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
});

async function start() {
  let theme = null;
  try { theme = localStorage.getItem(THEME_NAME); } catch { /* not allowed */ }
  setTheme(THEMES.includes(theme) ? theme : "auto");
  readKey();
  try {
    await load();
    hasLoaded = true;
    followRoute();
  } catch (error) {
    notice(error.message);
  }
  followChanges();
}

start();
