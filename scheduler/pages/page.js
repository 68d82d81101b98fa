"use strict";
// Shows a report (`data.py`). Names and messages come from a cluster: they are only ever written
// with textContent, never as HTML.

const ROW_HEIGHT = 28;
const ROWS_AROUND = 6;        // rows that are drawn above and below a window full of rows
const PODS_LISTED = 400;
const LARGE_BOXES_MAX = 80;   // with more nodes the cluster is drawn as small tiles
const LABELLED_SHARE = 0.17;  // a pod with a smaller part of its node has no room for its name
const POLL_MILLISECONDS = 2000;

const live = document.body.dataset.live;
const byId = (id) => document.getElementById(id);
const count = (number) => number.toLocaleString("en-US");
const counted = (number, noun) => `${count(number)} ${noun}${number === 1 ? "" : "s"}`;
const percent = (share) => Math.round(share * 100) + " %";
// Natural order: node-2 before node-10.
const compare = new Intl.Collator("en", { numeric: true }).compare;

let content = JSON.parse(byId("content").textContent);
let names = [];
let decision = null;          // of the selected pod; null if there is none
let selected = "";            // the key of the selected pod
let boundTo = null;           // the node of the selected pod by its story
let listed = { result: "", group: "" };   // the result or the group to which the list is limited

function element(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.append(...children);   // strings become text nodes
  return made;
}

function show(id, isShown) { byId(id).hidden = !isShown; }

// The list of pods.

function drawPods() {
  const wanted = byId("pod-filter").value.toLowerCase();
  const group = listed.group && content.summary.groups.find((one) => groupKey(one) === listed.group);
  const members = group && new Set(group.pods);
  const found = content.pods.filter((pod) =>
    (!listed.result || pod.result === listed.result) && (!members || members.has(pod.pod))
    && [pod.pod, pod.answer, pod.cause || ""].some((text) => text.toLowerCase().includes(wanted)));
  const focused = byId("pod-list").contains(document.activeElement) && document.activeElement.hash;
  byId("pod-list").replaceChildren(...found.slice(0, PODS_LISTED).map((pod) => {
    const link = element("a", pod.result, pod.pod);
    link.href = linkTo(pod);
    link.title = pod.answer;
    if (podKey(pod) === selected) link.setAttribute("aria-current", "true");
    link.addEventListener("click", (event) => {
      if (event.ctrlKey || event.metaKey || event.shiftKey) return;   // another tab or window
      event.preventDefault();
      go(pod);
    });
    return element("li", "", link);
  }));
  // The list is drawn again while it is used.
  if (focused) [...byId("pod-list").querySelectorAll("a")].find((link) => link.hash === focused)?.focus();
  const rest = found.length - PODS_LISTED;
  byId("pod-rest").textContent = rest > 0 ? `and ${count(rest)} more: filter by name` : "";
}

// The counts by result, and the groups of pods by reason. A click limits the list of pods, and
// selects the first pod of a group.
function drawOverview() {
  const summary = content.summary;
  show("overview", Boolean(summary) && summary.groups.length > 0 && content.pods.length > 1);
  if (!summary) return;
  if (!summary.groups.some((group) => groupKey(group) === listed.group)) listed.group = "";
  byId("overview-counts").replaceChildren(...Object.entries(summary.results).map(([result, number]) =>
    limiting({ result, group: "" }, result, element("b", "", count(number)), " ", result)));
  byId("overview-groups").replaceChildren(...summary.groups.map((group) => {
    const of = group.owner || (group.pods.length === 1 ? group.pods[0] : group.namespace || "several namespaces");
    const button = limiting(
      { result: "", group: groupKey(group) }, group.result, element("b", "", count(group.pods.length)), ` ${of}: ${group.cause}`);
    button.title = `for example ${group.pods[0]}`;
    button.addEventListener("click", () => {
      if (listed.group) go(content.pods.find((pod) => pod.pod === group.pods[0]));
    });
    return element("li", "", button);
  }));
}

