import type { Asked, Shown, ShownChild } from '../../../client/index.ts';
import { clientOf, command, type JobLine, JSON_OPTION, type JsonWanted, type Parts, SESSION } from '../command.ts';
import type { Exit } from '../exit-codes.ts';
import { localTime, oneLine, paint, plain, say, sayJson } from '../print.ts';

export const show = command({
  usage: 'show <session>',
  describe: 'Show the plan, how far it is and why it rests',
  builder: (cli) => cli.positional('session', SESSION).option('json', JSON_OPTION),
  run: (args, parts) => showSession(args, parts.jobs),
});

export async function showSession(args: JsonWanted & { session: string }, jobs: Parts['jobs']): Promise<Exit> {
  const client = await clientOf(args);
  const shown = await client.show(args.session);
  const running = (await jobs(client.folder(args.session))).filter((job) => job.running);
  if (args.json) sayJson({ ...asJson(shown), jobs: running });
  else {
    const fault = await client.settingsFault();
    const lines = [await inWords(shown, client.daemon() !== undefined), ...jobLines(running)];
    say([...lines, ...(fault === null ? [] : ['', paint('yellow', plain(fault))])].join('\n'));
  }
  return 'ok';
}

async function inWords(
  { name, title, session, summary, planProblem, settingsProblem, inbox, asked: approval, children }: Shown,
  isServed: boolean,
): Promise<string> {
  // A question of `ask_user` stands in the summary.
  const asked =
    session.rest?.status === 'waiting' && session.rest.reason !== 'settings' && !session.question
      ? session.rest.text
      : null;
  return [
    paint('bold', plain(title ? `${name}: ${title}` : name)),
    ...(session.at ? [`Last change: ${localTime(session.at)}`] : []),
    '',
    plain(summary),
    ...(await familyLines(children)),
    ...(asked ? ['', 'It asks:', plain(asked)] : []),
    ...(approval?.problem ? ['', paint('yellow', plain(approval.problem))] : []),
    ...(planProblem ? ['', paint('yellow', plain(planProblem))] : []),
    ...(settingsProblem ? ['', paint('yellow', plain(settingsProblem))] : []),
    ...(inbox > 0 ? ['', `Messages not taken yet: ${inbox}`] : []),
    ...(isServed || (!session.run && inbox === 0)
      ? []
      : ['', 'No daemon is running; it goes on after: agentctl start']),
  ].join('\n');
}

function jobLines(running: JobLine[]): string[] {
  if (running.length === 0) return [];
  return ['', paint('bold', 'In the background'), ...running.map(({ id, command: said }) => `  ${id}: ${plain(said)}`)];
}

type StepLine = typeof import('../../../client/plan-text.ts').stepLine;

/** The child sessions, folded in: how each stands, and its own steps. */
async function familyLines(children: ShownChild[]): Promise<string[]> {
  if (children.length === 0) return [];
  const { stepLine } = await import('../../../client/plan-text.ts');
  return ['', paint('bold', 'Child sessions'), ...children.flatMap((one) => childLines(one, 1, stepLine))];
}

function childLines({ step, child, standing, shown }: ShownChild, depth: number, stepLine: StepLine): string[] {
  const steps = shown?.session.plan?.steps ?? [];
  const indent = '  '.repeat(depth);
  return [
    `${indent}${plain(step)} → ${plain(child)}: ${standing === 'none' ? 'idle' : standing}`,
    ...(shown?.asked ? [`${indent}  ${askedLine(shown.asked)}`] : []),
    ...steps.map((one, n) => `${indent}  ${oneLine(stepLine(one, n + 1, 'en'), 200)}`),
    ...(shown?.children ?? []).flatMap((one) => childLines(one, depth + 2, stepLine)),
  ];
}

/** A child waits without a reply: here is where a person finds out for what. */
const askedLine = ({ session, id, tool, shows, why }: Asked): string =>
  `${paint('yellow', 'asks')}: ${oneLine(`${tool} ${shows}`, 200)} (${oneLine(why, 80)}); agentctl approve ${plain(session)} ${id}`;

function asJson({
  name,
  title,
  standing,
  session,
  planProblem,
  settingsProblem,
  inbox,
  asked,
  children,
}: Shown): object {
  const { plan, rest, run, unanswered, setAside, question } = session;
  return {
    name,
    title,
    standing,
    changed: session.at || null,
    plan,
    plan_problem: planProblem,
    settings_problem: settingsProblem,
    set_aside: Object.keys(setAside),
    run: run && {
      message: run.message,
      since: run.since,
      mode: run.mode,
      model: run.model ?? null,
      spent: run.spent,
      limits: run.limits,
    },
    rest: rest && {
      message: rest.message,
      status: rest.status,
      reason: rest.reason,
      text: rest.text,
      spent: rest.spent,
    },
    question: question && { text: question.text, choices: question.choices },
    approval: asked,
    unanswered,
    inbox,
    children: children.map((one) => ({
      step: one.step,
      child: one.child,
      standing: one.standing,
      session: one.shown && asJson(one.shown),
    })),
  };
}
