
// Functions that create elements. Data from modules is inserted as text only: the content security policy (page.py)
// forbids markup from strings.

let lastId = 0;
const newId = () => `e${++lastId}`;
const byId = (id) => document.getElementById(id);

// Invisible characters: controls, bidirectional marks, blank letters, and tags and variation selectors, which can hide
// text from a user but not from a model. The page shows their code points.
const INVISIBLE = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]|[\u{e0100}-\u{e01ef}]/gu;
const reveal = (text) => text.replace(INVISIBLE, (character) =>
  `[U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}]`);

// Create an element: el("p", {class: "quiet", onclick: f}, "text", child). Names with "on" are event listeners.
function el(tag, attributes = {}, ...content) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden") made[name] = value;
    else made.setAttribute(name, value === true ? "" : String(value));
  }
  const parts = content.filter((part) => part !== null && part !== undefined && part !== false);
  made.append(...parts.map((part) => (part instanceof Node ? part : reveal(String(part)))));
  return made;
}

// Append to a list that stays scrolled to its end. `settle()` runs once for all that is appended in one turn: measuring
// for each would lay out the page each time.
const settling = new Set();
function appendToEnd(list, node, settle) {
  if (!settling.has(list)) {
    settling.add(list);
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
    setTimeout(() => {
      settling.delete(list);
      settle();
      if (isAtEnd) list.scrollTop = list.scrollHeight;
    });
  }
  list.append(node);
}

// Tabs as in the ARIA Authoring Practices: one tab stop, arrow keys between the tabs. rows: {label, panel}.
function tabs(rows, { name, isSmall = false, onchange = () => true, first = 0 }) {
  const list = el("div", { role: "tablist", "aria-label": name, class: isSmall ? "small" : "" });
  const buttons = rows.map((row, at) => {
    const id = newId();
    row.panel.id ||= newId();
    row.panel.setAttribute("role", "tabpanel");
    row.panel.setAttribute("aria-labelledby", id);
    return el("button", { type: "button", role: "tab", id, "aria-controls": row.panel.id, onclick: () => choose(at) },
      row.label);
  });
  let chosen = -1;
  function choose(at, isSilent = false) {
    if (at === chosen || (!isSilent && !onchange(at))) return;
    chosen = at;
    buttons.forEach((button, index) => {
      button.setAttribute("aria-selected", String(index === at));
      button.tabIndex = index === at ? 0 : -1;
      rows[index].panel.hidden = index !== at;
    });
  }
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const next = (chosen + step + rows.length) % rows.length;
    choose(next);
    buttons[chosen].focus();
  });
  list.append(...buttons);
  choose(first, true);
  return { list, choose, get chosen() { return chosen; } };
}

// JavaScript numbers are exact only up to 2^53. Larger integers are kept as raw JSON where the browser supports
// `JSON.rawJSON` (since 2025), and are rounded in older browsers.
const isRawInteger = (value) => JSON.isRawJSON?.(value) === true;
const isUnsafe = (value) => typeof value === "number" && Number.isInteger(value) && !Number.isSafeInteger(value);
const readJson = (text) => JSON.parse(text, (key, value, at) =>
  (isUnsafe(value) && at && JSON.rawJSON ? JSON.rawJSON(at.source) : value));
const isObject = (value) =>
  value !== null && typeof value === "object" && !Array.isArray(value) && !isRawInteger(value);
const pretty = (value) => JSON.stringify(value, null, 2);

// A button that copies what `text()` returns, which may be a promise.
function copyButton(text, label = "Copy") {
  const button = el("button", { type: "button", onclick: async () => {
    try {
      await navigator.clipboard.writeText(await text());
      button.textContent = "Copied";
    } catch {
      button.textContent = "Copy failed";
    }
    setTimeout(() => { button.textContent = label; }, 1500);
  } }, label);
  return button;
}

function duration(seconds) {
  if (seconds < 0.001) return `${Math.max(1, Math.round(seconds * 1e6))} µs`;
  if (seconds < 1) return `${(seconds * 1000).toFixed(1)} ms`;
  return `${seconds.toFixed(2)} s`;
}

export {
  appendToEnd, byId, copyButton, duration, el, isObject, isRawInteger, isUnsafe, newId, pretty, readJson, reveal, tabs
};
