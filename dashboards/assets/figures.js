"use strict";
// What can be done with a figure: zoom, logarithmic or linear axes, saving; and its hover text, which stands outside the axes.
const figures = (() => {
  const all = (selector, inside) => [...inside.querySelectorAll(selector)];
  const made = (name, fields, ...children) => {
    const node = Object.assign(document.createElement(name), fields);
    node.append(...children);
    return node;
  };
  const specOf = (place) => JSON.parse(place.nextElementSibling.textContent);
  const axesOf = (layout) => Object.keys(layout).filter((name) => /^[xy]axis\d*$/.test(name));
  const [NARROW, STEEP] = [480, -65];
  const hasMouse = matchMedia("(pointer: fine)").matches;

  // An axis has both scales where it is logarithmic, or its numbers are all positive and not named, shared out or percent.
  function scalable(spec) {
    if (spec.data.some(({ type }) => type === "heatmap")) return [];
    return ["x", "y"].filter((letter) => {
      const names = axesOf(spec.layout).filter((name) => name[0] === letter);
      if (names.length !== 1) return false;
      const axis = spec.layout[names[0]];
      const isNamed = axis.showticklabels === false || axis.ticktext?.some((text) => Number.isNaN(parseFloat(text)));
      if (isNamed || axis.tickformat) return false;
      return axis.type === "log" || spec.data.every((trace) => (trace[letter] ?? []).every((value) => value === null || value > 0));
    });
  }

  // The specification with the scales that the reader chose; ticks and ends that were made for the other scale are left out.
  function scaled(spec, place) {
    for (const letter of ["x", "y"]) {
      const axis = spec.layout[`${letter}axis`];
      if (!place.dataset[letter] || !axis) continue;
      const isLog = place.dataset[letter] === "log";
      if (isLog === (axis.type === "log")) continue;
      const both = isLog ? Math.log10 : (value) => 10 ** value;
      axis.type = isLog ? "log" : "linear";
      for (const name of ["range", "tickvals", "ticktext", "rangemode", "nticks"]) delete axis[name];
      for (const note of spec.layout.annotations ?? []) if (note[`${letter}ref`] === letter) note[letter] = both(note[letter]);
    }
    // Names below a narrow figure stand steeper, so that the first does not leave it.
    const { xaxis } = spec.layout;
    if (xaxis?.tickangle && place.clientWidth < NARROW) xaxis.tickangle = STEEP;
    for (const name of axesOf(spec.layout)) if (hasMouse) spec.layout[name].fixedrange = false;
    Object.assign(spec.layout, { dragmode: hasMouse ? "zoom" : false, uirevision: `${place.dataset.x} ${place.dataset.y}` });
    return spec;
  }

  function zoom(place, factor) {
    const { _fullLayout: full } = place;
    const names = axesOf(full);
    const several = names.filter((name) => name[0] === "y").length > 1;
    const ends = names.filter((name) => full[name].range && !(several && name[0] === "y")).map((name) => {
      const [low, high] = full[name].range;
      const [middle, half] = [(low + high) / 2, ((high - low) / 2) * factor];
      return [`${name}.range`, [middle - half, middle + half]];
    });
    Plotly.relayout(place, Object.fromEntries(ends));
  }
  function reset(place) {
    const { layout } = scaled(specOf(place), place);
    const ends = axesOf(layout).map((name) => {
      const { range, autorange } = layout[name];
      return range ? [`${name}.range`, range] : [`${name}.autorange`, autorange ?? true];
    });
    Plotly.relayout(place, Object.fromEntries(ends));
  }

  const save = (name, url) => made("a", { download: name, href: url }).click();
  function saveText(name, text, type) {
    const url = URL.createObjectURL(new Blob([text], { type }));
    save(name, url);
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  }
  const quoted = (value) => { const text = String(value ?? ""); return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text; };
  const csv = (rows) => `${rows.map((row) => row.map(quoted).join(",")).join("\n")}\n`;
  const plain = (html) => new DOMParser().parseFromString(String(html ?? "").replaceAll("<br>", "; "), "text/html").body.textContent;
  const at = (values, place) => (Array.isArray(values) ? values[place] : values);

  // The numbers that a figure draws, a row a point, with the ends of its interval.
  function numbers({ data }) {
    const rows = [["series", "x", "y", "x_low", "x_high", "y_low", "y_high", "text"]];
    for (const trace of data) {
      if (trace.type === "heatmap") {
        trace.z.forEach((row, y) => row.forEach((z, x) => rows.push(["z", x, y, "", "", "", "", z])));
        continue;
      }
      if (trace.fill) continue;
      (trace.x ?? []).forEach((x, place) => {
        const ends = [["x", x], ["y", trace.y[place]]].flatMap(([letter, value]) => {
          const bar = trace[`error_${letter}`];
          return bar ? [value - bar.arrayminus[place], value + bar.array[place]] : ["", ""];
        });
        rows.push([plain(trace.name), x, trace.y[place], ...ends, plain(at(trace.text, place))]);
      });
    }
    return csv(rows);
  }

  const stem = (place) => (place.getAttribute("aria-label") ?? "figure").toLowerCase()
    .replace(/[^a-z0-9]+/g, "-").replace(/^-+|-+$/g, "").slice(0, 80);
  async function saveFigure(place, format) {
    const name = stem(place);
    if (format === "csv") return saveText(`${name}.csv`, numbers(specOf(place)), "text/csv");
    if (format === "json") return saveText(`${name}.json`, place.nextElementSibling.textContent, "application/json");
    const { width, height } = place.getBoundingClientRect();
    return save(`${name}.${format}`, await Plotly.toImage(place, { format, width, height, scale: format === "png" ? 3 : 1 }));
  }

  // The buttons of a figure: in a row below a large one, folded below a small one. They stand behind its data, since an image
  // has nothing to press in it.
  const boxes = new WeakMap();
  const settle = (place) => place.nextElementSibling.after(...[boxes.get(place)].filter(Boolean));
  function equip(place, draw) {
    if (boxes.has(place)) return;
    const button = (text, words, act) => made("button", { type: "button", textContent: text, title: words, ariaLabel: words, onclick: act });
    const buttons = [
      button("+", "Zoom in", () => zoom(place, 0.6)),
      button("\u2212", "Zoom out", () => zoom(place, 1 / 0.6)),
      button("Reset", "Show the whole figure", () => reset(place)),
    ];
    for (const letter of scalable(specOf(place))) {
      const now = () => place.dataset[letter] ?? specOf(place).layout[`${letter}axis`].type ?? "linear";
      const other = () => (now() === "log" ? "linear" : "log");
      const label = () => [`${letter}: ${now() === "log" ? "log" : "linear"}`, `Make the ${letter} axis ${other() === "log" ? "logarithmic" : "linear"}`];
      const toggle = button(...label(), () => {
        place.dataset[letter] = other();
        draw(place);
        [toggle.textContent, toggle.title] = label();
        toggle.ariaLabel = toggle.title;
      });
      buttons.push(toggle);
    }
    for (const format of ["svg", "png", "csv", "json"]) {
      buttons.push(button(format.toUpperCase(), `Save as ${format.toUpperCase()}`, () => saveFigure(place, format)));
    }
    const row = made("div", { className: "buttons" }, ...buttons);
    const isSmall = place.clientWidth < 420;
    const name = place.getAttribute("aria-label") ?? "figure";
    const box = isSmall ? made("details", { className: "tools" }, made("summary", { textContent: "\u22ef", title: "Zoom, scales, saving" }), row)
                        : made("div", { className: "tools", role: "group" }, row);
    if (isSmall) box.firstChild.ariaLabel = `Zoom, scales and saving of ${name}`; else box.ariaLabel = `Tools of ${name}`;
    boxes.set(place, box);
    settle(place);
    tell(place);
  }

  // Plotly's own label covers the marks around the pointer: its words stand below the figure, or above where there is no room.
  function tell(place) {
    const tip = made("div", { className: "tip", hidden: true });
    tip.setAttribute("role", "tooltip");
    place.append(tip);
    place.on("plotly_hover", () => {
      const lines = all(".hoverlayer .hovertext text", place).flatMap((text) => {
        const own = all("tspan.line", text);
        return own.length ? own.map((line) => line.textContent) : [text.textContent];
      });
      tip.replaceChildren(...lines.filter(Boolean).map((line) => made("div", { textContent: line })));
      tip.hidden = !tip.childElementCount;
      if (tip.hidden) return;
      tip.style.left = "0px";
      const { left, top, bottom } = place.getBoundingClientRect();
      const { width, height } = tip.getBoundingClientRect();
      tip.style.left = `${Math.min(0, document.documentElement.clientWidth - 8 - left - width)}px`;
      tip.classList.toggle("above", bottom + height > innerHeight && top > height);
    });
    place.on("plotly_unhover", () => { tip.hidden = true; });
  }

  return { scaled, equip, settle, saveText, csv };
})();
