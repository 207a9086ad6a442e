// Views of JSON: values as a tree or as text, schemas as a table. Large values are truncated; a button shows the rest.

import { state } from "./api.js";
import { copyButton, el, isRawInteger, pretty, reveal, tabs } from "./dom.js";
import { join, limitsOf, resolve, typeOf, variantsOf } from "./form.js";

const MAX_TEXT = 4000;
const MAX_ITEMS = 200;
const MAX_PRE = 400000;

function leaf(value) {
  const kind = value === null ? "null" : isRawInteger(value) ? "number" : typeof value;
  if (kind !== "string" || value.length <= MAX_TEXT)
    return el("span", { class: `${kind} foreign` }, kind === "string" ? value : JSON.stringify(value));
  const text = el("span", { class: "string foreign" }, value.slice(0, MAX_TEXT));
  const more = el("button", { type: "button", onclick: () => { text.textContent = reveal(value); more.remove(); } },
    `show all ${value.length} characters`);
  return el("span", {}, text, " ", more);
}

function treeRow(key, value, depth) {
  const label = key === null ? null : el("span", { class: "key" }, key);
  if (value === null || typeof value !== "object" || isRawInteger(value))
    return el("div", { class: "leaf" }, label, leaf(value));
  const entries = Array.isArray(value) ? value.map((part, at) => [String(at), part]) : Object.entries(value);
  const about = Array.isArray(value)
    ? `${entries.length} item${entries.length === 1 ? "" : "s"}`
    : `${entries.length} member${entries.length === 1 ? "" : "s"}`;
  const node = el("details", {}, el("summary", {}, label, el("span", { class: "quiet" }, about)));
  let shown = 0;
  const more = el("button", { type: "button", onclick: () => showMore() }, "");
  function showMore() {
    const next = entries.slice(shown, shown + MAX_ITEMS);
    shown += next.length;
    more.before(...next.map(([name, part]) => treeRow(name, part, depth + 1)));
    more.hidden = shown >= entries.length;
    more.textContent = `show more (${entries.length - shown} left)`;
  }
  node.append(more);
  more.hidden = true;
  node.addEventListener("toggle", () => { if (node.open && !shown) showMore(); });
  if (depth < 3) {
    node.open = true;
    showMore();
  }
  return node;
}

const tree = (value) => el("div", { class: "tree" }, treeRow(null, value, 0));

function pre(text) {
  const isLong = text.length > MAX_PRE;
  return el("pre", { tabindex: 0 },
    isLong ? `${text.slice(0, MAX_PRE)}\n… ${text.length} characters in total; "Copy" copies all of them` : text);
}

// A schema as a table: path, type, and description with constraints.
function schemaTable(schema) {
  const rows = [];
  function walk(part, path, isRequired, depth, seen) {
    const node = resolve(part, schema);
    if (path) {
      const limits = limitsOf(node);
      const values =
        Array.isArray(node.enum) ? `one of ${node.enum.map((value) => JSON.stringify(value)).join(", ")}` : "";
      rows.push(el("tr", {},
        el("td", { class: "foreign" }, path),
        el("td", {}, typeOf(part, schema), isRequired ? el("span", { class: "must" }, " required") : null,
          node["x-sensitive"] ? el("span", { class: "badge warn" }, "sensitive") : null),
        el("td", { class: "foreign" }, [node.description, values, limits].filter(Boolean).join(" — "))));
    }
    const reference = part && typeof part === "object" ? part.$ref : undefined;
    if (depth > 8 || rows.length > 500 || (reference && seen.includes(reference))) return;
    const before = reference ? [...seen, reference] : seen;
    const required = new Set(node.required || []);
    for (const [name, inner] of Object.entries(node.properties || {}))
      walk(inner, join(path, name), required.has(name), depth + 1, before);
    if (node.items) walkInside(node.items, `${path}[]`, depth, before);
    if (node.additionalProperties && typeof node.additionalProperties === "object")
      walkInside(node.additionalProperties, join(path, "*"), depth, before);
    for (const inner of variantsOf(node) || []) walkInside(inner, path, depth, before);
  }
  // Only nested values have rows of their own.
  function walkInside(part, path, depth, seen) {
    const reference = part && typeof part === "object" ? part.$ref : undefined;
    const node = resolve(part, schema);
    if (!node.properties && !node.items && !variantsOf(node)) return;
    if (depth > 8 || (reference && seen.includes(reference))) return;
    const required = new Set(node.required || []);
    const before = reference ? [...seen, reference] : seen;
    for (const [name, inner] of Object.entries(node.properties || {}))
      walk(inner, join(path, name), required.has(name), depth + 1, before);
    if (node.items) walkInside(node.items, `${path}[]`, depth + 1, before);
    for (const inner of variantsOf(node) || []) walkInside(inner, path, depth + 1, before);
  }
  walk(schema, "", false, 0, []);
  if (!rows.length) return el("p", { class: "quiet" }, "The schema has no named fields.");
  return el("div", { class: "scroll" }, el("table", {},
    el("thead", {}, el("tr", {},
      el("th", { scope: "col" }, "Field"), el("th", { scope: "col" }, "Type"),
      el("th", { scope: "col" }, "Description"))),
    el("tbody", {}, ...rows)));
}

