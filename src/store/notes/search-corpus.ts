import * as fs from 'node:fs';
import { join } from 'node:path';
import { setImmediate as others } from 'node:timers/promises';
import { z } from 'zod';
import { parseWrittenFrontMatter } from '../../base/front-matter.ts';
import { parseJson } from '../../base/json.ts';
import { attempt } from '../../base/user-error.ts';
import { inlineText, StoredText } from '../../protocol/session/log-entry.ts';
import { Reply } from '../../protocol/session/reply.ts';
import type { SearchDocument } from '../../protocol/workspace/memory-notes.ts';
import { rootSessionOf } from '../../protocol/workspace/session-names.ts';
import { readRegularFile } from '../fs/file-reads.ts';
import { existingRootOf, sessionPaths, type WorkspacePaths } from '../layout/layout.ts';

const MAX_FILE_BYTES = 1024 * 1024;
const MAX_TOTAL_BYTES = 64 * 1024 * 1024;
const MAX_FILES = 10_000;
/** The most files read per session; the newest are read. */
const MAX_SESSION_FILES = 200;
/**
 * How long the search runs before it yields. Yielding after every file would take five times as long as reading small
 * files, which takes microseconds each.
 */
const YIELD_AFTER_MS = 8;

export type CorpusOptions = {
  /** Which sessions may be read, given the session's name and the text of the `session.json` that applies to it. */
  may: (session: string, settings: string | undefined) => boolean;
  /** Limits the search to certain sessions before any file is read. */
  among: (session: string) => boolean;
  signal: AbortSignal;
  /** Milliseconds of a monotonic clock, and the time limit. */
  elapsed: () => number;
  ms: number;
};

/** The extent of the search. `whole`: nothing was left out for lack of time or space. */
export type CorpusSummary = { sessions: number; read: number; whole: boolean };

type SessionPlace = { name: string; folder: string; home: string; archived: boolean; at: number };
/** The remaining time, files and bytes. */
type ReadBudget = { isOver(): boolean; spend(bytes: number): void; yieldIfDue(): Promise<void> };

/**
 * Reads the plans and replies of sessions, archived ones included, and reports each: the session with the newest reply
 * first. Yields between small steps and is bounded in time, files and bytes; other files are skipped, and no link is
 * followed. Throws the signal's reason if it aborts.
 */
export async function readSearchCorpus(
  paths: Pick<WorkspacePaths, 'sessions' | 'archive'>,
  reading: CorpusOptions,
  each: (writing: SearchDocument) => void,
): Promise<CorpusSummary> {
  const budget = openReadBudget(reading);
  const places = [...listSessionPlaces(paths.sessions, false), ...listSessionPlaces(paths.archive, true)].filter(
    (place) => reading.among(place.name),
  );
  for (const place of places) {
    await budget.yieldIfDue();
    place.at = lastReplyTime(place);
  }
  places.sort((a, b) => b.at - a.at);
  let read = 0;
  for (const place of places) {
    if (budget.isOver()) break;
    await readSessionTexts(place, reading, budget, each);
    read += 1;
  }
  return { sessions: places.length, read, whole: !budget.isOver() };
}

function openReadBudget({ signal, elapsed, ms }: CorpusOptions): ReadBudget {
  const left = { files: MAX_FILES, bytes: MAX_TOTAL_BYTES };
  const until = elapsed() + ms;
  let turn = elapsed() + YIELD_AFTER_MS;
  let over = false;
  return {
    isOver: () => over,
    spend(bytes) {
      left.files -= 1;
      left.bytes -= bytes;
    },
    async yieldIfDue() {
      const now = elapsed();
      over ||= now > until || left.files <= 0 || left.bytes <= 0;
      if (now < turn) return;
      await others();
      signal.throwIfAborted();
      turn = elapsed() + YIELD_AFTER_MS;
    },
  };
}

function listSessionPlaces(home: string, archived: boolean): SessionPlace[] {
  const entries = attempt(() => fs.readdirSync(home, { withFileTypes: true })) ?? [];
  return entries
    .filter((entry) => entry.isDirectory() && !entry.name.startsWith('.'))
    .map(({ name }) => ({ name, home, archived, folder: join(home, name), at: 0 }));
}

/** The time of the last change of `outbox/`, by adding or removing a reply. */
function lastReplyTime({ folder }: SessionPlace): number {
  return attempt(() => fs.lstatSync(sessionPaths(folder).outbox).mtimeMs) ?? 0;
}

async function readSessionTexts(
  place: SessionPlace,
  { may }: CorpusOptions,
  budget: ReadBudget,
  each: (writing: SearchDocument) => void,
): Promise<void> {
  const isThere = (session: string) => attempt(() => fs.lstatSync(join(place.home, session))) !== undefined;
  // Without its root, it is unknown which settings apply to an archived child session.
  if (place.archived && !isThere(rootSessionOf(place.name))) return;
  const root = sessionPaths(join(place.home, existingRootOf(place.name, isThere)));
  if (!may(place.name, readSettingsText(root.settings))) return;
  for (const file of listCorpusFiles(place.folder)) {
    await budget.yieldIfDue();
    if (budget.isOver()) return;
    budget.spend(file.size);
    const text = readCorpusText(file.path);
    const words = text === undefined ? undefined : file.is === 'plan' ? textOfPlan(text) : textOfReply(file.path, text);
    if (!words) continue;
    const at = new Date(file.at).toISOString();
    each({ session: place.name, is: file.is, at, archived: place.archived, ...words });
  }
}

