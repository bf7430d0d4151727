// What both pages use: asking the daemon, and putting what it says into the page. All of it goes in as text, never as markup.

const TOKEN = 'entrepot-token';
const ASK_MAX_MS = 10_000;

export const at = (id) => document.getElementById(id);

/** Asks the daemon. `data` is what it said, else `error` says why not. */
export async function ask(path) {
  const token = sessionStorage.getItem(TOKEN);
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  try {
    const answer = await fetch(path, { headers, cache: 'no-store', signal: AbortSignal.timeout(ASK_MAX_MS) });
    const text = await answer.text();
    const isJson = (answer.headers.get('content-type') ?? '').startsWith('application/json');
    const data = isJson ? JSON.parse(text) : null;
    if (answer.ok) return { status: answer.status, data };
    return { status: answer.status, error: data?.error ?? text.trim() };
  } catch {
    return { status: 0, error: 'the daemon does not answer' };
  }
}

/** Has the form for the token call `then` with each that is given. It is kept for this tab only. */
export function onToken(then) {
  at('access').addEventListener('submit', (event) => {
    event.preventDefault();
    sessionStorage.setItem(TOKEN, at('token').value.trim());
    at('token').value = '';
    then();
  });
}

/** Asks for the token, if it is not asked for yet. */
export function wantToken() {
  if (sessionStorage.getItem(TOKEN)) {
    sessionStorage.removeItem(TOKEN);
    put(at('access-why'), 'That is not the token. It is in the file that token_file in [endpoint] of volume.toml names.');
    say('That is not the token');
  }
  if (at('access').hidden) {
    at('access').hidden = false;
    at('token').focus();
  }
}

/** The token was good, or none is wanted: who typed it goes on with the content. */
export function hasToken() {
  if (at('access').hidden) return;
  at('access').hidden = true;
  at('main').focus();
}

/** Says a change to those who hear the page. */
export const say = (text) => put(at('news'), text);

/** Sets a text, if it is another: what did not change is not read out again. */
export function put(node, text) {
  const wanted = String(text ?? '');
  if (node.textContent !== wanted) node.textContent = wanted;
}

