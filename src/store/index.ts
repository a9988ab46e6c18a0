export { openCheckpoints } from './checkpoints/checkpoint-store.ts';
export { measureCheckpoints, trimToShare } from './checkpoints/prune.ts';
export { SessionInUse, sessionTokens } from './event-log/log-writers.ts';
export { removeStaging, replaceFile, syncFolder } from './fs/durable-write.ts';
export { createFolderId, watchFolderIdentity } from './fs/open-folder.ts';
export { CorruptLogError, FencedError } from './fs/store-errors.ts';
export { createUlidGenerator, dropMessage } from './inbox/sender.ts';
export {
  existingRootOf,
  instructionFiles,
  parentSessionOf,
  type SessionPaths,
  sessionPaths,
  type WorkspacePaths,
} from './layout/layout.ts';
export { openMemoryFile, openSkillStore, type SkillStore } from './notes/note-files.ts';
export { readSearchCorpus, readSessionWords } from './notes/search-corpus.ts';
export { listApprovalIds } from './session/approval-files.ts';
export { applyRetention } from './session/retention.ts';
export { openSessionFolder, type SessionFolderOptions } from './session/session-folder.ts';
export {
  type HotReloadedSettings,
  hotReloadSettings,
  type SettingsState,
} from './settings/hot-reload.ts';
export { checkConfig, checkSettings } from './settings/settings-check.ts';
export { openChildSessions } from './workspace/child-sessions.ts';
export { openWorkspace, readInstructions, type Workspace } from './workspace/workspace.ts';
