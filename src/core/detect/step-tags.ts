import { truncate } from '../../base/strings.ts';
import { PLAN_BOUNDS } from '../../protocol/session/plan-edit.ts';
import {
  type BracketTag,
  isAssertedTag,
  isLinkOrIndex,
  isPlainTag,
  linesWithTags,
  readTags,
  stepDeclarationOf,
} from '../text/bracket-tags.ts';
import { comparableDescription } from '../text/content-words.ts';
import { linesOutsideCode } from '../text/prose.ts';
import { readStepState } from '../text/step-words.ts';
import { isDoneMarker, parseDoneTag } from './done-markers.ts';

type ReasonedTag = { kind: 'failed' | 'skipped' | 'blocked'; reason: string };

/** A tag about a step, other than the plain marker. `step` is an id, or the model's name for the step. */
export type StatusTag =
  | { kind: 'done'; step: string }
  | ReasonedTag
  | { kind: 'not_done' }
  | { kind: 'progress'; current: number; total: number };

const COUNT = /^\s*[:：]?\s*(\d{1,6})\s*\/\s*(\d{1,6})$/u;
/** A reason after a colon, or nothing. */
const REASON = /^(?:\s*[:：]\s*([\s\S]*)|\s*)$/u;
const REMAINDER = /^\s*(?:yet\s*)?(?:$|[:：,，])/iu;

/** Only emphasis, or a bullet or number of a list. */
const LINE_START = /^\s*[*_]*\s*$/;
const BULLET = /^\s*(?:[-*+•]|\d{1,4}[.)、])\s+[*_]*\s*$/;
const SENTENCE_END = /[.!。！]\s*[*_]*$/;
/** A test status padded by a test runner: `[  FAILED  ] Suite.Upload`. */
const PADDED = /^\[\s+[A-Z]+\s+\]$/;
/** "[Blocked] until there is a key" says what is missing; "[Failed] when fetching page 3" says where. */
const CIRCUMSTANCE = /^[\s*_]*(?:until|unless|when)\s/i;

/**
 * Reads the tags of an answer, in order: `[Done: step_2]`, `[Step 2 Done]`, `[Not done]`, `[Failed: why]`, `[Skip:
 * why]`, `[Blocked: why]`, `[Progress 2/5]` and their Chinese forms. Like markers they count only in prose: not in
 * code, not quoted, negated, promised or asked. A bare `[Failed]` within a line is the status of something else.
 */
export function readStatusTags(text: string): StatusTag[] {
  return linesWithTags(text).flatMap((line) => readTags(line).flatMap(statusOf));
}

/** The status that a tag of a line reports, if it does. */
export function statusOf(tag: BracketTag): StatusTag[] {
  // A reason may contain brackets of its own.
  if (tag.closedAt === undefined || tag.isNested) return [];
  const status = parseStatusTag(tag.inside);
  if (!status || isLinkOrIndex(tag) || LIFTED_OBSTACLE.test(tag.before)) return [];
  return 'reason' in status ? withReason(status, tag) : isAssertedTag(tag) ? [status] : [];
}

/** A reason often follows its tag instead of standing in it. */
function withReason(status: ReasonedTag, tag: BracketTag): ReasonedTag[] {
  const { before, after } = tag;
  if (!isAssertedTag({ before, after: CIRCUMSTANCE.test(after) ? '' : after })) return [];
  if (status.reason !== '') return [status];
  const leads = LINE_START.test(before) || (status.kind === 'blocked' && BULLET.test(before));
  const closes = SENTENCE_END.test(before) && /^[\s*_.!。！]{0,9}$/.test(after);
  return !PADDED.test(tag.raw) && (leads || closes) ? [{ ...status, reason: tag.line.slice(tag.end).trim() }] : [];
}

export function parseStatusTag(inside: string): StatusTag | undefined {
  const done = parseDoneTag(inside);
  if (done) return done.number === undefined ? doneStepTag(done.words) : { kind: 'done', step: `step_${done.number}` };
  const { state, rest } = readStepState(inside) ?? {};
  if (state === undefined || rest === undefined) return undefined;
  if (state === 'open') return REMAINDER.test(rest) ? { kind: 'not_done' } : undefined;
  const [, current, total] = (state === 'progress' && COUNT.exec(rest)) || [];
  if (current && total) return { kind: 'progress', current: Number(current), total: Number(total) };
  const reason = state === 'progress' || state === 'done' ? null : REASON.exec(rest);
  return reason && state !== 'progress' && state !== 'done'
    ? { kind: state, reason: reason[1]?.trim() ?? '' }
    : undefined;
}

