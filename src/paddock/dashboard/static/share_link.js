// One press writes a replay that can be sent: a file that plays the laps and needs nothing else.

import { shareAddress } from './api.js';
import { html, toast } from './dom.js';

export class ShareLink {
  /** id: of a run, whose best lap is shared, or of a drive: the best lap of everybody in it. */
  constructor(id) {
    this.element = html('a', { class: 'button', download: '', hidden: true, href: shareAddress(id),
      title: 'One file that plays the laps in any browser, to send to others' }, 'Share replay');
    this.element.addEventListener('click', () => toast('The replay is in your downloads: one file, send it to anybody.'));
  }

  /** There is something to share, or not yet. */
  offer(isThere) {
    this.element.hidden = !isThere;
  }
}
