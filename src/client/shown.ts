import { type Session, type Standing, standing } from '../core/session.ts';
import { statusText } from '../core/status.ts';
import type { SessionPaths } from '../store/layout.ts';
import { type Asked, askedOf } from './approvals.ts';
import { foldRecord } from './meaning.ts';
import { type Overview, waitingIn } from './overview.ts';
import { planFileProblem } from './plan-on-disk.ts';
import { settingsOnDisk } from './settings-on-disk.ts';

type Named = SessionPaths & { name: string };

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

/** `at` answers the paths of another session, undefined where there is none: children are shown within. */
export async function show(paths: Named, at: (name: string) => Named | undefined): Promise<Shown> {
  const session = await foldRecord(paths);
  const settings = await settingsOnDisk(paths);
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
