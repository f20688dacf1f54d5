// Shows times in the reader's zone, filters while the user types, and loads slow parts and newer
// pages. Without this script every page still works, in UTC and with its buttons. After each update
// the updated element gets the event "page:updated", which bubbles to the document.
"use strict";

class Busy extends Error {}

let lastRequest = 0;
let waiting = null;
let shown = { address: "", tag: null };

function showTimes(root) {
  for (const time of root.querySelectorAll("time")) {
    const at = new Date(time.dateTime);
    if (time.title || Number.isNaN(at.getTime())) continue;
    time.title = time.textContent;
    time.textContent = localTime(at);
  }
}

function tellOfUpdate(element, detail = {}) {
  element.dispatchEvent(new CustomEvent("page:updated", { bubbles: true, detail }));
}

// Load a page and bring the shown one up to it. `isRefresh` says that it is the same page, newer.
async function loadPage(address, { isRefresh = false, onlyIfChanged = false, isWanted = () => true } = {}) {
  const number = ++lastRequest;
  const headers = { Accept: "text/html" };
  if (onlyIfChanged && shown.tag && shown.address === String(address)) headers["If-None-Match"] = shown.tag;
  const answer = await fetch(address, { headers });
  if (answer.status === 304) return;
  // The session has ended: reload, so that the user can sign in.
  if (answer.redirected) {
    location.reload();
    return;
  }
  if (answer.status === 503) throw new Busy("the server is busy");
  if (answer.status > 500) throw new Error(`the server answered ${answer.status}`);
  const html = await answer.text();
  if (number !== lastRequest || !isWanted()) return;
  shown = { address: String(address), tag: answer.headers.get("ETag") };
  showPage(html, isRefresh);
}

function showPage(html, isRefresh, answeredAt = performance.now()) {
  const next = new DOMParser().parseFromString(html, "text/html");
  const main = document.getElementById("main");
  const newMain = next.getElementById("main");
  if (!newMain) return;
  showTimes(next);
  const isHolding = morphInto(main, newMain, isRefresh);
  waiting = isHolding ? { html, answeredAt } : null;
  for (const name of [".travel", "footer"]) {
    const [shown, newer] = [document.querySelector(name), next.querySelector(name)];
    if (shown && newer) morphInto(shown, newer, false);
  }
  Object.assign(document.querySelector(".age")?.dataset || {}, next.querySelector(".age")?.dataset);
  document.title = next.title;
  loadParts(main);
  tellOfUpdate(main, { isHolding, answeredAt });
}

// Load the parts that take longer than their page. A busy server is asked again at the next refresh.
function loadParts(root) {
  for (const part of root.querySelectorAll("[data-part]:not([data-loaded])")) {
    const address = part.dataset.part;
    part.dataset.loaded = "yes";
    fetch(address).then(async (answer) => {
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const html = new DOMParser().parseFromString(await answer.text(), "text/html");
      // The page may have moved on to another period.
      if (part.dataset.part !== address) return;
      showTimes(html);
      morphInto(part, html.querySelector(".part"), false);
      tellOfUpdate(part);
    }).catch(() => {
      if (part.dataset.part === address) delete part.dataset.loaded;
    });
  }
}

(() => {
  const DEBOUNCE_MS = 150;
  let timer = 0;

  function addressOf(form) {
    const wanted = new URL(form.action || location.href);
    wanted.search = new URLSearchParams(
      [...new FormData(form)].filter(([, value]) => value !== "")
    ).toString();
    return wanted;
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-live]");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const wanted = addressOf(form);
      history.replaceState(null, "", wanted);
      loadPage(wanted).catch(() => form.submit());
    }, DEBOUNCE_MS);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    for (const name of ["at", "since", "until", "moment"]) {
      const field = form.elements.namedItem(name);
      if (field && field.type === "text") field.value = inUtc(field.value);
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.target.closest("form[data-editor]")?.requestSubmit();
    }
  });

  // Rows that waited take their places when the reader's hand leaves the table.
  for (const leaving of ["pointerout", "focusout", "selectionchange"]) {
    document.addEventListener(leaving, () => {
      if (waiting) setTimeout(() => { if (waiting && !isAnyHeld()) showPage(waiting.html, true, waiting.answeredAt); }, 100);
    });
  }

  showTimes(document);
  loadParts(document);
})();
