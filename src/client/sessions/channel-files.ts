import { randomInt } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../base/sha256.ts';
import { InvalidArgument, UserError } from '../../base/user-error.ts';
import {
  ChannelConversation,
  type ChannelDeadLetter,
  ChannelMark,
  ChannelPeople,
  type ChannelPerson,
  ChannelState,
  type PairingCode,
  PairingCodes,
} from '../../protocol/settings/channels.ts';
import { ensureFolderDurably, replaceFile } from '../../store/fs/durable-write.ts';
import { listNames, readJsonFile } from '../../store/fs/file-reads.ts';
import type { WorkspacePaths } from '../../store/layout/layout.ts';
import { currentProcess, isProcessAlive, openLockFile, tryLockFile } from '../../store/workspace/owner-file.ts';

/** Without letters and digits that look alike. */
const CODE_SIGNS = 'ABCDEFGHJKMNPQRSTVWXYZ23456789';
const CODE_LENGTH = 8;
const CODE_LIFE_MS = 3_600_000;
/** So many strangers may hold a code at once: more are not answered. */
const MAX_CODES = 20;
const MAX_DEAD = 200;

/** The files of a channel in `.agentd/channels/<name>/`. Nothing is created before something is written. */
export type ChannelFiles = {
  state(): ChannelState | undefined;
  writeState(state: ChannelState): Promise<void>;
  /** The place in the service's messages up to which all are durably in inboxes; undefined: from the beginning. */
  readMark(): unknown;
  writeMark(mark: unknown): Promise<void>;
  people(): ChannelPerson[];
  /** Makes the account with this code a sender. Throws UserError if there is no such code, or the name is taken. */
  pair(code: string, as: { name: string | undefined; role: ChannelPerson['role'] }, now: Date): Promise<ChannelPerson>;
  /** Throws UserError if there is nobody of that name. */
  unpair(name: string): Promise<void>;
  /** Codes that are valid and not used. */
  codes(now: Date): PairingCode[];
  /** A code for an account; undefined if it has one already, or too many have. */
  newCode(account: { id: string; label: string }, now: Date): Promise<PairingCode | undefined>;
  conversations(): ChannelConversation[];
  writeConversation(conversation: ChannelConversation): Promise<void>;
  /** What a service notes of a conversation, in its own terms; undefined if there is nothing. */
  readRecord(conversation: string): unknown;
  writeRecord(conversation: string, content: object): Promise<void>;
  /** Keeps what cannot be delivered; of these the newest stay. */
  bury(letter: Omit<ChannelDeadLetter, 'version' | 'at'>, now: Date): Promise<void>;
  /** Paths, oldest first. */
  deadLetters(): string[];
  /** Holds the channel until released, or this process ends. Throws UserError if another process holds it. */
  lock(): () => void;
};

