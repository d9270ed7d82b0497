
// The atlas: the field "Find" keeps the rows that contain all its words.
(() => {
  const field = document.getElementById("find");
  if (!field) return;
  field.closest("form").hidden = false;
  const rows = [...document.querySelectorAll("[data-find]")];
  const status = document.getElementById("found");
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      const fits = words.every((word) => row.dataset.find.includes(word));
      row.hidden = !fits;
      shown += fits;
    }
    status.textContent = words.length ? `${shown} of ${rows.length} rows` : "";
  };
  field.addEventListener("input", apply);
  field.closest("form").addEventListener("submit", (event) => event.preventDefault());
  apply();
})();

// A cross table: the line above it says in words what the cell under the pointer shows.
(() => {
  for (const table of document.querySelectorAll(".heat")) {
    const line = table.closest(".scroll").previousElementSibling;
    const names = [...table.tHead.rows[table.tHead.rows.length - 1].cells].map((cell) => cell.textContent);
    table.addEventListener("pointerover", (event) => {
      const cell = event.target.closest("td, th");
      if (cell && cell.tagName === "TH") { line.textContent = cell.textContent; return; }
      const said = cell && cell.closest("tbody") ? cell.textContent.trim() : "";
      if (!said || said === "·") { line.textContent = ""; return; }
      const row = cell.parentElement.cells[0].textContent;
      line.textContent = said.startsWith("F")
        ? `The intervention of ${row} flips ${said.slice(1)}% of the preferences of ${names[cell.cellIndex]}.`
        : `The intervention of ${row} changes the accuracy of ${names[cell.cellIndex]} by ${said} points.`;
    });
  }
})();
