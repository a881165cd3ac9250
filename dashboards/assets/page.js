"use strict";
// Draws the figures in view first and the others when there is time, in the colours of the reader's theme, and again when it changes.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const pairs = JSON.parse(document.getElementById("theme").textContent);
  const config = { displayModeBar: false, responsive: true, scrollZoom: false, doubleClick: "reset" };
  const places = [...document.querySelectorAll(".plot")];
  const waiting = () => places.filter((place) => !place.dataset.drawn);

  const inTheme = (text) => (dark.matches ? pairs.reduce((all, [light, night]) => all.replaceAll(light, night), text) : text);

  const draw = (place) => {
    place.dataset.drawn = "yes";
    const spec = JSON.parse(inTheme(place.nextElementSibling.textContent));
    Plotly.react(place, spec.data, spec.layout, config);
  };

  const drawTheRest = () => {
    const [next] = waiting();
    if (next) {
      draw(next);
      setTimeout(drawTheRest, 20);
    }
  };

  const seen = new IntersectionObserver(
    (entries) => entries.filter(({ isIntersecting, target }) => isIntersecting && !target.dataset.drawn).forEach(({ target }) => draw(target)),
    { rootMargin: "300px" },
  );
  places.forEach((place) => seen.observe(place));
  addEventListener("load", () => setTimeout(drawTheRest, 200));
  addEventListener("beforeprint", () => waiting().forEach(draw));
  dark.addEventListener("change", () => places.filter((place) => place.dataset.drawn).forEach(draw));
})();
