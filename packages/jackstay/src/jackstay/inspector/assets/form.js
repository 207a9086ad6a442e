// A form for a JSON Schema. A field is {node, read(problems)}: `read` returns the value, or OMIT if it is not sent, and
// adds {field, message} for an invalid value. Optional fields have a checkbox "include", which typing checks.

import { el, isObject, isRawInteger, isUnsafe, newId, pretty, readJson } from "./dom.js";

const OMIT = Symbol("omitted");
const REDACTED = "***REDACTED***";
// Values that are nested deeper are entered as JSON.
const MAX_FORM_DEPTH = 12;

// Return the schema with references resolved and allOf merged. A circular reference adds nothing.
function resolve(schema, root, seen = []) {
  while (schema && typeof schema === "object" && typeof schema.$ref === "string") {
    const { $ref, ...beside } = schema;
    let target = seen.includes($ref) ? {} : root;
    seen = [...seen, $ref];
    if ($ref !== "#") {
      for (const part of $ref.replace(/^#\//, "").split("/")) {
        const key = part.replace(/~1/g, "/").replace(/~0/g, "~");
        target = target !== null && typeof target === "object" && Object.hasOwn(target, key) ? target[key] : {};
      }
    }
    schema = { ...target, ...beside };
  }
  if (schema === true || schema === null || typeof schema !== "object" || Array.isArray(schema)) return {};
  if (Array.isArray(schema.allOf)) {
    const { allOf, ...rest } = schema;
    const parts = [...allOf.map((part) => resolve(part, root, seen)), rest];
    const made = Object.assign({}, ...parts);
    const properties = Object.assign({}, ...parts.map((part) => part.properties || {}));
    if (Object.keys(properties).length) made.properties = properties;
    made.required = [...new Set(parts.flatMap((part) => part.required || []))];
    return made;
  }
  return schema;
}

// Return the alternatives of a schema, or null if it has none.
function variantsOf(schema) {
  const listed = schema.anyOf || schema.oneOf;
  if (Array.isArray(listed) && listed.length) {
    const { anyOf, oneOf, default: _default, title, description, ...rest } = schema;
    return listed.map((part) =>
      (Object.keys(rest).length && part && typeof part === "object" ? { ...rest, ...part } : part));
  }
  if (Array.isArray(schema.type)) return schema.type.map((type) => ({ ...schema, type, default: undefined }));
  return null;
}

// Return the values to choose from, as [{value, label}], or null: `enum`, or alternatives that are all constants. The
// labels are their titles (2025-11-25 client/elicitation), or `enumNames` of 2025-06-18.
function choicesOf(schema, root) {
  const labelOf = (value, title) =>
    (typeof title === "string" && title ? title : typeof value === "string" ? value : JSON.stringify(value));
  if (Array.isArray(schema.enum))
    return schema.enum.map((value, at) => ({ value, label: labelOf(value, schema.enumNames?.[at]) }));
  const listed = schema.oneOf || schema.anyOf;
  if (!Array.isArray(listed) || !listed.length) return null;
  const parts = listed.map((part) => resolve(part, root));
  return parts.every((part) => "const" in part)
    ? parts.map((part) => ({ value: part.const, label: labelOf(part.const, part.title) })) : null;
}

// Return the choices of a list in which each may occur once, or null.
function setChoicesOf(schema, root) {
  if (schema.type !== "array" || !schema.uniqueItems || !schema.items || schema.prefixItems) return null;
  return choicesOf(resolve(schema.items, root), root);
}

const isSame = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Describe the type of a schema. Recursive types, and alternatives inside a list or a map, are shown by name.
function typeOf(schema, root, seen = []) {
  const reference = schema?.$ref;
  const nameOf = (part) => String(part.$ref).split("/").pop();
  if (seen.includes(reference)) return nameOf(schema);
  const before = reference === undefined ? seen : [...seen, reference];
  const inside = (part) =>
    (part?.$ref !== undefined && variantsOf(resolve(part, root)) ? nameOf(part) : typeOf(part, root, before));
  schema = resolve(schema, root);
  if ("const" in schema) return JSON.stringify(schema.const);
  const choices = choicesOf(schema, root);
  if (choices) return `one of ${choices.length} values`;
  const variants = variantsOf(schema);
  if (variants) return [...new Set(variants.map((part) => typeOf(part, root, before)))].join(" or ");
  if (schema.type === "array") return schema.items ? `list of ${inside(schema.items)}` : "list";
  const isMap = !schema.properties && schema.additionalProperties && typeof schema.additionalProperties === "object";
  if (isMap) return `map of ${inside(schema.additionalProperties)}`;
  if (schema.type === "object" || schema.properties) return schema.title || "object";
  if (schema.type) return schema.format ? `${schema.type} (${schema.format})` : String(schema.type);
  return "any";
}

// Describe the constraints and the default of a schema.
function limitsOf(schema) {
  const parts = [];
  const pairs = [
    ["minimum", "≥"], ["exclusiveMinimum", ">"], ["maximum", "≤"], ["exclusiveMaximum", "<"],
    ["multipleOf", "multiple of"], ["minLength", "length ≥"], ["maxLength", "length ≤"],
    ["minItems", "items ≥"], ["maxItems", "items ≤"], ["pattern", "matches"]];
  for (const [key, word] of pairs)
    if (schema[key] !== undefined)
      parts.push(`${word} ${typeof schema[key] === "string" ? schema[key] : JSON.stringify(schema[key])}`);
  if (schema.uniqueItems) parts.push("unique items");
  if (schema.default !== undefined && schema.default !== null) parts.push(`default ${JSON.stringify(schema.default)}`);
  return parts.join(" · ");
}

// Whether a value could match a schema. Used to choose an alternative.
function fits(value, schema, root, seen = []) {
  const reference = schema?.$ref;
  if (seen.includes(reference)) return false;
  schema = resolve(schema, root);
  if ("const" in schema) return isSame(schema.const, value);
  const choices = choicesOf(schema, root);
  if (choices) return choices.some((choice) => isSame(choice.value, value));
  const variants = variantsOf(schema);
  if (variants) return variants.some((part) =>
    fits(value, part, root, reference === undefined ? seen : [...seen, reference]));
  if (schema.type === "null") return value === null;
  if (schema.type === "array") return Array.isArray(value);
  if (schema.type === "integer") return Number.isInteger(value) || isRawInteger(value);
  if (schema.type === "object" || schema.properties) {
    if (!isObject(value)) return false;
    return (schema.required || []).every((name) =>
      name in value && fits(value[name], (schema.properties || {})[name] ?? {}, root));
  }
  return schema.type === undefined || schema.type === (isRawInteger(value) ? "number" : typeof value);
}

// A named field with label, description, checkbox and error. `value` is OMIT if there is no value yet.
function makeField({ schema: given, root, path, name, isRequired, value, depth, remove = null }) {
  const schema = resolve(given, root);
  const id = newId();
  const error = el("p", { class: "error", role: "alert", id: `${id}-error` });
  // A value that the history redacted must be entered again.
  const isSet = value !== OMIT && value !== REDACTED;
  const initial = isSet ? value : schema.default !== undefined ? schema.default : OMIT;
  const send = isRequired ? null : el("input", { type: "checkbox", checked: isSet });
  const touched = () => { if (send && !send.checked) { send.checked = true; show(); } };
  const slot = el("div", { class: "widget" });
  let widget = null;
  const context = {
    schema, root, path, id, depth, touched, isSet,
    isSensitive: schema["x-sensitive"] === true || schema.format === "password" || schema.writeOnly === true
  };
  // Nested fields are created when "include" is checked, because a schema may be recursive.
  const kind = kindOf(schema, root, depth);
  const isNested = kind !== "simple" && kind !== "set";
  function build() {
    if (widget) return;
    widget = makeWidget(context, initial);
    slot.append(widget.node);
  }
  function show() {
    const isOn = !send || send.checked;
    if (isOn || !isNested) build();
    slot.hidden = isNested && !isOn;
    node.classList.toggle("off", !isOn);
  }
  const isLabel = kind === "simple" && !("const" in schema);
  // The title of an object is shown as its type.
  const title = kind === "object" || isSameName(schema.title ?? name, name) ? "" : String(schema.title);
  const limits = limitsOf(kind === "set" ? { ...schema, uniqueItems: false } : schema);
  const hint = [title, schema.description, limits].filter(Boolean).join(" — ");
  const node = el("div", { class: "field", "data-path": path },
    el("div", { class: "head" },
      isLabel ? el("label", { for: id }, name) : el("span", { class: "label", id: `${id}-label` }, name),
      el("span", { class: "kind" }, typeOf(given, root)),
      isRequired && !remove ? el("span", { class: "must" }, "required") : null,
      send ? el("label", { class: "send" }, send,
        el("span", {}, "include", el("span", { class: "hidden" }, ` ${name}`))) : null,
      remove),
    hint ? el("p", { class: "hint foreign", id: `${id}-hint` }, hint) : null,
    slot, error);
  if (send) send.addEventListener("change", show);
  show();
  return {
    node,
    read(problems) {
      if (send && !send.checked) return OMIT;
      return widget.read(problems);
    },
  };
}

// Whether a title only repeats the name: generators make "Due date" of `due_date`.
const isSameName = (title, name) => {
  const plain = (text) => String(text).toLowerCase().replace(/[^\p{L}\p{N}]/gu, "");
  return plain(title) === plain(name);
};

function kindOf(schema, root, depth) {
  if (depth > MAX_FORM_DEPTH) return "simple";
  if ("const" in schema || choicesOf(schema, root)) return "simple";
  if (setChoicesOf(schema, root)) return "set";
  if (variantsOf(schema)) return "variants";
  if (schema.type === "array" || schema.prefixItems) return "array";
  if (schema.type === "object" || schema.properties) return "object";
  return "simple";
}

function makeWidget(context, initial) {
  const { schema, root, depth } = context;
  const kind = kindOf(schema, root, depth);
  if (kind === "set") return makeSet(context, initial);
  if (kind === "variants") return makeVariants(context, initial);
  if (kind === "array") return makeArray(context, initial);
  if (kind === "object") {
    const hasRows = schema.properties && Object.keys(schema.properties).length;
    const isMap = schema.additionalProperties && typeof schema.additionalProperties === "object";
    return hasRows || isMap ? makeObject(context, initial) : makeJson(context, initial, "object");
  }
  if ("const" in schema)
    return { node: el("code", { id: context.id }, JSON.stringify(schema.const)), read: () => schema.const };
  if (choicesOf(schema, root)) return makeChoice(context, initial);
  if (schema.type === "null") return { node: el("code", { id: context.id }, "null"), read: () => null };
  if (schema.type === "boolean") return makeBoolean(context, initial);
  if (schema.type === "integer" || schema.type === "number") return makeNumber(context, initial);
  if (schema.type === "string") return makeText(context, initial);
  return makeJson(context, initial, null);
}

const described = ({ id }) => ({ id, "aria-describedby": `${id}-hint ${id}-error` });

function makeChoice({ schema, root, path, id, touched }, initial) {
  const choices = choicesOf(schema, root);
  const at = initial === OMIT ? -1 : choices.findIndex(({ value }) => isSame(value, initial));
  const node = el("select", { ...described({ id }), onchange: touched },
    at < 0 ? el("option", { value: "-1" }, "choose…") : null,
    ...choices.map(({ label }, index) => el("option", { value: String(index) }, label)));
  node.value = String(at);
  return {
    node,
    read(problems) {
      if (node.value === "-1") {
        problems.push({ field: path, message: "choose one" });
        return OMIT;
      }
      return choices[Number(node.value)].value;
    },
  };
}

function makeSet({ schema, root, id, touched }, initial) {
  const chosen = Array.isArray(initial) ? initial : [];
  const rows = setChoicesOf(schema, root).map(({ value, label }) => ({ value, label,
    box: el("input", { type: "checkbox", checked: chosen.some((item) => isSame(item, value)), onchange: touched }) }));
  const node = el("div", { id, role: "group", "aria-labelledby": `${id}-label` },
    ...rows.map(({ box, label }) => el("label", { class: "check" }, box, el("span", {}, label))));
  return { node, read: () => rows.filter(({ box }) => box.checked).map(({ value }) => value) };
}

function makeBoolean({ id, touched }, initial) {
  const box = el("input", { ...described({ id }), type: "checkbox", checked: initial === true });
  const word = el("span", { "aria-hidden": "true" }, String(box.checked));
  box.addEventListener("change", () => { word.textContent = String(box.checked); touched(); });
  return { node: el("span", { class: "check" }, box, word), read: () => box.checked };
}

function makeNumber({ schema, path, id, touched }, initial) {
  const isInteger = schema.type === "integer";
  const node = el("input", {
    ...described({ id }), type: "text", inputmode: isInteger ? "numeric" : "decimal", autocomplete: "off",
    value: isRawInteger(initial) ? initial.rawJSON : typeof initial === "number" ? String(initial) : "",
    oninput: touched });
  return {
    node,
    read(problems) {
      const text = node.value.trim();
      const isNumber = /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) && Number.isFinite(Number(text));
      if (!isNumber || (isInteger && !Number.isInteger(Number(text)))) {
        problems.push({ field: path,
          message: `${text ? "not" : "expected"} ${isInteger ? "an integer" : "a number"}` });
        return OMIT;
      }
      if (isUnsafe(Number(text)) && JSON.rawJSON && /^-?[1-9]\d*$/.test(text)) return JSON.rawJSON(text);
      if (isInteger && isUnsafe(Number(text))) {
        problems.push({ field: path, message: "too large for a browser to send exactly" });
        return OMIT;
      }
      return Number(text);
    },
  };
}

