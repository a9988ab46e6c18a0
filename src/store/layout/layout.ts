import { randomInt } from 'node:crypto';
import { join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';
import { rootSessionOf } from '../../protocol/workspace/session-names.ts';

/** Instructions for agents in a folder: `CLAUDE.md` counts where there is no `AGENTS.md`. */
export const instructionFiles = (folder: string) => ({
  instructions: `${folder}/AGENTS.md`,
  otherInstructions: `${folder}/CLAUDE.md`,
});

/** Every path of a workspace. Pure: nothing is read or created. */
export const workspacePaths = (root: string) => ({
  root,
  config: join(root, 'agentd.json'),
  ...instructionFiles(root),
  /** Who the agent is, and who it works for. */
  soul: join(root, 'SOUL.md'),
  user: join(root, 'USER.md'),
  templates: join(root, 'templates'),
  memory: join(root, 'MEMORY.md'),
  /** Folders with skills; of two with one name the first counts. */
  skills: [join(root, 'skills'), join(root, '.agents', 'skills')],
  schedules: join(root, 'schedules'),
  usage: join(root, 'usage'),
  /** Session folders a person archived. */
  archive: join(root, '.archive'),
  sessions: join(root, '.sessions'),
  session: (name: string) => `${root}/.sessions/${name}`,
  /** The daemon's own folder. */
  own: join(root, '.agentd'),
  lock: join(root, '.agentd', 'lock'),
  owner: join(root, '.agentd', 'owner.json'),
  log: join(root, '.agentd', 'daemon.log'),
  /** What the daemon was last started with. */
  started: join(root, '.agentd', 'started.json'),
  /** The token that programs present to `agentctl serve`. */
  token: join(root, '.agentd', 'token'),
  /** Further tokens, each with what its holder may do. */
  tokens: join(root, '.agentd', 'tokens.json'),
  /** For other programs: what the daemon watches, and sessions it cannot serve. */
  status: join(root, '.agentd', 'status.json'),
  /** What is owed and not happening, for other programs. */
  owed: join(root, '.agentd', 'owed.json'),
  /** Logins at MCP servers: their tokens. */
  logins: join(root, '.agentd', 'logins'),
  /** Notices that are still to be delivered, and up to where event logs were read for them. */
  notices: join(root, '.agentd', 'notices'),
  /** Browsers that take notices, and the keys for it. */
  push: join(root, '.agentd', 'push'),
  /** Chat services: who runs each, who may write there, and what was sent. */
  channels: join(root, '.agentd', 'channels'),
  /** Crashed daemons and the sessions that may have caused it. */
  crashes: join(root, '.agentd', 'crashes.json'),
  /** The active session, and the watchdog's note. */
  crashNote: join(root, '.agentd', 'crash-note.json'),
  /** Space reserved for the last events on a full disk. */
  reserve: join(root, '.agentd', 'reserve'),
  /** Socket for the person who has taken over the browser of a session. */
  browserSocket: (session: string) => join(root, '.agentd', `browser-${sha256(session).slice(0, 12)}.sock`),
  schemas: join(root, '.agentd', 'schemas'),
});
export type WorkspacePaths = ReturnType<typeof workspacePaths>;

/** Every path of one session. Pure: nothing is read or created. Called often: a path is built only when it is used. */
export const sessionPaths = (folder: string) => ({
  folder,
  settings: `${folder}/session.json`,
  /** The event log: the current segment, and the rotated ones before it. */
  events: `${folder}/events.jsonl`,
  rotated: `${folder}/events`,
  segment: (number: number) => `${folder}/events/${String(number).padStart(6, '0')}.jsonl`,
  /** The base snapshot for segments that retention removed. */
  base: `${folder}/events/base.json`,
  /** What retention removed. */
  swept: `${folder}/retention.json`,
  /** Bytes cut off the end of the event log at `offset`. */
  torn: (offset: number) => `${folder}/events.torn-${offset}`,
  snapshot: `${folder}/snapshot.json`,
  blobs: `${folder}/blobs`,
  inbox: `${folder}/inbox`,
  /** Where a sender writes before it links the file into the inbox: hidden, on the same file system. */
  inboxStaging: `${folder}/inbox/.tmp`,
  inboxFiles: `${folder}/inbox/.files`,
  /** Created and removed by a program that changed a file outside the inbox, so that the daemon checks the session. */
  wakeFile: `${folder}/inbox/.wake`,
  outbox: `${folder}/outbox`,
  outboxStaging: `${folder}/outbox/.tmp`,
  outboxRead: `${folder}/outbox/read`,
  plan: `${folder}/plan.json`,
  plans: `${folder}/plans`,
  planHistory: `${folder}/plans/history`,
  work: `${folder}/work`,
  /** What `work/` was at moments of the past: manifests, and the contents of files by their hash. */
  checkpoints: `${folder}/checkpoints`,
  checkpoint: (number: number) => `${folder}/checkpoints/${number}.json`,
  checkpointContents: `${folder}/checkpoints/contents`,
  /** One folder for each call that has not ended durably. */
  tools: `${folder}/tools`,
  /** The browser's profile and cookies, if the session used one. */
  browser: `${folder}/browser`,
  /** Exists while the browser runs; contains the daemon's pid. */
  browserRunning: `${folder}/browser/running`,
  /** Calls that wait for a person, and answered ones. */
  approvals: `${folder}/approvals`,
  approvalsAnswered: `${folder}/approvals/answered`,
  /** One folder for each background command. */
  jobs: `${folder}/jobs`,
  live: `${folder}/live`,
  memory: `${folder}/MEMORY.md`,
  /** The project an editor opened the session for. */
  editor: `${folder}/editor.json`,
  done: `${folder}/done`,
  rejected: `${folder}/rejected`,
});
export type SessionPaths = ReturnType<typeof sessionPaths>;

const MAX_NAME_BYTES = 180;
const UNSHOWABLE = /[\p{Cc}\p{Zl}\p{Zp}\u200e\u200f\u202a-\u202e\u2066-\u2069\ufffd]/gu;

/** `.msg.` in a name promises that the file is complete. */
export const isCompleteByName = (raw: Buffer) => raw.includes('.msg.');

export const isJsonName = (name: string) => /\.json$/i.test(name);

/** A file's name as printable text: line breaks, control characters and invalid UTF-8 become `_`. */
export const displayName = (raw: Buffer) => raw.toString().replace(UNSHOWABLE, '_');

/** A printable name made safe as part of a path: a single name of at most 180 bytes that keeps its extension. */
export function safeName(shown: string): string {
  const plain = shown.replaceAll('/', '_').replace(/^(?=[-.])|^$/, '_');
  const [stem, extension] = splitName(plain);
  return truncateToBytes(stem, MAX_NAME_BYTES - Buffer.byteLength(extension)) + extension;
}

/** `x.png`, `x-2.png`, `x-3.png`, …: the first that is free. */
export function freeName(name: string, isTaken: (name: string) => boolean): string {
  const [stem, extension] = splitName(name);
  for (let n = 1; ; n++) {
    // With very many files of one name, a random suffix finds a free name faster than counting.
    const suffix = n === 1 ? '' : `-${n <= 50 ? n : randomInt(2 ** 40)}`;
    if (!isTaken(stem + suffix + extension)) return stem + suffix + extension;
  }
}

/** `x.earlier.md`: the new name of a reply that occupied the name of another one. */
export function supersededName(name: string): string {
  const [stem, extension] = splitName(name);
  return `${truncateToBytes(stem, MAX_NAME_BYTES - Buffer.byteLength(extension))}.earlier${extension}`;
}

/**
 * The position of a file in the inbox order: time in ns, from a ULID at the beginning of a `.msg.` name, else the
 * file's own.
 */
export function inboxOrderOf(raw: Buffer, mtimeNs: bigint): bigint {
  const ulid = isCompleteByName(raw) && /^[0-7][0-9A-HJKMNP-TV-Z]{25}(?=\.)/i.exec(raw.toString('latin1'))?.[0];
  return ulid ? ulidTime(ulid.slice(0, 10)) * 1_000_000n : mtimeNs;
}

/** Throws only in case of a bug, since reply names are derived from checked names. */
export function assertReplyName(name: string): void {
  const isPlain = name !== '' && !name.startsWith('.') && !/[/\0]/.test(name) && Buffer.byteLength(name) <= 255;
  if (!isPlain) throw new Error(`Not a valid reply name: ${JSON.stringify(name)}`);
}

const ulidTime = (text: string) =>
  [...text.toUpperCase()].reduce((sum, c) => sum * 32n + BigInt('0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(c)), 0n);

function splitName(name: string): [string, string] {
  const extension = /(?<=.)(?:\.msg)?\.[A-Za-z0-9]{1,12}$/.exec(name)?.[0] ?? '';
  return [name.slice(0, name.length - extension.length), extension];
}

function truncateToBytes(text: string, max: number): string {
  let [bytes, kept] = [0, ''];
  for (const char of text) {
    bytes += Buffer.byteLength(char);
    if (bytes > max) break;
    kept += char;
  }
  return kept;
}

/** The parent of this session; undefined if it is not a child. */
export function parentSessionOf(name: string): string | undefined {
  const at = name.lastIndexOf('~');
  return at > 0 ? name.slice(0, at) : undefined;
}

/** The session whose settings, `work/` and memory this one uses: the root of its family, as long as that exists. */
export function existingRootOf(name: string, exists: (session: string) => boolean): string {
  const root = rootSessionOf(name);
  return root !== '' && (root === name || exists(root)) ? root : name;
}

/** Names of files in an inbox that are never messages, and what they look like: parts, copies and traces of others. */
const IGNORED: ReadonlyArray<{ looks: string; names: RegExp }> = [
  { looks: 'hidden', names: /^\./ },
  {
    looks: 'an unfinished upload or download',
    names:
      /\.(?:part|partial|filepart|crdownload|download|opdownload|fdmdownload|dtapart|upload|uploading|driveupload|driveupload-incomplete|gstmp|aria2|writing|incomplete|inprogress|cyberducksegment|xltd|!(?:qb|ut|bt|sync)|(?:bc|jc|ut)!)$/,
  },
  {
    looks: "an editor's temporary file",
    names: /^#.*#$|^~\$|^4913$|\.(?:tmp|temp|sw[a-p]|swx|kate-swp|lock|crswap)$|___jb_(?:tmp|old|bak)___$/s,
  },
  {
    looks: 'a backup',
    names:
      /~$|\.(?:bak|backup|old|orig|rej|save|dpkg-(?:old|new|dist|tmp|bak)|rpm(?:save|new|orig)|ucf-(?:old|new|dist))(?:[.-]?\d+)?$/,
  },
  {
    looks: 'a conflict copy of a sync program',
    names: /\.sync-conflict-\d|[_-]conflict-\d|\([^()]*(?:conflicted copy|case conflict)[^()]*\)/,
  },
  { looks: 'a file of the desktop', names: /^(?:thumbs\.db|ehthumbs\.db|desktop\.ini|icon\r)$/ },
];

/** What a file in the inbox looks like if its name says that it is no message; undefined if it may be one. */
export function looksIgnored(raw: Buffer): string | undefined {
  const name = raw.toString('latin1').toLowerCase();
  return IGNORED.find(({ names }) => names.test(name))?.looks;
}

export const isIgnoredName = (raw: Buffer): boolean => looksIgnored(raw) !== undefined;

/** `looks`: what the file looks like, with its article. */
export type IgnoredFile = { name: string; looks: string };

/** Of these names, those that are ignored and not hidden, with what they look like: somebody may wait for an answer. */
export const listIgnored = (names: readonly Buffer[]): IgnoredFile[] =>
  names.flatMap((raw) => {
    const looks = looksIgnored(raw);
    return looks === undefined || looks === 'hidden' ? [] : [{ name: raw.toString(), looks }];
  });
