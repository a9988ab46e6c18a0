import { PLAN_BOUNDS } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import { DECLARATION } from './completion/brackets.ts';
import { isMarkerWord } from './completion/markers.ts';
import { linesOutsideCode } from './text/prose.ts';

/** More steps than this are no plan a person can follow. */
export const MAX_STEPS = 50;

const TRAILING_TAG = /\s*[*_]*(?:\[([^[\]]*)\]|【([^【】]*)】|［([^［］]*)］)[*_]*\s*$/;

/**
 * Descriptions of the steps a text declares by lines such as `[Step] Draw the chart`, in order, without those in
 * `existing` (the open steps of the plan). Case and inner space do not make two descriptions different. At most as many
 * as bring the open steps to `most`. Never throws; its own output given back as `existing` leaves nothing to add.
 */
export function parseStepDeclarations(
  text: string,
  existing: readonly string[] = [],
  most: number = MAX_STEPS,
): string[] {
  if (!/[[【［]/.test(text)) return [];
  const known = new Set(existing.map(folded));
  const added: string[] = [];
  for (const line of linesOutsideCode(text)) {
    const description = clip(declaredBy(line), PLAN_BOUNDS.description);
    if (description === '' || known.has(folded(description))) continue;
    if (existing.length + added.length >= most) break;
    known.add(folded(description));
    added.push(description);
  }
  return added;
}

function declaredBy(line: string): string {
  const tag = DECLARATION.exec(line);
  if (!tag) return '';
  const emphasis = tag[1] ?? '';
  // What opened before the tag closes somewhere after it; neither half belongs to the description.
  const rest = line.slice(tag[0].length).replace(emphasis, '');
  return withoutMarkers(rest.replace(/^\s*(?:[:：]|[–—-]\s)/, '').trim());
}

/** `[Step] ok [Done]` declares "ok"; the marker is no part of it. */
function withoutMarkers(description: string): string {
  const [tail, ...insides] = TRAILING_TAG.exec(description) ?? [''];
  const inside = insides
    .find((part) => part !== undefined)
    ?.trim()
    .toLowerCase()
    .replace(/\s+/g, ' ');
  if (inside === undefined || !isMarkerWord(inside)) return description;
  return withoutMarkers(description.slice(0, description.length - tail.length).trim());
}

const folded = (description: string): string => description.normalize('NFC').toLowerCase().replace(/\s+/g, ' ').trim();
