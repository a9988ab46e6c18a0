import * as fs from 'node:fs';
import { join } from 'node:path';
import { UserError } from '../../base/user-error.ts';
import type { RunGuarded } from '../../engine/ports/session-ports.ts';
import type { SessionStore } from '../../engine/ports/store-ports.ts';
import type { Event } from '../../protocol/session/event.ts';
import { isSessionFolder } from '../../protocol/workspace/session-names.ts';
import { readEventLog, readLastEvent } from '../event-log/log-reader.ts';
import { sessionTokens } from '../event-log/log-writers.ts';
import { ensureFolder, ensureFolderDurably, STAGING_MAX_AGE_MS, stagingName, syncFolder } from '../fs/durable-write.ts';
import { type Clocks, cachedRead, readTextOrThrow, statIfExists } from '../fs/file-reads.ts';
import { wrapDiskErrors } from '../fs/store-errors.ts';
import {
  existingRootOf,
  freeName,
  instructionFiles,
  type SessionPaths,
  sessionPaths,
  type WorkspacePaths,
  workspacePaths,
} from '../layout/layout.ts';
import { foldersOfSession, openSessionFolder, type SessionFolderOptions } from '../session/session-folder.ts';

/** A workspace on disk: its sessions, settings and instructions. */
export type Workspace = {
  paths: WorkspacePaths;
  /** Names of all session folders, sorted. Anything else in `.sessions/` is ignored. */
  listSessions(): string[];
  /** Whether there is a session of that name. */
  has(name: string): boolean;
  /**
   * Opens a session for its only writer, which writes as `epoch`. Throws UserError if there is no such session, and
   * `SessionInUse` if it is open. `closedEpoch`: that of the last daemon if it ended in order.
   */
  openSession(
    name: string,
    epoch?: number,
    runGuarded?: RunGuarded,
    more?: Pick<SessionFolderOptions, 'closedEpoch' | 'own'>,
  ): SessionStore;
  /**
   * The last event of a session, read from the end of its event log alone; undefined if there is none, or no such
   * session.
   */
  lastEvent(name: string): Promise<Event | undefined>;
  /** Reads an event log while its writer may be active: an incomplete last line is ignored. */
  readEvents(name: string, each: (event: Event) => void): Promise<void>;
  /** Text of `agentd.json`, undefined if there is none; like those below, read again only if the file changed. */
  configText(): string | undefined;
  /** What `SOUL.md` and `AGENTS.md` (else `CLAUDE.md`) of the workspace say; '' if there is none. */
  instructionsText(): string;
  /** Text of a session's `session.json`; throws UserError if there is no such session. */
  settingsText(name: string): string | undefined;
  /** The same for repeated reads; undefined too if there is no such session. */
  settingsReader(name: string): () => string | undefined;
  /** Reads the `AGENTS.md` (else `CLAUDE.md`) in a session's folder; '' if there is none. */
  instructionsReader(name: string): () => string;
  /**
   * Creates a session, atomically: empty, or with what `fill` puts into its folder durably. Throws UserError if the
   * name is taken, and what `fill` throws; then nothing is left.
   */
  create(name: string, fill?: (folder: string) => Promise<void>): Promise<void>;
  rename(from: string, to: string): Promise<void>;
  /** Moves a session to `.archive/`; returns its path there. */
  archive(name: string): Promise<string>;
  /** Deletes a session with everything in it. */
  remove(name: string): Promise<void>;
  /** Deletes sessions whose creation or removal was cut short, once they are older than any that is still going on. */
  removeUnfinished(now: Date): void;
};

