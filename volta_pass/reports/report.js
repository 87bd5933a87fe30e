"use strict";
(() => {
  const rows = [...document.querySelectorAll("#kernels tbody tr")], chips = [...document.querySelectorAll(".chip")];
  const box = document.getElementById("filter"), sections = new Map([...document.querySelectorAll("details.kernel")].map(d => [d.id, d]));
  let verdict = "";
  const apply = () => {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const section = sections.get(row.dataset.section), text = (row.textContent + " " + section.textContent).toLowerCase();
      row.hidden = section.hidden = !((!verdict || row.dataset.verdict === verdict) && words.every(w => text.includes(w)));
    }
    for (const chip of chips) chip.classList.toggle("on", chip.dataset.verdict === verdict);
    const state = new URLSearchParams();
    if (verdict) state.set("verdict", verdict);
    if (box.value) state.set("text", box.value);
    history.replaceState(null, "", state.size ? "#" + state : location.pathname + location.search);
  };
  for (const chip of chips) chip.addEventListener("click", () => { verdict = chip.dataset.verdict; apply(); });
  box.addEventListener("input", apply);
  document.querySelectorAll("#kernels th").forEach((head, column) => head.addEventListener("click", () => {
    const up = head.dataset.order !== "up", number = head.dataset.sort === "number";
    document.querySelectorAll("#kernels th").forEach(h => delete h.dataset.order);
    head.dataset.order = up ? "up" : "down";
    const key = row => number ? parseFloat(row.cells[column].textContent) || 0 : row.cells[column].textContent;
    const body = document.querySelector("#kernels tbody");
    [...rows].sort((a, b) => { const x = key(a), y = key(b); return (x < y ? -1 : x > y ? 1 : 0) * (up ? 1 : -1); }).forEach(r => body.append(r));
  }));
  document.querySelectorAll("#kernels a").forEach(link => link.addEventListener("click", () => {
    const section = document.querySelector(link.getAttribute("href"));
    if (section) section.open = true;
  }));

  for (const canvas of document.querySelectorAll(".map canvas")) draw(canvas);

  function draw(canvas) {
    const f = JSON.parse(canvas.dataset.facts), raw = Uint8Array.from(atob(canvas.dataset.bits), c => c.charCodeAt(0));
    const packed = f.blockRows * f.blockColumns === 1, image = new ImageData(f.width, f.height);
    for (let i = 0; i < f.width * f.height; i++) {
      const share = packed ? (raw[i >> 3] >> (7 - (i & 7)) & 1) * 255 : raw[i];
      image.data.set(share ? [198, 40, 40, 90 + Math.round(share * 165 / 255)] : [87, 160, 110, 60], 4 * i);
    }
    const tile = document.createElement("canvas");
    tile.width = f.width; tile.height = f.height;
    tile.getContext("2d").putImageData(image, 0, 0);
    const fit = Math.min(560 / f.width, 420 / f.height), w = canvas.width = Math.max(120, Math.min(560, Math.round(f.width * fit)));
    const h = canvas.height = Math.max(24, Math.min(420, Math.round(f.height * fit)));
    const base = Math.min(w / f.width, h / f.height), view = { x: 0, y: 0, scale: base }, said = canvas.parentElement.querySelector("output"), pen = canvas.getContext("2d");
    const paint = () => {
      pen.imageSmoothingEnabled = false;
      pen.clearRect(0, 0, w, h);
      pen.drawImage(tile, -view.x * view.scale, -view.y * view.scale, f.width * view.scale, f.height * view.scale);
    };
    const clamp = () => {
      view.x = Math.max(0, Math.min(view.x, f.width - w / view.scale));
      view.y = Math.max(0, Math.min(view.y, f.height - h / view.scale));
    };
    const zoom = (factor, px, py) => {
      const before = view.scale;
      view.scale = Math.max(base, Math.min(base * 256, before * factor));
      view.x += px / before - px / view.scale; view.y += py / before - py / view.scale;
      clamp(); paint();
    };
    const index = (row, column) => {
      const flat = row * f.columns + column, out = [];
      let rest = flat;
      for (let d = f.shape.length - 1; d >= 0; d--) { out.unshift(rest % f.shape[d]); rest = Math.floor(rest / f.shape[d]); }
      return rest ? "" : out.join(", ");
    };
    canvas.addEventListener("wheel", e => { e.preventDefault(); zoom(e.deltaY < 0 ? 1.25 : 0.8, e.offsetX, e.offsetY); }, { passive: false });
    canvas.addEventListener("dblclick", () => { view.x = view.y = 0; view.scale = base; paint(); });
    canvas.addEventListener("keydown", e => {
      const step = 40 / view.scale, move = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] }[e.key];
      if (e.key === "+" || e.key === "-") zoom(e.key === "+" ? 1.5 : 1 / 1.5, w / 2, h / 2);
      else if (move) { view.x += move[0]; view.y += move[1]; clamp(); paint(); e.preventDefault(); }
    });
    canvas.addEventListener("pointermove", e => {
      if (e.buttons) { view.x -= e.movementX / view.scale; view.y -= e.movementY / view.scale; clamp(); paint(); }
      const column = Math.floor(view.x + e.offsetX / view.scale), row = Math.floor(view.y + e.offsetY / view.scale);
      if (column < 0 || row < 0 || column >= f.width || row >= f.height) { said.textContent = ""; return; }
      const i = row * f.width + column, bad = packed ? raw[i >> 3] >> (7 - (i & 7)) & 1 : raw[i];
      said.textContent = `${f.name}[${index(row * f.blockRows, column * f.blockColumns)}] ${bad ? "not equal" : "equal"}`;
    });
    paint();
  }

  const state = new URLSearchParams(location.hash.slice(1));
  if (state.has("verdict") || state.has("text")) { verdict = state.get("verdict") || ""; box.value = state.get("text") || ""; apply(); }
  document.documentElement.dataset.ready = "yes";
})();
