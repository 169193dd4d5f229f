// What the page can do where scripts run: copy a line, enlarge a drawing, a step plot to zoom into. Nothing here is needed to read it.
"use strict";
(() => {
  const make = (tag, attributes, text) => {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    if (text) node.textContent = text;
    return node;
  };

  for (const row of document.querySelectorAll(".evidence > li")) {
    const hit = row.querySelector(".log .hit code");
    const where = row.querySelector(".where");
    if (!hit || !where) continue;
    const button = make("button", { type: "button", class: "tool" }, "copy");
    const name = (where.querySelector("b") || where).textContent.trim();
    button.setAttribute("aria-label", `copy the line of ${name}`);
    button.addEventListener("click", async () => {
      const text = `${name}: ${hit.textContent}`;
      try {
        await navigator.clipboard.writeText(text);
      } catch {
        const area = make("textarea", { readonly: "" });
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
      }
      button.textContent = "copied";
      setTimeout(() => { button.textContent = "copy"; }, 1500);
    });
    where.append(" ", button);
  }

  for (const box of document.querySelectorAll(".scroll")) {
    const drawing = box.querySelector(":scope > svg.plot");
    if (!drawing) continue;
    let scale = 1;
    const bar = make("div", { class: "tools", role: "group", "aria-label": "Size of the drawing" });
    const show = () => {
      const middle = (box.scrollLeft + box.clientWidth / 2) / Math.max(1, box.scrollWidth);
      drawing.style.width = `${100 * scale}%`;
      box.scrollLeft = middle * box.scrollWidth - box.clientWidth / 2;
    };
    for (const [label, words, next] of [["+", "enlarge", (s) => Math.min(8, s * 1.6)], ["−", "shrink", (s) => Math.max(1, s / 1.6)], ["fit", "fit the width", () => 1]]) {
      const button = make("button", { type: "button", class: "tool", "aria-label": words, title: words }, label);
      button.addEventListener("click", () => { scale = next(scale); show(); });
      bar.append(button);
    }
    box.before(bar);
    const data = document.getElementById("step-data");
    if (data && drawing.classList.contains("steps") && typeof uPlot === "function") {
      const button = make("button", { type: "button", class: "tool", "aria-expanded": "false" }, "plot to zoom into");
      let plot = null;
      button.addEventListener("click", () => {
        if (plot) { plot.root.parentNode.remove(); plot = null; button.setAttribute("aria-expanded", "false"); return; }
        plot = stepPlot(JSON.parse(data.textContent), box);
        button.setAttribute("aria-expanded", "true");
      });
      bar.append(button);
    }
  }

  function stepPlot(data, box) {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const holder = make("div", { class: "uplot-holder" });
    box.after(holder);
    const axis = { stroke: colour("--soft"), grid: { stroke: colour("--rule"), width: 1 }, ticks: { stroke: colour("--rule"), width: 1 } };
    const line = (label, name, width) => ({ label, stroke: colour(name), width, value: (_, v) => (v == null ? "" : `${v.toFixed(3)} s`), points: { show: false } });
    return new uPlot({
      width: Math.max(320, box.clientWidth), height: 300, scales: { x: { time: false } },
      cursor: { drag: { x: true, y: false } },
      axes: [{ ...axis, label: "step" }, { ...axis, label: "seconds per step" }],
      series: [{ label: "step" }, line("median", "--mark", 1.6), line("fastest", "--density", 1), line("slowest", "--error", 1)],
    }, data, holder);
  }
})();