function schemaCard(title, schema) {
  const table = el("div", {}, schemaTable(schema));
  const raw = el("div", {}, pre(pretty(schema)));
  const chooser = tabs([{ label: "Fields", panel: table }, { label: "JSON Schema", panel: raw }],
    { name: `Format of the schema: ${title}`, isSmall: true });
  return el("div", { class: "card" },
    el("div", { class: "row" }, el("h3", {}, title), el("span", { class: "grow" }), chooser.list,
      copyButton(() => pretty(schema))),
    table, raw);
}

// Content blocks of a result: text, images, sound, links and embedded resources.
function contentBlock(block) {
  const title = (text) => el("p", { class: "quiet" }, text);
  if (block.type === "text") return pre(String(block.text ?? ""));
  if (block.type === "image" || block.type === "audio") {
    const source = `data:${mediaType(block.mimeType, block.type)};base64,${String(block.data ?? "")}`;
    return el("figure", {},
      block.type === "image" ? el("img", { src: source, alt: "image in the result" })
        : el("audio", { src: source, controls: true, "aria-label": "sound in the result" }),
      el("figcaption", { class: "quiet" }, String(block.mimeType ?? block.type)));
  }
  if (block.type === "resource") return resourceContents(block.resource ?? {});
  if (block.type === "resource_link") return el("div", {}, title("link to a resource"), pre(pretty(block)),
    state.about.sections.includes("resources")
      ? el("a", { href: `#/resources/${encodeURIComponent(String(block.uri))}` }, "Show the resource") : null);
  return el("div", {}, title(String(block.type ?? "unknown content")), pre(pretty(block)));
}

// Only types that a data URL may have; anything else would be another document.
const mediaType = (type, kind) =>
  (/^(image|audio)\/[a-z0-9.+-]+$/i.test(String(type)) && String(type) !== "image/svg+xml" ? type : `${kind}/unknown`);

function resourceContents(contents) {
  const about = el("p", { class: "quiet foreign" }, `${contents.uri ?? ""} ${contents.mimeType ?? ""}`);
  if (typeof contents.text === "string") return el("div", {}, about, pre(contents.text));
  if (typeof contents.blob === "string") {
    const kind = String(contents.mimeType ?? "").split("/")[0];
    if (kind === "image" || kind === "audio")
      return el("div", {}, about, contentBlock({ type: kind, mimeType: contents.mimeType, data: contents.blob }));
    return el("div", {}, about, el("p", {}, `${Math.floor(contents.blob.length * 3 / 4)} bytes`));
  }
  return el("div", {}, about, pre(pretty(contents)));
}

// A failure of a request: what failed, and whether the server may have acted on it.
const RUN_TEXTS = new Map([
  [true, ["may have run", "warn", "The server may have acted on the request. Check before you send it again."]],
  [false, ["did not run", "good", "The server did not act on the request: sending it again is safe."]],
  [null, ["only the server knows whether it ran", "warn", "The server returned an error and did not state whether "
    + "it acted on the request."]]]);

const runBadge = (mayHaveRun) => {
  const [text, kind] = RUN_TEXTS.get(mayHaveRun ?? null);
  return el("span", { class: `badge ${kind} ran` }, text);
};

function failureView(failed) {
  const details = Object.keys(failed.details || {}).length ? pre(pretty(failed.details)) : null;
  return el("div", { class: "failure" },
    el("p", { class: "error foreign" }, el("code", {}, failed.error), " ", failed.message),
    el("p", {}, runBadge(failed.may_have_run), " ", RUN_TEXTS.get(failed.may_have_run ?? null)[2]), details);
}

export { contentBlock, failureView, pre, resourceContents, runBadge, schemaCard, tree };
