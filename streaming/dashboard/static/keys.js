// Keys for people who look at many groups. Each of them only does what a link or a field does, too.
// The dialog that lists them can turn them off: a person who speaks to the browser types by accident.
"use strict";

(() => {
  const KEYS = [
    ["/", "search"],
    ["j", "next row"],
    ["k", "previous row"],
    ["Enter", "open the row"],
    ["x", "select the row to compare it"],
    ["?", "this list"],
  ];

  const rows = () => [...document.querySelectorAll("[data-rows] tbody tr")].filter((row) => linkOf(row));
  const linkOf = (row) => row.querySelector("th[scope='row'] a");
  const currentRow = () => document.activeElement.closest("[data-rows] tbody tr");

  // The focus is on the link of the row: Enter follows it, and a refresh keeps it.
  function move(by) {
    const all = rows();
    if (!all.length) return;
    const at = all.indexOf(currentRow());
    const row = all[at < 0 ? 0 : Math.min(Math.max(at + by, 0), all.length - 1)];
    linkOf(row).focus({ preventScroll: true });
    row.scrollIntoView({ block: "nearest" });
  }

  const areOn = () => localStorage.getItem("keys") !== "off";

  const actions = {
    "/": () => document.querySelector("#search")?.select(),
    j: () => move(1),
    k: () => move(-1),
    x: () => currentRow()?.querySelector("input[type='checkbox']")?.click(),
    "?": () => dialog().showModal(),
  };

  function dialog() {
    const keysDialog = document.getElementById("keys");
    if (keysDialog) return keysDialog;
    const made = document.createElement("dialog");
    made.id = "keys";
    made.setAttribute("aria-labelledby", "keys-title");
    made.innerHTML = '<h2 id="keys-title">Keys</h2><dl></dl><p><label><input type="checkbox"> Use these keys</label></p><form method="dialog"><button>Close</button></form>';
    for (const [key, text] of KEYS) {
      const term = document.createElement("dt");
      const meaning = document.createElement("dd");
      term.append(Object.assign(document.createElement("kbd"), { textContent: key }));
      meaning.textContent = text;
      made.querySelector("dl").append(term, meaning);
    }
    const choice = made.querySelector("input");
    choice.checked = areOn();
    choice.addEventListener("change", () => localStorage.setItem("keys", choice.checked ? "on" : "off"));
    document.body.append(made);
    return made;
  }

  document.addEventListener("keydown", (event) => {
    if (!areOn() || event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
    if (event.target.closest("dialog, textarea, select, [contenteditable]")) return;
    if (event.target.matches("input") && event.target.type !== "checkbox") return;
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
  });

  document.addEventListener("DOMContentLoaded", () => {
    if (!document.querySelector("[data-rows], #search")) return;
    const button = Object.assign(document.createElement("button"), { type: "button", className: "keys", textContent: "Keys" });
    button.addEventListener("click", () => dialog().showModal());
    document.body.append(button);
  });
})();
