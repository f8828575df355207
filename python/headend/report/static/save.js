// @ts-check
// "SVG" saves the picture that is in the page, so that a page that was sent alone, without its folder, has it too.
(() => {
  /** @type {Record<string, string>} */
  const light = JSON.parse(document.getElementById("plots")?.textContent ?? "{}").light;

  /** @param {SVGElement} picture */
  function standalone(picture) {
    const copy = /** @type {SVGElement} */ (picture.cloneNode(true));
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    const text = new XMLSerializer().serializeToString(copy);
    // Colours for print, and plain, as not every program that reads SVG knows variables.
    return text.replace(/var\(--(\w+)\)/g, (_, name) => light[name] ?? "#000000");
  }

  for (const link of /** @type {NodeListOf<HTMLAnchorElement>} */ (document.querySelectorAll(".svg-link"))) {
    link.addEventListener("click", () => {
      const picture = link.closest(".figure")?.querySelector(".static svg");
      if (!(picture instanceof SVGElement)) return; // a ladder diagram: the link holds the file itself
      const url = URL.createObjectURL(new Blob([standalone(picture)], { type: "image/svg+xml" }));
      link.href = url;
      setTimeout(() => URL.revokeObjectURL(url), 60_000);
    });
  }
})();