function makeText({ schema, id, touched, isSensitive }, initial) {
  const kinds = { date: "date", time: "text", email: "email", uri: "url", "date-time": "text", uuid: "text" };
  const samples = { time: "09:30:00Z", uri: "https://", "date-time": "2026-11-18T09:30:00Z",
    uuid: "00000000-0000-0000-0000-000000000000" };
  const value = typeof initial === "string" && initial !== REDACTED ? initial : "";
  const shared = { ...described({ id }), value, oninput: touched, autocomplete: "off", spellcheck: "false" };
  const kind = isSensitive ? "password" : kinds[schema.format];
  const example =
    Array.isArray(schema.examples) && typeof schema.examples[0] === "string" ? schema.examples[0] : samples[schema.format];
  const node = kind
    ? el("input", { ...shared, type: kind, autocomplete: isSensitive ? "new-password" : "off", placeholder: example })
    : el("textarea", { ...shared, rows: 1, placeholder: example || "empty string" }); // an empty field is sent
  // Binary data as base64 (JSON Schema, and "byte" of OpenAPI): a file can be chosen instead.
  const isBase64 = schema.contentEncoding === "base64" || schema.format === "byte";
  const file = isBase64 && !kind ? el("input", { type: "file", "aria-label": "Fill in a file", onchange: async () => {
    if (!file.files.length) return;
    const bytes = new Uint8Array(await file.files[0].arrayBuffer());
    node.value = btoa(Array.from(bytes, (byte) => String.fromCharCode(byte)).join(""));
    touched();
  } }) : null;
  return { node: file ? el("div", { class: "file" }, node, file) : node, read: () => node.value };
}

