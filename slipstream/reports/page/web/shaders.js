// What the GPU runs: points as discs, meshes as triangles, boxes as lines.

const POSITION = 0;
const CODE = 1;
const NORMAL = 2;
const RADIUS = 3;

const VERTEX = `#version 300 es
layout(location = ${POSITION}) in vec3 position;
layout(location = ${CODE}) in float code;
layout(location = ${NORMAL}) in vec3 normal;
layout(location = ${RADIUS}) in float radius;
uniform mat4 view;
uniform mat4 projection;
uniform float pixels;   // per unit length at unit distance
uniform vec3 axis;      // of the section
uniform vec2 slab;      // its place, and half its thickness: below zero for none
out float value;
out float broken;
out vec3 facing;
out vec3 eye;
out float reach;
out vec3 middle;
flat out int name;
void main() {
  vec4 seen = view * vec4(position, 1.0);
  gl_Position = projection * seen;
  gl_PointSize = clamp(2.0 * radius * pixels / -seen.z, 2.0, 255.0);
  reach = 0.5 * gl_PointSize * -seen.z / pixels;
  value = code;
  broken = code > 65534.5 ? 1.0 : 0.0;
  facing = mat3(view) * normal;
  eye = seen.xyz;
  middle = position;
  name = gl_VertexID;
  bool hidden = slab.y >= 0.0 && abs(dot(axis, position) - slab.x) > slab.y;
  if (hidden) gl_Position = vec4(2.0, 2.0, 2.0, 1.0);
}`;

const COLOUR = `
uniform sampler2D colours;
uniform vec2 scale;     // from a code to a place in the table of colours
uniform vec2 depths;    // nearest and farthest
vec4 coloured(float value, float broken, float light) {
  vec3 found = texture(colours, vec2(clamp(value * scale.x + scale.y, 0.002, 0.998), 0.5)).rgb;
  return vec4(mix(found, vec3(0.55), step(0.001, broken)) * light, 1.0);
}
// A lamp at the camera; without normals what is far is darker.
float lightOf(vec3 normal, float z) {
  if (dot(normal, normal) > 0.0) return 0.68 + 0.32 * abs(normalize(normal).z);
  return 1.0 - 0.3 * smoothstep(depths.x, depths.y, -z);
}`;

// A disc lies in the plane of its point and bulges towards the middle: where discs overlap, each
// point keeps what is nearest to it, as in a Voronoi diagram.
const DISC = `#version 300 es
precision highp float;
precision highp int;
in float value;
in float broken;
in vec3 facing;
in vec3 eye;
in float reach;
in vec3 middle;
flat in int name;
uniform mat4 view;
uniform mat4 projection;
uniform vec3 box;       // half the sides of what discs must not stick out of
uniform bool naming;
out vec4 colour;
${COLOUR}
float slope(vec2 at) {
  if (dot(facing, facing) == 0.0) return 0.0;
  vec3 n = normalize(facing) * (facing.z < 0.0 ? -1.0 : 1.0);
  return -dot(n.xy, at) / max(n.z, 0.3);
}
vec4 nameColour() {
  int n = name + 1;
  return vec4(n & 255, (n >> 8) & 255, (n >> 16) & 255, 255) / 255.0;
}
void main() {
  vec2 at = (gl_PointCoord * 2.0 - 1.0) * vec2(1.0, -1.0);
  float rise = slope(at);
  float far = dot(at, at) + rise * rise;
  vec3 where = middle + reach * transpose(mat3(view)) * vec3(at, rise);
  if (far > 1.0 || any(greaterThan(abs(where), box))) discard;
  vec4 clip = projection * vec4(0.0, 0.0, eye.z + reach * (rise - 0.5 * far), 1.0);
  gl_FragDepth = 0.5 * clip.z / clip.w + 0.5;
  colour = naming ? nameColour() : coloured(value, broken, lightOf(facing, eye.z));
}`;

// Colours and normals are linear within a triangle. At a sharp edge it is lit by its own normal.
const TRIANGLE = `#version 300 es
precision highp float;
in float value;
in float broken;
in vec3 facing;
in vec3 eye;
out vec4 colour;
${COLOUR}
void main() {
  vec3 flatly = normalize(cross(dFdx(eye), dFdy(eye)));
  bool smoothly = abs(dot(facing, flatly)) > 0.5 * length(facing) && dot(facing, facing) > 0.0;
  vec3 normal = smoothly ? facing : flatly;
  colour = coloured(value, broken, lightOf(normal, eye.z));
}`;

const LINE_VERTEX = `#version 300 es
layout(location = ${POSITION}) in vec3 position;
uniform mat4 view;
uniform mat4 projection;
uniform vec3 middle;
uniform vec3 sides;
void main() {
  gl_Position = projection * view * vec4(middle + position * sides, 1.0);
}`;

const LINE = `#version 300 es
precision highp float;
uniform vec4 ink;
out vec4 colour;
void main() {
  colour = ink;
}`;
