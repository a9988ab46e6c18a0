import { sha256 } from '../../base/sha256.ts';
import type { Reply } from '../../protocol/session/reply.ts';
import type { Limits } from '../../protocol/settings/run-options.ts';
import { sessionFolder } from '../../protocol/workspace/session-names.ts';

/** What a child session is asked, and how far it is. */
export type ChildSession = {
  name: string;
  step: string;
  /** The how-manieth plan gave it this step; without it the first. */
  generation?: number;
  attempt: number;
  /** Attempts made before its step was begun anew: they are no part of its budget. */
  earlierAttempts: number;
  /** What it may spend at most until it replies; null where nobody said. */
  budget: Limits | null;
  /** When it replied last. */
  repliedAt: string;
  /** The message whose reply is waited for. */
  awaitedMessage: string;
  /** Messages sent so far, so that no id is used twice. */
  messagesSent: number;
  /**
   * `halting`: told to stop, its reply is still to come; `held`: it has replied, and the run has rested since; `over`:
   * the step began anew since its reply.
   */
  state: 'working' | 'halting' | 'replied' | 'held' | 'over';
  /** How it was told to halt last, while it does. */
  haltCommand?: string;
  /** It was told something since it was given this attempt: what it lost of that it cannot make up for. */
  wasToldMore?: true;
  /** What people had said when its question was put to them: that answers something else. */
  undeliveredBefore?: readonly string[];
  /** When it was given something to do last. */
  workingSince?: string;
  /** The folder under `work/` it has as its own. */
  folder?: string;
  reply: Reply | null;
};

/** How deep sessions may have children of their own (JManus allows 20; five are more than a person follows). */
export const MAX_SESSION_DEPTH = 5;

const MAX_NAME_BYTES = 255;
/** Longer names of a root leave no room for the name of a child. */
export const MAX_ROOT_NAME_BYTES = 220;
const HASHED_NAME = /~h(\d)-[0-9a-f]{24}$/;

/**
 * The session that works on a step of another: `<parent>~<step>`, for a later plan with a step of that name
 * `<parent>~<step>+2` (no folder of a key has a `+`). Where that outgrows what a folder may be called it is
 * `<root>~h<depth>-<hash>`: still the root's family, still told apart.
 */
export function childSessionName(parent: string, step: string, generation: number): string {
  const name = `${parent}~${sessionFolder(step)}${generation > 1 ? `+${generation}` : ''}`;
  if (utf8Length(name) <= MAX_NAME_BYTES) return name;
  return `${rootOfFamily(parent)}~h${sessionDepth(parent) + 1}-${sha256(name).slice(0, 24)}`;
}

/** 0 for a session that is nobody's child. */
export const sessionDepth = (session: string): number =>
  Number(HASHED_NAME.exec(session)?.[1] ?? session.split('~').length - 1);

/** Why this session can have no children; undefined where it can. */
export function whyNoChildren(session: string): string | undefined {
  if (sessionDepth(session) >= MAX_SESSION_DEPTH) return `sessions may be ${MAX_SESSION_DEPTH} deep, no deeper`;
  return utf8Length(rootOfFamily(session)) > MAX_ROOT_NAME_BYTES
    ? `the name of the session ${rootOfFamily(session)} leaves no room for those of child sessions; rename it to at most ${MAX_ROOT_NAME_BYTES} bytes`
    : undefined;
}

/** The session at the top of a family. */
export const rootOfFamily = (session: string): string => session.split('~', 1)[0] ?? session;

/** Whether a message to this session is from one further up in its family, which speaks for the person. */
export const isFromAncestor = (session: string, from: string | undefined): boolean =>
  from !== undefined && rootOfFamily(from) === rootOfFamily(session) && sessionDepth(from) < sessionDepth(session);

const utf8Length = (text: string): number => new TextEncoder().encode(text).length;

export const isChildBusy = (child: ChildSession | undefined): boolean =>
  child?.state === 'working' || child?.state === 'halting';

/** Words that halt a child, from the mildest on. */
const HALT_COMMANDS: readonly string[] = ['pause', 'stop', 'cancel'];

/** How much a child was told to halt; -1: not at all. */
export const haltSeverity = (command: string | undefined): number => HALT_COMMANDS.indexOf(command ?? '');
