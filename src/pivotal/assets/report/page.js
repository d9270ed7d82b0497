// Filters and sorts the held-out sentences, draws traces, copies code, and marks the section at hand in the menu.
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

  function browse(list, stored) {
    const form = byId("filters"), count = byId("count"), more = byId("more");
    const traces = new Map(stored.traces.map((trace) => [String(trace.pair), trace]));
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

    function open(item) {
      const place = item.querySelector(".trace");
      if (place.hasChildNodes()) return;
      const trace = traces.get(item.dataset.pair);
      place.append(...(trace ? course(stored.frame, trace) : advice(`${stored.command} ${item.dataset.pair}`)));
      stops();
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
    for (const item of items) {
      item.querySelector("details").addEventListener("toggle", (event) => event.target.open && open(item));
    }
    addEventListener("hashchange", follow);
    form.hidden = false;
    update();
    follow();
  }

  // -- a trace ----------------------------------------------------------------------------------------------

  const signed = (text) => (Number(text) === 0 ? text.replace("-", "") : text.replace("-", "−"));
  const fixed = (digits) => (value) => signed(value.toFixed(digits));
  // Two significant digits in percent, never in scientific notation; as `chance` in Python.
  const percent = (p) => {
    if (p >= 0.0995) return (100 * p).toFixed(0) + "%";
    if (p < 1e-6) return p ? "<0.0001%" : "0%";
    return Number((100 * p).toPrecision(2)).toFixed(6).replace(/0+$/, "").replace(/\.$/, "") + "%";
  };
  const largest = (rows) => Math.max(1e-9, ...rows.flat().map(Math.abs));

  function advice(command) {
    const code = element("div", { class: "code" }, element("pre", {}, element("code", {}, command)));
    copyButton(code);
    return [element("p", {}, "The trace of this pair is not stored. This command shows it:"), code];
  }

  // JSON has no infinity: null stands for the logarithm of zero, and for differences with it.
  const minus = (a, b) => a.map((value, i) => (value === null || b[i] === null ? null : value - b[i]));

  // A set of words is written is|was|has; a long one is shortened.
  function shown(entry) {
    const words = entry.split("|");
    if (words.includes("")) return entry;
    return (words.length > 3 ? [...words.slice(0, 2), "…"] : words).join("/");
  }

  function course(frame, trace) {
    const named = trace.words.map(shown);
    const probability = (rows) => rows.map((row) => row.map((log) => (log === null ? 0 : Math.exp(log))));
    const before = probability(trace.log_p.untouched), after = probability(trace.log_p.edited);
    const target = frame.labels.indexOf(trace.direction);
    const set = frame.values[target].map((value) => value !== null);
    const units = frame.numbers.map((number, i) => `${number} (${frame.units[i]})`);
    const activations = { top: largest([...trace.activation.untouched, ...trace.activation.edited]), show: fixed(2) };
    const odds = [trace.log_p.untouched, trace.log_p.edited].map((words) => minus(words[target], words[1 - target]));
    const preference = { top: largest(odds), show: fixed(1) };
    const chances = { top: largest([...before, ...after]), show: percent, grows: true };
    const moved = { top: largest(trace.change), show: fixed(2), grows: true };
    const isSet = (row, step) => trace.edited[step] && set[row];

    const table = element(
      "table",
      { class: "heat" },
      element("caption", {}, `Step by step, to ${trace.direction}`),
      heading(trace),
      block("Units, untouched", units, trace.activation.untouched, activations),
      block("Units, with the edit", units, trace.activation.edited, activations, isSet),
      block(`Log-odds of “${named[target]}”`, ["untouched", "with the edit"], odds, preference),
      block("Probability of each word, untouched", named, before, chances),
      block("Probability of each word, with the edit", named, after, chances),
      block("KL to the untouched model", ["KL"], [trace.kl], { top: largest([trace.kl]), show: fixed(2), grows: true }),
    );
    if (frame.layers.length) table.append(block("Change of each layer", frame.layers, trace.change, moved));
    const legend =
      "A column is a step: the model has read the sentence up to that word. Purple is above zero, green below zero; the " +
      `strongest colour is ${activations.show(activations.top)}. A frame marks a unit that is set. The change of ` +
      "a layer is the distance of its state from the untouched state, relative to the norm of the untouched state.";
    const box = { class: "scroll", role: "group", "aria-label": `Trace of ${trace.prefix}` };
    return [element("div", box, table), element("p", { class: "legend" }, legend)];
  }

  function heading(trace) {
    const cells = trace.tokens.map((token, step) => {
      const cell = element("th", { scope: "col" }, token.trim() || "␣");
      if (step === trace.cue) cell.append(element("small", {}, "cue"));
      else if (trace.edited[step]) cell.append(element("small", {}, "set"));
      return cell;
    });
    return element("thead", {}, element("tr", {}, element("td"), ...cells));
  }

  function block(title, names, rows, scale, framed = () => false) {
    const head = element("tr", { class: "block" }, element("th", { scope: "rowgroup", colspan: rows[0].length + 1 }, title));
    const lines = rows.map((row, r) => {
      const cells = row.map((value, step) => {
        if (value === null) return element("td", {}, "–");
        const cell = element("td", {}, scale.show(value));
        // Cells stay light enough for their numbers to be readable.
        const strength = (0.55 * Math.min(1, Math.abs(value) / scale.top)).toFixed(3);
        const tone = scale.grows ? "--grey" : value > 0 ? "--high" : "--low";
        cell.style.setProperty("background-color", `rgba(var(${tone}), ${strength})`);
        if (framed(r, step)) cell.className = "set";
        return cell;
      });
      return element("tr", {}, element("th", { scope: "row" }, names[r]), ...cells);
    });
    return element("tbody", {}, ...(title ? [head] : []), ...lines);
  }

  // -- a unit along the stored sentences ----------------------------------------------------------------------

  const SENTENCES = 3;

  // Some traces to each label, of different constructions where there are several, the longest first.
  function examples(stored) {
    return stored.frame.labels.flatMap((label) => {
      const there = stored.traces.filter((trace) => trace.direction === label);
      there.sort((a, b) => b.tokens.length - a.tokens.length || a.pair - b.pair);
      const first = there.filter((trace, i) => there.findIndex((other) => other.group === trace.group) === i);
      return [...new Set([...first, ...there])].slice(0, SENTENCES);
    });
  }

  function along(place, stored) {
    const unit = stored.frame.units.indexOf(place.dataset.unit);
    if (unit < 0 || place.querySelector("table")) return;
    const shown = examples(stored);
    const rows = (trace) => [trace.activation.untouched[unit], trace.activation.edited[unit]];
    const scale = { top: largest(shown.flatMap(rows)), show: fixed(2) };
    for (const trace of shown) {
      const set = stored.frame.values[stored.frame.labels.indexOf(trace.direction)][unit] !== null;
      const table = element(
        "table",
        { class: "heat" },
        heading(trace),
        block("", ["untouched", "with the edit"], rows(trace), scale, (row, step) =>
          Boolean(row && set && trace.edited[step])),
      );
      const box = { class: "scroll", role: "group", "aria-label": `The unit along ${trace.prefix}` };
      const link = element("a", { href: `#pair-${trace.pair}` }, `Pair ${trace.pair}`);
      place.append(element("p", { class: "legend" }, link, `: ${trace.prefix} … to ${trace.direction}`), element("div", box, table));
    }
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

  // The live page draws traces with these.
  globalThis.pivotal = { element, course, stops };

  document.documentElement.classList.add("js");
  const kept = byId("traces"), stored = kept && JSON.parse(kept.textContent);
  const list = byId("sentence-list");
  if (list) browse(list, stored);
  const links = [...document.querySelectorAll("nav a")];
  const headings = [...document.querySelectorAll("main > section > h2[id]")].filter((heading) => !heading.closest(".unit-page"));
  function opened() {
    const unit = atHand();
    if (unit && stored) along(unit.querySelector(".along"), stored);
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
