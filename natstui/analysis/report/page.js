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
document.querySelectorAll("th").forEach((head) => head.addEventListener("click", () => {
  const body = head.closest("table").tBodies[0];
  const place = head.cellIndex;
  const up = head.dataset.up !== "1";
  head.dataset.up = up ? "1" : "0";
  const value = (row) => {
    const text = row.cells[place].textContent;
    const found = head.classList.contains("num") ? number(text) : null;
    return found === null ? text : found;
  };
  const rows = [...body.rows].map((row) => [value(row), row]);
  const order = (a, b) => typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1;
  rows.sort((a, b) => (up ? 1 : -1) * order(a[0], b[0]));
  body.append(...rows.map((pair) => pair[1]));
}));
document.getElementById("filter").addEventListener("input", (event) => {
  const wanted = event.target.value.toLowerCase();
  document.querySelectorAll("tbody tr").forEach((row) =>
    row.classList.toggle("hidden", !row.textContent.toLowerCase().includes(wanted)));
});
document.querySelectorAll(".chart").forEach((chart) => chart.addEventListener("mousemove", (event) => {
  const box = chart.getBoundingClientRect();
  const [left, right, high, low, top] =
    ["left", "right", "high", "low", "top"].map((name) => Number(chart.dataset[name]));
  const wide = chart.viewBox.baseVal.width;
  const x = Math.min(Math.max((event.clientX - box.left) * wide / box.width, left), right);
  const share = (x - left) / (right - left);
  const first = Number(chart.dataset.first), last = Number(chart.dataset.last);
  const at = new Date((first + share * (last - first)) / 1000).toISOString().slice(0, 19);
  const cross = chart.querySelector(".cross");
  cross.setAttribute("x1", x);
  cross.setAttribute("x2", x);
  const values = [...chart.querySelectorAll(".line")].map((line, index) => {
    const points = line.getAttribute("d").match(/[\d.]+ [\d.]+/g) || [];
    const near = points.map((point) => point.split(" ").map(Number))
      .reduce((best, point) => Math.abs(point[0] - x) < Math.abs(best[0] - x) ? point : best, [-1e9, 0]);
    const value = (low - near[1]) / (low - high) * top;
    return chart.querySelectorAll(".key")[index].textContent + " " + value.toPrecision(4);
  });
  chart.querySelector(".value").textContent = at.replace("T", " ") + "   " + values.join("   ");
}));
