// @ts-check
// The live page: asks for the status once a second and shows it. Whatever comes from the network is set as text, never as HTML.

/**
 * @typedef {{read_bps: number, written_bps: number, retransmitted: number | null, rtt_p50_s: number | null,
 *   rtt_p95_s: number | null}} SideSample
 * @typedef {{number: number, time_unix_s: number, open: number, accepted_per_s: number, memory_bytes: number,
 *   spool_bytes: number, local: SideSample, remote: SideSample}} Sample
 * @typedef {{phase: string, rtt_s: number, cwnd_bytes: number, segments: number | null, retransmits: number}} Tcp
 * @typedef {{read_bps: number, written_bps: number, held_bytes: number, spooled_bytes: number, tcp: Tcp | null}} End
 * @typedef {{id: number, age_s: number, client: string, destination: string | null, server: string | null, local: End,
 *   remote: End}} Connection
 * @typedef {{option: string, asked: string, granted: boolean, what: string}} Option
 * @typedef {{personality: string | null, options: Option[], segments: number, retransmits: number, timeouts: number}} Side
 * @typedef {{bytes: number, limit_bytes: number}} Store
 * @typedef {{version: string, started_unix_s: number, uptime_s: number, state: string, relay: string,
 *   listening: {address: string, way: string}[], connections: {open: number, limit: number, accepted: number,
 *   joined: number, refused: number, failed: number}, memory: Store, spool: Store, local: Side, remote: Side,
 *   samples: Sample[], busiest: Connection[]}} Status
 */

const EVERY_MS = 1000;
const KEPT = 300;
/** Charts show at least so many seconds. */
const LEAST_S = 60;
const LISTED = 15;
/** As long without an answer is too long. */
const PATIENCE_MS = 3000;

/** @param {string} id */
const element = (id) => /** @type {HTMLElement} */ (document.getElementById(id));

/** @param {string} tag @param {string} [classes] @param {string | null} [text] */
function make(tag, classes = "", text = null) {
  const made = document.createElement(tag);
  if (classes) made.className = classes;
  if (text !== null) made.textContent = text;
  return made;
}

// ---- numbers

const MINUS = "\u2212";
const NONE = "\u2013";

