// The rows of the overview: draws sparklines into them, and keeps selected rows across refreshes.
"use strict";

(() => {
  const REDRAW_MS = 30_000;
  const selected = new Set();
  const lines = new Map();
  let asked = "";
  let askedAt = 0;

  const boxes = () => document.querySelectorAll('[data-rows] input[name="group"]');

  function drawLines() {
    for (const cell of document.querySelectorAll("[data-spark]")) {
      const line = lines.get(cell.dataset.spark);
      if (line && !cell.firstChild) cell.append(line.cloneNode(true));
    }
  }

  // Load the sparklines of these rows, at most every REDRAW_MS while the rows stay.
  async function loadLines() {
    const cells = [...document.querySelectorAll("[data-spark]")];
    if (!cells.length) return;
    const address = document.querySelector("[data-sparks]").dataset.sparks;
    const missing = cells.some((cell) => !lines.has(cell.dataset.spark));
    const isOld = performance.now() - askedAt > REDRAW_MS;
    if (!isOld && (address === asked || !missing)) return;
    asked = address;
    askedAt = performance.now();
    const answer = await fetch(address);
    if (!answer.ok || answer.redirected) throw new Error(`the server answered ${answer.status}`);
    const html = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (address !== asked) return;
    for (const item of html.querySelectorAll(".part [data-of]")) {
      lines.set(item.dataset.of, document.importNode(item.querySelector("svg"), true));
    }
    for (const cell of document.querySelectorAll("[data-spark]")) cell.replaceChildren();
    drawLines();
  }

  function showSelected() {
    for (const box of boxes()) box.checked = selected.has(box.value);
    const button = document.querySelector("[data-compare]");
    if (!button) return;
    button.textContent = `Compare selected groups${selected.size ? ` (${selected.size})` : ""}`;
  }

  function show() {
    showSelected();
    drawLines();
    // A busy server is asked again at a later refresh.
    loadLines().catch(() => { asked = ""; });
  }

  document.addEventListener("change", (event) => {
    if (!event.target.matches('[data-rows] input[name="group"]')) return;
    if (event.target.checked) selected.add(event.target.value);
    else selected.delete(event.target.value);
    showSelected();
  });

  // Groups that were selected on other pages of the table are compared, too.
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "compare") return;
    const shown = new Set([...boxes()].map((box) => box.value));
    for (const value of [...selected].filter((groupId) => !shown.has(groupId))) {
      const field = document.createElement("input");
      Object.assign(field, { type: "hidden", name: "group", value });
      event.target.append(field);
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    // A browser that goes back restores the boxes.
    for (const box of boxes()) if (box.checked) selected.add(box.value);
    show();
    let focused = null;
    document.addEventListener("focusin", (event) => {
      focused = event.target.matches('[data-rows] input[name="group"]') ? event.target.value : null;
    });
    document.addEventListener("page:updated", () => {
      show();
      if (focused === null || document.activeElement !== document.body) return;
      [...boxes()].find((box) => box.value === focused)?.focus({ preventScroll: true });
    });
  });
})();