// A button that limits the list of pods, and shows all of them when it is pressed again.
function limiting(limit, className, ...children) {
  const button = element("button", className, ...children);
  const isPressed = () => listed.result === limit.result && listed.group === limit.group;
  button.setAttribute("aria-pressed", String(isPressed()));
  button.addEventListener("click", () => {
    listed = isPressed() ? { result: "", group: "" } : limit;
    for (const other of byId("overview").querySelectorAll("button")) {
      other.setAttribute("aria-pressed", String(other === button && isPressed()));
    }
    drawPods();
  });
  return button;
}

function groupKey({ result, namespace, owner, cause }) { return JSON.stringify([result, namespace, owner, cause]); }

function podKey(pod) { return (pod.scenario ? pod.scenario + ": " : "") + pod.pod; }

function linkTo(pod) { return "#" + encodeURIComponent(podKey(pod)).replaceAll("%2F", "/"); }

// The pod of the page's address. A live page knows pods that it does not list.
function linkedPod() {
  let key = "";
  try { key = decodeURIComponent(location.hash.slice(1)); } catch { /* no address of this page */ }
  const found = (content ? content.pods : []).find((pod) => podKey(pod) === key);
  return found || (live && /^[^/]+\/[^/]+$/.test(key) ? { pod: key, result: "", answer: "" } : undefined);
}

function go(pod) {
  if (location.hash !== linkTo(pod)) history.pushState(null, "", linkTo(pod));
  return select(pod);
}

function step(by) {
  const links = [...byId("pod-list").querySelectorAll("a")];
  const at = links.findIndex((link) => link.getAttribute("aria-current"));
  const from = document.activeElement === byId("pod-filter") ? -1 : at;
  const next = links[Math.max(0, Math.min(links.length - 1, from + by))];
  next?.focus();
  next?.click();
}

async function select(pod) {
  selected = podKey(pod);
  byId("scroll").scrollTop = 0;
  drawPods();
  if (live) await loadPod(pod);
  else drawPod(pod, content.names, pod.story);
}

// One pod.

function drawPod(pod, ofNames, story) {
  decision = pod.table || pod.rejections ? pod : null;
  names = ofNames;
  boundTo = story ? story.entries.findLast((entry) => entry.kind === "bound")?.node : null;
  show("pod", true);
  byId("pod-name").textContent = podKey(pod);
  byId("pod-result").textContent = pod.current ? "has a node" : pod.result;
  byId("pod-result").className = `badge ${pod.current ? "bound" : pod.result}`;
  byId("pod-answer").textContent = pod.answer + placedBefore(pod.placedBefore || [])
    + (pod.reserved || []).map((line) => `; reserved ${line}`).join("");
  drawHelp(pod.nearest || [], pod.podRejection);
  drawPreemption(pod.preemption);
  drawTable();
  drawStory(story);
  markBoxes();
}

function placedBefore(placed) {
  if (!placed.length) return "";
  const last = placed.slice(-3).map((each) => `${each.pod} on ${each.node}`).join(", ");
  const rest = placed.length - 3;
  return ` (after placing ${last}${rest > 0 ? ` and ${count(rest)} others` : ""})`;
}

function drawHelp(nearest, podRejection) {
  show("help", nearest.length > 0);
  const parts = [];
  const change = ({ text, onPod, onNodes, plugin }) => `${[onPod, onNodes].filter(Boolean).join(", or ") || text} (${plugin})`;
  if (podRejection) {
    parts.push(element("dt", "", "every node"));
    parts.push(element("dd", "", `${podRejection.reasons.join(", ")} (${podRejection.plugin})`));
  }
  for (const node of nearest) {
    parts.push(element("dt", "", `${counted(node.nodes, "node")}, nearest ${node.name}`));
    parts.push(element("dd", "", node.changes.map(change).join("; ")));
  }
  byId("nearest").replaceChildren(...parts);
}

