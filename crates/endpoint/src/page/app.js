// The dashboard: asks the daemon every two seconds, one request at a time, and not at all while nobody looks.

import { ask, at, bar, bytes, cells, clock, count, far, fileLink, fill, hasToken, number, onToken, part, put, say, span, spark, tiles, wantToken } from './parts.js';

const EVERY_MS = 2000;
const NEARLY_FULL = 0.95;
const FULL_SOON = 0.85;

let timer = 0;
let asking = false;
let again = false;
let glance = null;
let from = 0;
let spokenState = '';

const BAD = new Set(['failed']);
const WARN = new Set(['suspect', 'draining', 'read-only', 'elsewhere', 'drained']);
const toneOf = (state) => (BAD.has(state) ? 'bad' : WARN.has(state) ? 'warn' : 'good');
const toneOfFill = (used) => (used >= NEARLY_FULL ? 'bad' : used >= FULL_SOON ? 'warn' : '');

async function look() {
  if (asking) {
    again = true;
    return;
  }
  asking = true;
  clearTimeout(timer);
  do {
    again = false;
    await lookOnce();
  } while (again);
  asking = false;
  if (!document.hidden) timer = setTimeout(look, EVERY_MS);
}

async function lookOnce() {
  const answer = await ask('/api/volume');
  if (answer.status === 401) {
    at('main').hidden = true;
    state('wants a token', 'warn');
    wantToken();
    return;
  }
  if (!answer.data) {
    // What was there stays, marked as old.
    state('does not answer', 'bad');
    if (glance) put(at('about'), `as it was at ${clock(glance.now_ms)}: ${answer.error}`);
    else put(at('about'), answer.error);
    return;
  }
  glance = answer.data;
  at('main').hidden = false;
  hasToken();
  showGlance();
  showRates();
  showTargets();
  showMoves();
  showEvents();
  showBurst();
  showTiering();
  showStripes();
  at('more-none').hidden = Boolean(glance.burst?.size || glance.tiering || glance.stripes);
  const asked = from;
  showJobs(await ask(`/api/jobs?from=${asked}&find=${encodeURIComponent(at('find-job').value)}`), asked);
  showSpace(await ask('/api/space'));
}

function state(word, tone) {
  put(at('state'), word);
  at('state').className = `badge ${tone}`;
  const spoken = `The volume: ${word}`;
  if (spoken !== spokenState) say(spoken);
  spokenState = spoken;
}

function showGlance() {
  const { name, problems, targets } = glance;
  document.title = `${problems.length ? `(${problems.length}) ` : ''}${name} - Entrepot`;
  put(at('name'), name);
  if (problems.length === 0) state('ok', 'good');
  else state(problems.length === 1 ? problems[0] : `${problems.length} problems`, 'bad');
  const where = glance.mount_point ? `${glance.mount_point} on ${glance.host}` : glance.host;
  put(at('about'), `${where}, up ${span(glance.uptime_s)}`);
  at('problems').hidden = problems.length === 0;
  fill(at('problems'), problems, 'li', (text) => text, put);
  const used = part(glance.total_bytes - glance.free_bytes, glance.total_bytes);
  bar(at('space'), {
    part: used,
    tone: toneOfFill(used),
    label: 'Fill of the volume',
    text: `${bytes(glance.free_bytes)} free of ${bytes(glance.total_bytes)}, ${(used * 100).toFixed(1)} % used`,
  });
  fill(at('tiers'), glance.tiers, 'li', (tier) => tier.name, (item, tier) => {
    const share = part(tier.total_bytes - tier.free_bytes, tier.total_bytes);
    const text = `${tier.name}: ${bytes(tier.free_bytes)} free of ${bytes(tier.total_bytes)}`;
    bar(item, { part: share, tone: toneOfFill(share), label: `Fill of the tier ${tier.name}`, text });
  });
  const well = targets.filter((target) => target.state === 'ok').length;
  const { mover, repair, quotas } = glance;
  tiles(at('numbers'), [
    ['targets ok', `${number(well)} of ${number(targets.length)}`],
    ['nodes', glance.nodes?.length ? number(glance.nodes.length) : null],
    ['moves under way', number(mover.running)],
    ['moves done', number(mover.changes_done)],
    ['moves failed', mover.changes_failed ? number(mover.changes_failed) : null],
    ['bytes moved', bytes(mover.bytes_copied)],
    ['lost stripes fetched', repair?.stripes_lost ? `${number(repair.stripes_recovered)} of ${number(repair.stripes_lost)}` : null],
    ['cache hits', glance.cache ? `${(glance.cache.hit_ratio * 100).toFixed(1)} %` : null],
    ['quotas', quotas ? number(quotas.limits) : null],
    ['over a soft limit', quotas?.over ? number(quotas.over) : null],
    ['grace is over', quotas?.expired ? number(quotas.expired) : null],
    ['at a hard limit', quotas?.full ? number(quotas.full) : null],
    ['objects to remove', glance.garbage_objects ? number(glance.garbage_objects) : null],
  ]);
}

