import * as fs from 'node:fs';
import { expect, test } from 'vitest';
import { getOwn } from '../../src/base/collections.ts';
import type { SessionDetails, SessionOverview } from '../../src/client/index.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import { ownWait, type Surroundings, waitingFor } from '../../src/core/session/waiting-for.ts';
import { formatSessions, sortByUrgency } from '../../src/frontends/cli/commands/list.ts';
import { nextCommands } from '../../src/frontends/cli/commands/show.ts';
import { formatStatusLine } from '../../src/frontends/cli/commands/watch-run.ts';
import { formatCommand } from '../../src/frontends/cli/common/command.ts';
import { liveWording } from '../../src/frontends/cli/live/live-wording.ts';
import { formatChatStatus, topFrame, topRow } from '../../src/frontends/cli/live/top-frame.ts';
import type { EventBody, RunEndStatus } from '../../src/protocol/session/event.ts';
import type { SessionStanding } from '../../src/protocol/session/reply.ts';
import { ended, opened, planned, received, record, rig, started } from '../client/rig.ts';
import { runHere } from '../support/agentctl-here.ts';

/** A session that changed at this minute. */
function overview(name: string, minute: number, more: Partial<SessionOverview> = {}): SessionOverview {
  const changed = `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`;
  const parent = name.includes('~') ? name.slice(0, name.lastIndexOf('~')) : null;
  const rest = {
    title: null,
    plan: null,
    asks: null,
    waits_for: null,
    waits_until: null,
    inbox: 0,
    problem: null,
    settings: null,
    plan_problem: null,
    unserved: null,
    waits: null,
  };
  return { name, label: name, parent, standing: 'completed', changed, ...rest, ...more };
}

const SESSIONS = [
  overview('a-old', 1),
  overview('b-new', 9, { standing: 'failed' }),
  overview('busy', 2, { standing: 'running' }),
  overview('family', 3, { standing: 'running' }),
  overview('family~step_1', 3, { standing: 'completed' }),
  overview('family~step_2', 4, { standing: 'waiting' }),
  overview('family~step_2~1', 4),
  overview('left~over', 8),
  overview('paused', 5, { standing: 'paused' }),
  overview('torn', 0, { standing: 'unreadable', problem: 'line 3 is no event' }),
];

const rows = (all: boolean): string[] =>
  formatSessions(sortByUrgency(SESSIONS), { isServed: true, all })
    .split('\n')
    .slice(1)
    .map((line) =>
      line
        .split(/ {2,}(?!└)/)
        .slice(0, 2)
        .join(' | '),
    );

test('what needs a person comes first, then what is paused, then what runs, then what changed last', () => {
  expect(rows(false)).toEqual([
    'family (2 children) | running',
    '└ ~step_2 | waiting',
    'torn | unreadable',
    'paused | paused',
    'busy | running',
    'b-new | failed',
    'left~over | completed',
    'a-old | completed',
  ]);
});

test('with --all every child session stands below the session it belongs to', () => {
  expect(
    rows(true)
      .slice(0, 4)
      .map((row) => row.trim()),
  ).toEqual(['family | running', '└ ~step_1 | completed', '└ ~step_2 | waiting', '└ ~1 | completed']);
});

const SPENT = { iterations: 1, tokens: 0, cost: null };
const FIRST = [opened, received('1.md'), started('1.md'), ...planned('plan_1', 'Count')];
const CANCELLED: EventBody[] = [
  ...FIRST,
  { type: 'run.ended', message: '1.md', status: 'cancelled', reason: 'asked', text: '', spent: SPENT },
  { type: 'plan.ended', plan: 'plan_1', status: 'cancelled', reason: 'asked' },
];
const UNDO: EventBody = { type: 'step.reopened', step: 'step_1', by: 'person' };
const skipped = { changes: [{ what: 'status', step: 'step_1', from: 'blocked', to: 'skipped' }] as const, ignored: [] };

