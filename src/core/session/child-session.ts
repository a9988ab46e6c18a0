import { sha256 } from '../../base/sha256.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { rootSessionOf, sessionFolder } from '../../protocol/workspace/session-names.ts';

/** A child session: what its parent asked of it, and its progress. */
export type ChildSession = {
  name: string;
  step: string;
  /** The number of the plan, from 1, that gave it this step; 1 if left out. */
  generation?: number;
  attempt: number;
  /** Attempts before its step was restarted; they do not count towards the maximum of attempts. */
  earlierAttempts: number;
  /** The most it may spend until it replies; null if none was given. */
  budget: Limits | null;
  /** When it last replied. */
  repliedAt: string;
  /** The message whose reply is awaited. */
  awaitedMessage: string;
  /** Messages sent so far, so that no id is used twice. */
  messagesSent: number;
  /**
   * `halting`: it was ordered to stop and has not replied yet; `suspended`: it has replied, and the run has ended
   * since; `over`: the step has been restarted since its reply.
   */
  state: 'working' | 'halting' | 'replied' | 'suspended' | 'over';
  /** The last command to halt it, while it is halting. */
  haltCommand?: string;
  /** It has been sent more messages in this attempt: if it is lost, they are lost with it. */
  wasToldMore?: true;
  /** A person has changed the step since it was given to it: it is given the step again. */
  isOutdated?: true;
  /** Messages that were undelivered when its question was put to the person: they answer something else. */
  undeliveredBefore?: readonly string[];
  /** When it was last given work. */
  workingSince?: string;
  /** Its own folder under `work/`. */
  folder?: string;
  reply: Reply | null;
};

/** How deep sessions may nest (JManus allows 20; more than five are hard for a person to follow). */
export const MAX_SESSION_DEPTH = 5;

const MAX_NAME_BYTES = 255;
/** A longer root name leaves no room for the name of a child. */
export const MAX_ROOT_NAME_BYTES = 220;
const HASHED_NAME = /~h(\d)-[0-9a-f]{24}$/;

/**
 * The name of the session that works on another session's step: `<parent>~<step>`, or `<parent>~<step>+2` for a later
 * plan with a step of that name (the folder of a key never contains `+`). A name too long for a folder becomes
 * `<root>~h<depth>-<hash>`, still under its root and still unique.
 */
export function childSessionName(parent: string, step: string, generation: number): string {
  const name = `${parent}~${sessionFolder(step)}${generation > 1 ? `+${generation}` : ''}`;
  if (utf8Length(name) <= MAX_NAME_BYTES) return name;
  return `${rootSessionOf(parent)}~h${sessionDepth(parent) + 1}-${sha256(name).slice(0, 24)}`;
}

/** The nesting depth of a session; 0 for a root session. */
export const sessionDepth = (session: string): number =>
  Number(HASHED_NAME.exec(session)?.[1] ?? session.split('~').length - 1);

/** Why this session cannot have children; undefined if it can. */
export function whyNoChildren(session: string): string | undefined {
  if (sessionDepth(session) >= MAX_SESSION_DEPTH) return `sessions may be ${MAX_SESSION_DEPTH} deep, no deeper`;
  return utf8Length(rootSessionOf(session)) > MAX_ROOT_NAME_BYTES
    ? `the name of the session ${rootSessionOf(session)} leaves no room for those of child sessions; rename it to at most ${MAX_ROOT_NAME_BYTES} bytes`
    : undefined;
}

/** Whether the message is from an ancestor session, which speaks for the person. */
export const isFromAncestor = (session: string, from: string | undefined): boolean =>
  from !== undefined && rootSessionOf(from) === rootSessionOf(session) && sessionDepth(from) < sessionDepth(session);

const utf8Length = (text: string): number => new TextEncoder().encode(text).length;

export const isChildBusy = (child: ChildSession | undefined): boolean =>
  child?.state === 'working' || child?.state === 'halting';

/** Commands that halt a child, mildest first. */
const HALT_COMMANDS: readonly string[] = ['pause', 'stop', 'cancel'];

/** Whether a command answers a call that waits for approval: it changes nothing else of the child's work. */
export const answersCall = (command: string | undefined): boolean => command === 'approve' || command === 'deny';

/** How severe a halt command is; -1 for none. */
export const haltSeverity = (command: string | undefined): number => HALT_COMMANDS.indexOf(command ?? '');

/** The time limit of a child's step counts only while a daemon runs: the next daemon starts counting from zero. */
export function giveTimeAgain(
  children: Readonly<Record<string, ChildSession>>,
  at: string,
): Readonly<Record<string, ChildSession>> {
  const entries = Object.entries(children).map(([step, child]): [string, ChildSession] => [
    step,
    child.workingSince === undefined ? child : { ...child, workingSince: at },
  ]);
  return Object.fromEntries(entries);
}
