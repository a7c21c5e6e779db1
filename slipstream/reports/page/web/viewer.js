// The view: which scene, field, variant and section, and when they are drawn.

const SLOW = 60; // milliseconds: then what moves is drawn coarsely
const PAUSE = 200; // milliseconds without a move until it is drawn finely again

class Viewer {
  constructor(element, gl) {
    this.element = element;
    this.gl = gl;
    this.renderer = new Renderer(gl);
    this.camera = new Camera();
    this.panels = [...element.querySelectorAll(".panel")].map((panel) => new Panel(panel));
    this.readout = element.querySelector(".readout");
    this.inputs = Object.fromEntries(
      [...element.querySelectorAll("[data-input]")].map((input) => [input.dataset.input, input]),
    );
    this.drawn = 0;
    this.wanted = null; // where to read off
    this.probed = null; // which point is there
    this.connect();
    this.openScene();
  }

  connect() {
    const { inputs } = this;
    inputs.sample.addEventListener("change", () => this.openScene());
    inputs.field.addEventListener("change", () => this.openValues());
    inputs.variant.addEventListener("change", () => this.openValues());
    inputs.axis.addEventListener("change", () => this.chooseAxis());
    inputs.place.addEventListener("input", () => this.moved());
    inputs.reset.addEventListener("click", () => this.reset());
    const act = {
      orbit: (dx, dy) => this.move(() => this.camera.orbit(dx, dy)),
      zoom: (factor) => this.move(() => this.camera.zoom(factor)),
      pan: (dx, dy) => this.move(() => this.camera.pan(dx, dy)),
      reset: () => this.reset(),
      leave: () => this.probe(null),
    };
    for (const panel of this.panels) {
      listen(panel.canvas, { ...act, probe: (x, y) => this.probe({ panel, x, y }) });
    }
    new ResizeObserver(() => this.moved()).observe(this.panels[0].canvas);
    addEventListener("resize", () => this.moved()); // the sharpness of the display may change
    this.survive();
  }

  // A browser may take the GPU away and give it back.
  survive() {
    const lost = this.element.querySelector(".lost");
    this.gl.canvas.addEventListener("webglcontextlost", (event) => {
      event.preventDefault();
      lost.hidden = false;
    });
    this.gl.canvas.addEventListener("webglcontextrestored", () => {
      lost.hidden = true;
      this.renderer = new Renderer(this.gl);
      this.renderer.load(this.scene);
      this.openValues();
    });
  }

  // Decode the scene that is chosen, keeping field and variant where it has them too.
  openScene() {
    const { sample, field, variant } = this.inputs;
    const source = document.getElementById(`scene-${sample.value}`);
    this.scene = new Scene(JSON.parse(source.textContent));
    this.renderer.load(this.scene);
    this.pace = null;
    fill(field, this.scene.fields.map(({ name }) => name));
    fill(variant, this.scene.fields[0].variants.map(({ name }) => name));
    this.element.querySelector(".facts").textContent = source.dataset.facts;
    const sections = this.scene.kind === "volume" && !this.scene.flat;
    this.element.querySelector(".section").hidden = !sections;
    this.inputs.axis.value = sections ? this.scene.thinnest : "";
    this.inputs.place.value = this.inputs.place.max / 2;
    this.openValues();
    this.reset();
  }

  get field() {
    return this.scene.fields[this.inputs.field.selectedIndex];
  }

  get variant() {
    const { value } = this.inputs.variant;
    return this.field.variants.find(({ name }) => name === value);
  }

  // What each panel draws, and the ends of its colours: of the error, those of all variants.
  get layers() {
    const { field, variant } = this;
    const [low, high] = field.scale;
    return [
      { values: field.truth, low, high },
      { values: variant.prediction, low, high },
      { values: variant.error, low: field.errorScale[0], high: field.errorScale[1] },
    ];
  }

  openValues() {
    const { field, variant } = this;
    const captions = ["Truth", "Prediction", "Absolute error"];
    this.layers.forEach(({ values, low, high }, p) => {
      this.renderer.loadValues(p, values);
      this.panels[p].describe(captions[p], p ? variant.name : "", {
        colours: p === 2 ? ERROR_COLOURS : VALUE_COLOURS,
        low,
        high,
        below: values.low < low,
        above: values.high > high,
        label: nameWithUnit(p === 2 ? `error of ${field.name}` : field.name, field.unit),
      });
    });
    this.element.querySelector(".relative output").textContent = variant.relative;
    this.moved();
  }

  chooseAxis() {
    this.inputs.place.value = this.inputs.place.max / 2;
    this.reset();
  }

  // Across the section of a volume, else from the side and above.
  reset() {
    const { axis } = this.inputs;
    if (axis.value !== "") this.camera.face(Number(axis.value));
    else if (this.scene.flat) this.camera.face(this.scene.thinnest);
    else this.camera.turn(-2.2, 0.42);
    this.fitted = false; // the size of the panels may not be known yet
    this.rest();
    this.moved();
  }

