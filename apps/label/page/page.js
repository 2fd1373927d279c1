"use strict";
// The page of keelson-label. Its data come from the server of `keelson-label serve`, or, in a page of `keelson-label
// suggest --page`, from the page itself; then labels stay in the browser until they are exported as CSV.
const UNSURE = -1;
const CELL = { width: 116, height: 132 };
const $ = (id) => document.getElementById(id);
const embedded = window.KEELSON_DATA || null;
const token = new URLSearchParams(location.search).get("token") || "";

function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [k, v] of Object.entries(attributes)) {
    if (k in e && k !== "list") e[k] = v; else e.setAttribute(k, v);
  }
  e.append(...children);
  return e;
}

const server = {
  async call(path, body) {
    const options = { headers: { "X-Keelson-Token": token } };
    if (body) {
      options.method = "POST";
      options.headers["Content-Type"] = "application/json";
      options.body = JSON.stringify(body);
    }
    const answer = await fetch(path, options);
    const json = await answer.json();
    if (!answer.ok) throw new Error(json.error || answer.statusText);
    return json;
  },
  state: () => server.call(`/api/state?annotator=${encodeURIComponent(annotator())}`),
  list: (filter) => server.call(`/api/list?annotator=${encodeURIComponent(annotator())}&${new URLSearchParams(filter)}`),
  details: (id) => server.call(`/api/image/${id}`),
  label: (images, label) => server.call("/api/label", { images, label, annotator: annotator() }),
  undo: () => server.call("/api/undo", { annotator: annotator() }),
  keys: (keys) => server.call("/api/keys", { keys }),
  picture: (id, edge) => `/image/${id}.png?edge=${edge}&token=${token}`,
};

