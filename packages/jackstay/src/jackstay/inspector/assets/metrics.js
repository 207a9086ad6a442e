// The metrics of a server in the text format of Prometheus, as a table.

import { notice, query } from "./api.js";
import { byId, el } from "./dom.js";

// `name{label="value"} 1` -> [name, labels, value]; buckets of histograms are left out.
const samplesOf = (text) => text.split("\n").flatMap((line) => {
  const found = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line);
  return found && !found[1].endsWith("_bucket") ? [found.slice(1)] : [];
});

async function loadMetrics() {
  let samples = [];
  try {
    samples = samplesOf((await query("/api/metrics")).text);
  } catch (error) {
    notice(error.message);
  }
  byId("samples").replaceChildren(...samples.map(([name, labels, value]) =>
    el("tr", {}, el("td", {}, name), el("td", { class: "foreign" }, labels || ""), el("td", {}, value))));
}

byId("metrics-reload").addEventListener("click", loadMetrics);

export { loadMetrics };