function showRates() {
  const { rates } = glance;
  at('rates').hidden = rates.length === 0;
  if (rates.length === 0) return;
  const kinds = [['read', 'read_bytes_s'], ['written', 'written_bytes_s'], ['staged in and out', 'staged_bytes_s']];
  fill(at('rates'), kinds, 'li', ([name]) => name, (item, [name, of]) => {
    spark(item, name, rates.map((rate) => [rate.from_s, rate.to_s, rate[of]]));
  });
}

function showTargets() {
  const used = (target) => part(target.total_bytes - target.free_bytes, target.total_bytes);
  const rank = (target) => ({ bad: 0, warn: 1, good: 2 })[toneOf(target.state)];
  const words = at('find-target').value.toLowerCase().split(/\s+/).filter(Boolean);
  const has = (target) => words.every((word) => `${target.name} ${target.tier} ${target.state}`.toLowerCase().includes(word));
  const shown = glance.targets.filter(has);
  shown.sort((one, other) => rank(one) - rank(other) || used(other) - used(one) || one.name.localeCompare(other.name));
  put(at('targets-count'), shown.length === glance.targets.length ? count(shown.length, 'target') : `${number(shown.length)} that match, of ${count(glance.targets.length, 'target')}`);
  fill(at('target-rows'), shown, 'tr', (target) => target.name, (row, target) => {
    const share = used(target);
    cells(row, [
      { main: target.name, under: target.tier },
      { word: target.state, tone: toneOf(target.state) },
      {
        part: target.total_bytes ? share : null,
        tone: toneOfFill(share),
        label: `Fill of ${target.name}`,
        text: target.total_bytes ? `${bytes(target.free_bytes)} free of ${bytes(target.total_bytes)}` : 'not known',
      },
    ]);
  });
  at('nodes').hidden = !glance.nodes?.length;
  fill(at('node-rows'), glance.nodes ?? [], 'tr', (node) => node.node, (row, node) => {
    const more = [node.leads ? 'leads' : '', node.is_self ? 'shows this page' : ''].filter(Boolean).join(', ');
    cells(row, [
      { main: node.host ?? `node ${node.node}`, under: more },
      { word: node.state, tone: toneOf(node.state) },
      node.since_ms ? clock(node.since_ms) : '',
    ]);
  });
}

function showMoves() {
  const drains = (glance.drains ?? []).map((drain) => ({
    number: `drain ${drain.target}`,
    what: `${drain.target} is being emptied`,
    why: 'the target is drained',
    text: `${number(drain.files)} files moved, ${number(drain.left)} left in this round${drain.busy ? `, ${number(drain.busy)} in use` : ''}`,
  }));
  const all = [...drains, ...glance.moves];
  at('moves-none').hidden = all.length > 0;
  at('moves-table').hidden = all.length === 0;
  fill(at('move-rows'), all, 'tr', (move) => move.number, (row, move) => {
    cells(row, [
      move.path ? { main: move.path, under: move.what, href: fileLink(move.path) } : { main: move.what },
      { main: move.why ?? '', under: move.by },
      {
        part: move.total_bytes ? part(move.done_bytes, move.total_bytes) : null,
        role: 'progressbar',
        label: `${move.what} ${move.path ?? ''}`.trim(),
        text: move.text ?? far(move.done_bytes, move.total_bytes, move.left_s),
      },
    ]);
  });
}

function showEvents() {
  const choice = at('event-kind');
  const kinds = [...new Set(glance.events.map((event) => event.kind))].sort();
  // One that was chosen stays, though none of it is among the newest now.
  if (choice.value && !kinds.includes(choice.value)) kinds.push(choice.value);
  const options = ['', ...kinds];
  fill(choice, options, 'option', (kind) => kind, (option, kind) => {
    option.value = kind;
    put(option, kind || 'everything');
  });
  const shown = glance.events.filter((event) => !choice.value || event.kind === choice.value);
  at('events-none').hidden = shown.length > 0;
  at('events-table').hidden = shown.length === 0;
  fill(at('event-rows'), shown, 'tr', (event) => event.number, (row, event) => {
    const way = event.from || event.to ? `${(event.from ?? []).join(', ') || 'nowhere'} → ${(event.to ?? []).join(', ') || 'nowhere'}` : '';
    const what = event.path
      ? { main: event.path, under: [event.what, way].filter(Boolean).join(': '), href: event.kind === 'purge' ? undefined : fileLink(event.path) }
      : { main: event.what, under: way };
    cells(row, [clock(event.at_ms), what, { main: event.why ?? '', under: event.by ?? event.kind }]);
  });
}

