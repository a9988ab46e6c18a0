import { spawn } from 'node:child_process';
import { formatLocalTime } from '../../../base/strings.ts';
import { UserError } from '../../../base/user-error.ts';
import type { Client, FieldChange, PlanDiff, PlanHistoryEntry, PlanWorkingCopy } from '../../../client/index.ts';
import { authorName } from '../../../client/inspect/describe-event.ts';
import { defineCommand, EXIT_CODES, openSession, SESSION_PREFIX_ARG } from '../common/command.ts';
import { addSendOptions, sendAndWait } from '../common/send-and-wait.ts';
import {
  askPerson,
  colorize,
  formatTable,
  print,
  printError,
  printJson,
  printNote,
  stripControls,
  toSingleLine,
} from '../common/terminal.ts';
import { loadEvents } from './session-history.ts';

/** Plan actions that are sent to the daemon as a message. */
const PLAN_ORDERS = ['done', 'skip', 'add', 'move', 'reword', 'undo'] as const;
type PlanOrder = (typeof PLAN_ORDERS)[number];

const ORDER_USAGE: Readonly<Record<PlanOrder, string>> = {
  done: 'done <step> [result..]',
  skip: 'skip <step> [reason..]',
  add: 'add <text..> [--after STEP]',
  move: 'move <step> <position>',
  reword: 'reword <step> <text..>',
  undo: 'undo',
};

/** Seconds to wait for the reply to an action by default, if a daemon runs. */
const REPLY_TIMEOUT_S = 10;
const LOCAL_ACTIONS = ['edit', 'history', 'diff'] as const;

const ACTIONS_HELP = `Actions:
${PLAN_ORDERS.map((order) => `  ${ORDER_USAGE[order]}`).join('\n')}
  edit                with $VISUAL or $EDITOR
  history             who changed what and when
  diff [from] [to]    between two revisions; by default, what the last change did`;

export const plan = defineCommand({
  usage: 'plan <session> [action] [args..]',
  describe: 'Print the plan from the event log, change it, or see how it changed',
  builder: (cli) =>
    addSendOptions(
      cli
        .positional('session', SESSION_PREFIX_ARG)
        .positional('action', {
          choices: [...PLAN_ORDERS, ...LOCAL_ACTIONS],
          describe: 'What to do; by default the plan is printed',
        })
        .positional('args', { type: 'string', array: true, describe: 'Arguments of the action' })
        .option('after', { type: 'string', requiresArg: true, describe: 'add: insert the new step after this one' }),
    )
      .option('wait', {
        type: 'boolean',
        describe: `Wait for the reply to a change without a time limit; by default ${REPLY_TIMEOUT_S} s if a daemon is running`,
      })
      .option('json', { type: 'boolean', describe: 'Print JSON; the plan exactly as in plan.json, byte for byte' })
      .epilogue(ACTIONS_HELP)
      .example('$0 plan demo done step_2 "All five are there"', '')
      .example('$0 plan demo add Draw the chart --after 2', ''),
  async run(args) {
    const { action, after } = args;
    const words = [...(args.args ?? []), ...args._.slice(1).map(String)];
    const { client, session } = await openSession(args);
    if (action === 'diff') await printDiff(client, session, words, args);
    else if (isOrder(action)) {
      const message = { command: 'plan', text: formatOrder(action, words, after) };
      const patience = args.wait || !client.daemon() ? {} : { wait: true, timeout: REPLY_TIMEOUT_S };
      return sendAndWait(client, session, message, { ...args, ...patience }, { mustExist: true });
    } else {
      if (words.length > 0 || after !== undefined)
        throw new UserError(
          `${action ?? 'plan'} takes no further arguments.\nSee: agentctl plan --help`,
          EXIT_CODES.usage.code,
        );
      if (action === 'history') await printHistory(client, session, args);
      else if (action === 'edit') await editPlanInEditor(client, session);
      else await printPlan(await client.show(session), args.json);
    }
    return 'ok';
  },
});

async function printPlan(
  { session, planProblem }: Awaited<ReturnType<Client['show']>>,
  json: boolean | undefined,
): Promise<void> {
  const { formatPlanSummary, formatPlanFile } = await import('../../../client/inspect/session-details.ts');
  if (json) print(session.plan ? formatPlanFile(session.plan).trimEnd() : 'null');
  else if (session.plan) print(stripControls(formatPlanSummary(session.plan, 'en', Number.POSITIVE_INFINITY)));
  else printNote('There is no plan.');
  if (planProblem !== null) printNote(stripControls(planProblem));
}

function isOrder(action: PlanOrder | (typeof LOCAL_ACTIONS)[number] | undefined): action is PlanOrder {
  return PLAN_ORDERS.some((order) => order === action);
}

/**
 * The text of the message that gives an order, such as `done step_2 All five are there`. Throws a usage error (exit 2)
 * where words are missing or too many; whether there is such a step the daemon says.
 */
