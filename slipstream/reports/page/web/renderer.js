// One WebGL2 context draws all panels, one after the other: arrays are on the GPU once.

const TABLE_SIZE = 256;
const NEAR_POINTER = 9; // pixels
const CUBE = new Float32Array(
  [0, 1, 2].flatMap((a) =>
    [-1, 1].flatMap((u) =>
      [-1, 1].flatMap((v) =>
        [-1, 1].flatMap((end) => {
          const corner = [u, v];
          corner.splice(a, 0, end);
          return corner;
        }),
      ),
    ),
  ),
);

function compile(gl, vertex, fragment) {
  const program = gl.createProgram();
  for (const [type, source] of [
    [gl.VERTEX_SHADER, vertex],
    [gl.FRAGMENT_SHADER, fragment],
  ]) {
    const shader = gl.createShader(type);
    gl.shaderSource(shader, source);
    gl.compileShader(shader);
    gl.attachShader(program, shader);
  }
  gl.linkProgram(program);
  if (!gl.getProgramParameter(program, gl.LINK_STATUS) && !gl.isContextLost()) {
    throw new Error(`shaders must link, got ${gl.getProgramInfoLog(program)}`);
  }
  const places = {};
  const count = gl.getProgramParameter(program, gl.ACTIVE_UNIFORMS) ?? 0;
  for (let i = 0; i < count; i += 1) {
    const { name } = gl.getActiveUniform(program, i);
    places[name] = gl.getUniformLocation(program, name);
  }
  return { program, places };
}

class Renderer {
  constructor(gl) {
    this.gl = gl;
    this.discs = compile(gl, VERTEX, DISC);
    this.triangles = compile(gl, VERTEX, TRIANGLE);
    this.lines = compile(gl, LINE_VERTEX, LINE);
    this.tables = [VALUE_COLOURS, ERROR_COLOURS].map((colours) => this.table(colours));
    this.cube = gl.createVertexArray();
    gl.bindVertexArray(this.cube);
    this.attribute(POSITION, CUBE, 3);
    this.held = [];
    this.names = null;
    gl.enable(gl.DEPTH_TEST);
    gl.clearColor(0, 0, 0, 0);
  }

  table(colours) {
    const { gl } = this;
    const texture = gl.createTexture();
    gl.bindTexture(gl.TEXTURE_2D, texture);
    const pixels = colourTable(colours, TABLE_SIZE);
    gl.texImage2D(
      gl.TEXTURE_2D, 0, gl.RGBA, TABLE_SIZE, 1, 0, gl.RGBA, gl.UNSIGNED_BYTE, pixels,
    );
    for (const [what, how] of [
      [gl.TEXTURE_MIN_FILTER, gl.LINEAR],
      [gl.TEXTURE_WRAP_S, gl.CLAMP_TO_EDGE],
      [gl.TEXTURE_WRAP_T, gl.CLAMP_TO_EDGE],
    ]) {
      gl.texParameteri(gl.TEXTURE_2D, what, how);
    }
    return texture;
  }

