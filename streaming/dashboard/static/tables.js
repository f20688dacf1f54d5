// Gives each cell the heading of its column: on a narrow screen each row is a card with labels.
// Without this script a wide table scrolls in its own region.
"use strict";

(() => {
  function label(table) {
    const headings = [...table.tHead?.rows[0]?.cells ?? []].map((cell) => cell.textContent.trim());
    for (const row of table.tBodies[0]?.rows ?? []) {
      const isOfColumns = row.cells.length === headings.length;
      [...row.cells].forEach((cell, number) => {
        if (isOfColumns && headings[number]) cell.dataset.label = headings[number];
      });
    }
    table.dataset.labelled = "yes";
  }

  document.addEventListener("DOMContentLoaded", () => {
    const main = document.getElementById("main");
    const labelAll = () => main.querySelectorAll(".wide > table:not(#matrix)").forEach(label);
    labelAll();
    document.addEventListener("page:updated", labelAll);
  });
})();
