import * as fs from 'node:fs';
import { join } from 'node:path';
import { setImmediate as others } from 'node:timers/promises';
import { z } from 'zod';
import { frontMatter } from '../protocol/front-matter.ts';
import type { Writing } from '../protocol/notes.ts';
import { Reply } from '../protocol/reply.ts';
import { parseJson } from './complaints.ts';
import { rootOf } from './family-names.ts';
import { sessionPaths, type WorkspacePaths } from './layout.ts';

const { O_NOFOLLOW, O_NONBLOCK, O_RDONLY } = fs.constants;
const MAX_FILE_BYTES = 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;
const MAX_FILES = 10_000;
/** Of one session, the newest. */
const MAX_SESSION_FILES = 200;
/**
 * How long it goes on before others have their turn, in ms. Looking at a small file takes microseconds, and five times that with
 * a promise for each of its steps; no single step is longer than one file.
 */
const TURN_MS = 8;

export type Reading = {
  /** Whose files may be read, given the session's name and the text of its `session.json` and of its root's. */
  may: (session: string, settings: Array<string | undefined>) => boolean;
  /** Names this session alone, or everything, before any file is looked at. */
  among: (session: string) => boolean;
  signal: AbortSignal;
  /** Milliseconds of a clock that never jumps, and how many this may take. */
  elapsed: () => number;
  ms: number;
};

/** How far a reading came. `whole`: nothing was left out for want of time or room. */
export type WritingsRead = { sessions: number; read: number; whole: boolean };

type Place = { name: string; folder: string; home: string; archived: boolean; at: number };
/** What is left of time, files and bytes. */
type Pace = { isOver(): boolean; spend(bytes: number): void; turn(): Promise<void> };

/**
 * Reads the plans and replies of sessions, those put away included, and tells each: the session with the newest reply first. In
 * small pieces that let others go on, and within bounds of time, files and bytes; what is not a plan or a reply is passed by, and
 * no link is followed. Throws the signal's reason where it was aborted.
 */
export async function readWritings(
  paths: Pick<WorkspacePaths, 'sessions' | 'archive'>,
  reading: Reading,
  each: (writing: Writing) => void,
): Promise<WritingsRead> {
  const pace = paceOf(reading);
  const places = [...placesIn(paths.sessions, false), ...placesIn(paths.archive, true)].filter((place) =>
    reading.among(place.name),
  );
  for (const place of places) {
    await pace.turn();
    place.at = lastReply(place);
  }
  places.sort((a, b) => b.at - a.at);
  let read = 0;
  for (const place of places) {
    if (pace.isOver()) break;
    await readSession(place, reading, pace, each);
    read += 1;
  }
  return { sessions: places.length, read, whole: !pace.isOver() };
}

function paceOf({ signal, elapsed, ms }: Reading): Pace {
  const left = { files: MAX_FILES, bytes: MAX_BYTES };
  const until = elapsed() + ms;
  let turn = elapsed() + TURN_MS;
  let over = false;
  return {
    isOver: () => over,
    spend(bytes) {
      left.files -= 1;
      left.bytes -= bytes;
    },
    async turn() {
      const now = elapsed();
      over ||= now > until || left.files <= 0 || left.bytes <= 0;
      if (now < turn) return;
      await others();
      signal.throwIfAborted();
      turn = elapsed() + TURN_MS;
    },
  };
}

/** What `look` answers; undefined where the file system says no: what cannot be looked at is passed by. */
function allowed<T>(look: () => T): T | undefined {
  try {
    return look();
  } catch {
    return undefined;
  }
}

function placesIn(home: string, archived: boolean): Place[] {
  const entries = allowed(() => fs.readdirSync(home, { withFileTypes: true })) ?? [];
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => ({ name, home, archived, folder: join(home, name), at: 0 }));
}

/** A reply that comes, and one that is taken away, both change `outbox/`. */
function lastReply({ folder }: Place): number {
  return allowed(() => fs.lstatSync(sessionPaths(folder).outbox).mtimeMs) ?? 0;
}

