// @ts-check
// Plots: uPlot gives axes, zoom and cursor; curves, bands and markers are drawn here, so that they look like the SVG.

/**
 * @typedef {{name: string, unit: string, log: boolean}} Axis
 * @typedef {{label: string, base: string, variant: string, ink: string, marker: string, style: string, reference: boolean,
 *   x: number[], y: number[], lo?: number[], hi?: number[]}} Curve
 * @typedef {{kind: string, title: string, x: Axis, y: Axis, pauses: [number, number][], curves: Curve[]}} Panel
 * @typedef {{panel: Panel, plot: uPlot, shown: Set<Curve>, home: () => void}} Chart
 */

(() => {
  /** @type {Record<string, Panel>} */
  const panels = JSON.parse(document.getElementById("plots")?.textContent ?? "{}").panels;
  const readout = /** @type {HTMLElement} */ (document.getElementById("readout"));
  const root = document.documentElement;

  /** @param {string} name of a variable of the palette */
  const ink = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

  /** @param {number} value @param {number} [digits] */
  function shown(value, digits = 4) {
    const short = Number(value.toPrecision(digits));
    return String(short).replace("-", "\u2212");
  }

  // ---- drawing

  /** Markers by name: a path around the origin, of radius 1. @type {Record<string, (p: Path2D, r: number) => void>} */
  const markers = {
    circle: (p, r) => p.arc(0, 0, r, 0, 2 * Math.PI),
    square: (p, r) => p.rect(-0.88 * r, -0.88 * r, 1.76 * r, 1.76 * r),
    triangle: (p, r) => polygon(p, 3, 1.25 * r, -Math.PI / 2),
    down: (p, r) => polygon(p, 3, 1.25 * r, Math.PI / 2),
    diamond: (p, r) => polygon(p, 4, 1.25 * r, 0),
    plus: (p, r) => cross(p, r, 0),
    cross: (p, r) => cross(p, r, Math.PI / 4),
    star: (p, r) => star(p, 1.4 * r),
  };

  /** @param {Path2D} p @param {number} corners @param {number} r @param {number} turn */
  function polygon(p, corners, r, turn) {
    for (let i = 0; i < corners; i++) {
      const a = turn + (2 * Math.PI * i) / corners;
      p.lineTo(r * Math.cos(a), r * Math.sin(a));
    }
    p.closePath();
  }

  /** @param {Path2D} p @param {number} r @param {number} turn */
  function cross(p, r, turn) {
    const [long, thin] = [1.25 * r, 0.42 * r];
    const corners = [];
    for (let i = 0; i < 4; i++) {
      for (const [x, y] of [[long, -thin], [long, thin], [thin, thin]]) {
        const a = turn + (Math.PI * i) / 2;
        corners.push([x * Math.cos(a) - y * Math.sin(a), x * Math.sin(a) + y * Math.cos(a)]);
      }
    }
    for (const [x, y] of corners) p.lineTo(x, y);
    p.closePath();
  }

  /** @param {Path2D} p @param {number} r */
  function star(p, r) {
    for (let i = 0; i < 10; i++) {
      const [a, d] = [-Math.PI / 2 + (Math.PI * i) / 5, i % 2 ? 0.45 * r : r];
      p.lineTo(d * Math.cos(a), d * Math.sin(a));
    }
    p.closePath();
  }

  /** @param {string} name @param {number} r */
  function marker(name, r) {
    const path = new Path2D();
    (markers[name] ?? markers.circle)(path, r);
    return path;
  }

  /** @param {Chart} chart */
  function draw({ panel, plot, shown }) {
    const { ctx, bbox } = plot;
    const ratio = uPlot.pxRatio;
    /** @param {number} v */
    const px = (v) => plot.valToPos(v, "x", true);
    /** @param {number} v */
    const py = (v) => plot.valToPos(v, "y", true);
    ctx.save();
    ctx.beginPath();
    // A marker on the edge of the plot is drawn whole.
    ctx.rect(bbox.left - 6 * ratio, bbox.top - 6 * ratio, bbox.width + 12 * ratio, bbox.height + 12 * ratio);
    ctx.clip();
    ctx.lineJoin = "round";
    const curves = panel.curves.filter((curve) => shown.has(curve) && curve.x.length);
    for (const curve of curves) {
      if (!curve.reference) band(ctx, curve, px, py, panel.kind === "quartiles" && !curve.variant ? ratio : 0);
    }
    for (const curve of curves) line(ctx, curve, px, py, ratio, panel.kind === "sequence");
    ctx.restore();
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Curve} curve @param {(v: number) => number} px
   *  @param {(v: number) => number} py @param {number} bar width of a bar at every point, 0 for none */
  function band(ctx, { x, lo, hi, ink: name, variant }, px, py, bar) {
    if (!lo || !hi) return;
    const path = new Path2D();
    const bars = new Path2D();
    x.forEach((v, i) => path.lineTo(px(v), py(hi[i])));
    for (let i = x.length - 1; i >= 0; i--) path.lineTo(px(x[i]), py(lo[i]));
    path.closePath();
    x.forEach((v, i) => {
      bars.moveTo(px(v), py(lo[i]));
      bars.lineTo(px(v), py(hi[i]));
    });
    ctx.fillStyle = ctx.strokeStyle = ink(name);
    ctx.globalAlpha = variant ? 0.07 : 0.16;
    ctx.fill(path);
    ctx.globalAlpha = 0.6;
    if (bar) {
      ctx.lineWidth = bar;
      ctx.setLineDash([]);
      ctx.stroke(bars);
    }
    ctx.globalAlpha = 1;
  }

  /** @param {CanvasRenderingContext2D} ctx @param {Curve} curve @param {(v: number) => number} px
   *  @param {(v: number) => number} py @param {number} ratio @param {boolean} packets */
  function line(ctx, curve, px, py, ratio, packets) {
    ctx.strokeStyle = ink(curve.ink);
    ctx.fillStyle = curve.reference ? ink("card") : ink(curve.ink);
    if (!packets && curve.style !== "points") {
      const path = new Path2D();
      curve.x.forEach((v, i) => path.lineTo(px(v), py(curve.y[i])));
      stroke(ctx, curve, ratio);
      ctx.stroke(path);
    }
    ctx.setLineDash([]);
    if (curve.style === "trace") return;
    ctx.lineWidth = 1.1 * ratio;
    const shape = marker(curve.marker, (packets ? (curve.ink === "c0" ? 1.5 : 2.2) : curve.variant ? 2.8 : 3.4) * ratio);
    curve.x.forEach((v, i) => {
      const [x, y] = [px(v), py(curve.y[i])];
      ctx.translate(x, y);
      ctx.fill(shape);
      if (curve.reference) ctx.stroke(shape);
      ctx.translate(-x, -y);
    });
  }

  /** Width and dashes of a curve's line. @param {CanvasRenderingContext2D} ctx @param {Curve} curve @param {number} ratio */
  function stroke(ctx, { reference, variant, style }, ratio) {
    const dashed = style === "dashed" || variant;
    ctx.lineWidth = (reference ? 1 : dashed ? 1.3 : 1.75) * ratio;
    ctx.setLineDash((reference ? [1.5, 3] : dashed ? [6, 4] : []).map((length) => length * ratio));
  }

  /** Silences of the sender, behind everything. @param {Panel} panel @param {uPlot} plot */
  function pauses(panel, plot) {
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = ink("pause");
    for (const [from, to] of panel.pauses) {
      const [a, b] = [plot.valToPos(from, "x", true), plot.valToPos(to, "x", true)];
      ctx.fillRect(a, bbox.top, b - a, bbox.height);
    }
    ctx.restore();
  }

  // ---- scales

  /** The range of the values with room around it. @param {number[]} values @param {boolean} log @param {boolean} floor
   *  start at zero if nothing is below @returns {[number, number]} */
  function range(values, log, floor) {
    const usable = values.filter((v) => Number.isFinite(v) && (!log || v > 0));
    if (!usable.length) return log ? [1, 10] : [0, 1];
    let [min, max] = [Infinity, -Infinity];
    for (const v of usable) [min, max] = [Math.min(min, v), Math.max(max, v)];
    if (log) return [min / 1.15, max * 1.15];
    if (floor && min >= 0) return [0, max * 1.07 || 1];
    const room = (max - min || Math.abs(max) || 1) * (floor ? 0.07 : 0.025);
    return [min - room, max + room];
  }

  /** Ticks at 1, 2, 5 and their tenfolds; fewer if there are many decades. @param {number} min @param {number} max */
  function decades(min, max) {
    const ticks = [];
    const steps = Math.log10(max / min) > 3.2 ? [1] : [1, 2, 5];
    for (let e = Math.floor(Math.log10(min)); e <= Math.ceil(Math.log10(max)); e++) {
      for (const step of steps) {
        const v = step * 10 ** e;
        if (v >= min && v <= max) ticks.push(Number(v.toPrecision(3)));
      }
    }
    return ticks;
  }

  /** @param {boolean} log @param {number} size @returns {uPlot.Axis} */
  function axis(log, size) {
    /** @type {uPlot.Axis} */
    const options = {
      stroke: () => ink("soft"),
      grid: { stroke: () => ink("line"), width: 1 },
      ticks: { stroke: () => ink("line"), width: 1, size: 5 },
      font: '12px system-ui, "Helvetica Neue", Arial, sans-serif',
      gap: 4,
      size,
      values: (_, ticks) => ticks.map((v) => (v === null ? "" : shown(v, 6))),
    };
    if (log) {
      options.splits = (_, __, min, max) => decades(min, max);
      options.filter = (_, ticks) => ticks;
    }
    return options;
  }

  // ---- one chart

  /** @param {HTMLElement} box @param {Panel} panel @param {(on?: boolean) => void} zoomed @returns {Chart} */
  function make(box, panel, zoomed) {
    const visible = new Set(panel.curves);
    /** @type {Chart} */
    const chart = { panel, plot: /** @type {any} */ (null), shown: visible, home };

    /** @param {"x" | "y"} key @returns {[number, number]} */
    function whole(key) {
      const curves = panel.curves.filter((curve) => visible.has(curve));
      const values = curves.flatMap((c) => (key === "x" ? c.x : [...c.y, ...(c.reference ? [] : [...(c.lo ?? []), ...(c.hi ?? [])])]));
      return range(values, panel[key].log, key === "y");
    }

    function home() {
      const [x, y] = [whole("x"), whole("y")];
      chart.plot.batch(() => {
        chart.plot.setScale("x", { min: x[0], max: x[1] });
        chart.plot.setScale("y", { min: y[0], max: y[1] });
      });
    }

    /** @param {Axis} of @returns {uPlot.Scale} */
    const scale = (of) => ({ time: false, auto: false, distr: of.log ? 3 : 1, range: (_, min, max) => [min, max] });
    chart.plot = new uPlot(
      {
        ...size(box),
        padding: [8, 10, 0, 0],
        scales: { x: scale(panel.x), y: scale(panel.y) },
        axes: [axis(panel.x.log, 32), axis(panel.y.log, 46)],
        series: [{}, { paths: () => null, points: { show: false } }],
        legend: { show: false },
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: true, uni: 24, setScale: true },
          bind: { dblclick: () => () => (home(), zoomed(), null) },
        },
        hooks: {
          drawClear: [(u) => pauses(panel, u)],
          draw: [(u) => chart.plot && draw({ ...chart, plot: u })],
          setCursor: [(u) => chart.plot && read(chart, u)],
          setSelect: [() => zoomed(true)],
        },
      },
      // uPlot wants data of its own; what is drawn comes from the panel.
      [whole("x"), whole("y")],
      box,
    );
    home();
    keys(box, chart);
    pinch(chart.plot, () => zoomed(true));
    new ResizeObserver(() => {
      const { width, height } = size(box);
      if (width && (width !== chart.plot.width || height !== chart.plot.height)) chart.plot.setSize({ width, height });
    }).observe(box);
    return chart;
  }

  /** The arrow keys go from point to point, Home to the whole range, Escape away. @param {HTMLElement} box @param {Chart} chart */
  function keys(box, chart) {
    let at = -1;
    box.addEventListener("keydown", (event) => {
      const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
      if (step) {
        const points = [...chart.shown].flatMap(({ x, y }) => x.map((v, i) => ({ x: v, y: y[i] }))).sort((a, b) => a.x - b.x);
        const each = chart.panel.kind === "sequence" ? points : points.filter(({ x }, i) => !i || x !== points[i - 1].x);
        if (!each.length) return;
        at = Math.min(Math.max(at + step, 0), each.length - 1);
        chart.plot.setCursor({ left: chart.plot.valToPos(each[at].x, "x"), top: chart.plot.valToPos(each[at].y, "y") });
      } else if (event.key === "Home") chart.home();
      else if (event.key === "Escape") readout.hidden = true;
      else return;
      event.preventDefault();
    });
    box.addEventListener("blur", () => (readout.hidden = true));
  }

  /** @param {HTMLElement} box */
  function size(box) {
    const width = Math.floor(box.clientWidth);
    return { width, height: Math.round(Math.min(400, Math.max(240, width * 0.56))) };
  }

  /** Two fingers zoom. @param {uPlot} plot @param {() => void} zoomed */
  function pinch(plot, zoomed) {
    /** @type {{x: [number, number], y: [number, number], spread: number, at: [number, number]} | null} */
    let grip = null;
    /** @param {TouchEvent} event */
    const fingers = ({ touches: [a, b] }) => {
      const over = plot.over.getBoundingClientRect();
      const at = /** @type {[number, number]} */ ([(a.clientX + b.clientX) / 2 - over.left, (a.clientY + b.clientY) / 2 - over.top]);
      return { spread: Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY) || 1, at };
    };
    plot.over.addEventListener("touchstart", (event) => {
      if (event.touches.length !== 2) return;
      const { x, y } = plot.scales;
      grip = { x: [x.min ?? 0, x.max ?? 1], y: [y.min ?? 0, y.max ?? 1], ...fingers(event) };
    }, { passive: true });
    plot.over.addEventListener("touchmove", (event) => {
      if (!grip || event.touches.length !== 2) return;
      event.preventDefault();
      const { spread } = fingers(event);
      const [left, top] = grip.at;
      const held = grip;
      plot.batch(() => {
        for (const [key, share] of /** @type {["x" | "y", number][]} */ ([["x", left / plot.over.clientWidth], ["y", 1 - top / plot.over.clientHeight]])) {
          const log = plot.scales[key].distr === 3;
          const [min, max] = held[key].map((v) => (log ? Math.log(v) : v));
          const still = min + share * (max - min);
          const ends = [min, max].map((end) => still + ((end - still) * held.spread) / spread);
          plot.setScale(key, { min: log ? Math.exp(ends[0]) : ends[0], max: log ? Math.exp(ends[1]) : ends[1] });
        }
      });
      zoomed();
    }, { passive: false });
    plot.over.addEventListener("touchend", () => (grip = null), { passive: true });
  }

  // ---- read-out

  /** @param {Chart} chart @param {uPlot} plot */
  function read(chart, plot) {
    const { left = -1, top = -1 } = plot.cursor;
    const rows = left < 0 ? [] : chart.panel.kind === "sequence" ? packet(chart, plot, left, top) : values(chart, plot, left);
    readout.hidden = !rows.length;
    readout.replaceChildren(...rows);
    if (!rows.length) return;
    const over = plot.over.getBoundingClientRect();
    const { offsetWidth: width, offsetHeight: height } = readout;
    const room = root.clientWidth - width - 8;
    const beside = over.left + left + 16 > room ? over.left + left - width - 16 : over.left + left + 16;
    readout.style.left = `${Math.max(8, Math.min(beside, room))}px`;
    readout.style.top = `${Math.max(8, Math.min(over.top + top - height - 14, innerHeight - height - 8))}px`;
  }

  /** Every visible curve's value at the swept point nearest to the cursor.
   *  @param {Chart} chart @param {uPlot} plot @param {number} left */
  function values({ panel, shown: visible }, plot, left) {
    const curves = panel.curves.filter((curve) => visible.has(curve));
    let [at, best] = [NaN, 60];
    for (const x of new Set(curves.flatMap((curve) => curve.x))) {
      const far = Math.abs(plot.valToPos(x, "x") - left);
      if (far < best) [at, best] = [x, far];
    }
    if (Number.isNaN(at)) return [];
    const here = curves.map((curve) => ({ curve, i: curve.x.indexOf(at) })).filter(({ i }) => i >= 0);
    const variants = [...new Set(here.map(({ curve }) => curve.variant))].sort((a, b) => Number(Boolean(a)) - Number(Boolean(b)));
    const table = element("div", "grid", "");
    table.style.gridTemplateColumns = `auto 1fr ${"auto ".repeat(variants.length + 1)}`;
    table.append(element("span", "", ""), element("span", "", ""));
    for (const variant of variants) {
      table.append(element("span", "head", variant));
      if (!variant) table.append(element("span", "", ""));
    }
    const bases = [...new Set(here.map(({ curve }) => curve.base))]
      .map((base) => here.filter(({ curve }) => curve.base === base))
      .sort(([a], [b]) => b.curve.y[b.i] - a.curve.y[a.i]);
    for (const members of bases) {
      table.append(swatch(members[0].curve), element("span", "label", members[0].curve.base));
      for (const variant of variants) {
        const found = members.find(({ curve }) => curve.variant === variant);
        table.append(element(variant ? "span" : "b", variant ? "aside" : "", found ? shown(found.curve.y[found.i]) : ""));
        if (!variant) table.append(element("span", "interval", found ? bounds(found.curve, found.i) : ""));
      }
    }
    const unit = element("p", "unit", [panel.y.name, panel.y.unit].filter(Boolean).join(", "));
    return [heading(panel.x, at), table, unit];
  }

  /** @param {Curve} curve @param {number} i */
  const bounds = ({ lo, hi }, i) => (lo && hi && lo[i] !== hi[i] ? `${shown(lo[i], 3)} to ${shown(hi[i], 3)}` : "");

  /** The packet nearest to the cursor. @param {Chart} chart @param {uPlot} plot @param {number} left @param {number} top */
  function packet({ panel, shown: visible }, plot, left, top) {
    let [nearest, index, best] = [/** @type {Curve | null} */ (null), 0, 24];
    for (const curve of panel.curves) {
      if (!visible.has(curve)) continue;
      curve.x.forEach((x, i) => {
        const across = plot.valToPos(x, "x") - left;
        if (Math.abs(across) >= best) return;
        const far = Math.hypot(across, plot.valToPos(curve.y[i], "y") - top);
        if (far < best) [nearest, index, best] = [curve, i, far];
      });
    }
    const curve = /** @type {Curve | null} */ (nearest);
    if (!curve) return [];
    return [
      element("p", "at", `${panel.x.name} ${shown(curve.x[index], 6)} ${panel.x.unit}`),
      element("p", "", `${curve.base}, ${panel.y.name.toLowerCase()} ${shown(curve.y[index], 7)}`),
    ];
  }

  /** @param {Axis} axis @param {number} at */
  const heading = (axis, at) => element("p", "at", `${axis.name} ${shown(at, 6)}${axis.unit ? ` ${axis.unit}` : ""}`);

  /** @param {string} tag @param {string} className @param {string} text */
  function element(tag, className, text) {
    const made = document.createElement(tag);
    made.className = className;
    made.textContent = text;
    return made;
  }

  /** A curve's line and marker. @param {Curve} curve @param {boolean} [packets] */
  function swatch(curve, packets = false) {
    const { ink: name, marker: shape, style, reference } = curve;
    const canvas = document.createElement("canvas");
    const ratio = Math.max(2, devicePixelRatio);
    [canvas.width, canvas.height] = [26 * ratio, 12 * ratio];
    canvas.className = "swatch";
    const ctx = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    ctx.strokeStyle = ink(name);
    ctx.fillStyle = reference ? ink("card") : ink(name);
    ctx.translate(13 * ratio, 6 * ratio);
    if (!packets && style !== "points") {
      stroke(ctx, curve, ratio);
      ctx.beginPath();
      ctx.moveTo(-13 * ratio, 0);
      ctx.lineTo(13 * ratio, 0);
      ctx.stroke();
    }
    ctx.setLineDash([]);
    if (style === "trace") return canvas;
    ctx.lineWidth = 1.1 * ratio;
    const path = marker(shape, 3.4 * ratio);
    ctx.fill(path);
    if (reference) ctx.stroke(path);
    return canvas;
  }

  // ---- a figure: its charts and the legend they share

  /** @param {HTMLElement} section */
  function figure(section) {
    const back = /** @type {HTMLButtonElement} */ (section.querySelector(".zoom-out"));
    const zoomed = (on = false) => (back.hidden = !on);
    const charts = [.../** @type {NodeListOf<HTMLElement>} */ (section.querySelectorAll(".plot"))].map((box) =>
      make(box, panels[box.dataset.plot ?? ""], zoomed),
    );
    back.addEventListener("click", () => {
      for (const chart of charts) chart.home();
      zoomed(false);
    });

    /** What the reader switched off: curves by name, variants of all of them by theirs. */
    const off = { base: new Set(), variant: new Set() };
    const legend = /** @type {HTMLElement} */ (section.querySelector(".legend"));

    function update() {
      for (const { panel, plot, shown: visible, home } of charts) {
        visible.clear();
        for (const curve of panel.curves) {
          if (!off.base.has(curve.base) && !off.variant.has(curve.variant)) visible.add(curve);
        }
        if (back.hidden) home();
        plot.redraw();
      }
    }

    function fill() {
      /** @type {{base: Map<string, HTMLElement>, variant: Map<string, HTMLElement>}} */
      const chips = { base: new Map(), variant: new Map() };
      for (const { panel } of charts) {
        for (const curve of panel.curves) {
          const packets = panel.kind === "sequence";
          if (!curve.variant && !chips.base.has(curve.base)) chips.base.set(curve.base, chip("base", curve.base, curve, packets));
          if (curve.variant && !chips.variant.has(curve.variant)) {
            const plain = { ...curve, ink: "soft", marker: "circle" };
            chips.variant.set(curve.variant, chip("variant", curve.variant, plain, packets));
          }
        }
      }
      legend.replaceChildren(...chips.base.values(), ...chips.variant.values());
    }

    /** @param {"base" | "variant"} by @param {string} name @param {Curve} curve @param {boolean} packets */
    function chip(by, name, curve, packets) {
      const made = document.createElement("button");
      made.type = "button";
      made.setAttribute("aria-pressed", String(!off[by].has(name)));
      made.append(swatch(curve, packets), element("span", "", name));
      if (curve.reference) made.title = "An independent simulator: hollow markers on dotted lines";
      made.addEventListener("click", () => {
        if (!off[by].delete(name)) off[by].add(name);
        made.setAttribute("aria-pressed", String(!off[by].has(name)));
        update();
      });
      return made;
    }

    fill();
    document.addEventListener("headend:theme", () => {
      fill();
      for (const { plot } of charts) plot.redraw();
    });
  }

  // A chart is made when it comes near the window: a page of twenty figures opens at once.
  const near = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (!isIntersecting) continue;
        near.unobserve(target);
        figure(/** @type {HTMLElement} */ (target));
      }
    },
    { rootMargin: "600px" },
  );
  for (const section of document.querySelectorAll(".figure:has(.plot)")) near.observe(section);
  addEventListener("scroll", () => (readout.hidden = true), { passive: true });
})();
