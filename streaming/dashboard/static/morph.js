// Brings a shown element up to a newer one without replacing it: equal elements stay the same, and
// with them focus, scroll position, selected text, open details and typed text. Idiomorph matches
// elements by id; this script gives ids to rows and list items, and says which state a reader owns.
"use strict";

const HELD_MS = 30000;
const MOST_MARKED = 12;
const FIELDS = "input, select, textarea";
const hasMouse = matchMedia("(hover: hover)");
let lastActed = 0;

for (const action of ["pointermove", "keydown", "wheel"]) {
  document.addEventListener(action, () => { lastActed = Date.now(); }, { passive: true });
}

// Morph `shown` into `next`. In a refresh, tables under the reader's hand keep the order of their
// rows, and changed cells are marked; returns whether rows wait for their place.
function morphInto(shown, next, isRefresh) {
  for (const root of [shown, next]) identify(root);
  const isHolding = isRefresh && holdOrder(shown, next);
  const selected = selectedRange();
  const isSelected = (node) => selected && node.nodeType === Node.TEXT_NODE && selected.intersectsNode(node);
  placeRows(shown, next);
  const changed = [];
  const active = document.activeElement;
  Idiomorph.morph(shown, next.childNodes, {
    morphStyle: "innerHTML",
    callbacks: {
      beforeAttributeUpdated: (name, _, how) => name !== "open" && !(how === "remove" && isOfScripts(name)),
      beforeNodeRemoved: (node) => !isSelected(node),
      beforeNodeMorphed: (old, newer) => {
        if (old.dataset?.part) return expectPart(old, newer);
        if (old.dataset?.keep && old.dataset.keep === newer.dataset.keep) return false;
        if (isSelected(old) || isTyped(old, newer)) return false;
        if (old.dataset?.tip && newer.title) {
          newer.dataset.tip = newer.title;
          newer.removeAttribute("title");
        }
        if (old.tagName === "TD" && old.parentElement.id && old.textContent !== newer.textContent) changed.push(old);
        return true;
      },
    },
  });
  if (active !== document.activeElement && active.isConnected) active.focus({ preventScroll: true });
  if (isRefresh) mark(changed);
  return isHolding;
}

// Scripts note what they did in attributes that the server does not send.
const isOfScripts = (name) => name.startsWith("data-") || ["aria-describedby", "tabindex"].includes(name);

// Move rows to their new places, in one pass. Idiomorph would search for each.
function placeRows(shown, next) {
  const newRows = [...next.querySelectorAll("tbody > tr[id]")];
  const rows = new Map([...shown.querySelectorAll("tbody > tr[id]")].map((row) => [row.id, row]));
  const places = new Map();
  for (const newRow of newRows) {
    const row = rows.get(newRow.id);
    if (!row) continue;
    const body = row.parentElement;
    const place = places.has(body) ? places.get(body) : body.firstElementChild;
    if (row === place) {
      places.set(body, row.nextElementSibling);
    } else {
      if (body.moveBefore) body.moveBefore(row, place);
      else body.insertBefore(row, place);
      places.set(body, place);
    }
  }
}

// A part stays as it is until its newer text has been loaded; it is loaded again unless it has the
// data-keep and the address of the newer page.
function expectPart(part, newer) {
  const isSame = newer.dataset.keep && newer.dataset.keep === part.dataset.keep && newer.dataset.part === part.dataset.part;
  if (!isSame) delete part.dataset.loaded;
  Object.assign(part.dataset, newer.dataset);
  return false;
}

// Rows are the same if their data-key is, or the link or text of their row header; list items by
// their link, and kept elements by their data-keep.
function identify(root) {
  const numbers = new Map();
  for (const element of root.querySelectorAll("[data-part], [data-keep], tbody > tr, li")) {
    const key = keyOf(element);
    if (!key || (element.id && !element.id.startsWith("same:"))) continue;
    const number = numbers.get(key) || 0;
    numbers.set(key, number + 1);
    element.id = `same:${encodeURIComponent(key)}:${number}`;
  }
}

function keyOf(element) {
  if (element.dataset.part) return `part ${element.dataset.part.split("?")[0]} ${element.closest("section")?.getAttribute("aria-labelledby")}`;
  if (element.dataset.keep) return `keep ${element.dataset.keep}`;
  const header = element.matches("tr") ? element.querySelector(":scope > th") : element;
  const own = element.dataset.key || header?.querySelector("a")?.getAttribute("href") || (element.matches("tr") && header?.textContent);
  return own && `${element.closest("table")?.caption?.textContent} ${own}`;
}

// The selected text; null if there is none. Asking for it lays out the page, so ask once.
function selectedRange() {
  const selection = getSelection();
  return selection.isCollapsed ? null : selection.getRangeAt(0);
}

// Whether a field has something that a person put into it and the newer page does not have.
function isTyped(old, newer) {
  if (!(old instanceof Element) || !old.matches(FIELDS)) return false;
  if (old === document.activeElement) return true;
  if (old.matches("[type=checkbox], [type=radio]")) return old.checked !== old.defaultChecked;
  const first = old.matches("select") ? ([...old.options].find((option) => option.defaultSelected) || old.options[0])?.value : old.defaultValue;
  return old.value !== first && old.value !== newer.value;
}

// Whether a reader is at work in a table: the mouse is over its rows, or focus or selection in them.
function isHeld(table) {
  if (Date.now() - lastActed > HELD_MS) return false;
  const selected = selectedRange();
  return [...table.tBodies].some((body) =>
    (hasMouse.matches && body.matches(":hover"))
    || body.contains(document.activeElement)
    || selected?.intersectsNode(body));
}

const isAnyHeld = () => [...document.querySelectorAll("main table")].some(isHeld);

// Give the newer rows of held tables the places of the shown ones. Rows that are gone stay, marked;
// new rows wait.
function holdOrder(shown, next) {
  let isHolding = false;
  for (const table of [...shown.querySelectorAll("table")].filter(isHeld)) {
    const newer = [...next.querySelectorAll("table")].find((newTable) => newTable.caption?.textContent === table.caption?.textContent);
    for (const [number, body] of [...table.tBodies].entries()) {
      const rows = [...body.rows];
      const newRows = new Map([...(newer?.tBodies[number]?.rows || [])].map((row) => [row.id, row]));
      const ids = rows.map((row) => row.id);
      if (!newer || ids.includes("") || ids.join() === [...newRows.keys()].join()) continue;
      isHolding = true;
      newer.tBodies[number].replaceChildren(...rows.map((row) => newRows.get(row.id) || gone(row)));
    }
  }
  return isHolding;
}

function gone(row) {
  const copy = row.cloneNode(true);
  copy.classList.add("gone");
  return copy;
}

// Show changed cells for a moment: each new status, and the others if they are few.
function mark(cells) {
  const marked = cells.length > MOST_MARKED ? cells.filter((cell) => cell.querySelector(".status")) : cells;
  for (const cell of marked) {
    cell.classList.add("changed");
    cell.addEventListener("animationend", () => cell.classList.remove("changed"), { once: true });
  }
}
