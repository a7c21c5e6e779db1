// Mouse, touch, pen and keyboard, as turns, zooms and pans of the camera.

const TURN = 0.009; // radians a pixel
const KEY_TURN = 0.12;
const KEY_ZOOM = 0.87;
const STILL = 4; // pixels that a tap may move

// `act` has orbit, zoom, pan, reset, probe(x, y) and leave.
function listen(canvas, act) {
  listenToPointers(canvas, act);
  listenToWheel(canvas, act);
  canvas.addEventListener("keydown", (event) => {
    const action = keyAction(event, canvas, act);
    if (!action) return;
    event.preventDefault();
    action();
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("dblclick", act.reset);
  canvas.addEventListener("blur", act.leave);
}

function keyAction(event, canvas, act) {
  if (event.ctrlKey || event.metaKey || event.altKey) return null;
  const actions = {
    ArrowLeft: () => act.orbit(-KEY_TURN, 0),
    ArrowRight: () => act.orbit(KEY_TURN, 0),
    ArrowUp: () => act.orbit(0, KEY_TURN),
    ArrowDown: () => act.orbit(0, -KEY_TURN),
    "+": () => act.zoom(KEY_ZOOM),
    "=": () => act.zoom(KEY_ZOOM),
    "-": () => act.zoom(1 / KEY_ZOOM),
    0: act.reset,
    Enter: () => act.probe(canvas.clientWidth / 2, canvas.clientHeight / 2),
    Escape: act.leave,
  };
  return actions[event.key];
}

// A page that is being scrolled goes on past a panel: only a wheel that starts here zooms.
function listenToWheel(canvas, act) {
  let scrolled = -Infinity;
  addEventListener("scroll", () => (scrolled = performance.now()), { passive: true });
  const zoom = (event) => {
    if (performance.now() - scrolled < 200) return;
    event.preventDefault();
    const lines = event.deltaMode === WheelEvent.DOM_DELTA_LINE ? 16 : 1;
    const speed = event.ctrlKey ? 0.01 : 0.0015; // a pinch on a trackpad comes with ctrl
    act.zoom(Math.exp(Math.min(Math.max(event.deltaY * lines * speed, -0.5), 0.5)));
  };
  canvas.addEventListener("wheel", zoom, { passive: false });
}

function listenToPointers(canvas, act) {
  const down = new Map();
  let moved = 0;
  const place = (event) => ({ x: event.offsetX, y: event.offsetY });
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    const pans = event.button === 2 || event.shiftKey || event.ctrlKey;
    down.set(event.pointerId, { ...place(event), pans });
    if (down.size === 1) moved = 0;
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = down.get(event.pointerId);
    const now = place(event);
    if (!before) {
      if (event.pointerType !== "touch") act.probe(now.x, now.y);
      return;
    }
    moved += Math.hypot(now.x - before.x, now.y - before.y);
    if (moved > STILL) drag(canvas, act, down, event.pointerId, now);
    down.set(event.pointerId, { ...before, ...now });
  });
  const end = (event) => {
    const tapped = down.delete(event.pointerId) && event.type === "pointerup" && moved <= STILL;
    if (tapped) act.probe(event.offsetX, event.offsetY);
  };
  canvas.addEventListener("pointerup", end);
  canvas.addEventListener("pointercancel", end);
  canvas.addEventListener("pointerleave", (event) => {
    if (event.pointerType !== "touch") act.leave();
  });
}

// One pointer turns or pans; of two, the middle pans and the distance zooms.
function drag(canvas, act, down, id, now) {
  const before = down.get(id);
  const [dx, dy] = [now.x - before.x, now.y - before.y];
  const height = canvas.clientHeight;
  act.leave();
  if (down.size === 1) {
    if (before.pans) act.pan(dx / height, dy / height);
    else act.orbit(dx * TURN, dy * TURN);
    return;
  }
  const other = [...down].find(([key]) => key !== id)[1];
  const apart = (p) => Math.hypot(p.x - other.x, p.y - other.y) || 1;
  act.pan(dx / 2 / height, dy / 2 / height);
  act.zoom(apart(before) / apart(now));
}
