// Copies a text: `data-copy` of a button names its element, a form `data-ticket` has it as textarea.
// Browsers copy for pages of https and of this machine only; elsewhere the text is selected.
"use strict";

(() => {
  async function copy(source, output) {
    try {
      await navigator.clipboard.writeText(source.value ?? source.textContent);
      output.textContent = "Copied";
    } catch {
      source.hidden = false;
      if (source.select) source.select();
      else getSelection().selectAllChildren(source);
      output.textContent = "Press Ctrl+C or ⌘C to copy.";
    }
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button[data-copy]");
    if (button) copy(document.getElementById(button.dataset.copy), button);
  });

  document.addEventListener("submit", (event) => {
    const form = event.target.closest("form[data-ticket]");
    if (!form) return;
    event.preventDefault();
    copy(form.querySelector("textarea"), form.querySelector("output"));
  });

  document.addEventListener("DOMContentLoaded", () => {
    for (const button of document.querySelectorAll("button[data-copy]")) button.hidden = false;
  });
})();