function showJobs(answer, asked) {
  const data = answer.data;
  at('jobs-hidden').hidden = Boolean(data);
  at('jobs-shown').hidden = !data;
  if (!data) {
    put(at('jobs-hidden'), answer.status === 403 ? 'Jobs and names of files are shown only with a token: name a token_file in [endpoint] of volume.toml.' : answer.error);
    return;
  }
  const states = Object.entries(data.states).map(([name, count]) => `${number(count)} ${name}`);
  put(at('job-states'), states.length ? states.join(', ') : 'No job waits or runs, and none failed in the last day.');
  const last = data.from + data.jobs.length;
  const range = data.found > data.jobs.length ? `${number(data.from + 1)} to ${number(last)} of ${number(data.found)}` : number(data.found);
  put(at('jobs-count'), data.found === data.total ? `${range} ${data.total === 1 ? 'job' : 'jobs'}` : `${range} that match, of ${number(data.total)} jobs`);
  at('jobs-table').hidden = data.jobs.length === 0;
  const key = (job) => `${job.scheduler ?? ''} ${job.id}`;
  fill(at('job-rows'), data.jobs, 'tr', key, (row, job) => {
    const owner = [job.user, job.cores ? count(job.cores, 'core') : '', job.host].filter(Boolean).join(', ');
    const data = job.staging;
    cells(row, [
      { main: [job.scheduler, job.id, job.name].filter(Boolean).join(' '), under: owner },
      { main: job.state, under: job.detail },
      {
        part: data?.total_bytes ? part(data.done_bytes, data.total_bytes) : null,
        role: 'progressbar',
        label: `Data of job ${job.id}`,
        text: data ? far(data.done_bytes, data.total_bytes, data.left_s) : `since ${clock(job.since_ms)}`,
      },
    ]);
  });
  // A page that was turned to meanwhile is asked for next.
  if (from === asked) from = data.from;
  at('pager').hidden = data.found <= data.page;
  at('earlier').disabled = data.from === 0;
  at('later').disabled = last >= data.found;
  for (const id of ['users-title', 'users-table']) at(id).hidden = data.users.length === 0;
  fill(at('user-rows'), data.users, 'tr', (user) => user.user, (row, user) => {
    cells(row, [user.user, number(user.jobs), { main: number(user.running), under: user.cores ? count(user.cores, 'core') : '' }]);
  });
}

function showSpace({ data, error }) {
  const users = data?.users ?? [];
  at('space-table').hidden = users.length === 0;
  if (!data) return put(at('space-text'), error);
  if (!data.users) return put(at('space-text'), 'All names are being looked at.');
  const parts = [
    users.length ? '' : 'There are no files.',
    `As it was ${span(data.age_s)} ago`,
    data.took_s ? `, when looking at all names took ${span(data.took_s)}` : '',
    data.looking ? '; being looked at again.' : '.',
    data.unread ? ` ${count(data.unread, 'name')} could not be read.` : '',
  ];
  put(at('space-text'), parts.join(users.length ? '' : ' ').trim());
  const others = data.users_count > users.length ? [{ ...data.others, name: `${number(data.users_count - users.length)} others` }] : [];
  const most = Math.max(1, ...users.map((user) => user.on_targets_bytes));
  fill(at('space-rows'), [...users, ...others], 'tr', (user) => user.uid ?? 'others', (row, user) => {
    cells(row, [
      user.name,
      { main: number(user.files), under: `${bytes(user.bytes)} in all` },
      { part: Math.min(1, user.on_targets_bytes / most), label: `Space of ${user.name}`, text: bytes(user.on_targets_bytes) },
    ]);
  });
}