function makeJson({ path, id, touched }, initial, expected) {
  const node = el("textarea", { ...described({ id }), class: "code", rows: 3, spellcheck: "false", oninput: touched,
    value: initial === OMIT ? (expected === "object" ? "{}" : "") : pretty(initial) });
  return {
    node,
    read(problems) {
      try {
        const value = readJson(node.value);
        if (expected === "object" && !isObject(value)) throw new Error("expected an object such as {}");
        return value;
      } catch (problem) {
        problems.push({ field: path,
          message: node.value.trim() ? `not JSON: ${problem.message}` : "expected a JSON value" });
        return OMIT;
      }
    },
  };
}

function makeVariants(context, initial) {
  const { schema, root, path, id, depth, touched } = context;
  const parts = variantsOf(schema);
  const variants = parts.map((part) => resolve(part, root));
  // Checking "include" of a field that is null by default selects an alternative that is not null.
  const isOpen = initial === OMIT || (initial === null && !context.isSet);
  const found = variants.findIndex((part) => (isOpen ? part.type !== "null" : fits(initial, part, root)));
  let at = Math.max(0, found);
  const labels = variants.map((part, index) =>
    part.title && kindOf(part, root, depth) === "object" ? part.title : typeOf(parts[index], root));
  const slot = el("div", { class: "variant" });
  let inner = null;
  function build(value) {
    const part = variants[at];
    const start = value !== OMIT ? value : part.default !== undefined ? part.default : OMIT;
    inner = makeWidget({
      ...context, schema: part, id: newId(), depth: depth + 1,
      isSensitive: context.isSensitive || part["x-sensitive"] === true || part.format === "password"
        || part.writeOnly === true
    }, start);
    inner.node.setAttribute?.("aria-labelledby", `${id}-label`);
    slot.replaceChildren(inner.node);
  }
  const choice = el("select", { id, "aria-label": `type of ${path || "value"}`,
    onchange: () => { at = Number(choice.value); build(OMIT); touched(); } },
    ...labels.map((label, index) => el("option", { value: String(index) }, label)));
  choice.value = String(at);
  build(isOpen ? OMIT : initial);
  return { node: el("div", { class: "group" }, choice, slot), read: (problems) => inner.read(problems) };
}

