// The list at the left: the tools, resources or prompts of a server, with search, groups and keyboard.

import { state } from "./api.js";
import { byId, el } from "./dom.js";
import { runBadge } from "./views.js";

// section: {word, rows, current, failed}. A row is {key, name, about, group, badges, texts, open}. `failed` is the
// failure of the request for the list.
const lists = {
  tools: { word: "tool", rows: [], current: null, failed: null },
  resources: { word: "resource", rows: [], current: null, failed: null },
  prompts: { word: "prompt", rows: [], current: null, failed: null },
};

const MIN_GROUPED = 7; // a shorter list needs no headings

// The rows of a list that could be loaded, or none with its failure. While the server starts, the state is shown instead.
function setRows(section, rows, failed) {
  const isReady = (state.about.state ?? "ready") === "ready";
  Object.assign(lists[section], { rows, failed: isReady && failed || null });
  if (state.section === section) showList();
}

function setCurrent(section, key) {
  lists[section].current = key;
  if (state.section === section) showList();
}

const matches = (row, terms) => terms.every((term) => row.texts.some((text) => text.toLowerCase().includes(term)));

function showList() {
  const shown = lists[state.section];
  if (!shown) return;
  const terms = byId("search").value.toLowerCase().split(/\s+/).filter(Boolean);
  const found = shown.rows.filter((row) => matches(row, terms));
  const list = byId("tools");
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.name : null;
  const scroll = list.scrollTop;
  const count = new Set(shown.rows.map((row) => row.group)).size;
  const isGrouped = shown.rows.length >= MIN_GROUPED && count > 1 && count <= shown.rows.length / 2;
  let group = null;
  list.replaceChildren(...found.flatMap((row) => {
    const item = el("li", {}, el("button", {
      type: "button", "data-name": row.key, tabindex: -1, "aria-current": shown.current === row.key ? "true" : null,
      onclick: () => row.open(true),
    }, el("span", { class: "name" }, row.name), el("span", { class: "about" }, row.about),
    row.badges.length ? el("span", { class: "badges" }, ...row.badges) : null));
    if (!isGrouped || row.group === group) return [item];
    group = row.group;
    return [el("li", { class: "group-name" }, group || "other"), item];
  }));
  const buttons = [...list.querySelectorAll("button")];
  const stop = buttons.find((button) => button.dataset.name === focused)
    || buttons.find((button) => button.getAttribute("aria-current")) || buttons[0];
  if (stop) stop.tabIndex = 0;
  if (focused) stop?.focus();
  list.scrollTop = scroll;
  const all = shown.rows.length;
  const words = `${all} ${shown.word}${all === 1 ? "" : "s"}`;
  const { failed } = shown;
  byId("list-failed").replaceChildren(...failed
    ? [el("code", {}, failed.error), " ", failed.message, " ", runBadge(failed.may_have_run)] : []);
  byId("list-failed").hidden = !failed;
  byId("count").textContent = failed ? `The ${shown.word}s could not be listed.`
    : terms.length ? `${found.length} of ${words}` : words;
}

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

export { lists, setCurrent, setRows, showList };
