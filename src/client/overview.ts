import * as fs from 'node:fs';
import { completedSteps } from '../core/completed.ts';
import { type Standing, standing } from '../core/session.ts';
import type { Question } from '../protocol/ask-call.ts';
import { errorText } from '../protocol/errors.ts';
import type { Plan, PlanStatus } from '../protocol/plan.ts';
import { ifThere } from '../store/errors.ts';
import { parentOf } from '../store/family-names.ts';
import type { SessionPaths } from '../store/layout.ts';
import { isIgnored } from '../store/names.ts';
import { foldRecord } from './meaning.ts';
import { settingsOnDisk } from './settings-on-disk.ts';

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
  /** Why the settings it goes by do not hold, and what is in force in their place. */
  settings: string | null;
};

/** A line about a session; a record that cannot be read is said, not thrown. */
export async function overview(paths: Named): Promise<Overview> {
  const inbox = waitingIn(paths);
  try {
    const session = await foldRecord(paths);
    const { plan } = session;
    const { title, problem: settings } = await settingsOnDisk(paths);
    return {
      name: paths.name,
      parent: parentOf(paths.name) ?? null,
      title: title ?? session.title,
      standing: standing(session),
      plan: plan && howFar(plan),
      asks: session.question && { text: session.question.text, choices: session.question.choices },
      changed: session.at || null,
      inbox,
      problem: null,
      settings,
    };
  } catch (error) {
    const problem = errorText(error);
    const parent = parentOf(paths.name) ?? null;
    return { name: paths.name, parent, title: null, standing: 'unreadable', ...NOTHING, inbox, problem };
  }
}

function howFar(plan: Plan): Overview['plan'] {
  return { id: plan.id, status: plan.status, completed: completedSteps(plan), total: plan.steps.length };
}

const NOTHING = { plan: null, asks: null, changed: null, settings: null };

/** Messages dropped and not taken yet. */
export function waitingIn(paths: SessionPaths): number {
  const names = ifThere(() => fs.readdirSync(paths.inbox, { encoding: 'buffer' })) ?? [];
  return names.filter((name) => !isIgnored(name)).length;
}