const join = (path, name) => (path ? `${path}.${name}` : String(name));

function makeArray({ schema, root, path, id, depth, touched }, initial) {
  const fixed = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  const list = el("div", {});
  let items = [];
  // Paths contain indexes, so a removal recreates all items.
  function build(values) {
    items = [];
    list.replaceChildren();
    values.forEach((value) => add(value));
    showAdder();
  }
  // A tuple has no more items than its schema has.
  function showAdder() {
    adder.hidden = schema.items === false && items.length >= fixed.length;
  }
  function add(value) {
    const at = items.length;
    const remove = el("button", { type: "button", "aria-label": `Remove item ${at + 1}`, onclick: () => {
      build(items.filter((item) => item !== made).map((item) => item.field.read([])));
      touched();
      adder.focus();
    } }, "Remove");
    const field = makeField({ schema: fixed[at] ?? schema.items ?? {}, root, path: join(path, at),
      name: `item ${at + 1}`, isRequired: true, value, depth: depth + 1, remove });
    const made = { field, row: el("div", { class: "item" }, field.node) };
    items.push(made);
    list.append(made.row);
    return made;
  }
  const adder = el("button", { type: "button", id, onclick: () => {
    touched();
    add(OMIT).row.querySelector("input, textarea, select")?.focus();
    showAdder();
  } }, "Add an item");
  const count = Math.min(Math.max(Number.isSafeInteger(schema.minItems) ? schema.minItems : 0, fixed.length), 20);
  build(Array.isArray(initial) ? initial : Array.from({ length: count }, () => OMIT));
  return {
    node: el("div", { class: "group" }, list, el("div", { class: "adder" }, adder)),
    read: (problems) => items.map((item) => item.field.read(problems)).filter((value) => value !== OMIT),
  };
}

