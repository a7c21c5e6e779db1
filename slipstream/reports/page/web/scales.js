// Colours of values, and numbers as text.

// Eleven colours of matplotlib's viridis, and those of errors in the figures: from the grey of a
// bare body ever darker. Both are equidistant, and interpolated linearly in between.
const VALUE_COLOURS = [
  "#440154", "#482475", "#414487", "#355f8d", "#2a788e", "#21918c", "#22a884", "#44bf70",
  "#7ad151", "#bddf26", "#fde725",
];
const ERROR_COLOURS = ["#f4f4f4", "#fdd49e", "#fc8d59", "#d7301f", "#7f0000", "#2a0008"];

function colourTable(colours, size) {
  const table = new Uint8Array(size * 4);
  const channels = colours.map((c) => [1, 3, 5].map((at) => parseInt(c.slice(at, at + 2), 16)));
  for (let i = 0; i < size; i += 1) {
    const at = (i / (size - 1)) * (colours.length - 1);
    const left = Math.min(Math.floor(at), colours.length - 2);
    for (let c = 0; c < 3; c += 1) {
      const [a, b] = [channels[left][c], channels[left + 1][c]];
      table[i * 4 + c] = Math.round(a + (b - a) * (at - left));
    }
    table[i * 4 + 3] = 255;
  }
  return table;
}

const ROOM = 32; // letters that fit under a colour bar

// Round numbers from low to high with their texts, as many as there is room for.
function roundTicks(low, high) {
  if (!(high > low)) return [{ at: low, text: numberText(low, usefulStep(Math.abs(low))) }];
  let ticks = [];
  for (let parts = 6; parts > 1; parts -= 1) {
    ticks = ticksEvery(roundStep((high - low) / parts), low, high);
    if (ticks.reduce((sum, { text }) => sum + text.length + 2, 0) <= ROOM) break;
  }
  return ticks;
}

function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => step >= least * 0.999);
}

function ticksEvery(step, low, high) {
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k += 1) {
    ticks.push({ at: k * step, text: numberText(k * step, step) });
  }
  return ticks;
}

// A number to within `step`; powers of ten where plain digits would be too many.
function numberText(value, step) {
  if (!Number.isFinite(value)) return "not finite";
  const size = Math.abs(value);
  const decimals = Math.min(Math.max(Math.ceil(-Math.log10(step || 1) - 1e-9), 0), 20);
  const plain = size < 1e6 && decimals <= 6;
  const text = plain ? value.toFixed(decimals) : powerText(value, step);
  return text.replace(/^-/, "\u2212");
}

function powerText(value, step) {
  if (value === 0) return "0";
  const digits = Math.ceil(Math.log10(Math.abs(value) / step) - 1e-9);
  const [mantissa, power] = value.toExponential(Math.min(Math.max(digits, 0), 4)).split("e");
  const raised = [...String(Number(power))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join("");
  return `${mantissa}\u00d710${raised}`;
}

// What a reader can use of a quantity that spans `range`: three digits of it, or four.
function usefulStep(range) {
  return range > 0 ? 10 ** Math.floor(Math.log10(range / 1000)) : 1e-4;
}

// A colour bar under a panel: `below` and `above` say that values lie beyond its ends.
function drawColourBar(bar, { colours, low, high, below, above, label }) {
  const ramp = bar.querySelector(".ramp");
  ramp.style.backgroundImage = `linear-gradient(to right, ${colours.join(", ")})`;
  ramp.classList.toggle("below", below);
  ramp.classList.toggle("above", above);
  const marks = roundTicks(low, high).map(({ at, text }) => {
    const mark = document.createElement("span");
    mark.textContent = text;
    mark.style.left = `${high > low ? ((at - low) / (high - low)) * 100 : 50}%`;
    return mark;
  });
  bar.querySelector(".ticks").replaceChildren(...marks);
  bar.querySelector(".quantity").textContent = label;
  const ends = [low, high].map((end) => numberText(end, usefulStep(high - low)));
  bar.setAttribute("aria-label", `Colour scale of ${label} from ${ends[0]} to ${ends[1]}`);
}
