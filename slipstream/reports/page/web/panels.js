// The three panels as the reader sees them: pictures, colour bars, markers and the readout.

const SHARPEST = 3; // pixels a pixel of the page, on the finest displays
const AXES = ["x", "y", "z"];
const REACH = 14; // pixels: the length of an axis that is seen from the side

class Panel {
  constructor(element) {
    this.canvas = element.querySelector("canvas");
    this.pencil = this.canvas.getContext("2d");
    this.stage = element.querySelector(".stage");
    this.marker = element.querySelector(".marker");
    this.caption = element.querySelector("figcaption");
    this.bar = element.querySelector(".colour-bar");
    this.triad = element.querySelector(".triad");
  }

  get size() {
    return [Math.max(this.canvas.clientWidth, 1), Math.max(this.canvas.clientHeight, 1)];
  }

  // Drawn at twice the size at least, which smooths the edges of discs.
  get sharpness() {
    return Math.min(Math.max(devicePixelRatio, 2), SHARPEST);
  }

  // Take over what the renderer has just drawn.
  show(image, camera) {
    const { canvas, pencil } = this;
    if (canvas.width !== image.width) canvas.width = image.width;
    if (canvas.height !== image.height) canvas.height = image.height;
    pencil.clearRect(0, 0, canvas.width, canvas.height);
    pencil.drawImage(image, 0, 0);
    this.turnTriad(camera);
  }

  // The directions of the axes, beside the colour bar, where they cover nothing of the sample.
  turnTriad(camera) {
    const [lines, ...names] = this.triad.children;
    const ends = AXES.map((_, a) => [camera.right[a] * REACH, -camera.up[a] * REACH]);
    lines.setAttribute("d", ends.map((end) => `M0 0L${end}`).join(""));
    ends.forEach(([x, y], a) => {
      const length = Math.hypot(x, y);
      const beyond = (length + 7) / length;
      // An axis seen from its end has no name: it would stand on the other axes.
      names[a].style.visibility = length < 4 ? "hidden" : "visible";
      names[a].setAttribute("x", length < 4 ? 0 : x * beyond);
      names[a].setAttribute("y", length < 4 ? 0 : y * beyond);
    });
  }

  mark(place) {
    this.marker.hidden = !place;
    if (!place) return;
    const [x, y] = [place[0] * this.size[0], place[1] * this.size[1]];
    this.marker.style.transform = `translate(${x}px, ${y}px)`;
  }

  describe(title, variant, bar) {
    const [strong, span] = this.caption.children;
    strong.textContent = title;
    span.textContent = variant;
    const caption = variant ? `${title} of ${variant}` : title;
    this.canvas.setAttribute(
      "aria-label",
      `${caption}: ${bar.label}. Arrow keys turn, plus and minus zoom, 0 resets, Enter reads off.`,
    );
    drawColourBar(this.bar, bar);
  }
}

function withUnit(text, unit) {
  return unit ? `${text}\u00a0${unit}` : text;
}

function nameWithUnit(name, unit) {
  return unit ? `${name} [${unit}]` : name;
}

// The values of a point, as pairs of words.
function pointFacts(scene, field, variant, index) {
  const step = usefulStep(Math.max(...scene.extents));
  const places = scene.axes.map((axis) => numberText(axis.at(index), step));
  const fine = usefulStep(field.scale[1] - field.scale[0]);
  const finer = Math.min(fine, usefulStep(field.errorScale[1]));
  return [
    [AXES.join(", "), withUnit(places.join(", "), scene.unit)],
    ["Truth", withUnit(numberText(field.truth.at(index), fine), field.unit)],
    ["Prediction", withUnit(numberText(variant.prediction.at(index), fine), field.unit)],
    ["Absolute error", withUnit(numberText(variant.error.at(index), finer), field.unit)],
  ];
}

// Along the edge of the panel that is farther from the point, so as not to hide it.
function placeReadout(readout, panel, place, facts) {
  const pairs = facts.map(([term, text]) => {
    const pair = ["div", "dt", "dd"].map((tag) => document.createElement(tag));
    pair[1].textContent = term;
    pair[2].textContent = text;
    pair[0].append(pair[1], pair[2]);
    return pair[0];
  });
  readout.replaceChildren(...pairs);
  readout.classList.toggle("high", place[1] > 0.5);
  panel.stage.append(readout);
}
