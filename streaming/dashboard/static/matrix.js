// One cell of a matrix is in the tab order, and arrow keys move to the others; `tips.js` shows the
// details of the cell with the focus. Without this script they are the title of the cell.
"use strict";

(() => {
  const MOVES = {
    ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1],
    Home: [0, -Infinity], End: [0, Infinity],
  };
  const CELL = "#matrix tbody th ~ td";

  const cellOf = (target) => target instanceof Element ? target.closest(CELL) : null;
  const within = (number, most) => Math.min(Math.max(number, 0), most);

  function choose(cell) {
    cell.tabIndex = 0;
    for (const other of document.querySelectorAll(`${CELL}[tabindex]`)) {
      if (other !== cell) other.removeAttribute("tabindex");
    }
  }

  function prepare() {
    const first = document.querySelector(CELL);
    if (first && !document.querySelector(`${CELL}[tabindex]`)) choose(first);
  }

  document.addEventListener("focusin", (event) => {
    const cell = cellOf(event.target);
    if (cell && cell === event.target) choose(cell);
  });

  document.addEventListener("click", (event) => {
    const cell = cellOf(event.target);
    if (!cell || event.target.closest("a")) return;
    choose(cell);
    cell.focus();
  });

  document.addEventListener("keydown", (event) => {
    const cell = cellOf(event.target);
    const move = MOVES[event.key];
    if (!move || !cell || cell !== event.target || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    const rows = cell.closest("tbody").rows;
    const row = rows[within(cell.parentElement.sectionRowIndex + move[0], rows.length - 1)];
    const next = row.cells[Math.max(within(cell.cellIndex + move[1], row.cells.length - 1), 1)];
    choose(next);
    next.focus();
  });

  document.addEventListener("DOMContentLoaded", prepare);
  document.addEventListener("page:updated", prepare);
})();
