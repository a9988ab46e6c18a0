import { createHash } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import { z } from 'zod';
import { createPacer } from '../../base/async.ts';
import { propertyOf } from '../../base/collections.ts';
import { parseJsonOrWhy } from '../../base/json.ts';
import { UserError } from '../../base/user-error.ts';
import { CheckpointEntry, Manifest } from '../../protocol/session/checkpoint.ts';
import { placeNewFile, stagingName } from '../fs/durable-write.ts';
import { listNames } from '../fs/file-reads.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { keyOf, type WorkState } from './work-state.ts';

/** Longest time the event loop is kept busy. */
export const SLICE_MS = 5;

export type ManifestHeader = Omit<Manifest, 'entries' | 'sha256'>;
const Header = Manifest.omit({ entries: true, sha256: true });
const Body = z.object({ entries: z.array(z.unknown()), sha256: z.string() });

/** Numbers of the manifests in a session's `checkpoints/`, ascending. */
export const listCheckpoints = ({ checkpoints }: Pick<SessionPaths, 'checkpoints'>): number[] =>
  listNames(checkpoints)
    .flatMap((name) => /^([1-9]\d{0,14})\.json$/.exec(name)?.[1] ?? [])
    .map(Number)
    .sort((a, b) => a - b);

/** Writes a manifest under its number, whole and durable. False if the number is taken. */
export async function writeManifest(
  paths: SessionPaths,
  header: ManifestHeader,
  entries: Iterable<CheckpointEntry>,
  signal: AbortSignal,
): Promise<boolean> {
  const pace = createPacer(SLICE_MS, signal);
  const lines: string[] = [];
  const sum = createHash('sha256');
  for (const entry of entries) {
    const line = JSON.stringify(entry);
    lines.push(line);
    sum.update(`${line}\n`);
    await pace();
  }
  const body = lines.join(',\n');
  const head = JSON.stringify(header, null, 1).slice(0, -2);
  const text = `${head},\n "entries": [\n${body}\n ],\n "sha256": "${sum.digest('hex')}"\n}\n`;
  const staging = `${paths.checkpoints}/${stagingName()}`;
  return placeNewFile(staging, paths.checkpoint(header.checkpoint), text);
}

export type SavedWork = { header: ManifestHeader; state: WorkState };

/**
 * Reads the manifest of a checkpoint. Throws UserError that says what is wrong if it is missing, of a newer version, no
 * manifest, or changed by hand.
 */
export async function readManifest(
  paths: SessionPaths,
  number: number,
  signal: AbortSignal = new AbortController().signal,
): Promise<SavedWork> {
  const path = paths.checkpoint(number);
  const text = await readFile(path, 'utf8').catch(() => undefined);
  if (text === undefined) throw new UserError(`There is no checkpoint ${number}${keptOnes(paths)}`);
  const json = parseJsonOrWhy(text);
  const fault = (what: string): UserError =>
    new UserError(
      `${path} cannot be used: ${what} Checkpoints are not edited; copy what you need from ${paths.checkpointContents}.`,
    );
  if (!json.ok) throw fault(`it is no JSON (${json.why}).`);
  const version = propertyOf(json.value, 'version');
  if (typeof version === 'number' && version > 1)
    throw fault(`it has version ${version}, and this agentd reads version 1. Update agentd.`);
  const [header, body] = [Header.safeParse(json.value), Body.safeParse(json.value)];
  if (!header.success || header.data.checkpoint !== number || !body.success)
    throw fault(`expected the manifest of checkpoint ${number}, found something else.`);
  const pace = createPacer(SLICE_MS, signal);
  const state: WorkState = { entries: new Map(), leftOut: header.data.left_out };
  const sum = createHash('sha256');
  for (const [n, raw] of body.data.entries.entries()) {
    const entry = CheckpointEntry.safeParse(raw);
    if (!entry.success || !isSafeKey(keyOf(entry.data)))
      throw fault(`entry ${n + 1} is none: ${JSON.stringify(raw).slice(0, 200)}.`);
    sum.update(`${JSON.stringify(raw)}\n`);
    state.entries.set(keyOf(entry.data), entry.data);
    await pace();
  }
  if (sum.digest('hex') !== body.data.sha256)
    throw fault('its checksum does not match its entries, so somebody changed it.');
  return { header: header.data, state };
}

/** Whether a path stays below the folder. */
const isSafeKey = (key: string): boolean =>
  key.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0'));

function keptOnes(paths: SessionPaths): string {
  const known = listCheckpoints(paths);
  if (known.length === 0) return ': none is kept of this session.';
  return `; kept are ${known.length > 12 ? `${known[0]} to ${known.at(-1)}, not all of them` : known.join(', ')}.`;
}
