// The live page: sends what the user sets to the server, and shows what the model says.
"use strict";
(() => {
  const { element, stops } = globalThis.pivotal;
  const byId = (id) => document.getElementById(id);
  const percent = (p) => (p >= 0.0995 ? (100 * p).toFixed(1) : p < 5e-7 ? "<0.0001" : (100 * p).toPrecision(2)) + "%";
  const number = (value, digits = 2) => (value === null ? "–" : value.toFixed(digits).replace("-", "−"));
  // As in a report, which rounds a tie to the even digit.
  const tenths = new Intl.NumberFormat("en", { minimumFractionDigits: 1, maximumFractionDigits: 1, roundingMode: "halfEven", signDisplay: "negative" });
  const shareOf = (p) => tenths.format(100 * p).replace("-", "−").replace("100.0", "100") + "%";
  const plural = (count, noun) => `${count} ${noun}${count === 1 ? "" : "s"}`;

  async function ask(path, body) {
    const sent = body === undefined ? {} : {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body),
    };
    let answer;
    try {
      answer = await fetch(path, sent);
    } catch {
      throw new Error("The server does not answer. Is `pivotal serve` still running?");
    }
    const content = await answer.json();
    if (!answer.ok) throw new Error(content.error);
    return content;
  }

  function complain(place, error) {
    byId(place).textContent = error ? error.message : "";
    byId(place).hidden = !error;
  }

  // -- the run that is open -------------------------------------------------------------------------------------

  let opened = null; // what the server says of the run
  let units = []; // {about, values: [to the first label, to the second], on}
  let towards = 0; // the label that the sliders are about
  let pending = false, waiting = false;

  async function list() {
    const state = await ask("state");
    const chosen = byId("run").value;
    byId("run").replaceChildren(...state.runs.map((run) => {
      const score = run.flip_accuracy == null ? "" : `, ${shareOf(run.flip_accuracy)} flipped by ${plural(run.units, "unit")}`;
      const text = run.error ? `${run.name} (cannot be read)` : `${run.name}${run.finished ? score : ", unfinished"}`;
      const option = element("option", { value: run.run, title: run.path }, text);
      option.disabled = Boolean(run.error);
      return option;
    }));
    if (chosen && byId("run").querySelector(`option[value="${chosen}"]`)) byId("run").value = chosen;
    byId("models").replaceChildren(...state.models.map((name) => element("option", { value: name })));
    byId("phenomena").replaceChildren(...state.phenomena.map((name) => element("option", { value: name })));
    byId("choose").hidden = state.runs.length === 0;
    compared = state.runs;
    compare();
    return state;
  }

  // -- the runs side by side ------------------------------------------------------------------------------------

  const shown = (told) => (value) => (value == null ? "–" : told(value));
  const COMPARED = [ // the field of a run, the head of its column, and how a number is told
    ["name", "run"],
    ["verdict", "verdict"],
    ["flip_accuracy", "flipped", shown(shareOf)],
    ["fidelity", "fidelity", shown(shareOf)],
    ["kl", "KL", shown((value) => number(value, 3))],
    ["units", "units", shown((value) => value.toLocaleString("en"))],
    ["phenomenon", "question"],
    ["model", "model"],
    ["steps", "steps"],
    ["started", "begun"],
  ];
  let compared = [], by = "", down = false; // the runs, the field that sorts them, and whether from the top down

  function compare() {
    const value = (run) => (typeof run[by] === "number" ? run[by] : (run[by] ?? "").toString().toLowerCase());
    const missing = (run) => run[by] == null || run[by] === "";
    const order = (a, b) => missing(a) - missing(b) || (down ? -1 : 1) * (value(a) < value(b) ? -1 : value(a) > value(b) ? 1 : 0);
    const sorted = by ? [...compared].sort(order) : compared;
    const heads = COMPARED.map(([field, title, told]) => {
      const press = element("button", { type: "button", "data-sort": field }, title);
      press.addEventListener("click", () => {
        [by, down] = [field, by === field ? !down : Boolean(told)];
        compare();
        byId("compare-table").querySelector(`[data-sort="${field}"]`).focus();
      });
      const sort = by === field ? { "aria-sort": down ? "descending" : "ascending" } : {};
      return element("th", { scope: "col", class: told ? "n" : "", ...sort }, press);
    });
    const rows = sorted.map((run) => {
      const link = element("a", { href: `#run-${run.run}`, title: run.path }, run.name);
      link.addEventListener("click", () => goTo(run.run));
      const first = element("th", { scope: "row" }, run.error ? run.name : link);
      if (run.run === opened?.run) first.setAttribute("aria-current", "true");
      if (run.error) return element("tr", {}, first, element("td", { colspan: COMPARED.length, class: "error" }, run.error));
      const cells = COMPARED.slice(1).map(([field, , told]) =>
        element("td", { class: told ? "n" : "" }, told ? told(run[field]) : cell(run, field)));
      const report = run.report ? element("a", { href: `runs/${run.run}/report.html`, target: "_blank", rel: "noopener" }, "report") : "–";
      return element("tr", {}, first, ...cells, element("td", {}, report));
    });
    byId("compare-title").textContent = `${plural(compared.length, "run")} side by side`;
    byId("compare").hidden = compared.length < 2;
    byId("compare-table").replaceChildren(element("div", { class: "scroll", role: "group", "aria-label": "The runs side by side" },
      element("table", {}, element("thead", {}, element("tr", {}, ...heads, element("th", { scope: "col" }, "page"))),
        element("tbody", {}, ...rows))));
    stops();
  }

  const cell = (run, field) =>
    field === "started" ? run.started.slice(0, 16).replace("T", " ")
      : field === "verdict" && !run.finished ? "unfinished" : run[field] ?? "–";

  function goTo(run) {
    byId("run").value = run;
    open(run);
  }

  async function open(run, which = null) {
    byId("workspace").classList.add("stale");
    try {
      opened = await ask("open", { run: Number(run), which });
      complain("problem");
    } catch (error) {
      complain("problem", error);
      return;
    } finally {
      byId("workspace").classList.remove("stale");
    }
    byId("title").textContent = `${opened.phenomenon} in ${opened.model}`;
    const steps = opened.steps === "every" ? "at every step" : "at the cue";
    byId("lead").textContent = `${plural(opened.units.length, "unit")}, set ${steps}. ${opened.note} ${opened.path}`;
    byId("which-label").hidden = opened.runs < 2;
    byId("which").replaceChildren(...Array.from({ length: opened.runs }, (_, i) => element("option", { value: i }, String(i))));
    byId("which").value = opened.which;
    byId("report").hidden = !opened.report;
    byId("report").href = `runs/${opened.run}/report.html`;
    byId("workspace").hidden = false;
    compare();
    opened.labels.forEach((label, i) => { byId(`word-${i}-label`).textContent = `Word for “${label}”`; });
    const asked = opened.pairs.length === 0 || opened.pairs[0].words.some(Boolean);
    for (const i of [0, 1]) byId(`word-${i}`).placeholder = asked ? "" : "what the units make likely";
    byId("cue-label").hidden = opened.steps === "every";
    byId("direction").replaceChildren(
      element("option", { value: "" }, "the other word"),
      ...opened.labels.map((label) => element("option", { value: label }, label)),
    );
    byId("sites").replaceChildren(...opened.sites.map((site) => element("option", { value: `${site.name}:` }, `${site.units} units`)));
    byId("pairs-note").textContent =
      `Such as “${example()}”: the word for “${opened.labels[0]}” comes first. Asterisks mark the cue` +
      (opened.steps === "every" ? "; it may be left out." : ".");
    byId("pairs-result").textContent = "";
    byId("pairs-rows").replaceChildren();
    byId("stored").replaceChildren(
      element("option", { value: "" }, "a sentence of your own"),
      ...opened.pairs.map((pair, i) =>
        element("option", { value: i }, `${pair.prefix} …${pair.words.some(Boolean) ? ` ${pair.words.join(" / ")}` : ""}${pair.group ? ` (${pair.group})` : ""}`)),
    );
    reset();
    if (opened.pairs.length) choose(0);
  }

  function example() {
    const pair = opened.pairs[0] ?? { prefix: "The athlete", cue: 1, words: ["admires", "admire"] };
    const words = pair.prefix.split(" ");
    if (pair.cue !== null) words[pair.cue] = `*${words[pair.cue]}*`;
    return `${words.join(" ")} ${pair.words.some(Boolean) ? pair.words.join("/") : "ONE/OTHER"}`;
  }

  function choose(index) {
    const pair = opened.pairs[index];
    byId("stored").value = index;
    byId("sentence").value = pair.prefix;
    byId("word-0").value = pair.words[0];
    byId("word-1").value = pair.words[1];
    cues(pair.cue);
    update();
  }

  function cues(chosen = null) {
    const kept = chosen === null ? byId("cue").value : String(chosen);
    const words = byId("sentence").value.trim().split(/\s+/);
    byId("cue").replaceChildren(
      element("option", { value: "" }, "find it"),
      ...words.map((word, i) => element("option", { value: i }, word)),
    );
    byId("cue").value = kept !== "" && Number(kept) < words.length ? kept : "";
  }

  // -- what the model says --------------------------------------------------------------------------------------

  const set = () => units.map((unit) => ({ unit: unit.about.unit, values: unit.values.map((v) => (unit.on ? v : null)) }));
  const here = () => ({ run: opened.run, which: opened.which, units: set() });

  function request() {
    const words = [byId("word-0").value.trim(), byId("word-1").value.trim()];
    return {
      ...here(),
      sentence: byId("sentence").value,
      words: words.some(Boolean) ? words : null,
      cue: byId("cue").value === "" || opened.steps === "every" ? null : byId("cue").value,
      direction: byId("direction").value || null,
    };
  }

  // One request at a time. While it is under way only the latest change is kept. An answer about a run that is no
  // longer open is dropped.
  async function update() {
    if (pending) {
      waiting = true;
      return;
    }
    pending = true;
    const began = performance.now(), run = opened;
    try {
      const seen = await ask("look", request());
      if (run !== opened) return;
      complain("problem");
      show(seen);
      document.body.dataset.took = (performance.now() - began).toFixed(1);
      document.body.dataset.updates = Number(document.body.dataset.updates ?? 0) + 1;
    } catch (error) {
      if (run === opened) complain("problem", error);
    } finally {
      pending = false;
      if (waiting) {
        waiting = false;
        update();
      }
    }
  }

  function show(seen) {
    const to = opened.labels.indexOf(seen.direction);
    if (to !== towards) {
      towards = to;
      draw();
    }
    const [before, after] = seen.log_odds;
    const wanted = seen.words[to], other = seen.words[1 - to];
    const said = seen.flipped ? `The preference flips from “${other}” to “${wanted}”.`
      : after > 0 ? `The model prefers “${wanted}”, with and without the units.`
      : `The preference stays with “${other}”.`;
    byId("verdict").textContent = said;
    byId("words").replaceChildren(...seen.words.map((_, i) => bars(seen, i)));
    const facts = [
      [number(after - before), `log-odds moved towards “${wanted}”`],
      [number(seen.kl, 3), "KL, mean over the sentence"],
      [number(seen.kl_last, 3), "KL at the last word"],
    ];
    byId("facts").replaceChildren(...facts.map(([value, name]) => element("li", {}, element("b", {}, value), ` ${name}`)));
    byId("next").replaceChildren(table(
      "The most likely next words",
      ["word", "untouched", "with the units"],
      seen.next.map((row) => [row.word.trim() || "␣", percent(row.untouched), percent(row.edited)]),
    ));
    byId("trace").innerHTML = seen.trace; // a table that the server made
    stops();
  }

  // Both words may be unlikely, so a bar is the share of a word in the probability of the two.
  function bars(seen, i) {
    const share = (side) => seen[side][i] / Math.max(Number.MIN_VALUE, seen[side][0] + seen[side][1]);
    const sides = [["untouched", "untouched"], ["edited", "with units"]];
    const told = sides.map(([side, name]) => `${percent(share(side))} ${name}`);
    const rows = sides.flatMap(([side], row) => {
      const fill = element("div", { class: `fill ${side}` });
      fill.style.width = `${100 * share(side)}%`;
      const value = element("span", { class: "value" }, told[row], element("small", {}, `p ${percent(seen[side][i])}`));
      return [element("div", { class: "track" }, fill), value];
    });
    return element("div", { class: "word", role: "group", "aria-label": `${seen.words[i]}: ${told.join(", ")}` },
      element("b", {}, seen.words[i], element("small", {}, opened.labels[i])), ...rows);
  }

  function table(title, columns, rows) {
    const cells = (row, tag) => row.map((cell, i) => {
      const made = element(i === 0 ? "th" : tag, i === 0 ? { scope: tag === "th" ? "col" : "row" } : tag === "th" ? { scope: "col" } : {}, cell);
      if (i > 0) made.className = "n";
      return made;
    });
    return element("div", { class: "scroll", role: "group", "aria-label": title }, element("table", {},
      element("caption", {}, title), element("thead", {}, element("tr", {}, ...cells(columns, "th"))),
      element("tbody", {}, ...rows.map((row) => element("tr", {}, ...cells(row, "td"))))));
  }

  // -- units ----------------------------------------------------------------------------------------------------

  function reset() {
    units = opened.units.map((about) => ({ about, values: [...about.values], on: true }));
    draw();
  }

  function draw() {
    const label = opened.labels[towards];
    byId("units-note").textContent =
      `What each unit is set to when flipping to “${label}”. The green line is its natural range: the 1st to 99th ` +
      "percentile of its own states at these steps.";
    byId("units").replaceChildren(...units.map(row));
  }

  function row(unit) {
    const { about } = unit, [low, high] = about.limits, value = unit.values[towards];
    const on = element("input", { type: "checkbox" });
    on.checked = unit.on && value !== null;
    const name = `${about.unit}${about.size > 1 ? " (factor)" : ""}`;
    const slider = element("input", { type: "range", min: low, max: high, step: (high - low) / 400, "aria-label": `Value of ${about.unit}` });
    const typed = element("input", { type: "number", step: "any", "aria-label": `Value of ${about.unit} as a number` });
    const first = value ?? about.values[towards] ?? 0;
    slider.value = first;
    typed.value = Number(first.toPrecision(4));
    const box = element("div", { class: `knob${on.checked ? "" : " off"}` });
    const change = (given) => {
      if (!Number.isFinite(given)) return;
      unit.values[towards] = given;
      unit.on = on.checked = true;
      box.classList.remove("off");
      update();
    };
    slider.addEventListener("input", () => { typed.value = Number(Number(slider.value).toPrecision(4)); change(Number(slider.value)); });
    typed.addEventListener("input", () => { if (typed.value !== "") { slider.value = typed.value; change(Number(typed.value)); } });
    on.addEventListener("change", () => {
      if (on.checked && unit.values[towards] === null) unit.values[towards] = first;
      unit.on = on.checked;
      box.classList.toggle("off", !on.checked);
      update();
    });
    const remove = element("button", { type: "button", "aria-label": `Remove ${about.unit}` }, "Remove");
    remove.addEventListener("click", () => { units = units.filter((one) => one !== unit); draw(); update(); byId("add").focus(); });
    const slide = element("div", { class: "slide" }, slider);
    if (about.natural) slide.append(natural(about));
    box.append(element("label", {}, on, name), slide, typed, remove);
    return box;
  }

  function natural({ natural: [from, to], limits: [low, high] }) {
    const part = element("span");
    const at = (value) => 100 * Math.min(1, Math.max(0, (value - low) / (high - low)));
    part.style.left = `${at(from)}%`;
    part.style.width = `${Math.max(0.5, at(to) - at(from))}%`;
    return element("div", { class: "natural", title: `Natural range: ${number(from)} to ${number(to)}` }, part);
  }

  async function add(name) {
    const run = opened;
    try {
      const about = await ask("unit", { run: run.run, which: run.which, unit: name });
      if (run !== opened) return;
      if (units.some((unit) => unit.about.unit === about.unit)) throw new Error(`${about.unit} is on the page already.`);
      units.push({ about, values: [...about.values], on: true });
      complain("add-problem");
      byId("add").value = "";
      draw();
      update();
    } catch (error) {
      if (run === opened) complain("add-problem", error);
    }
  }

  // -- the user's own pairs -------------------------------------------------------------------------------------

  async function tryPairs() {
    byId("pairs-result").textContent = "Asking the model …";
    const run = opened;
    try {
      const found = await ask("pairs", { ...here(), text: byId("pairs").value });
      if (run !== opened) return;
      complain("pairs-problem");
      const { share } = found;
      byId("pairs-result").textContent =
        `${found.flipped} of ${plural(share.n, "preference")} flipped: ${percent(share.value)} (95% interval ` +
        `${percent(share.low)} to ${percent(share.high)}), KL ${number(found.kl, 3)}.` +
        (found.rejected ? ` Left out: ${found.rejected}.` : "");
      byId("pairs-rows").replaceChildren(table(
        "Your pairs", ["sentence", "untouched", "flip to", "log-odds before", "after", "outcome"],
        found.rows.map((one) => [one.prefix, one.preferred, one.wanted, number(one.log_odds[0]), number(one.log_odds[1]),
          one.flipped ? "flipped" : "not flipped"]),
      ));
      stops();
    } catch (error) {
      if (run !== opened) return;
      byId("pairs-result").textContent = "";
      byId("pairs-rows").replaceChildren();
      complain("pairs-problem", error);
    }
  }

  // -- a search -------------------------------------------------------------------------------------------------

  const CURVES = [["accuracy", "Flipped", percent], ["units", "Units", (v) => v.toFixed(1)], ["loss", "Loss", (v) => v.toFixed(3)]];
  let source = null, course_ = [];

  async function start(form) {
    const given = new FormData(form), whole = (name) => (given.get(name) ? Number(given.get(name)) : undefined);
    const asked = {
      model: given.get("model").trim(), phenomenon: given.get("phenomenon").trim(), steps: given.get("steps"),
      max_units: whole("max_units"), runs: whole("runs") ?? 1, updates: whole("updates"),
    };
    try {
      const begun = await ask("find", asked);
      complain("find-problem");
      listen(begun.number, begun.command);
    } catch (error) {
      complain("find-problem", error);
    }
  }

  function listen(searchNumber, command) {
    source?.close();
    course_ = [];
    byId("search").hidden = false;
    byId("find-command").textContent = command;
    byId("find-phase").textContent = "Loading the model";
    byId("find-progress").removeAttribute("value");
    byId("find-said").replaceChildren();
    byId("find-end").textContent = "";
    byId("find-open").hidden = true;
    byId("curves").replaceChildren();
    running(true);
    source = new EventSource(`find/${searchNumber}/events`);
    source.addEventListener("message", ({ data }) => happened(JSON.parse(data)));
  }

  function running(yes) {
    byId("find-start").disabled = yes;
    byId("find-cancel").hidden = !yes;
    byId("find-cancel").disabled = false;
  }

  function happened(event) {
    if (event.kind === "said") {
      byId("find-said").append(element("li", {}, event.text));
    } else if (event.kind === "progress") {
      byId("find-phase").textContent = `${event.phase}: ${event.update} of ${event.updates}`;
      byId("find-progress").max = Math.max(1, event.updates);
      byId("find-progress").value = event.update;
      course_.push(event);
      curves();
    } else {
      source.close();
      running(false);
      byId("find-progress").value = byId("find-progress").max;
      byId("find-phase").textContent = { done: "Finished", stopped: "Stopped", failed: "Failed" }[event.kind];
      byId("find-end").textContent = event.text ?? (event.already ? "This run was finished already." : "The run is finished.");
      if (event.kind === "done") {
        byId("find-open").hidden = false;
        byId("find-open").dataset.run = event.run;
        list().catch((error) => complain("problem", error));
      }
    }
  }

  function curves() {
    const drawn = CURVES.map(([name, title, told]) => {
      const known = course_.map((event) => event[name]).filter((value) => value !== null && value !== undefined);
      if (known.length < 2) return null;
      const low = Math.min(0, ...known), high = Math.max(...known, low + 1e-9), width = known.length - 1;
      const at = known.map((value, i) => `${((100 * i) / width).toFixed(2)},${(38 - (36 * (value - low)) / (high - low)).toFixed(2)}`);
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
      path.setAttribute("d", `M${at.join("L")}`);
      svg.setAttribute("viewBox", "0 0 100 40");
      svg.setAttribute("preserveAspectRatio", "none");
      svg.setAttribute("role", "img");
      svg.setAttribute("aria-label", `${title} over the search: from ${told(known[0])} to ${told(known.at(-1))}`);
      svg.append(path);
      return element("figure", {}, element("figcaption", {}, `${title}: ${told(known.at(-1))}`), svg);
    });
    byId("curves").replaceChildren(...drawn.filter(Boolean));
  }

  // -- wiring ---------------------------------------------------------------------------------------------------

  for (const id of ["choose", "sentence-form", "add-form", "pairs-form", "find-form"]) {
    byId(id).addEventListener("submit", (event) => event.preventDefault());
  }
  byId("run").addEventListener("change", () => open(byId("run").value));
  byId("which").addEventListener("change", () => open(byId("run").value, Number(byId("which").value)));
  byId("stored").addEventListener("change", () => { if (byId("stored").value !== "") choose(Number(byId("stored").value)); });
  byId("sentence").addEventListener("input", () => { byId("stored").value = ""; cues(); update(); });
  for (const id of ["word-0", "word-1", "cue", "direction"]) byId(id).addEventListener("input", update);
  byId("add-form").addEventListener("submit", () => add(byId("add").value));
  byId("reset").addEventListener("click", () => { reset(); update(); });
  byId("none").addEventListener("click", () => { for (const unit of units) unit.on = false; draw(); update(); });
  byId("pairs-form").addEventListener("submit", tryPairs);
  byId("find-form").addEventListener("submit", (event) => start(event.target));
  byId("find-cancel").addEventListener("click", async () => {
    byId("find-cancel").disabled = true;
    byId("find-phase").textContent = "Stopping at the next safe place";
    await ask("find/cancel", {}).catch((error) => complain("find-problem", error));
  });
  byId("find-open").addEventListener("click", async () => {
    await list();
    byId("run").value = byId("find-open").dataset.run;
    await open(byId("run").value);
    byId("main").scrollIntoView();
  });

  byId("compare").addEventListener("toggle", stops);
  list().then((state) => {
    byId("compare").open = state.compared;
    const asked = /^#run-([0-9]+)$/.exec(location.hash)?.[1];
    if (asked && byId("run").querySelector(`option[value="${asked}"]`)) byId("run").value = asked;
    if (byId("run").value) open(byId("run").value);
    if (state.search) listen(state.search.number, state.search.command);
  }).catch((error) => complain("problem", error));
})();
