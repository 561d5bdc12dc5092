// A small drawing for each kind of experiment, made of lines: what is controlled, and for world models what is imagined.

import { svg } from './dom.js';

const ROAD = 'M12 44C6 26 22 10 40 16S62 30 76 18 108 12 110 30 96 50 74 46 30 60 12 44Z';
const path = (d, kind = '') => svg('path', { d, class: kind });
const circle = (cx, cy, r, kind = '') => svg('circle', { cx, cy, r, class: kind });
const rect = (x, y, width, height, kind = '') => svg('rect', { x, y, width, height, rx: 2, class: kind });

const DRAWINGS = {
  race: () => [path(ROAD, 'road'), path(ROAD, 'dashes'), rect(70, 40, 12, 6, 'accent')],
  camera: () => [path(ROAD, 'road'), path('M76 43L104 22M76 43L108 52', 'thin'), rect(68, 40, 12, 6, 'accent')],
  control: () => [path('M20 50H100', 'thin'), rect(48, 42, 24, 10, 'solid'), path('M60 42L74 12', 'accent-line'), circle(74, 12, 4, 'accent')],
  pendulum: () => [circle(60, 26, 3, 'solid'), path('M60 26L82 48', 'accent-line'), circle(82, 48, 6, 'accent'), path('M60 4A22 22 0 0 1 82 26', 'thin')],
  images: () => [...Array(15).keys()].map((k) => rect(30 + 13 * (k % 5), 10 + 15 * Math.floor(k / 5), 11, 12, k === 7 ? 'accent' : 'solid')),
  body: () => [path('M40 52L52 34 48 20 66 14 78 26M52 34L70 40 76 54', 'accent-line'), circle(48, 20, 3, 'solid'), circle(52, 34, 3, 'solid'), circle(66, 14, 3, 'solid')],
  imitation: () => [path('M14 46C40 8 76 56 106 14', 'accent-line'), path('M14 52C40 14 76 62 106 20', 'dashes')],
  trackmania: () => [path('M20 54L52 14H68L100 54Z', 'road'), path('M60 16V52', 'dashes'), rect(53, 40, 14, 9, 'accent')],
};

function kind({ environment = '', group, workflow, name = '', is_racing: isRacing }) {
  if (group === 'trackmania') return 'trackmania';
  if (group === 'imitation' && !isRacing) return 'imitation';
  if (isRacing || environment === 'dream') return /camera|lidar/.test(name) ? 'camera' : 'race';
  if (environment === 'dmc') return 'body';
  if (['atari', 'minigrid', 'carracing'].includes(environment)) return 'images';
  if (/pendulum/.test(name) || workflow === 'training_agent') return 'pendulum';
  return /cartpole|lunar/.test(name) ? 'control' : isRacing === undefined ? 'race' : 'control';
}

/** The picture of an experiment; it is decoration, the card says the rest. */
export function experimentPicture(experiment) {
  const cloud = experiment.group === 'world_models' ? [path('M84 10a7 7 0 0 1 13-3 8 8 0 0 1 8 13H84a6 6 0 0 1 0-10Z', 'cloud'), circle(80, 24, 2, 'cloud')] : [];
  return svg('svg', { viewBox: '0 0 120 62', class: 'experiment-picture', 'aria-hidden': 'true' }, ...DRAWINGS[kind(experiment)](), ...cloud);
}
