import { basename } from 'node:path';
import { errorText, UserError } from '../base/user-error.ts';
import { createSearchRanking } from '../core/text/content-words.ts';
import type { SessionPorts } from '../engine/ports/session-ports.ts';
import type { Config, SharingScope } from '../protocol/settings/config.ts';
import type { EffectiveSettings } from '../protocol/settings/effective-settings.ts';
import { isInReach } from '../protocol/workspace/daemon-files.ts';
import type { Notes } from '../protocol/workspace/memory-notes.ts';
import { rootSessionOf } from '../protocol/workspace/session-names.ts';
import {
  checkSettings,
  existingRootOf,
  instructionFiles,
  openMemoryFile,
  readInstructions,
  readSearchCorpus,
  readSessionWords,
  type SkillStore,
  sessionPaths,
  type Workspace,
} from '../store/index.ts';
import type { BuiltinOptions } from '../tools/index.ts';

/** How long a search may take, in ms; it then returns what it has found. */
const SEARCH_MS = 5000;
/** Log messages that are remembered so that each is logged once. */
const MAX_REMEMBERED = 1000;

type ScopedSetting = 'memory' | 'recall';

export type SessionNotesOptions = {
  workspace: Pick<Workspace, 'paths' | 'has'>;
  /** The settings of this session as they are now. */
  effective: () => EffectiveSettings;
  config: () => Config;
  skills: SkillStore;
  clock: SessionPorts['clock'];
  warnOnce: (text: string) => void;
};

/** Memory, skills and search of one session: as shown to the model, and as used by its tools. */
export function openSessionNotes(
  name: string,
  { workspace, effective, config, skills, clock, warnOnce }: SessionNotesOptions,
): { current: () => Notes; tools: NonNullable<BuiltinOptions['notes']> } {
  // A root and its child sessions share one memory, as they share one work folder.
  const root = existingRootOf(name, workspace.has);
  const own = openMemoryFile(sessionPaths(workspace.paths.session(root)).memory, clock.now);
  const shared = openMemoryFile(workspace.paths.memory, clock.now);
  const { work } = sessionPaths(workspace.paths.session(root));
  const reach = (topic: ScopedSetting): SharingScope => effective().settings[topic] ?? 'workspace';

  /** An unreadable file does not stop a run. */
  const read = (ask: () => string | undefined): string => {
    try {
      return ask() ?? '';
    } catch (error) {
      warnOnce(`left out of the prompt: ${errorText(error)}`);
      return '';
    }
  };

  return {
    current() {
      const memory = reach('memory');
      const { skills: found, broken } = skills.list();
      for (const why of broken) warnOnce(why);
      return {
        memory: {
          workspace: memory === 'workspace' ? read(shared.read) : '',
          session: memory === 'off' ? '' : read(own.read),
        },
        user: memory === 'workspace' ? read(() => readInstructions(workspace.paths.user, 'follow')) : '',
        project: projectIn(work, read),
        skills: found,
        withheldTools: [
          ...(memory === 'off' ? ['remember'] : []),
          ...(reach('recall') === 'off' ? ['recall'] : []),
          ...(found.length === 0 ? ['skill'] : []),
        ],
      };
    },
    tools: {
      skills,
      async remember(text, scope, sessions) {
        const memory = reach('memory');
        if (memory === 'off') throw new UserError('Nothing is remembered here: the setting `memory` is "off".');
        if (scope === 'workspace' && memory === 'session') {
          throw new UserError('Only this session may be written to here: the setting `memory` is "session".');
        }
        if (scope === 'workspace' && sessions.length > 0)
          throw new UserError('Only this session may be written to here: its sender may not see all sessions.');
        return (scope === 'workspace' ? shared : own).add(text);
      },
      async recall(query, { limit, signal, reach: sessions }) {
        const how = reach('recall');
        if (how === 'off') throw new UserError('Nothing is searched here: the setting `recall` is "off".');
        const ranks = createSearchRanking(query);
        if (ranks.wordCount === 0)
          throw new UserError(
            'Expected words that say what it was about, got none that are rare enough. Use more specific words.',
          );
        const ours = (session: string) => session === name || rootSessionOf(session) === root;
        const among = (session: string) => ours(session) || (how === 'workspace' && isInReach(sessions, session));
        const may = (session: string, settings: string | undefined) =>
          ours(session) || isSearchable(settings, config().recall);
        const reading = { among, may, signal, elapsed: clock.elapsed, ms: SEARCH_MS };
        await readSessionWords({ session: name, folder: workspace.paths.session(name) }, reading, ranks.add);
        const searched = await readSearchCorpus(
          workspace.paths,
          reading,
          // What these sessions work on is already in front of the model.
          (writing) => (writing.running && ours(writing.session) ? undefined : ranks.add(writing)),
        );
        return { ...searched, found: ranks.top(limit) };
      },
    },
  };
}

/** Whoever works there may have put something else in its place: no link leads out of the folder. */
function projectIn(folder: string, read: (ask: () => string | undefined) => string): Notes['project'] {
  const files = Object.values(instructionFiles(folder));
  const texts = files.map((path) => ({ file: basename(path), text: read(() => readInstructions(path, 'refuse')) }));
  return texts.find(({ text }) => text.trim() !== '');
}

/** What the settings of another session say about a topic. Unreadable settings may have forbidden everything. */
function scopeIn(settings: string | undefined, topic: ScopedSetting): SharingScope | undefined {
  if (settings === undefined) return undefined;
  try {
    return checkSettings(settings, 'session.json').value[topic];
  } catch {
    return 'session';
  }
}

/** Whether others may search a session, by its settings or else by those of the workspace. */
function isSearchable(settings: string | undefined, standing: SharingScope = 'workspace'): boolean {
  return (scopeIn(settings, 'recall') ?? standing) === 'workspace';
}

/** Logs each message once, whichever session reports it. */
export function logEachOnce(say: (text: string) => void): (text: string) => void {
  const seen = new Set<string>();
  return (text) => {
    if (seen.has(text)) return;
    if (seen.size >= MAX_REMEMBERED) seen.clear();
    seen.add(text);
    say(text);
  };
}
