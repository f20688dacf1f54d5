// Keeps a page of the current state up to date, and says how old it is. The server tells of changes
// by a stream; without one the page polls. A hidden tab does neither.
"use strict";

(() => {
  const AT_LEAST_EVERY_S = 30;
  const TRY_STREAM_EVERY_MS = 60000;
  const refreshS = Number(document.body.dataset.refreshS);
  const button = document.querySelector("[data-toggle-refresh]");
  let isLive = sessionStorage.getItem("refreshing") !== "no";
  let isPolling = false;
  let isLoading = false;
  let isHolding = false;
  let changedAt = 0;
  let trouble = "";
  // By the clock of performance.now(), which nobody sets.
  let answeredAt = performance.getEntriesByType("navigation")[0]?.responseStart || 0;
  let triedAt = answeredAt;
  let stream = null;

  const shownAge = () => document.querySelector(".age");
  const readAt = () => Number(shownAge()?.dataset.readAt) || 0;
  const sinceS = (at) => (performance.now() - at) / 1000;

  async function refresh() {
    isLoading = true;
    triedAt = performance.now();
    try {
      await loadPage(location.href, { isRefresh: true, isWanted: () => isLive && !document.hidden });
      trouble = "";
    } catch (error) {
      trouble = error instanceof Busy ? "Server busy" : "Server unreachable";
    }
    isLoading = false;
    showAge();
  }

  function tick() {
    showAge();
    if (!isLive || document.hidden || isLoading) return;
    const isBehind = isPolling || trouble || readAt() < changedAt || !readAt();
    if (sinceS(triedAt) >= (isBehind ? refreshS : Math.max(AT_LEAST_EVERY_S, refreshS))) refresh();
  }

  function showAge() {
    const age = shownAge();
    const away = document.querySelector(".away");
    if (!age || !away) return;
    const { ageMs, since, verb } = age.dataset;
    const old = agoText(Number(ageMs) / 1000 + sinceS(answeredAt));
    const state = isLive ? "" : "paused, ";
    age.textContent = trouble ? `last answer ${agoText(sinceS(answeredAt))}` : `${state}${verb} ${old}${isHolding ? ", order held" : ""}`;
    age.title = localTime(new Date(since));
    if (away.textContent !== trouble) away.textContent = trouble;
  }

  function receive(message) {
    if (message === "refused") {
      isPolling = true;
      setTimeout(watch, TRY_STREAM_EVERY_MS);
      return;
    }
    if (message !== "lost") {
      isPolling = false;
      changedAt = Number(message);
    }
    // Something else than before: look at once.
    if ((message === "lost") !== (trouble !== "") && isLive && !isLoading) refresh();
    else tick();
  }

  function watch() {
    stream ||= connectStream(document.body.dataset.live, receive);
    stream.postMessage(isLive && !document.hidden ? "watch" : "leave");
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
    watch();
    if (isLive) refresh();
  });
  document.addEventListener("visibilitychange", () => {
    watch();
    tick();
  });
  addEventListener("pagehide", () => stream?.postMessage("leave"));
  showState();
  watch();
  setInterval(tick, 1000);
})();