function drawPreemption(preemption) {
  show("preemption", Boolean(preemption) && Boolean(preemption.message || preemption.candidates.length));
  if (!preemption) return;
  byId("preemption-message").textContent = preemption.message;
  const rows = preemption.candidates.slice(0, 10).map((candidate) => element("tr", "",
    element("td", "", candidate.node),
    element("td", "", candidate.victims.map((v) => `${v.pod} (${v.priority})`).join(", ")),
    element("td", "", candidate.lostBy ? `not the ${candidate.lostBy}` : "nominated"),
  ));
  const head = element("tr", "", ...["candidate", "victims (priority)", ""].map((text) => element("th", "", text)));
  byId("candidates").replaceChildren(...(rows.length ? [head, ...rows] : []));
}

// The table of nodes: the chosen or the nominated node first, then the feasible ones, then the
// reasons with the most nodes. Only the rows in view are in the document.

const table = { group: null, column: null, ascending: true, rows: [], columns: [] };

function reason(index) {
  const rejection = decision.rejections[index];
  const reasons = rejection.reasons.join(", ");
  return rejection.plugin ? `${rejection.plugin}: ${reasons}` : reasons;
}

function isNominated(name) { return Boolean(decision.preemption) && decision.preemption.nominatedNode === name; }

function verdict(row) {
  const rejections = decision.table.rejections[row];
  const name = names[decision.table.nodes[row]];
  if (rejections.length) return (isNominated(name) ? "nominated: " : "") + reason(rejections[0]);
  const words = [];
  if (isNominated(name)) words.push("nominated");
  if (decision.current && decision.current.name === name) words.push("has the pod");
  if (decision.choice && decision.choice.node === name) words.push("chosen");
  return words.join(", ") || "fits";
}

// A column has a label, a function from a row to its value (null if there is none), and a kind.
function columnsOf(pod) {
  const { nodes, totals, rejections, scores } = pod.table;
  const largest = pod.rejections.map((_, index) => index).sort((one, other) => pod.rejections[other].nodes - pod.rejections[one].nodes);
  const rank = new Map(largest.map((index, place) => [index, 1 + place]));
  const found = [
    { label: "node", kind: "text", value: (row) => names[nodes[row]], compare },
    {
      label: "verdict", kind: "text",
      value: (row) => isNominated(names[nodes[row]]) ? -1 : rejections[row].length ? rank.get(rejections[row][0]) : 0,
    },
  ];
  if (pod.feasibleNodes) found.push({ label: "total", kind: "score", value: (row) => totals[row] });
  for (const plugin of pod.scorePlugins) {
    found.push({ label: plugin, kind: "score", value: (row) => scores[plugin][row] });
  }
  for (const plugin of new Set(pod.rejections.map((rejection) => rejection.plugin))) {
    if (plugin) {
      const rejects = (index) => pod.rejections[index].plugin === plugin;
      found.push({ label: plugin, kind: "filter", value: (row) => rejections[row].find(rejects) ?? null });
    }
  }
  for (const column of found) if (column.kind === "score") column.range = range(nodes.map((_, row) => column.value(row)));
  return found;
}

function range(numbers) {
  const found = numbers.filter((number) => number !== null);
  const least = found.reduce((one, other) => Math.min(one, other), Infinity);
  const most = found.reduce((one, other) => Math.max(one, other), -Infinity);
  return { least, width: most - least };
}

