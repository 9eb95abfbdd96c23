"use strict";
const number = (text) => {
  const found = /^-?[+]?[\d.,]+/.exec(text);
  if (!found) return null;
  const unit = text.slice(found[0].length).trim();
  const scale = { k: 1e3, M: 1e6, G: 1e9, KiB: 1024, MiB: 1024 ** 2, GiB: 1024 ** 3,
    TiB: 1024 ** 4, ms: 1e-3 }[unit.replace("/s", "")];
  const length = /^(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?$/.exec(text);
  if (length && text) {
    const [, d, h, m, s] = length.map((part) => Number(part || 0));
    return ((d * 24 + h) * 60 + m) * 60 + s;
  }
  return Number(found[0].replaceAll(",", "")) * (scale || 1);
};
const sort = (head) => {
  const body = head.closest("table").tBodies[0];
  const place = head.cellIndex;
  const up = head.dataset.up !== "1";
  head.dataset.up = up ? "1" : "0";
  head.parentNode.querySelectorAll("th").forEach((other) => other.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
  const value = (row) => {
    const text = row.cells[place].textContent;
    const found = head.classList.contains("num") ? number(text) : null;
    return found === null ? text : found;
  };
  const rows = [...body.rows].map((row) => [value(row), row]);
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  rows.sort((a, b) => (up ? 1 : -1) * order(a[0], b[0]));
  body.append(...rows.map((pair) => pair[1]));
};
document.querySelectorAll("th").forEach((head) => {
  head.addEventListener("click", () => sort(head));
  head.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" && event.key !== " ") return;
    event.preventDefault();
    sort(head);
  });
});
document.getElementById("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  document.querySelectorAll("tbody tr").forEach((row) =>
    row.classList.toggle("hidden", !row.textContent.toLowerCase().includes(wanted)));
});
const PLOT = 1000;
const points = (line) => {
  if (!line.points) {
    line.points = (line.getAttribute("d").match(/[\d.]+ [\d.]+/g) || []).map((p) => p.split(" ").map(Number));
  }
  return line.points;
};
document.querySelectorAll(".time").forEach((section) => {
  const first = Number(section.dataset.first), last = Number(section.dataset.last);
  const charts = [...section.querySelectorAll(".chart")];
  const said = section.querySelector(".said");
  let from = 0, to = PLOT, at = null, begun = null;
  const year = (us) => new Date(us / 1000).getUTCFullYear();
  const day = year(first) === year(last) ? 5 : 0;
  const moment = (x) => new Date((first + x / PLOT * (last - first)) / 1000).toISOString();
  const ticks = (below) => {
    const a = first + from / PLOT * (last - first), long = (to - from) / PLOT * (last - first);
    const steps = section.dataset.steps.split(",").map(Number);
    const step = (steps.find((one) => long / (one * 1e6) < 7) || Math.ceil(long / 7 / 864e8) * 86400) * 1e6;
    const texts = [];
    for (let us = Math.ceil(a / step) * step; us < a + long * 0.96; us += step) {
      const text = document.createElementNS("http://www.w3.org/2000/svg", "text");
      text.setAttribute("x", (us - a) / long * 100 + "%");
      text.setAttribute("y", "1em");
      const when = new Date(us / 1000).toISOString();
      text.textContent = us % 864e8 ? when.slice(11, step < 6e7 ? 19 : 16) : when.slice(day, 10);
      texts.push(text);
    }
    below.replaceChildren(...texts);
  };
  const point = (x, aloud) => {
    at = Math.min(Math.max(x, from), to);
    charts.forEach((chart) => {
      const plot = chart.querySelector(".plot"), high = plot.viewBox.baseVal.height;
      const box = plot.getBoundingClientRect(), cross = chart.querySelector(".cross");
      cross.style.left = box.left - chart.getBoundingClientRect().left + (at - from) / (to - from) * box.width + "px";
      cross.style.display = "block";
      const value = chart.querySelector(".value");
      if (!value) return;
      const keys = chart.querySelectorAll(".key");
      value.textContent = [...plot.querySelectorAll(".line")].map((line, index) => {
        const near = points(line).reduce(
          (best, one) => Math.abs(one[0] - at) < Math.abs(best[0] - at) ? one : best, [-1e9, 0]);
        const height = (high - near[1]) / high * Number(chart.dataset.top);
        return keys[index].textContent + " " + Number(height.toPrecision(4)).toLocaleString("en");
      }).join("   ");
    });
    const here = aloud && aloud.querySelector(".value");
    said.textContent = moment(at).slice(0, 19).replace("T", " ") + " UTC" + (here ? "   " + here.textContent : "");
  };
  const show = (a, b) => {
    const least = PLOT / 500, width = Math.min(Math.max(b - a, least), PLOT);
    from = Math.min(Math.max(a, 0), PLOT - width);
    to = from + width;
    charts.forEach((chart) => {
      chart.querySelectorAll(".plot").forEach((plot) =>
        plot.setAttribute("viewBox", `${from} 0 ${width} ${plot.viewBox.baseVal.height}`));
      chart.querySelectorAll(".ticks svg").forEach(ticks);
    });
    if (at !== null) point(at);
  };
  const zoom = (factor) => {
    const middle = at === null ? (from + to) / 2 : at, width = (to - from) * factor;
    const share = (middle - from) / (to - from);
    show(middle - share * width, middle + (1 - share) * width);
  };
  const inside = (chart, event) => {
    const box = chart.querySelector(".plot").getBoundingClientRect();
    return from + Math.min(Math.max((event.clientX - box.left) / box.width, 0), 1) * (to - from);
  };
  section.querySelector(".tools").hidden = false;
  section.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () =>
    button.dataset.zoom === "all" ? show(0, PLOT) : zoom(button.dataset.zoom === "in" ? 0.5 : 2)));
  charts.forEach((chart) => {
    chart.addEventListener("pointermove", (event) => point(inside(chart, event), chart));
    chart.addEventListener("pointerdown", (event) => { begun = event.pointerType === "mouse" ? inside(chart, event) : null; });
    chart.addEventListener("pointerup", (event) => {
      const end = inside(chart, event);
      if (begun !== null && Math.abs(end - begun) > (to - from) / 50) show(Math.min(begun, end), Math.max(begun, end));
      begun = null;
    });
    chart.addEventListener("dblclick", () => show(0, PLOT));
    chart.addEventListener("keydown", (event) => {
      const step = (to - from) / 60, now = at === null ? (from + to) / 2 : at;
      const act = { ArrowLeft: () => point(now - step, chart), ArrowRight: () => point(now + step, chart),
        "+": () => zoom(0.5), "-": () => zoom(2), "0": () => show(0, PLOT) }[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
  });
});
