export { dropMessage } from './drop-message.ts';
export { RecordCorrupt } from './errors.ts';
export { type SessionPaths, sessionPaths, type WorkspacePaths } from './layout.ts';
export { type MemoryStore, memoryStore } from './memory.ts';
export { replaceFile } from './replace-file.ts';
export { openSessionFolder, type SessionOptions } from './session-folder.ts';
export { type Checked, checkConfig, checkSettings } from './settings.ts';
export { ulids } from './ulid.ts';
export { openWorkspace, type Workspace } from './workspace.ts';