function drawTable() {
  const hasTable = Boolean(decision && decision.table && decision.table.nodes.length);
  show("nodes", hasTable);
  drawGroups(hasTable);
  if (!hasTable) return;
  table.columns = columnsOf(decision);
  Object.assign(table, { column: table.columns[1], ascending: true, group: null });
  byId("node-filter").value = "";
  const longest = decision.table.nodes.reduce((length, node) => Math.max(length, names[node].length), 8);
  const widths = { text: decision.feasibleNodes ? "13rem" : "20rem", filter: "7rem", score: "6.1rem" };
  byId("node-table").querySelector("colgroup").replaceChildren(...table.columns.map((column, index) => {
    const made = element("col", "");
    made.style.width = index === 0 ? `${Math.min(longest, 50) + 3}ch` : widths[column.kind];
    return made;
  }));
  drawHead();
  arrange();
}

function drawHead() {
  const [kinds, heads] = byId("node-table").tHead.rows;
  const number = (kind) => table.columns.filter((column) => column.kind === kind).length;
  kinds.replaceChildren(...[["text", ""], ["score", "scores"], ["filter", "rejected by"]]
    .filter(([kind]) => number(kind)).map(([kind, text]) => {
      const head = element("th", kind, text);
      head.colSpan = number(kind);
      return head;
    }));
  heads.replaceChildren(...table.columns.map((column) => {
    const button = element("button", "");
    // A plugin's long name may break between its words.
    column.label.split(/(?<=[a-z])(?=[A-Z])/).forEach((word, at) => button.append(...(at ? [element("wbr", "")] : []), word));
    button.addEventListener("click", () => {
      table.ascending = table.column === column ? !table.ascending : column.kind === "text";
      table.column = column;
      drawHead();
      arrange();
    });
    const head = element("th", column.kind, button);
    head.scope = "col";
    if (column === table.column) head.setAttribute("aria-sort", table.ascending ? "ascending" : "descending");
    return head;
  }));
}

function drawGroups(hasTable) {
  const groups = [];
  if (decision && decision.feasibleNodes) groups.push([-1, "fits", decision.feasibleNodes, "feasible"]);
  if (decision) {
    decision.rejections.forEach((rejection, index) => {
      if (!rejection.nodes) return;
      // One reason may be two groups: nodes on which preemption may help, and others.
      const isTwice = decision.rejections.some((_, other) => other !== index && reason(other) === reason(index));
      const note = !isTwice ? "" : rejection.preemptionMayHelp ? " (preemption may help)" : " (preemption cannot help)";
      groups.push([index, "rejected", rejection.nodes, reason(index) + note]);
    });
  }
  groups.sort((one, other) => one[0] === -1 ? -1 : other[0] === -1 ? 1 : other[2] - one[2]);
  byId("groups").replaceChildren(...groups.map(([index, className, number, text]) => {
    const button = element("button", className, element("b", "", count(number)), text);
    button.disabled = !hasTable;
    button.setAttribute("aria-pressed", "false");
    button.addEventListener("click", () => {
      table.group = table.group === index ? null : index;
      for (const other of byId("groups").children) {
        other.setAttribute("aria-pressed", String(other === button && table.group !== null));
      }
      arrange();
    });
    return button;
  }));
}

function arrange() {
  const wanted = byId("node-filter").value.toLowerCase();
  const { nodes, rejections } = decision.table;
  let rows = nodes.map((_, row) => row);
  if (table.group !== null) {
    rows = rows.filter((row) => (rejections[row].length ? rejections[row][0] : -1) === table.group);
  }
  if (wanted) {
    rows = rows.filter((row) =>
      names[nodes[row]].toLowerCase().includes(wanted) || verdict(row).toLowerCase().includes(wanted));
  }
  const sign = table.ascending ? 1 : -1;
  const { value, compare: order } = table.column;
  const last = sign * Infinity;   // rows without a value come last in both directions
  const difference = order || ((one, other) => (one ?? last) - (other ?? last));
  rows.sort((one, other) => sign * difference(value(one), value(other)) || one - other);
  table.rows = rows;
  byId("node-count").textContent = `${count(rows.length)} of ${count(nodes.length)}`;
  byId("scroll").scrollTop = 0;
  drawRows();
}