export function make(kind, className, text) {
  const node = document.createElement(kind);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const child = (node, className, kind = 'span') =>
  node.querySelector(`:scope > .${className.split(' ')[0]}`) ?? node.appendChild(make(kind, className));

/** Makes the children of a node those of `items`, keeps those that are there, and has `draw` fill each. */
export function fill(node, items, kind, key, draw) {
  const wanted = new Map(items.map((item) => [String(key(item)), item]));
  const there = new Map();
  for (const one of [...node.children]) {
    if (wanted.has(one.dataset.key)) there.set(one.dataset.key, one);
    else one.remove();
  }
  let next = node.firstElementChild;
  for (const [name, item] of wanted) {
    let one = there.get(name);
    if (!one) {
      one = make(kind);
      one.dataset.key = name;
    }
    if (one === next) next = next.nextElementSibling;
    else node.insertBefore(one, next);
    draw(one, item);
  }
}

/** Fills a row: each cell is a text, or an object of `main`, `under`, `word` with `tone`, `href`, and what `bar` takes. */
export function cells(row, all) {
  all.forEach((cell, number) => {
    const node = row.cells[number] ?? row.appendChild(make(number === 0 ? 'th' : 'td'));
    if (number === 0) node.scope = 'row';
    const { main, under, word, tone, href, part } = typeof cell === 'object' ? cell : { main: cell };
    if (part !== undefined) return bar(node, cell);
    const line = child(node, word ? 'word' : 'main', href ? 'a' : 'span');
    if (href) line.setAttribute('href', href);
    if (word) line.className = `word ${tone ?? ''}`.trim();
    put(line, word ?? main);
    const below = node.querySelector(':scope > .under');
    if (under) put(below ?? child(node, 'under'), under);
    else below?.remove();
  });
}

/** A bar with its text. `part` is from 0 to 1, or null: then there is the text alone. `role` is `meter` or `progressbar`. */
export function bar(node, { part, text, label, tone, role = 'meter' }) {
  const line = child(node, 'of-meter');
  put(line, text);
  let track = node.querySelector(':scope > .meter');
  if (part === null) return track?.remove();
  track ??= node.insertBefore(make('div', 'meter'), line);
  track.firstElementChild ?? track.append(make('div'));
  const percent = Math.round(Math.min(1, Math.max(0, part)) * 1000) / 10;
  track.className = `meter ${tone ?? ''}`.trim();
  track.setAttribute('role', role);
  track.setAttribute('aria-label', label);
  track.setAttribute('aria-valuemin', '0');
  track.setAttribute('aria-valuemax', '100');
  track.setAttribute('aria-valuenow', String(percent));
  track.setAttribute('aria-valuetext', text);
  track.firstElementChild.style.width = `${percent}%`;
}

const SPAN_S = 900;

/** A line of bytes per second in the last quarter of an hour. Each part is the age of its begin and end, and its rate. */
export function spark(node, name, parts) {
  const rates = parts.map(([, , rate]) => rate);
  const most = Math.max(...rates);
  put(child(node, 'name'), name);
  put(child(node, 'value'), `${bytes(rates.at(-1))}/s`);
  const svg = node.querySelector('svg') ?? node.appendChild(at('line').content.firstElementChild.cloneNode(true));
  const step = ([from, to, rate], number) => `${number ? 'L' : 'M'}${SPAN_S - from} ${99 - 98 * part(rate, most)}H${SPAN_S - to}`;
  svg.firstElementChild.setAttribute('d', parts.map(step).join(''));
  put(child(node, 'under'), `at most ${bytes(most)}/s in ${span(parts[0][0])}`);
}

/** Tiles of a number each: pairs of a name and a value; those without value are left out. */
export function tiles(list, pairs) {
  fill(list, pairs.filter(([, value]) => value !== undefined && value !== null), 'div', ([name]) => name, (tile, [name, value]) => {
    put(child(tile, 'name', 'dt'), name);
    put(child(tile, 'value', 'dd'), value);
  });
}

/** As in the command line: 1.5 GiB. */
export function bytes(count) {
  const units = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];
  let value = Number(count ?? 0);
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) [value, unit] = [value / 1024, unit + 1];
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
}

/** A time span: its two largest units. */
export function span(seconds) {
  const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];
  let left = Math.max(0, Math.round(seconds));
  const parts = [];
  for (const [size, name] of units) {
    if (left >= size) parts.push(`${Math.floor(left / size)} ${name}`);
    else if (parts.length) break;
    left %= size;
    if (parts.length === 2) break;
  }
  return parts.join(' ') || '0 s';
}

/** The clock here; with the day, if it is another. */
export function clock(ms) {
  const [then, now] = [new Date(ms), new Date()];
  const two = (number) => String(number).padStart(2, '0');
  const time = `${two(then.getHours())}:${two(then.getMinutes())}:${two(then.getSeconds())}`;
  if (then.toDateString() === now.toDateString()) return time;
  return `${then.getFullYear()}-${two(then.getMonth() + 1)}-${two(then.getDate())} ${time}`;
}

/** How far bytes are, with the time left. */
export function far(done, total, left_s) {
  const rest = left_s === null || left_s === undefined ? '' : `, ${span(left_s)} left`;
  return `${bytes(done)} of ${bytes(total)}${rest}`;
}

export const part = (of, all) => (all > 0 ? of / all : 0);
export const number = (value) => Number(value ?? 0).toLocaleString('en');
/** 1 file, 2 files. */
export const count = (many, one) => (Number(many) === 1 ? `1 ${one}` : `${number(many)} ${one}s`);
export const fileLink = (path) => `/file#${encodeURIComponent(path)}`;
