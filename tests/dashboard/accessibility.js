// What keeps people from using a page, as a list of sentences: controls without a name, and text that is too pale. Text
// over a picture and disabled controls are left out.
() => {
  const pale = () => {
  const parse = (text) => { const [r, g, b, a = 1] = (text.match(/[\d.]+/g) ?? [0, 0, 0, 0]).map(Number);
    return /^color/.test(text) ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a]; };
  const over = ([r, g, b, a], below) => [r, g, b].map((value, k) => a * value + (1 - a) * below[k]);
  const light = (rgb) => rgb.map((value) => value / 255).map((value) => (value <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4))
    .reduce((sum, value, k) => sum + [0.2126, 0.7152, 0.0722][k] * value, 0);
  const behind = (node) => { const chain = []; for (let one = node; one; one = one.parentElement) chain.unshift(parse(getComputedStyle(one).backgroundColor));
    return chain.reduce((below, colour) => over(colour, below), [255, 255, 255]); };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.textContent.trim() || !node.checkVisibility() || node.closest('.stage, .hero-picture, :disabled, option, .uplot, .skip')) continue;
    const below = behind(node), text = over(parse(getComputedStyle(node).color), below);
    const [a, b] = [light(text), light(below)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5) found.push(`${ratio.toFixed(2)} ${node.className} ${node.textContent.trim().slice(0, 40)}`);
  }
  return found;
};
  const unnamed = () => [...document.querySelectorAll('main button, main a, main input, main select, main textarea, main video, main [role=progressbar]')]
  .filter((one) => !(one.textContent.trim() || one.ariaLabel || one.labels?.length)).map((one) => one.outerHTML.slice(0, 120));
  return [...unnamed(), ...pale()];
}
