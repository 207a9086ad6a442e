// Questions of the server that a person answers: forms and URLs (elicitation), and messages of a model (sampling).

import { notice, post } from "./api.js";
import { byId, el, reveal } from "./dom.js";
import { OMIT, makeForm, showProblems } from "./form.js";
import { contentBlock } from "./views.js";

const open = new Map(); // id -> {question, kind, params}
let shown = null;

function addQuestion(fields) {
  open.set(fields.question, fields);
  // Later: the events of a page that was reloaded contain the answer as well.
  setTimeout(showNext, 50);
}

function removeQuestion(id) {
  open.delete(id);
  if (shown === id) {
    shown = null;
    byId("question").close();
  }
  setTimeout(showNext, 50);
}

function clearQuestions() {
  for (const id of [...open.keys()]) removeQuestion(id);
}

function showNext() {
  if (shown !== null || !open.size) return;
  const [[id, fields]] = open;
  shown = id;
  const body = fields.kind === "sampling" ? sampling(fields.params)
    : fields.params.mode === "url" ? page(fields.params) : form(fields.params);
  byId("question-title").textContent = body.title;
  byId("question-body").replaceChildren(...body.nodes);
  byId("question-accept").textContent = body.accept;
  byId("question-error").textContent = "";
  const dialog = byId("question");
  const answered = new AbortController();
  const { signal } = answered;
  const send = async (action, more = {}) => {
    answered.abort();
    open.delete(id);
    shown = null;
    dialog.close();
    try { await post("/api/answer", { question: id, action, ...more }); } catch (error) { notice(error.message); }
    showNext();
  };
  byId("question-accept").addEventListener("click", () => {
    const values = body.read();
    if (values !== null) send("accept", values);
  }, { signal });
  byId("question-decline").addEventListener("click", () => send("decline"), { signal });
  dialog.addEventListener("cancel", (event) => { event.preventDefault(); send("cancel"); }, { signal });
  dialog.addEventListener("close", () => answered.abort(), { signal });
  dialog.showModal();
}

// The schema with lists of choices as sets, and its defaults: the form begins with them (2025-11-25 client/elicitation).
function prepare(schema) {
  const properties = Object.entries(schema.properties || {});
  return {
    schema: { ...schema, properties: Object.fromEntries(properties.map(([name, part]) =>
      [name, part?.type === "array" ? { ...part, uniqueItems: true } : part])) },
    defaults: Object.fromEntries(properties.filter(([, part]) => part?.default !== undefined)
      .map(([name, part]) => [name, part.default])),
  };
}

function form(params) {
  const { schema, defaults } = prepare(params.requestedSchema || {});
  const made = makeForm(schema, defaults);
  const fields = el("div", { class: "fields" }, made.node);
  return {
    title: "The server requests information", accept: "Send",
    nodes: [el("p", { class: "foreign" }, params.message), fields],
    read() {
      const problems = [];
      const content = made.read(problems);
      const unplaced = showProblems(fields, problems);
      byId("question-error").textContent = unplaced.map(({ message }) => message).join("; ");
      return problems.length || content === OMIT ? null : { content };
    },
  };
}

// The host as the browser resolves it, because a URL can look like that of another host: 2025-11-25
// client/elicitation, "Safe URL Handling".
function hostOf(url) {
  const { host, protocol } = new URL(url);
  const isForeign = host.split(".").some((label) => label.startsWith("xn--"));
  return el("p", {}, "Host: ", el("strong", {}, host),
    isForeign ? ". Its name has letters outside ASCII and can look like another name." : "",
    protocol === "http:" ? " (not encrypted)" : "");
}

function page(params) {
  const isWeb = /^https?:\/\//i.test(params.url) && URL.canParse(params.url);
  return {
    title: "The server requests that you visit a page", accept: "I agree",
    nodes: [el("p", { class: "foreign" }, params.message), el("pre", {}, params.url),
      ...isWeb ? [hostOf(params.url),
        el("p", {}, el("a", { href: params.url, target: "_blank", rel: "noopener noreferrer" }, "Open the page"))]
        : [el("p", { class: "error" }, "This is not the address of a web page.")]],
    read: () => ({}),
  };
}

function sampling(params) {
  const text = el("textarea", { rows: 4, "aria-label": "The message of the model" });
  const model = el("input", { type: "text", value: "a person", "aria-label": "The name of the model" });
  const blocks = ({ content }) => (Array.isArray(content) ? content : [content]).map((block) => contentBlock(block || {}));
  return {
    title: "The server requests a message from a model", accept: "Send",
    nodes: [
      params.systemPrompt ? el("p", { class: "quiet foreign" }, `System prompt: ${reveal(params.systemPrompt)}`) : "",
      ...(params.messages || []).map((message) => el("div", { class: "message" },
        el("p", { class: "quiet" }, message.role), ...blocks(message))),
      el("p", { class: "quiet" }, `At most ${params.maxTokens} tokens.`),
      el("label", {}, "Message", text), el("label", {}, "Model", model)],
    read: () => ({ text: text.value, model: model.value || "a person" }),
  };
}

export { addQuestion, clearQuestions, removeQuestion };
