// Shows times in the reader's zone, filters while the user types, and refreshes the page.
// Without this script every page still works, in UTC and with its buttons.
"use strict";

(() => {
  const DEBOUNCE_MS = 150;
  let isRefreshing = sessionStorage.getItem("refreshing") !== "no";
  let timer = 0;
  let lastRequest = 0;

  function showTimes(root) {
    for (const time of root.querySelectorAll("time")) {
      const at = new Date(time.dateTime);
      if (time.title || Number.isNaN(at.getTime())) continue;
      time.title = time.textContent;
      time.textContent = localTime(at);
    }
  }

  function addressOf(form) {
    const wanted = new URL(form.action || location.href);
    wanted.search = new URLSearchParams(
      [...new FormData(form)].filter(([, value]) => value !== "")
    ).toString();
    return wanted;
  }

  // Replace the main element by a newer one; elements marked data-keep are kept.
  function replaceMain(html) {
    const next = new DOMParser().parseFromString(html, "text/html");
    const main = document.getElementById("main");
    const other = next.getElementById("main");
    if (!other) return;
    for (const kept of main.querySelectorAll("[data-keep]")) {
      for (const new_ of other.querySelectorAll("[data-keep]")) {
        if (new_.dataset.keep === kept.dataset.keep) new_.replaceWith(kept);
      }
    }
    const active = document.activeElement;
    const open = new Set([...main.querySelectorAll("details[open] summary")].map((one) => one.textContent));
    for (const summary of other.querySelectorAll("details summary")) {
      if (open.has(summary.textContent)) summary.parentElement.open = true;
    }
    const scrolled = [...main.querySelectorAll(".wide")].map((one) => one.scrollLeft);
    // Keep the filter form while the user types in it.
    const form = main.querySelector("form[data-live]");
    const newForm = other.querySelector("form[data-live]");
    if (form && newForm && form.contains(active)) newForm.replaceWith(form);
    const place = placeOf(active, main);
    main.replaceChildren(...other.childNodes);
    [...main.querySelectorAll(".wide")].forEach((one, number) => { one.scrollLeft = scrolled[number] || 0; });
    if (form && form.contains(active)) active.focus();
    if (place) main.querySelectorAll(place.like)[place.number]?.focus({ preventScroll: true });
    const travel = document.querySelector("form.travel");
    const newTravel = next.querySelector("form.travel");
    if (travel && newTravel && !travel.contains(active)) travel.replaceWith(newTravel);
    const footer = document.querySelector("footer");
    footer.replaceChildren(...next.querySelector("footer").childNodes);
    document.title = next.title;
    showTimes(document);
    drawCharts(main);
    loadParts(main);
  }

  // The focused element, as a selector and the index among its matches.
  function placeOf(active, main) {
    if (!main.contains(active)) return null;
    const href = active.getAttribute("href");
    const like = href ? `a[href="${CSS.escape(href)}"]` : active.matches("summary, .wide") ? "summary, .wide" : null;
    return like && { like, number: [...main.querySelectorAll(like)].indexOf(active) };
  }

  // Load the parts that take longer than their page. A busy server is asked again at the next refresh.
  function loadParts(root) {
    for (const part of root.querySelectorAll("[data-part]:not([data-loaded])")) {
      part.dataset.loaded = "yes";
      fetch(part.dataset.part).then(async (answer) => {
        if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
        const html = new DOMParser().parseFromString(await answer.text(), "text/html");
        part.replaceChildren(...html.querySelector(".part").childNodes);
        showTimes(part);
      }).catch(() => delete part.dataset.loaded);
    }
  }

  async function load(address, isWanted = () => true) {
    const number = ++lastRequest;
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    // The session has ended: reload, so that the user can sign in.
    if (answer.redirected) {
      location.reload();
      return;
    }
    // The server is busy: keep the page, and retry at the next refresh.
    if (answer.status === 503) throw new Error("busy");
    const html = await answer.text();
    if (number === lastRequest && isWanted()) replaceMain(html);
  }

  const isBusy = () => {
    const fields = document.querySelectorAll("main form:not([data-live]) input, main form:not([data-live]) textarea");
    const isWriting = [...fields].some((one) => one === document.activeElement || one.value !== one.defaultValue);
    return document.hidden || isWriting || String(getSelection()) !== "";
  };

  async function refresh(seconds) {
    if (isRefreshing && !isBusy()) {
      try {
        await load(location.href, () => isRefreshing && !isBusy());
        document.body.classList.remove("stale");
      } catch {
        document.body.classList.add("stale");
      }
    }
    setTimeout(refresh, 1000 * seconds, seconds);
  }

  function showRefreshing(button) {
    button.setAttribute("aria-pressed", String(isRefreshing));
    button.textContent = isRefreshing ? "Refreshing" : "Paused";
  }

  document.addEventListener("input", (event) => {
    const form = event.target.closest("form[data-live]");
    if (!form) return;
    clearTimeout(timer);
    timer = setTimeout(() => {
      const wanted = addressOf(form);
      history.replaceState(null, "", wanted);
      load(wanted).catch(() => form.submit());
    }, DEBOUNCE_MS);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target;
    for (const name of ["at", "since", "until"]) {
      const field = form.elements.namedItem(name);
      if (field && field.type === "text") field.value = inUtc(field.value);
    }
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.target.closest("form[data-editor]")?.requestSubmit();
    }
  });

  document.addEventListener("DOMContentLoaded", () => {
    showTimes(document);
    drawCharts(document);
    loadParts(document);
    const button = document.querySelector("[data-toggle-refresh]");
    if (button) {
      showRefreshing(button);
      button.addEventListener("click", () => {
        isRefreshing = !isRefreshing;
        sessionStorage.setItem("refreshing", isRefreshing ? "yes" : "no");
        showRefreshing(button);
      });
    }
    const seconds = Number(document.body.dataset.refreshS);
    if (seconds && document.querySelector("main:not(:has(form[data-editor]))")) {
      setTimeout(refresh, 1000 * seconds, seconds);
    }
  });
})();
