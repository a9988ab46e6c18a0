import * as fs from 'node:fs';
import { join } from 'node:path';
import type { SessionStore } from '../engine/ports.ts';
import { UserError } from '../protocol/errors.ts';
import type { Event } from '../protocol/event.ts';
import { isSessionFolder } from '../protocol/names.ts';
import { makeDurably, ownFolder, stagingName, syncFolder } from './durable.ts';
import { saying } from './errors.ts';
import { rootOf } from './family-names.ts';
import { lastEventOf } from './last-event.ts';
import { type SessionPaths, sessionPaths, type WorkspacePaths, workspacePaths } from './layout.ts';
import { freeName } from './names.ts';
import { readRecord } from './record.ts';
import { foldersOf, openSessionFolder, type SessionOptions } from './session-folder.ts';
import { sessionTokens } from './session-token.ts';
import { ofFile, statAt } from './there.ts';
import { rereading } from './unchanged.ts';

const MAX_SETTINGS_BYTES = 1024 * 1024;

export type Workspace = {
  paths: WorkspacePaths;
  /** Names of all session folders, sorted. Anything else in `.sessions/` is left alone. */
  sessions(): string[];
  /** Whether there is a session of that name. */
  has(name: string): boolean;
  /** Opens a session for its only writer, which writes as `epoch`. Throws UserError where there is none of that name, and `SessionInUse` where it is open. */
  session(name: string, epoch?: number): SessionStore;
  /** The last event of a session's record, read from the end of the file alone; undefined where there is none, or no such session. */
  lastEvent(name: string): Promise<Event | undefined>;
  /** Reads a record as anybody may, while its writer is at work: an unfinished last line is left alone and not told. */
  events(name: string, each: (event: Event) => void): Promise<void>;
  /** Text of `agentd.json`, undefined where there is none; like those below, read again only where its file changed. */
  configText(): string | undefined;
  /** Text of the workspace's `AGENTS.md`. */
  instructionsText(): string | undefined;
  /** Text of a session's `session.json`; throws UserError where there is no such session. */
  settingsText(name: string): string | undefined;
  /** The same for whoever asks again and again. */
  settings(name: string): () => string | undefined;
  /** Makes an empty session, whole or not at all. Throws UserError where the name is taken. */
  create(name: string): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Puts a session away to `.archive/`; returns its path there. */
  archive(name: string): Promise<string>;
  /** Deletes a session with everything in it. */
  remove(name: string): Promise<void>;
};

/** Opens a workspace, made (0700) if missing. Throws UserError where others could write to it. */
export function openWorkspace(root: string, options: SessionOptions): Workspace {
  const paths = workspacePaths(root);
  prepare(paths);
  const clocks = { elapsed: () => performance.now(), ...options };

  const tokens = sessionTokens();
  const isThere = (name: string) => isSessionFolder(name) && statAt(paths.session(name))?.isDirectory() === true;
  const sessions = () => fs.readdirSync(paths.sessions).filter(isThere).sort();
  const known = (name: string): string => {
    if (isThere(name)) return paths.session(name);
    throw new UserError(`No session ${JSON.stringify(name)}. Known: ${sessions().join(', ') || 'none yet'}.`);
  };
  const free = (name: string): string => {
    if (!isSessionFolder(name)) {
      throw new UserError(
        `${JSON.stringify(name)} cannot be the name of a session folder. Wanted one plain name of at most 255 bytes that does not begin with a dot.`,
      );
    }
    if (statAt(paths.session(name))) {
      throw new UserError(`There is a session ${name} already. Use another name, or archive that one first.`);
    }
    return paths.session(name);
  };
  const move = async (from: string, to: string) => {
    saying('move a session to', to, () => fs.renameSync(from, to));
    await syncFolder(paths.sessions);
  };

  return {
    paths,
    sessions,
    has: isThere,
    session(name, epoch = options.epoch ?? 1) {
      // A family works in one folder and by one set of rules: those of its root, as long as there is one.
      const root = rootOf(name);
      const work = root !== name && isThere(root) ? familyOf(sessionPaths(paths.session(root))) : {};
      const folder = known(name);
      return openSessionFolder(folder, tokens.take(name), { ...options, epoch, templates: paths.templates, ...work });
    },
    lastEvent: async (name) => lastEventOf(sessionPaths(paths.session(name))),
    async events(name, each) {
      await readRecord(sessionPaths(known(name)), each);
    },
    configText: rereading(paths.config, clocks, () => readSmallText(paths.config, 0)),
    instructionsText: rereading(paths.instructions, clocks, () => readSmallText(paths.instructions, 0)),
    settingsText: (name) => readSmallText(sessionPaths(known(name)).settings, fs.constants.O_NOFOLLOW),
    settings(name) {
      const path = sessionPaths(paths.session(name)).settings;
      const text = rereading(path, clocks, () => readSmallText(path, fs.constants.O_NOFOLLOW));
      return () => {
        known(name);
        return text();
      };
    },
    async create(name) {
      const target = free(name);
      const staged = join(paths.sessions, stagingName());
      try {
        for (const folder of [staged, ...foldersOf(staged)]) ownFolder(folder);
        await syncFolder(staged);
        await move(staged, target);
      } catch (error) {
        // The name was taken meanwhile, or the disk said no: nothing half-made stays behind.
        fs.rmSync(staged, { recursive: true, force: true });
        throw error;
      }
    },
    rename: async (from, to) => await move(known(from), free(to)),
    async archive(name) {
      const source = known(name);
      ownFolder(paths.archive);
      const target = join(
        paths.archive,
        freeName(name, (taken) => fs.existsSync(join(paths.archive, taken))),
      );
      await move(source, target);
      await syncFolder(paths.archive);
      return target;
    },
    async remove(name) {
      // Under another name first: a crash half-way leaves no half session behind.
      const doomed = join(paths.sessions, stagingName());
      await move(known(name), doomed);
      saying('delete', doomed, () => fs.rmSync(doomed, { recursive: true, force: true }));
    },
  };
}

const familyOf = ({ work, settings }: SessionPaths) => ({ work, settings });

function prepare(paths: WorkspacePaths): void {
  saying('make the workspace', paths.root, () => makeDurably(paths.root));
  const stat = fs.statSync(paths.root);
  if ((stat.mode & 0o022) !== 0) {
    const mode = (stat.mode & 0o777).toString(8);
    throw new UserError(
      `Others may write to the workspace ${paths.root} (mode ${mode}), and what is dropped there is run. Run: chmod 700 ${paths.root}`,
    );
  }
  saying('make a folder in', paths.root, () => makeDurably(paths.sessions));
  for (const folder of [paths.sessions, paths.own, paths.schemas]) ownFolder(folder);
}

function readSmallText(path: string, flags: number): string | undefined {
  return saying('read', path, () =>
    ofFile(path, () => {
      const fd = fs.openSync(path, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK | flags);
      try {
        const stat = fs.fstatSync(fd);
        if (stat.isFile() && stat.size <= MAX_SETTINGS_BYTES) return fs.readFileSync(fd, 'utf8');
        throw new UserError(
          `${path} must be a file of at most 1 MiB with settings as JSON. Put one there, or remove it.`,
        );
      } finally {
        fs.closeSync(fd);
      }
    }),
  );
}
