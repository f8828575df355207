// @ts-check
// "SVG" and "CSV" save what is in the page, so that a page that was sent alone, without its folder, has them too.
(() => {
  /** @type {{light: Record<string, string>, panels: Record<string, any>}} */
  const { light, panels } = JSON.parse(document.getElementById("plots")?.textContent ?? "{}");

  /** Colours for print, and plain, as not every program that reads SVG knows variables.
   *  @param {Element} section */
  function svg(section) {
    const picture = section.querySelector(".static svg");
    if (!picture) return "";
    return new XMLSerializer().serializeToString(picture).replace(/var\(--(\w+)\)/g, (_, name) => light[name] ?? "#000000");
  }

  /** The numbers as the plots have them: five digits. @param {Element} section */
  function csv(section) {
    const shown = [.../** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".plot"))].map(
      (plot) => panels[plot.dataset.plot ?? ""],
    );
    if (!shown.length) return "";
    const [{ kind, x, y }] = shown;
    const unit = (/** @type {{name: string, unit: string}} */ axis) => (axis.unit ? `${axis.name} [${axis.unit}]` : axis.name);
    const ends = kind === "sequence" ? [] : kind === "quartiles" ? ["25%", "75%"] : ["95% from", "95% to"];
    const rows = [["panel", "series", unit(x), unit(y), ...ends]];
    for (const { title, curves } of shown) {
      for (const curve of curves) {
        curve.x.forEach((/** @type {number} */ at, /** @type {number} */ i) => {
          const bounds = ends.length ? [(curve.lo ?? curve.y)[i], (curve.hi ?? curve.y)[i]] : [];
          rows.push([title, curve.label, at, curve.y[i], ...bounds]);
        });
      }
    }
    return rows.map((row) => row.map(cell).join(",") + "\n").join("");
  }

  /** @param {unknown} value */
  const cell = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : String(value));

  for (const [selector, make, type] of /** @type {const} */ ([
    [".svg-link", svg, "image/svg+xml"],
    [".csv-link", csv, "text/csv"],
  ])) {
    for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(selector))) {
      link.addEventListener("click", () => {
        const section = link.closest(".figure");
        const text = section && make(section);
        if (!text) return; // a ladder diagram: the link holds the file itself
        link.href = URL.createObjectURL(new Blob([text], { type }));
      });
    }
  }
})();