/** Settings that exist but cannot be read must not count as missing: they become invalid JSON. */
function readSettingsText(path: string): string | undefined {
  return readCorpusText(path) ?? (fs.lstatSync(path, { throwIfNoEntry: false }) ? '' : undefined);
}

type CorpusFile = { path: string; is: SearchDocument['is']; at: number; size: number };

function listCorpusFiles(folder: string): CorpusFile[] {
  const { plan, plans, outbox, outboxRead } = sessionPaths(folder);
  const named = [
    { path: plan, is: 'plan' as const },
    ...listFiles(plans)
      .filter((path) => path.endsWith('.json'))
      .map((path) => ({ path, is: 'plan' as const })),
    ...[...listFiles(outbox), ...listFiles(outboxRead)].map((path) => ({ path, is: 'reply' as const })),
  ];
  return named
    .flatMap(({ path, is }): CorpusFile[] => {
      const stat = attempt(() => fs.lstatSync(path));
      return stat?.isFile() && stat.size <= MAX_FILE_BYTES ? [{ path, is, at: stat.mtimeMs, size: stat.size }] : [];
    })
    .sort((a, b) => b.at - a.at)
    .slice(0, MAX_SESSION_FILES);
}

function listFiles(folder: string): string[] {
  if (!attempt(() => fs.lstatSync(folder))?.isDirectory()) return [];
  const entries = attempt(() => fs.readdirSync(folder, { withFileTypes: true })) ?? [];
  return entries
    .filter((entry) => entry.isFile() && !entry.name.startsWith('.'))
    .map((entry) => join(folder, entry.name));
}

/** Undefined if it is missing, unreadable, too large, or not a regular file. */
const readCorpusText = (path: string): string | undefined =>
  attempt(() => readRegularFile(path, MAX_FILE_BYTES)?.toString());

const PlanFields = z.object({
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

type CorpusText = Pick<SearchDocument, 'plan' | 'goal' | 'text' | 'running'>;

function textOfPlan(text: string): CorpusText | undefined {
  const plan = PlanFields.safeParse(parseJson(text)).data;
  if (!plan) return undefined;
  const steps = plan.steps.map(({ description, result, error, notes }) => {
    const outcome = [result, error, notes].filter(Boolean).join('; ');
    return outcome ? `${description} → ${outcome}` : description;
  });
  const words = [plan.title, plan.goal, ...steps].filter(Boolean).join('\n');
  return { plan: plan.id, goal: plan.title ?? plan.goal, text: words, running: plan.status === 'running' };
}

const ReplyFields = Reply.pick({ status: true, text: true }).extend({ plan: Reply.shape.plan.default(null) });

/** Undefined for a reply that reports no work. */
function textOfReply(path: string, text: string): CorpusText | undefined {
  const reply = ReplyFields.safeParse(/\.json$/i.test(path) ? parseJson(text) : parseWrittenFrontMatter(text)).data;
  if (!reply || reply.status === 'joined' || reply.status === 'rejected') return undefined;
  return { plan: reply.plan?.id, text: reply.text };
}

/** The largest part of an event log that is searched. */
const MAX_LOG_BYTES = 32 * 1024 * 1024;

const SaidEvent = z.object({
  seq: z.int(),
  at: z.string(),
  type: z.enum(['message.received', 'model.answered', 'tool.finished', 'context.compacted']),
  body: StoredText.optional(),
  text: z.string().optional(),
  output: StoredText.optional(),
  upto: z.int().optional(),
});
type SaidEvent = z.infer<typeof SaidEvent>;

/**
 * Reports what was said in a session, from its event log: the results of tools, and the messages and answers that the
 * last compaction has taken from the model's view. Lines that cannot be read are skipped.
 */
export async function readSessionWords(
  { session, folder }: { session: string; folder: string },
  reading: CorpusOptions,
  each: (said: SearchDocument) => void,
): Promise<void> {
  const budget = openReadBudget(reading);
  const { events: log, rotated } = sessionPaths(folder);
  const parts = [...listFiles(rotated).sort(), log].map(
    (path) => attempt(() => readRegularFile(path, MAX_LOG_BYTES)?.toString()) ?? '',
  );
  const events: SaidEvent[] = [];
  for (const line of parts.flatMap((text) => text.split('\n'))) {
    await budget.yieldIfDue();
    if (budget.isOver()) break;
    if (!/"type":"(?:message\.received|model\.answered|tool\.finished|context\.compacted)"/.test(line)) continue;
    const event = SaidEvent.safeParse(parseJson(line)).data;
    if (event) events.push(event);
  }
  const hidden = events.findLast((event) => event.type === 'context.compacted')?.upto ?? 0;
  for (const { seq, at, type, body, text: answer, output } of events) {
    const stored = body ?? output;
    const words = stored ? inlineText(stored) : (answer ?? '');
    if (words !== '' && (type === 'tool.finished' || seq <= hidden))
      each({ session, is: 'said', at, archived: false, text: words });
  }
}
