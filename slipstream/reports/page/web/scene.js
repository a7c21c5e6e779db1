// A sample as it is embedded, decoded piece by piece when it is first needed.

const LAST_CODE = 65534;
const NOT_FINITE = 65535;

function bytesOf(base64) {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// 16-bit codes between the least and the greatest value: off by at most 7.6e-6 of the range.
class Values {
  constructor({ low, high, codes }) {
    this.low = low;
    this.high = high;
    this.step = (high - low) / LAST_CODE;
    this.packed = codes;
  }

  get codes() {
    this.decoded ??= new Uint16Array(bytesOf(this.packed).buffer);
    return this.decoded;
  }

  at(index) {
    const code = this.codes[index];
    return code === NOT_FINITE ? NaN : this.low + code * this.step;
  }
}

class Scene {
  constructor(packed) {
    Object.assign(this, { kind: packed.kind, unit: packed.unit, count: packed.count });
    this.axes = packed.coords.map((axis) => new Values(axis));
    this.normals = packed.normals && new Int8Array(bytesOf(packed.normals).buffer);
    this.triangles = packed.triangles && trianglesOf(packed);
    this.fields = packed.fields.map(decodeField);
    this.extents = this.axes.map((axis) => axis.high - axis.low);
    this.centre = this.axes.map((axis) => (axis.high + axis.low) / 2);
    this.size = Math.hypot(...this.extents) / 2 || 1;
    this.positions = this.centred();
    this.spacing = spacingOf(this.positions, this.count);
    this.typicalSpacing = median(this.spacing);
    // Of faces: normals for the light, and which corners share their colours.
    this.shares = this.triangles && sharesOf(this.positions, this.triangles);
    this.facing = this.triangles ? this.smoothNormals() : this.normals;
  }

  // The given normals, else the means over the faces at each point.
  smoothNormals() {
    if (this.normals) return Float32Array.from(this.normals);
    const sums = new Float32Array(this.count * 3);
    const faces = faceNormals(this.positions, this.triangles);
    this.triangles.forEach((point, k) => {
      const face = Math.floor(k / 3) * 3;
      for (let a = 0; a < 3; a += 1) sums[point * 3 + a] += faces[face + a];
    });
    if (!this.shares) return sums;
    const { starts, others } = this.shares;
    return sums.map((sum, at) => {
      const [i, a] = [Math.floor(at / 3), at % 3];
      let total = sum;
      for (let k = starts[i]; k < starts[i + 1]; k += 1) total += sums[others[k] * 3 + a];
      return total;
    });
  }

  // What is drawn of some values: their codes, or the means of corners that share their colours.
  drawnCodes(values) {
    if (!this.shares) return values.codes;
    const { starts, others } = this.shares;
    const { codes } = values;
    return codes.map((code, i) => {
      if (code === NOT_FINITE) return code;
      let [sum, count] = [code, 1];
      for (let k = starts[i]; k < starts[i + 1]; k += 1) {
        if (codes[others[k]] === NOT_FINITE) continue;
        sum += codes[others[k]];
        count += 1;
      }
      return Math.round(sum / count);
    });
  }

  // Around the origin, in a sphere of radius one.
  centred() {
    const positions = new Float32Array(this.count * 3);
    this.axes.forEach((axis, a) => {
      for (let i = 0; i < this.count; i += 1) {
        positions[i * 3 + a] = (axis.at(i) - this.centre[a]) / this.size;
      }
    });
    return positions;
  }

  // Half the sides of the box around the points.
  get box() {
    return this.extents.map((extent) => extent / 2 / this.size);
  }

  // Points that must be seen: the corners of a volume, or some two thousand of a surface.
  get outline() {
    if (this.kind === "volume") {
      const corners = [...Array(8).keys()];
      return corners.map((c) => this.box.map((half, a) => (c & (1 << a) ? half : -half)));
    }
    const stride = Math.ceil(this.count / 2000);
    const chosen = Array.from({ length: Math.ceil(this.count / stride) }, (_, k) => k * stride);
    return chosen.map((i) => [...this.positions.subarray(i * 3, i * 3 + 3)]);
  }

  get thinnest() {
    const least = Math.min(...this.extents);
    return this.extents[2] <= least * 1.05 ? 2 : this.extents.indexOf(least);
  }

  get flat() {
    return Math.min(...this.extents) < 0.01 * Math.max(...this.extents);
  }
}

function trianglesOf({ triangles, count }) {
  const { buffer } = bytesOf(triangles);
  return count > 65535 ? new Uint32Array(buffer) : Uint32Array.from(new Uint16Array(buffer));
}

// Normals of faces, their lengths being twice the areas.
function faceNormals(positions, triangles) {
  const normals = new Float32Array(triangles.length);
  for (let t = 0; t < triangles.length; t += 3) {
    const [a, b, c] = [0, 1, 2].map((k) => triangles[t + k] * 3);
    const [u, v] = [b, c].map((end) => [0, 1, 2].map((k) => positions[end + k] - positions[a + k]));
    normals[t] = u[1] * v[2] - u[2] * v[1];
    normals[t + 1] = u[2] * v[0] - u[0] * v[2];
    normals[t + 2] = u[0] * v[1] - u[1] * v[0];
  }
  return normals;
}

// Faces with a value each have corners of their own. Those at the same place share their colours,
// unless their faces are turned by more than 60 degrees. Nothing where faces share their corners.
function sharesOf(positions, triangles) {
  if (triangles.length !== positions.length / 3) return null;
  const faces = faceNormals(positions, triangles);
  const faceOf = new Uint32Array(triangles.length);
  triangles.forEach((point, k) => {
    faceOf[point] = Math.floor(k / 3) * 3;
  });
  const places = new Map();
  for (let i = 0; i < triangles.length; i += 1) {
    const key = positions.subarray(i * 3, i * 3 + 3).join();
    if (places.has(key)) places.get(key).push(i);
    else places.set(key, [i]);
  }
  const normal = (i) => faces.subarray(faceOf[i], faceOf[i] + 3);
  const alike = (i, j) => {
    const [n, m] = [normal(i), normal(j)];
    return dot(n, m) > 0.5 * Math.sqrt(dot(n, n) * dot(m, m));
  };
  const starts = new Uint32Array(triangles.length + 1);
  const others = [];
  for (let i = 0; i < triangles.length; i += 1) {
    const here = places.get(positions.subarray(i * 3, i * 3 + 3).join());
    for (const j of here) if (j !== i && alike(i, j)) others.push(j);
    starts[i + 1] = others.length;
  }
  return { starts, others: Uint32Array.from(others) };
}

function decodeField(packed) {
  const variants = packed.variants.map(({ name, relative, prediction, error }) => ({
    name,
    relative,
    prediction: new Values(prediction),
    error: new Values(error),
  }));
  return { ...packed, truth: new Values(packed.truth), variants };
}

function median(values) {
  return Float32Array.from(values).sort()[values.length >> 1];
}

const NEIGHBOUR = 6;
const WINDOW = 14;

// About how far the sixth neighbour of every point is: looked for along three space-filling
// curves, which finds it for most and never less.
function spacingOf(positions, count) {
  const spacing = new Float32Array(count).fill(Infinity);
  const orders = [0, 0.37, 0.71].map((shift) => alongCurve(positions, count, shift));
  const nearest = new Float64Array(NEIGHBOUR);
  for (const order of orders) {
    for (let at = 0; at < count; at += 1) {
      const far = neighbourDistance(positions, order, at, nearest);
      if (far < spacing[order[at]]) spacing[order[at]] = far;
    }
  }
  orders.forEach((order) => tighten(positions, order, spacing));
  return spacing.map((far) => (Number.isFinite(far) ? far : 0.05));
}

// The sixth neighbour is no farther than by way of another point: this finds what a curve missed.
function tighten(positions, order, spacing) {
  for (let at = 1; at < order.length; at += 1) {
    const [i, j] = [order[at - 1], order[at]];
    const between = distance(positions, i, j);
    spacing[i] = Math.min(spacing[i], spacing[j] + between);
    spacing[j] = Math.min(spacing[j], spacing[i] + between);
  }
}

function distance(positions, i, j) {
  const dx = positions[i * 3] - positions[j * 3];
  const dy = positions[i * 3 + 1] - positions[j * 3 + 1];
  const dz = positions[i * 3 + 2] - positions[j * 3 + 2];
  return Math.sqrt(dx * dx + dy * dy + dz * dz);
}

// Points in the order of the interleaved bits of their coordinates, ten bits an axis.
function alongCurve(positions, count, shift) {
  const keys = new Float64Array(count);
  const scale = 1023 / (2 + shift);
  for (let i = 0; i < count; i += 1) {
    const x = spread((positions[i * 3] + 1 + shift) * scale);
    const y = spread((positions[i * 3 + 1] + 1 + shift) * scale);
    const z = spread((positions[i * 3 + 2] + 1 + shift) * scale);
    keys[i] = (x + 2 * y + 4 * z) * 2 ** 22 + i;
  }
  return Uint32Array.from(keys.sort(), (key) => key % 2 ** 22);
}

function spread(bits) {
  let b = bits & 1023;
  b = (b | (b << 16)) & 0x030000ff;
  b = (b | (b << 8)) & 0x0300f00f;
  b = (b | (b << 4)) & 0x030c30c3;
  return (b | (b << 2)) & 0x09249249;
}

// The distances found so far are kept in order in `nearest`.
function neighbourDistance(positions, order, at, nearest) {
  nearest.fill(Infinity);
  const last = Math.min(at + WINDOW, order.length - 1);
  for (let other = Math.max(at - WINDOW, 0); other <= last; other += 1) {
    if (other === at) continue;
    const far = distance(positions, order[at], order[other]);
    let k = NEIGHBOUR - 1;
    if (far >= nearest[k]) continue;
    for (; k > 0 && nearest[k - 1] > far; k -= 1) nearest[k] = nearest[k - 1];
    nearest[k] = far;
  }
  return nearest[Math.min(NEIGHBOUR, order.length - 1) - 1] ?? Infinity;
}
