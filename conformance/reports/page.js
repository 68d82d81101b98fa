"use strict";
// Show the cases that match the search and all filters. Without this script all are shown.
const cases = [...document.querySelectorAll(".case")];
const texts = cases.map((element) => element.textContent.toLowerCase());
const search = document.getElementById("search");
const filters = [...document.querySelectorAll("select")];

function show() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  cases.forEach((element, index) => {
    const matches = words.every((word) => texts[index].includes(word))
      && filters.every((filter) => !filter.value || element.dataset[filter.id] === filter.value);
    element.hidden = !matches;
    shown += matches;
  });
  document.getElementById("shown").textContent = `${shown} of ${cases.length} cases`;
}

search.addEventListener("input", show);
filters.forEach((filter) => filter.addEventListener("change", show));
document.querySelector("form").addEventListener("submit", (event) => event.preventDefault());
const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
if (linked instanceof HTMLDetailsElement) linked.open = true;
