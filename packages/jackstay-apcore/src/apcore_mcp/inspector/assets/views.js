// Views of JSON: values as a tree or as text, schemas as a table. Large values are truncated; a button shows the rest.

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
