// The resources, resource templates and prompts of a server: details, reading, subscribing and completion.

import { copyAs, notice, query, state } from "./api.js";
import { byId, el, newId, pretty, tabs } from "./dom.js";
import { setCurrent, setRows } from "./list.js";
import { contentBlock, failureView, pre, resourceContents } from "./views.js";

const known = { resources: [], templates: [], prompts: [], subscribed: new Set() };

// Show the details of a row in place of a tool.
function showDetails(section, key, nodes, isChosen) {
  state.open = null;
  notice("");
  byId("tool").replaceChildren(...nodes);
  byId("tool").hidden = false;
  byId("empty").hidden = true;
  setCurrent(section, key);
  const hash = `#/${section}/${encodeURIComponent(key)}`;
  if (isChosen && location.hash !== hash) history.pushState(null, "", hash);
  document.body.dataset.room = "tool";
  if (isChosen) {
    byId("main").scrollTop = 0;
    byId("tool").querySelector("form input, form button")?.focus({ preventScroll: true });
  }
}

const resultCard = () => el("div", { class: "card result", role: "region", "aria-label": "Result", "aria-live": "polite" },
  el("p", { class: "quiet" }, "The result is shown here."));

// Show a result with its raw JSON, or the failure of the request.
function showResult(card, answer, views) {
  if (answer.failed) {
    card.replaceChildren(el("h3", {}, "Failed"), failureView(answer.failed));
    return;
  }
  const panels = [{ label: "Content", panel: el("div", {}, ...views(answer.raw)) },
    { label: "Raw", panel: el("div", {}, pre(pretty(answer.raw))) }];
  card.replaceChildren(el("div", { class: "row" }, el("h3", {}, "Result"), el("span", { class: "grow" }),
    tabs(panels, { name: "Format of the result", isSmall: true }).list), ...panels.map(({ panel }) => panel));
}

async function send(card, path, body, views) {
  card.replaceChildren(el("p", { role: "status" }, "Waiting for the server…"));
  try {
    const answer = await query(path, body);
    showResult(card, answer, views);
    return answer;
  } catch (error) {
    card.replaceChildren(el("p", { class: "error" }, error.message));
    return {};
  }
}

// An input whose values the server completes. `reference` is {prompt} or {template}.
function completedInput({ name, about, isRequired, reference, context }) {
  const id = newId();
  const options = el("datalist", { id: `${id}-options` });
  let turn = 0;
  async function complete() {
    const mine = ++turn;
    if (!state.about.server?.capabilities?.completions) return;
    try {
      const answer = await query("/api/complete", { ...reference, argument: name, value: input.value, context: context() });
      if (mine === turn && answer.values)
        options.replaceChildren(...answer.values.map((value) => el("option", { value })));
    } catch { /* completion is a convenience */ }
  }
  const input = el("input", { id, type: "text", list: `${id}-options`, autocomplete: "off", spellcheck: "false",
    oninput: complete, onfocus: complete, "aria-describedby": `${id}-hint` });
  const node = el("div", { class: "field", "data-path": name },
    el("div", { class: "head" }, el("label", { for: id }, name),
      isRequired ? el("span", { class: "must" }, "required") : null),
    el("p", { class: "hint foreign", id: `${id}-hint` }, about || ""),
    el("div", { class: "widget" }, input, options));
  return { name, node, input };
}

function inputsFor(rows, reference) {
  const inputs = rows.map((row) => completedInput({ ...row, reference, context: () => values(inputs) }));
  return inputs;
}

const values = (inputs) =>
  Object.fromEntries(inputs.filter(({ input }) => input.value !== "").map(({ name, input }) => [name, input.value]));

const heading = (name, about, ...badges) => el("div", { class: "about-tool" }, el("h2", {}, name),
  el("p", { class: "description foreign" }, about || "No description."), el("div", { class: "badges" }, ...badges));

const badge = (text) => (text ? el("span", { class: "badge tag" }, text) : null);

// ---- resources ----