const doneStepTag = (step: string | undefined): StatusTag | undefined =>
  step === undefined ? undefined : { kind: 'done', step };

/** Why a step is not closed, whatever else the turn says. */
export type CompletionVeto = 'tool_failed' | 'not_done' | 'blocked';

/** Only the first words of a tag count, so that a reason may contain anything: `[Blocked: a[1] is missing]`. */
function vetoOf(inside: string): CompletionVeto | undefined {
  const state = readStepState(inside)?.state;
  return state === 'open' ? 'not_done' : state === 'blocked' ? 'blocked' : undefined;
}
/** The obstacle is gone: "no longer [Blocked]". */
const LIFTED_OBSTACLE = /(?:\b(?:not|no longer|never)|n['’]t|不再|没有|沒有|不)\s*[*_]*$/iu;

/**
 * The veto of this turn, if any: a tag that contradicts a marker, or a failed tool call. A failed tool is not evidence
 * that the step failed, only that a claim in the same turn has none.
 */
export function findVeto(
  lines: readonly string[],
  lastToolFailed: boolean,
): { veto: CompletionVeto; evidence: string } | undefined {
  for (const line of lines) {
    const tags = readTags(line);
    for (const tag of tags) {
      const veto = vetoOf(tag.inside);
      if (veto && !LIFTED_OBSTACLE.test(tag.before) && !/\w$/.test(tag.before))
        return { veto, evidence: line.slice(tag.start) };
    }
  }
  return lastToolFailed ? { veto: 'tool_failed', evidence: '' } : undefined;
}

/** A plan with more steps than this is too long for a person to follow. */
export const MAX_OPEN_STEPS = 50;

/**
 * Descriptions of the steps a text declares in lines such as `[Step] Draw the chart`, in order, without those in
 * `existing` (the open steps of the plan). Descriptions that differ only in case, spaces or the full stop at their end
 * are the same. Returns no more than bring the open steps to `most`; of its own output nothing. Never throws.
 */
export function parseStepDeclarations(
  text: string,
  existing: readonly string[] = [],
  most: number = MAX_OPEN_STEPS,
): string[] {
  if (!/[[【［]/.test(text)) return [];
  const known = new Set(existing.map(comparableDescription));
  const added: string[] = [];
  for (const line of linesOutsideCode(text)) {
    const description = truncate(declaredDescription(line), PLAN_BOUNDS.description);
    if (description === '' || known.has(comparableDescription(description))) continue;
    if (existing.length + added.length >= most) break;
    known.add(comparableDescription(description));
    added.push(description);
  }
  return added;
}

function declaredDescription(line: string): string {
  const { tag, emphasis, words } = stepDeclarationOf(line) ?? {};
  if (!tag || emphasis === undefined) return '';
  // Emphasis or a bracket opened before the tag closes somewhere after it; neither half belongs to the description.
  const rest = line.slice(tag.end).replace(emphasis, '');
  return words ?? bareDescription(rest);
}

const bareDescription = (text: string): string =>
  withoutTrailingMarkers(text.replace(/^\s*(?:[:：]|[–—-]\s)/, '').trim());

/** The description of a step that was given by a call, as a declared one is written; undefined if `existing` has it. */
export function newDescription(given: string, existing: readonly string[]): string | undefined {
  const description = truncate(bareDescription(given.replace(/\s+/g, ' ')), PLAN_BOUNDS.description);
  const known = existing.map(comparableDescription);
  return description === '' || known.includes(comparableDescription(description)) ? undefined : description;
}

/** `[Step] ok **[Done]**` declares "ok"; the marker is not part of it. */
function withoutTrailingMarkers(description: string): string {
  let end = description.length;
  for (const tag of readTags(description).reverse()) {
    const isLast = /^[*_]*\s*$/.test(description.slice(tag.end, end));
    if (!isLast || !isPlainTag(tag) || !isDoneMarker(tag.inside)) break;
    end = tag.start;
    while (end > 0 && /[\s*_]/.test(description.charAt(end - 1))) end--;
  }
  return description.slice(0, end);
}
