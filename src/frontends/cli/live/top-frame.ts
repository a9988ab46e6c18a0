import { legible } from '../../../base/strings.ts';
import type { SessionDetails } from '../../../client/index.ts';
import { sessionStanding } from '../../../client/inspect/session-details.ts';
import { ownWait, type SessionWait } from '../../../client/inspect/session-overview.ts';
import { type SessionStanding, tokenMark } from '../../../protocol/session/reply.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import type { ShownSession } from '../common/conversation-lines.ts';
import { cellWidth, fitToWidth, formatDuration, padToWidth, toSingleLine } from '../common/terminal.ts';
import type { LiveWording } from './live-wording.ts';

/** A session in the list. */
export type TopRow = {
  name: string;
  state: SessionStanding;
  /** How many steps are completed, such as "2/5"; "-" without steps. */
  count: string;
  /** What it does, or what it waits for. */
  doing: string;
  /** What the run has spent, of its limits. */
  spent: string;
  /** Somebody has to answer or repair something. */
  needsYou: boolean;
  /** ISO 8601, UTC; '' if nothing has happened yet. */
  changed: string;
};

/** Summarises a session, its child sessions' waiting calls included. */
export function topRow(details: SessionDetails, words: LiveWording): TopRow {
  const { name, standing, session, inbox, title, waits } = details;
  const { plan } = session;
  const open = plan && plan.steps.length > 0 ? plan : null;
  const completed = open?.steps.filter((one) => one.status === 'completed').length;
  const at = open ? shownStep(open) : 0;
  const step = open?.steps[at];
  const told = waits && isToldInFull(waits, standing) ? waits.why : planFault(details);
  const isOver = standing === 'completed' || standing === 'cancelled';
  const parts = [
    ...(told === null ? [] : [told]),
    ...(inbox > 0 ? [words.inbox(inbox)] : []),
    ...(told === null && waits ? [waits.what] : []),
    ...(told === null && open && !isOver ? [step?.description ?? ''] : []),
  ];
  return {
    name,
    state: standing,
    count: open ? `${completed}/${open.steps.length}` : '-',
    doing: toSingleLine(legible((parts.length > 0 ? parts : [title ?? '']).join(' · ')), 300),
    spent: formatSpent(session),
    needsYou: (told !== null && waits?.needs !== 'time') || standing === 'waiting',
    changed: session.at,
  };
}

/** A session whose event log cannot be read. */
export const unreadableRow = (name: string, why: string): TopRow => ({
  ...{ name, state: 'unreadable', count: '-', doing: toSingleLine(why, 300), spent: '', needsYou: true, changed: '' },
});

/** A wait whose reason is shown in full; of any other the name and the step are shown. */
const isToldInFull = ({ what, needs }: SessionWait, standing: SessionDetails['standing']): boolean =>
  needs === 'time' || (needs === 'repair' && standing !== 'failed') || what === 'approval' || what === 'question';

/** Why the `plan.json` of a run that is not over cannot be read, here or in a child session, which is named. */
function planFault({ standing, planProblem, session, children }: SessionDetails, label = ''): string | null {
  const isOpen = standing === 'running' || standing === 'waiting' || standing === 'paused';
  // The next reply says what of an edit was not accepted.
  if (isOpen && planProblem !== null && planProblem !== session.planProblem) return `${label}${planProblem}`;
  for (const { child, shown } of children) {
    const found = shown && planFault(shown, `${readableName(child)}: `);
    if (found) return found;
  }
  return null;
}

/** Tokens and cost of the run, against their limits; model calls where neither has one. */
function formatSpent({ run, runEnd }: SessionDetails['session']): string {
  const spent = run?.spent ?? runEnd?.spent;
  if (!spent) return '';
  const of = (limit: number | null | undefined, format: (amount: number) => string) =>
    limit === null || limit === undefined ? '' : `/${format(limit)}`;
  const tokens = `${tokenMark(spent)}${formatCount(spent.tokens)}${of(run?.limits.tokens, formatCount)} tok`;
  const money = (amount: number) => amount.toFixed(amount > 0 && amount < 1 ? 4 : 2);
  const cost = spent.cost === null ? null : `${money(spent.cost)}${of(run?.limits.cost, money)}`;
  return `${tokens} · ${cost ?? `${spent.iterations}${of(run?.limits.iterations, String)} calls`}`;
}