/** What happened, and what every face says of it: the state, the steps, the summary, the line of `chat`. */
const STATES: Record<string, [EventBody[], standing: SessionStanding, steps: string, ...summary: RegExp[]]> = {
  cancelled: [CANCELLED, 'cancelled', '0/1', /^Last run: cancelled \(asked\)\.$/m, /^1\. ⊘/m],
  'cancelled-reopened': [[...CANCELLED, UNDO], 'paused', '0/1', /^Plan: paused \(reopened\)\.$/m, /^1\. ‖/m],
  undone: [
    [...FIRST, ...ended('1.md', 'plan_1'), UNDO],
    ...(['paused', '0/1', /^Last run: done \(completed\)\.\nPlan: paused \(reopened\)\.$/m, /^1\. ‖/m] as const),
  ],
  'closed-by-hand': [
    [
      ...FIRST,
      { type: 'step.blocked', step: 'step_1', by: 'model', error: 'exit 1' },
      { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'blocked', text: 'It failed.', spent: SPENT },
      { type: 'plan.edited', by: 'person', ...skipped, changes: [...skipped.changes] },
    ],
    ...(['cancelled', '0/1', /^Nothing is running\.\nPlan: cancelled \(closed by hand\)\.$/m] as const),
  ],
  blocked: [
    [
      ...FIRST,
      { type: 'step.added', by: 'model', step: { id: 'step_2', description: 'Last', status: 'pending' } },
      { type: 'step.blocked', step: 'step_1', by: 'model', error: 'exit 1' },
      { type: 'run.ended', message: '1.md', status: 'waiting', reason: 'blocked', text: 'It failed.', spent: SPENT },
    ],
    ...(['waiting', '0/2', /^Last run: waiting \(blocked\)\.$/m] as const),
  ],
  'step-skipped': [
    [...FIRST, { type: 'step.skipped', step: 'step_1', reason: 'asked', by: 'person' }],
    ...(['running', '0/1', /^Progress: 0\/1 steps done$/m] as const),
  ],
  'no-steps': [
    [
      ...FIRST.slice(0, 4),
      { type: 'run.ended', message: '1.md', status: 'done', reason: 'answered', text: 'Hi.', spent: SPENT },
      { type: 'plan.ended', plan: 'plan_1', status: 'completed', reason: 'answered' },
    ],
    ...(['completed', '-', /^Progress: no steps$/m] as const),
  ],
};

test('list, status, show, watch, top and chat say the same of a session; no steps are a dash, a skipped one is not done', async () => {
  const at = rig();
  const words = liveWording({});
  const now = { now: Date.now(), tool: '', isAsked: false, words };
  for (const [name, [events]] of Object.entries(STATES)) {
    const { session } = await at.client.send(name, { text: 'x' });
    await record(at.session(session), events);
  }
  for (const [key, [, standing, steps, ...summary]] of Object.entries(STATES)) {
    const { name, ...shown } = await at.client.show(key);
    for await (const one of at.client.list())
      if (one.name === name) {
        expect(one.standing, key).toBe(standing);
        expect(formatSessions([one], { isServed: true, all: true }), key).toMatch(
          new RegExp(`${standing}${standing === 'waiting' ? ' \\(blocked\\)' : ''} \\+1 +${steps} `),
        );
      }
    expect(shown.standing, key).toBe(standing);
    for (const line of summary) expect(shown.summary, key).toMatch(line);
    const { state, count, doing } = topRow(served({ name, ...shown }), words);
    expect([state, count], key).toEqual([standing, steps]);
    if (standing === 'paused') expect(doing, key).toMatch(/(^| · )reopened · /);
    // The run waits for the step that is blocked, not for the one behind it.
    if (standing === 'waiting') expect(doing, key).toMatch(/(^| · )blocked · First of Count$/);
    const inChat = { completed: 'idle', running: '1/1', waiting: '1/2 · First of Count · waiting for you' };
    expect(formatChatStatus(shown.session, now), key).toContain(getOwn(inChat, standing) ?? standing);
    expect(formatStatusLine(shown.session), key).toMatch(
      standing === 'running' ? `${'░'.repeat(20)} ${steps} · ` : /^$/,
    );
  }
  const { out } = await runHere(['status', '--workspace', at.root]);
  expect(out).toContain(
    'Sessions:  7 (1 running, 1 waiting, 2 paused, 2 cancelled)\nSettings:  no agentd.json; using the defaults\n',
  );
});

/** As if a daemon were running. */
const served = (shown: SessionDetails): SessionDetails => ({ ...shown, waits: ownWait(shown.session) });

