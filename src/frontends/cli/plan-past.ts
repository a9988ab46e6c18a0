import type { Client, Deed, FieldChange, PlanDiff } from '../../client/index.ts';
import { UserError } from '../../protocol/errors.ts';
import { EXITS } from './exit-codes.ts';
import { localTime, note, oneLine, paint, plain, say, sayJson, table } from './print.ts';
import { recordOf } from './record.ts';

const LONGEST = 200;

type Manner = { json?: boolean | undefined };

/** Prints what became of the plan, change by change. */
export async function printHistory(client: Client, session: string, { json }: Manner): Promise<void> {
  const history = await historyOf(client, session);
  if (json) sayJson(history ? { plan: history.plan.id, changes: history.deeds } : null);
  else if (history) say(deedTable(history.deeds));
  else note('There is no plan.');
}

/** Prints what differs between two revisions, and what happened in between. */
export async function printDiff(
  client: Client,
  session: string,
  words: readonly string[],
  { json }: Manner,
): Promise<void> {
  const { planDiff } = await import('../../client/plan-diff.ts');
  if (words.length > 2 || words.some((word) => !/^\d{1,9}$/.test(word)))
    throw new UserError(
      'diff wants revisions by their numbers.\nWanted: agentctl plan <session> diff [from] [to]',
      EXITS.usage.code,
    );
  const [from, to] = words.map(Number);
  const history = await historyOf(client, session);
  const diff = history && planDiff(history, from, to);
  if (json) sayJson(diff ?? null);
  else if (diff) say(diffInWords(diff));
  else note('There is no plan.');
}

async function historyOf(client: Client, session: string) {
  const { planHistory } = await import('../../client/plan-history.ts');
  const { name, events } = await recordOf(client, session);
  return planHistory(name, events);
}

function deedTable(deeds: readonly Deed[]): string {
  return table(
    deeds.map(({ event, at, by, from, to, what }) => [
      String(event).padStart(5),
      localTime(at),
      by,
      from === to ? '' : `revision ${to}`,
      oneLine(what.join('; '), LONGEST),
    ]),
  );
}

function diffInWords({ plan, from, to, changes, deeds }: PlanDiff): string {
  return [
    paint('bold', plain(`${plan}, revision ${from} → ${to}`)),
    ...(changes.length > 0 ? changes.map(changeInWords) : ['  Nothing but counters differs.']),
    ...(deeds.length > 0 ? ['', 'What happened in between:', deedTable(deeds)] : []),
  ].join('\n');
}

function changeInWords({ step, description, field, from, to }: FieldChange): string {
  const name = step === null ? 'plan' : `${step} "${oneLine(description ?? '', 60)}"`;
  if (field === 'step') return `  ${name} was ${from === null ? 'added' : 'removed'}`;
  return `  ${name}: ${field} ${value(from)} → ${value(to)}`;
}

function value(it: unknown): string {
  if (it === null) return '–';
  return typeof it === 'string' && /^[\w:.-]+$/.test(it) ? it : oneLine(JSON.stringify(it), LONGEST);
}