/** Opens the files of the channel of that name. */
export function openChannelFiles(paths: WorkspacePaths, name: string): ChannelFiles {
  const folder = join(paths.channels, name);
  const at = (...parts: string[]) => join(folder, ...parts);
  const save = async (into: string, file: string, content: object, durable = true): Promise<void> => {
    ensureFolderDurably(into);
    await replaceFile(join(into, file), `${JSON.stringify(content, null, 1)}\n`, { durable });
  };
  const people = () => readJsonFile(at('people.json'), ChannelPeople)?.people ?? [];
  const savePeople = (all: ChannelPerson[]) => save(folder, 'people.json', { version: 1, people: all });
  const codes = (now: Date) => {
    const paired = new Set(people().map(({ id }) => id));
    const all = readJsonFile(at('codes.json'), PairingCodes)?.codes ?? [];
    return all.filter(({ id, until }) => Date.parse(until) > now.getTime() && !paired.has(id));
  };
  return {
    state: () => readJsonFile(at('state.json'), ChannelState),
    writeState: (state) => save(folder, 'state.json', state, false),
    readMark: () => readJsonFile(at('mark.json'), ChannelMark)?.mark,
    writeMark: (mark) => save(folder, 'mark.json', { version: 1, mark }),
    people,
    async pair(code, { name: wanted, role }, now) {
      const found = codes(now).find((one) => one.code === code.toUpperCase().replace(/[\s-]/g, ''));
      if (!found)
        throw new UserError(
          `No code ${JSON.stringify(code)} waits in ${name}. A code is told to an account that writes to the bot, and is valid for an hour.`,
        );
      const given = wanted ?? `${name}-${found.id.replace(/[^\p{L}\p{N}._-]+/gu, '-').replace(/^-+/, '')}`;
      const checked = ChannelPeople.safeParse({
        version: 1,
        people: [{ id: found.id, name: given, role, since: now.toISOString() }],
      });
      const [person] = checked.data?.people ?? [];
      if (!person) throw new InvalidArgument(`Nobody was paired: ${checked.error?.issues[0]?.message}.`);
      if (people().some((one) => one.name === person.name))
        throw new UserError(`There is already somebody named ${given} in ${name}. Choose another one with --name.`);
      await savePeople([...people(), person]);
      return person;
    },
    async unpair(wanted) {
      const known = people();
      const rest = known.filter((one) => one.name !== wanted);
      if (rest.length === known.length)
        throw new UserError(`There is nobody named ${JSON.stringify(wanted)} in ${name}. See: agentctl channel status`);
      await savePeople(rest);
    },
    codes,
    async newCode({ id, label }, now) {
      const valid = codes(now);
      if (valid.length >= MAX_CODES || valid.some((one) => one.id === id)) return undefined;
      const signs = Array.from({ length: CODE_LENGTH }, () => CODE_SIGNS[randomInt(CODE_SIGNS.length)]);
      const until = new Date(now.getTime() + CODE_LIFE_MS).toISOString();
      const code = { code: signs.join(''), id, label: label.slice(0, 100), until };
      await save(folder, 'codes.json', { version: 1, codes: [...valid, code] });
      return code;
    },
    conversations: () =>
      listNames(at('conversations')).flatMap(
        (file) => (file.endsWith('.json') && readJsonFile(at('conversations', file), ChannelConversation)) || [],
      ),
    writeConversation: (one) => save(at('conversations'), `${fileNameOf(one.session)}.json`, one),
    readRecord: (key) => readJsonFile(at('records', `${fileNameOf(key)}.json`), ChannelMark.shape.mark),
    writeRecord: (key, content) => save(at('records'), `${fileNameOf(key)}.json`, content),
    async bury(letter, now) {
      const file = `${now.toISOString().replace(/\D/g, '')}-${fileNameOf(letter.id)}.json`;
      await save(at('dead'), file, { ...letter, version: 1, at: now.toISOString() });
      const old = listNames(at('dead')).sort().slice(0, -MAX_DEAD);
      for (const one of old) fs.rmSync(at('dead', one), { force: true });
    },
    deadLetters: () =>
      listNames(at('dead'))
        .sort()
        .map((file) => at('dead', file)),
    lock: () => lockChannel(paths, name, folder),
  };
}

function lockChannel(paths: WorkspacePaths, name: string, folder: string): () => void {
  ensureFolderDurably(folder);
  const fd = openLockFile({ ...paths, lock: join(folder, 'lock') });
  if (tryLockFile(fd).is !== 'held') return () => fs.closeSync(fd);
  fs.closeSync(fd);
  const pid = readJsonFile(join(folder, 'state.json'), ChannelState)?.pid;
  throw new UserError(`The channel ${name} is run by another process already${pid ? `: ${pid}` : ''}.`);
}

/** Two texts never share a name: one that is long, or has other signs, ends in a hash. */
function fileNameOf(text: string): string {
  const plain = text.replace(/[^\p{L}\p{N}._=~-]/gu, '_');
  const hash = () => sha256(text).slice(0, 16);
  return plain === text && text.length <= 80 ? text : `${plain.slice(0, 60)}-${hash()}`;
}

/** The state of a channel that begins to run in this process. */
export const newChannelState = (now: Date, before: ChannelState | undefined): ChannelState => ({
  ...{ heard_at: null, received_at: before?.received_at ?? null, sent_at: before?.sent_at ?? null },
  ...{ ...currentProcess(now), stopped_at: null, fault: null },
});

/** For so long a service may not answer before its channel counts as deaf, in ms. */
const DEAF_MS = 300_000;

/** How a channel is. `ended`: its process is gone without having stopped. */
export type ChannelCondition = {
  name: string;
  is: 'new' | 'running' | 'deaf' | 'stopped' | 'ended';
  /** Since when it is deaf or has ended, ISO 8601. */
  since: string | null;
  state: ChannelState | undefined;
  dead: number;
};

/** How a channel is, from its files. */
export function readChannelCondition(paths: WorkspacePaths, name: string, now: Date): ChannelCondition {
  const files = openChannelFiles(paths, name);
  const state = files.state();
  const all = { name, state, dead: files.deadLetters().length, since: null };
  if (!state) return { ...all, is: 'new' };
  if (state.stopped_at !== null) return { ...all, is: 'stopped' };
  const heard = state.heard_at ?? state.at;
  if (!isProcessAlive(state)) return { ...all, is: 'ended', since: heard };
  return now.getTime() - Date.parse(heard) > DEAF_MS ? { ...all, is: 'deaf', since: heard } : { ...all, is: 'running' };
}

/** How each channel is that has run or is to run. */
export const readChannelConditions = (paths: WorkspacePaths, now: Date): ChannelCondition[] =>
  listNames(paths.channels).map((name) => readChannelCondition(paths, name, now));