const CALL = { session: 'demo~1', id: 2, tool: 'shell', display: 'ls', why: 'it runs', always: null };

function details(more: Partial<Omit<SessionDetails, 'session'>> & { session?: Partial<Session> }): SessionDetails {
  const session = { ...emptySession('demo'), ...more.session };
  const rest = {
    ...{ title: null, givenTitle: null, summary: '', planProblem: null, settingsProblem: null, workspaceProblem: null },
    ...{
      logCuts: [],
      unserved: null,
      folderProblems: [],
      inbox: 0,
      waiting: [],
      ignored: [],
      asked: null,
      waits: null,
    },
    ...{ rejected: { total: 0, newest: [] }, isBrowserOpen: false },
  };
  return { name: 'demo', standing: 'none', ...rest, children: [], ...more, session };
}

const AROUND: Surroundings = {
  ...{ isServed: true, unserved: null, disk: null, settings: null, workspaceSettings: null, inbox: 0, calls: [] },
};

const waits = (session: Partial<Session>, around: Partial<Surroundings> = {}) =>
  waitingFor({ ...emptySession('demo'), ...session }, { ...AROUND, ...around });

const next = (session: Partial<Session>, around: Partial<Surroundings> = {}) => {
  const { run, runEnd, ...rest } = { ...emptySession('demo'), ...session };
  const shown = details({ session: { ...rest, run, runEnd }, inbox: around.inbox ?? 0, waits: waits(session, around) });
  return nextCommands(shown).map((words) => words.join(' '));
};

test('what a session waits for is said with the words and the command that answer it, in all of its states', () => {
  const endedAs = (status: RunEndStatus, reason: string, text = ''): Partial<Session> => ({
    runEnd: { ...({} as NonNullable<Session['runEnd']>), status, reason, text },
  });
  const fault = { workspaceSettings: 'agentd.json is not JSON' };
  const failing = (kind: 'unreachable' | 'overloaded' | 'budget'): Partial<Session> => {
    const last = { kind, error: 'no answer', attempt: 5, at: '2026-01-01T00:00:00Z', retry_at: '2026-01-01T01:00:00Z' };
    return { run: { failure: { last } } as unknown as Session['run'] };
  };
  expect(next({}, { settings: 'line 1' })).toEqual(['config validate --session demo']);
  expect(next({}, { calls: [CALL] })).toEqual(['approve demo~1 2', 'deny demo~1 2']);
  expect(next({}, { inbox: 1, isServed: false })).toEqual(['start']);
  expect(next({}, { inbox: 1, isServed: false, ...fault })).toEqual(['config validate']);
  expect(next({}, { inbox: 1 })).toEqual(['watch demo']);
  expect(next(endedAs('waiting', 'settings'), fault)).toEqual(['config validate']);
  expect(next({}, { unserved: 'inbox: permission denied', inbox: 1 })).toEqual(['status']);
  const disk = { space: 'low', why: '39 MB free, at least 64 MB required' } as const;
  const lowDisk = { what: 'disk', needs: 'repair', why: expect.stringMatching(/39 MB free/) };
  expect(waits({}, { inbox: 1, disk })).toMatchObject(lowDisk);
  expect(waits({}, { disk })).toBeNull();
  const away = { what: 'model', needs: 'time', why: expect.stringMatching(/does not answer, attempt 5/) };
  expect(waits(failing('unreachable'))).toMatchObject(away);
  expect(next(failing('unreachable'))[0]).toBe('doctor --ask');
  expect(next(failing('budget'))).toEqual(['usage']);

  expect(waits(endedAs('paused', 'limit', 'Paused: limit reached.\n\nGoal: x'))).toEqual({
    ...{ what: 'limit', needs: 'person', why: 'Paused: limit reached.', until: null },
    ...{ say: ['continue'], commands: [['continue', 'demo']] },
  });
  // In words, not in the markers of a model.
  for (const [text, why] of [
    ['[Failed] no key', 'Failed: no key'],
    ['**[Blocked: send me the bill]**', 'Blocked: send me the bill'],
    ['【受阻】\n没有密钥', '受阻: 没有密钥'],
    ['[the docs](http://x) say no', '[the docs](http://x) say no'],
  ] as const)
    expect(waits(endedAs('failed', 'rejected', text))).toMatchObject({ why });
  expect(next(endedAs('paused', 'outage'))).toEqual([...next(failing('unreachable')), 'continue demo']);
  const question = { text: 'Where?', choices: ['Paris', 'Rome'], call: '1.0' };
  expect(waits({ ...endedAs('waiting', 'question'), question })).toMatchObject({
    why: 'Where?',
    say: ['Paris', 'Rome'],
  });
  expect(next({ ...endedAs('waiting', 'question'), question })).toEqual(['send demo Paris']);
  expect(next(endedAs('waiting', 'check'))).toEqual(['send demo your answer']);
  expect(next(endedAs('waiting', 'blocked'))).toEqual(['continue demo your hint', 'plan demo edit']);
  expect(next(endedAs('waiting', 'needs'))).toEqual(['plan demo edit', 'continue demo']);
  // The remedy comes before the next try.
  expect(next(endedAs('failed', 'unconfigured'))).toEqual([
    expect.stringContaining('restart --base-url'),
    'continue demo',
  ]);
  expect(next(endedAs('failed', 'rejected'))).toEqual(['doctor --ask', 'restart', 'continue demo']);
  expect(next(endedAs('failed', 'not reached: a'))).toEqual(['continue demo']);

  expect(next(endedAs('cancelled', 'x'))).toEqual(['send demo your next task']);
  expect(next(endedAs('done', 'completed'))).toEqual(['send demo your next task', 'reply demo']);
  expect(next({})).toEqual(['send demo your next task']);
});

