// Charts over time can be zoomed with uPlot; without this script the drawings stay as they are.
(() => {
  const open = new Set();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const text = (v) => (v == null ? '–' : Number(v.toPrecision(6)).toString());
  let busy = false;

  function follow(u, key) {  // all charts that are open show the same span
    if (key !== 'x' || busy) return;
    busy = true;
    for (const other of open) {
      if (other !== u && other.label === u.label) other.setScale('x', u.scales.x);
    }
    busy = false;
  }

  function marks(panel) {
    return (u) => {
      const {left, top, width, height} = u.bbox;
      u.ctx.save();
      u.ctx.beginPath();
      u.ctx.rect(left, top, width, height);
      u.ctx.clip();
      for (const [kind, begin, end] of panel.marks) {
        const a = u.valToPos(begin, 'x', true), b = u.valToPos(end, 'x', true);
        u.ctx.globalAlpha = begin === end ? 0.9 : 0.25;
        u.ctx.fillStyle = colour(kind === 'frozen' ? '--c0' : '--c1');
        u.ctx.fillRect(a, top, Math.max(b - a, devicePixelRatio), height);
      }
      u.ctx.restore();
    };
  }

  function plot(panel, figure) {
    const series = [{label: panel.x}], bands = [], data = [panel.at], font = '11px system-ui,sans-serif';
    panel.lines.forEach(({name, low, high}, n) => {
      const stroke = colour(`--c${n % 5}`), value = (u, v, s, i) => (
        i == null ? '–' : text(low[i]) + (low[i] === high[i] ? '' : ` … ${text(high[i])}`));
      series.push({label: name || panel.y, stroke, width: 1, value}, {label: '', stroke, width: 1});
      bands.push({series: [2 * n + 2, 2 * n + 1], fill: stroke});
      data.push(low, high);
    });
    const axis = {stroke: colour('--note'), font, labelFont: font, labelSize: 18,
      grid: {stroke: colour('--line'), width: 0.5}, ticks: {show: false}};
    const box = figure.appendChild(document.createElement('div'));
    const u = new uPlot({
      width: figure.clientWidth - 20, height: panel.height, series, bands,
      scales: {x: {time: false}, y: {distr: panel.log ? 3 : 1}},
      axes: [{...axis, label: panel.x, size: 36}, {...axis, label: panel.y, size: 52}],
      cursor: {sync: {key: panel.x}, points: {show: false}},
      hooks: {drawClear: [marks(panel)], setScale: [follow]},
    }, data, box);
    u.label = panel.x;
    open.add(u);
    return () => { open.delete(u); u.destroy(); box.remove(); };
  }

  for (const figure of document.querySelectorAll('figure[data-plot]')) {
    const button = document.createElement('button');
    let close = [];
    button.textContent = 'zoom';
    button.title = 'drag over a span to zoom; double click to see all';
    button.onclick = () => {
      close.forEach((end) => end());
      figure.classList.toggle('zoomed', !close.length);
      close = close.length ? [] : JSON.parse(figure.dataset.plot).map((p) => plot(p, figure));
      button.textContent = close.length ? 'close' : 'zoom';
      figure.append(figure.querySelector('figcaption'));
    };
    figure.querySelector('figcaption').append(button);
  }
})();