/** Opens a workspace, created (0700) if missing. Throws UserError if others could write to it. */
export function openWorkspace(root: string, options: SessionFolderOptions): Workspace {
  const paths = workspacePaths(root);
  prepareFolders(paths);
  const clocks = { elapsed: () => performance.now(), ...options };

  const tokens = sessionTokens();
  const { isThere, list, existing, free } = sessionFolders(paths);
  const move = async (from: string, to: string) => {
    wrapDiskErrors('move a session to', to, () => fs.renameSync(from, to));
    await syncFolder(paths.sessions);
  };

  return {
    paths,
    listSessions: list,
    has: isThere,
    openSession(name, epoch = options.epoch ?? 1, runGuarded, more) {
      // Child sessions use the work folder and the rules of their root.
      const work = sharedWithRoot(sessionPaths(paths.session(existingRootOf(name, isThere))));
      const folder = existing(name);
      const extra = { epoch, ...more, templates: paths.templates, ...work, ...(runGuarded && { runGuarded }) };
      return openSessionFolder(folder, tokens.take(name), { ...options, ...extra });
    },
    lastEvent: async (name) => readLastEvent(sessionPaths(paths.session(name))),
    async readEvents(name, each) {
      await readEventLog(sessionPaths(existing(name)), each);
    },
    configText: cachedRead(paths.config, clocks, () => readTextOrThrow(paths.config, 'settings as JSON', 'follow')),
    ...instructionReaders(paths, clocks),
    settingsText: (name) => readTextOrThrow(sessionPaths(existing(name)).settings, 'settings as JSON', 'refuse'),
    settingsReader(name) {
      const path = sessionPaths(paths.session(name)).settings;
      return cachedRead(path, clocks, () => readTextOrThrow(path, 'settings as JSON', 'refuse'));
    },
    async create(name, fill) {
      free(name);
      const staged = join(paths.sessions, stagingName());
      try {
        for (const folder of [staged, ...foldersOfSession(staged)]) ensureFolder(folder);
        await fill?.(staged);
        await syncFolder(staged);
        await move(staged, free(name));
      } catch (error) {
        // The name was taken meanwhile, or the disk failed: nothing incomplete stays behind.
        fs.rmSync(staged, { recursive: true, force: true });
        throw error;
      }
    },
    rename: async (from, to) => await move(existing(from), free(to)),
    async archive(name) {
      const source = existing(name);
      ensureFolder(paths.archive);
      const target = join(
        paths.archive,
        freeName(name, (taken) => fs.existsSync(join(paths.archive, taken))),
      );
      await move(source, target);
      await syncFolder(paths.archive);
      return target;
    },
    async remove(name) {
      // Renamed first: a crash half-way leaves no partial session behind.
      const staged = join(paths.sessions, stagingName());
      await move(existing(name), staged);
      wrapDiskErrors('delete', staged, () => fs.rmSync(staged, { recursive: true, force: true }));
    },
    removeUnfinished(now) {
      for (const name of fs.readdirSync(paths.sessions).filter((one) => one.startsWith('.tmp-'))) {
        const staged = join(paths.sessions, name);
        const stat = statIfExists(staged);
        // A rename changes the time of the inode, but not that of the content.
        if (stat?.isDirectory() && now.getTime() - stat.ctimeMs > STAGING_MAX_AGE_MS)
          fs.rmSync(staged, { recursive: true, force: true });
      }
    },
  };
}

/** The session folders of a workspace, by name. */
function sessionFolders(paths: WorkspacePaths) {
  const isThere = (name: string) => isSessionFolder(name) && statIfExists(paths.session(name))?.isDirectory() === true;
  const list = () => fs.readdirSync(paths.sessions).filter(isThere).sort();
  return {
    isThere,
    list,
    /** Path of an existing one. Throws UserError if there is none. */
    existing(name: string): string {
      if (isThere(name)) return paths.session(name);
      throw new UserError(`No session ${JSON.stringify(name)}. Known: ${list().join(', ') || 'none yet'}.`);
    },
    /** Path of one that can be created. Throws UserError if the name is invalid or taken. */
    free(name: string): string {
      if (!isSessionFolder(name)) {
        throw new UserError(
          `${JSON.stringify(name)} cannot be the name of a session folder. Expected one plain name of at most 255 bytes that does not begin with a dot.`,
        );
      }
      if (statIfExists(paths.session(name))) {
        throw new UserError(`There is already a session ${name}. Use another name, or archive that one first.`);
      }
      return paths.session(name);
    },
  };
}

/** Text of a file with instructions for the model; undefined if there is none. Throws UserError. */
export const readInstructions = (path: string, links: 'follow' | 'refuse'): string | undefined =>
  readTextOrThrow(path, 'instructions for the model as text', links);

function instructionReaders(paths: WorkspacePaths, clocks: Clocks) {
  const reader = (path: string, links: 'follow' | 'refuse') =>
    cachedRead(path, clocks, () => readInstructions(path, links) ?? '');
  const firstIn = (folder: string, links: 'follow' | 'refuse') => {
    const [agents, claude] = Object.values(instructionFiles(folder)).map((path) => reader(path, links));
    return () => agents?.() || claude?.() || '';
  };
  const [soul, own] = [reader(paths.soul, 'follow'), firstIn(paths.root, 'follow')];
  return {
    instructionsText: () => [soul(), own()].filter((text) => text.trim() !== '').join('\n\n'),
    instructionsReader: (name: string) => firstIn(paths.session(name), 'refuse'),
  };
}

const sharedWithRoot = ({ work, settings }: SessionPaths) => ({ work, settings });

function prepareFolders(paths: WorkspacePaths): void {
  wrapDiskErrors('make the workspace', paths.root, () => ensureFolderDurably(paths.root));
  const stat = fs.statSync(paths.root);
  if ((stat.mode & 0o022) !== 0) {
    const mode = (stat.mode & 0o777).toString(8);
    throw new UserError(
      `Others may write to the workspace ${paths.root} (mode ${mode}), and messages dropped there are run. Run: chmod 700 ${paths.root}`,
    );
  }
  wrapDiskErrors('make a folder in', paths.root, () => ensureFolderDurably(paths.sessions));
  for (const folder of [paths.sessions, paths.own, paths.schemas]) ensureFolder(folder);
}