test('a session that is not served says why in top, and comes first there', () => {
  const [words, why] = [liveWording({}), 'inbox: permission denied'];
  const row = topRow(details({ unserved: why, waits: waits({}, { unserved: why }) }), words);
  expect(row).toMatchObject({ doing: 'inbox: permission denied', needsYou: true });
});

test('a plan.json that cannot be read is named in top at every width while the run is not over, also that of a child session', async () => {
  const words = liveWording({});
  const at = rig();
  for (const name of ['busy', 'over', 'edited']) {
    const { session } = await at.client.send(name, { text: 'x' });
    await record(at.session(session), name === 'over' ? [...FIRST, ...ended('1.md', 'plan_1')] : FIRST);
  }
  const ignored = { changes: [], ignored: ['status: only the daemon changes it'] };
  await record(at.session('edited'), [{ type: 'plan.edited', by: 'person', ...ignored }]);
  for (const name of ['busy', 'over']) fs.writeFileSync(at.session(name).plan, '{ "steps": [');
  const rows = await Promise.all(
    at.client.sessions().map(async (name) => topRow(served(await at.client.show(name)), words)),
  );
  const fault = expect.stringMatching(/^plan\.json does not parse: line 1, column 13.* · \+1 in the inbox$/);
  expect(rows.map(({ name, doing, needsYou }) => [name, doing, needsYou])).toEqual([
    ['busy', fault, true],
    ['edited', '+1 in the inbox · First of Count', false],
    ['over', '+1 in the inbox', false],
  ]);
  for (const columns of [40, 80, 200]) {
    const view = { selected: -1, height: undefined, note: '', keys: '', now: Date.now() };
    const frame = topFrame({ rows, columns, words, ...view }).map(({ text }) => text);
    expect(frame[2], `${columns}`).toMatch(
      columns === 40 ? /^! busy +running +0\/1 +plan\.json/ : /plan\.json does not parse: line 1/,
    );
    for (const line of frame) expect(line.length).toBeLessThan(columns);
  }
  const child = details({ name: 'demo~1', standing: 'paused', planProblem: 'plan.json does not parse: line 2' });
  const parent = details({
    standing: 'running',
    children: [{ step: '1', child: 'demo~1', standing: 'paused', shown: child }],
  });
  expect(topRow(parent, words)).toMatchObject({ doing: 'demo~1: plan.json does not parse: line 2', needsYou: true });
});

test('a command to copy names the workspace that was given, and quotes what a shell would read otherwise', () => {
  expect(formatCommand(['continue', 'My report'], { workspace: undefined })).toBe("agentctl continue 'My report'");
  expect(formatCommand(['show', "it's"], { workspace: '/a b' })).toBe("agentctl show --workspace '/a b' 'it'\\''s'");
});
