// A camera that turns about a point, z upwards. The scene lies in a sphere of radius one.

const HALF_VIEW = Math.tan((15 * Math.PI) / 180);
const QUARTER = Math.PI / 2;

class Camera {
  constructor() {
    this.aspect = 1;
    this.target = [0, 0, 0];
    this.turn(-2.2, 0.42);
    this.distance = 4;
  }

  // Angles around z from x, and above the plane of x and y.
  turn(azimuth, elevation) {
    this.azimuth = azimuth;
    this.elevation = Math.min(Math.max(elevation, -QUARTER), QUARTER);
    const [ca, sa] = [Math.cos(this.azimuth), Math.sin(this.azimuth)];
    const [ce, se] = [Math.cos(this.elevation), Math.sin(this.elevation)];
    this.right = [-sa, ca, 0];
    this.up = [-se * ca, -se * sa, ce];
    this.back = [ce * ca, ce * sa, se];
  }

  face(axis) {
    this.turn(axis === 0 ? 0 : -QUARTER, axis === 2 ? QUARTER : 0);
  }

  // As near as all points allow, and then again with their picture in the middle.
  fit(points) {
    this.target = [0, 0, 0];
    this.approach(points);
    const places = points.map((point) => this.project(point));
    const [u, v] = [0, 1].map((a) => {
      const along = places.map((place) => place[a]);
      return (Math.max(...along) + Math.min(...along) - 1) / 2;
    });
    this.pan(-u * this.aspect, -v);
    this.approach(points);
  }

  approach(points) {
    this.distance = 0.1;
    for (const point of points) {
      const from = point.map((p, a) => p - this.target[a]);
      const [x, y, z] = [this.right, this.up, this.back].map((axis) => dot(axis, from));
      const beside = Math.max(Math.abs(x) / this.aspect, Math.abs(y)) / HALF_VIEW;
      this.distance = Math.max(this.distance, z + beside * 1.12);
    }
  }

  orbit(dx, dy) {
    this.turn(this.azimuth - dx, this.elevation + dy);
  }

  zoom(factor) {
    this.distance = Math.min(Math.max(this.distance * factor, 0.05), 30);
  }

  // By a fraction of the height of the view.
  pan(dx, dy) {
    const height = 2 * this.distance * HALF_VIEW;
    this.target = this.target.map((t, a) => {
      const moved = t - (this.right[a] * dx - this.up[a] * dy) * height;
      return Math.min(Math.max(moved, -2), 2);
    });
  }

  get view() {
    const axes = [this.right, this.up, this.back];
    const columns = [0, 1, 2].flatMap((a) => [...axes.map((axis) => axis[a]), 0]);
    const shift = axes.map((axis) => -dot(axis, this.target));
    shift[2] -= this.distance;
    return new Float32Array([...columns, ...shift, 1]);
  }

  // The planes of clipping lie close around the scene, for the precision of depth.
  get projection() {
    const reach = Math.hypot(...this.target) + 1.3;
    const near = Math.max(this.distance - reach, this.distance * 0.02);
    const far = this.distance + reach;
    const scale = 1 / HALF_VIEW;
    const [a, b] = [-(far + near) / (far - near), (-2 * far * near) / (far - near)];
    const columns = [[scale / this.aspect, 0, 0, 0], [0, scale, 0, 0], [0, 0, a, -1], [0, 0, b, 0]];
    return new Float32Array(columns.flat());
  }

  // Where a point falls in the view, from (0, 0) at its upper left to (1, 1).
  project(point) {
    const from = point.map((p, a) => p - this.target[a]);
    const depth = this.distance - dot(this.back, from);
    const x = dot(this.right, from) / (depth * HALF_VIEW * this.aspect);
    const y = dot(this.up, from) / (depth * HALF_VIEW);
    return [0.5 + x / 2, 0.5 - y / 2];
  }
}

function dot(a, b) {
  return a[0] * b[0] + a[1] * b[1] + a[2] * b[2];
}
