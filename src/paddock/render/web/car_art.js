// Cars seen from above. A body is drawn once per colour and size, then stamped; wheels turn where they can be seen.

export const PAINTS = ['#de302c', '#2c78e2', '#f6be2a', '#34b260', '#eeeef0', '#9a54d6', '#f47c24', '#2ac4ce'];
/** Pixels in length below which a car is never drawn, so that it stays visible over a whole circuit. */
export const smallest = (viewWidth) => Math.min(15, Math.max(10, viewWidth / 60));

// Outlines in shares of the car's length (forward) and width (left), centred: those of the scene, once there is one.
let outline = { body: [], cabin: [], roof: [], stripe: [], wing: [], lamps: [], wheels: [], wheel_size: [0, 0] };

/** From now on cars look as the scene says. */
export function setOutline(sent) {
  if (JSON.stringify(sent) === JSON.stringify(outline)) return;
  outline = sent;
  sprites.clear();
}

const TURN = 0.5; // rad of a front wheel at full lock, as drawn

const sprites = new Map();

function fill(context, colour, points, length, width, grow = 1) {
  context.fillStyle = colour;
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x * length * grow, y * width * grow);
  context.fill();
}

function sprite(paint, length, width, isBraking) {
  const key = `${paint}|${length}|${width}|${isBraking}`;
  if (sprites.has(key)) return sprites.get(key);
  if (sprites.size > 600) sprites.clear();
  const canvas = document.createElement('canvas');
  canvas.width = Math.ceil(length * 1.3);
  canvas.height = Math.ceil(width * 1.6);
  const context = canvas.getContext('2d');
  context.translate(canvas.width / 2, canvas.height / 2);
  body(context, paint, length, width, isBraking);
  sprites.set(key, canvas);
  return canvas;
}

function body(context, paint, length, width, isBraking) {
  const dark = `color-mix(in srgb, ${paint} 55%, black)`, light = `color-mix(in srgb, ${paint} 55%, white)`;
  fill(context, dark, outline.body, length, width, 1.02);
  fill(context, paint, outline.body, length * 0.975, width * 0.93);
  if (length < 9) return;
  fill(context, light, outline.stripe, length, width);
  fill(context, '#1e242e', outline.cabin, length, width);
  fill(context, paint, outline.roof, length, width);
  fill(context, dark, outline.wing, length, width);
  for (const lamp of outline.lamps) fill(context, '#fff6d0', lamp, length, width);
  if (!isBraking) return;
  context.fillStyle = '#ff3b30';
  for (const side of [-0.4, 0.2]) context.fillRect(-0.5 * length, side * width, 0.05 * length, 0.2 * width);
}

/** Draw one car on a context in pixels. `angle`: rad clockwise on the screen, 0 points right. Sizes in pixels. */
export function drawCar(context, { x, y, angle, paint, length, width, steer = 0, brake = false, alpha = 1, pixels = 1 }) {
  const size = Math.max(4, Math.round(length * pixels)), breadth = Math.round((size * width) / length);
  context.save();
  context.globalAlpha = alpha;
  context.translate(x, y);
  context.rotate(angle);
  if (length > 10) {
    context.fillStyle = 'rgb(0 0 0 / 28%)';
    context.fillRect(-0.46 * length, -0.4 * width + 0.1 * width, 0.98 * length, 0.94 * width);
  }
  if (length > 22) drawWheels(context, length, width, steer);
  const picture = sprite(paint, size, breadth, brake);
  context.drawImage(picture, -picture.width / 2 / pixels, -picture.height / 2 / pixels,
    picture.width / pixels, picture.height / pixels);
  context.restore();
}

function drawWheels(context, length, width, steer) {
  context.fillStyle = '#161618';
  for (const [ahead, aside] of outline.wheels) {
    context.save();
    context.translate(ahead * length, aside * width);
    if (ahead > 0) context.rotate(-steer * TURN);
    const [long, wide] = [outline.wheel_size[0] * length, outline.wheel_size[1] * width];
    context.fillRect(-long / 2, -wide / 2, long, wide);
    context.restore();
  }
}

/** The outline of a car that is not there. */
export function drawGhost(context, { x, y, angle, colour, length, width, pixels = 1 }) {
  drawCar(context, { x, y, angle, paint: colour, length, width, alpha: 0.5, pixels });
  context.save();
  context.translate(x, y);
  context.rotate(angle);
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.beginPath();
  for (const [ahead, aside] of outline.body) context.lineTo(ahead * length * 1.16, aside * width * 1.25);
  context.closePath();
  context.stroke();
  context.restore();
}
