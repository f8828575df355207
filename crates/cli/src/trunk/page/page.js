// The live page of a trunk: asks for the status once a second and shows it. Rates are between two answers.

const EVERY_MS = 1000;
const at = (id) => document.getElementById(id);
let before = null;

const ms = (value) => (value == null ? "–" : `${value.toFixed(1)} ms`);
const bytes = (value) => {
  if (value == null) return "–";
  const unit = [["GB", 1e9], ["MB", 1e6], ["KB", 1e3]].find(([, size]) => value >= size);
  return unit ? `${(value / unit[1]).toFixed(1)} ${unit[0]}` : `${value} B`;
};
const rate = (now, then, seconds) =>
  then == null || now < then || seconds <= 0 ? "–" : `${(((now - then) * 8) / seconds / 1e6).toFixed(2)} Mbit/s`;

// Text only: names come from a file, and nothing of it is markup.
const fill = (body, rows) => {
  body.replaceChildren(
    ...rows.map((cells) => {
      const row = document.createElement("tr");
      for (const cell of cells) row.appendChild(document.createElement("td")).textContent = cell;
      return row;
    }),
  );
};

const sent = (peer) => peer.classes.reduce((sum, one) => sum + one.left_bytes, 0);

const show = (status) => {
  const seconds = before ? status.up_s - before.up_s : 0;
  const then = (name) => before?.peers.find((peer) => peer.name === name);
  const carrying = status.peers.filter((peer) => peer.state === "carrying").length;
  at("about").textContent = `${status.name}, up for ${Math.round(status.up_s)} s`;
  at("state").dataset.state = carrying === status.peers.length ? "serving" : "stuck";
  at("state-text").textContent = `${carrying} of ${status.peers.length} peers carrying`;
  fill(
    at("peers"),
    status.peers.map((peer) => {
      const old = then(peer.name);
      return [
        peer.name,
        peer.state,
        rate(sent(peer), old && sent(old), seconds),
        bytes(peer.to?.window),
        ms(peer.to?.srtt_ms),
        ms(peer.to?.queueing_ms),
        String(peer.to?.lost ?? "–"),
      ];
    }),
  );
  fill(
    at("classes"),
    status.peers.flatMap((peer) =>
      peer.classes.map((one) => {
        const old = then(peer.name)?.classes.find((other) => other.name === one.name);
        return [peer.name, one.name, rate(one.left_bytes, old?.left_bytes, seconds), bytes(one.waiting_bytes), String(one.dropped)];
      }),
    ),
  );
  const deep = status.peers.filter((peer) => peer.to?.fills_a_deep_queue);
  at("advice").hidden = deep.length === 0;
  at("advice").textContent = deep
    .map((peer) => `${peer.name}: ${peer.to.controller} keeps packets in the network's queues. \`headend trunk status\` says what shortens them.`)
    .join(" ");
  before = status;
};

const look = async () => {
  try {
    const answer = await fetch("status", { cache: "no-store", signal: AbortSignal.timeout(5 * EVERY_MS) });
    if (!answer.ok) throw new Error(await answer.text());
    show(await answer.json());
    at("gone").hidden = true;
  } catch (error) {
    at("state").dataset.state = "gone";
    at("state-text").textContent = "no answer";
    at("gone").hidden = false;
    at("gone").textContent = `The trunk does not answer: ${error.message}`;
  }
  setTimeout(look, EVERY_MS);
};

look();