function openResource(resource, isChosen) {
  const card = resultCard();
  const isSubscribed = () => known.subscribed.has(resource.uri);
  const canFollow = state.about.server?.capabilities?.resources?.subscribe === true;
  const follow = el("button", { type: "button", "aria-pressed": String(isSubscribed()), onclick: async () => {
    const on = !isSubscribed();
    const answer = await query("/api/subscribe", { uri: resource.uri, on });
    if (answer.failed) return showResult(card, answer);
    if (on) known.subscribed.add(resource.uri);
    else known.subscribed.delete(resource.uri);
    follow.setAttribute("aria-pressed", String(on));
    follow.textContent = on ? "Unsubscribe" : "Subscribe";
    return undefined;
  } }, isSubscribed() ? "Unsubscribe" : "Subscribe");
  const form = el("form", { class: "card form", onsubmit: (event) => {
    event.preventDefault();
    send(card, "/api/read", { uri: resource.uri }, (raw) => (raw.contents || []).map(resourceContents));
  } }, el("div", { class: "row" }, el("button", { type: "submit", class: "main" }, "Read"), canFollow ? follow : null,
    el("span", { class: "grow" }), copyAs("resources/read", () => ({ uri: resource.uri }))));
  showDetails("resources", resource.uri, [
    heading(resource.name, resource.description, badge(resource.uri), badge(resource.mimeType)),
    el("div", { class: "work" }, form, card)], isChosen);
}

// The variables of a URI template (RFC 6570).
const variablesOf = (template) => [...template.matchAll(/\{([^}]*)\}/g)].flatMap(([, inside]) =>
  inside.replace(/^[+#./;?&]/, "").split(",").map((name) => name.replace(/(\*|:\d+)$/, "")));

function openTemplate(template, isChosen) {
  const card = resultCard();
  const rows = [...new Set(variablesOf(template.uriTemplate))].map((name) => ({ name, isRequired: false }));
  const inputs = inputsFor(rows, { template: template.uriTemplate });
  const copy = el("span", {});
  const form = el("form", { class: "card form", onsubmit: async (event) => {
    event.preventDefault();
    const { uri } = await send(card, "/api/read", { template: template.uriTemplate, values: values(inputs) },
      (raw) => (raw.contents || []).map(resourceContents));
    if (uri) copy.replaceChildren(copyAs("resources/read", () => ({ uri })));
  } }, ...inputs.map(({ node }) => node),
  el("div", { class: "row runbar" }, el("button", { type: "submit", class: "main" }, "Read"),
    el("span", { class: "grow" }), copy));
  showDetails("resources", template.uriTemplate, [
    heading(template.name, template.description, badge(template.uriTemplate), badge(template.mimeType)),
    el("div", { class: "work" }, form, card)], isChosen);
}

async function loadResources() {
  const found = await query("/api/resources");
  Object.assign(known, { resources: found.resources || [], templates: found.templates || [],
    subscribed: new Set(found.subscribed || []) });
  const row = (item, key, open, group) => ({ key, name: item.title || item.name, about: key, group,
    badges: [], texts: [key, item.name, item.title || "", item.description || ""],
    open: (isChosen) => open(item, isChosen) });
  setRows("resources", [
    ...known.resources.map((item) => row(item, item.uri, openResource, "resources")),
    ...known.templates.map((item) => row(item, item.uriTemplate, openTemplate, "templates"))], found.failed);
}

// ---- prompts ----

function openPrompt(prompt, isChosen) {
  const card = resultCard();
  const rows = (prompt.arguments || []).map((argument) => ({
    name: argument.name, about: argument.description, isRequired: argument.required === true }));
  const inputs = inputsFor(rows, { prompt: prompt.name });
  const form = el("form", { class: "card form", onsubmit: (event) => {
    event.preventDefault();
    send(card, "/api/prompt", { name: prompt.name, arguments: values(inputs) }, (raw) =>
      (raw.messages || []).map(({ role, content }) => el("div", { class: "message" },
        el("p", { class: "quiet" }, role), contentBlock(content || {}))));
  } }, ...inputs.map(({ node }) => node),
  el("div", { class: "row runbar" }, el("button", { type: "submit", class: "main" }, "Get"),
    el("span", { class: "grow" }),
    copyAs("prompts/get", () => ({ name: prompt.name, arguments: values(inputs) }))));
  showDetails("prompts", prompt.name, [heading(prompt.name, prompt.description, badge(prompt.title)),
    el("div", { class: "work" }, form, card)], isChosen);
}

async function loadPrompts() {
  const found = await query("/api/prompts");
  known.prompts = found.prompts || [];
  setRows("prompts", known.prompts.map((prompt) => ({
    key: prompt.name, name: prompt.name, about: prompt.description || prompt.title || "", group: "", badges: [],
    texts: [prompt.name, prompt.title || "", prompt.description || ""],
    open: (isChosen) => openPrompt(prompt, isChosen) })), found.failed);
}

export { loadPrompts, loadResources, openResource };
