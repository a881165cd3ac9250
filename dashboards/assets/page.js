"use strict";
// The page by itself: figures in the reader's theme, one cell at a time, and the files in it.
const stsq = (() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const all = (selector, inside = document) => [...inside.querySelectorAll(selector)];

  // Theme: the system's, unless the reader chose one.
  const night = matchMedia("(prefers-color-scheme: dark)");
  const kept = { get: () => { try { return localStorage.getItem("scheme"); } catch { return null; } },
                 set: (name) => { try { localStorage.setItem("scheme", name); } catch { /* a browser that keeps nothing */ } } };
  const schemes = ["auto", "light", "dark"];
  const button = document.getElementById("scheme");
  let scheme = schemes.includes(kept.get()) ? kept.get() : "auto";
  const isDark = () => (scheme === "auto" ? night.matches : scheme === "dark");
  const showScheme = () => {
    if (scheme === "auto") delete root.dataset.scheme; else root.dataset.scheme = scheme;
    button.textContent = `Theme: ${scheme}`;
  };
  const changeScheme = () => { showScheme(); all(".plot").filter((place) => place.dataset.drawn).forEach(draw); };
  button.addEventListener("click", () => {
    scheme = schemes[(schemes.indexOf(scheme) + 1) % schemes.length];
    kept.set(scheme);
    changeScheme();
  });
  night.addEventListener("change", changeScheme);
  showScheme();

  // Figures: those in view first, the others when there is time; one that is not shown waits until it is.
  const pairs = JSON.parse(document.getElementById("theme").textContent);
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
  const inTheme = (text) => (isDark() ? pairs.reduce((html, [light, dark]) => html.replaceAll(light, dark), text) : text);
  const isShown = (place) => place.offsetParent !== null;
  function draw(place) {
    place.dataset.drawn = "yes";
    const spec = figures.scaled(JSON.parse(inTheme(place.nextElementSibling.textContent)), place);
    Plotly.react(place, spec.data, spec.layout, config);
    figures.equip(place, draw);
  }
  const waiting = () => all(".plot").filter((place) => !place.dataset.drawn && isShown(place));
  const idle = window.requestIdleCallback ?? ((run) => setTimeout(run, 30));
  let drawing = false;
  function drawTheRest() {
    if (drawing) return;
    drawing = true;
    const next = () => {
      const [place] = waiting();
      if (place) { draw(place); idle(next, { timeout: 500 }); } else drawing = false;
    };
    idle(next, { timeout: 500 });
  }
  const seen = new IntersectionObserver(
    (entries) => entries.filter(({ isIntersecting, target }) => isIntersecting && !target.dataset.drawn).forEach(({ target }) => draw(target)),
    { rootMargin: "300px" },
  );
  const watch = (inside) => all(".plot", inside).forEach((place) => seen.observe(place));
  addEventListener("beforeprint", () => waiting().forEach(draw));

  // One cell: chosen by the list, by the buttons, or by a link that ends in #cell=ID.
  let chosen = "";
  const panels = () => all(".cell-panel");
  function choose(cell) {
    const found = panels();
    if (!found.length) return;
    chosen = found.some((panel) => panel.dataset.cell === cell) ? cell : found[0].dataset.cell;
    found.forEach((panel) => { panel.hidden = panel.dataset.cell !== chosen; });
    const list = document.getElementById("cell-choice");
    list.value = chosen;
    document.getElementById("cell-previous").disabled = list.selectedIndex === 0;
    document.getElementById("cell-next").disabled = list.selectedIndex === list.options.length - 1;
    all(".plot", document.getElementById(`cell-${chosen}`)).filter((place) => !place.dataset.drawn).forEach((place) => seen.observe(place));
  }
  const linked = () => new URLSearchParams(location.hash.slice(1)).get("cell");
  const goTo = (cell) => { history.replaceState(null, "", `#cell=${cell}`); choose(cell); };
  const step = (by) => {
    const list = document.getElementById("cell-choice");
    const option = list.options[list.selectedIndex + by];
    if (option) goTo(option.value);
  };
  function follow() {
    if (!linked()) return;
    choose(linked());
    document.getElementById("cell")?.scrollIntoView();
  }
  addEventListener("hashchange", follow);
  document.addEventListener("change", ({ target }) => { if (target.id === "cell-choice") goTo(target.value); });

  // A cell's trials as a table.
  const saveTable = (panel, name) => figures.saveText(
    `${name}.csv`,
    figures.csv(all("tr", panel.querySelector("table")).map((row) => [...row.cells].map((cell) => cell.textContent))),
    "text/csv",
  );

  // The files of a page that is sent alone lie in it, compressed.
  const TYPES = { csv: "text/csv", json: "application/json", svg: "image/svg+xml", pdf: "application/pdf" };
  async function unpack() {
    const kept = document.getElementById("files");
    if (!kept) return;
    for (const [name, packed] of Object.entries(JSON.parse(kept.textContent))) {
      const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
      const raw = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
      const url = URL.createObjectURL(new Blob([raw], { type: TYPES[name.split(".").pop()] ?? "text/plain" }));
      all("a[data-file]").filter((link) => link.dataset.file === name).forEach((link) => { link.href = url; });
    }
  }
  document.addEventListener("click", ({ target }) => {
    if (target.id === "cell-previous") step(-1);
    else if (target.id === "cell-next") step(1);
    else if (target.dataset?.save) saveTable(target.closest(".cell-panel"), target.dataset.save);
  });

  choose(linked());
  watch(document);
  addEventListener("load", () => { follow(); unpack(); setTimeout(drawTheRest, 200); });
  return { all, draw, watch, drawTheRest, choose: () => choose(chosen) };
})();
