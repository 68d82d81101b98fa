// The steps of a simulation (`scheduler/simulate/question.py`): a slider, and the cluster at each step.

const CHANGES_SHOWN = 8;

let course = null;

// Returns the cluster and the waiting pods after the first `steps` steps.
function stateAfter(steps) {
  const cluster = structuredClone(course.cluster);
  const waiting = new Set(course.waitingBefore);
  const ending = new Set();
  const lost = new Set();
  const indexOf = new Map(cluster.names.map((name, index) => [name, index]));
  for (const step of course.steps.slice(0, steps)) {
    for (const change of step.changes) {
      if (change.kind === "created") waiting.add(change.pod);
      if (change.kind === "placed") waiting.delete(change.pod);
      if (change.kind === "evicted") ending.add(change.pod);
      if (change.kind === "gone") { waiting.delete(change.pod); ending.delete(change.pod); }
      if (change.kind === "added") addNode(cluster, indexOf, change);
      if (change.kind === "lost") lost.add(change.node);
      if (change.kind === "cordoned") cluster.unschedulable.push(indexOf.get(change.node));
      if (change.kind === "placed") move(cluster, indexOf.get(change.node), change, 1);
      if (change.kind === "gone" && indexOf.has(change.node)) move(cluster, indexOf.get(change.node), change, -1);
    }
  }
  return { cluster: withoutNodes(cluster, lost), waiting, ending };
}

function addNode(cluster, indexOf, change) {
  indexOf.set(change.node, cluster.names.length);
  cluster.names.push(change.node);
  for (const column of Object.values(cluster.shares)) column.push(0);
  cluster.podCounts.push(0);
  cluster.podsMax.push(change.podsMax);
  cluster.zones.push(change.zone);
  if (cluster.pods) cluster.pods.push([]);
}

function move(cluster, index, change, sign) {
  for (const [resource, share] of Object.entries(change.shares)) {
    if (cluster.shares[resource]) cluster.shares[resource][index] += sign * share;
  }
  cluster.podCounts[index] += sign;
  cluster.podCount += sign;
  if (!cluster.pods) return;
  if (sign > 0) cluster.pods[index].push([change.pod, Math.max(0, ...Object.values(change.shares)), true]);
  else cluster.pods[index] = cluster.pods[index].filter(([pod]) => pod !== change.pod);
}

function withoutNodes(cluster, lost) {
  if (!lost.size) return cluster;
  const kept = cluster.names.map((_, index) => index).filter((index) => !lost.has(cluster.names[index]));
  const pick = (column) => column && kept.map((index) => column[index]);
  const shares = Object.fromEntries(Object.entries(cluster.shares).map(([name, column]) => [name, pick(column)]));
  const unschedulable = cluster.unschedulable.map((index) => kept.indexOf(index)).filter((index) => index >= 0);
  return {
    ...cluster, shares, unschedulable, names: pick(cluster.names), pods: pick(cluster.pods),
    podCounts: pick(cluster.podCounts), podsMax: pick(cluster.podsMax), zones: pick(cluster.zones),
  };
}

// Returns the pods by reason, as the overview of a report has them.
function summaryOf(pods) {
  const groups = new Map();
  for (const { pod, result, answer } of pods) {
    if (!groups.has(answer)) groups.set(answer, { result, namespace: "", owner: "", cause: answer, pods: [] });
    groups.get(answer).pods.push(pod);
  }
  const results = {};
  for (const { result } of pods) results[result] = (results[result] || 0) + 1;
  return { results, groups: [...groups.values()] };
}

function drawStep() {
  const number = Number(byId("step").value);
  const { cluster, waiting, ending } = stateAfter(number);
  const step = course.steps[number - 1];
  byId("step-text").textContent = step
    ? `step ${count(number)} of ${count(course.steps.length)}, after ${step.seconds} s: ${step.text}`
    : `before, ${counted(course.steps.length, "step")}`;
  const changes = step ? step.changes : [];
  byId("step-changes").replaceChildren(...changes.slice(0, CHANGES_SHOWN).map((change) => element("li", "",
    [change.pod, change.kind, change.node && `${change.pod ? "on " : ""}${change.node}`, change.text].filter(Boolean).join(" "))));
  if (changes.length > CHANGES_SHOWN) {
    byId("step-changes").append(element("li", "quiet", `and ${count(changes.length - CHANGES_SHOWN)} more`));
  }
  const ofPod = (result) => (pod) => ({ pod, result, answer: course.reasons[pod] || result });
  content.pods = [...[...waiting].map(ofPod("waiting")), ...[...ending].map(ofPod("preempted"))];
  document.querySelector("main").classList.toggle("without-pods", !content.pods.length);
  content.cluster = cluster;
  content.summary = summaryOf(content.pods);
  drawOverview();
  drawPods();
  show("pod", false);
  const shown = content.pods.find((pod) => pod.pod === selected) || content.pods[0];
  if (shown) select(shown);
  drawCluster(cluster);
}

function drawCourse() {
  course = content.simulation.courses[Number(byId("course").value)];
  byId("step").max = course.steps.length;
  byId("step").value = course.steps.length;
  drawStep();
}

if (content && content.simulation) {
  byId("summary").textContent = content.simulation.summary;
  byId("course").replaceChildren(...content.simulation.courses.map(({ title }, index) => {
    const option = element("option", "", title);
    option.value = index;
    return option;
  }));
  show("course", content.simulation.courses.length > 1);
  show("steps", content.simulation.courses.length > 0);
  byId("course").addEventListener("change", drawCourse);
  byId("step").addEventListener("input", drawStep);
  if (content.simulation.courses.length) drawCourse();
}