function drawRows() {
  const scroll = byId("scroll");
  const first = Math.max(0, Math.floor(scroll.scrollTop / ROW_HEIGHT) - ROWS_AROUND);
  const last = Math.min(table.rows.length, first + Math.ceil(window.innerHeight / ROW_HEIGHT) + 2 * ROWS_AROUND);
  byId("node-table").tBodies[0].replaceChildren(
    space(first), ...table.rows.slice(first, last).map(drawRow), space(table.rows.length - last));
}

function space(rows) {
  const cell = element("td", "");
  cell.style.height = `${rows * ROW_HEIGHT}px`;
  cell.colSpan = table.columns.length;
  const row = element("tr", "space", cell);
  row.hidden = rows === 0;
  row.setAttribute("aria-hidden", "true");
  return row;
}

function drawRow(row) {
  const name = names[decision.table.nodes[row]];
  const rejections = decision.table.rejections[row];
  const text = verdict(row);
  const head = element("td", "", name);
  const cell = element("td", rejections.length ? "rejected" : "fits", text);
  head.title = name;
  cell.title = rejections.map(reason).join("\n") || text;
  const numbers = table.columns.slice(2).map((column) => {
    const value = column.value(row);
    if (column.kind === "filter") {
      const made = element("td", "filter", value === null ? "" : "✗");
      if (value !== null) made.title = reason(value);
      return made;
    }
    const made = element("td", "score", value === null ? "" : count(value));
    // The bar shows the place between the least and the highest score of the column.
    const { least, width } = column.range;
    if (value !== null && width > 0) made.style.setProperty("--share", `${100 * (value - least) / width}%`);
    return made;
  });
  const made = element("tr", "", head, cell, ...numbers);
  if (isNominated(name) || (decision.choice && decision.choice.node === name)) made.classList.add("chosen");
  if (decision.current && decision.current.name === name) made.classList.add("current");
  return made;
}

// The story.

function drawStory(story) {
  show("story", Boolean(story));
  if (!story) return;
  byId("story-dropped").textContent = story.dropped ? `${count(story.dropped)} older entries are forgotten` : "";
  const start = story.entries.length ? story.entries[0].time : 0;
  byId("timeline").replaceChildren(...story.entries.map((entry) => {
    const hasFailed = entry.kind === "attempt" && entry.verdicts && entry.verdicts.length > 0;
    const time = element("time", "", `+${(entry.time - start).toFixed(3)} s`);
    time.dateTime = new Date(entry.time * 1000).toISOString();
    time.title = time.dateTime;
    const made = element("li", `${entry.kind}${hasFailed ? " failed" : ""}`, element("p", "", time, " ", entry.text));
    for (const one of entry.verdicts || []) {
      made.append(element("p", "detail", `${one.plugin} on ${counted(one.nodes, "node")}: ${one.code}: ${one.reasons.join(", ")}`));
    }
    for (const hint of (entry.until == null && entry.hints) || []) {
      made.append(element("p", "detail", `${hint.plugin} on ${hint.event}: ${hint.answer}`));
    }
    if (entry.failure) {
      const { plugin, point, node, traceback } = entry.failure;
      made.classList.add("failed");
      made.append(element("p", "detail", `${plugin} failed at ${point}${node ? ` on ${node}` : ""}`));
      made.append(element("pre", "detail", traceback));
    }
    return made;
  }));
}

// The cluster.

