// Explanations of statuses, states and times, on hover and on focus. Escape hides them.
// Without this script the browser shows the title of the element, on hover only.
"use strict";

(() => {
  const tip = document.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "tooltip");
  tip.hidden = true;
  let shownFor = null;

  function textOf(element) {
    if (element.title) {
      element.dataset.tip = element.title;
      element.removeAttribute("title");
    }
    const at = element.matches("time[data-ago]") && new Date(element.dateTime);
    return at ? `${localTime(at)} (${element.dataset.tip})` : element.dataset.tip;
  }

  function show(element) {
    tip.textContent = textOf(element);
    tip.hidden = false;
    shownFor = element;
    if (element.tabIndex >= 0) element.setAttribute("aria-describedby", "tip");
    put(element);
  }

  function put(element) {
    const place = element.getBoundingClientRect();
    const left = Math.min(place.left, document.documentElement.clientWidth - tip.offsetWidth - 8);
    // Without a gap: the pointer can move onto the explanation.
    const isBelow = place.bottom + tip.offsetHeight < innerHeight;
    tip.style.left = `${Math.max(left, 8)}px`;
    tip.style.top = `${isBelow ? place.bottom : place.top - tip.offsetHeight}px`;
  }

  function hide() {
    shownFor?.removeAttribute("aria-describedby");
    shownFor = null;
    tip.hidden = true;
  }

  function follow(event) {
    if (event.target === tip) return;
    const element = event.target.closest?.("main [title], main [data-tip]");
    if (element === shownFor) return;
    hide();
    if (element) show(element);
  }

  document.addEventListener("pointerover", follow);
  document.addEventListener("focusin", follow);
  document.addEventListener("scroll", () => shownFor && put(shownFor), { capture: true, passive: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") hide();
  });
  document.addEventListener("DOMContentLoaded", () => document.body.append(tip));
})();
