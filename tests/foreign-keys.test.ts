import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from 'vitest';
import { decide } from '../src/core/decide/decide.ts';
import { reduceEvent } from '../src/core/reducers/reduce-event.ts';
import { emptySession, type Session } from '../src/core/session/session-state.ts';
import type { EventBody } from '../src/protocol/session/event.ts';
import type { Step } from '../src/protocol/session/plan.ts';
import { resolveRules } from '../src/protocol/settings/effective-settings.ts';
import type { Mode } from '../src/protocol/settings/run-options.ts';
import { MODES } from '../src/protocol/settings/run-options.ts';

const SRC = fileURLToPath(new URL('../src/', import.meta.url));
/** What is declared as a record by name: a field, a parameter or a constant. */
const DECLARED = /\b([A-Za-z_]+)\??: (?:Readonly<)?(?:Record<string,|Partial<Record<string,)/g;

/** Indexed by keys of our own, of the environment or of the protocol's making; what they hold is no matter of a foreign name. */
const ALLOWED: Record<string, string> = {
  env: 'names of variables; the environment has no prototype of ours to find',
  counts: 'standings of sessions, a closed list',
  ERRNO_ADVICE: 'codes of errors of the kernel',
  FILE_ERROR_TEXTS: 'codes of errors of the kernel',
  NETWORK_ERROR_TEXTS: 'codes of errors of the kernel',
  line: 'words of a command line that are in a closed list',
  values: 'base/collections.ts itself, behind Object.hasOwn',
  ORDERS: 'behind Object.hasOwn',
  words: 'lists of words, and wordings by a field of ours',
  all: 'the steps of a plan, by place',
  args: 'lists by place',
  raw: 'lists by place',
  server: 'settings of a server, by three names of ours',
};

const files = readdirSync(SRC, { recursive: true, encoding: 'utf8' }).filter((name) => name.endsWith('.ts'));
const texts = files.map((name) => ({ name, text: readFileSync(join(SRC, name), 'utf8') }));

test('no plain object is indexed by a key that others chose', () => {
  const names = new Set(texts.flatMap(({ text }) => [...text.matchAll(DECLARED)].map(([, name = '']) => name)));
  for (const name of ['children', 'agents', 'shelvedPlans', 'unpublishedReplies', 'denials', 'toolFailures'])
    expect(names).toContain(name);
  const indexed = new RegExp(`(?<![\\w'])(${[...names].join('|')})\\[(?!['"\\d\\]])`, 'g');
  const found = texts.flatMap(({ name, text }) =>
    text.split('\n').flatMap((line, at) => {
      const hits = [...line.matchAll(indexed)].filter(([, hit = '']) => !Object.hasOwn(ALLOWED, hit));
      return hits.map(
        ([, hit]) => `${name}:${at + 1} ${hit}[…]; use getOwn() of base/collections.ts, a Map or a PersistentMap`,
      );
    }),
  );
  expect(found).toEqual([]);
});

const AT = '2026-01-05T08:00:00.000Z';
const PLAIN = ['a1', 'b2', 'c3', 'd4', 'e5'] as const;
const HOSTILE = ['constructor', '__proto__', 'toString', 'hasOwnProperty', 'valueOf'] as const;

type Ids = readonly [string, string, string, string, string];

/** Needs, a condition, a rollback, a part and a check. */
const steps = ([a, b, c, d, e]: Ids): Step[] => [
  { id: a, description: 'Find the files', status: 'pending', rollback: d },
  { id: b, description: 'Count them', status: 'pending', needs: [a], done_when: [{ person: 'Is it right?' }] },
  { id: c, description: 'Write it', status: 'pending', when: [{ step: b, status: 'completed' }], parent: e },
  { id: d, description: 'Undo it', status: 'pending' },
  { id: e, description: 'Report', status: 'pending' },
];

function story(mode: Mode, ids: Ids): string {
  const rules = resolveRules();
  const reported: string[] = [];
  let session: Session = emptySession('demo');
  const play = (bodies: readonly EventBody[]) => {
    for (const body of bodies)
      session = reduceEvent(session, { v: 2, seq: session.seq + 1, epoch: 1, at: AT, ...body });
    reported.push(JSON.stringify(bodies));
  };
  const file = { ino: '1', mtime_ns: '1', ctime_ns: '1', sha256: '1' };
  play([
    { type: 'session.opened', format: 1, key: 'demo' },
    { type: 'message.received', id: 'm', name: 'm.md', body: { text: 'go' }, file },
    { type: 'run.started', message: 'm', limits: rules.limits, mode },
    { type: 'plan.started', id: 'plan_1', goal: 'go', mode, limits: rules.limits, steps: steps(ids) },
  ]);
  for (let n = 0; n < 12; n++) {
    const next = decide(session, rules);
    if (next.do === 'record') play(next.events);
    else if (next.do === 'think')
      play([
        {
          type: 'model.answered',
          text: 'All of it is there. [Done]',
          calls: [],
          model: 'm',
          ms: 1,
          usage: { tokens: 1, cost: null },
          delivered: ['m'],
          seen: session.seq,
        },
      ]);
    else {
      reported.push(JSON.stringify(next));
      break;
    }
  }
  return ids.reduce((text, id, n) => text.replaceAll(id, PLAIN[n] ?? ''), reported.join('\n'));
}

test.each(MODES)('steps named like what every object has come to the same as any others (%s)', (mode) => {
  expect(story(mode, HOSTILE)).toBe(story(mode, PLAIN));
});
