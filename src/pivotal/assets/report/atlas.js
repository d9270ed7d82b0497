
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
