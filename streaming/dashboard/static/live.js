// Keeps a page of the current state up to date, and says how old it is. It asks the server every few
// seconds, which answers in short while the tables have not changed. A hidden tab does not ask.
"use strict";

(() => {
  // Ages grow while nothing is written.
  const AT_LEAST_EVERY_S = 30;
  const refreshS = Number(document.body.dataset.refreshS);
  const button = document.querySelector("[data-toggle-refresh]");
  let isLive = sessionStorage.getItem("refreshing") !== "no";
  let isLoading = false;
  let isHolding = false;
  let trouble = "";
  // By the clock of performance.now(), which nobody sets: of the shown page, and of any answer.
  let answeredAt = performance.getEntriesByType("navigation")[0]?.responseStart || 0;
  let heardAt = answeredAt;
  let triedAt = answeredAt;

  const sinceS = (at) => (performance.now() - at) / 1000;

  async function refresh() {
    isLoading = true;
    triedAt = performance.now();
    try {
      await loadPage(location.href, {
        isRefresh: true,
        onlyIfChanged: sinceS(answeredAt) < AT_LEAST_EVERY_S,
        isWanted: () => isLive && !document.hidden,
      });
      heardAt = performance.now();
      trouble = "";
    } catch (error) {
      trouble = error instanceof Busy ? "Server busy" : "Server unreachable";
    }
    isLoading = false;
    showAge();
  }

  function tick() {
    showAge();
    if (isLive && !document.hidden && !isLoading && sinceS(triedAt) >= refreshS) refresh();
  }

  function showAge() {
    const age = document.querySelector(".age");
    const away = document.querySelector(".away");
    if (!age || !away) return;
    const { ageMs, since, verb } = age.dataset;
    const old = agoText(Number(ageMs) / 1000 + sinceS(answeredAt));
    const state = isLive ? "" : "paused, ";
    age.textContent = trouble ? `last answer ${agoText(sinceS(heardAt))}` : `${state}${verb} ${old}${isHolding ? ", order held" : ""}`;
    age.title = localTime(new Date(since));
    if (away.textContent !== trouble) away.textContent = trouble;
  }

  function showState() {
    button.setAttribute("aria-pressed", String(isLive));
    button.textContent = isLive ? "Live" : "Paused";
    showAge();
  }

  document.addEventListener("page:updated", ({ target, detail }) => {
    if (target.id !== "main") return;
    ({ answeredAt, isHolding } = detail);
    showAge();
  });

  if (!button || !refreshS) return;
  if (document.querySelector("main form[data-editor]")) {
    button.hidden = true;
    return;
  }
  button.addEventListener("click", () => {
    isLive = !isLive;
    sessionStorage.setItem("refreshing", isLive ? "yes" : "no");
    showState();
    if (isLive) refresh();
  });
  document.addEventListener("visibilitychange", tick);
  showState();
  setInterval(tick, Math.min(1000, 1000 * refreshS));
})();