function drawCluster(cluster) {
  show("cluster", Boolean(cluster));
  if (!cluster) return;
  const isDense = cluster.names.length > LARGE_BOXES_MAX;
  const order = cluster.names.map((_, index) => index).sort((one, other) => compare(cluster.names[one], cluster.names[other]));
  const cordoned = new Set(cluster.unschedulable);
  byId("cluster-counts").textContent = `${counted(cluster.names.length, "node")}, ${counted(cluster.podCount, "pod")}`;
  const hasNew = Boolean(cluster.pods) && cluster.pods.some((pods) => pods.some((pod) => pod[2]));
  const legend = [
    ["cpu", isDense ? "the larger part of cpu or memory that is requested" : "cpu requested"],
    ["memory", !isDense && "memory requested"],
    ["pod", !isDense && Boolean(cluster.pods) && "a pod, as high as its part of the node"],
    ["new", hasNew && "placed now"],
    ["outline chosen", "chosen or nominated for the pod"],
    ["outline current", "has the pod"],
    ["cordoned", cordoned.size > 0 && "cordoned"],
  ];
  byId("legend").replaceChildren(...legend.filter(([, text]) => text)
    .map(([name, text]) => element("li", "", element("i", name), text)));
  const draw = (index) => {
    const made = isDense ? tile(cluster, index) : box(cluster, index);
    made.dataset.node = cluster.names[index];
    made.addEventListener("click", () => {
      byId("node-filter").value = cluster.names[index];
      if (!byId("nodes").hidden) arrange();
    });
    if (cordoned.has(index)) made.classList.add("cordoned");
    made.title = [
      cluster.names[index],
      ...Object.entries(cluster.shares).map(([resource, shares]) => `${resource} ${percent(shares[index])}`),
      `${count(cluster.podCounts[index])} of ${count(cluster.podsMax[index])} pods`,
      ...(cordoned.has(index) ? ["unschedulable"] : []),
    ].join("\n");
    return made;
  };
  const zones = new Map();
  for (const index of order) {
    const zone = cluster.zones[index];
    if (!zones.has(zone)) zones.set(zone, []);
    zones.get(zone).push(draw(index));
  }
  const sorted = [...zones].sort(([one], [other]) => compare(one, other));
  byId("boxes").replaceChildren(...sorted.flatMap(([zone, boxes]) => [
    ...(zones.size > 1 || zone ? [element("h3", "", zone || "no zone", element("span", "quiet", counted(boxes.length, "node")))] : []),
    element("div", isDense ? "boxes dense" : "boxes", ...boxes),
  ]));
  markBoxes();
}

function tile(cluster, index) {
  const made = element("span", "tile");
  const share = Math.max(0, ...Object.values(cluster.shares).map((shares) => shares[index]));
  made.style.setProperty("--fill", percent(Math.min(1, share)).replace(" ", ""));
  if (cluster.pods && cluster.pods[index].some((pod) => pod[2])) made.classList.add("new");
  return made;
}

function box(cluster, index) {
  const bars = Object.entries(cluster.shares).map(([resource, shares]) => {
    const fill = element("i", resource);
    fill.style.width = percent(Math.min(1, shares[index])).replace(" ", "");
    return element("div", "bar", fill);
  });
  const figures = element("span", "quiet",
    element("span", "", counted(cluster.podCounts[index], "pod")),
    element("span", "", Object.values(cluster.shares).map((shares) => percent(shares[index])).join(" / ")));
  const cells = element("div", "cells", ...(cluster.pods ? cluster.pods[index] : []).map(([pod, share, isNew]) => {
    const cell = element("span", isNew ? "cell new" : "cell", share >= LABELLED_SHARE ? pod.split("/")[1] : "");
    cell.style.height = `${(100 * Math.min(1, share)).toFixed(1)}%`;
    cell.title = `${pod}\n${percent(share)}`;
    cell.dataset.pod = pod;
    return cell;
  }));
  return element("div", "box", element("b", "", cluster.names[index]), figures, ...bars, cells);
}

function markBoxes() {
  const chosen = decision && (decision.choice?.node || decision.preemption?.nominatedNode);
  const current = decision && decision.current ? decision.current.name : boundTo;
  for (const made of byId("boxes").querySelectorAll("[data-node]")) {
    made.classList.toggle("chosen", made.dataset.node === chosen);
    made.classList.toggle("current", made.dataset.node === current);
    for (const cell of made.querySelectorAll(".cell")) {
      cell.classList.toggle("selected", cell.dataset.pod === selected);
    }
  }
}