function formatCount(amount: number): string {
  if (amount < 1000) return String(amount);
  return amount < 999_500 ? `${(amount / 1000).toFixed(amount < 9950 ? 1 : 0)}k` : `${(amount / 1e6).toFixed(1)}M`;
}

const RANKS: Record<TopRow['state'], number> = {
  ...{ unreadable: 1, waiting: 1, running: 2, paused: 3, failed: 4, none: 5, completed: 5, cancelled: 5 },
};

/** What needs a person first, then what runs, is paused or failed; within these the latest change first. */
export function compareTopRows(one: TopRow, other: TopRow): number {
  const rank = (row: TopRow) => (row.needsYou ? 0 : RANKS[row.state]);
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  return one.changed === other.changed ? (one.name < other.name ? -1 : 1) : one.changed < other.changed ? 1 : -1;
}

/** So many of the sessions in which nothing is left to do are listed, the newest, until a person asks for all. */
const ENDED_SHOWN = 5;

/** The sorted rows without most of those that have ended. */
export function foldEnded(rows: readonly TopRow[]): readonly TopRow[] {
  const ended = rows.filter((row) => !row.needsYou && RANKS[row.state] === RANKS.completed).length;
  return ended > ENDED_SHOWN + 1 ? rows.slice(0, ENDED_SHOWN - ended) : rows;
}

/** A line of a frame. `isSelected` and `isHead`: how it is shown. */
export type TopLine = { text: string; isSelected: boolean; isHead: boolean };

type TopView = {
  rows: readonly TopRow[];
  /** How many more there are, which have ended. */
  folded?: number;
  selected: number;
  columns: number;
  /** Lines there are room for; undefined: as many as it takes. */
  height: number | undefined;
  /** Below the list; '' for none. */
  note: string;
  /** The last line. */
  keys: string;
  /** In ms since 1970. */
  now: number;
  words: LiveWording;
};

/** The frame, each line in at most `columns - 1` cells. With a height it has exactly so many lines. */
export function topFrame({ rows, folded = 0, selected, columns, height, note, keys, now, words }: TopView): TopLine[] {
  const width = Math.max(20, columns - 1);
  const waiting = rows.filter((row) => row.needsYou).length;
  const line = (text: string, how: Partial<TopLine> = {}): TopLine => ({
    text: fitToWidth(text, width).trimEnd(),
    isSelected: false,
    isHead: false,
    ...how,
  });
  const shown = rows.map((row) => ({ ...row, age: ageOf(row, now) }));
  const widths = columnWidths(shown, width, words);
  const head = { ...words.columns, name: words.columns.session, count: words.columns.step, doing: '' };
  const listHeight = height === undefined ? rows.length : Math.max(1, height - 4 - Math.sign(folded));
  const first = Math.max(0, Math.min(selected - listHeight + 1, rows.length - listHeight));
  const lines = [
    line(words.topHead(rows.length + folded, waiting), { isHead: true }),
    line(formatColumns(head, widths), { isHead: true }),
    ...(rows.length === 0 ? [line(words.empty)] : []),
    ...shown.slice(first, first + listHeight).map((row, place) => {
      const isSelected = height !== undefined && first + place === selected;
      const state = words.states[row.state];
      return line(formatColumns({ ...row, state }, widths, isSelected ? '❯' : row.needsYou ? '!' : ' '), {
        isSelected,
      });
    }),
    ...(folded > 0 ? [line(words.folded(folded))] : []),
  ];
  if (height === undefined) return lines;
  const blank = Array.from({ length: Math.max(0, height - 2 - lines.length) }, () => line(''));
  const about = rows[selected];
  return [
    ...lines,
    ...blank,
    line(note || (about ? `${readableName(about.name)}: ${about.doing}` : '')),
    line(keys),
  ].slice(0, height);
}

