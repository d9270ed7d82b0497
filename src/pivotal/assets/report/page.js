// Filters and sorts the held-out sentences, copies code, and marks the section at hand in the menu.
// The page is complete without it.
"use strict";
(() => {
  const PAGE = 20;
  const byId = (id) => document.getElementById(id);

  function element(tag, attributes = {}, ...children) {
    const made = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    made.append(...children);
    return made;
  }

  // Only boxes that overflow need a tab stop.
  function stops() {
    for (const box of document.querySelectorAll(".scroll, pre")) {
      if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
      else box.removeAttribute("tabindex");
    }
  }

  // -- the list ---------------------------------------------------------------------------------------------

  function browse(list) {
    const form = byId("filters"), count = byId("count"), more = byId("more");
    const items = [...list.children];
    const places = new Map(items.map((item, place) => [item, place]));
    const words = (item) => item.querySelector("summary > span").textContent.toLowerCase();
    let texts = items.map(words);
    let most = PAGE;

    function update() {
      const wanted = new FormData(form);
      const text = wanted.get("text").trim().toLowerCase();
      const kinds = ["flipped", "group", "direction", "known", "traced"].filter((kind) => wanted.get(kind));
      sort(wanted.get("order"));
      let matching = 0;
      items.forEach((item, i) => {
        const fits = texts[i].includes(text) && kinds.every((kind) => item.dataset[kind] === wanted.get(kind));
        if (fits) matching += 1;
        item.hidden = !fits || matching > most;
      });
      const sentences = items.length === 1 ? "sentence" : "sentences";
      const first = matching > most ? `, the first ${most} shown` : "";
      count.textContent = `${matching} of ${items.length} ${sentences}${first}.`;
      more.hidden = matching <= most;
    }

    let order = "";

    function sort(wanted) {
      if (wanted === order) return;
      order = wanted;
      const sign = order === "most" ? -1 : 1;
      const margin = (item) => sign * Number(item.dataset.margin);
      if (order) items.sort((a, b) => margin(a) - margin(b) || a.dataset.pair - b.dataset.pair);
      else items.sort((a, b) => places.get(a) - places.get(b));
      texts = items.map(words);
      list.append(...items);
    }

    function filter() {
      most = PAGE;
      update();
    }

    // A reset event comes before the fields change, so the list is filtered here and not on that event.
    function clear() {
      form.reset();
      filter();
    }

    function follow() {
      const item = items.find((candidate) => `#${candidate.id}` === location.hash);
      if (!item) return;
      clear();
      most = Math.max(PAGE, items.indexOf(item) + 1);
      update();
      item.querySelector("details").open = true;
      item.scrollIntoView();
    }

    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    byId("clear").addEventListener("click", clear);
    more.addEventListener("click", () => {
      const first = items.filter((item) => !item.hidden).length;
      most += PAGE;
      update();
      items.filter((item) => !item.hidden)[first]?.querySelector("summary").focus();
    });
    for (const item of items) item.querySelector("details").addEventListener("toggle", stops);
    addEventListener("hashchange", follow);
    form.hidden = false;
    update();
    follow();
  }

  // -- the menu and the code ----------------------------------------------------------------------------------

  // The unit that the address names. The selector :target does not match it yet while the page is being read.
  function atHand() {
    return location.hash.startsWith("#unit-") ? byId(decodeURIComponent(location.hash.slice(1))) : null;
  }

  // The section at hand is the last whose heading has passed the upper third of the window.
  function mark() {
    const unit = atHand();
    let current = unit ? "the-units" : null;
    for (const heading of unit ? [] : headings) {
      if (heading.getBoundingClientRect().top < innerHeight / 3) current = heading.id;
    }
    for (const link of links) {
      if (link.hash === `#${current}`) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
  }

  function copyButton(box) {
    const button = element("button", { type: "button", class: "copy" }, "Copy");
    const text = box.querySelector("code").textContent.trimEnd();
    button.addEventListener("click", () => {
      // A page inside another one may have no clipboard. Then the text is selected.
      (navigator.clipboard?.writeText(text) ?? Promise.reject()).then(
        () => { button.textContent = "Copied"; },
        () => { getSelection().selectAllChildren(box.querySelector("code")); },
      );
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
    box.append(button);
  }

  // The live page uses these.
  globalThis.pivotal = { element, stops };

  document.documentElement.classList.add("js");
  const list = byId("sentence-list");
  if (list) browse(list);
  const links = [...document.querySelectorAll("nav a")];
  const headings = [...document.querySelectorAll("main > section > h2[id]")].filter((heading) => !heading.closest(".unit-page"));
  function opened() {
    mark();
    stops();
  }
  addEventListener("hashchange", opened);
  addEventListener("scroll", mark, { passive: true });
  for (const box of document.querySelectorAll(".code")) copyButton(box);
  opened();
  stops();
  addEventListener("resize", stops);
  for (const part of document.querySelectorAll("figure details")) part.addEventListener("toggle", stops);
})();