function showBurst() {
  const { burst } = glance;
  at('burst').hidden = !burst?.size;
  if (!burst?.size) return;
  const used = part(burst.used, burst.size);
  bar(at('burst-fill'), {
    part: used,
    tone: toneOfFill(used),
    label: 'Fill of the burst buffer',
    text: `${bytes(burst.used)} of ${bytes(burst.size)} used, ${bytes(burst.not_demoted)} not demoted yet`,
  });
  const speed = (rate) => (rate === null ? 'unlimited' : `${bytes(rate)}/s`);
  tiles(at('burst-numbers'), [
    ['applications writing', number(burst.writing)],
    ['waiting for their turn', number(burst.waiting)],
    ['writes held', number(burst.held_writes)],
    ['complete versions', number(burst.versions)],
    ['demoted', number(burst.demoted)],
    ['writing at', speed(burst.write_rate)],
    ['demotion at', speed(burst.demotion_rate)],
    ['written in this period', bytes(burst.written_in_period)],
    ['predicted for it', bytes(burst.expected_in_period)],
    ['policy', `${burst.policy} (${burst.pattern})`],
  ]);
  const versions = burst.versions_shown ?? [];
  const turn = { waiting: 'waits for its turn', writing: 'is written' };
  at('versions-table').hidden = versions.length === 0;
  fill(at('version-rows'), versions, 'tr', (one) => `${one.app} ${one.label}`, (row, one) => {
    const place = { fast: 'in the burst buffer', capacity: 'on the capacity tier', both: 'in both' }[one.place];
    cells(row, [
      { main: one.app, under: one.label },
      { main: turn[one.state] ?? one.state, under: one.at_ms ? `${place}, since ${clock(one.at_ms)}` : place },
      { main: bytes(one.bytes), under: count(one.files, 'file') },
    ]);
  });
  const apps = burst.applications ?? [];
  at('apps-table').hidden = apps.length === 0;
  fill(at('app-rows'), apps, 'tr', (app) => app.name, (row, app) => {
    const interval = app.interval_s ? span(app.interval_s) : '';
    const advised = app.advised_interval_s ? `advised: ${span(app.advised_interval_s)}` : '';
    cells(row, [
      { main: app.name, under: `${bytes(app.bytes)} in ${app.cost_s < 10 ? `${app.cost_s.toFixed(1)} s` : span(app.cost_s)}` },
      { main: app.newest ?? 'none yet', under: app.newest ? `on the ${app.newest_in_buffer ? 'fast' : 'capacity'} tier` : '' },
      { main: interval || 'not known yet', under: advised },
    ]);
  });
}

function showTiering() {
  const { tiering } = glance;
  at('tiering').hidden = !tiering;
  if (!tiering) return;
  const paused = tiering.paused ? ', paused' : '';
  put(at('tiering-text'), tiering.measuring ? `${tiering.policy}: the devices are being measured` : `${tiering.policy}${paused}`);
  if (tiering.measuring) return;
  tiles(at('tiering-numbers'), [
    ['accesses', number(tiering.accesses)],
    ['to the fast tier', `${(tiering.fast_share * 100).toFixed(1)} %`],
    ['segments in use', number(tiering.working_set)],
    ['on the fast tier', number(tiering.fast_segments)],
    ['room for', number(tiering.room_segments)],
    ['promoted', number(tiering.promoted)],
    ['demoted', number(tiering.demoted)],
    ['hot from', tiering.threshold === null ? null : count(tiering.threshold, 'read')],
  ]);
  const hot = tiering.hot ?? [];
  const most = Math.max(1, ...hot.map((one) => one.reads + one.writes));
  at('hot-table').hidden = hot.length === 0;
  fill(at('hot-rows'), hot, 'tr', (one) => `${one.file} ${one.segment}`, (row, one) => {
    cells(row, [
      { main: one.file, under: `segment ${one.segment}`, href: fileLink(one.file) },
      one.tier,
      { part: (one.reads + one.writes) / most, label: `Use of ${one.file}, segment ${one.segment}`, text: `${number(one.reads)} reads, ${number(one.writes)} writes` },
    ]);
  });
}

function showStripes() {
  const { stripes } = glance;
  at('stripes').hidden = !stripes;
  if (!stripes) return;
  const asked = `${stripes.requests_per_s.toFixed(1)} requests/s of ${bytes(Math.round(stripes.request_bytes))}, ${(stripes.writes_share * 100).toFixed(0)} % writing`;
  const files = `${count(stripes.files, 'file')} watched, ${number(stripes.files_with_forks)} with forks`;
  put(at('stripes-text'), [`${stripes.mode}: ${asked}`, files, stripes.new_files ? `new files get ${stripes.new_files}` : ''].filter(Boolean).join('; '));
  const decisions = [...(stripes.decisions ?? [])].reverse();
  fill(at('stripes-decisions'), decisions, 'li', (one) => `${one.at_ms} ${one.text}`, (item, one) => put(item, `${clock(one.at_ms)}  ${one.text}`));
}

at('find-target').addEventListener('input', () => glance && showTargets());
at('event-kind').addEventListener('change', () => glance && showEvents());
at('find-job').addEventListener('input', () => {
  from = 0;
  look();
});
const turn = (pages) => () => {
  const step = at('job-rows').rows.length;
  from = Math.max(0, from + pages * Math.max(step, 100));
  look();
};
at('earlier').addEventListener('click', turn(-1));
at('later').addEventListener('click', turn(1));
document.addEventListener('visibilitychange', () => (document.hidden ? clearTimeout(timer) : look()));
onToken(look);
look();
