import { lstatSync, readFileSync } from 'node:fs';
import { truncate } from '../../base/strings.ts';
import { RejectionReason } from '../../protocol/session/message.ts';
import { listNames, readJsonFile, statIfExists } from '../../store/fs/file-reads.ts';
import { parseMessage } from '../../store/inbox/dropped-file.ts';
import { isIgnoredName, type SessionPaths } from '../../store/layout/layout.ts';
import { folderProblem } from './session-folders.ts';

/** `file`: its name in `rejected/`. */
export type RejectedFile = RejectionReason & { file: string };

/** A message that has not been taken yet, as far as it is shown. */
export type WaitingMessage = { text: string; from: string | null };
const MAX_SHOWN = { messages: 10, bytes: 65_536, chars: 2000 };

/** The first messages that wait, in the order of their names; files that are no messages are left out. */
export function readWaitingMessages({ inbox }: SessionPaths): WaitingMessage[] {
  if (folderProblem(inbox) !== null) return [];
  return listNames(inbox)
    .filter((name) => !isIgnoredName(Buffer.from(name)))
    .sort()
    .slice(0, MAX_SHOWN.messages)
    .flatMap((name) => messageIn(name, `${inbox}/${name}`) ?? []);
}

function messageIn(name: string, path: string): WaitingMessage | undefined {
  try {
    const stat = lstatSync(path);
    const read = stat.isFile() && stat.size <= MAX_SHOWN.bytes ? parseMessage(name, readFileSync(path)) : null;
    if (!read?.ok) return undefined;
    const { text = '', command, from = null } = read.message;
    return { text: truncate([command && `/${command}`, text].filter(Boolean).join(' '), MAX_SHOWN.chars), from };
  } catch {
    return undefined;
  }
}

const REASON_ENDING = '.why.json';
const MAX_REJECTED_SHOWN = 3;
/** With more files than this, only their number is given: the page reads it several times a second. */
const MAX_REJECTED_COMPARED = 2000;

/** A file that a person took away to correct it is not counted, although its reason stays. */
export function readRejectedFiles(folder: string): { total: number; newest: RejectedFile[] } {
  if (folderProblem(folder) !== null) return { total: 0, newest: [] };
  const names = new Set(listNames(folder));
  const files = [...names].filter((name) => names.has(name + REASON_ENDING));
  if (files.length > MAX_REJECTED_COMPARED) return { total: files.length, newest: [] };
  const changed = new Map(files.map((file) => [file, statIfExists(`${folder}/${file}${REASON_ENDING}`)?.mtimeMs ?? 0]));
  const newest = files
    .sort((one, other) => (changed.get(other) ?? 0) - (changed.get(one) ?? 0))
    .slice(0, MAX_REJECTED_SHOWN)
    .flatMap((file): RejectedFile[] => {
      const data = readJsonFile(`${folder}/${file}${REASON_ENDING}`, RejectionReason);
      return data ? [{ ...data, file }] : [];
    })
    // Files that arrived within a few milliseconds may have the same timestamp.
    .sort((one, other) => (one.at < other.at ? 1 : one.at > other.at ? -1 : 0));
  return { total: files.length, newest };
}
