// The page of one file: its mirrors, segments and stripes as a picture, and the sentences of `entrepot explain`.

import { ask, at, bar, bytes, cells, clock, count, fill, hasToken, make, number, onToken, put, say, wantToken } from './parts.js';

// Neighbours differ also for those who see few colours; the names are there besides.
const COLOURS = ['#2f6fb7', '#d9822b', '#3a9a5b', '#b5477f', '#7a5cc9', '#1f9aa8', '#a67c1a', '#c24a3a', '#6b7f1e', '#596579'];

const wanted = () => decodeURIComponent(location.hash.slice(1));

async function look() {
  const path = wanted();
  if (document.activeElement !== at('path')) at('path').value = path;
  if (!path) {
    at('shown').hidden = true;
    at('path').focus();
    return;
  }
  const answer = await ask(`/api/file?path=${encodeURIComponent(path)}`);
  if (path !== wanted()) return;
  at('shown').hidden = !answer.data;
  at('wrong').hidden = Boolean(answer.data) || answer.status === 401;
  if (answer.status === 401) return wantToken();
  hasToken();
  if (!answer.data) {
    put(at('wrong'), answer.error);
    return;
  }
  show(answer.data);
}

function show(file) {
  document.title = `${file.path} - Entrepot`;
  put(at('name'), file.path);
  const mirrors = file.mirrors;
  const how = file.inline ? 'in its stub in the namespace, on no target' : count(mirrors.length, 'mirror');
  put(at('summary'), `${bytes(file.size)}, ${how}`);
  const targets = [...new Set(mirrors.flatMap((mirror) => mirror.segments.flatMap((segment) => segment.objects.map((object) => object.target))))].sort();
  const uses = (heat) => heat.reads + heat.writes;
  const hottest = Math.max(1, ...(file.heat?.segments ?? []).map(uses));
  const colour = (target) => COLOURS[targets.indexOf(target) % COLOURS.length];
  fill(at('layout'), mirrors.map((mirror, at) => ({ ...mirror, at })), 'div', (mirror) => mirror.at, (node, mirror) => {
    node.className = 'mirror';
    const title = node.querySelector('h3') ?? node.appendChild(make('h3'));
    const list = node.querySelector('ol') ?? node.appendChild(make('ol', 'segments'));
    const rest = node.querySelector('p.rest') ?? node.appendChild(make('p', 'rest'));
    put(title, `Mirror ${mirror.at}: ${mirror.state === 'in_sync' ? 'in sync' : 'stale'}, ${count(mirror.segments_count, 'segment')}`);
    const left = mirror.segments_count - mirror.segments.length;
    put(rest, left > 0 ? `and ${count(left, 'segment')} more` : '');
    fill(list, mirror.segments, 'li', (segment) => segment.start, (item, segment) => {
      drawSegment(item, segment, file.size, colour);
      drawHeat(item, file.heat?.mirror === mirror.at ? file.heat.segments[mirror.segments.indexOf(segment)] : undefined, hottest);
    });
  });
  fill(at('legend'), targets, 'li', (target) => target, (item, target) => {
    if (!item.firstChild) item.append(make('i'), make('span', '', target));
    item.firstChild.style.setProperty('--of-target', colour(target));
  });
  // Its history has a table of its own, below.
  const end = file.sentences.indexOf('History of its layout:');
  const sentences = file.sentences.slice(0, end < 0 ? undefined : end).map((text, at) => ({ text, at }));
  fill(at('sentences'), sentences, 'li', (one) => `${one.at} ${one.text}`, (item, one) => {
    item.className = one.text.startsWith(' ') ? 'detail' : '';
    put(item, one.text.trim());
  });
  const history = [...(file.history ?? [])].reverse();
  at('history-part').hidden = history.length === 0;
  fill(at('history-rows'), history.map((one, at) => ({ ...one, at })), 'tr', (one) => `${history.length - one.at}`, (row, one) => cells(row, [clock(one.at_ms), one.why]));
  say(`${file.path}: ${at('summary').textContent}`);
}

function drawSegment(item, segment, size, colour) {
  const title = item.querySelector('p') ?? item.appendChild(make('p'));
  const list = item.querySelector('ol') ?? item.appendChild(make('ol', 'stripes'));
  const end = segment.end === null ? size : Math.min(segment.end, Math.max(size, segment.start));
  const wide = segment.objects_count > 1 ? `, ${number(segment.objects_count)} stripes of ${bytes(segment.stripe_size)}` : '';
  const left = segment.objects_count - segment.objects.length;
  put(title, `${bytes(segment.start)} to ${bytes(end)}${wide}${left > 0 ? `, ${count(left, 'stripe')} not drawn` : ''}`);
  fill(list, segment.objects, 'li', (object) => object.object, (stripe, object) => {
    const lost = object.target_state === 'failed';
    stripe.className = lost ? 'stripe lost' : 'stripe';
    stripe.style.setProperty('--of-target', colour(object.target));
    const notes = [object.target_state === 'ok' ? '' : object.target_state, object.state === 'partial' ? 'partial' : '', object.merged ? 'merged' : ''];
    put(stripe, [object.target, ...notes].filter(Boolean).join(', '));
  });
}

/** How much a segment was used lately, beside the one that was used most. */
function drawHeat(item, heat, hottest) {
  if (!heat) return item.querySelector('.heat')?.remove();
  const node = item.querySelector('.heat') ?? item.appendChild(make('div', 'heat'));
  const moving = heat.moving ? ', on its way' : '';
  const text = `${number(heat.reads)} reads, ${number(heat.writes)} writes lately, ${heat.tier} tier${moving}`;
  bar(node, { part: (heat.reads + heat.writes) / hottest, label: 'Use of this segment', text, tone: 'warn' });
}

at('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const path = encodeURIComponent(at('path').value.trim());
  if (location.hash.slice(1) === path) look();
  else location.hash = path;
});
addEventListener('hashchange', () => {
  put(at('wrong'), '');
  look();
});
onToken(look);
look();
