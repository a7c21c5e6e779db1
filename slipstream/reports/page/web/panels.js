// The three panels as the reader sees them: pictures, colour bars, markers and the readout.

const SHARPEST = 3; // pixels a pixel of the page, on the finest displays
const AXES = ["x", "y", "z"];

class Panel {
  constructor(element) {
    this.canvas = element.querySelector("canvas");
    this.pencil = this.canvas.getContext("2d");
    this.stage = element.querySelector(".stage");
    this.marker = element.querySelector(".marker");
    this.caption = element.querySelector("figcaption");
    this.bar = element.querySelector(".colour-bar");
  }

  get size() {
    return [Math.max(this.canvas.clientWidth, 1), Math.max(this.canvas.clientHeight, 1)];
  }

  // Drawn at twice the size at least, which smooths the edges of discs.
  get sharpness() {
    return Math.min(Math.max(devicePixelRatio, 2), SHARPEST);
  }

  // Take over what the renderer has just drawn.
  show(image, camera, sharpness) {
    const { canvas, pencil } = this;
    if (canvas.width !== image.width) canvas.width = image.width;
    if (canvas.height !== image.height) canvas.height = image.height;
    pencil.clearRect(0, 0, canvas.width, canvas.height);
    pencil.drawImage(image, 0, 0);
    this.drawTriad(camera, sharpness);
  }

  // The directions of the axes, in the lower left corner, with a halo that sets them off.
  drawTriad(camera, sharpness) {
    const { pencil, canvas } = this;
    const [reach, margin] = [20, 34];
    pencil.save();
    pencil.scale(sharpness, sharpness);
    pencil.translate(margin, canvas.height / sharpness - margin);
    pencil.strokeStyle = getComputedStyle(this.stage).backgroundColor;
    pencil.fillStyle = getComputedStyle(canvas).color;
    pencil.lineWidth = 4;
    pencil.lineJoin = "round";
    pencil.font = "11px system-ui, sans-serif";
    pencil.textAlign = "center";
    pencil.textBaseline = "middle";
    const lines = new Path2D();
    const ends = AXES.map((_, a) => [camera.right[a] * reach, -camera.up[a] * reach]);
    for (const [x, y] of ends) {
      lines.moveTo(0, 0);
      lines.lineTo(x, y);
    }
    pencil.stroke(lines);
    ends.forEach(([x, y], a) => {
      const length = Math.hypot(x, y);
      if (length < 4) return;
      const at = [x, y].map((end) => (end * (length + 9)) / length);
      pencil.strokeText(AXES[a], ...at);
      pencil.fillText(AXES[a], ...at);
    });
    pencil.strokeStyle = pencil.fillStyle;
    pencil.lineWidth = 1.25;
    pencil.stroke(lines);
    pencil.restore();
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