function makeObject({ schema, root, path, id, depth, touched }, initial) {
  const given = isObject(initial) ? initial : {};
  const required = new Set(schema.required || []);
  const properties = Object.entries(schema.properties || {});
  const fields = properties.map(([name, part]) => [name, makeField({
    schema: part, root, path: join(path, name), name, isRequired: required.has(name),
    value: Object.hasOwn(given, name) && given[name] !== REDACTED ? given[name] : OMIT, depth: depth + 1,
  })]);
  const node = el("div", { class: path ? "group" : "", id, role: "group", "aria-labelledby": `${id}-label` },
    ...fields.map(([, field]) => field.node));
  const more = schema.additionalProperties && typeof schema.additionalProperties === "object"
    ? makePairs(schema.additionalProperties) : null;
  function makePairs(part) {
    const rows = [];
    const list = el("div", {});
    function add(name, value) {
      const key = el("input", { type: "text", value: name, placeholder: "name", "aria-label": "name of the entry",
        oninput: touched, autocomplete: "off" });
      const remove = el("button", { type: "button", "aria-label": `Remove entry ${name}`, onclick: () => {
        rows.splice(rows.indexOf(made), 1);
        row.remove();
        touched();
      } }, "Remove");
      const field = makeField({ schema: part, root, path: join(path, name || "*"), name: "value",
        isRequired: true, value, depth: depth + 1, remove });
      const made = { key, field };
      const row = el("div", { class: "pair" }, key, field.node);
      rows.push(made);
      list.append(row);
      return key;
    }
    const known = new Set(properties.map(([name]) => name));
    for (const [name, value] of Object.entries(given))
      if (!known.has(name)) add(name, value === REDACTED ? OMIT : value);
    node.append(list, el("div", { class: "adder" },
      el("button", { type: "button", onclick: () => { touched(); add("", OMIT).focus(); } }, "Add an entry")));
    return rows;
  }
  return {
    node,
    read(problems) {
      const made = {};
      const put = (name, value) => {
        if (value !== OMIT)
          Object.defineProperty(made, name, { value, enumerable: true, writable: true, configurable: true });
      };
      for (const [name, field] of fields) put(name, field.read(problems));
      for (const { key, field } of more || []) {
        if (key.value === "") problems.push({ field: path, message: "an entry has no name" });
        else put(key.value, field.read(problems));
      }
      return made;
    },
  };
}