export function formatOrder(order: PlanOrder, words: readonly string[], after: string | undefined): string {
  if (after !== undefined && order !== 'add') throw usageError('--after works only with add.', order);
  const [step = '', ...rest] = words;
  const text = rest.join(' ').trim();
  switch (order) {
    case 'add':
      return formatAddOrder(words.join(' ').trim(), after?.trim());
    case 'undo':
      if (words.length > 0) throw usageError(`undo takes no arguments; got ${JSON.stringify(step)}.`, order);
      return order;
    case 'done':
    case 'skip':
      return [order, requireStep(step, order), text].filter(Boolean).join(' ');
    case 'move':
      if (!/^[1-9]\d{0,8}$/.test(text)) throw usageError('move takes a step and a position of 1 or more.', order);
      return `move ${requireStep(step, order)} ${text}`;
    case 'reword':
      if (text === '') throw usageError('reword takes a step and its new text.', order);
      return `reword ${requireStep(step, order)} ${text}`;
    default:
      return order satisfies never;
  }
}

function formatAddOrder(text: string, after: string | undefined): string {
  if (text === '') throw usageError('add takes the text of the new step.', 'add');
  if (after === undefined) return `add ${text}`;
  if (after === '' || /[:：]/.test(after)) throw usageError('--after takes the id or number of a step.', 'add');
  return `add after ${after}: ${text}`;
}

/** The daemon reads the first word as the step, so a description of several words cannot name it here. */
function requireStep(step: string, order: PlanOrder): string {
  if (step.trim() === '') throw usageError(`${order} takes a step: its id or number.`, order);
  if (/\s/.test(step.trim()))
    throw usageError(`${order} takes the id or number of a step, not ${JSON.stringify(step)}.`, order);
  return step.trim();
}

function usageError(message: string, order: PlanOrder): UserError {
  return new UserError(`${message}\nUsage: agentctl plan <session> ${ORDER_USAGE[order]}`, EXIT_CODES.usage.code);
}

/**
 * Lets a person edit `plan.json` in the editor of their choice and saves it back. What cannot be read is never saved:
 * on a terminal they may edit it again, else the path of their text is printed.
 */
async function editPlanInEditor(client: Client, session: string): Promise<void> {
  const { openPlanWorkingCopy } = await import('../../../client/actions/plan-working-copy.ts');
  const edit = await openPlanWorkingCopy(client.folder(session), new Date());
  let keep = true;
  try {
    await editUntilValid(edit);
    const isSaved = await edit.save();
    keep = false;
    const taken = client.daemon() ? 'before its next action in this session' : 'once it runs (agentctl start)';
    print(isSaved ? `Saved. The daemon applies it ${taken}.` : 'No changes.');
  } finally {
    edit.close({ keep });
  }
}

async function editUntilValid(edit: PlanWorkingCopy): Promise<void> {
  const left = `plan.json is unchanged. Your text: ${edit.path}`;
  for (;;) {
    const end = await runEditor(edit.path);
    if (end !== 0) throw new UserError(`The editor exited with ${end}; ${left}`);
    const problem = edit.problem();
    if (problem === null) return;
    if (!process.stdin.isTTY || !(await askToEditAgain(problem))) throw new UserError(`Not saved: ${problem}\n${left}`);
  }
}

/** Runs the editor through a shell, because `EDITOR` may be a command with flags, such as `code --wait`. */
function runEditor(path: string): Promise<number | string> {
  const editor = process.env['VISUAL'] || process.env['EDITOR'] || 'vi';
  // Ctrl-C belongs to the editor while it has the terminal.
  const ignore = () => {};
  process.on('SIGINT', ignore);
  return new Promise<number | string>((resolve) => {
    const child = spawn('/bin/sh', ['-c', `${editor} "$@"`, 'sh', path], { stdio: 'inherit' });
    child.once('error', (error) => resolve(error.message));
    child.once('close', (code, signal) => resolve(code ?? signal ?? 'no exit code'));
  }).finally(() => process.off('SIGINT', ignore));
}

async function askToEditAgain(problem: string): Promise<boolean> {
  printError(problem);
  return !/^n/i.test(await askPerson('Edit it again? [Y/n] ', 'n'));
}

const MAX_CELL_CHARS = 200;

type PrintOptions = { json?: boolean | undefined };

/** Prints the history of the plan, change by change. */
async function printHistory(client: Client, session: string, { json }: PrintOptions): Promise<void> {
  const history = await loadPlanHistory(client, session);
  if (json) printJson(history ? { plan: history.plan.id, changes: history.entries } : null);
  else if (history) print(formatEntries(history.entries));
  else printNote('There is no plan.');
}

/** Prints what differs between two revisions, and what happened in between. */
async function printDiff(
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
    entries.map(({ event, at, by, author, from, to, what }) => [
      String(event).padStart(5),
      formatLocalTime(at),
      stripControls(authorName({ by, author })),
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
