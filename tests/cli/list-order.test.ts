import { expect, test } from 'vitest';
import type { SessionDetails, SessionOverview } from '../../src/client/index.ts';
import { emptySession, type Session } from '../../src/core/session/session-state.ts';
import { formatSessions, sortByUrgency } from '../../src/frontends/cli/commands/list.ts';
import { formatCommand, nextCommands } from '../../src/frontends/cli/common/next-command.ts';

/** A session that changed at this minute. */
function overview(name: string, minute: number, more: Partial<SessionOverview> = {}): SessionOverview {
  const changed = `2026-01-01T00:${String(minute).padStart(2, '0')}:00.000Z`;
  const parent = name.includes('~') ? name.slice(0, name.lastIndexOf('~')) : null;
  const rest = { title: null, plan: null, asks: null, inbox: 0, problem: null, settings: null };
  return { name, parent, standing: 'completed', changed, ...rest, ...more };
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

const CALL = { session: 'demo~1', id: 2, tool: 'shell', display: 'ls', why: 'it runs', always: null };
const ASKED = { ...CALL, expires_at: '2026-01-01T00:00:00.000Z', hash: 'abc', problem: null };

function details(more: Partial<Omit<SessionDetails, 'session'>> & { session?: Partial<Session> }): SessionDetails {
  const session = { ...emptySession('demo'), ...more.session };
  const rest = {
    title: null,
    summary: '',
    planProblem: null,
    settingsProblem: null,
    inbox: 0,
    isBrowserOpen: false,
    asked: null,
  };
  return { name: 'demo', standing: 'none', ...rest, children: [], ...more, session };
}

const next = (more: Parameters<typeof details>[0], isServed = true) =>
  nextCommands(details(more), isServed).map((words) => words.join(' '));

test('the next command answers what waits, else starts, watches or resumes, else sends', () => {
  const ended = (status: 'done' | 'waiting' | 'failed' | 'cancelled', reason: string): Partial<Session> => ({
    runEnd: { ...({} as NonNullable<Session['runEnd']>), status, reason },
  });
  const child = { step: '1', child: 'demo~1', standing: 'waiting' as const, shown: details({ asked: ASKED }) };
  expect(next({ settingsProblem: 'line 1' })).toEqual(['config validate --session demo']);
  expect(next({ standing: 'running', children: [child] })).toEqual(['approve demo~1 2', 'deny demo~1 2']);
  expect(next({ inbox: 1 }, false)).toEqual(['start']);
  expect(next({ inbox: 1 })).toEqual(['watch demo']);
  expect(next({ standing: 'paused' })).toEqual(['continue demo']);
  const question = { text: 'Where?', choices: ['Paris', 'Rome'], call: '1.0' };
  expect(next({ standing: 'waiting', session: { question } })).toEqual(['send demo Paris']);
  expect(next({ standing: 'waiting', session: ended('waiting', 'check') })).toEqual(['send demo your answer']);
  expect(next({ standing: 'waiting', session: ended('waiting', 'blocked') })).toEqual([
    'continue demo your hint',
    'plan demo edit',
  ]);
  expect(next({ standing: 'failed', session: ended('failed', 'timeout') })).toEqual(['continue demo']);
  expect(next({ standing: 'failed', session: ended('cancelled', 'x') })).toEqual(['send demo your next task']);
  expect(next({ standing: 'completed', session: ended('done', 'completed') })).toEqual([
    'send demo your next task',
    'reply demo',
  ]);
  expect(next({ standing: 'none' })).toEqual(['send demo your next task']);
});

test('a command to copy names the workspace that was given, and quotes what a shell would read otherwise', () => {
  expect(formatCommand(['continue', 'My report'], { workspace: undefined })).toBe("agentctl continue 'My report'");
  expect(formatCommand(['show', "it's"], { workspace: '/a b' })).toBe("agentctl show --workspace '/a b' 'it'\\''s'");
});
