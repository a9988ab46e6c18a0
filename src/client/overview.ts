import * as fs from 'node:fs';
import { type Session, type Standing, standing } from '../core/session.ts';
import { statusText } from '../core/status.ts';
import { completedSteps } from '../core/steps.ts';
import type { Question } from '../protocol/ask-call.ts';
import { errorText } from '../protocol/errors.ts';
import type { PlanStatus } from '../protocol/plan.ts';
import { parentOf } from '../store/children.ts';
import { ifThere } from '../store/errors.ts';
import type { SessionPaths } from '../store/layout.ts';
import { isIgnored } from '../store/names.ts';
import { checkSettings } from '../store/settings.ts';
import { type Asked, askedOf } from './approvals.ts';
import { foldRecord } from './meaning.ts';
import { planFileProblem } from './plan-on-disk.ts';

type Named = SessionPaths & { name: string };

/** One session in a list. */
export type Overview = {
  name: string;
  /** The session this one works for. */
  parent: string | null;
  title: string | null;
  standing: Standing | 'unreadable';
  plan: { id: string; status: PlanStatus; completed: number; total: number } | null;
  /** What it asked by `ask_user` and waits to be told. */
  asks: Question | null;
  /** ISO 8601, UTC; null where nothing has happened yet. */
  changed: string | null;
  /** Messages in the inbox that nobody has taken yet. */
  inbox: number;
  /** Why the record cannot be read. */
  problem: string | null;
};

/** One session, whole. */
export type Shown = {
  name: string;
  title: string | null;
  standing: Standing;
  session: Session;
  /** Where it stands, in words. */
  summary: string;
  /** Why the `plan.json` on disk cannot be read, or what of it was not taken over. */
  planProblem: string | null;
  /** Why the `session.json` on disk does not hold: the line and what was expected. */
  settingsProblem: string | null;
  inbox: number;
  /** The call that waits for a person. */
  asked: Asked | null;
  /** Of the child sessions that work, or worked, on steps of the plan: how each stands and its own plan, in the order of the steps. */
  children: ShownChild[];
};

export type ShownChild = { step: string; child: string; standing: Overview['standing'] | 'gone'; shown: Shown | null };

/** A line about a session; a record that cannot be read is said, not thrown. */
export async function overview(paths: Named): Promise<Overview> {
  const inbox = waitingIn(paths);
  try {
    const session = await foldRecord(paths);
    const { plan } = session;
    return {
      name: paths.name,
      parent: parentOf(paths.name) ?? null,
      title: settingsOf(paths).title ?? session.title,
      standing: standing(session),
      plan: plan && { id: plan.id, status: plan.status, completed: completedSteps(plan), total: plan.steps.length },
      asks: session.question && { text: session.question.text, choices: session.question.choices },
      changed: session.at || null,
      inbox,
      problem: null,
    };
  } catch (error) {
    const problem = errorText(error);
    const parent = parentOf(paths.name) ?? null;
    return { name: paths.name, parent, title: null, standing: 'unreadable', ...NOTHING, inbox, problem };
  }
}

const NOTHING = { plan: null, asks: null, changed: null };

/** `at` answers the paths of another session, undefined where there is none: children are shown within. */
export async function show(paths: Named, at: (name: string) => Named | undefined): Promise<Shown> {
  const session = await foldRecord(paths);
  const settings = settingsOf(paths);
  return {
    name: paths.name,
    title: settings.title ?? session.title,
    standing: standing(session),
    session,
    summary: statusText(session, 'en'),
    planProblem: planFileProblem(paths.plan) ?? session.planProblem,
    settingsProblem: settings.problem,
    inbox: waitingIn(paths),
    asked: askedOf(paths, session),
    children: await childrenOf(session, at),
  };
}

/** A child that cannot be read is named all the same. */
async function childrenOf({ plan }: Session, at: (name: string) => Named | undefined): Promise<ShownChild[]> {
  const children: ShownChild[] = [];
  for (const { id, child } of plan?.steps ?? []) {
    if (child === undefined) continue;
    const paths = at(child);
    const shown = paths ? await show(paths, at).catch(() => null) : null;
    const how = paths === undefined ? 'gone' : (shown?.standing ?? 'unreadable');
    children.push({ step: id, child, standing: how, shown });
  }
  return children;
}

/** Messages dropped and not taken yet. */
export function waitingIn(paths: SessionPaths): number {
  const names = ifThere(() => fs.readdirSync(paths.inbox, { encoding: 'buffer' })) ?? [];
  return names.filter((name) => !isIgnored(name)).length;
}

/** A person's title wins over the one made from the first message; settings that do not hold have none. */
function settingsOf({ settings }: SessionPaths): { title: string | undefined; problem: string | null } {
  try {
    if (fs.statSync(settings, { throwIfNoEntry: false })?.isDirectory())
      return { title: undefined, problem: `${settings} is a folder, where a file was expected. Move it away.` };
    const text = ifThere(() => fs.readFileSync(settings, 'utf8'));
    return { title: checkSettings(text, 'session.json').value.title, problem: null };
  } catch (error) {
    return { title: undefined, problem: errorText(error) };
  }
}
