"use strict";
// Keeps the page up to date: asks for its state, and replaces the parts that changed where the reader left them.
(() => {
  const EVERY_MS = 1500, HIDDEN_MS = 15000, LOST_MS = 4000;
  const top = document.getElementById("top");
  const line = document.getElementById("live");
  const alert = document.getElementById("alert");
  const known = new Map(JSON.parse(document.getElementById("parts").textContent));
  let drawnAt = null;
  top.classList.add("live");

  const FOCUSABLE = "a[href], button, select, summary, [tabindex]";
  const indexed = (selector, inside, node) => stsq.all(selector, inside).indexOf(node);

  // What the reader did in a part: open folds and the focus by id where there is one, else by place; sideways scrolls.
  const remember = (part) => ({
    open: new Map(stsq.all("details", part).map((fold, place) => [fold.id || place, fold.open])),
    scrolls: stsq.all(".scroll", part).map((table) => table.scrollLeft),
    focus: part.contains(document.activeElement) ? [document.activeElement.id, indexed(FOCUSABLE, part, document.activeElement)] : null,
  });
  function restore(part, kept) {
    stsq.all("details", part).forEach((fold, place) => { fold.open = kept.open.get(fold.id || place) ?? fold.open; });
    stsq.all(".scroll", part).forEach((table, place) => { table.scrollLeft = kept.scrolls[place] ?? 0; });
    if (kept.focus) {
      const [id, place] = kept.focus;
      const target = (id && document.getElementById(id)) || stsq.all(FOCUSABLE, part)[place];
      target?.focus({ preventScroll: true });
    }
  }

  // Figures that are drawn stay where they are and take the new numbers, so that nothing flickers.
  function keepFigures(old, fresh) {
    const drawn = stsq.all(".plot", old);
    const again = [];
    stsq.all(".plot", fresh).forEach((place, index) => {
      const kept = drawn[index];
      if (!kept?.dataset.drawn) return;
      const shown = kept.nextElementSibling.textContent === place.nextElementSibling.textContent;
      kept.setAttribute("aria-label", place.getAttribute("aria-label"));
      place.replaceWith(kept);
      figures.settle(kept);
      if (!shown) again.push(kept);
    });
    return again;
  }

  function parsed(html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    return template.content.firstElementChild;
  }

  function replace(name, html, before) {
    const old = document.getElementById(name);
    const fresh = parsed(html);
    if (!old) {
      if (before) before.after(fresh); else document.getElementById("main").prepend(fresh);
      stsq.watch(fresh);
      return;
    }
    const kept = remember(old);
    const again = keepFigures(old, fresh);
    old.replaceWith(fresh);
    restore(fresh, kept);
    stsq.choose();
    again.forEach(stsq.draw);
    stsq.watch(fresh);
  }

  async function fetched(path) {
    const response = await fetch(path, { cache: "no-cache" });
    if (!response.ok) throw new Error(`${response.status} for ${path}`);
    return response;
  }

  async function update({ parts }) {
    const names = new Set(parts.map(([name]) => name));
    for (const name of known.keys()) {
      if (!names.has(name)) { document.getElementById(name)?.remove(); known.delete(name); }
    }
    const inMain = parts.filter(([name]) => name !== "heading" && name !== "contents");
    for (const [name, hash] of parts) {
      if (known.get(name) === hash) continue;
      const html = await (await fetched(`parts/${name}`)).text();
      const place = inMain.findIndex(([other]) => other === name);
      replace(name, html, place > 0 ? document.getElementById(inMain[place - 1][0]) : null);
      known.set(name, hash);
      stsq.drawTheRest();
    }
    inMain.reduce((before, [name]) => {
      const part = document.getElementById(name);
      if (part && before && before.nextElementSibling !== part) before.after(part);
      return part ?? before;
    }, null);
  }

  function ago(seconds) {
    if (seconds < 90) return `${Math.max(0, Math.round(seconds))} s ago`;
    return seconds < 5400 ? `${Math.round(seconds / 60)} min ago` : `${Math.round(seconds / 3600)} h ago`;
  }
  function say(words) {
    line.replaceChildren(Object.assign(document.createElement("b"), { textContent: words }),
                         Object.assign(document.createElement("span"), { id: "drawn-at" }));
  }
  setInterval(() => {
    const place = document.getElementById("drawn-at");
    if (place && drawnAt) place.textContent = `drawn ${ago(Date.now() / 1000 - drawnAt)}`;
  }, 1000);

  let said = "";
  async function look() {
    let pause = document.hidden ? HIDDEN_MS : EVERY_MS;
    try {
      const state = await (await fetched("state")).json();
      await update(state);
      drawnAt = state.drawn_at;
      if (said !== state.pulse) say(said = state.pulse);
      top.classList.toggle("running", state.running);
      top.classList.remove("lost");
      alert.textContent = "";
    } catch (error) {
      top.classList.add("lost");
      alert.textContent = "The server does not answer: this page is no longer updated.";
      pause = LOST_MS;
      console.info(error);
    }
    document.body.dataset.looks = 1 + Number(document.body.dataset.looks ?? 0);
    timer = setTimeout(look, pause);
  }
  let timer = setTimeout(look, 0);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { clearTimeout(timer); look(); } });
})();