  attribute(place, array, width) {
    const { gl } = this;
    const buffer = gl.createBuffer();
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer);
    gl.bufferData(gl.ARRAY_BUFFER, array, gl.STATIC_DRAW);
    gl.enableVertexAttribArray(place);
    gl.vertexAttribPointer(place, width, gl.FLOAT, false, 0, 0);
    return buffer;
  }

  // The points of a scene; those of the scene before are given back.
  load(scene) {
    const { gl } = this;
    this.held.forEach((buffer) => gl.deleteBuffer(buffer));
    gl.deleteVertexArray(this.points);
    this.scene = scene;
    this.points = gl.createVertexArray();
    // Closes the gaps among random points.
    const size = scene.kind === "volume" && !scene.flat ? 1.1 : 0.8;
    gl.bindVertexArray(this.points);
    this.held = [
      this.attribute(POSITION, scene.positions, 3),
      this.attribute(RADIUS, scene.spacing.map((far) => far * size), 1),
    ];
    if (scene.facing) {
      this.held.push(this.attribute(NORMAL, Float32Array.from(scene.facing), 3));
    }
    gl.enableVertexAttribArray(CODE);
    this.codes = [0, 1, 2].map(() => gl.createBuffer());
    this.held.push(...this.codes);
    if (scene.triangles) {
      const indices = gl.createBuffer();
      gl.bindBuffer(gl.ELEMENT_ARRAY_BUFFER, indices);
      gl.bufferData(gl.ELEMENT_ARRAY_BUFFER, scene.triangles, gl.STATIC_DRAW);
      this.held.push(indices);
    }
    gl.bindVertexArray(null);
  }

  loadValues(panel, values) {
    const { gl } = this;
    gl.bindBuffer(gl.ARRAY_BUFFER, this.codes[panel]);
    gl.bufferData(gl.ARRAY_BUFFER, this.scene.drawnCodes(values), gl.STATIC_DRAW);
  }

  resize(width, height) {
    const { canvas } = this.gl;
    if (canvas.width !== width) canvas.width = width;
    if (canvas.height !== height) canvas.height = height;
  }

  // What every program needs to know of the view.
  use({ program, places }, shot, height) {
    const { gl } = this;
    gl.useProgram(program);
    gl.uniformMatrix4fv(places.view, false, shot.view);
    gl.uniformMatrix4fv(places.projection, false, shot.projection);
    if (!places.pixels) return places;
    gl.uniform1f(places.pixels, (height / 2) * shot.projection[5]);
    gl.uniform3fv(places.axis, shot.section.axis);
    gl.uniform2f(places.slab, shot.section.at, shot.section.half);
    if (places.box) gl.uniform3fv(places.box, shot.box ?? [9, 9, 9]);
    return places;
  }

  // One panel: its values in its colours, `low` and `high` being the ends of the scale.
  draw(panel, values, { low, high }, shot) {
    const { gl } = this;
    const { width, height } = gl.canvas;
    gl.bindFramebuffer(gl.FRAMEBUFFER, null);
    gl.viewport(0, 0, width, height);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (shot.box) this.drawBoxes(shot);
    const places = this.use(this.scene.triangles ? this.triangles : this.discs, shot, height);
    const range = high - low || 1;
    gl.uniform2f(places.scale, values.step / range, high > low ? (values.low - low) / range : 0.5);
    gl.uniform2fv(places.depths, shot.depths);
    if (places.naming) gl.uniform1i(places.naming, 0);
    gl.bindTexture(gl.TEXTURE_2D, this.tables[panel === 2 ? 1 : 0]);
    this.drawPoints(panel, Boolean(this.scene.triangles));
  }

  drawPoints(panel, asMesh) {
    const { gl, scene } = this;
    gl.bindVertexArray(this.points);
    gl.bindBuffer(gl.ARRAY_BUFFER, this.codes[panel]);
    gl.vertexAttribPointer(CODE, 1, gl.UNSIGNED_SHORT, false, 0, 0);
    if (asMesh) gl.drawElements(gl.TRIANGLES, scene.triangles.length, gl.UNSIGNED_INT, 0);
    else gl.drawArrays(gl.POINTS, 0, scene.count);
    gl.bindVertexArray(null);
  }

  // Until all that was asked for is drawn.
  wait() {
    const { gl } = this;
    gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
  }

  // The box around a volume, and the frame of its section.
  drawBoxes(shot) {
    const { gl } = this;
    const { axis, at, half } = shot.section;
    const places = this.use(this.lines, shot, 0);
    gl.bindVertexArray(this.cube);
    const boxes = [[[0, 0, 0], shot.box, [0.25, 0.25, 0.25, 0.5]]];
    if (half >= 0) {
      const sides = shot.box.map((side, a) => (axis[a] ? 0 : side));
      boxes.push([axis.map((a) => a * at), sides, [0.5, 0.5, 0.5, 1]]);
    }
    for (const [middle, sides, ink] of boxes) {
      gl.uniform3fv(places.middle, middle);
      gl.uniform3fv(places.sides, sides);
      gl.uniform4fv(places.ink, ink);
      gl.drawArrays(gl.LINES, 0, CUBE.length / 3);
    }
    gl.bindVertexArray(null);
  }

  // The names of all points that are visible near a place, in pixels of the panel.
  namesNear(x, y, size, shot) {
    const { gl } = this;
    if (!this.names || this.names.shot !== shot) this.drawNames(size, shot);
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.names.frame);
    const side = 2 * NEAR_POINTER + 1;
    const pixels = new Uint8Array(side * side * 4);
    const [left, bottom] = [Math.round(x) - NEAR_POINTER, Math.round(size[1] - y) - NEAR_POINTER];
    gl.readPixels(left, bottom, side, side, gl.RGBA, gl.UNSIGNED_BYTE, pixels);
    const found = new Set();
    for (let p = 0; p < pixels.length; p += 4) {
      found.add(pixels[p] + 256 * pixels[p + 1] + 65536 * pixels[p + 2] - 1);
    }
    found.delete(-1);
    return found;
  }

  // Every point as a colour that is its name. A mesh hides what is behind it.
  drawNames(size, shot) {
    const { gl } = this;
    if (!this.names || String(this.names.size) !== String(size)) this.names = this.frame(size);
    this.names.shot = shot;
    gl.bindFramebuffer(gl.FRAMEBUFFER, this.names.frame);
    gl.viewport(0, 0, ...size);
    gl.clear(gl.COLOR_BUFFER_BIT | gl.DEPTH_BUFFER_BIT);
    if (this.scene.triangles) {
      this.use(this.triangles, shot, size[1]);
      gl.colorMask(false, false, false, false);
      gl.enable(gl.POLYGON_OFFSET_FILL);
      gl.polygonOffset(4, 16);
      this.drawPoints(0, true);
      gl.disable(gl.POLYGON_OFFSET_FILL);
      gl.colorMask(true, true, true, true);
    }
    const places = this.use(this.discs, shot, size[1]);
    gl.uniform1i(places.naming, 1);
    this.drawPoints(0, false);
  }

  frame(size) {
    const { gl } = this;
    if (this.names) this.names.parts.forEach((part) => gl.deleteRenderbuffer(part));
    if (this.names) gl.deleteFramebuffer(this.names.frame);
    const frame = gl.createFramebuffer();
    gl.bindFramebuffer(gl.FRAMEBUFFER, frame);
    const parts = [
      [gl.RGBA8, gl.COLOR_ATTACHMENT0],
      [gl.DEPTH_COMPONENT24, gl.DEPTH_ATTACHMENT],
    ].map(([format, place]) => {
      const part = gl.createRenderbuffer();
      gl.bindRenderbuffer(gl.RENDERBUFFER, part);
      gl.renderbufferStorage(gl.RENDERBUFFER, format, ...size);
      gl.framebufferRenderbuffer(gl.FRAMEBUFFER, place, gl.RENDERBUFFER, part);
      return part;
    });
    return { frame, parts, size };
  }
}