async function readSession(
  place: Place,
  { may }: Reading,
  pace: Pace,
  each: (writing: Writing) => void,
): Promise<void> {
  const root = join(place.home, rootOf(place.name));
  const isChild = root !== place.folder;
  // A child that was put away under another root than its own: nobody knows any more whom it served.
  if (isChild && place.archived && !allowed(() => fs.lstatSync(root))) return;
  const settings = [place.folder, ...(isChild ? [root] : [])].map((folder) =>
    settingsOf(sessionPaths(folder).settings),
  );
  if (!may(place.name, settings)) return;
  for (const file of filesOf(place.folder)) {
    await pace.turn();
    if (pace.isOver()) return;
    pace.spend(file.size);
    const text = textOf(file.path);
    const words = text === undefined ? undefined : file.is === 'plan' ? planWords(text) : replyWords(file.path, text);
    if (!words) continue;
    const at = new Date(file.at).toISOString();
    each({ session: place.name, is: file.is, at, archived: place.archived, ...words });
  }
}

/** Settings that are there and cannot be read must not pass for none: they are no JSON. */
function settingsOf(path: string): string | undefined {
  return textOf(path) ?? (fs.lstatSync(path, { throwIfNoEntry: false }) ? '' : undefined);
}

type File = { path: string; is: Writing['is']; at: number; size: number };

function filesOf(folder: string): File[] {
  const { plan, plans, outbox, outboxRead } = sessionPaths(folder);
  const named = [
    { path: plan, is: 'plan' as const },
    ...namesIn(plans)
      .filter((path) => path.endsWith('.json'))
      .map((path) => ({ path, is: 'plan' as const })),
    ...[...namesIn(outbox), ...namesIn(outboxRead)].map((path) => ({ path, is: 'reply' as const })),
  ];
  return named
    .flatMap(({ path, is }): File[] => {
      const stat = allowed(() => fs.lstatSync(path));
      return stat?.isFile() && stat.size <= MAX_FILE_BYTES ? [{ path, is, at: stat.mtimeMs, size: stat.size }] : [];
    })
    .sort((a, b) => b.at - a.at)
    .slice(0, MAX_SESSION_FILES);
}

function namesIn(folder: string): string[] {
  if (!allowed(() => fs.lstatSync(folder))?.isDirectory()) return [];
  const entries = allowed(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => join(folder, entry.name));
}

/** Undefined where it is missing, cannot be read, or is no regular file of a size that is read. */
function textOf(path: string): string | undefined {
  return allowed(() => {
    const fd = fs.openSync(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    try {
      const stat = fs.fstatSync(fd);
      return stat.isFile() && stat.size <= MAX_FILE_BYTES ? fs.readFileSync(fd, 'utf8') : undefined;
    } finally {
      fs.closeSync(fd);
    }
  });
}

const PlanWords = z.object({
  id: z.string().optional(),
  goal: z.string(),
  title: z.string().optional(),
  status: z.string().optional(),
  steps: z.array(
    z.object({
      description: z.string(),
      result: z.string().optional(),
      error: z.string().optional(),
      notes: z.string().optional(),
    }),
  ),
});

type Words = Pick<Writing, 'plan' | 'goal' | 'text' | 'running'>;

function planWords(text: string): Words | undefined {
  const parsed = parseJson(text);
  const plan = parsed.ok ? PlanWords.safeParse(parsed.value).data : undefined;
  if (!plan) return undefined;
  const steps = plan.steps.map(({ description, result, error, notes }) => {
    const outcome = [result, error, notes].filter(Boolean).join('; ');
    return outcome ? `${description} → ${outcome}` : description;
  });
  const words = [plan.title, plan.goal, ...steps].filter(Boolean).join('\n');
  return { plan: plan.id, goal: plan.title ?? plan.goal, text: words, running: plan.status === 'running' };
}

const ReplyWords = Reply.pick({ status: true, text: true, plan: true });

/** A reply that tells of no work has no words of its own. */
function replyWords(path: string, text: string): Words | undefined {
  const reply = ReplyWords.safeParse(/\.json$/i.test(path) ? jsonOf(text) : markdownOf(text)).data;
  if (!reply || reply.status === 'joined' || reply.status === 'rejected') return undefined;
  return { plan: reply.plan?.id, text: reply.text };
}

function jsonOf(text: string): unknown {
  const parsed = parseJson(text);
  return parsed.ok ? parsed.value : undefined;
}

function markdownOf(text: string): unknown {
  const { fields, body } = frontMatter(text) ?? {};
  return body === undefined
    ? undefined
    : { status: fields?.['status'], plan: jsonOf(fields?.['plan'] ?? 'null'), text: body };
}
