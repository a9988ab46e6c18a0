import { UserError } from '../../../base/user-error.ts';
import type { Client, FieldChange, PlanDiff, PlanHistoryEntry } from '../../../client/index.ts';
import { EXIT_CODES } from '../common/exit-codes.ts';
import {
  colorize,
  formatLocalTime,
  formatTable,
  print,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';
import { loadEvents } from './session-history.ts';

const MAX_CELL_CHARS = 200;

type PrintOptions = { json?: boolean | undefined };

/** Prints the history of the plan, change by change. */
export async function printHistory(client: Client, session: string, { json }: PrintOptions): Promise<void> {
  const history = await loadPlanHistory(client, session);
  if (json) printJson(history ? { plan: history.plan.id, changes: history.entries } : null);
  else if (history) print(formatEntries(history.entries));
  else printNote('There is no plan.');
}

/** Prints what differs between two revisions, and what happened in between. */
export async function printDiff(
  client: Client,
  session: string,
  words: readonly string[],
  { json }: PrintOptions,
): Promise<void> {
  const { diffPlanRevisions } = await import('../../../client/inspect/plan-history.ts');
  if (words.length > 2 || words.some((word) => !/^\d{1,9}$/.test(word)))
    throw new UserError(
      'diff takes revision numbers.\nUsage: agentctl plan <session> diff [from] [to]',
      EXIT_CODES.usage.code,
    );
  const [from, to] = words.map(Number);
  const history = await loadPlanHistory(client, session);
  const diff = history && diffPlanRevisions(history, from, to);
  if (json) printJson(diff ?? null);
  else if (diff) print(formatDiff(diff));
  else printNote('There is no plan.');
}

async function loadPlanHistory(client: Client, session: string) {
  const { buildPlanHistory } = await import('../../../client/inspect/plan-history.ts');
  const { name, events } = await loadEvents(client, session);
  return buildPlanHistory(name, events);
}

function formatEntries(entries: readonly PlanHistoryEntry[]): string {
  return formatTable(
    entries.map(({ event, at, by, from, to, what }) => [
      String(event).padStart(5),
      formatLocalTime(at),
      by,
      from === to ? '' : `revision ${to}`,
      toSingleLine(what.join('; '), MAX_CELL_CHARS),
    ]),
  );
}

function formatDiff({ plan, from, to, changes, entries }: PlanDiff): string {
  return [
    colorize('bold', stripControls(`${plan}, revision ${from} → ${to}`)),
    ...(changes.length > 0 ? changes.map(formatFieldChange) : ['  Only counters differ.']),
    ...(entries.length > 0 ? ['', 'What happened in between:', formatEntries(entries)] : []),
  ].join('\n');
}

function formatFieldChange({ step, description, field, from, to }: FieldChange): string {
  const name = step === null ? 'plan' : `${step} "${toSingleLine(description ?? '', 60)}"`;
  if (field === 'step') return `  ${name} was ${from === null ? 'added' : 'removed'}`;
  return `  ${name}: ${field} ${formatValue(from)} → ${formatValue(to)}`;
}

function formatValue(it: unknown): string {
  if (it === null) return '–';
  return typeof it === 'string' && /^[\w:.-]+$/.test(it) ? it : toSingleLine(JSON.stringify(it), MAX_CELL_CHARS);
}
