// Smoke of tyres that slide: puffs that rise, grow and fade, all in one draw call.

import { BufferAttribute, BufferGeometry, Points, ShaderMaterial } from '../vendor/three.module.min.js';

const COUNT = 90, LIFE = 1.1, EVERY = 0.025; // puffs, s

const VERTEX = `attribute float size; attribute float alpha; varying float shade; uniform float scale;
void main() {
  vec4 seen = modelViewMatrix * vec4(position, 1.0);
  shade = alpha;
  gl_PointSize = clamp(size * scale / max(-seen.z, 0.1), 0.0, 220.0);
  gl_Position = projectionMatrix * seen;
}`;
const FRAGMENT = `varying float shade; uniform vec3 tint;
void main() {
  float far = length(gl_PointCoord - vec2(0.5)) * 2.0;
  if (far > 1.0 || shade <= 0.0) discard;
  gl_FragColor = vec4(tint, shade * (1.0 - far * far));
}`;

export class Smoke {
  constructor(unit) {
    this.unit = unit; // m: a car's length
    this.puffs = Array.from({ length: COUNT }, () => ({ age: Infinity, x: 0, y: 0, z: 0, strength: 0 }));
    const geometry = new BufferGeometry();
    geometry.setAttribute('position', new BufferAttribute(new Float32Array(3 * COUNT), 3));
    geometry.setAttribute('size', new BufferAttribute(new Float32Array(COUNT), 1));
    geometry.setAttribute('alpha', new BufferAttribute(new Float32Array(COUNT), 1));
    this.material = new ShaderMaterial({ vertexShader: VERTEX, fragmentShader: FRAGMENT, transparent: true, depthWrite: false,
      uniforms: { scale: { value: 500 }, tint: { value: [0.86, 0.86, 0.88] } } });
    this.points = new Points(geometry, this.material);
    this.points.frustumCulled = false;
    this.next = 0;
    this.since = 0;
    this.count = 0; // that were ever made
  }

  /** strength 0..1 at places of the plan. */
  add(elapsed, places, strength) {
    this.since += elapsed;
    if (strength <= 0 || this.since < EVERY) return;
    this.since = 0;
    for (const [x, z] of places) {
      Object.assign(this.puffs[this.next], { age: 0, x: x + 0.1 * this.unit * (Math.random() - 0.5), y: 0.05 * this.unit, z, strength });
      this.next = (this.next + 1) % COUNT;
      this.count += 1;
    }
  }

  update(elapsed, pixelsPerMetre) {
    const { position, size, alpha } = this.points.geometry.attributes;
    let alive = 0;
    this.puffs.forEach((puff, k) => {
      puff.age += elapsed;
      const share = puff.age / LIFE, isAlive = share < 1;
      alive += Number(isAlive);
      puff.y += 0.22 * this.unit * elapsed;
      position.setXYZ(k, puff.x, puff.y, puff.z);
      size.setX(k, isAlive ? this.unit * (0.16 + 0.5 * share) : 0);
      alpha.setX(k, isAlive ? 0.42 * puff.strength * (1 - share) ** 1.5 : 0);
    });
    this.points.visible = alive > 0;
    this.material.uniforms.scale.value = pixelsPerMetre;
    for (const one of [position, size, alpha]) one.needsUpdate = true;
  }
}
