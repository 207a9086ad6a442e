// The tasks that were started on this page: their states as they change, cancelling, and their results.

import { notice, query } from "./api.js";
import { byId, el, pretty } from "./dom.js";
import { failureView, pre } from "./views.js";

const KINDS = { working: "accent", input_required: "warn", completed: "good", failed: "bad", cancelled: "warn" };
const rows = new Map(); // id -> {node, status, details}

function addTask(fields) {
  const row = rows.get(fields.task) || makeRow(fields);
  const isOver = !(fields.status === "working" || fields.status === "input_required");
  row.status.className = `badge ${KINDS[fields.status] || ""}`;
  row.status.textContent = fields.status;
  if (fields.message) row.message.textContent = fields.message;
  row.cancel.hidden = isOver;
  if (fields.result) row.details.replaceChildren(pre(pretty(fields.result.raw)));
  if (fields.failed) row.details.replaceChildren(failureView(fields.failed));
  byId("tasks-none").hidden = true;
}

function makeRow({ task, tool, arguments: given }) {
  const status = el("span", { class: "badge", role: "status" });
  const message = el("span", { class: "quiet foreign" });
  const details = el("div", {});
  const cancel = el("button", { type: "button", onclick: async () => {
    try {
      const answer = await query("/api/cancel-task", { task });
      if (answer.failed) notice(answer.failed.message);
    } catch (error) {
      notice(error.message);
    }
  } }, "Cancel");
  const node = el("li", { "data-task": task }, el("div", { class: "call" }, status, el("code", {}, tool),
    el("span", { class: "args foreign" }, JSON.stringify(given ?? {})), message, cancel), details);
  const row = { node, status, message, details, cancel };
  rows.set(task, row);
  byId("task-list").prepend(node);
  return row;
}

function clearTasks() {
  rows.clear();
  byId("task-list").replaceChildren();
  byId("tasks-none").hidden = false;
}

export { addTask, clearTasks };
