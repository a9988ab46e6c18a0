import { formatLocalTime } from '../../../base/strings.ts';
import type { ApprovalRequest, ChildDetails, SessionDetails } from '../../../client/index.ts';
import type { Plan } from '../../../protocol/session/plan.ts';
import { readableName } from '../../../protocol/workspace/session-names.ts';
import {
  type CliServices,
  defineCommand,
  type ExitName,
  formatCommand,
  type GlobalOptions,
  type JobListing,
  JSON_OPTION,
  type JsonOptions,
  openSession,
  SESSION_PREFIX_ARG,
} from '../common/command.ts';
import { colorize, print, printJson, stripControls, toSingleLine } from '../common/terminal.ts';

export const show = defineCommand({
  usage: 'show <session>',
  describe: 'Show the plan, its progress, why the run stopped and what to do next',
  builder: (cli) => cli.positional('session', SESSION_PREFIX_ARG).option('json', JSON_OPTION),
  run: (args, parts) => showSession(args, parts.jobs),
});

export async function showSession(
  args: JsonOptions & { session: string },
  jobs: CliServices['jobs'],
): Promise<ExitName> {
  const { client, session } = await openSession(args);
  const shown = await client.show(session);
  const running = (await jobs(client.folder(session))).filter((job) => job.running);
  if (args.json) {
    const { detailsAsJson } = await import('../../../client/inspect/session-details.ts');
    printJson({ ...detailsAsJson(shown), jobs: running });
  } else {
    const { workspaceProblem: fault } = shown;
    const isServed = client.daemon() !== undefined;
    const lines = [
      await formatDetails(shown, isServed, args),
      ...formatRejected(shown.rejected, client.folder(session)),
      ...formatRunningJobs(running),
      ...(fault === null ? [] : ['', colorize('yellow', stripControls(fault))]),
      '',
      ...formatWait(shown),
      ...formatNext(nextCommands(shown), args),
    ];
    print(lines.join('\n'));
  }
  return 'ok';
}

async function formatDetails(shown: SessionDetails, isServed: boolean, place: GlobalOptions): Promise<string> {
  const { name, title, standing, session, planProblem, settingsProblem, logCuts, unserved, inbox, ignored } = shown;
  const hasFailed = standing === 'failed' && session.runEnd?.status === 'failed';
  const failure = hasFailed ? await withoutPlan(session.runEnd?.text ?? '', session.plan) : null;
  return [
    colorize('bold', stripControls([readableName(name), ...(title ? [title] : [])].join(': '))),
    ...(session.at ? [`Last change: ${formatLocalTime(session.at)}`] : []),
    '',
    stripControls(shown.summary),
    ...(await formatChangedFiles(session.stepCheckpoints)),
    ...(await formatChildren(shown.children, place)),
    ...(failure ? ['', 'Why it failed:', stripControls(failure)] : []),
    ...(shown.asked?.problem ? ['', colorize('yellow', stripControls(shown.asked.problem))] : []),
    ...(planProblem ? ['', colorize('yellow', stripControls(planProblem))] : []),
    ...(settingsProblem ? ['', colorize('yellow', stripControls(settingsProblem))] : []),
    ...(logCuts.length > 0 ? ['', `Cut off the end of the event log: ${stripControls(logCuts.join(', '))}`] : []),
    ...shown.folderProblems.flatMap((problem) => ['', colorize('yellow', stripControls(problem))]),
    ...(inbox > 0 ? ['', `Messages in the inbox: ${inbox}`] : []),
    ...(ignored.length > 0
      ? ['', 'Ignored in the inbox:', ...ignored.slice(0, MAX_IGNORED_SHOWN).map(formatIgnored)]
      : []),
    ...(unserved ? ['', colorize('yellow', `Not served: ${stripControls(unserved)}`)] : []),
    ...(isServed || (!session.run && inbox === 0) ? [] : ['', 'No daemon is running.']),
  ].join('\n');
}

const MAX_IGNORED_SHOWN = 10;

const formatIgnored = ({ name, looks }: SessionDetails['ignored'][number]): string =>
  `  ${toSingleLine(name, 100)}: looks like ${looks}. If it is a message, rename it`;

/** What it waits for, where the lines above do not say it: a disk, or a model that does not answer. */
const formatWait = ({ waits }: SessionDetails): string[] =>
  waits && (waits.what === 'disk' || waits.needs === 'time')
    ? [colorize('yellow', `Waits for: ${toSingleLine(waits.why, 300)}`)]
    : [];