/** Three digits and a prefix. @param {number} value @param {string} unit @returns {[string, string]} */
function scaled(value, unit) {
  for (const [factor, prefix] of /** @type {[number, string][]} */ ([[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (value >= factor * 0.9995) return [digits(value / factor), prefix + unit];
  }
  return [value === 0 ? "0" : digits(value), unit];
}

/** @param {number} value */
function digits(value) {
  if (value >= 99.95 || value === 0) return value.toFixed(0);
  return value.toFixed(value >= 9.995 ? 1 : 2);
}

/** @param {number} bps */
const rate = (bps) => scaled(bps, "bit/s");
/** @param {number} bytes */
const size = (bytes) => scaled(bytes, "B");
/** @param {number | null} share @returns {[string, string]} */
const percent = (share) => (share === null ? [NONE, ""] : [share === 0 ? "0" : digits(share * 100), "%"]);
/** @param {number | null} s @returns {[string, string]} */
function seconds(s) {
  if (s === null || s === 0) return [NONE, ""];
  if (s < 1e-3) return [digits(s * 1e6), "\u00b5s"];
  return s < 1 ? [digits(s * 1e3), "ms"] : [digits(s), "s"];
}
/** @param {number} count @returns {[string, string]} */
const number = (count) => [count.toLocaleString("en").replace(/,/g, "\u202f"), ""];
/** @param {[string, string]} shown */
const words = ([value, unit]) => (unit ? `${value}\u202f${unit}` : value).replace("-", MINUS);

/** Without zeros that say nothing, for axes. @param {[string, string]} shown @returns {[string, string]} */
const rounded = ([value, unit]) => [value.includes(".") ? value.replace(/\.?0+$/, "") : value, unit];

/** @param {number} s */
function age(s) {
  if (s < 100) return `${Math.floor(s)} s`;
  if (s < 6000) return `${Math.floor(s / 60)} min`;
  return s < 172_800 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`;
}

/** @param {number} unix_s @param {number} length 5 for hours and minutes, 8 with seconds */
const clock = (unix_s, length) => new Date(unix_s * 1000).toTimeString().slice(0, length);

// ---- tiles

/** One tile: a heading, one or two values with what they are, a line below, and a meter.
 * @param {string} title */
function tile(title) {
  const box = make("div", "tile");
  const values = make("dd", "pair");
  const more = make("dd", "more");
  const meter = make("dd", "meter");
  const level = make("i");
  meter.append(level);
  meter.setAttribute("aria-hidden", "true");
  meter.hidden = true;
  box.append(make("dt", "", title), values, more, meter);
  element("tiles").append(box);
  return {
    /** @param {{key?: string, ink?: string, shown: [string, string]}[]} shown @param {string} text
     *  @param {{share?: number | null, alarm?: boolean}} [extra] */
    show(shown, text, { share = null, alarm = false } = {}) {
      values.replaceChildren(
        ...shown.map(({ key, ink, shown: [value, unit] }) => {
          const whole = make("span");
          const big = make("span", "value", value);
          if (unit) big.append(make("small", "", unit));
          whole.append(big);
          if (key) whole.append(make("span", `key ink-${ink}`, key));
          return whole;
        }),
      );
      more.textContent = text;
      meter.hidden = share === null;
      level.style.width = `${100 * Math.min(1, share ?? 0)}%`;
      box.classList.toggle("alarm", alarm);
    },
  };
}

const tiles = {
  down: tile("Down, towards clients"),
  up: tile("Up, towards servers"),
  open: tile("Open connections"),
  waiting: tile("Waiting in the proxy"),
  again: tile("Segments sent again"),
  trip: tile("Round trip, median"),
  came: tile("New connections"),
  spool: tile("Spool"),
};

/** @param {Status} status @param {Sample | undefined} last */
function showTiles(status, last) {
  const { connections, memory, spool, local, remote } = status;
  const both = (/** @type {(side: SideSample) => [string, string]} */ of) =>
    ["local", "remote"].map((side) => ({
      key: side === "local" ? "to clients" : "to servers",
      ink: side,
      shown: last ? of(last[/** @type {"local" | "remote"} */ (side)]) : /** @type {[string, string]} */ ([NONE, ""]),
    }));
  tiles.down.show([{ shown: rate(last?.local.written_bps ?? 0) }], `${words(rate(last?.remote.read_bps ?? 0))} from servers`);
  tiles.up.show([{ shown: rate(last?.remote.written_bps ?? 0) }], `${words(rate(last?.local.read_bps ?? 0))} from clients`);
  const used = connections.open / connections.limit;
  tiles.open.show([{ shown: number(connections.open) }], `of ${words(number(connections.limit))} at most`, { share: used, alarm: used > 0.9 });
  const held = memory.limit_bytes ? memory.bytes / memory.limit_bytes : 0;
  tiles.waiting.show([{ shown: size(memory.bytes) }], `of ${words(size(memory.limit_bytes))} of memory`, { share: held, alarm: held > 0.9 });
  tiles.again.show(both((side) => percent(side.retransmitted)), `since the start: ${words(percent(share(local)))} and ${words(percent(share(remote)))}`);
  tiles.trip.show(both((side) => seconds(side.rtt_p50_s)), `95%: ${words(seconds(last?.local.rtt_p95_s ?? null))} and ${words(seconds(last?.remote.rtt_p95_s ?? null))}`);
  tiles.came.show([{ shown: [digits(last?.accepted_per_s ?? 0), "/s"] }],
    `${words(number(connections.accepted))} in all, ${words(number(connections.refused))} refused, ${words(number(connections.failed))} failed`);
  if (spool.limit_bytes) {
    const full = spool.bytes / spool.limit_bytes;
    tiles.spool.show([{ shown: size(spool.bytes) }], `of ${words(size(spool.limit_bytes))} on disk`, { share: full, alarm: full > 0.9 });
  } else {
    tiles.spool.show([{ shown: ["none", ""] }], "data waits in memory only");
  }
}

/** @param {Side} side */
const share = (side) => (side.segments ? side.retransmits / side.segments : null);

// ---- charts

/** @type {Sample[]} */
let samples = [];
const root = document.documentElement;
/** @param {string} name */
const ink = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

/** @typedef {{name: string, ink: string, dashed?: boolean, of: (sample: Sample) => number | null}} Line */

/** @type {{title: string, shown: (value: number) => [string, string], least: number, lines: Line[]}[]} */
const CHARTS = [
  { title: "Down", shown: rate, least: 1e4, lines: [
    { name: "from servers", ink: "remote", dashed: true, of: (s) => s.remote.read_bps },
    { name: "to clients", ink: "local", of: (s) => s.local.written_bps }] },
  { title: "Up", shown: rate, least: 1e4, lines: [
    { name: "from clients", ink: "local", dashed: true, of: (s) => s.local.read_bps },
    { name: "to servers", ink: "remote", of: (s) => s.remote.written_bps }] },
  { title: "Open connections", shown: number, least: 4, lines: [
    { name: "open", ink: "third", of: (s) => s.open }] },
  { title: "Segments sent again", shown: percent, least: 0.01, lines: [
    { name: "to clients", ink: "local", of: (s) => s.local.retransmitted },
    { name: "to servers", ink: "remote", dashed: true, of: (s) => s.remote.retransmitted }] },
  { title: "Round trip, median", shown: seconds, least: 1e-3, lines: [
    { name: "to clients", ink: "local", of: (s) => s.local.rtt_p50_s },
    { name: "to servers", ink: "remote", dashed: true, of: (s) => s.remote.rtt_p50_s }] },
  { title: "Waiting in the proxy", shown: size, least: 1e5, lines: [
    { name: "in memory", ink: "third", of: (s) => s.memory_bytes },
    { name: "in the spool", ink: "remote", dashed: true, of: (s) => s.spool_bytes }] },
];

/** @param {(typeof CHARTS)[number]} chart */
function draw({ title, shown, least, lines }) {
  const figure = make("figure", "chart");
  const caption = make("figcaption");
  const keys = make("span", "keys");
  for (const line of lines) keys.append(make("span", `key ink-${line.ink}${line.dashed ? " dashed" : ""}`, line.name));
  caption.append(make("b", "", title), keys);
  const box = make("div", "plot");
  box.setAttribute("role", "img");
  const readout = make("output");
  figure.append(caption, box, readout);
  element("charts").append(figure);

  const grid = () => ({ stroke: ink("line"), width: 1 });
  /** @param {number} room */
  const axis = (room) => ({ stroke: () => ink("soft"), font: "12px system-ui, sans-serif", grid: grid(), ticks: { show: false }, size: room, gap: 4 });
  const dimensions = () => ({ width: Math.max(120, box.clientWidth), height: box.clientHeight || 168 });
  /** @param {number} i */
  const spelled = (i) => lines.map((line) => `${line.name} ${words(none(line.of(samples[i]), shown))}`).join(", ");
  const plot = new uPlot(
    {
      ...dimensions(),
      padding: [6, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false, setScale: false } },
      scales: {
        x: { time: true, range: (_, min, max) => [Math.min(min ?? 0, (max ?? 0) - LEAST_S), max ?? 0] },
        y: { range: (_, __, max) => [0, Math.max(least, (max ?? 0) * 1.12)] },
      },
      axes: [
        { ...axis(22), space: 70, values: (_, at) => at.map((v) => clock(v, v % 60 === 0 ? 5 : 8)) },
        { ...axis(72), space: 34, values: (_, at) => at.map((v) => (v === 0 ? "0" : words(rounded(shown(v))))) },
      ],
      series: [
        {},
        ...lines.map((line) => ({ stroke: () => ink(line.ink), width: 1.8, points: { show: false }, spanGaps: false,
          ...(line.dashed ? { dash: [5, 4] } : {}) })),
      ],
      hooks: {
        setCursor: [(/** @type {uPlot} */ u) => {
          const i = u.cursor.idx;
          readout.textContent = i === null || i === undefined || !samples[i] ? ""
            : `${clock(samples[i].time_unix_s, 8)}: ${spelled(i)}`;
        }],
      },
    },
    [[], ...lines.map(() => [])],
    box,
  );
  new ResizeObserver(() => plot.setSize(dimensions())).observe(box);
  return {
    update() {
      plot.setData([samples.map((s) => s.time_unix_s), ...lines.map((line) => samples.map(line.of))]);
      box.setAttribute("aria-label", samples.length ? `${title} now: ${spelled(samples.length - 1)}` : `${title}: no figures yet`);
    },
    repaint() {
      for (const one of plot.axes) if (one.grid) one.grid.stroke = () => ink("line");
      plot.redraw(false, true);
    },
  };
}

/** @param {number | null} value @param {(value: number) => [string, string]} shown @returns {[string, string]} */
const none = (value, shown) => (value === null ? [NONE, ""] : shown(value));

// ---- connections

/** @param {Status} status */
function showConnections({ busiest, connections }) {
  const rows = busiest.map(({ client, server, destination, age_s, local, remote }) => {
    const row = make("tr");
    const name = (/** @type {string} */ text) => {
      const cell = make("td", "name", text);
      cell.title = text;
      return cell;
    };
    const value = (/** @type {string} */ text, some = false) => make("td", some ? "number some" : "number", text);
    const waiting = [local, remote].reduce((sum, end) => sum + end.held_bytes + end.spooled_bytes, 0);
    row.append(name(client), name(destination ?? server ?? NONE), value(age(age_s)), value(words(rate(local.written_bps))),
      value(words(rate(remote.written_bps))), value(words(size(waiting))));
    for (const { tcp } of [local, remote]) {
      const again = tcp?.segments ? tcp.retransmits / tcp.segments : null;
      row.append(value(tcp ? words(seconds(tcp.rtt_s)) : NONE), value(tcp ? words(size(tcp.cwnd_bytes)) : NONE),
        value(again === null ? NONE : words(percent(again)), (again ?? 0) > 0.01));
    }
    return row;
  });
  if (!rows.length) {
    const row = make("tr");
    const cell = /** @type {HTMLTableCellElement} */ (make("td", "none", "Nobody is connected."));
    cell.colSpan = 12;
    row.append(cell);
    rows.push(row);
  }
  element("connections").replaceChildren(...rows);
  element("listed").textContent = busiest.length < connections.open
    ? `${busiest.length} of ${words(number(connections.open))} open, by what they moved in the last second`
    : "By what they moved in the last second";
}

// ---- sides

let sidesShown = "";

/** @param {Status} status */
function showSides(status) {
  const text = JSON.stringify([status.local.options, status.remote.options, status.local.personality, status.remote.personality]);
  if (text === sidesShown) return;
  sidesShown = text;
  element("sides").replaceChildren(
    ...[["Towards clients", status.local], ["Towards servers", status.remote]].map(([title, given]) => {
      const side = /** @type {Side} */ (given);
      const box = make("div", "side");
      const head = make("b", "", String(title));
      box.append(head, make("span", "soft", side.personality ? ` (${side.personality})` : ""));
      const list = make("ul");
      for (const { option, asked, granted, what } of side.options) {
        const item = make("li");
        const mark = make("span", granted ? "yes" : "no", granted ? "\u2713" : "\u2717");
        mark.setAttribute("aria-hidden", "true");
        const told = make("span", "", `${option} ${asked}: ${granted ? "granted" : "not granted"}`);
        told.append(make("span", "soft", `, ${what}`));
        item.append(mark, told);
        list.append(item);
      }
      box.append(side.options.length ? list : make("p", "soft", "As the machine has it."));
      return box;
    }),
  );
}

// ---- asking

const charts = CHARTS.map(draw);
let heard = performance.now();
let started = 0;

/** @param {Status} status */
function show(status) {
  if (status.started_unix_s !== started) {
    // Another process answers: its samples are numbered anew.
    started = status.started_unix_s;
    samples = [];
  }
  samples = [...samples, ...status.samples].slice(-KEPT);
  const ways = status.listening.map(({ address, way }) => `${way} on ${address}`).join(", ");
  element("about").textContent = `${status.version}, up ${age(status.uptime_s)}${ways ? `, ${ways}` : ""}`;
  tell(status.state, status.state);
  showTiles(status, samples.at(-1));
  for (const chart of charts) chart.update();
  showConnections(status);
  showSides(status);
  document.title = `${words(rate(samples.at(-1)?.local.written_bps ?? 0))} down, ${status.connections.open} open \u2013 headend proxy`;
}

/** @param {string} state @param {string} text */
function tell(state, text) {
  const box = element("state");
  const said = element("state-text");
  if (said.textContent === text) return;
  box.dataset.state = state;
  said.textContent = text;
}

async function ask() {
  const known = samples.at(-1)?.number;
  try {
    const query = `connections=${LISTED}&samples=${known === undefined ? "all" : known}`;
    const answer = await fetch(`status?${query}`, { signal: AbortSignal.timeout(PATIENCE_MS), cache: "no-store" });
    if (!answer.ok) throw new Error(await answer.text());
    const status = /** @type {Status} */ (await answer.json());
    show(status);
    heard = performance.now();
    element("gone").hidden = true;
    document.body.classList.remove("stale");
  } catch (error) {
    const since = Math.round((performance.now() - heard) / 1000);
    tell("gone", "no answer");
    element("gone").textContent = `The proxy has not answered for ${since} s. What is shown is what it said last; this page goes on asking.`;
    element("gone").hidden = false;
    document.body.classList.add("stale");
    document.title = "no answer \u2013 headend proxy";
  }
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => charts.forEach((chart) => chart.repaint()));

for (;;) {
  const began = performance.now();
  await ask();
  // A page that nobody sees asks no more often than a browser lets it.
  await new Promise((done) => setTimeout(done, Math.max(100, EVERY_MS - (performance.now() - began))));
}
