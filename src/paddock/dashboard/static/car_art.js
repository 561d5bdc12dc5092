// Cars seen from above. A body is drawn once per colour and size, then stamped; wheels turn where they can be seen.

export const PAINTS = ['#de302c', '#2c78e2', '#f6be2a', '#34b260', '#eeeef0', '#9a54d6', '#f47c24', '#2ac4ce'];
/** Pixels in length below which a car is never drawn, so that it stays visible over a whole circuit. */
export const smallest = (viewWidth) => Math.min(15, Math.max(10, viewWidth / 60));

// Outlines in shares of the car's length (forward) and width (left), centred.
const BODY = [[-0.49, -0.44], [-0.49, 0.44], [-0.3, 0.47], [-0.05, 0.43], [0.2, 0.46], [0.4, 0.42], [0.48, 0.26],
  [0.5, 0], [0.48, -0.26], [0.4, -0.42], [0.2, -0.46], [-0.05, -0.43], [-0.3, -0.47]];
const CABIN = [[-0.26, -0.32], [-0.26, 0.32], [0.12, 0.37], [0.19, 0.2], [0.2, 0], [0.19, -0.2], [0.12, -0.37]];
const ROOF = [[-0.17, -0.26], [-0.17, 0.26], [0.03, 0.28], [0.03, -0.28]];
const STRIPE = [[-0.49, -0.09], [-0.49, 0.09], [0.5, 0.07], [0.5, -0.07]];
const WING = [[-0.5, -0.49], [-0.5, 0.49], [-0.43, 0.49], [-0.43, -0.49]];
const LAMPS = [-1, 1].map((side) => [[0.41, side * 0.24], [0.46, side * 0.2], [0.43, side * 0.38], [0.4, side * 0.4]]);
const WHEELS = [[0.31, 0.44], [0.31, -0.44], [-0.31, 0.45], [-0.31, -0.45]];
const TURN = 0.5; // rad of a front wheel at full lock, as drawn

const sprites = new Map();

function fill(context, colour, outline, length, width, grow = 1) {
  context.fillStyle = colour;
  context.beginPath();
  for (const [x, y] of outline) context.lineTo(x * length * grow, y * width * grow);
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
  fill(context, dark, BODY, length, width, 1.02);
  fill(context, paint, BODY, length * 0.975, width * 0.93);
  if (length < 9) return;
  fill(context, light, STRIPE, length, width);
  fill(context, '#1e242e', CABIN, length, width);
  fill(context, paint, ROOF, length, width);
  fill(context, dark, WING, length, width);
  for (const lamp of LAMPS) fill(context, '#fff6d0', lamp, length, width);
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
  for (const [ahead, aside] of WHEELS) {
    context.save();
    context.translate(ahead * length, aside * width);
    if (ahead > 0) context.rotate(-steer * TURN);
    context.fillRect(-0.075 * length, -0.085 * width, 0.15 * length, 0.17 * width);
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
  for (const [ahead, aside] of BODY) context.lineTo(ahead * length * 1.16, aside * width * 1.25);
  context.closePath();
  context.stroke();
  context.restore();
}