// The same without a server: labels are kept by the browser under the name of the batch.
const inPage = {
  store: () => JSON.parse(localStorage.getItem(embedded.name) || '{"marks":{},"done":[]}'),
  save: (s) => localStorage.setItem(embedded.name, JSON.stringify(s)),
  async state() {
    return { ...embedded.state, keys: localStorage.getItem("keys") || embedded.state.keys,
             can_undo: inPage.store().done.length > 0, seen: Object.keys(inPage.store().marks).length };
  },
  async list(filter) {
    const marks = inPage.store().marks;
    const mine = (id) => (id in marks ? marks[id] : null);
    const kept = embedded.images.filter((i) => {
      if (filter.filter === "unlabelled") return mine(i.id) === null;
      if (filter.filter === "mine") return mine(i.id) !== null;
      if (filter.filter === "disagree") return mine(i.id) !== null && mine(i.id) !== UNSURE && mine(i.id) !== i.best;
      if (filter.filter === "class") return (mine(i.id) ?? i.best) === Number(filter.class);
      return true;
    });
    return { ids: kept.map((i) => i.id), mine: kept.map((i) => mine(i.id)), label: kept.map((i) => mine(i.id)),
             best: kept.map((i) => i.best), p: kept.map((i) => i.p) };
  },
  async details(id) { return embedded.details[id]; },
  async label(images, label) {
    const s = inPage.store();
    s.done.push(images.map((i) => [i, i in s.marks ? s.marks[i] : null]));
    for (const i of images) s.marks[i] = label;
    inPage.save(s);
    return {};
  },
  async undo() {
    const s = inPage.store(), last = s.done.pop() || [];
    for (const [i, label] of last) if (label === null) delete s.marks[i]; else s.marks[i] = label;
    inPage.save(s);
    return { images: last.map(([i]) => i) };
  },
  async keys(keys) { localStorage.setItem("keys", keys); return {}; },
  picture: (id) => embedded.details[id].picture,
  csv() {
    const marks = inPage.store().marks;
    const quoted = (t) => (/[",\r\n]/.test(t) ? `"${t.replaceAll('"', '""')}"` : t);
    const lines = Object.entries(marks).map(([id, label]) =>
      [id, quoted(embedded.details[id].file), embedded.details[id].index, quoted(name_of(label)), "person",
       quoted(annotator())].join(","));
    return "id,file,index,label,source,annotator\n" + lines.map((l) => l + "\n").join("");
  },
};
const backend = embedded ? inPage : server;

let state = null, list = { ids: [] }, focus = 0, chosen = new Set(), anchor = 0, pending = Promise.resolve();

const annotator = () => $("annotator").value.trim() || "me";
const colour = (k) => (k === null || k === undefined || k < 0 ? "var(--none)" : `var(--c${k % 6})`);
const name_of = (k) => (k === UNSURE ? "unsure" : k === null || k === undefined ? "" : state.classes[k]);
const say = (text) => { $("message").textContent = text; };

function guarded(work) {
  // One after the other, so that keys that are pressed quickly are not mixed up.
  pending = pending.then(work).then(() => say(""), (error) => say(`Not saved: ${error.message}`));
  return pending;
}

function columns() { return Math.max(1, Math.floor(($("gallery").clientWidth - 8) / CELL.width)); }

function draw() {
  const n = columns(), gallery = $("gallery"), rows = $("rows");
  rows.style.height = `${Math.ceil(list.ids.length / n) * CELL.height + 8}px`;
  const first = Math.max(0, Math.floor(gallery.scrollTop / CELL.height) - 2) * n;
  const last = Math.min(list.ids.length, (Math.ceil((gallery.scrollTop + gallery.clientHeight) / CELL.height) + 2) * n);
  const there = new Map([...rows.children].map((c) => [c.dataset.key, c]));
  for (let i = first; i < last; ++i) {
    const id = list.ids[i], key = `${i}:${id}`;
    let cell = there.get(key);
    there.delete(key);
    if (!cell) {
      cell = element("div", { className: "cell" }, element("img", { alt: `image ${id}`, src: backend.picture(id, 64) }),
                     element("span"));
      cell.dataset.key = key;
      cell.addEventListener("click", (event) => choose(i, event));
      rows.append(cell);
    }
    cell.style.left = `${(i % n) * CELL.width + 6}px`;
    cell.style.top = `${Math.floor(i / n) * CELL.height + 6}px`;
    cell.className = "cell" + (i === focus ? " focus" : "") + (chosen.has(i) ? " chosen" : "");
    const label = list.mine[i] ?? list.label[i];
    const known = label !== null && label !== undefined;
    cell.lastChild.replaceChildren(element("i", { className: "dot", style: `background:${colour(known ? label : null)}` }),
      known ? name_of(label) : list.p[i] === null ? "" : `${name_of(list.best[i])}? ${list.p[i].toFixed(2)}`);
  }
  for (const cell of there.values()) cell.remove();
}

function profile_svg(values) {
  const known = values.filter((v) => v !== null);
  if (known.length === 0) return "";
  const low = Math.min(...known), high = Math.max(...known, low + 1e-9);
  const points = values.map((v, i) => (v === null ? "" : `${(i / (values.length - 1)) * 296 + 2},${86 - ((v - low) / (high - low)) * 80}`));
  return `<svg viewBox="0 0 300 90" role="img" aria-label="mean of each ring, from the centre outwards">` +
    `<polyline fill="none" stroke="var(--focus)" stroke-width="2" points="${points.filter((p) => p).join(" ")}"/></svg>`;
}

async function show_details() {
  const id = list.ids[focus];
  if (id === undefined) { $("details").replaceChildren("Nothing is left in this list."); return; }
  const d = await backend.details(id);
  if (id !== list.ids[focus]) return;
  const table = element("table");
  const row = (...cells) => table.append(element("tr", {}, ...cells.map((c) => element("td", {}, c))));
  row("image", `${id}`);
  row("file", `${d.file}, ${d.index}`);
  (d.p || []).forEach((p, k) => row(name_of(k), `${p.toFixed(3)}${k === d.best ? ` ± ${d.std.toFixed(3)}` : ""}`));
  if (d.votes) row("networks", d.votes.map((v, k) => `${v} ${name_of(k)}`).join(", "));
  for (const m of d.marks) row(m.annotator, name_of(m.label));
  const plot = element("div");
  plot.innerHTML = profile_svg(d.profile);
  $("details").replaceChildren(element("img", { alt: `image ${id}`, src: backend.picture(id, 256) }), plot, table);
}

function move(to, extend) {
  focus = Math.max(0, Math.min(list.ids.length - 1, to));
  if (extend) {
    chosen = new Set();
    for (let i = Math.min(anchor, focus); i <= Math.max(anchor, focus); ++i) chosen.add(i);
  } else {
    chosen = new Set();
    anchor = focus;
  }
  const top = Math.floor(focus / columns()) * CELL.height, gallery = $("gallery");
  if (top < gallery.scrollTop) gallery.scrollTop = top;
  if (top + CELL.height > gallery.scrollTop + gallery.clientHeight) gallery.scrollTop = top + CELL.height - gallery.clientHeight + 8;
  draw();
  show_details().catch((error) => say(error.message));
}

function choose(i, event) {
  if (event.ctrlKey || event.metaKey) {
    if (chosen.size === 0) chosen.add(focus);
    if (chosen.has(i)) chosen.delete(i); else chosen.add(i);
    focus = i;
    draw();
  } else {
    move(i, event.shiftKey);
  }
}

function show_state() {
  document.title = `${state.seen} of ${state.count} labelled`;
  $("title").textContent = state.title;
  $("progress").textContent = `${state.seen} of ${state.count} seen${state.batch_left ? `, ${state.batch_left} of the batch left` : ""}`;
  $("status").textContent = state.status;
  $("undo").disabled = !state.can_undo;
}

function show_keys() {
  const labels = state.classes.concat(["unsure"]).map((name, k) => {
    const input = element("input", { className: "key", value: state.keys[k] || "", maxLength: 1, title: `key for ${name}` });
    input.addEventListener("change", () => guarded(async () => {
      const keys = [...$("keys").querySelectorAll("input")].map((i) => i.value).join("");
      await backend.keys(keys);
      state.keys = keys;
      $("gallery").focus();
    }));
    const which = k === state.classes.length ? UNSURE : k;
    return element("label", {}, element("i", { className: "dot", style: `background:${colour(which)}` }), `${name} `, input);
  });
  $("keys").replaceChildren(...labels);
}

async function refresh_state() {
  state = await backend.state();
  show_state();
}

async function load() {
  await refresh_state();
  show_keys();
  const filter = $("filter").value;
  list = await backend.list({ filter, class: $("class").value, round: $("round").value });
  focus = anchor = 0;
  chosen = new Set();
  $("gallery").scrollTop = 0;
  draw();
  await show_details();
  document.body.dataset.ready = "yes";
}

function give_label(label) {
  const places = chosen.size > 0 ? [...chosen] : [focus];
  const images = places.map((i) => list.ids[i]).filter((id) => id !== undefined);
  if (images.length === 0) return;
  const before = places.map((i) => list.mine[i]);
  places.forEach((i) => { list.mine[i] = label; });
  // The next item is shown at once; the label counts as saved when the server has it on its disk.
  move(Math.max(...places) + 1 < list.ids.length ? Math.max(...places) + 1 : focus, false);
  guarded(async () => {
    try {
      await backend.label(images, label);
    } catch (error) {
      places.forEach((i, k) => { list.mine[i] = before[k]; });
      draw();
      throw error;
    }
    await refresh_state();
  });
}

function undo() {
  guarded(async () => {
    const undone = await backend.undo();
    const filter = { filter: $("filter").value, class: $("class").value, round: $("round").value };
    list = await backend.list(filter);
    await refresh_state();
    const place = list.ids.indexOf((undone.images || [])[0]);
    move(place < 0 ? Math.min(focus, list.ids.length - 1) : place, false);
  });
}

document.addEventListener("keydown", (event) => {
  if (!state || ["INPUT", "SELECT"].includes(event.target.tagName)) return;
  const n = columns();
  const steps = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: n, ArrowUp: -n, PageDown: 4 * n, PageUp: -4 * n };
  if (event.key === "Backspace" || ((event.ctrlKey || event.metaKey) && event.key === "z")) {
    event.preventDefault();
    undo();
  } else if (event.key in steps) {
    event.preventDefault();
    move(focus + steps[event.key], event.shiftKey);
  } else if (!event.ctrlKey && !event.metaKey && !event.altKey && !event.repeat && event.key.length === 1) {
    const k = [...state.keys].indexOf(event.key);
    if (k >= 0 && k <= state.classes.length) give_label(k === state.classes.length ? UNSURE : k);
  }
});

function start() {
  $("annotator").value = localStorage.getItem("annotator") || $("annotator").value;
  $("annotator").addEventListener("change", () => { localStorage.setItem("annotator", annotator()); load(); });
  for (const id of ["filter", "class", "round"]) $(id).addEventListener("change", () => load().then(() => $("gallery").focus()));
  $("undo").addEventListener("click", undo);
  $("gallery").addEventListener("scroll", () => requestAnimationFrame(draw));
  window.addEventListener("resize", draw);
  if (embedded) {
    $("export").hidden = false;
    $("export").addEventListener("click", () => {
      const url = URL.createObjectURL(new Blob([inPage.csv()], { type: "text/csv" }));
      element("a", { href: url, download: "labels.csv" }).click();
      URL.revokeObjectURL(url);
    });
  }
  load().catch((error) => say(error.message));
  $("gallery").focus();
}
start();
