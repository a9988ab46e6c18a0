import { sessionFolder } from '../protocol/names.ts';
import { sha256 } from '../protocol/sha256.ts';

/** How deep sessions may have children of their own (JManus allows 20; five are more than a person follows). */
export const DEEPEST = 5;

const NAME_BYTES = 255;
/** Longer names of a root leave no room for the name of a child. */
export const ROOT_BYTES = 220;
const HASHED = /~h(\d)-[0-9a-f]{24}$/;

/**
 * The session that works on a step of another: `<parent>~<step>`, for a later plan with a step of that name `<parent>~<step>+2` (no
 * folder of a key has a `+`). Where that outgrows what a folder may be called it is `<root>~h<depth>-<hash>`: still the root's
 * family, still told apart.
 */
export function childName(parent: string, step: string, generation: number): string {
  const name = `${parent}~${sessionFolder(step)}${generation > 1 ? `+${generation}` : ''}`;
  if (bytesOf(name) <= NAME_BYTES) return name;
  return `${rootOf(parent)}~h${depthOf(parent) + 1}-${sha256(name).slice(0, 24)}`;
}

/** 0 for a session that is nobody's child. */
export const depthOf = (session: string): number => Number(HASHED.exec(session)?.[1] ?? session.split('~').length - 1);

/** Why this session can have no children; undefined where it can. */
export function childless(session: string): string | undefined {
  if (depthOf(session) >= DEEPEST) return `sessions may be ${DEEPEST} deep, no deeper`;
  return bytesOf(rootOf(session)) > ROOT_BYTES
    ? `the name of the session ${rootOf(session)} leaves no room for those of child sessions; rename it to at most ${ROOT_BYTES} bytes`
    : undefined;
}

/** The session at the top of a family. */
export const rootOf = (session: string): string => session.split('~', 1)[0] ?? session;

/** Whether a message to this session is from one further up in its family, which speaks for the person. */
export const isFromAbove = (session: string, from: string | undefined): boolean =>
  from !== undefined && rootOf(from) === rootOf(session) && depthOf(from) < depthOf(session);

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
