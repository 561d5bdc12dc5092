// Trees and their shadows, gathered into one mesh per field of the plan: software rendering pays for every instance.

import { CircleGeometry, Color, CylinderGeometry, Group, IcosahedronGeometry, Matrix4, Mesh, MeshBasicMaterial, Quaternion, Vector3 } from '../vendor/three.module.min.js';
import { ORDER, numbers, shade } from './ground.js';
import { Shapes } from './shapes.js';

const FIELD = 90; // units across
const BARK = { light: '#6b4f38', dark: '#3a2d22' };
const UP = new Vector3(0, 1, 0);

/** A geometry's triangles, placed: [[Vector3 x3, normal], ...]. */
function* triangles(geometry, matrix) {
  const flat = geometry.index ? geometry.toNonIndexed() : geometry, { position } = flat.attributes;
  for (let k = 0; k < position.count; k += 3) {
    const corners = [0, 1, 2].map((one) => new Vector3().fromBufferAttribute(position, k + one).applyMatrix4(matrix));
    const normal = corners[1].clone().sub(corners[0]).cross(corners[2].clone().sub(corners[0])).normalize();
    yield [corners, normal];
  }
}

/** trees: [x, y, radius]; sky: of landscape.js; sun: direction towards it; colours: of kit/ground.js. Gives a group. */
export function makeTrees(trees, { unit, sky, sun, colours, theme }) {
  const fields = new Map(), draw = numbers(3), [dark, ...greens] = colours.tree, group = new Group();
  const trunk = new CylinderGeometry(0.09, 0.14, 1, 5, 1, true).translate(0, 0.5, 0), crown = new IcosahedronGeometry(1, 0), disc = new CircleGeometry(1, 10).rotateX(-Math.PI / 2);
  const light = new Light(sky, sun), place = (x, height, y, angle, size) => new Matrix4().compose(new Vector3(x, height, -y), new Quaternion().setFromAxisAngle(UP, angle), size);
  for (const [x, y, radius] of trees) {
    const name = `${Math.floor(x / (FIELD * unit))} ${Math.floor(y / (FIELD * unit))}`;
    if (!fields.has(name)) fields.set(name, { solid: new Shapes(), shadows: new Shapes() });
    const { solid, shadows } = fields.get(name), add = (geometry, matrix, colour) => {
      for (const [corners, normal] of triangles(geometry, matrix)) solid.triangle(...corners.map((one) => one.toArray()), light.on(colour, normal));
    };
    const height = radius * (1.5 + 0.9 * draw()), wide = radius * (0.82 + 0.25 * draw()), thick = 2.2 * unit * radius ** 0.5;
    add(trunk, place(x, 0, y, 6 * draw(), new Vector3(thick, height, thick)), new Color(BARK[theme]));
    for (const [part, share, lift] of [[0, 1, 0.5], [1, 0.7, 1.35]])
      add(crown, place(x, height + lift * wide, y, 6 * draw(), new Vector3(wide * share, wide * share * 1.05, wide * share)), new Color(greens[part === 0 ? 0 : 2]).lerp(new Color(greens[1]), draw()));
    const shadow = place(x - sun.x * radius * 1.2, 0, y + sun.z * radius * 1.2, Math.atan2(sun.z, -sun.x), new Vector3(1.7 * radius, 1, radius));
    for (const [corners] of triangles(disc, shadow)) shadows.triangle(...corners.map((one) => one.toArray()), dark);
  }
  const leaves = new MeshBasicMaterial({ vertexColors: true }), shadow = shade(dark, 0.45);
  for (const { solid, shadows } of fields.values()) {
    const below = new Mesh(shadows.geometry({ isPlain: true }), shadow);
    below.renderOrder = ORDER.trees;
    group.add(below, new Mesh(solid.geometry({ isPlain: true }), leaves));
  }
  return group;
}

/** What stands still keeps its light: it is computed once, as the materials that are lit do it for every pixel. */
class Light {
  constructor(sky, sun) {
    Object.assign(this, { sun: sun.clone().normalize(), ray: new Color(sky.sun).multiplyScalar(sky.sunlight / Math.PI),
      above: new Color(sky.middle).multiplyScalar(sky.ambient / Math.PI), below: new Color(sky.below).multiplyScalar(sky.ambient / Math.PI) });
  }

  on(colour, normal) {
    const found = this.below.clone().lerp(this.above, 0.5 * normal.y + 0.5), bright = Math.max(normal.dot(this.sun), 0);
    found.add(this.ray.clone().multiplyScalar(bright));
    return found.multiply(colour);
  }
}
