// @ts-check
// What a reader can do with the page besides its plots: theme, filter, copy, save.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const theme = /** @type {HTMLButtonElement} */ (document.getElementById("theme"));

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);

  function themed() {
    theme.textContent = isDark() ? "Light" : "Dark";
    theme.setAttribute("aria-label", `Change to the ${isDark() ? "light" : "dark"} theme`);
    document.dispatchEvent(new Event("headend:theme"));
  }

  theme.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try {
      localStorage.setItem("headend-theme", root.dataset.theme);
    } catch {
      // No storage: the choice holds until the page is closed.
    }
    themed();
  });
  dark.addEventListener("change", themed);
  themed();

  const filters = /** @type {NodeListOf<HTMLButtonElement>} */ (document.querySelectorAll(".filter button"));
  for (const button of filters) {
    button.addEventListener("click", () => {
      for (const other of filters) other.setAttribute("aria-pressed", String(other === button));
      const wanted = button.dataset.verdict;
      const rows = /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(".claims tbody tr"));
      for (const row of rows) row.hidden = Boolean(wanted) && row.dataset.verdict !== wanted;
    });
  }

  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const code = /** @type {HTMLElement} */ (button.previousElementSibling);
      const done = await copy(code);
      button.textContent = done ? "Copied" : "Selected";
      setTimeout(() => (button.textContent = "Copy"), 1500);
    });
  }

  /** @param {HTMLElement} code @returns {Promise<boolean>} whether it is on the clipboard; if not, it is selected */
  async function copy(code) {
    try {
      await navigator.clipboard.writeText(code.textContent ?? "");
      return true;
    } catch {
      getSelection()?.selectAllChildren(code);
      return false;
    }
  }

  // What scrolls by itself must be reachable without a mouse.
  const scrolling = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) target.setAttribute("tabindex", "0");
      else target.removeAttribute("tabindex");
    }
  });
  for (const wide of document.querySelectorAll(".prose > *")) scrolling.observe(wide);

  // On a phone the contents start closed; without a script they are open.
  if (matchMedia("(max-width: 1099px)").matches) document.querySelector(".contents details")?.removeAttribute("open");
})();