// Return the form for an input schema, filled with `value`.
function makeForm(schema, value) {
  const root = resolve(schema, schema);
  const hasFields = root.properties && Object.keys(root.properties).length;
  const hasMore = root.additionalProperties && typeof root.additionalProperties === "object";
  const context = { schema: root, root: schema, path: "", id: newId(), depth: 0, touched: () => {}, isSet: true };
  if (hasFields || hasMore || variantsOf(root)) return makeWidget(context, value ?? OMIT);
  if (root.additionalProperties === true) return makeJson(context, value ?? OMIT, "object");
  return { node: el("p", { class: "quiet" }, "There are no arguments."), read: () => ({}) };
}

// Show each problem at its field, or at the nearest enclosing one. Returns the problems without a field.
function showProblems(form, problems) {
  for (const old of form.querySelectorAll(".error")) old.textContent = "";
  for (const old of form.querySelectorAll("[aria-invalid]")) old.removeAttribute("aria-invalid");
  const unplaced = [];
  let first = null;
  for (const problem of problems) {
    let path = problem.field;
    let field = null;
    while (path && !(field = form.querySelector(`.field[data-path="${CSS.escape(path)}"]`)))
      path = path.split(".").slice(0, -1).join(".");
    if (!field) {
      unplaced.push(problem);
      continue;
    }
    const place = field.querySelector(":scope > .error");
    const where = path === problem.field ? "" : `${problem.field}: `;
    place.textContent = [place.textContent, where + problem.message].filter(Boolean).join("; ");
    const input = field.querySelector(":scope > .widget :is(input, textarea, select)");
    if (input) input.setAttribute("aria-invalid", "true");
    first ||= input || field.querySelector("input");
  }
  first?.focus();
  return unplaced;
}

// Names of fields that are always redacted, like on the server. Matches more names than necessary, to be safe.
const SECRET_NAME = /secret|passw|token|key|auth|credential|cookie|session|bearer/i;

// Redact arguments for the history. The server sends redacted arguments when a call begins; this function is for calls
// for which they were not received. A schema may be recursive, so the number of steps is limited; the rest is redacted.
function withoutSecrets(value, schema) {
  let steps = 20000;
  function hide(part, inner, name) {
    steps -= 1;
    if (steps < 0 || SECRET_NAME.test(name)) return REDACTED;
    const node = resolve(inner, schema);
    if (node["x-sensitive"]) return REDACTED;
    // A value is redacted if any alternative redacts it.
    const listed = Array.isArray(node.type) ? null : variantsOf(node);
    if (listed) return listed.reduce((shown, variant) => hide(shown, variant, ""), part);
    if (Array.isArray(part)) return part.map((item, at) => hide(item, node.prefixItems?.[at] ?? node.items ?? {}, ""));
    if (!isObject(part)) return part;
    const inside = (key) =>
      (Object.hasOwn(node.properties || {}, key) ? node.properties[key] : node.additionalProperties ?? {});
    return Object.fromEntries(Object.entries(part).map(([key, member]) => [key, hide(member, inside(key), key)]));
  }
  try {
    return hide(value, schema, "");
  } catch { // an invalid schema, or a stack overflow
    return Object.fromEntries(Object.keys(value).map((key) => [key, REDACTED]));
  }
}

export {
  OMIT, REDACTED, join, limitsOf, makeForm, resolve, showProblems, typeOf, variantsOf, withoutSecrets
};