/** The commands below each other, to copy. */
function formatNext(commands: readonly string[][], place: GlobalOptions): string[] {
  return commands.map((words, n) => `${n === 0 ? 'Next: ' : '      '}${colorize('bold', formatCommand(words, place))}`);
}

/** The files that were no messages: the newest with the reasons, and what to do. */
function formatRejected({ total, newest }: SessionDetails['rejected'], folder: string): string[] {
  if (total === 0) return [];
  const lines = newest.map(
    ({ file, why, at }) => `  ${formatLocalTime(at)}  ${toSingleLine(file, 100)}: ${toSingleLine(why, 500)}`,
  );
  return [
    '',
    colorize('yellow', `Rejected files: ${total}${total > lines.length && lines.length > 0 ? ', the newest:' : ''}`),
    ...lines,
    `  To send one, correct it and move it to inbox/; otherwise delete it. They are in ${stripControls(folder)}/rejected.`,
  ];
}

function formatRunningJobs(running: JobListing[]): string[] {
  if (running.length === 0) return [];
  return [
    '',
    colorize('bold', 'Background jobs'),
    ...running.map(({ id, command: text }) => `  ${id}: ${stripControls(text)}`),
  ];
}

type FormatStepLine = typeof import('../../../client/inspect/session-details.ts').formatStepLine;

/** The text of a reply without the plan in it, which is shown above. */
async function withoutPlan(text: string, plan: Plan | null): Promise<string> {
  if (!plan) return text;
  const { formatPlanSummary } = await import('../../../client/inspect/session-details.ts');
  return (['en', 'zh'] as const).reduce(
    (rest, language) => rest.replace(`\n\n${formatPlanSummary(plan, language)}`, () => ''),
    text,
  );
}

/** Steps whose files are named. */
const MOST_STEPS = 5;

/** What the last steps changed in `work/`. */
async function formatChangedFiles(steps: SessionDetails['session']['stepCheckpoints']): Promise<string[]> {
  const changed = Object.entries(steps).filter(([, { changed }]) => changed > 0);
  if (changed.length === 0) return [];
  const { formatStepFiles } = await import('../../../client/inspect/session-details.ts');
  const lines = changed
    .slice(-MOST_STEPS)
    .map(([step, work]) => `  ${step}: ${toSingleLine(formatStepFiles(work), 200)}`);
  return ['', colorize('bold', 'Files changed in work/'), ...lines];
}

/** The child sessions, indented: the state of each, and its steps. */
async function formatChildren(children: ChildDetails[], place: GlobalOptions): Promise<string[]> {
  if (children.length === 0) return [];
  const { formatStepLine } = await import('../../../client/inspect/session-details.ts');
  return [
    '',
    colorize('bold', 'Child sessions'),
    ...children.flatMap((one) => formatChild(one, 1, formatStepLine, place)),
  ];
}

function formatChild(
  { step, child, standing, shown }: ChildDetails,
  depth: number,
  stepLine: FormatStepLine,
  place: GlobalOptions,
): string[] {
  const plan = shown?.session.plan;
  const steps = plan?.steps.map((one, n) => stepLine(plan, one, n + 1, 'en')) ?? [];
  const indent = '  '.repeat(depth);
  return [
    `${indent}${stripControls(step)} → ${stripControls(readableName(child))}: ${standing === 'none' ? 'idle' : standing}`,
    ...(shown?.asked ? [`${indent}  ${formatApproval(shown.asked, place)}`] : []),
    ...steps.map((line) => `${indent}  ${toSingleLine(line, 200)}`),
    ...(shown?.children ?? []).flatMap((one) => formatChild(one, depth + 2, stepLine, place)),
  ];
}

/** A child that waits sends no reply: this line says what it is waiting for. */
const formatApproval = ({ session, id, tool, display, why }: ApprovalRequest, place: GlobalOptions): string =>
  `${colorize('yellow', 'asks')}: ${toSingleLine(`${tool} ${display}`, 200)} (${toSingleLine(why, 80)}); ${formatCommand(['approve', readableName(session), `${id}`], place)}`;

/** What a person can do next about a session: command lines as words behind `agentctl`, the likeliest first. */
export function nextCommands({ name: folder, session: { run, runEnd }, inbox, waits }: SessionDetails): string[][] {
  if (waits) return waits.commands;
  const name = readableName(folder);
  if (run || inbox > 0) return [['watch', name]];
  return [['send', name, 'your next task'], ...(runEnd && runEnd.status !== 'cancelled' ? [['reply', name]] : [])];
}