  move(change) {
    change();
    this.moving = true;
    clearTimeout(this.pause);
    this.pause = setTimeout(() => this.rest(), PAUSE + (this.pace ?? 0));
    this.moved();
  }

  rest() {
    this.moving = false;
    clearTimeout(this.pause);
    if (this.coarse) this.moved();
  }

  // Something changed: draw once, when the browser next does.
  moved() {
    this.shot = null;
    this.request();
  }

  request() {
    this.frame ??= requestAnimationFrame(() => {
      this.frame = null;
      this.update();
    });
  }

  probe(wanted) {
    this.wanted = wanted;
    this.request();
  }

  update() {
    if (this.gl.isContextLost()) return;
    if (!this.shot) this.draw();
    this.showProbe();
  }

  get section() {
    const { axis, place } = this.inputs;
    const { scene } = this;
    if (axis.value === "") return { axis: [0, 0, 0], at: 0, half: -1 };
    const a = Number(axis.value);
    const half = scene.box[a];
    return {
      axis: AXES.map((_, other) => Number(other === a)),
      at: (2 * (place.value / place.max) - 1) * half,
      half: Math.max(scene.typicalSpacing * 0.75, half * 0.02),
    };
  }

  draw() {
    const { camera, renderer, panels, scene } = this;
    const [width, height] = panels[0].size;
    camera.aspect = width / height;
    if (!this.fitted) camera.fit(scene.outline);
    this.fitted = true;
    const { section } = this;
    const thin = scene.flat || section.half >= 0;
    this.shot = {
      view: camera.view,
      projection: camera.projection,
      section,
      // What is thin is not darkened with depth: its colours are those of the scale.
      depths: thin ? [1e3, 1e4] : [camera.distance - 1, camera.distance + 1],
      box: scene.kind === "volume" && !scene.flat ? scene.box : null,
    };
    this.coarse = this.moving && this.pace > SLOW;
    const sharpness = this.coarse ? 1 : panels[0].sharpness;
    renderer.resize(Math.round(width * sharpness), Math.round(height * sharpness));
    const begun = performance.now();
    this.layers.forEach((layer, p) => {
      renderer.draw(p, layer.values, layer, this.shot);
      panels[p].show(this.gl.canvas, camera);
    });
    if (this.moving) this.measure(begun);
    this.showSection();
    this.drawn += 1;
  }

  // How long a fine picture of this scene takes: measured once, as waiting for it costs time.
  measure(begun) {
    if (this.pace !== null) return;
    this.renderer.wait();
    this.pace = performance.now() - begun;
  }

  showSection() {
    const { axis, place } = this.inputs;
    place.disabled = axis.value === "";
    const { at, half } = this.shot.section;
    const { scene } = this;
    const texts = [at * scene.size + scene.centre[axis.value], half * scene.size].map((value) =>
      numberText(value, usefulStep(Math.max(...scene.extents))),
    );
    const text = place.disabled ? "all points" : withUnit(`${texts[0]} ± ${texts[1]}`, scene.unit);
    this.element.querySelector(".section output").textContent = text;
    place.setAttribute("aria-valuetext", text);
  }

  // Of the visible points near the pointer, the one that is nearest to it.
  nearest({ panel, x, y }) {
    const { size } = panel;
    const names = this.renderer.namesNear(x, y, size, this.shot);
    let [found, least] = [null, Infinity];
    for (const name of names) {
      const [u, v] = this.place(name);
      const far = Math.hypot(u * size[0] - x, v * size[1] - y);
      if (far < least) [found, least] = [name, far];
    }
    return found;
  }

  place(index) {
    return this.camera.project([...this.scene.positions.subarray(index * 3, index * 3 + 3)]);
  }

  showProbe() {
    const { wanted } = this;
    this.probed = wanted && this.nearest(wanted);
    const place = this.probed === null ? null : this.place(this.probed);
    this.panels.forEach((panel) => panel.mark(place));
    this.readout.hidden = !place;
    if (!place) return;
    const facts = pointFacts(this.scene, this.field, this.variant, this.probed);
    placeReadout(this.readout, wanted.panel, place, facts);
  }

  snapshot() {
    const { camera } = this;
    return {
      drawn: this.drawn,
      probed: this.probed,
      distance: camera.distance,
      target: camera.target,
      right: camera.right,
      up: camera.up,
      back: camera.back,
      section: this.section,
    };
  }
}

// Choices by name; the one that was chosen stays, if it is still there.
function fill(select, names) {
  const before = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (names.includes(before)) select.value = before;
}

function startViewer() {
  const element = document.getElementById("viewer");
  const options = { antialias: true, alpha: true, powerPreference: "high-performance" };
  const gl = document.createElement("canvas").getContext("webgl2", options);
  element.querySelector(".unsupported").hidden = Boolean(gl);
  element.querySelector(".view").hidden = !gl;
  if (!gl) return;
  const viewer = new Viewer(element, gl);
  window.slipstream = Object.freeze({ snapshot: () => viewer.snapshot() });
}

startViewer();
