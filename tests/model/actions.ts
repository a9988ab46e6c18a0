import { sessionPaths } from '../../src/store/index.ts';
import { workspacePaths } from '../../src/store/layout/layout.ts';

/** One message somebody dropped. Names never repeat, so a reply has the name of its message. */
export type Dropped = { name: string; content: string; isMessage: boolean };

/** What people did to one session since its folder was made; forgotten when the folder is removed. */
export type SessionHistory = {
  dropped: Dropped[];
  /** A word each save of `plan.json` brought in; it must not get lost. */
  tokens: string[];
  saves: number;
  /** The file holds something that is no plan. */
  spoilt: boolean;
  /** Replies that were moved to `outbox/read/`, or deleted; and those that were asked for again since. */
  read: Set<string>;
  deleted: Set<string>;
  again: Set<string>;
};

export const newHistory = (): SessionHistory => ({
  dropped: [],
  tokens: [],
  saves: 0,
  spoilt: false,
  read: new Set(),
  deleted: new Set(),
  again: new Set(),
});

/** A workspace as a person sees it, and what people did there. */
export type Ground = { root: string; executions: string; histories: Map<string, SessionHistory> };

export const folderOf = ({ root }: Ground, session: string) => sessionPaths(workspacePaths(root).session(session));