// Live.

async function fetched(path) {
  const response = await fetch(path, { headers: { Accept: "application/json" } });
  if (!response.ok) throw new Error(`${response.status} ${response.statusText}`);
  return response.json();
}

async function loadPod(pod) {
  const key = pod.pod;
  const [namespace, name] = key.split("/").map(encodeURIComponent);
  let found = { pod: null, names: [], story: null };
  try {
    found = await fetched(`${live}/pods/${namespace}/${name}`);
  } catch (error) {
    failing(error);
  }
  if (selected !== key) return;
  if (found.pod && decision && decision.pod === key && byId("scroll").scrollTop > 0) {
    drawStory(found.story);   // a table that someone scrolls stays as it is
    return;
  }
  drawPod(found.pod || pod, found.names, found.story);
}

function failing(error) {
  byId("status").className = "failing";
  byId("status").textContent = `not updated: ${error.message}`;
}

let lastAnswer = "";
const lastParts = {};

// Draws a part again if its data has changed: a part that is drawn again loses the focus.
function redraw(name, data, draw) {
  const drawn = JSON.stringify(data);
  if (drawn !== lastParts[name]) draw(data);
  lastParts[name] = drawn;
}

async function poll() {
  try {
    content = await fetched(`${live}/state`);
    byId("status").className = "";
    byId("status").textContent = `updated ${new Date(content.time * 1000).toLocaleTimeString()}`;
    summarise();
    redraw("summary", content.summary, drawOverview);
    drawPods();
    redraw("cluster", content.cluster, drawCluster);
    const pod = content.pods.find((one) => one.pod === selected) || (selected ? null : linkedPod() || content.pods[0]);
    if (pod && (pod.pod !== selected || pod.answer !== lastAnswer)) {
      lastAnswer = pod.answer;
      await select(pod);
    }
  } catch (error) {
    failing(error);
  }
  setTimeout(poll, POLL_MILLISECONDS);
}

function summarise() {
  const parts = [];
  if (content.pods.length) parts.push(counted(content.pods.length, "pod"));
  if (content.cluster) parts.push(counted(content.cluster.names.length, "node"));
  byId("summary").textContent = parts.join(", ");
}

byId("pod-filter").addEventListener("input", drawPods);
byId("node-filter").addEventListener("input", arrange);
byId("scroll").addEventListener("scroll", drawRows, { passive: true });
byId("skip").addEventListener("click", (event) => {
  event.preventDefault();   // the page's address stays that of the pod
  byId("pod").focus();
});
window.addEventListener("hashchange", () => {
  const pod = linkedPod();
  if (pod && podKey(pod) !== selected) select(pod);
});
document.addEventListener("keydown", (event) => {
  const { target, key } = event;
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (key === "/" && target.tagName !== "INPUT") byId("pod-filter").focus();
  else if (key === "ArrowDown" && byId("pods").contains(target)) step(1);
  else if (key === "ArrowUp" && byId("pods").contains(target)) step(-1);
  else return;
  event.preventDefault();
});
window.addEventListener("resize", () => { if (!byId("nodes").hidden) drawRows(); });

if (live) {
  poll();
} else if (content.story) {
  document.querySelector("main").classList.add("without-pods");
  const last = content.story.entries.at(-1);
  drawPod({
    pod: `${content.story.namespace}/${content.story.name}`,
    result: last ? last.kind : "",
    answer: last ? last.text : "",
  }, [], content.story);
} else {
  summarise();
  drawOverview();
  if (content.pods.length < 2) document.querySelector("main").classList.add("without-pods");
  drawCluster(content.cluster);
  if (content.pods.length) select(linkedPod() || content.pods[0]);
  drawPods();
}