/** A session with how long ago it changed. */
type AgedRow = TopRow & { age: string };

const ageOf = ({ changed }: TopRow, now: number): string =>
  changed === ''
    ? ''
    : formatDuration(now - Date.parse(changed))
        .split(' ', 2)
        .join(' ');

type Widths = { name: number; state: number; count: number; age: number; spent: number };

/** Columns as wide as they need; a narrow terminal has no column of what was spent. */
function columnWidths(rows: readonly AgedRow[], width: number, words: LiveWording): Widths {
  const widest = (least: string, of: (row: AgedRow) => string, most: number) =>
    Math.min(most, Math.max(cellWidth(least), ...rows.map((row) => cellWidth(of(row)))));
  const { session, state, step, age, spent } = words.columns;
  return {
    name: widest(session, (row) => readableName(row.name), Math.floor(width / 4)),
    state: widest(state, (row) => words.states[row.state], 10),
    count: widest(step, (row) => row.count, 7),
    age: width < 60 ? 0 : widest(age, (row) => row.age, 12),
    spent: width < 85 ? 0 : widest(spent, (row) => row.spent, 24),
  };
}

function formatColumns(
  { name, state, count, age, doing, spent }: Record<'name' | 'state' | 'count' | 'age' | 'doing' | 'spent', string>,
  widths: Widths,
  mark = ' ',
): string {
  const cells = [
    padToWidth(toSingleLine(readableName(name), 200), widths.name),
    padToWidth(state, widths.state),
    padToWidth(count, widths.count),
    ...(widths.age > 0 ? [padToWidth(age, widths.age)] : []),
    ...(widths.spent > 0 ? [padToWidth(spent, widths.spent)] : []),
    doing,
  ];
  return `${mark} ${cells.join('  ')}`;
}

type ShownPlan = NonNullable<ShownSession['plan']>;

/** The place of the step that a plan is at: the current one, or the one that is blocked if the run waits for that. */
function shownStep({ status, reason, steps, current_step_index: current }: ShownPlan): number {
  const blocked =
    status === 'waiting' && reason === 'blocked' ? steps.findIndex((one) => one.status === 'blocked') : -1;
  return blocked < 0 ? current : blocked;
}

/** The plan folded into one line, such as "2/5 · Download the report · 4 s · shell". `now` in ms since 1970. */
export function formatChatStatus(
  session: ShownSession,
  { words, now, tool, isAsked }: { words: LiveWording; now: number; tool: string; isAsked: boolean },
): string {
  const { plan, run } = session;
  const wait = ownWait(session);
  const open = plan && plan.steps.length > 0 && !run?.besidePlan && (run || plan.status !== 'completed') ? plan : null;
  const at = open ? shownStep(open) : 0;
  const step = open?.steps[at];
  const parts = open ? [`${at + 1}/${open.steps.length}`, toSingleLine(step?.description ?? '', 60)] : [];
  if (isAsked) return [...parts, words.answerCall].join(' · ');
  if (session.question && wait?.what === 'question') return [...parts, words.answerQuestion].join(' · ');
  if (!run) {
    const state = sessionStanding(session);
    if (state === 'none' || state === 'completed') return words.idle;
    const say = (wait?.say ?? []).filter((one) => one !== '…').map((one) => `"${one}"`);
    return [...parts, state === 'waiting' ? words.yourTurn : words.states[state], ...say].join(' · ');
  }
  if (wait) return [...parts, toSingleLine(wait.why, 100)].join(' · ');
  const since = Date.parse(step?.started_at ?? run.startedAt);
  const progress = step?.progress ? [`${step.progress.current}/${step.progress.total}`] : [];
  const time = Number.isNaN(since) ? [] : [formatDuration(now - since)];
  return [...(parts.length > 0 ? parts : [words.working]), ...progress, ...time, ...(tool === '' ? [] : [tool])].join(
    ' · ',
  );
}
